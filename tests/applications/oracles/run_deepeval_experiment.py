"""Run in the environment of `deepeval.txt`: evaluate the shared application with DeepEval, without its server."""

import json
import os
import sys
from contextlib import redirect_stdout

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"

from deepeval import evaluate
from deepeval.evaluate.configs import AsyncConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase
from shared_application import DeepEvalOverlap, answer


class Overlap(DeepEvalOverlap, BaseMetric):  # type: ignore[misc]
    """The shared metric as DeepEval's own kind."""

    @property
    def __name__(self) -> str:
        return "DeepEvalOverlap"


def main() -> None:
    """Write the scores of each row; a row whose call fails makes no test case."""
    cases = []
    for row in json.load(sys.stdin):
        try:
            output = answer(row["inputs"])["answer"]
        except ValueError:
            continue
        question, expected = row["inputs"]["question"], row["expected"]["answer"]
        cases.append(LLMTestCase(input=question, actual_output=output, expected_output=expected, name=row["id"]))
    with redirect_stdout(sys.stderr):
        done = evaluate(
            test_cases=cases,
            metrics=[Overlap()],
            async_config=AsyncConfig(run_async=False),
            display_config=DisplayConfig(show_indicator=False, print_results=False),
        )
    scores = {each.name: {item.name: item.score for item in each.metrics_data} for each in done.test_results}
    sys.stdout.write("\n" + json.dumps(scores))


if __name__ == "__main__":
    main()
