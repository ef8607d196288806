"""Compare mathematical answers with math-verify, and by the normal form of the Minerva paper.

math-verify parses LaTeX with a grammar and compares symbolically; it is an optional package. Only what matches a
pattern of digits, operators and brackets is passed to sympy as a Python expression, so no generated code is run.
Minerva's normal form is textual: units and markup are removed, fractions and roots get their braces, and equal texts
are equal answers.
"""

import re
import threading
from collections.abc import Callable

from assaymark.errors import MissingExtra
from assaymark.scoring.metric import ScoreValue

INVALID_ANSWER = "[invalidanswer]"
_FINAL = re.compile(r"Final Answer: The final answer is(.*?). I hope it is correct.")  # as published: any characters

# Lewkowycz et al. 2022 (arXiv 2206.14858), appendix D: replacements, then removals
_REPLACED = (
    ("an ", ""),
    ("a ", ""),
    (".$", "$"),
    (r"\$", ""),
    (r"\ ", ""),
    (" ", ""),
    ("mbox", "text"),
    (r",\text{and}", ","),
    (r"\text{and}", ","),
    (r"\text{m}", r"\text{}"),
)
_UNITS = (
    *("square", "ways", "integers", "dollars", "mph", "inches", "ft", "hours", "km", "units"),
    *("sue", "points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals"),
    *("edges", "students", "childrentickets", "multiples"),
)
_MARKS = (
    *(r"\ldots", r"\text{s}", r"\text{.}", "\\text{\ns}", r"\text{}^2", r"\text{}^3", "\\text{\n}", r"\text{}"),
    *(r"\mathrm{th}", r"^\circ", r"^{\circ}", r"\;", r",\!", "{,}", '"', r"\dots"),
)
_UNIT_WORDS = re.compile(rf"(?<!\\)\b(?:{'|'.join(_UNITS)})\b")


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last \boxed{...} (or \fbox{...}, or after "\boxed "), braces balanced, or None."""
    if r"\boxed " in text:
        return text.rsplit(r"\boxed ", 1)[1].split("$", 1)[0]
    start = max(text.rfind(r"\boxed{"), -1)
    if start < 0:
        start = text.rfind(r"\fbox{")
    if start < 0:
        return None
    opening = text.index("{", start)
    depth = 0
    for index in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[opening + 1 : index]
    return None


def minerva_answer(text: str) -> str:
    """Return the text after "Final Answer: The final answer is", or `INVALID_ANSWER` where that is missing."""
    match = _FINAL.search(text + "I hope it is correct.")
    return match.group(1).strip() if match else INVALID_ANSWER


def normalise_minerva(answer: str) -> str:
    r"""Return the normal form of a final answer.

    The part after the last equals sign, without units, articles and markup; \frac12 becomes \frac{1}{2}, \sqrt2
    \sqrt{2}, 100,000 100000. Units are removed as whole words first, so that \left keeps its "ft".

    Source: Lewkowycz et al. 2022, appendix D; corrections as in lm-evaluation-harness 0.4.13.
    """
    text = _UNIT_WORDS.sub("", answer.rsplit("=", maxsplit=1)[-1])
    for before, after in _REPLACED:
        text = text.replace(before, after)
    for mark in _in_published_order():
        text = _drop_unit(text, mark) if mark.isalpha() else text.replace(mark, "")
    text = _without_frames(text)
    text = re.sub(r"sqrt(\[[^\]]*\])(\w)", r"sqrt\1{\2}", text)
    text = re.sub(r"sqrt(?!\[)([^{])", r"sqrt{\1}", text)
    text = text.replace("$", "")
    return text.replace(",", "") if re.fullmatch(r"-?\d{1,3}(,\d{3})+", text) else text


def normalise_published(answer: str) -> str:
    r"""Return the normal form as the paper's appendix prints it, before the corrections in `normalise_minerva`.

    Units are removed wherever their letters occur (\left loses its "ft"), \sqrt[3]{8} is broken, and 0,1 becomes 01.
    The second Open LLM Leaderboard used it.
    """
    text = answer.rsplit("=", maxsplit=1)[-1]
    for before, after in _REPLACED:
        text = text.replace(before, after)
    for mark in _in_published_order():
        text = text.replace(mark, "")
    text = _without_frames(text)
    text = re.sub(r"sqrt([^{])", r"sqrt{\1}", text).replace("$", "")
    return text.replace(",", "") if text.replace(",", "").isdigit() else text


def _without_frames(text: str) -> str:
    r"""Extract the formula in $...$, unwrap \text and boxes, and give fractions their braces."""
    text = re.sub(r"(.*?)(\$)(.*?)(\$)(.*)", r"$\3$", text)
    for command in ("text", "textbf", "overline"):
        text = re.sub(rf"\\{command}\{{(.*?)\}}", r"\1", text)
    text = re.sub(r"\\boxed\{(.*)\}", r"\1", text)
    return re.sub(r"frac([^{])(.)", r"frac{\1}{\2}", text)


def _in_published_order() -> tuple[str, ...]:
    r"""Return units and marks in the appendix's order: \ldots is among the units."""
    cut = _UNITS.index("sue")
    return (*_UNITS[:cut], _MARKS[0], *_UNITS[cut:], *_MARKS[1:])


