"""Run in the environment of `langfuse.txt`: evaluate the shared application with Langfuse, without its server."""

import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

from langfuse import Evaluation, Langfuse
from shared_application import SCORERS, langfuse_task


def wrapped(function: Callable[..., Any]) -> Callable[..., Evaluation]:
    """Return an evaluator that returns Langfuse's own record."""

    def evaluate(**given: Any) -> Evaluation:
        return Evaluation(**function(**given))

    return evaluate


def main() -> None:
    """Write the scores of each row."""
    rows = json.load(sys.stdin)
    ids = {json.dumps(row["inputs"]): row["id"] for row in rows}
    client = Langfuse(public_key="none", secret_key="none", host="http://127.0.0.1:9", tracing_enabled=False)
    with redirect_stdout(sys.stderr):
        done = client.run_experiment(
            name="shared",
            data=[{"input": row["inputs"], "expected_output": row["expected"], "metadata": {}} for row in rows],
            task=langfuse_task,
            evaluators=[wrapped(each) for each in SCORERS["langfuse"]],
        )
    scores = {
        ids[json.dumps(each.item["input"])]: {evaluation.name: evaluation.value for evaluation in each.evaluations}
        for each in done.item_results
    }
    sys.stdout.write("\n" + json.dumps(scores))


if __name__ == "__main__":
    main()
