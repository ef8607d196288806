"""Results of a run as `.eval_results` of a model's folder, read back by huggingface_hub's own functions."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import assaymark
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.interop.hub_benchmarks import HubTask
from assaymark.runs import hub_export
from assaymark.runs.hub_export import HubExport, export_to_hub
from assaymark.runs.run import Run

N = 12
LOCAL = "quiz: no commit is known of its rows, as of a local copy's, and they must be acme/quiz (default, test)"
QUIZ = HubTask("acme/quiz", "quiz", "default", "test", N, "share", "acc")
TASK = """\
task: {name}
dataset_path: {dataset}
{config}test_split: {split}
output_type: multiple_choice
num_fewshot: {shots}
doc_to_text: "{{{{question}}}} ="
doc_to_choice: ["1", "2", "3"]
doc_to_target: "{{{{answer}}}}"
metric_list:
  - {{metric: {metric}, aggregation: mean, higher_is_better: true}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a registered benchmark's data and tasks of it; two of them are parts of it in a group."""
    monkeypatch.setattr("assaymark.interop.hub_benchmarks.HUB_TASKS", (QUIZ,))
    rows = [{"question": f"question {i}", "answer": i % 3, "part": i % 2} for i in range(N)]
    for config, split in (("default", "test"), ("default", "dev"), ("hard", "test")):
        file = tmp_path / "data" / "acme" / "quiz" / config / f"{split}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    other = tmp_path / "data" / "acme" / "exam" / "default" / "test.jsonl"
    other.parent.mkdir(parents=True)
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = {"dataset": "acme/quiz", "config": "", "split": "test", "shots": 0, "metric": "acc"}
    for name, changes in {
        "quiz": {}, "quiz_hard": {"config": "dataset_name: hard\n"}, "quiz_dev": {"split": "dev"},
        "exam": {"dataset": "acme/exam"}, "quiz_norm": {"metric": "acc_norm"},
    }.items():  # fmt: skip
        (tmp_path / f"{name}.yaml").write_text(TASK.format(**{**plain, "name": name, **changes}))
    (tmp_path / "parts.py").write_text(
        "def even(rows):\n    return rows.filter(lambda row: row['part'] == 0)\n\n\n"
        "def odd(rows):\n    return rows.filter(lambda row: row['part'] == 1)\n"
    )
    for part in ("even", "odd"):
        text = TASK.format(**{**plain, "name": f"quiz_{part}"})
        (tmp_path / f"quiz_{part}.yaml").write_text(f"{text}process_docs: !function parts.{part}\n")
    (tmp_path / "whole.yaml").write_text(
        "group: whole\ntask: [quiz_even, quiz_odd]\n"
        "aggregate_metric_list:\n  - {metric: acc, aggregation: mean, weight_by_size: true}\n"
    )
    return tmp_path


def run_of(folder: Path, *tasks: str, **options: Any) -> Run:
    """Return a run of tasks of the folder."""
    return assaymark.evaluate(
        "fake", list(tasks), store=str(folder / "store.sqlite"), data_dir=str(folder / "data"),
        include_path=[str(folder)], **options,
    )  # fmt: skip


def entries_in(file: Path) -> list[Any]:
    """Return the entries of a file as huggingface_hub reads them."""
    hub = pytest.importorskip("huggingface_hub")
    parsed: list[Any] = hub.parse_eval_result_entries(yaml.safe_load(file.read_text()))
    return parsed


def exported(run: Run, folder: Path, **options: Any) -> HubExport:
    """Export into the folder `model`."""
    return export_to_hub(run, folder / "model", **options)


def test_a_whole_benchmark_becomes_an_entry_that_the_hub_reads(folder: Path) -> None:
    """Data set, task, value in the leaderboard's unit, date, source and notes come back from huggingface_hub."""
    run = run_of(folder, "quiz")
    export = exported(run, folder, source="https://example.org/logs")
    (file,) = export.files
    (entry,) = entries_in(file.path)
    assert file.path == folder / "model" / ".eval_results" / "quiz_0_shot.yaml"
    assert (entry.dataset_id, entry.task_id, entry.notes) == ("acme/quiz", "quiz", "0-shot")
    assert entry.value == round(run.estimate("quiz").value or 0.0, 4)
    assert entry.date == run.row.updated_at[:19] + "Z"
    assert (entry.source_url, entry.dataset_revision) == ("https://example.org/logs", None)
    assert file.result.benchmark.unit in str(export.document())
    assert export.faults == (LOCAL,)


def test_a_group_over_all_rows_is_one_entry(folder: Path) -> None:
    """The tasks of a group that together are the benchmark give its value; one of them alone is a part."""
    run = run_of(folder, "whole")
    export = exported(run, folder)
    (file,) = export.files
    assert export.faults == (
        "whole: its rows passed through process_docs of your own file, and must be acme/quiz (default, test)",
        LOCAL.replace("quiz:", "whole:"),
    )
    assert file.result.value == pytest.approx(run.estimate("whole").value)
    assert file.path.name == "quiz_whole_0_shot.yaml"
    with pytest.raises(UsageError, match="quiz_even: 6 of 12 rows of acme/quiz"):
        exported(run_of(folder, "quiz_even"), folder)


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("quiz_hard", "configuration hard, the benchmark's is default"),
        ("quiz_dev", "split dev, the benchmark's is test"),
        ("exam", "its data set is acme/exam; benchmarks that are known: "),
        ("quiz_norm", "metric acc_norm, the leaderboard's is the share of right answers"),
    ],
)
def test_what_differs_is_named(folder: Path, task: str, said: str) -> None:
    """Another configuration, split, data set or metric is refused in one line, and nothing is written."""
    with pytest.raises(UsageError) as raised:
        exported(run_of(folder, task), folder)
    assert f"{task}: {said}" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (folder / "model").exists()


