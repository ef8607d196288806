"""The search language: what it finds, and what it says of what it cannot read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.query import LONGEST, parse_query, search_keys
from assaymark.leaderboard.rows import Average, BoardRow, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.table import BoardTable

KEYS = search_keys({"arc": "ARC", "math-lvl-5": "MATH Lvl 5"})


def row(model: str, score: float = 0.5, **facts: object) -> BoardRow:
    """Return a row."""
    number = IntervalValue(score)
    return BoardRow(model, model, "published", {"arc": RowScore(number)}, Average(number, 1), facts)  # type: ignore[arg-type]


ROWS = (
    row(
        "mistralai/Mistral-7B",
        0.62,
        type="pretrained",
        licence="apache-2.0",
        params=7.2,
        merged=False,
        date="2024-05-01",
    ),
    row("meta-llama/Llama-3-8B", 0.66, type="chat", licence="llama3", params=8.0, precision="bfloat16"),
    row("org/llama-merge", 0.70, type="merge", licence="mit", params=13.0, merged=True, date="2024-06-15"),
    row("org/unlimited", 0.10, type="chat", licence="limited-use", params=0.5, moe=True),
)
TABLE = BoardTable((ScoreColumn("arc", "ARC"),), ROWS)


def found(query: str) -> list[int]:
    """Return the positions of the rows that a query finds."""
    return [int(at) for at in TABLE.index.matching(parse_query(query, KEYS)).nonzero()[0]]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("", [0, 1, 2, 3]),
        (" ; ;; ", [0, 1, 2, 3]),
        ("MISTRAL", [0]),
        ("mistral; llama", [0, 1, 2]),
        ("org/ llama", [2]),
        ("-llama", [0, 3]),
        ("type:chat", [1, 3]),
        ("type:instruct", [1, 3]),
        ("params:<8", [0, 3]),
        ("params:<=8", [0, 1, 3]),
        ("params:8", [1]),
        ("params:7", [0]),
        ("params:7.2b", [0]),
        ("params:=7", []),
        ("params:7..13", [0, 1, 2]),
        ("params:..1", [3]),
        ("-merged:true", [0, 1, 3]),
        ("merged:false", [0]),
        ("precision:bf16", [1]),
        ("arc:>65", [1, 2]),
        ("average:>=70", [2]),
        ("date:2024", [0, 2]),
        ("date:2024-06", [2]),
        ("date:>2024-05", [2]),
        ("date:<=2024-05", [0]),
        ("license:mit", [2]),
        ("license:apache", [0]),
        ("license:=apache", []),
        ("license:=apache-2.0", [0]),
        ('"org/unlimited"', [3]),
        ('name:"llama-merge"', [2]),
        ("llama type:chat params:<9", [1]),
    ],
)
def test_a_query_finds_these_rows(query: str, rows: list[int]) -> None:
    """Each form of the language finds what its description says."""
    assert found(query) == rows


@pytest.mark.parametrize(
    "query", ["mistral; llama; license:mit", "license:mit; mistral; llama", "mistral;license:mit;llama"]
)
def test_a_segment_of_nothing_but_license_restricts_all_others(query: str) -> None:
    """As on the first Open LLM Leaderboard: (mistral or llama) and the licence, in any order."""
    assert found(query) == [2]


def test_several_licences_are_alternatives() -> None:
    """No model has two licences, so two licence segments restrict to either."""
    assert found("license:mit; license:apache-2.0") == [0, 2]
    assert found("llama; mistral; license:mit; license:apache-2.0") == [0, 2]


def test_an_at_segment_is_an_alternative_of_its_own() -> None:
    """As on the second Open LLM Leaderboard: `;` is or, and `@license:` in its own segment restricts nothing else."""
    assert found("mistral; @license:mit") == [0, 2]
    assert found("llama @license:mit") == [2]
    assert found("mistral; @type:chat @license:llama3") == [0, 1]


def test_an_unknown_key_is_named_with_the_nearest_and_all_others() -> None:
    """A typo is never silence (the first board read `licence:` as text)."""
    with pytest.raises(UnknownName, match=r"unknown search key 'lisense'; nearest: license") as raised:
        parse_query("llama lisense:mit", KEYS)
    assert "math-lvl-5" in str(raised.value)
    assert 'write "lisense:mit"' in str(raised.value)


def test_quotes_search_for_a_text_with_a_colon() -> None:
    """What the message of an unknown key proposes works."""
    assert found('"llama3:8b"') == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("params:<big", "has no number"),
        ("params:", "lacks its value"),
        ("type:robot", "unknown type 'robot'"),
        ("merged:maybe", "expected merged:true or merged:false"),
        ("date:yesterday", "has no date"),
        ("license:<mit", "is not a number"),
        ("@mit", "lacks its value"),
        ("x" * (LONGEST + 1), "at most 1,000"),
        (";".join("ab" for _ in range(60)), "segments"),
    ],
)
def test_what_cannot_be_read_is_said(query: str, message: str) -> None:
    """Each fault has its own line."""
    with pytest.raises(UsageError, match=message):
        parse_query(query, KEYS)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text makes anything but a condition or a UsageError, and every condition can be carried out."""
    try:
        condition = parse_query(text, KEYS)
    except UsageError:
        return
    TABLE.index.matching(condition)
