"""A task file's `doc_to_text`, `doc_to_target` and `doc_to_choice` as functions of a row.

The meaning of a field depends on its value: a number is itself, the name of a column is that column, any other text is
a template, a function is called. Text that renders as digits is an index if the task has choices; a target that renders
as a list is several targets. These rules are lm-evaluation-harness's.
"""

from collections.abc import Callable, Collection
from typing import Any

from assaymark.errors import DataError, MalformedSample
from assaymark.limits.characters import exception_text
from assaymark.prompts.templates import compile_template
from assaymark.python_source import python_value
from assaymark.records import Row

Resolve = Callable[[Row], Any]  # what a user's function or row gives is not known before it is checked


def _without_template(
    key: str, field: object, columns: Collection[str], constants: tuple[type, ...], kinds: str
) -> Resolve | None:
    """Return the function of a key's value that is no template; None for a template.

    Raises: DataError for a value that is neither of the constants' types nor a text or a function.
    """
    if callable(field):
        return _called(field)
    if isinstance(field, constants):
        return lambda _: field
    if not isinstance(field, str):
        raise DataError(f"{key} is {field!r}; expected a column, a template, {kinds} or a function")
    return _column(field) if field in columns else None


def resolve_text(field: object, columns: Collection[str], *, has_choices: bool) -> Resolve:
    """Return the function for `doc_to_text`: usually a text; an index if the choices are contexts."""
    if (plain := _without_template("doc_to_text", field, columns, (int,), "a number")) is not None:
        return plain
    render = compile_template(str(field), "doc_to_text")
    if not has_choices:
        return render

    def text_or_index(row: Row) -> str | int:
        text = render(row)
        return int(text) if text.isdigit() else text

    return text_or_index


def resolve_target(field: object, columns: Collection[str], *, has_choices: bool) -> Resolve:
    """Return the function for `doc_to_target`: a text, an index into the choices, or a list of either."""
    if (plain := _without_template("doc_to_target", field, columns, (int, list), "a number, a list")) is not None:
        return plain
    render = compile_template(str(field), "doc_to_target")

    def target(row: Row) -> object:
        text = render(row)
        if has_choices and text.isdigit():
            return int(text)
        if len(text) >= 2 and text[0] == "[" and text[-1] == "]":
            try:
                return python_value(text)
            except (SyntaxError, ValueError):
                return text
        return text

    return target


def resolve_one_target(field: object, columns: Collection[str]) -> Resolve:
    """Return the function for a `doc_to_target` that is one text, also where it looks like a list or an index."""
    if not isinstance(field, str) or field in columns:
        return resolve_target(field, columns, has_choices=False)
    return compile_template(field, "doc_to_target")


def resolve_choices(field: object, columns: Collection[str]) -> Resolve:
    """Return the function for `doc_to_choice`: a list of texts."""
    if isinstance(field, dict):
        field = list(field.values())
    if (plain := _without_template("doc_to_choice", field, columns, (list,), "a list, a mapping")) is not None:
        return plain
    render = compile_template(str(field), "doc_to_choice")

    def choices(row: Row) -> object:
        text = render(row)
        try:
            return python_value(text)
        except (SyntaxError, ValueError) as error:
            raise MalformedSample(
                f"doc_to_choice returns {text!r:.120}; expected a list, as {{{{[a, b]}}}} returns one"
            ) from error

    return choices


def resolve_turns(field: object, columns: Collection[str]) -> Callable[[Row], list[str]]:
    """Return the function for `doc_to_turns`: the user's messages, one text for each turn.

    It accepts what `doc_to_choice` accepts; a list in the file has one template for each turn.
    """
    if isinstance(field, list):
        templates = [compile_template(str(each), "doc_to_turns") for each in field]
        return lambda row: [render(row) for render in templates]
    resolve = resolve_choices(field, columns)

    def turns(row: Row) -> list[str]:
        texts = resolve(row)
        if not isinstance(texts, list) or not texts or not all(isinstance(each, str) for each in texts):
            raise MalformedSample(f"doc_to_turns returns {texts!r:.120}; expected a list of one or more texts")
        return texts

    return turns


def first_turn(turns: Callable[[Row], list[str]]) -> Resolve:
    """Return the function for the text that begins a conversation."""
    return lambda row: turns(row)[0]


def resolve_own(field: object, columns: Collection[str]) -> Callable[[Row], str | None]:
    """Return the function for `gen_prefix` of the evaluated sample: a column, a template, or nothing."""
    if field is None:
        return lambda _: None
    if not isinstance(field, str):
        raise DataError(f"gen_prefix is {field!r}; expected a column or a template")
    return _column(field) if field in columns else compile_template(field, "gen_prefix")


def resolve_loose(field: object) -> Callable[[Row], object]:
    """Return the function for `description` and a shot's `gen_prefix`: the column of that name, else a template."""
    if not field:
        return lambda _: None
    if not isinstance(field, str):
        raise DataError(f"description or gen_prefix is {field!r}; expected a text")
    render: list[Callable[[Row], str]] = []

    def value(row: Row) -> object:
        if field in row:
            return row[field]
        if not render:
            render.append(compile_template(field, "description"))
        return render[0](row)

    return value


def _column(name: str) -> Resolve:
    def column(row: Row) -> object:
        try:
            return row[name]
        except KeyError:
            raise MalformedSample(f"the row has no column '{name}'; it has {', '.join(row)}") from None

    return column


def _called(function: Callable[[Row], object]) -> Resolve:
    name = getattr(function, "__name__", "a function")

    def call(row: Row) -> object:
        try:
            return function(row)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            raise MalformedSample(
                f"the task's function {name} failed on a row: {exception_text(error)}; "
                f"the row has {', '.join(map(str, row))}"
            ) from error

    return call
