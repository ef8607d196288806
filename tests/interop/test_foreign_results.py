"""Results of other tools and of early versions, in small files of their formats, with or without samples."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.runs.exporting import Imported, import_run
from assaymark.store import Store
from tests.interop.test_other_tools import TOOLS, as_json_log, member

EARLY: dict[str, Any] = {
    "results": {
        "arc_challenge": {"acc": 0.42, "acc_stderr": 0.0144, "acc_norm": 0.45, "acc_norm_stderr": 0.0145},
        "wikitext": {"word_perplexity": 12.5, "bits_per_byte": 0.7},
    },
    "versions": {"arc_challenge": 0, "wikitext": 1},
    "config": {
        "model": "hf-causal",
        "model_args": "pretrained=someone/some-model,dtype=float16",
        "num_fewshot": 25,
        "no_cache": True,
        "limit": None,
        "description_dict": {},
    },
}
BOARD = {  # as the first Open LLM Leaderboard published them
    "results": {
        "all": {"acc": 0.5},
        "harness|arc:challenge|25": {"acc": 0.42, "acc_stderr": 0.0144},
        "harness|hellaswag|10": {"acc_norm": 0.8, "acc_norm_stderr": 0.004},
    },
    "versions": {"all": 0, "harness|arc:challenge|25": 0, "harness|hellaswag|10": 0},
    "config": {"model_name": "someone/some-model", "model_dtype": "torch.float16"},
}


def imported(folder: Path, path: Path) -> Imported:
    """Import the file or folder at a path into a store of the test's folder."""
    return import_run(str(folder / "store.sqlite"), path)


def written(file: Path, content: Any) -> Path:
    """Write JSON, and create the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))
    return file


def refused(capsys: pytest.CaptureFixture[str], folder: Path, path: Path) -> str:
    """Return the one-line error of a refused import; nothing is stored."""
    store = str(folder / "refused.sqlite")
    assert main(["import", str(path), "--store", store]) == 3
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert not Store.exists(store)
    return line


# ------------------------------------------------------------------------------------------- lm-eval before 0.4


def test_groups_in_a_circle_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A group that contains itself through another is one line that names the circle."""
    entry = {"alias": "t", "acc,none": 0.5}
    content = {"results": {"t": entry, "a": entry}, "group_subtasks": {"a": ["b", "t"], "b": ["a"]}, "versions": {},
               "configs": {"t": {"task": "t"}}, "config": {"model": "hf"}, "model_name": "x"}  # fmt: skip
    line = refused(capsys, tmp_path, written(tmp_path / "results_x.json", content))
    assert "group_subtasks has a group that contains itself" in line


def test_results_of_0_3_are_imported_without_samples(tmp_path: Path) -> None:
    """A file of results, versions and config has model, shots, values and errors, but no numbers of samples."""
    run = imported(tmp_path, written(tmp_path / "out.json", EARLY)).run
    assert run.row.plan.model.name == "someone/some-model"
    estimate = run.estimate("arc_challenge", "acc_norm")
    assert (estimate.value, estimate.stderr, estimate.n) == (0.45, 0.0145, 0)
    assert estimate.details["n_shots"] == 25
    assert estimate.details["unit"] == "proportion"
    assert run.estimate("wikitext", "bits_per_byte").details["unit"] == "plain"
    assert not run.estimate("wikitext", "word_perplexity").higher_is_better
    assert run.row.n_requests == 0


