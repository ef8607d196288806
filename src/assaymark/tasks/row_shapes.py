"""The keys of a task file for rows of a known shape, and a line on the guesses.

Shapes: options in columns of their own, in a list, in a mapping by letter or with texts and labels (as ARC has them);
a question with an answer to generate; a question with tools; a text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import unescape
from struct import pack, unpack

from assaymark.datasets import Rows
from assaymark.errors import DataError, clipped
from assaymark.prompts.questions import OWN_LETTER, have_own_letters
from assaymark.python_source import python_value
from assaymark.scoring.metrics import metric_item
from assaymark.tasks.answer_readings import (
    FROM_0,
    FROM_1,
    IN_WORDS,
    LETTER,
    LETTERS,
    TEXT,
    AnswerCounts,
    counted_answers,
)
from assaymark.tasks.images import image_columns
from assaymark.tasks.messages import ChatColumns, ends_with_answer, fault_of_chat, text_key
from assaymark.tasks.row_columns import (
    QuestionColumns,
    ToolColumns,
    find_chat_columns,
    find_columns,
    find_tool_columns,
    row_check,
)
from assaymark.tasks.tool_use import fault_of_row

Spec = Mapping[str, object]
_BEFORE = ("system", "system_prompt", "history")  # columns of what precedes a question, as in LLaMA-Factory's files
_LONG = {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": 512}  # answers of several paragraphs
_IGNORING = "ignoring case, typography and marks at the end"


def _compared() -> Spec:
    """Return how a generated answer is compared with its reference."""
    return {
        "filter_list": [{"name": "none", "filter": [{"function": "remove_whitespace"}, {"function": "take_first"}]}],
        "metric_list": [{**metric_item("exact_match"), "ignore_case": True, "ignore_typography": True}],
    }


@dataclass(frozen=True, slots=True)
class Shape:
    """The guessed roles of a file's columns."""

    spec: Spec  # the keys of the task file
    guess: str  # for people
    used: tuple[str, ...]  # columns
    columns: QuestionColumns | None = None  # None for texts and tools
    tools: ToolColumns | None = None
    chat: ChatColumns | None = None
    kind: str = ""  # how answers name an option, a reading of `answer_readings`, or `label`
    question: str = ""  # templates that other wordings of the same rows are made of; the options are a list
    options: str = ""
    target: str = ""


def shape_of(rows: Rows, answers: str | None = None) -> Shape | None:
    """Return the shape of rows; None for columns that are not known. All rows are read once, and none is kept.

    `answers` is how answers name an option, where the user has said so.

    Raises: DataError for answers that can be read in two ways; for `answers` where rows have no options.
    """
    images = image_columns(rows.column_names)
    shape = _shape_of(rows, answers)
    if answers is not None and (shape is None or shape.kind != answers):
        raise DataError(
            f"--answers says that an answer is {IN_WORDS[answers]}, and these rows have no options that are named so; "
            "omit it"
        )
    if shape is None or not images or shape.tools is not None or shape.columns is None:
        return shape
    spec = {**shape.spec, "doc_to_image": images if len(images) > 1 else images[0]}
    guess = f"{shape.guess}, with the images in {', '.join(images)}"
    return replace(shape, spec=spec, guess=guess, used=(*shape.used, *images))


def check_of(shape: Shape) -> Callable[[Mapping[str, object]], str | None] | None:
    """Return a function from a row to its fault, written after its location; None for texts."""
    if shape.tools is not None:
        return partial(fault_of_row, used=shape.tools)
    if shape.chat is not None:
        return partial(fault_of_chat, used=shape.chat)
    return row_check(shape.columns, shape.kind) if shape.columns is not None else None


