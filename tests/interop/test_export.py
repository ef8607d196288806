"""Export of runs: as tables for other programs, and as complete runs to import elsewhere."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from assaymark.interop.export_tables import COLUMNS, estimate_rows, to_latex, to_markdown
from assaymark.leaderboard.pages.run import run_page
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.records.json_values import object_at, objects_at
from assaymark.runs.exporting import export_run, import_run
from assaymark.runs.run import Run
from assaymark.store import Store

TASKS = ["demo_who", "demo_truth"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a small finished run of the fake model."""
    return assaymark.evaluate("fake", TASKS, limit=6, store=str(tmp_path / "store.sqlite"))


def place_of(run: Run) -> str:
    """Return the address of the run's store."""
    return run.store.url.removeprefix("sqlite:///")


def test_a_run_is_copied_by_one_file(run: Run, tmp_path: Path) -> None:
    """The run imported into another store equals the original in plan, prompts, outputs, scores and estimates."""
    (file,) = export_run(place_of(run), "last", tmp_path / "out" / "run.assaymark")
    assert [path.name for path in file.parent.iterdir()] == ["run.assaymark"]
    result = import_run(str(tmp_path / "elsewhere.sqlite"), file)
    assert result.is_new
    assert (result.run.id, result.run.row.plan, result.run.row.status) == (run.id, run.row.plan, "finished")
    assert result.run.estimates == run.estimates
    for task in TASKS:
        assert result.run.samples(task) == run.samples(task)
    assert result.run.store.verify() == []
    copied = objects_at(object_at(result.run.attempts()[0], "facts"), "copied")
    assert [each["started_at"] for each in copied] == [attempt["started_at"] for attempt in run.attempts()]
    assert not import_run(str(tmp_path / "elsewhere.sqlite"), file).is_new


