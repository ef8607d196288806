"""The keys of a task file for rows of a known shape, and a line that says what was guessed.

Shapes: options in columns of their own, in a list, in a mapping by letter or with texts and labels (as ARC has them);
a question with an answer to generate; a question with tools; a text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from assaymark.datasets import Rows
from assaymark.scoring.metrics import metric_item
from assaymark.tasks.image_columns import image_columns
from assaymark.tasks.row_columns import (
    LETTERS,
    AnswerCounts,
    QuestionColumns,
    ToolColumns,
    counted_answers,
    find_columns,
    find_tool_columns,
)

__all__ = ["Shape", "shape_of"]

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What was guessed about a file's columns."""

    spec: Spec  # the keys of the task file
    guess: str  # for people
    used: tuple[str, ...]  # columns
    columns: QuestionColumns | None = None  # None for texts and tools
    tools: ToolColumns | None = None
    kind: str = ""  # how answers name an option, as `AnswerCounts.kind`, or `label`
    question: str = ""  # templates that other wordings of the same rows are made of; the options are a list
    options: str = ""
    target: str = ""


def shape_of(rows: Rows) -> Shape | None:
    """Return the shape of rows; None for columns that are not known. All rows are read once, and none is kept."""
    images = image_columns(rows.column_names)
    shape = _shape_of(rows)
    if shape is None or not images or shape.tools is not None or shape.columns is None:
        return shape
    spec = {**shape.spec, "doc_to_image": images if len(images) > 1 else images[0]}
    guess = f"{shape.guess}, with the images in {', '.join(images)}"
    return replace(shape, spec=spec, guess=guess, used=(*shape.used, *images))


def _shape_of(rows: Rows) -> Shape | None:
    names = [name for name in rows.column_names if name.strip().isidentifier()]
    columns = {name.strip().lower(): name for name in names}
    if (tools := find_tool_columns(columns)) is not None:
        return _with_tools(tools)
    found = find_columns(columns)
    if found is None:
        if "text" not in columns:
            return None
        text = columns["text"]
        spec = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": text}
        return Shape(spec, f"column '{text}' is read as text whose perplexity is measured", (text,))
    if found.options:
        return _in_columns(found, rows)
    first = next((value for value in rows.values(found.choices) if value is not None), None) if found.choices else None
    if isinstance(first, list):
        return _in_list(found, rows)
    if isinstance(first, Mapping) and {"text", "label"} <= first.keys():
        return _labelled(found)
    if isinstance(first, Mapping) and {"A", "B"} <= first.keys():
        return _by_key(found, rows)
    return _generated(QuestionColumns(found.question, found.answer, passage=found.passage))


def _with_tools(used: ToolColumns) -> Shape:
    text = {"doc_to_messages": used.question} if used.are_messages else {"doc_to_text": f"{{{{{used.question}}}}}"}
    spec = {
        "output_type": "generate_until",
        **text,
        "doc_to_tools": used.tools,
        "doc_to_target": used.calls,
        "generation_kwargs": {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": 1024},
        "metric_list": [metric_item("call_match")],
    }
    guess = (
        f"'{used.question}' is asked with the functions in '{used.tools}', the calls are compared with '{used.calls}'"
    )
    return Shape(spec, guess, (used.question, used.tools, used.calls), tools=used)


def _asked(columns: QuestionColumns) -> str:
    """Return the template of a question, after its passage if it has one."""
    question = f"{{{{{columns.question}}}}}"
    if columns.passage is None:
        return question
    return f"{{% if {columns.passage} %}}{{{{{columns.passage}}}}}\n{{% endif %}}{question}"


def _about(columns: QuestionColumns) -> str:
    """Return the columns of the question, for people."""
    return f"'{columns.question}'" + (f" after '{columns.passage}'" if columns.passage else "")


def _in_columns(found: QuestionColumns, rows: Rows) -> Shape:
    answer, options = found.answer, found.options
    letters = list(LETTERS[: len(options)])
    lines = "\n".join(f"{letter}. {{{{{column}}}}}" for letter, column in zip(letters, options, strict=True))
    kind = counted_answers((value, len(options)) for value in rows.values(answer)).kind
    if kind.startswith("number"):
        first = int(kind == "number from 1")
        is_text = not all(isinstance(value, int) for value in rows.values(answer))
        number = f"({answer} | trim | int)" if is_text else answer
        target = f"{{{{{number} - 1}}}}" if first else f"{{{{{number}}}}}" if is_text else answer
        means = f"a {kind}"
    elif kind == "letter":
        target, means = f"{{{{{letters}.index({answer}.strip().upper())}}}}", "a letter"
    else:
        target, means = f"{{{{[{', '.join(options)}].index({answer})}}}}", "the text of a choice"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{_asked(found)}\n{lines}\nAnswer:",
        "doc_to_choice": letters,
        "doc_to_target": target,
        "metric_list": [metric_item("acc")],
    }
    guess = f"multiple choice by letter: {_about(found)}, choices {', '.join(options)}, '{answer}' is {means}"
    return Shape(spec, guess, found.used, found, None, kind, found.question, f"[{', '.join(options)}]", target)


