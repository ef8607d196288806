"""What `task check` tells of a task before it is run."""

from pathlib import Path
from typing import Any

import pytest

from evalstone.api.task_check import check_task
from evalstone.audit.task_checks import Checked, check_requests, check_tokens
from evalstone.models.fake import FakeModel
from evalstone.tasks.bind import bind
from evalstone.tasks.bound import BindOptions
from evalstone.tasks.catalog import Catalog
from tests.tasks.folders import task_spec, write_rows, write_task

Row = dict[str, Any]


def rows(n: int = 80, right: int | None = None) -> list[Row]:
    """Return questions with four options; the right one stands evenly, or always in one place."""
    choices = ["red", "blue", "green", "white"]
    return [
        {"question": f"Lamp {i} is?", "choices": choices, "answer": i % 4 if right is None else right} for i in range(n)
    ]


def findings(folder: Path, test: list[Row], train: list[Row] | None = None, shots: int = 0, **changes: Any) -> str:
    """Return everything that is told of a small task."""
    return " | ".join(finding.text for finding in check_requests(checked(folder, test, train, shots, **changes)))


def checked(folder: Path, test: list[Row], train: list[Row] | None = None, shots: int = 0, **changes: Any) -> Checked:
    """Return a small task, rendered."""
    write_rows(folder, test, train or rows(8))
    path = write_task(folder, task_spec("lamps", **changes))
    bound = bind(Catalog.open([folder]).select([str(path)]).tasks[0], BindOptions(num_fewshot=shots))
    return Checked(bound, tuple(bound.requests()))


def test_an_even_task_has_nothing_to_complain_about(tmp_path: Path) -> None:
    """Golds in every place alike, rows once each, choices apart: no finding."""
    assert findings(tmp_path, rows()) == ""


def test_skewed_golds_are_told_with_what_a_constant_answer_scores(tmp_path: Path) -> None:
    """Where the right choice always stands third, the finding says so; with shared choices it names the answer."""
    told = findings(tmp_path, rows(right=2))
    assert "number 3 in 100% of samples, 25% were even" in told
    assert "always answering 'green' scores that" in told


def test_a_skewed_key_of_written_answers_is_told(tmp_path: Path) -> None:
    """Where one written answer is right in most samples, the finding names it and what always giving it scores."""
    written: Row = {"output_type": "generate_until", "doc_to_choice": ..., "metric_list": ...}
    told = findings(tmp_path, rows(right=2), doc_to_target="{{choices[answer]}}", **written)
    assert "the answer key is skewed: 'green' is right in 100% of samples" in told
    assert findings(tmp_path, rows(), doc_to_target="{{choices[answer]}}", **written) == ""


def test_shots_from_the_test_split_are_told(tmp_path: Path) -> None:
    """A fewshot_split that is the test split is a warning where shots are drawn, and a note where none are."""
    for shots, level in ((2, "warning"), (0, "note")):
        told = [one for one in check_requests(checked(tmp_path, rows(), None, shots, fewshot_split="test"))
                if "is the test split 'test'" in one.text]  # fmt: skip
        assert [one.level for one in told] == [level]


def test_notes_are_not_called_warnings(tmp_path: Path) -> None:
    """What was guessed about a file of rows is a note."""
    lines = "".join(f"Lamp {i}?,{'AB'[i % 2]},red,blue\n" for i in range(8))
    (tmp_path / "mine.csv").write_text("question,answer,A,B\n" + lines, encoding="utf-8")
    found = check_task(str(tmp_path / "mine.csv"))
    assert [one.level for one in found.findings if "multiple choice by letter" in one.text] == ["note"]
    assert "warning" not in {one.level for one in found.findings}


def test_golds_of_tasks_with_different_numbers_of_choices_count_together(tmp_path: Path) -> None:
    """Always the first of two, three or four choices is a skew too."""
    uneven = [{**row, "choices": row["choices"][: 2 + i % 3], "answer": 0} for i, row in enumerate(rows())]
    assert "number 1 in 100%" in findings(tmp_path, uneven)


