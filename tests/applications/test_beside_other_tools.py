"""The same function, rows and scorers give the same scores in other tools as here.

LangSmith, Braintrust, Langfuse, MLflow and DeepEval evaluate `shared_application` with their own code, without their
servers; we evaluate the same functions, unchanged.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assaymark
from tests.applications.oracles import shared_application as shared
from tests.applications.oracles.locked import needs_oracle, oracle

FAILING = next(row["id"] for row in shared.ROWS if row["inputs"]["question"].startswith(f"{shared.FAILS} "))


def ours(target: Callable[..., Any], scorers: list[Any]) -> dict[str, dict[str, float | None]]:
    """Return our scores of each row; None: not scored, or the call failed."""
    run = assaymark.evaluate(target, shared.ROWS, scorers=scorers)
    names = {each.metric for each in run.estimates} - {"latency_s"}
    return {
        str(sample.sample.row["id"]): {each.metric: each.value for each in sample.scores if each.metric in names}
        for sample in run.samples("rows")
        if sample.sample is not None
    }


@pytest.mark.parametrize(
    ("tool", "target", "scorers", "script"),
    [
        pytest.param(tool, target, scorers, script, marks=needs_oracle(tool), id=tool)
        for tool, target, scorers, script in (
            ("langsmith", shared.answer, shared.SCORERS["langsmith"], None),
            ("braintrust", shared.braintrust_task, shared.SCORERS["braintrust"], None),
            ("langfuse", shared.langfuse_task, shared.SCORERS["langfuse"], None),
            ("mlflow", shared.answer_question, shared.SCORERS["mlflow"], None),
            ("deepeval", shared.answer, (shared.DeepEvalOverlap(),), "run_deepeval_experiment.py"),
        )
    ],
)
def test_scores_are_those_of_the_tool(
    tool: str, target: Callable[..., Any], scorers: tuple[Any, ...], script: str | None, tmp_path: Path
) -> None:
    """Row by row; where the call failed no tool has a score, and neither have we."""
    theirs = oracle(tool, shared.ROWS, tmp_path, script)
    result = ours(target, list(scorers))
    assert set(result) == {row["id"] for row in shared.ROWS}
    for name, scores in result.items():
        other = theirs.get(name, {})
        if name == FAILING:
            assert {*scores.values(), *other.values()} <= {None}
            continue
        assert {each: None if value is None else float(value) for each, value in other.items()} == pytest.approx(scores)
    assert len({value for scores in result.values() for value in scores.values()}) > 3