def test_a_folder_with_a_file_for_each_task_is_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of one model are combined; a task that two of them have is refused with both names."""
    results = EARLY["results"]
    for name in results:
        written(tmp_path / "model" / f"{name}.json", {**EARLY, "results": {name: results[name]}})
    run = imported(tmp_path, tmp_path / "model").run
    assert {estimate.task for estimate in run.estimates} == {"arc_challenge", "wikitext"}
    written(tmp_path / "model" / "again.json", EARLY)
    assert "import them one by one" in refused(capsys, tmp_path, tmp_path / "model")


def test_a_leaderboards_file_has_the_shots_of_each_task(tmp_path: Path) -> None:
    """In the Open LLM Leaderboard's files a task's name ends with its shots; the mean over all tasks is omitted."""
    run = imported(tmp_path, written(tmp_path / "results_2023-07-01.json", BOARD)).run
    shots = {estimate.task: estimate.details["n_shots"] for estimate in run.estimates}
    assert shots == {"harness|arc:challenge|25": 25, "harness|hellaswag|10": 10}
    assert run.row.plan.model.name == "someone/some-model"
    assert run.row.plan.model.dtype == "float16"


def test_an_invalid_number_of_0_3_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text instead of a number is refused with file, key and value."""
    file = written(tmp_path / "out.json", {**EARLY, "results": {"arc_challenge": {"acc": "high"}}})
    assert "results.arc_challenge.acc is 'high'; expected a number or null" in refused(capsys, tmp_path, file)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"num_fewshot": "five"}, "num_fewshot of arc_challenge is 'five'; expected an integer from 0 to 1,000,000"),
        ({"results": {"arc_challenge": {"acc": 10**400}}}, "results.arc_challenge.acc is 1000"),
    ],
)
def test_numbers_that_are_none_are_refused_in_early_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: dict[str, Any], message: str
) -> None:
    """A number of shots in words, and an integer beyond floats, are one line without Python's own error."""
    content = {**EARLY, "results": {"arc_challenge": {"acc": 0.5}}, **part}
    if "num_fewshot" in part:
        content["config"] = {**content.get("config", {}), **part}
    error = refused(capsys, tmp_path, written(tmp_path / "out.json", content))
    assert message in error
    assert "Error:" not in error


# ---------------------------------------------------------------------------------------------------- Inspect


def header(task: str = "capitals") -> dict[str, Any]:
    """Return the header of a real log."""
    result: dict[str, Any] = member(next(TOOLS["inspect"].glob(f"*_{task}_*")), "header.json")
    return result


