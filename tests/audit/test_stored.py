"""Audits in the store: resumed, returned from the store, listed and shown separately from runs."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.audit.auditing import audit_contamination, audit_prompts
from assaymark.audit.contamination import ContaminationSettings
from assaymark.audit.option_orders import OrderSettings
from assaymark.audit.prompts import PromptAudit
from assaymark.audit.stored import restored
from assaymark.cli.main import main
from assaymark.errors import PlanError, StoreError, UnknownName, UsageError
from assaymark.models.create import create_model
from assaymark.models.fake import FakeModel
from assaymark.records import LoglikelihoodQuery, Output, Request
from assaymark.records.json_values import json_of
from assaymark.store import Store
from tests.tasks.folders import task_spec, write_rows, write_task

ROWS = [
    {
        "question": f"Which lamp of 100{i} is number {i}?",
        "choices": [f"red{i}", f"blue{i}", f"green{i}"],
        "answer": i % 3,
    }
    for i in range(16)
]
SHOTS = [{"question": f"Whose is lamp {i}?", "choices": ["mine", "yours", "theirs"], "answer": 1} for i in range(6)]
LETTERS = {
    "doc_to_text": "{{question}}\n{% for c in choices %}{{'ABC'[loop.index0]}}. {{c}}\n{% endfor %}Answer:",
    "doc_to_choice": ["A", "B", "C"],
}
SETTINGS = ContaminationSettings(("order", "options", "numbers"), OrderSettings(n_shards=6, n_shuffles=3))


class CountedModel(FakeModel):
    """A fake model that records its requests and is interrupted after a number of answers."""

    def __init__(self, n_until_killed: int | None = None) -> None:
        super().__init__()
        self.n_until_killed = n_until_killed
        self.requests: list[Request] = []
        self.n_answered = 0

    def answer(self, requests: Sequence[Request], **given: Any) -> Iterator[Output]:
        """Yield the fake answers until the interruption."""
        self.requests += requests
        for output in super().answer(requests, **given):
            if self.n_answered == self.n_until_killed:
                raise KeyboardInterrupt
            self.n_answered += 1
            yield output


@pytest.fixture
def task(tmp_path: Path) -> str:
    """Return a small multiple choice task with a pool of shots."""
    write_rows(tmp_path, ROWS, SHOTS)
    return str(write_task(tmp_path, task_spec("lamps")))


def run_audit(kind: str, model: CountedModel, task: str, store: Path, **options: Any) -> Any:
    """Run an audit of either kind in a store."""
    if kind == "prompts":
        return audit_prompts([model], task, store=str(store), **options)
    return audit_contamination(model, task, SETTINGS, store=str(store), **options)


@pytest.mark.parametrize("kind", ["prompts", "contamination"])
@pytest.mark.slow
def test_a_repeated_audit_requests_nothing(kind: str, task: str, tmp_path: Path) -> None:
    """The second time every number comes from the store and equals the first."""
    first, again = CountedModel(), CountedModel()
    result = run_audit(kind, first, task, tmp_path / "store.sqlite")
    assert first.n_answered > 100
    assert run_audit(kind, again, task, tmp_path / "store.sqlite") == result
    assert again.requests == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prompts", "contamination"])
def test_an_interrupted_audit_is_resumed(kind: str, task: str, tmp_path: Path) -> None:
    """After an interruption nothing is requested twice, and the numbers equal those of an uninterrupted audit."""
    whole = CountedModel()
    expected = run_audit(kind, whole, task, tmp_path / "whole.sqlite")
    killed, rest = CountedModel(whole.n_answered // 2), CountedModel()
    with pytest.raises(KeyboardInterrupt):
        run_audit(kind, killed, task, tmp_path / "store.sqlite")
    with Store.open(str(tmp_path / "store.sqlite")) as store:
        assert [row.status for row in store.audits()] == ["interrupted"]
    assert run_audit(kind, rest, task, tmp_path / "store.sqlite") == expected
    assert killed.n_answered + rest.n_answered == whole.n_answered
    with Store.open(str(tmp_path / "store.sqlite")) as store:
        assert store.verify() == []


def test_a_control_models_answers_are_stored_too(task: str, tmp_path: Path) -> None:
    """The control is an audit of its own in the store, and the same call returns the same result."""
    store = str(tmp_path / "store.sqlite")
    settings = ContaminationSettings(("numbers",))
    result = audit_contamination(FakeModel(), task, settings, control="fake", store=store)
    assert result[0].control_p is not None
    assert audit_contamination(FakeModel(), task, settings, control="fake", store=store) == result
    with Store.open(store) as opened:
        assert {row.plan.audit for row in opened.audits()} == {"contamination", "contamination, control"}


@pytest.mark.slow
def test_audits_are_listed_and_shown_separately_from_runs(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ls audits` lists the audit, `ls runs` does not, `show` prints it, and commands that need a run refuse it."""
    store = str(tmp_path / "store.sqlite")
    run = assaymark.evaluate("fake", task, store=store)
    lines: list[str] = []
    (actual,) = audit_prompts([FakeModel()], task, store=store, announce=lines.append)
    with Store.open(store) as opened:
        (audit,) = opened.audits()
        assert [row.run_id for row in opened.runs()] == [run.id]
        assert opened.run("last").run_id == run.id
    assert lines[-1].endswith(f"show it with: assaymark show {audit.short_id}")
    assert main(["ls", "audits", "--store", store]) == 0
    assert "prompts of lamps" in capsys.readouterr().out
    assert main(["show", audit.short_id, "--store", store, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["audits"]
    assert restored(PromptAudit, result) == actual
    assert main(["show", audit.short_id, "--store", store]) == 0
    assert "option orders: 16 samples" in capsys.readouterr().out
    assert main(["compare", run.short_id, audit.short_id, "--store", store]) == UsageError.exit_code
    assert f"is an audit (prompts), but this command takes a run; show it with: assaymark show {audit.short_id}" in (
        capsys.readouterr().err
    )


@pytest.mark.slow
def test_last_is_never_an_audit(task: str, tmp_path: Path) -> None:
    """A store that holds only audits has no last run."""
    audit_prompts([FakeModel()], task, store=str(tmp_path / "store.sqlite"))
    with Store.open(str(tmp_path / "store.sqlite")) as store, pytest.raises(UnknownName):
        store.run("last")


@pytest.mark.slow
def test_shots_have_each_variants_own_wording(task: str) -> None:
    """With two shots every variant's prompt has two solved examples in its own wording, and its lead once."""
    model = CountedModel()
    (result,) = audit_prompts([model], task, (), num_fewshot=2)
    assert result.num_fewshot == 2
    prompts = {each.task.partition(": ")[2]: each.prompt for each in model.requests if each.sample_index == 3}
    assert prompts["letters: (A)"].count("(B) yours") == 2
    assert prompts["letters: (A)"].count("Answer: (B)\n\nQuestion: ") == 2
    assert prompts["cloze: Q, A"].count("A: yours\n\nQ: ") == 2
    assert prompts["letters: A) instructed"].count("Choose the right answer.") == 1
    assert prompts["letters: A) instructed"].startswith("Choose the right answer.\n\nWhose is lamp")
    own = next(request for request in model.requests if request.task == "lamps" and request.sample_index == 3)
    assert own.n_shots == 2
    assert all(query.continuation.strip() for query in own.queries if isinstance(query, LoglikelihoodQuery))


def test_more_shots_than_rows_are_refused_before_any_request(task: str) -> None:
    """The rule and the message are those of a run."""
    model = CountedModel()
    with pytest.raises(PlanError, match="7 shots are to be drawn from 6 rows"):
        audit_prompts([model], task, num_fewshot=7)
    assert model.requests == []


def test_min_k_of_workers_is_refused_before_any_request(task: str, tmp_path: Path) -> None:
    """Requested by name it is an error with the remedy; without a choice of tests it is the one that is not run."""
    pytest.importorskip("torch")
    from assaymark.runs.demo import demo_model

    folder = str(demo_model("small"))
    store = tmp_path / "store.sqlite"
    with pytest.raises(UsageError, match="Min-K needs them token by token: use a local model without --workers"):
        audit_contamination(folder, task, ContaminationSettings(("options", "min-k")), workers=2, store=str(store))
    assert not store.exists()
    result = audit_contamination(FakeModel(), task, ContaminationSettings(order=SETTINGS.order), store=str(store))
    (untested,) = [test for test in result if test.test == "min-k"]
    assert untested.statistic is None
    assert "use a local model" in untested.notes[0]
    assert create_model("hf", {"pretrained": folder}, workers=2).n_workers == 2  # type: ignore[attr-defined]


def test_results_survive_storage_as_json() -> None:
    """`restored` returns tuples and None as they were."""
    stored = json.loads(json.dumps(json_of(((1, None), ("a", 2.5)))))
    assert restored(tuple[tuple[Any, Any], ...], stored) == ((1, None), ("a", 2.5))


@pytest.mark.parametrize(("kind", "value"), [(tuple[int, ...], 5), (PromptAudit, ["a"])])
def test_a_stored_result_of_another_form_is_an_error(kind: object, value: object) -> None:
    """It says what is stored, and how the store is checked."""
    with pytest.raises(StoreError, match="assaymark verify"):
        restored(kind, value)