SCORERS = """\
def half(row, results):
    return {"acc": 0.5}


def points(row, results):
    return {"acc": 3.0}
"""


@pytest.mark.parametrize("function", ["half", "points"])
def test_a_function_named_acc_is_no_share_of_right_answers(folder: Path, function: str) -> None:
    """What `process_results` of one's own file returns is refused, whatever its name and values."""
    (folder / "scorers.py").write_text(SCORERS)
    text = (folder / "quiz.yaml").read_text()
    (folder / "quiz.yaml").write_text(f"{text}process_results: !function scorers.{function}\n")
    with pytest.raises(UsageError, match=r"scored by a function of its own file \(process_results\)"):
        exported(run_of(folder, "quiz"), folder)


def test_what_is_no_proportion_is_no_share_of_right_answers(folder: Path) -> None:
    """An accuracy in another unit, here of an estimate that a plug-in wrote, is refused as another metric is."""
    run = run_of(folder, "quiz")
    plain = [replace(each, details={**each.details, "unit": "plain"}) for each in run.store.estimates(run.id)]
    run.store.save_estimates(run.id, plain, run.row.extra)
    with pytest.raises(UsageError, match="metric acc, the leaderboard's is the share of right answers"):
        exported(run, folder)


def test_a_part_of_the_rows_is_refused(folder: Path) -> None:
    """With --limit, the line says how many of how many rows there are, and why."""
    with pytest.raises(UsageError, match=r"5 of 12 rows of acme/quiz \(default, test\) \(first 5 samples per task\)"):
        exported(run_of(folder, "quiz", limit=5), folder)


def test_scores_that_were_made_anew_are_refused(folder: Path) -> None:
    """A filter or metric of one's own gives another number under the same name."""
    run = run_of(folder, "quiz")
    store = str(folder / "store.sqlite")
    assaymark.rescore_run(run, assaymark.RescoreOptions(metrics=["acc_norm"], include_path=[folder]))
    assert exported(assaymark.open_run(store, run.id), folder, check=True).files  # acc is what it was
    text = (folder / "quiz.yaml").read_text()
    (folder / "quiz.yaml").write_text(text.replace('"{{answer}}"', "'0'"))
    assaymark.rescore_run(run, assaymark.RescoreOptions(task_files=[str(folder / "quiz.yaml")]))
    with pytest.raises(UsageError, match="quiz: acc was scored again"):
        exported(assaymark.open_run(store, run.id), folder)


