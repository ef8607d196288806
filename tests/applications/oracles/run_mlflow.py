"""Run in the environment of `mlflow.txt`: evaluate the shared application with MLflow, on SQLite in this folder."""

import json
import math
import os
import sys
from contextlib import redirect_stdout

os.environ["MLFLOW_DISABLE_TELEMETRY"] = os.environ["DO_NOT_TRACK"] = "true"
os.environ["MLFLOW_GENAI_EVAL_SKIP_TRACE_VALIDATION"] = "true"  # the validation calls the function once more

import mlflow
from mlflow.genai.scorers import scorer
from shared_application import SCORERS, answer_question


def main() -> None:
    """Write the scores of each row."""
    rows = json.load(sys.stdin)
    ids = {row["inputs"]["question"]: row["id"] for row in rows}
    with redirect_stdout(sys.stderr):
        mlflow.set_tracking_uri("sqlite:///mlflow.db")
        mlflow.set_experiment("shared")
        done = mlflow.genai.evaluate(
            data=[{"inputs": row["inputs"], "expectations": row["expected"]} for row in rows],
            predict_fn=mlflow.trace(answer_question),
            scorers=[scorer(each) for each in SCORERS["mlflow"]],
        )
    scores = {}
    for record in done.result_df.to_dict("records"):
        request = record["request"] if isinstance(record["request"], dict) else json.loads(record["request"])
        scores[ids[request["question"]]] = {
            each.__name__: None if value is None or (isinstance(value, float) and math.isnan(value)) else float(value)
            for each in SCORERS["mlflow"]
            for value in [record.get(f"{each.__name__}/value")]
        }
    sys.stdout.write("\n" + json.dumps(scores))


if __name__ == "__main__":
    main()
