"""Runs whose answers are programs: HumanEval's real rows, from plan to estimate."""

import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import PlanError
from assaymark.models.fake import FakeModel
from assaymark.records import GenerateQuery, Output, Request
from assaymark.runs.execute import execute
from assaymark.runs.plan import PreparedRun, RunOptions, prepare
from assaymark.scoring.run_code import Unprotected, find_sandbox
from assaymark.settings import home_folder
from assaymark.statistics.pass_at_k import pass_at_k
from assaymark.store import SampleScoreRow, Store
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from tests.conftest import ROOT

FIXTURES = ROOT / "tests" / "fixtures" / "data"
Writer = Callable[[Mapping[str, Any]], str]


class Author(FakeModel):
    """A model that knows the solutions: it generates what a function returns for the sample's row."""

    def __init__(self, write: Writer, rows: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__()
        self.write = write
        self.rows = rows  # request id -> row

    def _compute(self, request: Request, query: Any, repeat: int, key: str) -> Output:
        assert isinstance(query, GenerateQuery)
        text = self.write(self.rows[request.id])
        return Output(request.id, query.index, repeat, text=text, finish_reason="stop", cache_key=key + text)


def prepared(name: str, data: Path, **options: Any) -> PreparedRun:
    """Return the plan of one task."""
    selection = Catalog.open(lm_eval=False).select([name])
    return prepare(selection, FakeModel(), RunOptions(bind=BindOptions(data_dir=data, **options)))


def scores(name: str, data: Path, write: Writer, **options: Any) -> list[SampleScoreRow]:
    """Run one task with a model that generates `write(row)`, and return the stored scores."""
    plan = prepared(name, data, **options)
    (bound,) = plan.bound
    rows = {bound.request(sample).id: sample.row for sample in bound.samples()}
    store = Store.open(str(home_folder() / f"{uuid.uuid4().hex}.sqlite"))  # all these models have one identity
    result = execute(plan, Author(write, rows), store)
    return list(store.scores(result.run_id))


def form_of(form: str, code: str | None) -> Writer:
    """Return a writer of this code, or of the row's own solution, formatted by `form`."""
    return lambda row: form.format(code or row["code"])


def needs_sandbox() -> None:
    """Skip where programs cannot be run."""
    result, why = find_sandbox()
    if result is None:
        pytest.skip(f"no sandbox here: {why}")


@pytest.mark.slow
def test_the_canonical_solutions_of_humaneval_all_pass(shared_dir: Path) -> None:
    """All 164 reference solutions pass their tests in the sandbox: pass@1 is exactly 1."""
    needs_sandbox()
    result = scores("humaneval", shared_dir / "data", lambda row: str(row["canonical_solution"]))
    assert [score.metric for score in result] == ["pass@1"] * 164
    assert [(score.sample_index, score.detail) for score in result if score.value != 1.0] == []


@pytest.mark.parametrize("broken", ["    pass\n", "    return undefined_name\n", "    import os; os._exit(0)\n"])
def test_broken_solutions_all_fail(shared_dir: Path, broken: str) -> None:
    """Bodies that do nothing, raise, or exit early pass none of the tests."""
    needs_sandbox()
    result = scores("humaneval", shared_dir / "data", lambda _: broken, limit=12)
    assert [score.value for score in result] == [0.0] * 12
    assert all(isinstance(score.detail, dict) and not score.detail["programs"][0]["passed"] for score in result)


def test_sixty_four_answers_give_every_pass_at_k(shared_dir: Path) -> None:
    """Two right answers among 64: pass@k is the chance that k of them include one, and each program is run once."""
    needs_sandbox()
    bound = prepared("humaneval_64", shared_dir / "data", limit=1).bound[0]
    assert [metric.name for metric in bound.metrics] == [f"pass@{k}" for k in (2, 8, 16, 32, 64)]
    (sample,) = bound.samples()
    request, right = bound.request(sample), str(sample.row["canonical_solution"])
    outputs = [Output(request.id, 0, i, text=right if i < 2 else "    pass\n") for i in range(64)]
    results = {score.metric: score.value for score in bound.score(request, sample, outputs)}
    assert results == pytest.approx({f"pass@{k}": pass_at_k(64, 2, k) for k in (2, 8, 16, 32, 64)})
    assert results["pass@64"] == 1.0


def test_an_instructed_answer_ends_with_its_code_block(shared_dir: Path) -> None:
    """Text after the closing fence is not a part of the program."""
    needs_sandbox()

    def chatty(row: Mapping[str, Any]) -> str:
        return f"{row['canonical_solution']}\n```\nThis is how it works: first (we) ..."

    result = scores("humaneval_instruct", shared_dir / "data", chatty, limit=4)
    assert [score.value for score in result] == [1.0] * 4


def test_mbpp_runs_the_answer_with_the_three_tests() -> None:
    """The reference solution passes and another function does not, in both variants of the task."""
    needs_sandbox()
    fenced = "\n{}\n```\nDone."
    for name, form in (("mbpp", "{}"), ("mbpp_instruct", fenced)):
        right = scores(name, FIXTURES, form_of(form, None), limit=3)
        assert {score.value for score in right} == {1.0}
        wrong = scores(name, FIXTURES, form_of(form, "def other(x):\n    return x"), limit=3)
        assert {score.value for score in wrong} == {0.0}


def test_the_plan_records_where_code_runs() -> None:
    """The sandbox is part of the plan; a task that runs no code has none."""
    needs_sandbox()
    sandbox = find_sandbox()[0]
    assert sandbox is not None
    assert prepared("mbpp", FIXTURES, limit=2).plan.code_runs_in == {"mbpp": sandbox.name}
    assert prepared("minerva_math_algebra", FIXTURES, limit=2).plan.code_runs_in is None


def test_without_a_sandbox_no_plan_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is refused before any request; if allowed explicitly, the plan records that there is none."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.delenv("ASSAYMARK_CODE_CONTAINER", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 1000)
    with pytest.raises(PlanError, match=r"task mbpp runs generated code.*bubblewrap.*--unsafe-code"):
        prepared("mbpp", FIXTURES)
    unsafe = prepared("mbpp", FIXTURES, confirm_unsafe_code=True)
    assert unsafe.plan.code_runs_in == {"mbpp": Unprotected().name}