def test_what_can_be_written_is_and_the_rest_is_listed(folder: Path) -> None:
    """A run of two tasks writes the one that is a benchmark."""
    export = exported(run_of(folder, "quiz", "exam"), folder)
    assert [file.result.task for file in export.files] == ["quiz"]
    assert "exam: not written: its data set is acme/exam" in str(export.document())


def test_other_shots_are_another_file(folder: Path) -> None:
    """Shots are named in notes and in the file's name, so that variants stand beside each other."""
    exported(run_of(folder, "quiz"), folder)
    (folder / "quiz.yaml").write_text((folder / "quiz.yaml").read_text().replace("num_fewshot: 0", "num_fewshot: 2"))
    export = exported(run_of(folder, "quiz"), folder)
    assert export.files[0].path.name == "quiz_2_shot.yaml"
    assert sorted(file.name for file in export.files[0].path.parent.iterdir()) == [
        "quiz_0_shot.yaml",
        "quiz_2_shot.yaml",
    ]
    assert [each.notes for each in export.there] == ["0-shot"]


def test_a_file_that_says_something_else_is_not_replaced_in_silence(folder: Path) -> None:
    """--check writes nothing, another content is refused, --replace replaces it, and the same file stays."""
    run = run_of(folder, "quiz")
    file = folder / "model" / ".eval_results" / "quiz_0_shot.yaml"
    assert exported(run, folder, check=True).files[0].state == "new"
    assert not file.exists()
    file.parent.mkdir(parents=True)
    other = "- dataset: {id: acme/quiz, task_id: quiz}\n  value: 0.9\n"
    file.write_text(other)
    assert "folder, before" in str(exported(run, folder, check=True).document())
    with pytest.raises(UsageError, match=r"has quiz_0_shot\.yaml with another content"):
        exported(run, folder)
    assert file.read_text() == other
    export = exported(run, folder, replace=True)
    assert (export.files[0].state, file.read_text()) == ("replaced", export.files[0].text)
    assert exported(run, folder).files[0].state == "unchanged"


def test_of_two_exports_at_once_one_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that appears after the look at the folder is another's, and stays."""
    run = run_of(folder, "quiz")
    file = folder / "model" / ".eval_results" / "quiz_0_shot.yaml"
    written = hub_export._write

    def meanwhile(own: Any) -> None:
        file.write_text("another's")
        written(own)

    monkeypatch.setattr(hub_export, "_write", meanwhile)
    with pytest.raises(UsageError, match="was written by another export meanwhile"):
        exported(run, folder)
    assert file.read_text() == "another's"


def test_another_unit_in_the_folder_is_a_warning(folder: Path) -> None:
    """Nothing states the unit of a value: one above 1 beside a share that is to be written is named."""
    file = folder / "model" / ".eval_results" / "theirs.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("- dataset: {id: acme/quiz, task_id: quiz}\n  value: 61.5\n")
    export = exported(run_of(folder, "quiz"), folder, check=True)
    line = export.faults[-1]
    assert line.startswith(".eval_results/theirs.yaml has 61.5 for acme/quiz quiz, which seems no share; look at")