def _drop_unit(text: str, unit: str) -> str:
    """Remove a unit everywhere except inside LaTeX commands."""
    pieces = re.split(r"(\\[a-zA-Z]+)", text)
    return "".join(piece if index % 2 else piece.replace(unit, "") for index, piece in enumerate(pieces))


def is_equal_mathematics(reference: str, answer: str, *, timeout_seconds: int = 5) -> bool:
    r"""Return whether math-verify finds the answer equal to the reference.

    What cannot be parsed, or takes longer, is not equal. The time limit applies only in the main thread.
    Each side should have its answer in $...$, \boxed{...} or as plain numbers.

    Raises: MissingExtra without math-verify.
    Source: Kydlíček 2025, Math-Verify; the metric `math_verify` of lm-evaluation-harness' minerva_math.
    """
    parse, verify = _math_verify()
    limit = timeout_seconds if threading.current_thread() is threading.main_thread() else None
    gold = parse(reference, parsing_timeout=limit)
    return bool(verify(gold, parse(answer, parsing_timeout=limit), timeout_seconds=limit))


def is_equal_to_latex(solution: str, answer: str, *, timeout_seconds: int = 5) -> bool:
    """Return whether math-verify finds an answer equal to a reference that is parsed only as LaTeX.

    Raises: MissingExtra without math-verify.
    Source: lm-evaluation-harness 0.4.13, leaderboard_math_hard's exact_match.
    """
    parse, verify = _math_verify()
    from math_verify import LatexExtractionConfig

    limit = timeout_seconds if threading.current_thread() is threading.main_thread() else None
    gold = parse(solution, extraction_config=[LatexExtractionConfig()], parsing_timeout=limit)
    return bool(verify(gold, parse(answer, parsing_timeout=limit), timeout_seconds=limit))


def score_minerva(solution: str, answer: str) -> dict[str, ScoreValue]:
    """Score one solution of a MATH problem: `exact_match` by normal form or value, `math_verify` by the whole text.

    Raises: MissingExtra without math-verify.
    Source: lm-evaluation-harness 0.4.13, minerva_math. Its exact_match compares values with sympy's LaTeX parser where
    texts differ; here math-verify does, which parses more (intervals, tuples, matrices).
    """
    gold = normalise_minerva(last_boxed(solution) or "")
    extracted = normalise_minerva(minerva_answer(answer))
    equal = bool(gold) and (gold == extracted or _equal_values(gold, extracted))
    return {
        "exact_match": ScoreValue(float(equal), detail={"extracted": extracted, "reference": gold}),
        "math_verify": ScoreValue(float(is_equal_mathematics(solution, answer))),
    }


def _equal_values(gold: str, extracted: str) -> bool:
    return extracted != INVALID_ANSWER and is_equal_mathematics(f"${gold}$", f"${extracted}$")


def _math_verify() -> tuple[Callable[..., object], Callable[..., object]]:
    try:
        from math_verify import parse, verify
    except ImportError as error:
        raise MissingExtra("comparing mathematical answers", "metrics") from error
    return parse, verify