def test_a_folder_of_inspects_json_logs_is_read(tmp_path: Path) -> None:
    """JSON logs in a folder are one run, as .eval files are."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for task in ("capitals", "sums"):
        as_json_log(folder, task, model="mockllm/model", first={"choice": {"value": "C"}})
    run = imported(tmp_path, folder).run
    assert {estimate.task for estimate in run.estimates} == {"capitals", "sums"}
    assert len(run.samples("capitals")) == 6


@pytest.mark.parametrize("without", ["samples absent", "samples null", "archive"])
def test_an_inspect_log_without_samples_shows_its_totals(tmp_path: Path, without: str) -> None:
    """A log with only its header has its values with n, and a note that they cannot be compared."""
    file = tmp_path / "log.json"
    if without == "archive":
        file = tmp_path / "log.eval"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("header.json", json.dumps(header()))
    else:
        written(file, {**header(), **({"samples": None} if "null" in without else {})})
    result = imported(tmp_path, file)
    (estimate,) = result.run.estimates
    reported = header()["results"]["scores"][0]["metrics"]["accuracy"]["value"]
    assert (estimate.value, estimate.n) == (reported, 6)
    assert estimate.low is not None
    assert any("has no samples" in note for note in result.notes)


def test_version_1_of_inspects_logs_is_read(tmp_path: Path) -> None:
    """The first version had its one scorer and its metrics in another place, and one score per sample."""
    old = {
        "version": 1,
        "status": "success",
        "eval": {"task": "old", "model": "mockllm/model", "created": "2024-05-01T10:00:00", "config": {},
                 "dataset": {"name": "questions", "samples": 2}},
        "plan": {"name": "plan", "steps": []},
        "results": {"scorer": {"name": "match", "params": {}},
                    "metrics": {"accuracy": {"name": "accuracy", "value": 0.5, "options": {}}}},
        "samples": [
            {"id": number, "epoch": 1, "input": f"{number} + 1?", "target": "2", "score": {"value": grade},
             "messages": [{"role": "user", "content": f"{number} + 1?"}],
             "output": {"choices": [{"message": {"role": "assistant", "content": "2"}, "stop_reason": "stop"}]}}
            for number, grade in ((1, "C"), (2, "I"))
        ],
    }  # fmt: skip
    result = imported(tmp_path, written(tmp_path / "old.json", old))
    assert result.notes == ()
    estimate = result.run.estimate("old", "match")
    assert (estimate.value, estimate.n) == (0.5, 2)
    assert [record.outputs[0].text for record in result.run.samples("old")] == ["2", "2"]


def test_a_log_of_an_aborted_run_is_read(tmp_path: Path) -> None:
    """An archive without a header has its start and its samples, and a note that samples may be missing."""
    file = tmp_path / "broken.eval"
    source = next(TOOLS["inspect"].glob("*_capitals_*"))
    with zipfile.ZipFile(source) as read:
        names = sorted(name for name in read.namelist() if name.startswith("samples/"))[:3]
    start = {key: header()[key] for key in ("version", "eval", "plan")}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("_journal/start.json", json.dumps(start))
        for name in names:
            archive.writestr(name, json.dumps(member(source, name)))
    result = imported(tmp_path, file)
    assert result.run.estimate("capitals", "choice").n == 3
    assert any("status started" in note for note in result.notes)


def two_logs(folder: Path, **changes: Any) -> None:
    """Write two logs of one task, the second with a changed spec."""
    folder.mkdir()
    as_json_log(folder, "capitals", model="mockllm/model", first={"choice": {"value": "I"}})
    (folder / "capitals.json").rename(folder / "first.json")
    second = json.loads((folder / "first.json").read_text())
    second["eval"] = {**second["eval"], "created": "2027-01-01T00:00:00", **changes.pop("eval", {})}
    (folder / "second.json").write_text(json.dumps({**second, **changes}))


def test_two_logs_of_one_task_with_other_arguments_are_two_tasks(tmp_path: Path) -> None:
    """The same task with other arguments, data or limits does not replace the first; the names are distinct."""
    two_logs(tmp_path / "logs", eval={"task_args": {"level": "hard"}})
    result = imported(tmp_path, tmp_path / "logs")
    names = {estimate.task for estimate in result.run.estimates}
    assert names == {"capitals (level=null)", "capitals (level=hard)"}
    assert all(len(result.run.samples(name)) == 6 for name in names)


def test_of_a_retried_log_the_completed_one_is_used(tmp_path: Path) -> None:
    """Of two logs of the same evaluation the completed one is used although it is older, and a note names the other."""
    two_logs(tmp_path / "logs", status="error")
    result = imported(tmp_path, tmp_path / "logs")
    assert {estimate.task for estimate in result.run.estimates} == {"capitals"}
    assert any("second.json (status error) is excluded" in note for note in result.notes)


# ----------------------------------------------------------------------------- EvalScope, AlpacaEval, OpenCompass


def report(model: str = "some-model") -> dict[str, Any]:
    """Return a report in EvalScope's layout."""
    subsets = [{"name": "easy", "score": 0.75, "num": 20}, {"name": "hard", "score": 0.25, "num": 20}]
    category = {"name": ["default"], "num": 40, "score": 0.5, "macro_score": 0.5, "subsets": subsets}
    return {
        "name": f"{model}@arc", "dataset_name": "arc", "dataset_pretty_name": "ARC", "dataset_description": "...",
        "model_name": model, "score": 0.5,
        "metrics": [{"name": "mean_acc", "num": 40, "score": 0.5, "macro_score": 0.5, "categories": [category]}],
    }  # fmt: skip