def _shape_of(rows: Rows, answers: str | None) -> Shape | None:
    names = [name for name in rows.column_names if name.strip().isidentifier()]
    columns = {name.strip().lower(): name for name in names}
    if (tools := find_tool_columns(columns)) is not None:
        return _with_tools(tools)
    question_columns = find_columns(columns)
    chat = find_chat_columns(columns, lambda name: _first(rows, name))
    is_open = question_columns is not None and not question_columns.options and not question_columns.choices
    if chat is not None or is_open:
        if "tools" in columns and _has_values(rows, columns["tools"]):
            raise DataError(
                f"column '{columns['tools']}' has functions for the model, and no column has the expected calls; "
                "name that column 'calls', or remove the functions"
            )
        given = {name: own for name, own in columns.items() if name in _BEFORE and _has_values(rows, own)}
        if chat is None and given and question_columns is not None:
            chat = _chat_of_texts(question_columns)
        if chat is not None:
            system = given.get("system") or given.get("system_prompt")
            return _with_chats(replace(chat, system=system, history=given.get("history")), rows)
    if question_columns is None:
        if "text" not in columns:
            return None
        text = columns["text"]
        spec = {"output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": text}
        return Shape(spec, f"column '{text}' is read as text whose perplexity is measured", (text,))
    if question_columns.options:
        return _in_columns(question_columns, rows, answers)
    first = _first(rows, question_columns.choices) if question_columns.choices else None
    if isinstance(first, list):
        return _in_list(question_columns, rows, answers)
    if isinstance(first, Mapping) and {"text", "label"} <= first.keys():
        return _labelled(question_columns)
    if isinstance(first, Mapping) and {"A", "B"} <= first.keys():
        return _by_key(question_columns, rows, answers)
    if first is not None:
        raise DataError(
            f"column '{question_columns.choices}' has {first!r:.60}; expected a list of options or a mapping by "
            "letter, as JSON lines have them, or a column for each option; rename it where it has no options"
        )
    return _generated(replace(question_columns, choices=None), rows)


def _first(rows: Rows, column: str) -> object:
    """Return a column's first value that is not missing."""
    return next((value for value in rows.values(column) if value is not None), None)


def _has_values(rows: Rows, column: str) -> bool:
    return any(value not in (None, "", "[]", []) for value in rows.values(column))


def _chat_of_texts(columns: QuestionColumns) -> ChatColumns:
    """Return the chat of a question and an answer that are texts."""
    asked = (
        columns.asked
        if columns.passage is None
        else f"({columns.passage} ~ '\\n' if {columns.passage}) ~ {columns.asked}"
    )
    also = tuple(name for name in (columns.passage, columns.input) if name is not None)
    return ChatColumns(columns.question, columns.answer, None, asked=asked, also=also)


def _with_chats(used: ChatColumns, rows: Rows) -> Shape:
    form = "a chat in ShareGPT's form" if text_key(_first(rows, used.messages)) == "value" else "a chat"
    after = " and ".join(f"'{name}'" for name in (used.system, used.history) if name is not None)
    form = f"after {after} is {form}" if after else f"is {form}"
    answer = f"'{used.answer}'" if used.answer else "its last answer"
    if used.answer and ends_with_answer(_first(rows, used.messages)):
        answer += " (its own last answer is left out)"
    spec = {
        "output_type": "generate_until",
        "doc_to_messages": used.field,
        "doc_to_target": used.target,
        "generation_kwargs": dict(_LONG),
        **_compared(),
    }
    guess = (
        f"'{used.messages}' {form}, sent under the model's template, and the generated answer is compared with "
        f"{answer}, {_IGNORING}"
    )
    return Shape(spec, guess, used.used, chat=used)


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
    question = f"{{{{{columns.asked}}}}}"
    if columns.passage is None:
        return question
    return f"{{% if {columns.passage} %}}{{{{{columns.passage}}}}}\n{{% endif %}}{question}"


def _about(columns: QuestionColumns) -> str:
    """Return the columns of the question, for people."""
    question = f"'{columns.question}'" + (f" followed by '{columns.input}'" if columns.input else "")
    return question + (f" after '{columns.passage}'" if columns.passage else "")


