"""Task files that nobody wrote: lm-eval's requests and its numbers, whatever forms a file combines."""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.errors import AssaymarkError
from assaymark.models.fake import FakeModel
from assaymark.records import GenerateQuery, Output, Query, Request, RollingQuery
from tests.conftest import ROOT
from tests.parity.oracle import lm_evals_answers
from tests.parity.random_tasks import OF_LABELS, OF_NATS, OF_TEXTS, log_likelihood, write_task, written
from tests.recorded import recorded

pytest.importorskip("lm_eval")
pytestmark = [pytest.mark.oracle, pytest.mark.slow]

N = 100
RESAMPLED = {"own", *OF_LABELS, *OF_NATS, *OF_TEXTS}  # lm-eval's standard errors of these are drawn


class Hashing(FakeModel):
    """The same model as lm-eval's, which notes what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[Any]] = []

    def _compute(self, request: Request, query: Query, repeat: int, key: str) -> Output:
        context = "".join(request.segments)
        if isinstance(query, GenerateQuery):
            self.asked.append(["written", context, list(query.settings.stop), query.settings.max_tokens or 256])
            text = written(context, query.settings.stop, repeat)
            return Output(request.id, query.index, repeat, text=text, finish_reason="stop", cache_key=key)
        if isinstance(query, RollingQuery):
            self.asked.append(["rolling", query.text])
            nats, is_greedy = log_likelihood("rolling", "", query.text)[0], None
        else:
            context = context if query.segments is None else "".join(query.segments)
            self.asked.append(["choice", context, query.continuation])
            nats, is_greedy = log_likelihood("choice", context, query.continuation)
        return Output(request.id, query.index, repeat, total_nats=nats, is_greedy=is_greedy, cache_key=key)


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what lm-eval made of each seed's task file."""
    sources = [ROOT / "tests" / "parity" / name for name in ("run_lm_eval_random.py", "random_tasks.py")]
    folder = tmp_path_factory.mktemp("random")

    def ask() -> dict[str, Any]:
        answers = lm_evals_answers("run_lm_eval_random", {"n": N}, folder)
        return {
            seed: {**answer, "asked": _digest(answer["asked"])} if "asked" in answer else answer
            for seed, answer in answers.items()
        }

    return dict(recorded("lm_eval", ["random tasks", N], sources, ask, is_installed=True))


@pytest.mark.parametrize("seed", range(N))
def test_requests_and_numbers_are_lm_evals(seed: int, theirs: Mapping[str, Any], tmp_path: Path) -> None:
    """Every prompt, value and standard error; where lm-eval ends with an exception, we have a value or say why not."""
    options, model = write_task(tmp_path, seed), Hashing()
    expected = theirs[str(seed)]
    try:
        run = assaymark.evaluate(model, str(tmp_path / "drawn.yaml"), store=str(tmp_path / "store.sqlite"), **options)
    except AssaymarkError:
        assert "error" in expected
        return
    if "error" in expected:
        return
    assert _digest(sorted(map(json.dumps, model.asked))) == expected["asked"]
    ours = {}
    for each in run.estimates:
        if each.details["kind"] in {"task", "group"}:
            ours[f"{each.task},{each.metric},{each.filter}"] = each.details.get("lm_eval_value")
            ours[f"{each.task},{each.metric}_stderr,{each.filter}"] = each.details.get("lm_eval_stderr")
    for name, value in expected["values"].items():
        metric = name.split(",")[1].removesuffix("_stderr")
        if f"{metric}_stderr" not in name or metric not in RESAMPLED:
            assert ours[name] == (None if value is None or math.isnan(value) else pytest.approx(value)), name
    assert {name for name, value in ours.items() if value is not None} <= {*expected["values"]}


def _digest(asked: list[str]) -> str:
    return hashlib.sha256("\n".join(asked).encode()).hexdigest()
