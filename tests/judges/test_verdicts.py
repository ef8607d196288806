"""Verdicts are parsed or missing, never guessed."""

import pytest

from assaymark.judges.verdicts import Form, parse_verdict, swapped


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        ("grade", "Good. [[8]]", 8.0),
        ("grade", "[[7.5]]", 7.5),
        ("grade", "<think>an [[8]]?</think> [[3]]", 3.0),
        ("grade", "first [[3]], on reflection [[9]]", 9.0),
        ("grade", "[[4]] and then [[11]]", 4.0),
        ("grade", "[[7]] out of [[10]]", 7.0),  # the scale is no verdict
        ("grade", "**[[7]]/[[10]]**", 7.0),
        ("pair", "so: [[A]]", 1.0),
        ("pair", "so: [[ B ]]", 0.0),
        ("pair", "[[C]]", 0.5),
        ("five", "My final verdict is [[A>>B]]", 1.0),
        ("five", "[[B > A]]", 0.0),
        ("five", "[[A=B]]", 0.5),
        ("preference", "[[1]]", 1.0),
        ("preference", "[[1.25]]", 0.75),
        ("preference", "[[2]]", 0.0),
    ],
)
def test_the_last_well_formed_verdict_is_read(form: Form, text: str, value: float) -> None:
    """The published formats, the last one that is well-formed winning."""
    result = parse_verdict(text, form)
    assert result is not None
    assert result.value == value


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("grade", ""),
        ("grade", "I give it 8 of 10"),
        ("grade", "[8]"),
        ("grade", "<think>maybe [[8]], but"),  # cut off in its reasoning
        ("pair", "<think>[[A]]</think>I cannot say."),
        ("grade", "[[0]] [[11]] [[-3]] [[8/10]] [[eight]] [[nan]] [[1e1]] [[٣]]"),
        ("pair", "A is better"),
        ("pair", "[[A or B]] [[a]] [[AB]] [[A>B]]"),
        ("pair", "[[A\n]]"),
        ("five", "[[A]] [[A>>>B]] [[A>A]]"),
        ("preference", "[[0.9]] [[2.1]] [[A]]"),
    ],
)
def test_anything_else_is_missing(form: Form, text: str) -> None:
    """No verdict is guessed from words, other brackets, numbers outside the scale or another form."""
    assert parse_verdict(text, form) is None


def test_strong_verdicts_count_three_times_and_turn_with_the_order() -> None:
    """Arena-Hard's weights; seen from the other answer the preference is the complement."""
    result = parse_verdict("[[B>>A]]", "five")
    assert result is not None
    assert (result.value, result.weight) == (0.0, 3.0)
    assert (swapped(result).value, swapped(result).weight) == (1.0, 3.0)