def test_columns_left_in_braces_are_told_with_file_and_key(tmp_path: Path) -> None:
    """A list of templates stands as it is, as in lm-eval, so that is told; so are templates that rows hold."""
    literal = findings(tmp_path, rows(), doc_to_choice=["{{question}}", "{{answer}}", "c", "d"])
    assert "lamps.yaml: doc_to_choice: choices contain unrendered {{, first lamps/0/0: '{{question}}'" in literal
    assert "write one template that gives a list" in literal
    assert "doc_to_target" not in literal
    within = [{**row, "question": f"{row['question']} {{{{ answer }}}}"} for row in rows()]
    assert "doc_to_text: prompts contain unrendered {{" in findings(tmp_path, within)
    written: Row = {"output_type": "generate_until", "doc_to_choice": ..., "metric_list": ...}
    told = findings(tmp_path, rows(), doc_to_target=["{{answer}}"], **written)
    assert "doc_to_target: targets contain unrendered {{" in told


def test_braces_of_formulas_are_no_templates(tmp_path: Path) -> None:
    """Braces that name no column, as LaTeX has them, are text."""
    assert findings(tmp_path, [{**row, "question": f"{row['question']} x^{{{{2}}}}"} for row in rows()]) == ""


def test_repeats_and_contradictions_are_told(tmp_path: Path) -> None:
    """A row asked twice is counted, and so is a question with two right answers."""
    test = [*rows(), rows()[0], {**rows()[1], "answer": 3}]
    told = findings(tmp_path, test)
    assert "1 row(s) are repeats" in told
    assert "1 question(s) are asked more than once with different right answers" in told


def test_shots_that_show_the_question_are_told(tmp_path: Path) -> None:
    """A sample or a near-duplicate among its own shots is told, and so is its question beside other choices."""
    same = rows(4)
    assert "4 sample(s) are among their own shots" in findings(tmp_path / "same", same, same, 4)
    near = [{**row, "source": "book", "question": row["question"].upper()} for row in same]
    told = findings(tmp_path / "near", [{**row, "source": "web"} for row in same], near, 4)
    assert "4 sample(s) are among their own shots, themselves or as a near-duplicate" in told
    other = [{**row, "choices": [f"{choice} or so" for choice in row["choices"]]} for row in same]
    told = findings(tmp_path / "other", same, other, 4)
    assert "4 sample(s) have their question among their shots in a row that differs" in told


def test_a_space_before_the_choice_is_told(tmp_path: Path) -> None:
    """A prompt that ends in a space, with choices that begin with a letter, is told."""
    assert "end in a space" in findings(tmp_path, rows(), doc_to_text="{{question}} ", target_delimiter="")


def test_choices_that_share_their_first_token_are_told(tmp_path: Path) -> None:
    """Labels of different lengths and choices that begin alike are told; the fake's tokens are characters."""
    labels = [{**row, "choices": ["no", "not"], "answer": i % 2} for i, row in enumerate(rows())]
    told = " | ".join(f.text for f in check_tokens(checked(tmp_path, labels, target_delimiter=""), FakeModel()))
    assert "all choices begin with the same token" in told
    assert "labels have different numbers of tokens" in told
    apart = [{**row, "choices": ["A", "B"], "answer": i % 2} for i, row in enumerate(rows())]
    assert not list(check_tokens(checked(tmp_path / "apart", apart, target_delimiter=""), FakeModel()))


def test_a_real_tokenizer_finds_what_melts_together(tmp_path: Path) -> None:
    """`task check --model_args` reads a real tokenizer; letters after a line end are whole tokens there."""
    pytest.importorskip("transformers")
    from evalstone.api.demo import demo_model

    write_rows(tmp_path, rows(12), rows(8))
    path = write_task(tmp_path, task_spec("lamps"))
    found = check_task(str(path), model_args=f"pretrained={demo_model('small')}")
    assert "12 samples, 12 looked at" in str(found.facts["lamps"])
    assert not [finding for finding in found.findings if finding.level == "error"]