def _target(roles: QuestionColumns, kind: str, options: str, counts: AnswerCounts, *, all_whole: bool) -> str:
    """Return the template of a question's correct option, whose options are the expression `options`."""
    answer = roles.answer
    if kind == LETTER:
        return f"{{{{'{LETTERS}'.index({answer}.strip().upper())}}}}"
    if kind == TEXT and counts.n_exact == counts.fits[TEXT]:
        return f"{{{{{options}.index({answer})}}}}"
    if kind == TEXT:  # the same texts, but not the same types: a column of numbers beside one with words
        texts = f"({options} | map('string') | map('trim') | list)"
        return f"{{{{{texts}.index({answer} | string | trim)}}}}"
    number = answer if all_whole else f"({answer} | trim | int)"
    if kind == FROM_1:
        return f"{{{{{number} - 1}}}}"
    return answer if all_whole else f"{{{{{number}}}}}"


def _are_whole(rows: Rows, column: str) -> bool:
    return all(isinstance(value, int) for value in rows.values(column))


def _in_columns(roles: QuestionColumns, rows: Rows, answers: str | None) -> Shape:
    answer, columns = roles.answer, roles.options
    letters = list(LETTERS[: len(columns)])
    counts = counted_answers(zip(rows.values(answer), _beside(rows, columns), strict=True))
    strip = _unlettered if any(map(have_own_letters, _beside(rows, columns))) else (lambda option, _: option)
    pairs = zip(letters, columns, strict=True)
    lines = "\n".join(f"{letter}. {{{{{strip(column, repr(letter))}}}}}" for letter, column in pairs)
    kind, listed = counts.reading(answer, answers), f"[{', '.join(columns)}]"
    target = _target(roles, kind, listed, counts, all_whole=_are_whole(rows, answer))
    if kind == LETTER:
        target = f"{{{{{letters}.index({answer}.strip().upper())}}}}"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{_asked(roles)}\n{lines}\nAnswer:",
        "doc_to_choice": letters,
        "doc_to_target": target,
        "metric_list": [metric_item("acc")],
    }
    guess = f"multiple choice by letter: {_about(roles)}, choices {', '.join(columns)}, '{answer}' is {IN_WORDS[kind]}"
    return Shape(spec, guess, roles.used, roles, kind=kind, question=roles.asked, options=listed, target=target)


def _beside(rows: Rows, columns: Sequence[str]) -> Iterator[tuple[object, ...]]:
    return zip(*(rows.values(column) for column in columns), strict=True)


def _unlettered(option: str, letter: str) -> str:
    """Return the expression of an option without the letter that its text begins with."""
    before, after = OWN_LETTER
    return f"{option} | string | regex_replace('{before}' ~ {letter} ~ '{after}', '')"


def _in_list(roles: QuestionColumns, rows: Rows, answers: str | None) -> Shape:
    answer, choices = roles.answer, str(roles.choices)
    pairs = ((value, options or ()) for value, options in zip(rows.values(answer), rows.values(choices), strict=True))
    counts = counted_answers(pairs, is_typed=True)
    kind = counts.reading(answer, answers)
    if kind == LETTER:
        return _lettered(roles, rows, f"'{choices}'", choices, f"{choices}|length")
    target = _target(roles, kind, choices, counts, all_whole=_are_whole(rows, answer))
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{_before_question(roles)}Question: {{{{{roles.asked}}}}}\nAnswer:",
        "doc_to_choice": choices,
        "doc_to_target": target,
    }
    guess = f"multiple choice by text: {_about(roles)}, '{choices}', '{answer}' is {IN_WORDS[kind]}"
    return Shape(spec, guess, roles.used, roles, kind=kind, question=roles.asked, options=choices, target=target)


def _before_question(columns: QuestionColumns) -> str:
    return "" if columns.passage is None else f"{{% if {columns.passage} %}}{{{{{columns.passage}}}}}\n{{% endif %}}"


