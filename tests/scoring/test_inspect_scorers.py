"""Formulas in answers, for the scorer `inspect_math`; its scores are compared with inspect's in tests/tasks."""

import random
import re

import pytest

from assaymark.scoring.inspect_scorers import _delimited, _final_answers

PATTERN = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$|\\\[(.+?)\\\]|\\\((.+?)\\\)", re.DOTALL)


def test_formulas_are_those_that_the_pattern_finds() -> None:
    """In texts made of delimiters, also unpaired and doubled ones."""
    drawn = random.Random(0)
    parts = ("$", "$$", r"\[", r"\]", r"\(", r"\)", "a", "\n", "\\")
    for _ in range(20_000):
        text = "".join(drawn.choices(parts, k=drawn.randrange(14)))
        assert _delimited(text) == [next(filter(None, groups)) for groups in PATTERN.findall(text)]


@pytest.mark.parametrize("part", [r"\[", r"\(", "$", "$a", "$$a", r"\boxed{"])
def test_a_million_characters_of_delimiters_are_read(part: str) -> None:
    """With the pattern, which looks for each one's end anew, 40,000 of them took six seconds and a million hours."""
    assert all(len(each) <= 4096 for each in _final_answers(part * (1_000_000 // len(part))))
