"""Comparison of another tool's log with a run of ours: equal questions are compared, others are reported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.interop.read_imported import read_imported
from assaymark.runs.comparison import compare_runs, stored_runs
from assaymark.runs.exporting import import_run
from tests.interop.test_other_tools import TOOLS
from tests.tasks.folders import task_spec, write_rows, write_task

Row = dict[str, Any]


def _of_simple_evals(row: Row) -> tuple[str, list[str], int]:
    _, question, listed = row["messages"][0]["content"].split("\n\n")
    return question, [line[3:] for line in listed.splitlines()], "ABCD".index(row["target"])


SPLIT: dict[
    str, tuple[str, Callable[[Row], tuple[str, list[str], int]]]
] = {  # tool -> its task, and how a row of it becomes question, options and the right one
    "inspect": ("capitals", lambda row: (row["input"], row["choices"], "ABCD".index(row["target"]))),
    "lighteval": ("balls|0", lambda row: (row["query"].partition("\n")[0], row["choices"], row["gold_index"])),
    "helm": ("simple_mcqa", lambda row: (row["input"]["text"], [each["text"] for each in row["references"]], 0)),
    "simple_evals": ("mmlu", _of_simple_evals),
}


def our_run(tool: str, folder: Path, store: Path, *, lettered: bool = False, extra: int = 2) -> assaymark.Run:
    """Run a task of our own on a tool's questions in reverse order, and on some that are not in its log."""
    name, split = SPLIT[tool]
    asked = [split(dict(sample.row)) for sample in read_imported(TOOLS[tool]).samples if sample.task == name]
    rows: list[Row] = [
        {"question": question, "choices": [str(option).strip() for option in options], "answer": gold}
        for question, options, gold in reversed(asked)
    ]
    rows += [{**rows[0], "question": f"Who asks question {i}?"} for i in range(extra)]
    letters = {
        "doc_to_text": "{{question}}\n{% for c in choices %}{{'ABCD'[loop.index0]}}. {{c}}\n{% endfor %}Answer:",
        "doc_to_choice": "{{['A', 'B', 'C', 'D'][:choices|length]}}",
    }
    write_rows(folder, rows, rows)
    path = write_task(folder, task_spec("ours", **(letters if lettered else {})))
    return assaymark.evaluate("fake", str(path), store=str(store))


@pytest.mark.slow
@pytest.mark.parametrize("lettered", [False, True])
@pytest.mark.parametrize("tool", TOOLS)
def test_a_log_compares_with_our_own_run_of_its_questions(tool: str, lettered: bool, tmp_path: Path) -> None:
    """Every question of the log is found in our run in any wording and order, and the comparison reports how."""
    store = tmp_path / "store.sqlite"
    run = our_run(tool, tmp_path / "task", store, lettered=lettered)
    log = import_run(str(store), TOOLS[tool]).run
    task = SPLIT[tool][0]
    n = len(log.samples(task))
    n_all = len({(row.task, row.sample_index) for row in log.store.scores(log.id)})
    (pair,) = compare_runs([run, log]).pairs
    (line,) = pair.tasks
    assert (line.name, line.n) == ("ours", n)
    note = pair.notes[0]
    assert f"{n} of {n_all} samples; excluded: {n_all - n} without a match, 0 with several" in note
    assert f"{task} as ours" in note
    right = {record.sample.row["question"]: record for record in run.samples("ours") if record.sample}
    assert len(right) == n + 2
    (back,) = compare_runs([log, run]).pairs
    assert back.tasks[0].difference == pytest.approx(-line.difference)


def test_values_are_those_of_the_same_question(tmp_path: Path) -> None:
    """Paired by text, each of our scores is compared with the log's score of the same question."""
    store = tmp_path / "store.sqlite"
    run = our_run("inspect", tmp_path / "task", store)
    log = import_run(str(store), TOOLS["inspect"]).run
    (pair,) = compare_runs([run, log]).pairs
    theirs = {r.sample.row["input"]: r.scores[0].value for r in log.samples("capitals") if r.sample}
    ours = {
        r.sample.row["question"]: next(s.value for s in r.scores if s.metric == pair.tasks[0].metric)
        for r in run.samples("ours")
        if r.sample
    }
    rows = [record.sample.row for record in run.samples("ours") if record.sample]
    flipped = {rows[flip.first_index]["question"] for flip in pair.flips}
    assert flipped == {question for question, value in theirs.items() if value != ours[question]}


def test_two_other_tools_compare_if_one_has_bare_questions(tmp_path: Path) -> None:
    """HELM's log has bare questions, which are found in simple-evals' texts; samples without a match are counted."""
    store = str(tmp_path / "store.sqlite")
    helm, simple = (import_run(store, TOOLS[tool]).run for tool in ("helm", "simple_evals"))
    (pair,) = compare_runs([simple, helm]).pairs
    assert pair.tasks[0].n == 1  # "Is 70 even or odd?" alone is in both logs
    assert "1 of 5 samples; excluded: 4 without a match" in pair.notes[0]
    with pytest.raises(UsageError, match="no question in common: by the question's text"):
        compare_runs([simple, import_run(store, TOOLS["inspect"]).run])


@pytest.mark.slow
def test_other_questions_are_excluded_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A question with another option is not the same one: the others are compared, and the note counts it."""
    place = tmp_path / "logs" / TOOLS["simple_evals"].name
    place.parent.mkdir()
    result = json.loads(TOOLS["simple_evals"].read_text())
    message = result["convos"][0][0]
    message["content"] = message["content"].replace("Neither", "Nothing")
    place.write_text(json.dumps(result))
    store = tmp_path / "store.sqlite"
    run = our_run("simple_evals", tmp_path / "task", store)
    log = import_run(str(store), place).run
    assert main(["compare", run.short_id, log.short_id, "--store", str(store)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    how = "paired by the question's text and options, of simple-evals with assaymark"
    assert f"{how}: 4 of 5 samples; excluded: 1 without" in said
    assert compare_runs(stored_runs(str(store), [run.id, log.id])).pairs[0].tasks[0].n == 4
