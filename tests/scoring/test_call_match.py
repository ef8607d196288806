"""Function calls are compared as BFCL compares them, and every wrong answer has a reason.

`bfcl_verdicts.json` has declarations and answers made for these tests, with the verdicts of bfcl-eval 2026.3.23
(`ast_checker`, `default_decode_ast_prompting`), which was run on them once. On all rows of BFCL, right answers and
186,081 with faults put into them, ours and its verdicts differed in 30, all of Java and JavaScript as text, where ours
reads more.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import MalformedSample
from assaymark.scoring.call_match import ExpectedCall, match_calls
from assaymark.scoring.tool_calls import FunctionCall, UnreadableAnswer, read_calls

MADE = json.loads((Path(__file__).parent / "bfcl_verdicts.json").read_text(encoding="utf-8"))
REASONS = {
    "wrong_count": "wrong_count",
    "wrong_func_name": "wrong_function",
    "missing_required": "missing_parameter",
    "missing_optional": "missing_parameter",
    "unexpected_param": "unexpected_parameter",
    "type_error": "wrong_type",
    "value_error": "wrong_value",
}


def calls_of(answer: list[dict[str, Any]]) -> list[FunctionCall]:
    """Return BFCL's form of calls as ours."""
    return [FunctionCall(name, arguments) for call in answer for name, arguments in call.items()]


def expected_of(verdict: dict[str, Any]) -> tuple[list[ExpectedCall], list[dict[str, Any]]]:
    """Return the expected calls of a made-up answer, and the declarations."""
    declared, answers = MADE["declarations"][verdict["of"]]
    if verdict["category"] == "parallel":
        answers = MADE["ping_expected"]
    elif answers is None:
        answers = MADE["ping_expected"][:1]
    return [ExpectedCall(name, allowed) for each in answers for name, allowed in each.items()], [declared]


@pytest.mark.parametrize("verdict", MADE["verdicts"], ids=lambda v: f"{v['of']} {json.dumps(v['answer'])[:60]}")
def test_the_verdict_is_bfcls(verdict: dict[str, Any]) -> None:
    """Right is what BFCL's checker finds right, and the reason stands for its type of error."""
    expected, functions = expected_of(verdict)
    fault = match_calls(calls_of(verdict["answer"]), expected, functions, verdict["language"])
    error = verdict["error"]
    assert (fault is None) == (error is None), fault
    if fault is None or error.startswith("raises"):
        return
    assert fault.message
    if fault.reason == "no_call":  # BFCL has no own name for it
        assert error.endswith("wrong_count")
    elif not error.endswith("cannot_find_match"):
        assert fault.reason == next(ours for part, ours in REASONS.items() if part in error)


@pytest.mark.parametrize("case", MADE["texts"], ids=lambda case: repr(case["text"])[:50])
def test_python_calls_are_read_as_by_bfcl(case: dict[str, Any]) -> None:
    """The calls in a text are those that BFCL reads; where it fails, there is none, or one that cannot be read."""
    try:
        calls = read_calls(case["text"], "calls")
    except UnreadableAnswer:
        assert case["calls"] is None
        return
    result = json.loads(json.dumps([call.content for call in calls]))
    assert result == (case["calls"] or [])


DECLARED = {
    "name": "add",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": ["integer", "null"]}, "c": {}, "l": {"type": "array"}},
        "required": ["a"],
    },
}


@pytest.mark.parametrize(
    ("arguments", "allowed", "reason"),
    [
        ({"a": 1}, {"a": [1.0]}, None),
        ({"a": 1.0}, {"a": [1]}, None),
        ({"a": "1"}, {"a": [1]}, "wrong_type"),
        ({"a": 1, "b": None}, {"a": [1], "b": [None]}, None),
        ({"a": 1, "b": 2}, {"a": [1], "b": [None, 3]}, "wrong_value"),
        ({"a": 1, "c": "Big One"}, {"a": [1], "c": ["big-one"]}, None),
        ({"a": 1, "c": {"x": "Y"}}, {"a": [1], "c": [{"x": ["y"]}]}, None),
        ({"a": 1, "l": ["A", 2]}, {"a": [1], "l": [["a", 2]]}, None),
        ({"a": 1, "l": [{"x": 1}]}, {"a": [1], "l": [[{"x": [1, 2]}]]}, None),
        ({"a": 1, "l": [{"x": 3}]}, {"a": [1], "l": [[{"x": [1, 2]}]]}, "wrong_value"),
        ({"a": 1, "l": [3]}, {"a": [1], "l": [[{"x": [1]}]]}, "wrong_value"),
        ({"a": 10**400}, {"a": [1]}, "wrong_value"),
    ],
)
def test_json_schemas_types_are_known_too(
    arguments: dict[str, Any], allowed: dict[str, list[Any]], reason: str | None
) -> None:
    """A number may be an integer; a parameter without a single type is compared by value."""
    fault = match_calls([FunctionCall("add", arguments)], [ExpectedCall("add", allowed)], [DECLARED])
    assert (fault.reason if fault else None) == reason


@pytest.mark.parametrize(
    ("value", "right", "is_own", "is_bfcls"),
    [
        ("15", "1.5", False, True),
        ("5", "-5", False, True),
        ("v12", "v1.2", False, True),
        ("2024-11-1", "2024-1-11", False, True),
        ("2024/01/11", "2024-01-11", True, True),
        ("1,000 m", "1000 m", True, True),
        ("oslo norway", "Oslo, Norway", True, True),
        ("Zu\u0308rich", "Zürich", True, False),
        ("Cox’s Bazar", "Cox's Bazar", True, False),
    ],
)
def test_numbers_within_texts_keep_their_signs_in_own_questions(
    value: str, right: str, is_own: bool, is_bfcls: bool
) -> None:
    """BFCL compares texts without points and signs, which make another number of a number."""
    tool = {"name": "f", "parameters": {"properties": {"x": {"type": "string"}, "y": {"type": "array"}}}}
    called, expected = FunctionCall("f", {"x": value, "y": [value]}), ExpectedCall("f", {"x": [right], "y": [[right]]})
    assert (match_calls([called], [expected], [tool], as_bfcl=False) is None) == is_own
    assert (match_calls([called], [expected], [tool]) is None) == is_bfcls


def test_no_call_is_right_where_none_is_expected() -> None:
    """Irrelevance: any call is wrong, and so is not a call where one is expected."""
    assert match_calls([], [], [DECLARED]) is None
    unwanted = match_calls([FunctionCall("add", {"a": 1})], [], [DECLARED])
    missing = match_calls([], [ExpectedCall("add", {"a": [1]})], [DECLARED])
    assert unwanted is not None
    assert missing is not None
    assert (unwanted.reason, missing.reason) == ("unwanted_call", "no_call")


def test_equal_numbers_of_other_types_are_other_calls() -> None:
    """A call that matched is not taken a second time in place of an equal one of another type."""
    whole = {"name": "add", "parameters": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}
    expected = [ExpectedCall("add", {"a": [5]})] * 2
    fault = match_calls([FunctionCall("add", {"a": 5.0}), FunctionCall("add", {"a": 5})], expected, [whole])
    assert fault is not None
    assert fault.reason == "wrong_type"


def test_an_expected_call_of_an_undeclared_function_is_a_fault_of_the_row() -> None:
    """It is not a wrong answer."""
    with pytest.raises(MalformedSample, match="a call of sub is expected, which is not among the tools"):
        match_calls([FunctionCall("add", {"a": 1})], [ExpectedCall("sub", {})], [DECLARED])
