"""Samples split into parts: which part of a prompt is the question, and the prompt without it."""

from pathlib import Path
from typing import Any

import assaymark
from assaymark.audit.items import AuditItem, items_of, without_question
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from tests.tasks.folders import task_spec, write_rows, write_task

ROWS = [
    {"question": f"Which colour is lamp number {i}? ", "choices": ["red", "blue", "green", "white"], "answer": i % 4}
    for i in range(12)
]
LETTERS = {
    "doc_to_text": "{{question.strip()}}\n{% for c in choices %}{{'ABCD'[loop.index0]}}. {{c}}\n{% endfor %}Answer:",
    "doc_to_choice": ["A", "B", "C", "D"],
}


def made(folder: Path, **changes: Any) -> list[AuditItem]:
    """Return the items of a small task."""
    return items_of(bound_task(folder, **changes))


def bound_task(folder: Path, **changes: Any) -> Any:
    """Return a small task, bound."""
    write_rows(folder, ROWS, ROWS)
    path = write_task(folder, task_spec("lamps", **changes))
    task = Catalog.open([folder]).select([str(path)]).tasks[0]
    return bind(task, BindOptions())


def test_options_of_a_cloze_task_are_its_choices(tmp_path: Path) -> None:
    """If the choices are texts, question and options are separated and the gold answer is known."""
    item = made(tmp_path)[1]
    assert item.question == "Which colour is lamp number 1?"
    assert item.options == ("red", "blue", "green", "white")
    assert item.gold == {1}
    assert item.text.endswith("Answer: blue")


def test_options_of_a_lettered_task_are_what_the_letters_stand_for(tmp_path: Path) -> None:
    """If the choices are letters, the options are the row's list that the prompt shows."""
    item = made(tmp_path, **LETTERS)[2]
    assert item.question == "Which colour is lamp number 2?"
    assert item.options == ("red", "blue", "green", "white")
    assert item.gold == {2}


def test_without_its_question_a_prompt_keeps_options_and_wording(tmp_path: Path) -> None:
    """The question is removed; the listed options and the cue stay."""
    bound = bound_task(tmp_path, **LETTERS)
    blind = without_question(bound, items_of(bound)[0])
    assert blind is not None
    assert blind.prompt == "\nA. red\nB. blue\nC. green\nD. white\nAnswer:"
    assert [query.index for query in blind.queries] == [0, 1, 2, 3]


def test_a_task_without_a_question_in_its_rows_has_none(tmp_path: Path) -> None:
    """If no text of the row is in the prompt, there is no question to remove."""
    bound = bound_task(tmp_path, doc_to_text="Say a colour.")
    item = items_of(bound)[0]
    assert item.question is None
    assert without_question(bound, item) is None


def test_a_run_stores_its_question_blind_baseline(tmp_path: Path) -> None:
    """`question_blind` evaluates once, and the stored run shows the baseline beside the value."""
    write_rows(tmp_path, ROWS, ROWS)
    path = str(write_task(tmp_path, task_spec("lamps", **LETTERS)))
    notes: list[str] = []
    run = assaymark.evaluate("fake", path, question_blind=True, notify=notes.append)
    blind = run.estimate("lamps", "acc").details["question_blind"]
    assert blind["n"] == 12
    assert 0 <= blind["low"] <= blind["value"] <= blind["high"] <= 1
    assert "question-blind" in str(run)
    again = assaymark.evaluate("fake", path)
    assert again.estimate("lamps", "acc").details["question_blind"] == blind
