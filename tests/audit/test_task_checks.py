"""Findings of `task check` before a task is run."""

from pathlib import Path
from typing import Any

import pytest

from assaymark.audit.task_check import CheckedTask, check_requests, check_task, check_tokens
from assaymark.models.fake import FakeModel
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from tests.tasks.folders import task_spec, write_rows, write_task

Row = dict[str, Any]


def rows(n: int = 80, right: int | None = None) -> list[Row]:
    """Return questions with four options; gold positions are even, or all equal to `right`."""
    choices = ["red", "blue", "green", "white"]
    return [
        {"question": f"Lamp {i} is?", "choices": choices, "answer": i % 4 if right is None else right} for i in range(n)
    ]


def findings(folder: Path, test: list[Row], train: list[Row] | None = None, shots: int = 0, **changes: Any) -> str:
    """Return all findings about a small task."""
    return " | ".join(finding.text for finding in check_requests(checked(folder, test, train, shots, **changes)))


def checked(
    folder: Path, test: list[Row], train: list[Row] | None = None, shots: int = 0, **changes: Any
) -> CheckedTask:
    """Return a small task, rendered."""
    write_rows(folder, test, train or rows(8))
    path = write_task(folder, task_spec("lamps", **changes))
    bound = bind(Catalog.open([folder]).select([str(path)]).tasks[0], BindOptions(num_fewshot=shots))
    return CheckedTask(bound, tuple(bound.requests()))


def test_a_sound_task_has_no_findings(tmp_path: Path) -> None:
    """Even gold positions, distinct rows and distinct choices give no finding."""
    assert findings(tmp_path, rows()) == ""


def test_an_option_that_is_nothing_is_reported(tmp_path: Path) -> None:
    """A task file's list with null or an empty text among its texts is an error, whether the choices are letters."""
    padded = [{**row, "choices": [*row["choices"], None, ""]} for row in rows(2)]
    said = "2 row(s) have nothing in an entry of a list of texts, first sample 0"
    assert said in findings(tmp_path, [*padded, *rows()[2:]])
    assert said in findings(tmp_path, [*padded, *rows()[2:]], doc_to_choice=["A", "B", "C", "D"])


@pytest.mark.slow
def test_skewed_golds_are_reported_with_the_score_of_a_constant_answer(tmp_path: Path) -> None:
    """If the gold answer is always third, the finding says so; if all samples share their choices, it names it."""
    text = findings(tmp_path, rows(right=2))
    assert "number 3 in 100% of samples, 25% expected" in text
    assert "a constant answer of 'green' scores that" in text


def test_a_skewed_key_of_generation_targets_is_reported(tmp_path: Path) -> None:
    """If one target is correct in most samples, the finding names it and the score of always giving it."""
    generation: Row = {"output_type": "generate_until", "doc_to_choice": ..., "metric_list": ...}
    text = findings(tmp_path, rows(right=2), doc_to_target="{{choices[answer]}}", **generation)
    assert "the answer key is skewed: 'green' is correct in 100% of samples" in text
    assert findings(tmp_path, rows(), doc_to_target="{{choices[answer]}}", **generation) == ""


def test_empty_references_are_reported(tmp_path: Path) -> None:
    """A row whose reference is empty makes an empty answer right, which the finding says."""
    generation: Row = {"output_type": "generate_until", "doc_to_choice": ..., "metric_list": ...}
    test = [{**row, "reference": "" if i == 3 else f"lamp {i}"} for i, row in enumerate(rows())]
    text = findings(tmp_path, test, doc_to_target="{{reference}}", **generation)
    assert "lamps: 1 row(s) have an empty reference, first sample 3; an empty answer is right there" in text


def test_shots_from_the_test_split_are_reported(tmp_path: Path) -> None:
    """A fewshot_split that is the test split is a warning if shots are drawn, and a note if none are."""
    for shots, level in ((2, "warning"), (0, "note")):
        results = [request for request in check_requests(checked(tmp_path, rows(), None, shots, fewshot_split="test"))
                if "is the test split 'test'" in request.text]  # fmt: skip
        assert [each.level for each in results] == [level]


def test_notes_are_not_called_warnings(tmp_path: Path) -> None:
    """A guess about a file of rows is a note."""
    lines = "".join(f"Lamp {i}?,{'AB'[i % 2]},red,blue\n" for i in range(8))
    (tmp_path / "mine.csv").write_text("question,answer,A,B\n" + lines, encoding="utf-8")
    result = check_task(str(tmp_path / "mine.csv"))
    assert [finding.level for finding in result.findings if "multiple choice by letter" in finding.text] == ["note"]
    assert "warning" not in {each.level for each in result.findings}


