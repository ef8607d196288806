"""Perplexities of whole texts."""

import math

import pytest

from assaymark.errors import MalformedSample, NonFiniteLogits, UnknownName
from assaymark.scoring.loglikelihood import count_bytes, count_words, score_rolling


def test_words_are_counted_as_lm_eval_counts_them() -> None:
    """White space at the ends makes an empty piece, which counts."""
    assert (count_words("two words"), count_words(" two\n\nwords "), count_words("é")) == (2, 4, 1)
    assert count_bytes("é a") == 4


def test_parts_are_nats_and_weight_and_the_value_is_the_documents_own() -> None:
    """A document of 2 words and 7 bytes at -7 nats has byte perplexity e and 1/ln 2 bits per byte."""
    scores = score_rolling(-7.0, "two éé")
    assert scores["word_perplexity"].parts == (-7.0, 2)
    assert scores["byte_perplexity"].parts == (-7.0, 8)
    assert scores["byte_perplexity"].value == pytest.approx(math.exp(7 / 8))
    assert scores["bits_per_byte"].value == pytest.approx(7 / 8 / math.log(2))


def test_the_counted_text_may_be_another_than_the_scored_one() -> None:
    """WikiText scores the detokenised page and counts the words of the original page."""
    assert score_rolling(-1.0, "a-b", counted_text="a @-@ b")["word_perplexity"].parts == (-1.0, 3)


def test_a_perplexity_beyond_float64_is_undefined_not_infinite() -> None:
    """One word at -1,000 nats has no perplexity in float64, but its parts still count in the sum."""
    score = score_rolling(-1000.0, "word", ["word_perplexity"])["word_perplexity"]
    assert (score.value, score.parts) == (None, (-1000.0, 1))


def test_bad_input_is_refused() -> None:
    """NaN, an empty text and an unknown metric each have their own error."""
    with pytest.raises(NonFiniteLogits):
        score_rolling(math.nan, "text")
    with pytest.raises(MalformedSample, match="empty"):
        score_rolling(-1.0, "")
    with pytest.raises(UnknownName, match="bits_per_byte"):
        score_rolling(-1.0, "text", ["bits_per_bite"])