@pytest.mark.parametrize("named", ["", "reports", "reports/some-model", "reports/some-model/arc.json"])
def test_evalscopes_reports_are_read(tmp_path: Path, named: str) -> None:
    """A report has its metric and its subsets with their numbers of samples, from any of its folders."""
    place = tmp_path / "outputs"
    written(place / "reports" / "some-model" / "arc.json", report())
    run = imported(tmp_path, place / named).run
    assert {estimate.task: (estimate.value, estimate.n) for estimate in run.estimates} == {
        "arc": (0.5, 40), "arc/easy": (0.75, 20), "arc/hard": (0.25, 20),
    }  # fmt: skip
    assert run.row.plan.model.name == "some-model"
    assert all(each.low is not None and each.details["n_shots"] is None for each in run.estimates)


def annotation(number: int, preference: float | None) -> dict[str, Any]:
    """Return an annotation in AlpacaEval's layout."""
    return {
        "instruction": f"Write {number}.", "dataset": "helpful_base", "output_1": "one", "generator_1": "reference",
        "output_2": f"two {number}", "generator_2": "some-model", "annotator": "judge", "preference": preference,
    }  # fmt: skip


def alpaca(folder: Path, preferences: tuple[float | None, ...]) -> Path:
    """Write AlpacaEval's two files."""
    folder.mkdir()
    written(folder / "annotations.json", [annotation(i, entry) for i, entry in enumerate(preferences)])
    (folder / "leaderboard.csv").write_text(
        ",win_rate,standard_error,n_wins,n_wins_base,n_draws,n_total,discrete_win_rate,mode,avg_length,"
        "length_controlled_winrate,lc_standard_error\n"
        "some-model,62.5,23.9,2,1,1,4,62.5,community,300,55.0,1.5\nother,10.0,1.0,0,4,0,4,10.0,community,200,9.0,1.0\n"
    )
    return folder


@pytest.mark.parametrize("preference", [3, -1, 0.5])
def test_a_preference_outside_of_its_scale_is_refused(tmp_path: Path, preference: float) -> None:
    """Three of three answers would have won 133%."""
    with pytest.raises(DataError, match=f"annotation 1 has preference {preference:g}; expected 1 to 2, 0 for a draw"):
        imported(tmp_path, alpaca(tmp_path / "run", (2, preference, 1)))


def test_alpaca_evals_annotations_are_samples(tmp_path: Path) -> None:
    """Each comparison is a sample, a draw is half a win, and their mean is the leaderboard's win rate."""
    result = imported(tmp_path, alpaca(tmp_path / "run", (2, 1, 1.5, 2)))
    assert result.notes == ()
    estimate = result.run.estimate("alpaca_eval", "win_rate")
    assert (estimate.value, estimate.n) == (0.625, 4)
    controlled = result.run.estimate("alpaca_eval", "length_controlled_winrate")
    assert (controlled.value, controlled.stderr, controlled.n) == (0.55, 0.015, 4)
    assert controlled.details["unit"] == "proportion"
    assert [record.outputs[0].text for record in result.run.samples("alpaca_eval")] == [f"two {i}" for i in range(4)]


def test_a_comparison_without_a_preference_failed(tmp_path: Path) -> None:
    """A sample without the annotator's preference is counted as failed, not as lost."""
    folder = alpaca(tmp_path / "run", (2, None, 1))
    (folder / "leaderboard.csv").unlink()
    estimate = imported(tmp_path, folder).run.estimate("alpaca_eval", "win_rate")
    assert (estimate.value, estimate.n, estimate.n_failed) == (0.5, 2, 1)