def test_the_settings_of_generation_are_in_the_notes(folder: Path) -> None:
    """A run at another temperature is another variant."""
    text = (folder / "quiz.yaml").read_text()
    generated = text.replace("multiple_choice", "generate_until").replace("metric: acc", "metric: exact_match")
    (folder / "quiz.yaml").write_text(generated.replace('doc_to_choice: ["1", "2", "3"]\n', ""))
    (file,) = exported(run_of(folder, "quiz", gen_kwargs={"temperature": 0.7, "do_sample": True}), folder).files
    assert file.result.notes == "0-shot, temperature=0.7, do_sample=True"
    assert file.path.name == "quiz_0_shot_temperature_0_7_do_sample_True.yaml"


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("linked", [".eval_results", ".eval_results/quiz_0_shot.yaml"])
def test_no_link_out_of_the_folder_is_followed(folder: Path, linked: str, check: bool) -> None:
    """A link in place of the folder or the file is refused, by --check too, and its target is not read and stays."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "quiz_0_shot.yaml").write_text("kept")
    link = folder / "model" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(outside if linked == ".eval_results" else outside / "quiz_0_shot.yaml")
    with pytest.raises(UsageError, match="is no file of"):
        exported(run_of(folder, "quiz"), folder, replace=True, check=check)
    assert (outside / "quiz_0_shot.yaml").read_text() == "kept"


def test_a_name_from_a_task_never_leaves_the_folder(folder: Path) -> None:
    """A task whose name has slashes and dots is a plain file name."""
    text = (folder / "quiz.yaml").read_text().replace("task: quiz", 'task: "../../quiz"')
    (folder / "quiz.yaml").write_text(text)
    (file,) = exported(run_of(folder, str(folder / "quiz.yaml")), folder).files
    assert file.path.parent == folder / "model" / ".eval_results"
    assert file.path.name == "quiz_quiz_0_shot.yaml"


def test_the_revision_is_the_commit_that_the_rows_came_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that the data set was loaded at is in the entry; a branch is none."""
    from assaymark.datasets.load import load_dataset

    for revision, expected in (("a" * 40, "a" * 40), ("main", None)):

        def loaded(spec: Any, data_dir: Path | None = None, revision: str = revision) -> Any:
            return replace(load_dataset(spec, data_dir), revision=revision)

        monkeypatch.setattr("assaymark.tasks.task_rows.load_dataset", loaded)
        run = assaymark.evaluate(
            "fake", ["quiz"], store=str(folder / f"{revision[0]}.sqlite"), data_dir=str(folder / "data"),
            include_path=[str(folder)],
        )  # fmt: skip
        (file,) = exported(run, folder, replace=True).files
        assert entries_in(file.path)[0].dataset_revision == expected
        assert LOCAL not in exported(run, folder, check=True).faults


def test_a_run_of_gsm8k_through_the_command_line(
    shared_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All 1,319 real questions: the entry is in per cent, the upload is printed, and import reads it as reported."""
    store, model = str(tmp_path / "store.sqlite"), tmp_path / "acme" / "tiny"
    words = ["--model", "fake", "--model_args", "accuracy=0.6", "--tasks", "gsm8k", "--num_fewshot", "0"]
    assert main(["run", *words, "--data_dir", str(shared_dir / "data"), "--store", store, "--quiet"]) == 0
    capsys.readouterr()
    arguments = ["export", "last", "--format", "hub-results", "-o", str(model), "--store", store]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    file = model / ".eval_results" / "gsm8k_0_shot_strict_match.yaml"
    upload = f"hf upload ORG/MODEL {file.parent} .eval_results --include {file.name} --create-pr"
    assert printed.splitlines()[-1] == f"  {upload}"  # on one line, to be copied
    (entry,) = entries_in(file)
    assert (entry.dataset_id, entry.task_id, entry.notes) == ("openai/gsm8k", "gsm8k", "0-shot, strict-match")
    assert 55 < entry.value < 65
    assert main([*arguments, "--check", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["written"], content["files"][0]["state"], content["files"][0]["unit"]) == (
        False, "unchanged", "per cent",
    )  # fmt: skip
    assert main(["import", str(model), "--store", store, "--json"]) == 0
    (estimate,) = json.loads(capsys.readouterr().out)["estimates"]
    assert (estimate["task"], estimate["value"]) == ("gsm8k", pytest.approx(entry.value / 100))
    assert estimate["details"]["reported"]["unit"] == "per cent"
    assert main(arguments) == 2  # the last run is the imported one, whose value was only reported
    assert "its value was reported by others and has no answers" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--check"], ["--replace"], ["--source", "https://x.org"]])
def test_options_of_the_layout_need_it(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """They would do nothing for a file."""
    assert main(["export", "last", "-o", "x.csv", *words]) == 2
    assert "are options of --format hub-results" in capsys.readouterr().err