def _labelled(roles: QuestionColumns) -> Shape:
    options, target = f"{roles.choices}.text", f"{{{{{roles.choices}.label.index({roles.answer})}}}}"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{_before_question(roles)}Question: {{{{{roles.asked}}}}}\nAnswer:",
        "doc_to_choice": f"{{{{{options}}}}}",
        "doc_to_target": target,
    }
    guess = f"multiple choice by text: {_about(roles)}, '{options}', '{roles.answer}' is one of '{roles.choices}.label'"
    return Shape(spec, guess, roles.used, roles, kind="label", question=roles.asked, options=options, target=target)


def _by_key(roles: QuestionColumns, rows: Rows, answers: str | None) -> Shape:
    """Return the shape of options in a mapping by letter; a letter without an option is not an option."""
    choices = str(roles.choices)
    present = (
        f"{choices} | dictsort(true) | map('last') | reject('in', [none, '']) | list"  # A first, wherever it stands
    )
    shape = _lettered(roles, rows, f"'{choices}' by letter", present, f"({present}) | length")
    pairs = zip(rows.values(roles.answer), rows.values(choices), strict=True)
    counts = counted_answers(((value, _given(row)) for value, row in pairs), is_typed=True)
    kind = counts.reading(roles.answer, answers)
    if kind == LETTER:
        return shape
    target = _target(roles, kind, f"({present})", counts, all_whole=False)
    if kind in (FROM_0, FROM_1):
        target = f"{{{{({roles.answer} | string | trim | int) - {int(kind == FROM_1)}}}}}"
    guess = shape.guess.replace("is a letter", f"is {IN_WORDS[kind]}")
    spec = {**shape.spec, "doc_to_target": target}
    return Shape(spec, guess, roles.used, roles, kind=kind, question=roles.asked, options=shape.options, target=target)


def _given(options: object) -> Sequence[object]:
    """Return the options of one row, of a list or a mapping by letter."""
    values = [each for _, each in sorted(options.items())] if isinstance(options, Mapping) else options or ()
    return [each for each in values if each not in (None, "")] if isinstance(values, Iterable) else ()


def _lettered(roles: QuestionColumns, rows: Rows, choices: str, options: str, n_options: str) -> Shape:
    """Return the shape of questions with a varying number of options, answered by letter."""
    letter = f"'{LETTERS}'[loop.index0]"
    has_letters = any(have_own_letters(_given(row)) for row in rows.values(str(roles.choices)))
    option = _unlettered("option", letter) if has_letters else "option"
    target = f"{{{{'{LETTERS}'.index({roles.answer}.strip().upper())}}}}"
    spec = {
        "output_type": "multiple_choice",
        "doc_to_text": f"{_asked(roles)}\n{{% for option in {options} %}}"
        f"{{{{{letter}}}}}. {{{{{option}}}}}\n{{% endfor %}}Answer:",
        "doc_to_choice": f"{{{{'{LETTERS}'[:{n_options}] | list}}}}",
        "doc_to_target": target,
        "metric_list": [metric_item("acc")],
    }
    guess = f"multiple choice by letter: {_about(roles)}, choices {choices}, '{roles.answer}' is a letter"
    return Shape(spec, guess, roles.used, roles, kind=LETTER, question=roles.asked, options=options, target=target)


def _reference(rows: Rows, answer: str) -> tuple[str, bool]:
    """Return the target of generated answers, and whether it is a list of texts any of which is right."""
    first = _first(rows, answer)
    if isinstance(first, Mapping):
        by_name = f"{answer}.text" if "text" in first else f"[{answer}.value] + ({answer}.aliases or [])"
        return f"{{{{{by_name}}}}}", True
    if (rounded := next((value for value in rows.values(answer) if _is_of_32_bits(value)), None)) is not None:
        raise DataError(
            f"column '{answer}' has {rounded!r}, a number of 32 bits, whose digits nobody answers; save the column "
            "with 64 bits, or as texts"
        )
    if isinstance(first, bool) and all(isinstance(value, bool | None) for value in rows.values(answer)):
        return f"{{{{['True', 'Yes'] if {answer} else ['False', 'No']}}}}", True
    if any(isinstance(value, list) for value in rows.values(answer)):
        return f"{{{{{answer} if {answer} is iterable and {answer} is not string else [{answer}]}}}}", True
    if not any(isinstance(value, str) and value.startswith("[") for value in rows.values(answer)):
        return f"{{{{{answer}}}}}", False
    # a CSV file has lists as texts: a template that renders one is several references, and a column is a text
    are_lists = all(map(_is_list_as_text, rows.values(answer)))
    return (f"{{{{{answer}}}}}" if are_lists else answer), are_lists


