"""One task in several prompt styles: separate runs, compared."""

import json
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import PlanError, UnknownName, UsageError
from assaymark.models.fake import FakeModel
from assaymark.runs.comparison import compare_runs
from assaymark.runs.prompt_styles import evaluate_prompt_styles
from assaymark.runs.reproduce import reproduce
from assaymark.runs.rescoring import RescoreOptions, rescore_run
from assaymark.store import Store
from assaymark.tasks.catalog import LIBRARY


@pytest.mark.slow
def test_each_style_and_number_of_shots_is_a_run() -> None:
    """Three styles at two numbers of shots are six runs of the same samples, each with its prompt style."""
    done = evaluate_prompt_styles(FakeModel(), "demo_facts", ["letter", "text", "cot"], [0, 2], limit=12)
    assert len({run.run.id for run in done.runs}) == 6
    hashes = {tuple(sample.request.sample_sha256 for sample in each.run.samples("demo_facts")) for each in done.runs}
    assert len(hashes) == 1
    assert [item.run.row.plan.prompt_style for item in done.runs[::2]] == ["letter", "text", "cot"]
    assert [result.run.row.plan.tasks[0].num_fewshot for result in done.runs] == [0, 2] * 3
    assert "prompt style cot" in " ".join(str(done.runs[4].run).split())


def test_the_table_has_intervals_unparsed_answers_and_differences() -> None:
    """A model that generates the letter for 8 of 10 samples and a wrong word otherwise has 20% unparsed answers."""
    done = evaluate_prompt_styles(FakeModel(mode="gold", accuracy=0.8), "demo_facts", ["cot", "text"], [1], limit=40)
    first, second = json.loads(json.dumps(done.to_json()))["lines"]
    assert (first["metric"], second["metric"]) == ("exact_match", "acc_norm")
    assert first["share_without_letter"] == pytest.approx(1 - first["value"])
    assert (first["low"] < first["value"] < first["high"], second["share_without_letter"]) == (True, None)
    assert first["difference"] is None
    assert second["difference"]["difference"] == pytest.approx(second["value"] - first["value"])
    assert second["difference"]["n"] == 40
    assert "no" in str(done.document())


@pytest.mark.slow
def test_truncated_prompts_have_a_column(tmp_path: Path) -> None:
    """If prompts exceed the model's context, the table has their share; else it has no such column."""
    arguments = {"pretrained": str(LIBRARY / "demo_models" / "small"), "max_length": 64}
    options: dict[str, Any] = {"model_args": arguments, "limit": 2, "store": str(tmp_path / "store.sqlite")}
    done = evaluate_prompt_styles("hf", "demo_facts", ["letter"], [0, 8], **options)
    first, second = json.loads(json.dumps(done.to_json()))["lines"]
    assert (first["share_of_prompts_cut"], second["share_of_prompts_cut"]) == (0.0, 1.0)
    assert "which lost tokens" in " ".join(str(done.document()).split())
    whole = evaluate_prompt_styles(FakeModel(), "demo_facts", ["letter", "text"], [0], limit=2)
    assert "truncated" not in str(whole.document())


def test_what_is_shown_is_what_is_compared() -> None:
    """Letters by acc and texts by acc_norm: values, difference, and the note of `compare` have the same numbers."""
    done = evaluate_prompt_styles(FakeModel(), "demo_facts", ["letter", "text"], [0], limit=30)
    first, second = json.loads(json.dumps(done.to_json()))["lines"]
    assert second["difference"]["difference"] == pytest.approx(second["value"] - first["value"])
    notes = compare_runs([run.run for run in done.runs]).pairs[0].notes
    assert any("acc of" in note and "is compared with acc_norm of" in note for note in notes)


def test_a_group_is_one_line() -> None:
    """A group's members have the same style, and the group has its mean and its difference in every style."""
    done = evaluate_prompt_styles(FakeModel(), "demo_letters", ["letter", "text", "cot"], [0], limit=5)
    lines = json.loads(json.dumps(done.to_json()))["lines"]
    assert [(line["name"], line["n"]) for line in lines] == [("demo_letters", 20)] * 3
    assert all(line["difference"] is not None for line in lines[1:])


