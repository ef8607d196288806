"""Published results files of lm-eval 0.3 and 0.4 without samples."""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.runs.exporting import import_run
from assaymark.runs.run import Run

PAIR: dict[str, Any] = {
    "results": {
        "pair": {"alias": "pair", "acc,none": 0.6, "acc_stderr,none": 0.2},
        "easy": {"alias": " - easy", "acc,none": 0.4502, "acc_stderr,none": 0.0157, "word_perplexity,none": 12.5},
        "hard": {"alias": " - hard", "acc,none": 0.75, "acc_stderr,none": 0.25},
    },
    "groups": {"pair": {"alias": "pair", "acc,none": 0.6, "acc_stderr,none": 0.2}},
    "group_subtasks": {"pair": ["easy", "hard"], "easy": [], "hard": []},
    "configs": {
        "easy": {"task": "easy", "output_type": "multiple_choice", "metric_list": [{"metric": "acc"}]},
        "hard": {"task": "hard", "output_type": "multiple_choice"},
    },
    "versions": {"pair": 1, "easy": 1, "hard": 2},
    "n-shot": {"easy": 25, "hard": 0},
    "higher_is_better": {"easy": {"acc": True, "word_perplexity": False}},
    "n-samples": {"easy": {"original": 2000, "effective": 1003}, "hard": {"original": 4, "effective": 4}},
    "config": {"model": "hf", "model_args": "pretrained=someone/some-model,dtype=bfloat16", "bootstrap_iters": 0},
}


def imported(folder: Path, content: dict[str, Any], name: str = "results_2024-06-01T10-00-00.json") -> Run:
    """Import a file with this content."""
    (folder / name).write_text(json.dumps(content))
    return import_run(str(folder / "store.sqlite"), folder / name).run


def shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the words of each line of the table of the last run."""
    capsys.readouterr()
    assert main(["show", "last", "--store", str(folder / "store.sqlite")]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n-shot": {"easy": "five"}}, "n-shot.easy is 'five'; expected an integer from 0 to 1,000,000"),
        ({"n-shot": {"easy": 1e300}}, "n-shot.easy is 1e+300; expected an integer"),
        ({"n-shot": {"easy": -1}}, "n-shot.easy is -1; expected an integer"),
        ({"n-shot": [5]}, "n-shot is [5]; expected an object, or no such key"),
        ({"results": {"easy": {"acc,none": 10**400}}}, "results.easy.'acc,none' is 1000"),
        (
            {"results": {"easy": {"acc,none": 0.5, "acc_stderr,none": 10**400}}},
            "results.easy.'acc_stderr,none' is 1000",
        ),
        ({"n-samples": {"easy": {"original": 10**400}}}, "expected an integer from 0 to 1,000,000,000,000"),
    ],
)
def test_numbers_that_are_none_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], message: str
) -> None:
    """Shots in words and integers beyond floats are named with file, key and value, without Python's own error."""
    file = tmp_path / "results_2024-06-01T10-00-00.json"
    file.write_text(json.dumps({**PAIR, **changes}))
    assert main(["import", str(file), "--store", str(tmp_path / "store.sqlite")]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {file}: ")
    assert message in line
    assert "Error:" not in line
    assert len(line) < 400


def test_the_number_of_samples_is_the_files(tmp_path: Path) -> None:
    """The n of a task is `n-samples`, and of a group the sum over its tasks."""
    run = imported(tmp_path, PAIR)
    assert {estimate.task: estimate.n for estimate in run.estimates} == {"pair": 1007, "easy": 1003, "hard": 4}
    assert run.row.n_requests == 0


def test_values_are_shown_as_percentages_under_their_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An accuracy of 0.4502 is shown as 45.0% with interval and n under its group, a perplexity unchanged."""
    imported(tmp_path, PAIR)
    lines = shown(tmp_path, capsys)
    names = [line[0] for line in lines if line and line[0] in {"pair", "easy", "hard"}]
    assert names[:3] == ["pair", "easy", "hard"]
    assert ["easy", "acc", "25", "45.0%", "42.0–48.1", "1,003"] in [line[:6] for line in lines]
    assert any(line[:2] == ["word_perplexity", "12.50"] for line in lines)


def test_intervals_of_proportions_stay_in_their_bounds(tmp_path: Path) -> None:
    """An accuracy of 0.75 with a standard error of 0.25 has an interval inside [0, 1], and so has its group."""
    run = imported(tmp_path, PAIR)
    for task in ("pair", "easy", "hard"):
        estimate = run.estimate(task, "acc")
        assert estimate.low is not None
        assert estimate.high is not None
        assert 0.0 <= estimate.low < estimate.value < estimate.high <= 1.0  # type: ignore[operator]


def test_a_file_without_numbers_of_samples_shows_a_dash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If the file does not state the number of samples, tables show – and JSON has null, never 0."""
    content = {key: value for key, value in PAIR.items() if key != "n-samples"}
    run = imported(tmp_path, content)
    assert {estimate.n for estimate in run.estimates} == {0}
    easy = next(line for line in shown(tmp_path, capsys) if line[:1] == ["easy"])
    assert easy[3:6] == ["45.0%", "42.0–48.1", "–"]
    assert main(["show", "last", "--json", "--store", str(tmp_path / "store.sqlite")]) == 0
    assert {each["n"] for each in json.loads(capsys.readouterr().out)["estimates"]} == {None}
    assert "n = not stated" in str(run.estimate("easy", "acc"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model": "hf", "model_args": "pretrained=someone/some-model,dtype=float16"}, "someone/some-model"),
        ({"model": "hf", "model_args": {"dtype": "float16", "pretrained": "someone/some-model"}}, "someone/some-model"),
        ({"model": "local-completions", "model_args": "base_url=http://x/v1,model=theirs"}, "theirs"),
        ({"model": "hf", "model_args": None}, "hf"),
        ({}, "unknown"),
    ],
)
def test_the_model_of_an_early_file_is_in_its_arguments(tmp_path: Path, config: dict[str, Any], expected: str) -> None:
    """Before 0.4.3 a file has no model_name: the model is that of config.model_args."""
    run = imported(tmp_path, {**PAIR, "config": config})
    assert run.row.plan.model.name == expected


def test_a_later_files_own_model_name_is_used(tmp_path: Path) -> None:
    """If a file has a model_name, that is the model."""
    assert imported(tmp_path, {**PAIR, "model_name": "the/name"}).row.plan.model.name == "the/name"


def test_samples_of_the_first_0_4_versions_are_read(tmp_path: Path) -> None:
    """0.4.0 wrote results.json and each task's samples as one JSON list named after the model's arguments."""
    sample = {
        "doc_id": 0,
        "doc": {"question": "2 + 2?"},
        "target": "0",
        "arguments": [["2 + 2?", " 4"], ["2 + 2?", " 5"]],
        "resps": [[[-1.0, True]], [[-3.0, False]]],
        "filtered_resps": [[-1.0, True], [-3.0, False]],
        "acc": 1.0,
    }
    content = {
        "results": {"easy": {"acc,none": 0.5, "acc_stderr,none": 0.5}},
        "configs": {"easy": PAIR["configs"]["easy"]},
        "versions": {"easy": "Yaml"},
        "n-shot": {"easy": 0},
        "config": {"model": "hf", "model_args": "pretrained=someone/some-model", "bootstrap_iters": 0},
        "git_hash": "abc1234",
    }
    other = {**sample, "doc_id": 1, "doc": {"question": "2 + 3?"}, "target": "1", "acc": 0.0}
    (tmp_path / "results.json").write_text(json.dumps(content))
    logged = tmp_path / "pretrained__someone__some-model_easy.jsonl"
    logged.write_text(json.dumps([sample, other], indent=2))
    run = import_run(str(tmp_path / "store.sqlite"), tmp_path).run
    assert run.estimate("easy", "acc").n == 2
    records = run.samples("easy")
    assert [record.request.prompt for record in records] == ["2 + 2?", "2 + 2?"]
    assert [[output.total_nats for output in record.outputs] for record in records] == [[-1.0, -3.0]] * 2
    assert run.verify() == []


def test_of_two_results_in_a_folder_it_is_said_which_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The latest by its name is read, wherever it lies, and a note says so; a folder of one has no note."""
    for name, value in (("later/results_2026-11-20T10-00-00.json", 0.75), ("results_2026-11-19T10-00-00.json", 0.5)):
        file = tmp_path / "logs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {**PAIR, "results": {"easy": {"acc,none": value, "acc_stderr,none": 0.01}}, "groups": {},
                   "group_subtasks": {}, "configs": {"easy": PAIR["configs"]["easy"]}}  # fmt: skip
        file.write_text(json.dumps(content))
    store = ["--store", str(tmp_path / "s.sqlite")]
    assert main(["import", str(tmp_path / "logs"), *store]) == 0
    printed = capsys.readouterr()
    assert "75.0%" in printed.out
    note = " ".join(printed.err.split())
    assert "logs has 2 results, and later/results_2026-11-20T10-00-00.json, the latest by its name, was read" in note
    assert "logs/results_2026-11-19T10-00-00.json" in note
    assert main(["import", str(tmp_path / "logs" / "later"), *store, "--json"]) == 0
    assert "was read" not in " ".join(json.loads(capsys.readouterr().out)["notes"])
