"""Run in the environment of `langsmith.txt`: evaluate the shared application with LangSmith, without its server."""

import json
import sys
import uuid
from typing import Any

from langsmith import Client, evaluate
from langsmith.schemas import Example
from shared_application import SCORERS, answer


def main() -> None:
    """Write the scores of each row."""
    ids: dict[Any, str] = {}
    examples = []
    for row in json.load(sys.stdin):
        example = Example(id=uuid.uuid4(), inputs=row["inputs"], outputs=row["expected"], dataset_id=uuid.uuid4())
        ids[example.id] = row["id"]
        examples.append(example)
    client = Client(api_key="none", api_url="http://127.0.0.1:9")
    results = evaluate(
        answer, data=examples, evaluators=list(SCORERS["langsmith"]), upload_results=False, client=client
    )
    scores = {
        ids[result["example"].id]: {each.key: each.score for each in result["evaluation_results"]["results"]}
        for result in results
    }
    sys.stdout.write("\n" + json.dumps(scores))


if __name__ == "__main__":
    main()
