"""Extract the chosen letter from a generated answer to a multiple-choice question, with or without reasoning.

Rules, from the most to the least reliable: a stated answer ("the answer is (B)", "Answer: B", a boxed or bold letter),
the last one if there are several; else an answer that begins with a letter alone; else the last letter in brackets.
Where no rule applies, no choice is returned rather than a guess.
"""

import re
from dataclasses import dataclass

from assaymark.errors import MalformedSample


@dataclass(frozen=True, slots=True)
class ChosenLetter:
    """The extracted choice and the rule that found it."""

    index: int  # of the choice
    rule: str  # stated | whole answer | bracketed
    text: str  # the matching passage


def extract_choice_letter(answer: str, n_choices: int) -> ChosenLetter | None:
    """Return the choice that an answer names; None where it names none of this question's choices.

    Only capital letters count ("a" is usually an article), except in an answer that is a letter alone.

    Raises: MalformedSample for a number of choices outside 2 to 26.
    """
    if not 2 <= n_choices <= 26:
        raise MalformedSample(f"{n_choices} choices; expected 2 to 26 for letters")
    last = chr(ord("A") + n_choices - 1)
    letter = rf"([A-{last}])"
    framed = rf"(?:\*\*|\$|\\text\{{|\\mathrm\{{|[(\[\"'])*{letter}(?![A-Za-z'’])"
    noun = r"(?i:option|choice|letter)"
    said = rf"(?i:\b(?:answer|choice|option)\b)(?:\s+{noun})?(?:\s*\**\s*[:=]\s*\**|\s+(?i:is|would be)\s*:?)"
    stated = [
        rf"{said}\s*(?:{noun}\s+)?{framed}",
        rf"\\boxed\{{\s*{framed}",
        rf"(?i:\b(?:choose|pick|select))\s+(?:{noun}\s+)?{framed}",
    ]
    found = [match for pattern in stated for match in re.finditer(pattern, answer)]
    if found:
        return _chosen(max(found, key=lambda match: match.end()), "stated")
    whole = re.match(rf"\s*{framed}\s*(?:[).:\]*$}}\"',]|\n|$)", answer)
    alone = re.fullmatch(rf"\s*[(\[]?([a-{last.lower()}])[)\].]*\s*", answer)
    if whole or alone:
        return _chosen(whole or alone, "whole answer")
    bracketed = list(re.finditer(rf"[(\[]{letter}[)\]]", answer))
    return _chosen(bracketed[-1], "bracketed") if bracketed else None


def _chosen(match: re.Match[str] | None, rule: str) -> ChosenLetter | None:
    if match is None:
        return None
    return ChosenLetter(ord(match.group(1).upper()) - ord("A"), rule, match.group(0).strip())
