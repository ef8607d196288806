"""Rescoring of stored runs: new rows beside the old ones, no request to a model, and clear refusals."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import PlanError, RunBusy, UnknownName, UsageError
from assaymark.models.fake import FakeModel
from assaymark.records import GenerateQuery, Output, Request
from assaymark.runs.attempt import score_request
from assaymark.runs.rescoring import RescoreOptions, rescore_run
from assaymark.runs.run import Run
from assaymark.scoring.run_code import find_sandbox
from tests.conftest import ROOT

LAST = "{name: last, filter: [{function: regex, regex_pattern: '[0-9]+', group_select: -1}, {function: take_first}]}"
SUMS = """
task: sums
dataset_path: json
dataset_kwargs: {data_files: {test: sums.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "{{answer}}"
generation_kwargs: {until: ["\\n"]}
filter_list:
  - name: strict
    filter: [{function: regex, regex_pattern: "#### ([0-9]+)"}, {function: take_first}]
metric_list: [{metric: exact_match}]
"""


class Calculator(FakeModel):
    """Generates every sum's result, but after other numbers and without the marks that the strict filter expects."""

    def _compute(self, request: Request, query: object, repeat: int, key: str) -> Output:
        assert isinstance(query, GenerateQuery)
        assert self.n_requested <= 4
        return Output(request.id, query.index, repeat, text=f"{request.prompt} is {request.target}", cache_key=key)


def sums(folder: Path, text: str = SUMS) -> Path:
    """Write a task of four sums and return its file."""
    rows = [{"question": f"{n} plus {n}", "answer": str(2 * n)} for n in range(1, 5)]
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "sums.yaml").write_text(text)
    return folder / "sums.yaml"


def stored_sums(folder: Path) -> Run:
    """Return a finished run of the sums, whose strict filter found nothing."""
    return assaymark.evaluate(Calculator(), str(sums(folder)))


def options(folder: Path, **given: object) -> RescoreOptions:
    """Return options that read the task from this folder."""
    return RescoreOptions(include_path=[folder], **given)  # type: ignore[arg-type]


def test_another_filter_is_applied_to_stored_outputs(tmp_path: Path) -> None:
    """The new filter finds what the strict one did not; the old scores stay, and no request is sent."""
    run = stored_sums(tmp_path)
    outputs = [sample.outputs for sample in run.samples("sums")]
    result = rescore_run(run, options(tmp_path, filters=[LAST]))
    assert run.estimate("sums", "exact_match,strict").value == 0.0
    assert run.estimate("sums", "exact_match,last").value == 1.0
    assert run.estimate("sums").filter == "strict"  # what stands for the task is what did before
    assert (result.tasks[0].n_scored, result.tasks[0].n_failed, result.tasks[0].n_incomplete) == (4, 0, 0)
    assert [sample.outputs for sample in run.samples("sums")] == outputs


def test_the_run_stays_finished_and_intact(tmp_path: Path) -> None:
    """After rescoring the run is finished and verifies, and running it again sends no request."""
    run = stored_sums(tmp_path)
    before = run.row
    rescore_run(run, options(tmp_path, filters=[LAST]))
    after = run.row
    assert (after.status, after.n_scores - before.n_scores, after.n_attempts) == ("finished", 4, 2)
    assert run.verify() == []
    again = assaymark.evaluate(Calculator(), str(tmp_path / "sums.yaml"))
    assert again.result is not None
    assert again.result.was_stored
    assert again.estimate("sums", "exact_match,last").value == 1.0


def test_a_changed_task_file_and_the_way_back(tmp_path: Path) -> None:
    """Filters changed in the file are used; rescored with the old file the run's own scores are current again."""
    run = stored_sums(tmp_path)
    sums(tmp_path, SUMS.replace("#### ([0-9]+)", "([0-9]+)$"))
    result = rescore_run(run, options(tmp_path))
    assert run.estimate("sums", "exact_match,strict").value == 1.0
    assert "was 0.0000, is 1.0000" in "\n".join(result.lines())
    assert any("in place of the run's own exact_match under strict" in line for line in run.remarks())
    sums(tmp_path)
    rescore_run(run, options(tmp_path))
    assert run.estimate("sums", "exact_match,strict").value == 0.0
    assert not any("scored again" in line for line in run.remarks())
    assert run.row.n_scores == 8


def test_the_question_may_not_change(tmp_path: Path) -> None:
    """A file with another question is refused: the stored outputs belong to the old question."""
    run = stored_sums(tmp_path)
    sums(tmp_path, SUMS.replace("{{question}}", "What is {{question}}?"))
    with pytest.raises(PlanError, match="has another doc_to_text"):
        rescore_run(run, options(tmp_path))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"metrics": ["acc"]}, PlanError, "metric 'acc' is not known for generate_until"),
        ({"filters": ["strikt"]}, UnknownName, "nearest: strict"),
        ({"task_names": ["sum"]}, UnknownName, "nearest: sums"),
        ({"filters": ["{name: x"]}, UsageError, "--filter '{name: x' cannot be read"),
        ({"task_files": ["demo_facts"]}, UsageError, "none of the tasks in demo_facts is in run"),
    ],
)
def test_invalid_options_are_refused(
    tmp_path: Path, given: dict[str, list[str]], error: type[Exception], message: str
) -> None:
    """Errors for unknown names have the nearest ones, unsuitable metrics are refused, and nothing is written."""
    run = stored_sums(tmp_path)
    before = run.row.n_scores
    with pytest.raises(error, match=message):
        rescore_run(run, options(tmp_path, **given))
    assert (run.row.n_scores, run.row.status) == (before, "finished")