def _in_list(found: QuestionColumns, rows: Rows) -> Shape:
    answer, choices = found.answer, str(found.choices)
    pairs = zip(rows.values(answer), rows.values(choices), strict=True)
    known = [0, 0]  # answers that are options, and all
    counts = AnswerCounts()
    for value, options in pairs:
        counts.add(value, len(options or ()))
        known[0] += value is not None and not isinstance(value, int) and value in (options or ())
        known[1] += value is not None
    if counts.kind == "letter" and known[0] * 2 < known[1]:
        return _lettered(found, f"'{choices}'", choices, f"{choices}|length")
    is_number = counts.kind.startswith("number") and known[0] * 2 < known[1]
    kind = counts.kind if is_number else "text"
    is_text = is_number and not all(isinstance(value, int) for value in rows.values(answer))
    number = f"({answer} | trim | int)" if is_text else answer
    target = f"{{{{{choices}.index({answer})}}}}"
    if is_number:
        target = f"{{{{{number} - 1}}}}" if kind == "number from 1" else f"{{{{{number}}}}}" if is_text else answer
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{_before_question(found)}Question: {{{{{found.question}}}}}\nAnswer:",
        "doc_to_choice": choices,
        "doc_to_target": target,
    }
    means = f"a {kind}" if is_number else "the text of a choice"
    guess = f"multiple choice by text: {_about(found)}, '{choices}', '{answer}' is {means}"
    return Shape(spec, guess, found.used, found, None, kind, found.question, choices, target)


def _before_question(columns: QuestionColumns) -> str:
    return "" if columns.passage is None else f"{{% if {columns.passage} %}}{{{{{columns.passage}}}}}\n{{% endif %}}"


def _labelled(found: QuestionColumns) -> Shape:
    options, target = f"{found.choices}.text", f"{{{{{found.choices}.label.index({found.answer})}}}}"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{_before_question(found)}Question: {{{{{found.question}}}}}\nAnswer:",
        "doc_to_choice": f"{{{{{options}}}}}",
        "doc_to_target": target,
    }
    guess = f"multiple choice by text: {_about(found)}, '{options}', '{found.answer}' is one of '{found.choices}.label'"
    return Shape(spec, guess, found.used, found, None, "label", found.question, options, target)


def _by_key(found: QuestionColumns, rows: Rows) -> Shape:
    """Return the shape of options in a mapping by letter; a letter without an option is no option."""
    choices = str(found.choices)
    present = f"{choices}.values() | select | list"
    shape = _lettered(found, f"'{choices}' by letter", present, f"({present}) | length")
    pairs = zip(rows.values(found.answer), rows.values(choices), strict=True)
    kind = counted_answers((value, sum(each is not None for each in (row or {}).values())) for value, row in pairs).kind
    if kind == "letter":
        return shape
    target = f"{{{{({present}).index({found.answer})}}}}"
    if kind.startswith("number"):
        target = f"{{{{({found.answer} | string | trim | int) - {int(kind == 'number from 1')}}}}}"
    means = "the text of a choice" if kind == "text" else f"a {kind}"
    guess = shape.guess.replace("is a letter", f"is {means}")
    spec = {**shape.spec, "doc_to_target": target}
    return Shape(spec, guess, found.used, found, None, kind, found.question, shape.options, target)


def _lettered(found: QuestionColumns, shown: str, options: str, n_options: str) -> Shape:
    """Return the shape of questions with a varying number of options, answered by letter."""
    target = f"{{{{'{LETTERS}'.index({found.answer}.strip().upper())}}}}"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{_asked(found)}\n{{% for option in {options} %}}"
        f"{{{{'{LETTERS}'[loop.index0]}}}}. {{{{option}}}}\n{{% endfor %}}Answer:",
        "doc_to_choice": f"{{{{'{LETTERS}'[:{n_options}] | list}}}}",
        "doc_to_target": target,
        "metric_list": [metric_item("acc")],
    }
    guess = f"multiple choice by letter: {_about(found)}, choices {shown}, '{found.answer}' is a letter"
    return Shape(spec, guess, found.used, found, None, "letter", found.question, options, target)


def _generated(found: QuestionColumns) -> Shape:
    question, answer = found.question, found.answer
    spec = {
        "output_type": "generate_until",
        "doc_to_text": _asked(found),
        "doc_to_target": f"{{{{{answer}}}}}",
        "generation_kwargs": {"until": ["\n\n"], "do_sample": False, "temperature": 0.0},
        "filter_list": [{"name": "none", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}],
        "metric_list": [
            {**metric_item("exact_match"), "ignore_case": True, "ignore_punctuation": True},
        ],
    }
    if question.lower() == "prompt":
        after = f" after '{found.passage}'" if found.passage else ""
        guess = f"'{question}'{after} is the prompt as it is, the generated answer is compared with '{answer}'"
    else:
        spec["doc_to_text"] = f"{_before_question(found)}Question: {{{{{question}}}}}\nAnswer:"
        guess = f"{_about(found)} is a question, the generated answer is compared with '{answer}'"
    return Shape(
        spec, guess + ", ignoring case and punctuation", found.used, found, None, "", question, "", f"{{{{{answer}}}}}"
    )
