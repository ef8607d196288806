"""A task's samples taken apart for audits: question, options, right answer, and the text that training would have held.

A task file says how a prompt is written and not which part of it is the question. What of the row stands in the prompt
and is no option is taken for it, so that any multiple choice task can be asked in another wording.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalstone.prompts.prompter import Render
from evalstone.records import LoglikelihoodAsk, Request, RollingAsk, Sample
from evalstone.tasks.bound import BoundTask
from evalstone.tasks.gold import choice_asks, gold_choices

__all__ = ["Item", "items_of", "without_question"]

SHORTEST_PART = 3  # characters: shorter strings of a row stand in a prompt by accident
_MARKER = re.compile(r"^\W*([A-Za-z]|\d{1,2})\W*$")  # what stands for an option: A, (b), 3.


@dataclass(frozen=True, slots=True)
class Item:
    """One sample as audits see it."""

    index: int
    row: Mapping[str, Any]
    request: Request
    text: str  # the question as the task puts it, and its right answer
    question: str | None = None  # None: the row does not let one tell it from the rest of the prompt
    options: tuple[str, ...] = ()  # in the row's order; empty for a task without choices
    gold: frozenset[int] = frozenset()  # positions of the right options

    @property
    def has_options(self) -> bool:
        """Whether it can be asked as a question with options."""
        return self.question is not None and len(set(self.options)) > 1 and bool(self.gold)


def items_of(bound: BoundTask, render: Render | None = None) -> list[Item]:
    """Return the samples of a task in the order of its file; `render` puts them into a chat template."""
    items = [_item(bound, sample, render) for sample in bound.samples()]
    return sorted(items, key=lambda item: item.index)


def _item(bound: BoundTask, sample: Sample, render: Render | None) -> Item:
    request = bound.request(sample, render)
    asks = choice_asks(request)
    shown = request.segments[-1] if request.segments else request.prompt
    if not asks:
        return Item(sample.index, sample.row, request, _text_with_answer(request, shown))
    gold = gold_choices(bound, request, sample)
    right = asks[min(gold)] if gold else asks[0]
    context = shown if right.segments is None else "".join(right.segments)
    text = context + right.continuation
    if right.segments is not None:  # the choices are contexts: there is no question apart from them
        return Item(sample.index, sample.row, request, text, None, (), gold)
    options = _options(sample.row, asks, shown)
    question = _question(sample.row, options, shown)
    return Item(sample.index, sample.row, request, text, question, options, gold)


def _text_with_answer(request: Request, shown: str) -> str:
    ask = request.asks[0]
    if isinstance(ask, RollingAsk):
        return ask.text
    if isinstance(ask, LoglikelihoodAsk):
        return shown + ask.continuation
    return f"{shown} {request.target}"


def _options(row: Mapping[str, Any], asks: Sequence[LoglikelihoodAsk], shown: str) -> tuple[str, ...]:
    """Return the options' texts: the choices, or where these are letters, the row's list that the prompt shows."""
    choices = tuple(ask.continuation.strip() for ask in asks)
    if not all(_MARKER.match(choice) for choice in choices):
        return choices
    for values in _lists(row):
        texts = tuple(str(value).strip() for value in values)
        is_shown = len(texts) == len(choices) and all(texts) and all(text in shown for text in texts)
        if is_shown and not all(_MARKER.match(text) for text in texts):
            return texts
    return choices


def _lists(value: Any) -> Iterator[Sequence[Any]]:
    """Yield every list of texts or numbers in a row, at any depth."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _lists(inner)
    elif isinstance(value, list | tuple):
        if all(isinstance(each, str | int | float) for each in value):
            yield value
        for inner in value:
            yield from _lists(inner)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


def _is_part(text: str, options: Sequence[str], shown: str) -> bool:
    """Return whether a string of the row is a part of the question in the prompt."""
    stripped = text.strip()
    return (
        len(stripped) >= SHORTEST_PART
        and any(character.isalnum() for character in stripped)
        and stripped not in options
        and stripped in shown
    )


def _question(row: Mapping[str, Any], options: Sequence[str], shown: str) -> str | None:
    """Return the stretch of the prompt from the first to the last part of the question, before any list of options."""
    end = len(shown)
    if all(option in shown for option in options) and not all(_MARKER.match(option) for option in options):
        first = min(shown.rfind(option) for option in options)
        end = shown.rfind("\n", 0, first) if "\n" in shown[:first] else first
    body = shown[:end]
    parts = [text.strip() for text in _strings(row) if _is_part(text, options, body)]
    if not parts:
        return None
    begin = min(body.find(part) for part in parts)
    finish = max(body.rfind(part) + len(part) for part in parts)
    return body[begin:finish]


def without_question(bound: BoundTask, item: Item, render: Render | None = None) -> Request | None:
    """Return the item's request with its question taken out: options, shots and wording stay.

    None where the row does not let one tell the question from the rest.
    """
    if item.question is None:
        return None
    shown = item.request.segments[-1]
    row = _blanked(item.row, item.options, shown)
    if row == dict(item.row):
        return None
    sample = Sample(item.request.task, item.index, row, item.request.sample_sha256)
    request = bound.request(sample, render)
    return replace(request, target=item.request.target)


def _blanked(value: Any, options: Sequence[str], shown: str) -> Any:
    if isinstance(value, str):
        return "" if _is_part(value, options, shown) else value
    if isinstance(value, Mapping):
        return {key: _blanked(inner, options, shown) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_blanked(inner, options, shown) for inner in value]
    return value