def test_a_leaderboard_of_several_models_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A leaderboard with several models is not imported as one run."""
    file = alpaca(tmp_path / "run", (2,)) / "leaderboard.csv"
    (file.parent / "annotations.json").unlink()
    assert "logs of 2 models (other, some-model)" in refused(capsys, tmp_path, file)


SUMMARY = """dataset,version,metric,mode,some-model-hf
--------- Exam ---------,-,-,-,-
ceval,-,naive_average,gen,52.31
ARC-c,1e0de5,accuracy,gen,62.71
lambada,-,-,-,-
bleu_task,abc123,bleu,gen,0.9
"""


def test_opencompasss_summary_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines with a value are imported, an accuracy as a share of samples; columns of several models are refused."""
    file = tmp_path / "20240601_100000" / "summary" / "summary_20240601_100000.csv"
    file.parent.mkdir(parents=True)
    file.write_text(SUMMARY)
    run = imported(tmp_path, tmp_path / "20240601_100000").run
    assert {estimate.task: (estimate.metric, estimate.value, estimate.n) for estimate in run.estimates} == {
        "ceval": ("naive_average", 52.31, 0),
        "ARC-c": ("accuracy", pytest.approx(0.6271), 0),
        "bleu_task": ("bleu", 0.9, 0),
    }
    assert main(["show", "last", "--store", str(tmp_path / "store.sqlite")]) == 0
    assert "62.7%" in capsys.readouterr().out
    file.write_text(SUMMARY.replace("some-model-hf", "a,b"))
    assert "has 2 models (a, b); expected one" in refused(capsys, tmp_path, file)


# ------------------------------------------------------------------------------------------------ other formats


def other_json(folder: Path) -> Path:
    """Write JSON in no tool's format."""
    return written(folder / "scores.json", {"model": "x", "score": 3})


def other_list(folder: Path) -> Path:
    """Write a JSON list."""
    return written(folder / "answers.json", [{"question": "?", "answer": "!"}])


def other_csv(folder: Path) -> Path:
    """Write a table in no tool's format."""
    (folder / "scores.csv").write_text("model,score\nx,3\n")
    return folder / "scores.csv"


def other_folder(folder: Path) -> Path:
    """Make a folder with files in no tool's format."""
    (folder / "run").mkdir()
    (folder / "run" / "notes.txt").write_text("nothing")
    return folder / "run"


def folder_called_json(folder: Path) -> Path:
    """Make a folder that contains a folder with a file's name."""
    (folder / "run" / "results.d.json").mkdir(parents=True)
    return folder / "run"


def promptfoo(folder: Path) -> Path:
    """Write what promptfoo writes, whose results are not by task."""
    path = folder / "output.json"
    path.write_text(
        '{"evalId": "e", "results": {"version": 3, "results": [], "stats": {"successes": 1}}, "config": {}}'
    )
    return path


@pytest.mark.parametrize("made", [promptfoo, other_json, other_list, other_csv, other_folder, folder_called_json])
def test_the_error_for_an_unsupported_format_lists_the_supported_ones(
    made: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error for a file in no supported format is one line with all supported formats and a remedy."""
    line = refused(capsys, tmp_path, made(tmp_path))
    assert "is in no supported format" in line
    for tool in ("lm-eval", "lighteval", "Inspect", "HELM", "simple-evals", "EvalScope", "OpenCompass", "AlpacaEval"):
        assert tool in line
    assert '"results": {"TASK": {"acc": 0.5' in line


def test_a_table_that_cannot_be_parsed_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A CSV with a field that is too large to be parsed is refused in one line."""
    (tmp_path / "huge.csv").write_text("x" * 200_000 + ",y\n")
    assert "huge.csv cannot be read: field larger than field limit" in refused(capsys, tmp_path, tmp_path / "huge.csv")


def test_the_format_that_the_error_suggests_is_imported(tmp_path: Path) -> None:
    """The format that the error suggests for another tool can be imported."""
    content = {"results": {"TASK": {"acc": 0.5, "acc_stderr": 0.01}}, "config": {"model": "NAME"}}
    run = imported(tmp_path, written(tmp_path / "mine.json", content)).run
    assert run.estimate("TASK", "acc").value == 0.5
    assert run.row.plan.model.name == "NAME"