def test_the_file_is_a_store_itself(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An exported file can be shown and verified without an import."""
    (file,) = export_run(place_of(run), "last", tmp_path / "run.assaymark")
    assert main(["verify", "--store", str(file)]) == 0
    assert main(["show", "last", "--store", str(file)]) == 0
    assert "demo_who" in capsys.readouterr().out


EXPORTER = """
import resource, sys
from assaymark.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
sys.exit(main(sys.argv[1:]))
"""


def test_a_full_disk_is_told_of_the_file_that_was_asked_for(run: Run, tmp_path: Path) -> None:
    """An export that does not fit names its own file, says that nothing was written, and leaves no draft behind.

    It is another process, since a limit of the size of files cannot be taken back.
    """
    wanted = tmp_path / "out" / "run.assaymark"
    wanted.parent.mkdir()
    words = ["export", run.id, "-o", str(wanted), "--store", place_of(run)]
    done = subprocess.run([sys.executable, "-c", EXPORTER, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"error: {wanted} was not written: the disk")
    assert "draft" not in line
    assert "continues" not in line
    assert list(wanted.parent.iterdir()) == []


def test_a_file_that_is_replaced_is_said(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on stderr, for a new file none; stdout has the path alone."""
    path = tmp_path / "x.csv"
    for is_there in (False, True):
        assert main(["export", run.id, "-o", str(path), "--store", place_of(run)]) == 0
        said = capsys.readouterr()
        assert (said.out, said.err) == (f"{path}\n", f"replaced {path}\n" if is_there else "")


def test_a_damaged_file_is_refused(run: Run, tmp_path: Path) -> None:
    """One changed number in an exported file is detected, and nothing is stored."""
    import sqlite3

    (file,) = export_run(place_of(run), "last", tmp_path / "run.assaymark")
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE scores SET value = 1.0 - value WHERE request = (SELECT min(request) FROM scores)")
    connection.close()
    target = str(tmp_path / "elsewhere.sqlite")
    with pytest.raises(DataError, match="is damaged"):
        import_run(target, file)
    assert Store.open(target).runs() == []


def test_a_corrupt_file_is_reported_by_its_own_name(run: Run, tmp_path: Path) -> None:
    """A corrupt file is refused by its own name, never by that of the temporary copy."""
    (file,) = export_run(place_of(run), "last", tmp_path / "run.assaymark")
    content = file.read_bytes()
    for name, torn in (("short", content[:5000]), ("middle", content[:4096] + b"\xff" * (len(content) - 4096))):
        bad = tmp_path / f"{name}.assaymark"
        bad.write_bytes(torn)
        with pytest.raises(DataError, match=f"{name}.assaymark is not an exported run") as caught:
            import_run(str(tmp_path / "elsewhere.sqlite"), bad)
        assert "assaymark-import-" not in str(caught.value)
        assert "run.sqlite" not in str(caught.value)


def test_another_database_is_refused(tmp_path: Path) -> None:
    """A SQLite file of another program, and a store without a run, are not exported runs."""
    import sqlite3

    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    with pytest.raises(DataError, match="not an exported run"):
        import_run(str(tmp_path / "store.sqlite"), other)
    Store.open(str(tmp_path / "empty.sqlite")).close()
    with pytest.raises(DataError, match="has 0 runs"):
        import_run(str(tmp_path / "store.sqlite"), tmp_path / "empty.sqlite")


def test_csv_and_parquet_hold_every_estimate(run: Run, tmp_path: Path) -> None:
    """Both have one row per estimate with the unrounded value, and undefined is empty, not zero."""
    import pyarrow.parquet as pq

    (table,) = export_run(place_of(run), "last", tmp_path / "run.csv")
    rows = list(csv.DictReader(table.open()))
    typed = pq.read_table(export_run(place_of(run), "last", tmp_path / "run.parquet")[0]).to_pylist()
    assert len(rows) == len(typed) == len(run.estimates)
    for row, cells, estimate in zip(rows, typed, run.estimates, strict=True):
        assert tuple(row) == tuple(cells) == COLUMNS
        assert cells["value"] == estimate.value
        assert row["value"] == ("" if estimate.value is None else repr(estimate.value))
        assert cells["chance"] == estimate.chance
        assert (row["task"], row["metric"], cells["n"]) == (estimate.task, estimate.metric, estimate.n)


@pytest.mark.slow
def test_markdown_and_latex_are_for_people(run: Run, tmp_path: Path) -> None:
    """Shares are percentages with their interval; underscores are escaped in LaTeX."""
    markdown = export_run(place_of(run), "last", tmp_path / "run.md")[0].read_text()
    latex = export_run(place_of(run), "last", tmp_path / "run.tex")[0].read_text()
    value = run.estimate("demo_who", "acc").value
    assert value is not None
    line = next(line for line in markdown.splitlines() if line.startswith("| demo_who | acc |"))
    assert f"| {100 * value:.1f}% |" in line
    assert r"demo\_who & acc & " in latex
    assert latex.count(r"\\") == 2 + len(run.estimates)
    for text in (markdown, latex):
        assert "First 6 samples per task" in text


def test_the_scale_of_a_number_is_its_metrics(tmp_path: Path) -> None:
    """A BLEU of 0.5141 is not a share of 51.4%, in Markdown and LaTeX as in the terminal; exact matches are."""
    rows_of_file = [{"q": f"Say {i}", "a": f"the cat sat on {i} mats"} for i in range(8)]
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of_file))
    (tmp_path / "said.yaml").write_text(
        "task: said\ndataset_path: json\ndataset_kwargs: {data_files: {test: said.jsonl}}\ntest_split: test\n"
        "output_type: generate_until\ndoc_to_text: '{{q}}'\ndoc_to_target: '{{a}}'\n"
        "generation_kwargs: {until: ['\\n'], max_gen_toks: 8}\n"
        "metric_list: [{metric: bleu}, {metric: exact_match}]\n"
    )
    said = assaymark.evaluate("fake", str(tmp_path / "said.yaml"), store=str(tmp_path / "s.db"))
    rows = {row["metric"]: row for row in estimate_rows(said.store, said.id)}
    low = {"value": 0.5141, "low": 0.41, "high": 0.62}  # a small BLEU, as a weak model gets
    for text in (to_markdown([{**rows["bleu"], **low}]), to_latex([{**rows["bleu"], **low}])):
        assert "0.5141" in text
        assert "51.4" not in text
    assert "51.4%" in to_markdown([{**rows["exact_match"], **low}])


def test_a_name_is_not_markup_in_markdown() -> None:
    """A task's name with tags, bars, line breaks and Markdown syntax is shown literally, in one cell."""
    row = dict.fromkeys(COLUMNS) | {"metric": "acc", "filter": "none", "n": 1}
    row["task"] = "<img src=x onerror=alert(9)>|_%$#\n[a](b) `c` *d* demo_who"
    line = to_markdown([row]).splitlines()[-1]
    result = r"&lt;img src=x onerror=alert(9)&gt;\|\_%$\# \[a\](b) \`c\` \*d\* demo_who"
    assert line.startswith(f"| {result} | acc |")


def test_the_model_card_is_readable_by_the_hub(run: Run, tmp_path: Path) -> None:
    """huggingface_hub reads the model index with each task's value."""
    hub = pytest.importorskip("huggingface_hub.repocard_data", reason="huggingface_hub is not installed")
    import yaml

    index = yaml.safe_load(export_run(place_of(run), "last", tmp_path / "card.yaml")[0].read_text())["model-index"]
    _, results = hub.model_index_to_eval_results(index)
    actual = {(result.dataset_name, result.metric_type): result.metric_value for result in results}
    assert actual["demo_who", "acc"] == run.estimate("demo_who", "acc").value


