"""One application with scorers as each tool names their parameters: the tools and ours evaluate these same functions.

Nothing is imported but the standard library, since it runs in the environment of every tool.
"""

from typing import Any

__all__ = ["ROWS", "SCORERS", "DeepEvalOverlap", "answer", "answer_question", "braintrust_task", "langfuse_task"]

ROWS: list[dict[str, Any]] = [
    {"id": f"r{at}", "inputs": {"question": f"{37 * at} + {at % 4}"}, "expected": {"answer": str(37 * at + at % 4)}}
    for at in range(12)
]
FAILS = 7 * 37  # the first number of the row whose call raises


def answer(inputs: dict[str, Any]) -> dict[str, Any]:
    """Add two numbers, wrongly where the second is 3, in words where it is 2; fail for one row."""
    first, second = (int(each) for each in inputs["question"].split(" + "))
    if first == FAILS:
        raise ValueError("this row always fails")
    total = first + second + (1 if second == 3 else 0)
    return {"answer": f"It is {total}" if second == 2 else str(total)}


def answer_question(question: str) -> dict[str, Any]:
    """Be called with the inputs by name, as MLflow calls it."""
    return answer({"question": question})


def braintrust_task(input: dict[str, Any], hooks: Any) -> dict[str, Any]:  # noqa: A002
    """Be called as Braintrust calls a task."""
    return answer(input)


def langfuse_task(*, item: Any, **kwargs: Any) -> dict[str, Any]:
    """Be called as Langfuse calls a task."""
    return answer(item["input"])


def overlap(output: dict[str, Any], expected: dict[str, Any]) -> float:
    """Return the share of the longer text's characters that are the same at the same place."""
    first, other = output["answer"], expected["answer"]
    return float(sum(a == b for a, b in zip(first, other, strict=False)) / max(len(first), len(other)))


def short_enough(output: dict[str, Any]) -> bool | None:
    """Return None, which is not scored, for answers in words."""
    return None if output["answer"].startswith("It") else len(output["answer"]) < 3


def langsmith_exact(outputs: dict[str, Any], reference_outputs: dict[str, Any]) -> bool:
    """Compare, as LangSmith names the parameters."""
    return bool(outputs["answer"] == reference_outputs["answer"])


def langsmith_overlap(run: Any, example: Any) -> dict[str, Any]:
    """Return the overlap, from LangSmith's run and example."""
    return {"key": "langsmith_overlap", "score": overlap(run.outputs, example.outputs), "comment": "of characters"}


def braintrust_exact(input: Any, output: Any, expected: Any) -> bool:  # noqa: A002
    """Compare, as Braintrust names the parameters."""
    return bool(output == expected)


def braintrust_overlap(output: Any, expected: Any) -> float:
    """Return the overlap."""
    return overlap(output, expected)


def braintrust_short(output: Any) -> float | None:
    """Return whether it is short, None for words."""
    result = short_enough(output)
    return None if result is None else float(result)


def langfuse_exact(*, input: Any, output: Any, expected_output: Any, metadata: Any, **kwargs: Any) -> dict[str, Any]:  # noqa: A002
    """Compare, as Langfuse names the parameters."""
    return {"name": "langfuse_exact", "value": float(output == expected_output), "comment": "compared"}


def langfuse_overlap(*, output: Any, expected_output: Any, **kwargs: Any) -> dict[str, Any]:
    """Return the overlap."""
    return {"name": "langfuse_overlap", "value": overlap(output, expected_output)}


def mlflow_exact(outputs: Any, expectations: Any) -> bool:
    """Compare, as MLflow names the parameters."""
    return bool(outputs["answer"] == expectations["answer"])


def mlflow_overlap(*, inputs: Any, outputs: Any, expectations: Any) -> float:
    """Return the overlap."""
    return overlap(outputs, expectations)


class DeepEvalOverlap:
    """The overlap as a metric of DeepEval: `measure` sets score and reason."""

    threshold = 0.5
    async_mode = False
    score: float | None = None

    def measure(self, test_case: Any, *_: Any, **__: Any) -> float:
        """Measure one case."""
        self.score = overlap({"answer": test_case.actual_output}, {"answer": test_case.expected_output})
        self.reason = "of characters"
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case: Any, *_: Any, **__: Any) -> float:
        """Measure one case."""
        return self.measure(test_case)

    def is_successful(self) -> bool:
        """Return whether the last case passed."""
        return self.success


SCORERS = {
    "langsmith": (langsmith_exact, langsmith_overlap),
    "braintrust": (braintrust_exact, braintrust_overlap, braintrust_short),
    "langfuse": (langfuse_exact, langfuse_overlap),
    "mlflow": (mlflow_exact, mlflow_overlap),
}
