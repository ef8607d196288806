"""Rows that cannot be read: counted and left out if that was requested, an error otherwise."""

import json
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.errors import DataError
from assaymark.options.shared import options_of
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.own_rows import OwnData
from assaymark.tasks.python_tasks import bind
from tests.tasks.folders import ROWS, task_spec, write_rows, write_task

HEADER = "question,A,B,C,answer"
GOOD = [f"What is {i} plus {i}?,{2 * i},{2 * i + 1},{2 * i + 2},A" for i in range(1, 9)]
BAD = {  # where it is inserted -> the line, and what is said about it
    1: ("What is 1 plus 1?,2,3,A", "4 cells, but the header has 5"),
    3: ("What?,1,2,3,Z", "'Z' in column 'answer' is not a letter from A to C"),
    5: ("What?,,2,3,A", "has nothing in column 'A'"),
    6: ('"What\nis\nthis?",1,2,3,', "has nothing in column 'answer'"),
    8: ("What\0?,1,2,3,A", "the character NUL"),
}


def write(path: Path, lines: list[str]) -> Path:
    """Write a CSV file with the header."""
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return path


def faulty() -> list[str]:
    """Return the good lines with the bad ones among them."""
    lines = list(GOOD)
    for position, (line, _) in sorted(BAD.items()):
        lines.insert(position, line)
    return lines


def bound(path: Path, **options: Any) -> BoundTask:
    """Return a file's task that leaves out bad rows."""
    selection = Catalog.open(lm_eval=False).select([str(path)], own=OwnData(skip_bad_rows=True))
    return bind(selection.tasks[0], BindOptions(skip_bad_rows=True, **options))


def test_the_rest_is_evaluated_as_if_the_bad_lines_were_not_there(tmp_path: Path) -> None:
    """Prompts, shots, answers and row hashes are those of a file without the bad lines."""
    (tmp_path / "clean").mkdir()
    dirty = bound(write(tmp_path / "my.csv", faulty()), num_fewshot=3, limit=5)
    clean = bound(write(tmp_path / "clean" / "my.csv", GOOD), num_fewshot=3, limit=5)
    assert list(dirty.requests()) == list(clean.requests())
    assert (dirty.skipped.n, clean.skipped.n, dirty.n_original) == (len(BAD), 0, len(GOOD))


def test_every_skipped_line_is_named(tmp_path: Path) -> None:
    """Each is counted, and the first are listed with their line in the file and the reason."""
    lines = faulty()
    path = write(tmp_path / "my.csv", lines)
    first = bound(path).skipped.first
    starts = {line: 2 + sum(each.count("\n") + 1 for each in lines[:i]) for i, line in enumerate(lines)}
    for line, why in BAD.values():
        assert any(fault.startswith(f"line {starts[line]}") and why in fault for fault in first), (line, first)


def test_the_default_stops_with_one_line(tmp_path: Path) -> None:
    """Without the option every fault is listed, with the remedy."""
    with pytest.raises(DataError, match=r"line 3: 4 cells.*skip them \(--skip_bad_rows\)"):
        Catalog.open(lm_eval=False).select([str(write(tmp_path / "my.csv", faulty()))])


def test_a_file_without_any_good_row_is_refused(tmp_path: Path) -> None:
    """Nothing is evaluated, and the error says what was skipped."""
    with pytest.raises(DataError, match=r"no rows that can be read; 2 rows skipped: line 2: 'Z'"):
        bound(write(tmp_path / "my.csv", ["Q,1,2,3,Z", "R,1,2,3,Y"]))


def test_lines_of_json_are_skipped(tmp_path: Path) -> None:
    """Lines that are no objects, and objects without an answer, are left out with their line."""
    path = tmp_path / "my.jsonl"
    rows = ['{"question": "a", "answer": "b"}', "{", "", "5", '{"question": "c"}', '{"question": "d", "answer": "e"}']
    path.write_text("\n".join(rows))
    task = bound(path)
    assert [sample.row["question"] for sample in task.samples()] == ["a", "d"]
    assert [fault[: len("line 2")] for fault in task.skipped.first] == ["line 2", "line 4", "line 5"]


def test_a_task_file_may_say_so_itself(tmp_path: Path) -> None:
    """`skip_bad_rows: true` in YAML leaves out rows whose prompt cannot be made or whose gold is not a choice."""
    bad = [{"question": "no choices", "answer": 0}, {**ROWS[0], "answer": 7}, {**ROWS[0], "question": None}]
    write_rows(tmp_path, [*ROWS[:4], *bad, *ROWS[4:]])
    path = write_task(tmp_path, task_spec(skip_bad_rows=True))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    item = bind(task, BindOptions(num_fewshot=2))
    assert [sample.row["question"] for sample in item.samples()] == [row["question"] for row in ROWS]
    assert [fault.partition(":")[0].partition(" has")[0] for fault in item.skipped.first] == [
        "line 5",
        "line 6",
        "line 7",
    ]
    assert len(list(item.requests())) == len(ROWS)


def test_a_column_that_may_be_empty_is_no_fault(tmp_path: Path) -> None:
    """A template that tests a column, or gives a default, does not need it."""
    write_rows(tmp_path, [{**row, "hint": None} for row in ROWS])
    text = "{% if hint %}{{hint}}\n{% endif %}{{question}} {{hint | default('-', true)}}\nAnswer:"
    path = write_task(tmp_path, task_spec(skip_bad_rows=True, doc_to_text=text))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    assert bind(task, BindOptions()).skipped.n == 0


def run_of(path: Path, **options: Any) -> assaymark.Run:
    """Return a stored run of the fake model."""
    return assaymark.evaluate("fake", str(path), model_args={"mode": "random"}, **options)


def test_the_count_is_stored_and_shown(tmp_path: Path) -> None:
    """It is in the estimates, the table, the JSON and the notes; the run is another one than without the option."""
    run = run_of(write(tmp_path / "my.csv", faulty()), skip_bad_rows=True)
    (estimate,) = run.estimates
    assert (estimate.n, estimate.details["n_skipped"]) == (len(GOOD), len(BAD))
    assert "8 (5 skipped)" in str(run)
    assert "5 rows skipped, not among n (first: line 3: 4 cells" in " ".join(str(run).split())
    assert any("my: 5 rows skipped" in note for note in run.notes)
    assert json.loads(json.dumps(run.to_json()["estimates"]))[0]["details"]["n_skipped"] == len(BAD)
    assert options_of(run.row.plan)["skip_bad_rows"] is True


def test_without_bad_rows_nothing_is_shown(tmp_path: Path) -> None:
    """A run without skipped rows says nothing about them, and a plan without the option has no such field."""
    run = run_of(write(tmp_path / "my.csv", GOOD))
    assert "skipped" not in str(run)
    assert "skip_bad_rows" not in run.configuration()
    assert "n_skipped" not in run.estimates[0].details


@pytest.mark.slow
def test_such_a_run_is_scored_again_and_compared(tmp_path: Path) -> None:
    """`rescore` reads the same file with the option of the run; a comparison notes the skipped rows."""
    from assaymark.runs.comparison import compare_runs
    from assaymark.runs.rescoring import RescoreOptions, rescore_run

    path = write(tmp_path / "my.csv", faulty())
    run, other = run_of(path, skip_bad_rows=True), run_of(path, skip_bad_rows=True, num_fewshot=1)
    assert rescore_run(run, RescoreOptions(task_files=[str(path)])).tasks[0].n_scored == len(GOOD)
    assert any("skipped 5 rows" in note for note in compare_runs([run, other]).pairs[0].notes)