def test_golds_of_samples_with_different_numbers_of_choices_are_tested_together(tmp_path: Path) -> None:
    """Always the first of two, three or four choices is a skew too."""
    uneven = [{**row, "choices": row["choices"][: 2 + i % 3], "answer": 0} for i, row in enumerate(rows())]
    assert "number 1 in 100%" in findings(tmp_path, uneven)


def test_columns_left_in_braces_are_reported_with_file_and_key(tmp_path: Path) -> None:
    """A list of templates is used literally, as in lm-eval, and is reported; so are templates inside rows."""
    literal = findings(tmp_path, rows(), doc_to_choice=["{{question}}", "{{answer}}", "c", "d"])
    assert "lamps.yaml: doc_to_choice: choices contain unrendered {{, first lamps/0/0: '{{question}}'" in literal
    assert "write one template that returns a list" in literal
    assert "doc_to_target" not in literal
    within = [{**row, "question": f"{row['question']} {{{{ answer }}}}"} for row in rows()]
    assert "doc_to_text: prompts contain unrendered {{" in findings(tmp_path, within)
    generation: Row = {"output_type": "generate_until", "doc_to_choice": ..., "metric_list": ...}
    text = findings(tmp_path, rows(), doc_to_target=["{{answer}}"], **generation)
    assert "doc_to_target: targets contain unrendered {{" in text


def test_braces_of_formulas_are_not_templates(tmp_path: Path) -> None:
    """Braces that name no column, as in LaTeX, are text."""
    assert findings(tmp_path, [{**row, "question": f"{row['question']} x^{{{{2}}}}"} for row in rows()]) == ""


def test_duplicates_and_contradictions_are_reported(tmp_path: Path) -> None:
    """Duplicate rows are counted, and so are questions with two correct answers."""
    test = [*rows(), rows()[0], {**rows()[1], "answer": 3}]
    text = findings(tmp_path, test)
    assert "1 row(s) are duplicates" in text
    assert "1 question(s) occur more than once with different correct answers" in text


def test_shots_that_show_the_question_are_reported(tmp_path: Path) -> None:
    """A sample or a near-duplicate among its own shots is reported, and so is its question with other choices."""
    same = rows(4)
    assert "4 sample(s) are among their own shots" in findings(tmp_path / "same", same, same, 4)
    near = [{**row, "source": "book", "question": row["question"].upper()} for row in same]
    text = findings(tmp_path / "near", [{**row, "source": "web"} for row in same], near, 4)
    assert "4 sample(s) are among their own shots, exactly or as a near-duplicate" in text
    other = [{**row, "choices": [f"{choice} or so" for choice in row["choices"]]} for row in same]
    text = findings(tmp_path / "other", same, other, 4)
    assert "4 sample(s) have their question among their shots in a row that differs" in text


def test_a_space_before_the_choice_is_reported(tmp_path: Path) -> None:
    """A prompt that ends in a space, with choices that begin with a letter, is reported."""
    assert "end in a space" in findings(tmp_path, rows(), doc_to_text="{{question}} ", target_delimiter="")


def test_choices_that_share_their_first_token_are_reported(tmp_path: Path) -> None:
    """Labels of different lengths and choices that begin alike are reported; the fake's tokens are characters."""
    labels = [{**row, "choices": ["no", "not"], "answer": i % 2} for i, row in enumerate(rows())]
    text = " | ".join(f.text for f in check_tokens(checked(tmp_path, labels, target_delimiter=""), FakeModel()))
    assert "all choices begin with the same token" in text
    assert "labels have different numbers of tokens" in text
    apart = [{**row, "choices": ["A", "B"], "answer": i % 2} for i, row in enumerate(rows())]
    assert not list(check_tokens(checked(tmp_path / "apart", apart, target_delimiter=""), FakeModel()))


def test_a_real_tokenizer_is_used_for_token_checks(tmp_path: Path) -> None:
    """`task check --model_args` loads a real tokenizer; it finds no error in a sound task."""
    pytest.importorskip("transformers")
    from assaymark.runs.demo import demo_model

    write_rows(tmp_path, rows(12), rows(8))
    path = write_task(tmp_path, task_spec("lamps"))
    result = check_task(str(path), model_args=f"pretrained={demo_model('small')}")
    assert "12 samples, 12 checked" in str(result.facts["lamps"])
    assert not [finding for finding in result.findings if finding.level == "error"]


def test_a_text_under_two_letters_is_reported(tmp_path: Path) -> None:
    """A row of a user's file that has a wrong option twice is named, also where its answer is a letter."""
    lines = "".join(f"Lamp {i}?,red{i},{'red' if i == 3 else 'blue'}{i},green{i},{'CAB'[i % 3]}\n" for i in range(6))
    (tmp_path / "lamps.csv").write_text("question,A,B,C,answer\n" + lines)
    results = [finding.text for finding in check_task(str(tmp_path / "lamps.csv")).findings]
    assert "1 row(s) have the same option twice, first sample 3" in results
