"""Style of answers: from columns, from published metadata, from the answers themselves."""

import json
from typing import Any

from assaymark.arena.vote_files import styles_in
from assaymark.datasets.rows import Rows

ANSWER = "# Title\n\n- **one**\n- two\n1. three\n\n```md\n# no header\n- no list\n**no bold**\n```\n"


def style_of(row: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the styles of a file with one row."""
    return {style: (float(values[0, 0]), float(values[0, 1])) for style, values in styles_in(Rows.of([row])).items()}


def test_counts_from_columns() -> None:
    """tokens_a and tokens_b, headers, lists and bold are read unchanged."""
    row = {"tokens_a": 10, "tokens_b": 20.0, "bold_a": 1, "bold_b": 0}
    assert style_of(row) == {"length": (10.0, 20.0), "bold": (1.0, 0.0)}


def test_counts_from_the_metadata_of_published_votes() -> None:
    """Counts by level or kind are summed, from a mapping or from JSON in a CSV file."""
    metadata = {
        "sum_assistant_a_tokens": 100, "sum_assistant_b_tokens": 50,
        "header_count_a": {"h1": 1, "h3": 2}, "header_count_b": {"h1": 0},
        "list_count_a": {"ordered": 4, "unordered": None}, "list_count_b": {"ordered": 0},
    }  # fmt: skip
    expected = {"length": (100.0, 50.0), "headers": (3.0, 0.0), "lists": (4.0, 0.0)}
    assert style_of({"conv_metadata": metadata}) == expected
    assert style_of({"conv_metadata": json.dumps(metadata)}) == expected
    assert style_of({"conv_metadata": "no JSON"}) == {}


def test_counts_in_the_answers_exclude_code() -> None:
    """One header, three list items and one bold word; marks in a code block do not count."""
    assert style_of({"response_a": ANSWER, "response_b": "plain"}) == {
        "length": (float(len(ANSWER)), 5.0),
        "headers": (1.0, 0.0),
        "lists": (3.0, 0.0),
        "bold": (1.0, 0.0),
    }


def test_columns_take_precedence_over_the_answers_text() -> None:
    """If a file has numbers of tokens, these are the length, not the numbers of characters."""
    assert style_of({"tokens_a": 3, "tokens_b": 4, "response_a": "x", "response_b": "y"})["length"] == (3.0, 4.0)