def test_lm_evals_format_is_imported_again(run: Run, tmp_path: Path) -> None:
    """Exported results and samples of lm-eval import with the same values; a .json has no samples."""
    written = export_run(place_of(run), "last", tmp_path / "folder")
    assert len(written) == 1 + len(TASKS)
    result = import_run(str(tmp_path / "elsewhere.sqlite"), tmp_path / "folder")
    assert result.notes == ()
    assert result.run.estimate("demo_who", "acc").value == run.estimate("demo_who", "acc").value
    (alone,) = export_run(place_of(run), "last", tmp_path / "alone.json")
    assert json.loads(alone.read_text())["results"].keys() >= set(TASKS)


def test_an_unknown_ending_is_refused(run: Run, tmp_path: Path) -> None:
    """`-o run.docx` raises an error with the supported endings, and writes nothing."""
    with pytest.raises(UsageError, match=r"\.assaymark, \.json, \.csv"):
        export_run(place_of(run), "last", tmp_path / "run.docx")
    assert not (tmp_path / "run.docx").exists()


def test_an_interrupted_run_can_be_resumed_after_the_copy(run: Run, tmp_path: Path) -> None:
    """An unfinished run keeps its state, so the same run in the other store resumes it."""
    opened = run.store.open_run(replace(run.row.plan, seed=99), facts={})
    (file,) = export_run(place_of(run), opened.run_id, tmp_path / "run.assaymark")
    result = import_run(str(tmp_path / "elsewhere.sqlite"), file)
    assert result.run.row.status == "interrupted"


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_wrong_samples_are_written_one_per_line(ending: str, run: Run, tmp_path: Path) -> None:
    """`--wrong` writes the samples that `show --wrong` shows, with the picked and the correct choice."""
    path = tmp_path / f"wrong.{ending}"
    assert main(["export", "last", "--wrong", "--by", "subject", "-o", str(path), "--store", place_of(run)]) == 0
    expected = {
        (task, record.request.sample_index) for task in run.row.tasks
        for record in run.sample_records(task, only_wrong=True)
    }  # fmt: skip
    with path.open(encoding="utf-8", newline="") as file:
        rows = [json.loads(line) for line in file] if ending == "jsonl" else list(csv.DictReader(file))
    assert {(row["task"], int(row["sample_index"])) for row in rows} == expected
    assert expected
    picked = [row for row in rows if row["task"] == "demo_who"]  # the other task scores all of its choices
    assert picked
    for row in picked:
        gold = json.loads(row["gold"]) if ending == "csv" else row["gold"]
        choices = json.loads(row["choices"]) if ending == "csv" else row["choices"]
        assert row["picked"] in choices
        assert row["picked"] not in gold
    values = {task: run.estimate(task, "acc").value for task in run.row.tasks}
    order = list(dict.fromkeys(row["task"] for row in rows))
    assert order == sorted(order, key=lambda task: values[task] or 0.0)


def test_wrong_samples_need_a_known_ending(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another ending, or --by without --wrong, is one line and exit code 2."""
    store = ["--store", place_of(run)]
    assert main(["export", "last", "--wrong", "-o", str(tmp_path / "x.md"), *store]) == 2
    assert main(["export", "last", "--by", "subject", "-o", str(tmp_path / "x.csv"), *store]) == 2
    assert "neither in .jsonl nor in .csv" in capsys.readouterr().err


def test_an_import_of_a_stored_run_changes_nothing(run: Run, tmp_path: Path) -> None:
    """A run that is stored keeps its date and attempts, and does not become the last run; a copy's page is readable."""
    place = place_of(run)
    (file,) = export_run(place, "last", tmp_path / "run.assaymark")
    other = assaymark.evaluate("fake", TASKS, limit=2, store=place)
    before = (run.store.run(run.id), run.attempts())
    again = import_run(place, file)
    assert not again.is_new
    assert (again.run.store.run(run.id), again.run.attempts()) == before
    assert again.run.store.run("last").run_id == other.id
    copy = import_run(str(tmp_path / "elsewhere.sqlite"), file).run
    first = import_run(str(tmp_path / "elsewhere.sqlite"), file).run
    assert len(first.attempts()) == len(copy.attempts()) == 1
    facts = run_page(Site([], StoredRuns(copy.store)), run.id).attempts[0].facts
    begun = str(run.attempts()[0]["started_at"])[:16].replace("T", " ")
    assert facts["copied"] == f"imported; 1 attempt where it was evaluated, the last begun at {begun} UTC"