def _is_of_32_bits(value: object) -> bool:
    """Return whether a number is one of 32 bits that was widened, such as 0.10000000149011612 of 0.1."""
    if not isinstance(value, float) or len(repr(value)) < 15 or not abs(value) < 1e38:
        return False
    return bool(unpack("f", pack("f", value))[0] == value)


def _is_list_as_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parsed = python_value(value)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return isinstance(parsed, list) and bool(parsed) and all(isinstance(each, str) for each in parsed)


_BETWEEN = re.compile(r"\s*[;|]\s*|\s+(?:/|or)\s+|(?<=[^\W\d_]{3})/(?=[^\W\d_]{3})")
_LONGEST_REFERENCE = 200  # characters of one that may be several answers; a longer one is a text


def _has_solution(reference: object) -> bool:
    """Return whether a reference ends with its answer, as GSM8K's (#### 4) and MATH's (a box) do."""
    if not isinstance(reference, str):
        return False
    last = reference.rstrip().rpartition("\n")[2].lstrip()
    return last.startswith("####") or ("\\boxed" in reference and not re.match(r"\W*boxed\b", reference))


def _said_of_references(rows: Rows, answer: str) -> str:
    """Return the end of the note where only a part of references can be meant: one of several answers, or the last."""
    n, first, n_worked = 0, "", 0
    for value in rows.values(answer):
        n_worked += _has_solution(value)
        if not isinstance(value, str) or len(value) > _LONGEST_REFERENCE or "\n" in value or "://" in value:
            continue
        parts = [part for part in _BETWEEN.split(unescape(value)) if any(map(str.isalnum, part))]
        if _is_list_as_text(value) or (len(parts) > 1 and all(len(part.split()) <= 5 for part in parts)):
            n, first = n + 1, first or value
    if n_worked:
        worked = "1 reference has its answer" if n_worked == 1 else f"{n_worked:,} references have their answer"
        return f"; {worked} after #### or in \\boxed{{}}, and only all of it is right: leave the answer alone there"
    if not n:
        return ""
    have = "1 reference looks" if n == 1 else f"{n:,} references look"
    return (
        f"; {have} like several answers ('{clipped(first, 40)}'), and only all of it is right: where each is, "
        'write every reference as a list, ["first", "second"]'
    )


def _generated(roles: QuestionColumns, rows: Rows) -> Shape:
    question, answer = roles.question, roles.answer
    reference, are_several = _reference(rows, answer)
    spec = {
        "output_type": "generate_until",
        "doc_to_text": _asked(roles),
        "doc_to_target": reference,
        "generation_kwargs": {"plain_until": ["\n\n"], "do_sample": False, "temperature": 0.0},
        **_compared(),
    }
    if roles.input is not None:
        spec["generation_kwargs"] = dict(_LONG)
    if question.lower() == "prompt" or roles.input is not None:
        guess = f"{_about(roles)} is the prompt as it is"
    else:
        spec["doc_to_text"] = f"{_before_question(roles)}Question: {{{{{roles.asked}}}}}\nAnswer:"
        guess = f"{_about(roles)} is a question"
    guess += f", the generated answer is compared with '{answer}'"
    is_boolean = reference.startswith("{{['True'")
    guess += ", where yes is true and no is false" if is_boolean else ", any of whose texts is right" * are_several
    return Shape(
        spec,
        f"{guess}, {_IGNORING}{'' if are_several else _said_of_references(rows, answer)}",
        roles.used,
        roles,
        question=roles.asked,
        target=f"{{{{{answer}}}}}" if reference == answer else reference,
    )
