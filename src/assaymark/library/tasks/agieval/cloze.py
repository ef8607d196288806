r"""AGIEval's written answers: what stands in the box, between dollars or after the last "=", compared as LaTeX.

The rules are those of Hendrycks et al. 2021 (MATH) and of AGIEval's post-processing: two answers are equal when their
texts are, after units, spaces and spellings of fractions and roots are evened out. Nothing is calculated.
"""

import re

DROPPED_FIRST = ("\n", r"\!")
DROPPED = (r"\left", r"\right", r"^{\circ}", r"^\circ", r"\$")
NUMBER = re.compile(r"(?:\$)?\d+(?:\.\d+)?(?![\w\d])")
UNITS = r"\text{ "
FRACTION, ROOT = r"\frac", r"\sqrt"


class Unreadable(ValueError):
    """The text breaks a rule that the normalisation takes for granted; texts are then compared as they are."""


def last_box(text: str) -> str | None:
    r"""Return the content of the last \boxed{...}, or None where it has no such form."""
    start = text.rfind(r"\boxed")
    depth = 0
    for end, character in enumerate(text[start:], start=start):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "}" and depth == 0:
            box = text[start : end + 1]
            return box[len(r"\boxed{") : -1] if box.startswith(r"\boxed{") else None
    return None


def after_equals(text: str) -> str:
    """Return what follows the last equals sign, or all."""
    return text.rsplit("=", 1)[-1].lstrip(" ") if "=" in text else text


def answer_in(text: str) -> str | None:
    """Return the answer that a text gives, or None."""
    if r"\boxed" in text:
        box = last_box(text)
        return None if box is None else after_equals(box)
    if (in_dollars := re.findall(r"\$(.*)\$", text)) and (answer := after_equals(in_dollars[-1])):
        return answer
    if "=" in text:
        return after_equals(text).rstrip(".").split("\\n")[0]
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers else None


def fractions_with_braces(text: str) -> str:
    r"""Return `text` with \frac12 and \frac1{72} written \frac{1}{2} and \frac{1}{72}."""
    head, *parts = text.split(FRACTION)
    made = head
    for part in parts:
        if not part:
            raise Unreadable(text)
        if part[0] == "{":
            made += FRACTION + part
        elif len(part) < 2:  # a numerator without a denominator: leave all as it is
            return text
        else:
            denominator = part[1:] if part[1] == "{" else f"{{{part[1]}}}{part[2:]}"
            made += f"{FRACTION}{{{part[0]}}}{denominator}"
    return made


def roots_with_braces(text: str) -> str:
    r"""Return `text` with \sqrt3 written \sqrt{3}."""
    head, *parts = text.split(ROOT)
    if not all(parts):
        raise Unreadable(text)
    return head + "".join(ROOT + (part if part[0] == "{" else f"{{{part[0]}}}{part[1:]}") for part in parts)


def slash_as_fraction(text: str) -> str:
    r"""Return a/b, of two whole numbers, as \frac{a}{b}."""
    parts = text.split("/")
    if len(parts) != 2:
        return text
    try:
        a, b = map(int, parts)
    except ValueError:
        return text
    return f"{FRACTION}{{{a}}}{{{b}}}" if text == f"{a}/{b}" else text


def without_units(text: str) -> str:
    r"""Return what stands before \text{ ..., where MATH's answers put units.

    Raises: Unreadable when there is more than one.
    """
    parts = text.split(UNITS)
    if len(parts) > 2:
        raise Unreadable(text)
    return parts[0]


def evened(text: str) -> str:
    """Return the form in which answers are compared.

    Raises: Unreadable.
    """
    for mark in DROPPED_FIRST:
        text = text.replace(mark, "")
    text = text.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    for mark in DROPPED:
        text = text.replace(mark, "")
    text = without_units(text).replace(r"\%", "").replace(" .", " 0.").replace("{.", "{0.")
    if not text:
        return text
    text = "0" + text if text[0] == "." else text
    name, equals, value = text.partition("=")
    if equals and "=" not in value and len(name) <= 2:  # "x = 3", "k=3"
        text = value
    text = fractions_with_braces(roots_with_braces(text).replace(" ", ""))
    return slash_as_fraction(r"\frac{1}{2}" if text == "0.5" else text)


def equal(one: str | None, other: str | None) -> bool:
    """Tell whether two texts give the same answer."""
    if one is None or other is None:
        return one is other
    a, b = answer_in(one), answer_in(other)
    if a is None or b is None:
        return a is b
    try:
        return evened(a) == evened(b)
    except Unreadable:
        return a == b


def process_results(doc: dict, results: list) -> dict[str, int]:
    """Return {"acc": 1} if the text answers what the row's answer does."""
    return {"acc": int(equal(results[0], doc["answer"]))}