def test_multiple_choice_gets_another_normalisation() -> None:
    """Length in bytes instead of characters; metrics that need other queries, or texts, are refused."""
    run = assaymark.evaluate(FakeModel(), "demo_facts", limit=6)
    rescore_run(run, RescoreOptions(metrics=["acc_bytes"]))
    assert run.estimate("demo_facts", "acc_bytes").n == 6
    assert run.estimate("demo_facts", "acc_bytes").value == run.estimate("demo_facts", "acc_norm").value  # all ASCII
    with pytest.raises(PlanError, match="acc_mutual_info needs each choice's log-likelihood after an empty context"):
        rescore_run(run, RescoreOptions(metrics=["acc_mutual_info"]))
    with pytest.raises(PlanError, match="the step regex, which reads generated answers"):
        rescore_run(run, RescoreOptions(filters=[LAST]))


def test_stored_programs_are_run_again() -> None:
    """pass@1 of stored programs is the same as before; a comparison of texts is refused."""
    if find_sandbox()[0] is None:
        pytest.skip(f"no sandbox here: {find_sandbox()[1]}")
    run = assaymark.evaluate(FakeModel(), "mbpp", limit=2, data_dir=ROOT / "tests" / "fixtures" / "data")
    before = run.estimate("mbpp", "pass_at_1").value
    rescore_run(run, RescoreOptions(metrics=["pass_at_1"]))
    assert run.estimate("mbpp", "pass_at_1").value == before
    with pytest.raises(PlanError, match="its answers are programs"):
        rescore_run(run, RescoreOptions(metrics=["exact_match"]))


def test_failed_outputs_stay_failed(tmp_path: Path) -> None:
    """A failed output is not wrong with the new filter either."""
    run = assaymark.evaluate(FakeModel(fail=1.0), str(sums(tmp_path)))
    with pytest.raises(PlanError, match="has no answers for task sums"):
        rescore_run(run, options(tmp_path, filters=[LAST]))


def test_two_rescorings_at_once_are_refused(tmp_path: Path) -> None:
    """The error of the second has the process that is writing the run, which stays finished."""
    run = stored_sums(tmp_path)
    run.store.open_run(run.row.plan, facts={}, rescoring=True)
    with pytest.raises(RunBusy, match=rf"being written by process {os.getpid()} on .* since 20.* UTC"):
        rescore_run(run, options(tmp_path, filters=[LAST]))
    assert run.row.status == "finished"
    assert run.store.score_names(run.id, "sums") == [("strict", "exact_match")]


def test_an_interrupted_rescoring_does_not_change_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No partial scoring is stored, which comparisons would treat as complete."""
    run = stored_sums(tmp_path)
    calls = []

    def stopped(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return score_request(*given)

    monkeypatch.setattr("assaymark.runs.rescoring.score_request", stopped)
    with pytest.raises(KeyboardInterrupt):
        rescore_run(run, options(tmp_path, filters=[LAST]))
    assert run.row.status == "finished"
    assert run.store.score_names(run.id, "sums") == [("strict", "exact_match")]


KILLED = """
import os, signal, sys
from pathlib import Path
import assaymark.results.evidence.from_store as from_store
from assaymark.runs.rescoring import rescore_stored
from tests.runs.test_rescoring import LAST, options
from_store.save_summary_of = lambda *given: os.kill(os.getpid(), signal.SIGKILL)  # the commit is behind it
rescore_stored(sys.argv[1], "last", options(Path(sys.argv[2]), filters=[LAST]))
"""


def killed_rescoring(run: Run, folder: Path) -> str:
    """Rescore a stored run in a process that is killed right after its commit; return the store's path."""
    place = run.store.url.removeprefix("sqlite:///")
    command = [sys.executable, "-c", KILLED, place, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    return place


@pytest.mark.slow
def test_a_rescoring_killed_after_its_commit_is_finished_by_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`show` computes the estimates of a killed rescoring: the run is finished, intact and up to date."""
    run = stored_sums(tmp_path)
    place = killed_rescoring(run, tmp_path)
    assert [estimate.filter for estimate in run.estimates] == ["strict"]
    assert main(["show", "last", "--store", place]) == 0
    assert "last" in capsys.readouterr().out
    assert run.estimate("sums", "exact_match,last").value == 1.0
    assert run.row.status == "finished"
    assert [attempt["status"] for attempt in run.attempts()] == ["finished", "finished"]
    assert run.verify() == []
    assert "summary_due" not in run.row.extra


@pytest.mark.slow
def test_the_run_s_own_command_finishes_a_killed_rescoring(tmp_path: Path) -> None:
    """The same evaluation sends no request and computes the estimates of the killed rescoring."""
    killed_rescoring(stored_sums(tmp_path), tmp_path)
    again = assaymark.evaluate(Calculator(), str(tmp_path / "sums.yaml"))
    assert again.result is not None
    assert again.result.was_stored
    assert again.estimate("sums", "exact_match,last").value == 1.0


def test_a_run_whose_rescoring_was_killed_is_finished_by_the_next(tmp_path: Path) -> None:
    """A finished run that a kill left as running is finished again after the next rescoring."""
    run = stored_sums(tmp_path)
    killed = run.store.open_run(run.row.plan, facts={})
    score = next(iter(run.store.samples(run.id, "sums"))).scores[0]
    run.store.add_scores(run.id, [score], "sha256:" + "0" * 64)
    run.store.close_run(run.id, killed.attempt_id, "interrupted")
    assert run.row.status == "interrupted"
    rescore_run(run, options(tmp_path, filters=[LAST]))
    assert run.row.status == "finished"
    assert run.verify() == []
