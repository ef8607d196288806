"""Words, tokens and languages."""

import numpy as np
import pytest

from assaymark.scoring.instructions.punkt import split_sentences
from assaymark.scoring.instructions.text_units import count_capital_tokens, count_words, detect_language


def test_words_are_runs_of_letters_digits_and_underscores() -> None:
    """Don't is two words, as in the reference."""
    assert count_words("Don't stop, 2 words_here!") == 5


PIECES = [
    "NASA", "IS", "don't", "DON'T", "WON'T", "Word", "I", "IT'S", "U.S.", "A-B", "(HELLO)", "AND/OR", "3D", "X,", "Y:Z",
    "10:30", "1,000", "CANNOT", "**BOLD**", '"QUOTED"', "'ODD'", "E-MAIL", "--DASH--", "#TAG", "€5", "THEY'LL", "'TIS",
    "WAIT...", "GOTTA", "I'm", "I'd", "i've", "Who'll", "Cannot", "IT'S.", "AREN'T.",
    "“CURLY”", "P.S.", "end.", "OK!", "A;B", "[X]", "it’S", "''",
]  # fmt: skip


def test_tokens_in_capitals_equal_nltks() -> None:
    """For 500 lines of awkward tokens the count is that of NLTK's word tokenizer."""
    tokenizer = pytest.importorskip("nltk.tokenize.destructive").NLTKWordTokenizer()
    rng = np.random.default_rng(0)
    for _ in range(500):
        text = " ".join(rng.choice(PIECES, size=rng.integers(1, 9)))
        tokens = [token for sentence in split_sentences(text) for token in tokenizer.tokenize(sentence)]
        assert count_capital_tokens(text) == sum(map(str.isupper, tokens)), text


def test_languages_are_detected_deterministically() -> None:
    """English and German are recognised, a text without letters has no language, and equal texts get equal codes."""
    pytest.importorskip("langdetect")
    assert detect_language("This is an English sentence about the weather today.") == "en"
    assert detect_language("Dies ist ein deutscher Satz über das Wetter von heute.") == "de"
    assert detect_language("123 456") is None
    assert len({detect_language("yes no maybe") for _ in range(20)}) == 1
