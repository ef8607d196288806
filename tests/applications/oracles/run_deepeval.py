"""Run in the environment of `deepeval.txt`: score the cases on standard input with DeepEval's own code.

Reads a JSON list of [match, whether arguments count, calls, expected calls]; writes the JSON list of scores. The score
is computed without a model; one that refuses is given, since DeepEval would look for a key of its own.
"""

import json
import os
import sys
from typing import Any

os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "1"

from deepeval.metrics import ToolCorrectnessMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, ToolCall, ToolCallParams


class NoModel(DeepEvalBaseLLM):  # type: ignore[misc]
    """A model that is never asked."""

    def load_model(self) -> None:
        """Load nothing."""

    def generate(self, *_: Any, **__: Any) -> str:
        """Refuse."""
        raise AssertionError("a model was asked")

    async def a_generate(self, *_: Any, **__: Any) -> str:
        """Refuse."""
        raise AssertionError("a model was asked")

    def get_model_name(self) -> str:
        """Return a name."""
        return "none"


def calls_of(values: list[dict[str, Any]]) -> list[ToolCall]:
    """Return tool calls."""
    return [ToolCall(name=each["name"], input_parameters=each["args"]) for each in values]


def score(match: str, has_arguments: bool, made: list[dict[str, Any]], expected: list[dict[str, Any]]) -> float:
    """Return DeepEval's score of a case."""
    metric = ToolCorrectnessMetric(
        should_exact_match=match == "exact",
        should_consider_ordering=match == "order",
        evaluation_params=[ToolCallParams.INPUT_PARAMETERS] if has_arguments else [],
        async_mode=False,
        model=NoModel(),
    )
    case = LLMTestCase(input="i", actual_output="o", tools_called=calls_of(made), expected_tools=calls_of(expected))
    return float(metric.measure(case, _show_indicator=False))


def main() -> None:
    """Score every case."""
    json.dump([score(*each) for each in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
