"""Run in the environment of `braintrust.txt`: evaluate the shared application with Braintrust, without its server."""

import json
import sys
from contextlib import redirect_stdout

from braintrust import Eval, EvalCase
from shared_application import SCORERS, braintrust_task


def main() -> None:
    """Write the scores of each row."""
    rows = json.load(sys.stdin)
    ids = {json.dumps(row["inputs"]): row["id"] for row in rows}
    with redirect_stdout(sys.stderr):
        done = Eval(
            "shared",
            data=[EvalCase(input=row["inputs"], expected=row["expected"]) for row in rows],
            task=braintrust_task,
            scores=list(SCORERS["braintrust"]),
            no_send_logs=True,
        )
    scores = {ids[json.dumps(each.input)]: dict(each.scores) for each in done.results}
    sys.stdout.write("\n" + json.dumps(scores))


if __name__ == "__main__":
    main()
