"""Comparison of a stored run with published results."""

import json
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import ModelUnavailable, UnknownName, UsageError
from assaymark.runs.exporting import import_run
from assaymark.runs.measured_claims import MeasuredClaim, measure_reported
from assaymark.runs.published import Claim, compare_published, parse_claim
from assaymark.runs.run import Run
from assaymark.statistics.groups import compare_shares


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a small finished run of the fake model."""
    return assaymark.evaluate("fake", ["demo_who"], limit=20, store=str(tmp_path / "store.sqlite"))


def test_a_claim_is_parsed() -> None:
    """Task, metric, value, shots, n and source are parsed; a percentage becomes a share."""
    text = "arc_challenge acc=0.328 shots=25 n=1,172 source=https://x.org/?a=b"
    assert parse_claim(text) == Claim("arc_challenge", "acc", 0.328, 1172, 25, "https://x.org/?a=b")
    assert parse_claim("t acc_norm=32.8%").value == pytest.approx(0.328)


@pytest.mark.parametrize("text", ["", "t", "t acc", "t acc=1 f1=1", "t acc=32.8", "t acc=x", "t acc=0.5 n=0", "t n=3"])
def test_an_invalid_claim_is_refused(text: str) -> None:
    """A missing value, two values, a percentage without its sign and invalid counts are each refused."""
    with pytest.raises(UsageError):
        parse_claim(text)


def test_the_test_is_the_unpaired_one(run: Run, tmp_path: Path) -> None:
    """Difference, interval and p are those of two independent shares; run minus claim."""
    estimate = run.estimate("demo_who", "acc")
    value = estimate.details["lm_eval_value"]
    assert isinstance(value, float)
    (result,) = compare_published(str(tmp_path / "store.sqlite"), "last", ["demo_who acc=0.9 n=1000 shots=0"])
    expected = compare_shares(900, 1000, round(value * 20), 20)
    assert result.comparison == expected
    assert result.comparison.difference == pytest.approx(value - 0.9)
    assert "differs significantly from" in result.verdict
    (result,) = compare_published(str(tmp_path / "store.sqlite"), "last", [f"demo_who acc={value} n=20 shots=0"])
    assert "is not significantly different from" in result.verdict
    assert result.comparison.p == 1.0


def test_differences_in_the_set_up_are_listed(run: Run, tmp_path: Path) -> None:
    """Fewer samples, and facts that the claim does not state, are listed under the verdict."""
    store = str(tmp_path / "store.sqlite")
    (result,) = compare_published(store, run.id, ["demo_who acc=0.3 shots=25 n=1000"])
    assert result.set_up == ("samples: 20 in this run, 1,000 in the claim",)
    (result,) = compare_published(store, run.id, ["demo_who acc=0.3"])
    assert any("not stated in the claim; assumed to be the whole split" in line for line in result.set_up)


def test_other_shots_are_not_comparable(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result with other shots is reported as not comparable, without a p."""
    store = str(tmp_path / "store.sqlite")
    claim = "demo_who acc=0.3 shots=25 n=1000"
    assert main(["compare", run.id, "--published", claim, "--store", store]) == 0
    said = capsys.readouterr().out
    assert said.startswith("not comparable: shots 0 against 25: demo_who acc is ")
    assert "p =" not in said
    assert main(["compare", run.id, "--published", claim, "--store", store, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["p"] is None
    assert result["not_comparable"] == "shots 0 against 25"


def test_claims_are_stored_with_the_run(run: Run, tmp_path: Path) -> None:
    """A claim and its source are stored with the run once; estimates stay, and the store verifies."""
    before = run.estimates
    for _ in range(2):
        compare_published(str(tmp_path / "store.sqlite"), "last", ["demo_who acc=0.3 n=100 source=paper"])
    kept = run.row.extra["claims"]
    assert [(each["task"], each["value"], each["source"]) for each in kept] == [("demo_who", 0.3, "paper")]
    assert run.estimates == before
    assert run.verify() == []


def test_unknown_tasks_and_two_runs_are_refused(run: Run, tmp_path: Path) -> None:
    """The error for a task that was not run has the run's tasks, and two runs are refused."""
    store = str(tmp_path / "store.sqlite")
    with pytest.raises(UnknownName):
        compare_published(store, "last", ["demo_whom acc=0.3 n=100"])
    assert main(["compare", run.id, run.id, "--published", "demo_who acc=0.3 n=9", "--store", store]) == 2


def test_the_command_prints_text_and_json(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`compare RUN --published` prints a verdict, and its numbers as JSON."""
    words = ["compare", run.id, "--published", "demo_who acc=0.3 n=100 source=URL", "--store"]
    assert main([*words, str(tmp_path / "store.sqlite")]) == 0
    assert "published 30.0% of 100" in capsys.readouterr().out
    assert main([*words, str(tmp_path / "store.sqlite"), "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["claim"]["source"] == "URL"
    assert result["low"] < result["difference"] < result["high"]


def reported(tmp_path: Path, *results: str, entries: str = "") -> Run:
    """Store a run that reports these results of a model card, and these entries, of a model `acme/tiny`."""
    place = tmp_path / "acme" / "tiny"
    (place / ".eval_results").mkdir(parents=True)
    if entries:
        (place / ".eval_results" / "x.yaml").write_text(entries)
    lines = "".join(f"  - {result}\n" for result in results)
    if results:
        (place / "README.md").write_text(f"---\nmodel-index:\n- name: tiny\n  results:\n{lines}---\n")
    return import_run(str(tmp_path / "store.sqlite"), place).run


def card(task: str, value: float, more: str = "") -> str:
    """Return one result of a model card."""
    return f"{{dataset: {{type: x/y, name: {task}{more}}}, metrics: [{{type: acc, value: {value}}}]}}"


def of_fake(run: Run, *tasks: str) -> list[MeasuredClaim]:
    """Measure what a run reports by the fake model, in the run's own store."""
    store = Path(str(run.store.url).removeprefix("sqlite:///"))
    return measure_reported(run, tasks, "fake", model_args={"accuracy": 0.5}, store=str(store))


def test_a_reported_value_is_held_against_a_measured_one(tmp_path: Path) -> None:
    """Its task is run here and stored; the interval covers the value or not, and what is not stated is listed."""
    measured = assaymark.evaluate("fake", "demo_who", model_args={"accuracy": 0.5}, store=str(tmp_path / "s.sqlite"))
    own = measured.estimate("demo_who", "acc")
    assert own.value is not None
    near, far = round(100 * own.value, 1), 1.5
    for value, covered in ((near, True), (far, False)):
        run = reported(tmp_path / str(value), card("demo_who", value))
        (claim,) = of_fake(run)
        assert (claim.measured.value, claim.measured.low, claim.measured.high) == (own.value, own.low, own.high)
        assert claim.is_reproduced is covered
        assert ("reproduced, the interval covers it" in claim.verdict) is covered
        assert claim.verdict.startswith(f"demo_who acc: {value:.1f}% reported, ")
        assert claim.not_stated == (
            "shots (0 here)", f"number of rows ({own.n} here)", "revision of the data set (not known here)",
        )  # fmt: skip
        assert run.store.run(claim.run_id).tasks == ("demo_who",)
        assert claim.command == "assaymark run --model fake --model_args accuracy=0.5 --tasks demo_who"


def test_each_value_is_measured_with_the_shots_that_it_states(tmp_path: Path) -> None:
    """Those of a card's arguments; values without any are run with the task's own."""
    run = reported(tmp_path, card("demo_facts", 25, ", args: {num_few_shot: 2}"), card("demo_who", 50))
    by_task = {claim.reported.task: claim for claim in of_fake(run)}
    assert {task: claim.measured.details["n_shots"] for task, claim in by_task.items()} == {
        "demo_facts": 2, "demo_who": 0,
    }  # fmt: skip
    assert not any(line.startswith("shots") for line in by_task["demo_facts"].not_stated)
    assert by_task["demo_facts"].command.endswith("--tasks demo_facts --num_fewshot 2")


def test_a_registered_benchmark_is_run_as_its_notes_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Shots and filter of notes such as our own export writes are taken; other rows than the record's are said."""
    rows = tmp_path / "data" / "openai" / "gsm8k" / "main"
    rows.mkdir(parents=True)
    for split in ("train", "test"):
        lines = [json.dumps({"question": f"{split} {n}+1?", "answer": f"So #### {n + 1}"}) for n in range(12)]
        (rows / f"{split}.jsonl").write_text("\n".join(lines))
    entry = "- dataset: {id: openai/gsm8k, task_id: gsm8k, revision: abc}\n  value: 96.8\n  notes: "
    run = reported(tmp_path, entries=f"{entry}3-shot, flexible-extract\n")
    words = ["reproduce", run.id, "--model", "fake", "--data_dir", str(tmp_path / "data"), "--store"]
    assert main([*words, str(tmp_path / "store.sqlite"), "--json"]) == 1
    (claim,) = json.loads(capsys.readouterr().out)
    assert (claim["measured_task"], claim["filter"], claim["n"]) == ("gsm8k", "flexible-extract", 12)
    assert claim["set_up"] == ["revision of the data set: abc reported, not known here"]
    assert claim["not_stated"] == ["number of rows (12 here)"]
    assert "--num_fewshot 3" in claim["command"]
    assert main([*words, str(tmp_path / "store.sqlite")]) == 1
    said = capsys.readouterr().out
    assert "96.8% reported, 0.0% measured (95% interval 0.0–" in said
    assert "asked by: assaymark run --model fake --tasks gsm8k --num_fewshot 3 --data_dir" in said


def test_what_cannot_be_measured_is_one_line(tmp_path: Path) -> None:
    """A task that is not known here, with those that may be meant; a model that is only a name; another task's run."""
    unknown = reported(
        tmp_path / "a", entries="- dataset: {id: Idavidrein/gpqa, task_id: gpqa_diamond}\n  value: 41.2\n"
    )
    with pytest.raises(UsageError, match=r"\(gpqa_diamond\); say which to run with --tasks, such as gpqa_diamond_cot"):
        of_fake(unknown)
    named = reported(tmp_path / "b", card("demo_who", 50))
    with pytest.raises(ModelUnavailable, match=r"acme/tiny': no config\.json .*: say which it is with --model"):
        measure_reported(named, store=str(tmp_path / "b" / "store.sqlite"))
    with pytest.raises(UsageError, match=f"none of the values that run {named.short_id} reports: demo_who acc"):
        of_fake(named, "demo_truth")


def test_a_run_with_answers_takes_no_other_model(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its plan has its model."""
    assert main(["reproduce", run.id, "--model", "fake", "--store", str(tmp_path / "store.sqlite")]) == 2
    assert "this one has its model in its plan" in capsys.readouterr().err
