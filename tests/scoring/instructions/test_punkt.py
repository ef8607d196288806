"""Sentences, beside NLTK's Punkt."""

import numpy as np
import pytest

from assaymark.scoring.instructions.punkt import count_sentences, split_sentences
from tests.applications.oracles.locked import needs_oracle, oracle

TEXTS = [
    "One. Two! Three?", "Dr. Smith met Mrs. Jones at 5 p.m. They talked.", "He lives in the U.S. and works.",
    "It costs 3.50 dollars. Visit www.example.com now.", "J. R. R. Tolkien wrote it.", '"Really?" she asked. "Yes."',
    "Wait... what? No.", "Wait... The end.", "1. First item.\n2. Second item.\n3. the third", "No stop at the end", "",
    "A line\nbroken in two. And another.", "We bring apples, pears, etc. Everyone eats.", " ", "(An aside.) None.",
    "He said “Stop.” Then he left.", "«Oui.» Non.", "Mr. Fox ran.  “Why?” he\nasked. See fig. 3, e.g. the left one!",
    "Very bad acting!!! I promise.", "Section 2. administrators met. At 5. The z-holiday", "End.) -- and [so.] on",
    "Plan A. However, plan B. is it", "A tale of vitamin C. And of plan B. But not of J. Bach.",
    "No. 5 is alive. . . . It is",
]  # fmt: skip
PIECES = [
    "word", "Word", "The", "the", "However,", "administrators", "z-holiday", "I", "Smith", "Dr", "U.S", "etc", "p.m",
    "A", "é", "12", "3.5", "-4", "10-In", "re-inc", "international", "rj", "b", "cooper", "x-y", "CEO", "_", "日本",
]  # fmt: skip
ENDS = [
    ".", ".", ".", "!", "?", "...", ". . .", "…", ".)", '."', "?'", ".”", "».", ".]", ".--", ",", ";", ":", "", "", ")",
    ".-", "..", "?!", "。", "(", "“", "*",
]  # fmt: skip


def drawn(n: int) -> list[str]:
    """Return random texts of words after which a sentence may end, or not."""
    draw = np.random.default_rng(0)
    return [
        "".join(
            str(draw.choice(PIECES)) + str(draw.choice(ENDS)) + str(draw.choice([" ", " ", "", "\n", "\n\n", "\t"]))
            for _ in range(draw.integers(1, 10))
        )
        for _ in range(n)
    ]


@needs_oracle("punkt")
def test_sentences_are_punkts() -> None:
    """Texts by hand and 600 drawn ones are split as NLTK splits them."""
    texts = [*TEXTS, *drawn(600)]
    for text, sentences in zip(texts, oracle("punkt", texts), strict=True):
        assert split_sentences(text) == sentences, text


def test_numbers_of_a_list_are_sentences() -> None:
    """As in the published numbers: each number ends one, except before a word that is written small."""
    assert count_sentences("1. Wash them.\n2. Cut them.\n3. fry them.") == 5


@pytest.mark.parametrize("text", ["." * 100_000, "a." * 50_000, "a.)" * 30_000, ". " * 50_000, "-" * 100_000 + ". B"])
def test_long_texts_end(text: str) -> None:
    """Dots and dashes without end are split in time that grows with their number."""
    assert split_sentences(text)