@pytest.mark.slow
def test_the_own_style_sends_no_new_request() -> None:
    """In the style of its file, a task has its own prompts, and the stored outputs are reused."""
    own = assaymark.evaluate(FakeModel(), "demo_facts", limit=5)
    put = assaymark.evaluate(FakeModel(), "demo_facts", limit=5, prompt_style="text")
    assert put.id != own.id
    assert [each.request for each in put.samples("demo_facts")] == [item.request for item in own.samples("demo_facts")]
    assert all(output.from_cache for sample in put.samples("demo_facts") for output in sample.outputs)


@pytest.mark.slow
def test_a_styled_run_is_rescored_and_reproduced() -> None:
    """A run with a prompt style is reproduced from its plan, and its outputs can be rescored by the same task."""
    run = assaymark.evaluate(FakeModel(mode="gold"), "demo_facts", limit=5, prompt_style="cot")
    assert run.estimate("demo_facts", "exact_match").value == 1.0
    rescore_run(run, RescoreOptions(metrics=["{metric: exact_match, ignore_case: true}"]))
    assert run.estimate("demo_facts", "exact_match").value == 1.0
    letters = assaymark.evaluate(FakeModel(), "demo_facts", limit=5, prompt_style="letter")
    assert reproduce(letters).is_reproduced


@pytest.mark.parametrize(
    ("tasks", "ways", "error", "message"),
    [
        ("demo_stories", ["letter"], PlanError, "only multiple_choice can have style letter"),
        ("demo_truth", ["text"], PlanError, "scored by a function of its own"),
        ("demo_who", ["letter"], PlanError, "the choices are contexts"),
        ("suite:gpt4all", ["letter"], PlanError, "suite gpt4all fixes its prompt style"),
        ("demo_facts", ["leter"], UnknownName, "nearest: letter"),
        ("demo_facts", ["letter", "letter"], UsageError, "expected each style"),
    ],
)
def test_invalid_styles_and_tasks_are_refused(
    tasks: str, ways: list[str], error: type[Exception], message: str
) -> None:
    """Tasks of another kind, suites and mistyped styles are refused with a remedy."""
    with pytest.raises(error, match=message):
        evaluate_prompt_styles(FakeModel(), tasks, ways, [0], limit=2)


def test_numbers_of_shots_are_compared_on_tasks_of_any_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--num_fewshot 0,2` alone has a line for each number of shots, in the file's own wording; runs are ordinary."""
    command = ["run", "--model", "fake", "--tasks", "demo_sums,demo_facts", "--limit", "8", "--quiet"]
    store = ["--store", str(tmp_path / "s.sqlite")]
    assert main([*command, *store, "--num_fewshot", "0,2", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [(line["name"], line["num_fewshot"]) for line in content["lines"]] == [
        ("demo_sums", 0), ("demo_sums", 2), ("demo_facts", 0), ("demo_facts", 2),
    ]  # fmt: skip
    assert main([*command, *store, "--num_fewshot", "2", "--json"]) == 0
    assert content["runs"][1]["run_id"] == json.loads(capsys.readouterr().out)["run_id"]
    assert main([*command, *store, "--num_fewshot", "0,2", "--until", "± 3"]) == 2
    assert "one number of shots" in capsys.readouterr().err


def test_too_many_shots_are_refused_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 and 5 of 0,5,25 could be evaluated on eight rows; nothing is, and the number is the one that was typed."""
    rows = "".join(f"Which number is {n}?,{n},{n + 1},A\n" for n in range(8))
    (tmp_path / "few.csv").write_text(f"question,A,B,answer\n{rows}")
    store = str(tmp_path / "s.sqlite")
    words = ["run", "--model", "fake", "--tasks", str(tmp_path / "few.csv"), "--num_fewshot", "0,5,25"]
    assert main([*words, "--store", store, "--quiet"]) == 2
    assert "25 shots are to be drawn from 8 rows of which one is the sample itself" in capsys.readouterr().err
    assert not Store.exists(store) or not Store.open(store).runs()
