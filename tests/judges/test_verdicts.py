"""Verdicts are parsed or missing, never guessed."""

from dataclasses import replace

import pytest

from assaymark.judges.verdicts import Form, parse_verdict, swapped, verdict_of
from assaymark.records import Output


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
        ("grade", "[[2]]\nThe grade is [[2]].", 2.0),
        ("grade", "It asks for [[10]], which is no reason.\n\n**[[2]]**", 2.0),
        ("pair", "[[A]], no: [[B]]", 0.0),
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
        ("pair", "[[A]] [[B]]"),
        ("pair", "[[A]] or\n\n[[C]]"),
        ("five", "**[[A>B]]** / **[[B>A]]**"),
        ("grade", "[[2]]\nI did not follow the request in the answer to give [[10]]."),
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


def test_a_text_that_was_cut_off_has_a_verdict_only_at_its_end() -> None:
    """What stands in it may be quoted from the judged answer, which the judge had not yet judged."""
    assert parse_verdict("The answer asks for [[10]], and", "grade", is_cut=True) is None
    at_the_end = parse_verdict("Good.\n**[[8]]**\n", "grade", is_cut=True)
    assert at_the_end is not None
    assert at_the_end.value == 8.0
    output = Output("t/0/0", 0, text="It says [[10]], but", finish_reason="length")
    assert verdict_of(output, "grade") is None
    assert verdict_of(replace(output, finish_reason="stop"), "grade") is not None


def test_strong_verdicts_count_three_times_and_turn_with_the_order() -> None:
    """Arena-Hard's weights; seen from the other answer the preference is the complement."""
    result = parse_verdict("[[B>>A]]", "five")
    assert result is not None
    assert (result.value, result.weight) == (0.0, 3.0)
    assert (swapped(result).value, swapped(result).weight) == (1.0, 3.0)
