"""Verdicts in a judge's text: the last well-formed one, or none. Nothing is ever guessed from the words around it.

A verdict stands in double square brackets, as MT-bench and Arena-Hard ask for it: `[[8]]`, `[[A]]`, `[[A>>B]]`. A text
without one, or with only malformed ones (`[[11]]`, `[[A or B]]`), has no verdict, and the answer is counted as missing.
So has one with two verdicts of which either may be meant, or one that was cut off: what stands in it may be a quotation
of the judged answer.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from assaymark.records import Output
from assaymark.scoring.choice_letters import outside_reasoning

Form = Literal["grade", "pair", "five", "preference"]
FORMS: tuple[Form, ...] = get_args(Form)
PAIRED: frozenset[Form] = frozenset({"pair", "five", "preference"})  # the others judge one answer alone
LOWEST_GRADE, HIGHEST_GRADE = 1.0, 10.0
STRONG = 3.0  # a strong verdict counts three times (Arena-Hard v0.1)

_BRACKETS = re.compile(r"\[\[([^\[\]\n]{1,12})\]\]")
_OWN_LINE = re.compile(r"^[\s>*_`#-]*\[\[[^\[\]\n]+\]\][\s*_`.]*$", re.MULTILINE)
_BETWEEN = re.compile(r"[\s*_`,;/|&]*(?:or|and)?[\s*_`,;/|&]*")
_SCALE = re.compile(r"(?<=\]\])\s*(?:/|out of|of)\s*\[\[[0-9]+\]\]", re.IGNORECASE)  # [[7]] out of [[10]]
_NUMBER = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A parsed verdict.

    value: a grade from 1 to 10; for two answers the preference for the first shown, from 0 to 1 (1/2: a tie).
    weight: how often it counts.
    """

    text: str  # between the brackets
    value: float
    weight: float = 1.0


def verdict_of(output: Output | None, form: Form) -> Verdict | None:
    """Return the verdict of a judge's output; None where it has no text, or its text no verdict."""
    if output is None or output.text is None:
        return None
    return parse_verdict(output.text, form, is_cut=output.finish_reason == "length")


def parse_verdict(text: str, form: Form, *, is_cut: bool = False) -> Verdict | None:
    """Return the last well-formed verdict of a text, outside of its reasoning; None if it has none.

    None too where another one stands directly before it, or on a line of its own, as verdicts are asked for, and the
    last one only within a sentence; and where the text was cut off later than at its last verdict.

    Source: formats of MT-bench (`[[5]]`, `[[A]]`, `[[C]]` for a tie; FastChat 0e6d3e4b) and Arena-Hard (five labels
    from `[[A>>B]]` to `[[B>>A]]`; 196f6b82). A preference is a number from 1 (the first answer) to 2 (the second), as
    AlpacaEval scores it.
    """
    read, answer = _READ[form], outside_reasoning(text)
    answer = _SCALE.sub("", answer or "")
    found = [(match, known) for match in _BRACKETS.finditer(answer) if (known := read(match[1].strip())) is not None]
    if not found:
        return None
    last, verdict = found[-1]
    if is_cut and answer[last.end() :].strip(" \n*_`."):
        return None
    others = [match for match, known in found if known.value != verdict.value]
    own_lines = [line.span() for line in _OWN_LINE.finditer(answer)]

    def is_alone(match: re.Match[str]) -> bool:
        return any(begin <= match.start() < end for begin, end in own_lines)

    is_beside = any(_BETWEEN.fullmatch(answer, match.end(), last.start()) for match in others)
    return None if is_beside or (not is_alone(last) and any(map(is_alone, others))) else verdict


def swapped(verdict: Verdict) -> Verdict:
    """Return a verdict on two answers as seen from the other answer: for the order in which they were exchanged."""
    return Verdict(verdict.text, 1.0 - verdict.value, verdict.weight)


def _grade(inside: str) -> Verdict | None:
    number = _number(inside)
    return Verdict(inside, number) if number is not None and LOWEST_GRADE <= number <= HIGHEST_GRADE else None


def _preference(inside: str) -> Verdict | None:
    number = _number(inside)
    return Verdict(inside, 2.0 - number) if number is not None and 1.0 <= number <= 2.0 else None


def _number(inside: str) -> float | None:
    number = float(inside) if _NUMBER.fullmatch(inside) else math.nan
    return None if math.isnan(number) else number


def _pair(inside: str) -> Verdict | None:
    value = {"A": 1.0, "B": 0.0, "C": 0.5}.get(inside)
    return None if value is None else Verdict(inside, value)


def _five(inside: str) -> Verdict | None:
    value_and_weight = _FIVE.get(inside.replace(" ", ""))
    return None if value_and_weight is None else Verdict(inside, *value_and_weight)


_FIVE: Mapping[str, tuple[float, float]] = {
    "A>>B": (1.0, STRONG),
    "A>B": (1.0, 1.0),
    "A=B": (0.5, 1.0),
    "B>A": (0.0, 1.0),
    "B>>A": (0.0, STRONG),
    "B=A": (0.5, 1.0),
    "B<A": (1.0, 1.0),
    "B<<A": (1.0, STRONG),
    "A<B": (0.0, 1.0),
    "A<<B": (0.0, STRONG),
}
_READ: Mapping[Form, Callable[[str], Verdict | None]] = {
    "grade": _grade,
    "pair": _pair,
    "five": _five,
    "preference": _preference,
}
