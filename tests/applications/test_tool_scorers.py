"""Tool calls are read from every provider's form, and scored beside expected calls or the tools that there are."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered, Result, Scorer
from assaymark.applications.scorers import check_needs, scorers_of
from assaymark.applications.tool_calls import ToolCall, calls_in, expected_calls, n_steps_in, tools_in
from assaymark.errors import DataError, UsageError

ADD = {"name": "add", "args": {"a": 1, "b": 2}}
SEARCH = {"name": "search", "args": {"q": "Rome"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": SCHEMA}}, {"name": "search"}]


def scored(scorer: Any, output: Any, expected: Any = None, **metadata: Any) -> Result:
    """Return the result of one scorer for one answer."""
    (made,) = scorers_of([scorer])
    assert isinstance(made, Scorer)
    (result,) = asyncio.run(made.score(Answered(Row("0", "q", expected, metadata=metadata), output)))
    return result


@pytest.mark.parametrize(
    "answer",
    [
        [ADD],
        {"tool_calls": [ADD], "answer": "3"},
        {"tools_called": [{"name": "add", "input_parameters": {"a": 1, "b": 2}, "output": 3}]},
        {"role": "assistant", "content": None,
         "tool_calls": [{"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}]},
        {"messages": [{"role": "user", "content": "1+2"}, {"role": "assistant", "content": [
            {"type": "text", "text": "I add."},
            {"type": "tool_use", "id": "c", "name": "add", "input": {"a": 1, "b": 2}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "3"}]}]},
        {"messages": [{"role": "assistant", "parts": [
            {"type": "tool_call", "id": "c", "name": "add", "arguments": {"a": 1, "b": 2}}]}]},
        {"choices": [{"message": {"role": "assistant", "tool_calls": [{"function": {"name": "add",
                                                                                   "arguments": '{"a":1,"b":2}'}}]}}]},
        '{"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}',
    ],
)  # fmt: skip
def test_calls_of_every_form(answer: Any) -> None:
    """DeepEval's, OpenAI's, Anthropic's, OpenTelemetry's and plain ones are the same call."""
    assert calls_in(answer) == [ToolCall("add", {"a": 1, "b": 2})]


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        ("I do not know", None),
        ({"answer": "3"}, None),
        ({"role": "assistant", "content": "3"}, []),
        ({"tool_calls": None}, []),
        ([1, 2], None),
        ([{"name": "Ann", "age": 30}], None),
        ({"tool_calls": [{"function": {"name": "add", "arguments": "{broken"}}]}, [ToolCall("add", None)]),
        ("{" * 5000, None),
    ],
)
def test_what_is_no_call(answer: Any, calls: Any) -> None:
    """A text has no place for calls; a message without any has made none; broken arguments are known to be broken."""
    assert calls_in(answer) == calls


@pytest.mark.parametrize(
    ("match", "made", "expected", "value"),
    [
        ("sequence", [ADD, SEARCH], [ADD, SEARCH], 1.0),
        ("sequence", [SEARCH, ADD], [ADD, SEARCH], 0.0),
        ("sequence", [{**ADD, "args": {"a": 1, "b": 5}}, SEARCH], [ADD, SEARCH], 0.75),
        ("sequence", [{**ADD, "args": {"a": "1", "b": 2, "c": 3}}], [ADD], 1.0),
        ("sequence", [], [ADD], 0.0),
        ("sequence", [ADD], [], 0.0),
        ("sequence", [], [], 1.0),
        ("exact", [ADD, SEARCH], [ADD, SEARCH], 1.0),
        ("exact", [ADD], [ADD, SEARCH], 0.0),
        ("order", [SEARCH, ADD, SEARCH], [ADD, SEARCH], 1.0),
        ("order", [SEARCH, ADD], [ADD, SEARCH], 0.5),
        ("any", [SEARCH, ADD], [ADD, SEARCH], 1.0),
        ("any", [ADD], [ADD, ADD], 0.5),
        ("any", "text", [ADD], 0.0),
    ],
)
def test_values_by_hand(match: str, made: Any, expected: Any, value: float) -> None:
    """Each way of matching gives what its definition gives by hand."""
    output = made if isinstance(made, str) else {"tool_calls": made}
    result = scored({"tool_calls": {"match": match}}, output, {"expected_tools": expected})
    assert result.value == pytest.approx(value)


def test_arguments_count_where_they_are_asked_for() -> None:
    """With `arguments` a call of the right name counts by the share of equal arguments, nested ones too."""
    other = {"tool_calls": [{"name": "add", "args": {"a": 1, "b": 5, "more": {"x": 1, "y": 2}}}]}
    expected = [{"name": "add", "args": {"a": 1, "b": 2, "more": {"x": 1, "y": 3}}}]
    for match, value in (("exact", 0.0), ("order", 1.5 / 3), ("any", 1.5 / 3)):
        assert scored({"tool_calls": {"match": match, "arguments": True}}, other, expected).value == pytest.approx(
            value
        )
        assert scored({"tool_calls": {"match": match}}, other, expected).value == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        {"tool_calls": [{"foo": 1}]},
        {"tool_calls": "add(1, 2)"},
        {"answer": "x", "tool_calls": {"foo": 1}},
        '{"tool_calls": [{"name": "add", "arguments": {"a": 1',
        {"messages": [{"role": "assistant", "tool_calls": [3]}]},
    ],
)
def test_calls_that_cannot_be_read_are_not_no_calls(answer: Any) -> None:
    """Where no call is right, an answer with calls in no known form, or cut off, is wrong and says so."""
    for expected in ([], [ADD]):
        result = scored("tool_calls", answer, {"tool_calls": expected})
        assert (result.value, result.comment) == (0.0, "the answer's tool calls cannot be read")
    assert scored("tool_calls", {"tool_calls": []}, {"tool_calls": []}).value == 1.0


def test_expected_calls_may_stand_in_a_column_of_their_own() -> None:
    """As in DeepEval's test cases, beside an expected text."""
    row = Row("0", "q", "3", metadata={"expected_tools": [ADD]})
    assert expected_calls(row) == [ToolCall("add", {"a": 1, "b": 2})]
    assert expected_calls(Row("0", "q", "3")) is None


def test_calls_that_fit_no_tool() -> None:
    """Invented tools, arguments that are no JSON, and those that a schema refuses are faults, each named."""
    calls = [ADD, SEARCH, {"name": "drop", "args": {}}, {"name": "add", "args": {"a": "1"}},
             {"function": {"name": "add", "arguments": "{"}}]  # fmt: skip
    result = scored("tool_schema", {"tool_calls": calls}, tools=TOOLS)
    assert result.value == pytest.approx(2 / 5)
    for part in ("there is no tool drop", "add: $.a: '1' is not of type 'integer'", "add: its arguments are no JSON"):
        assert part in str(result.comment)
    assert scored("tool_schema", {"tool_calls": [ADD]}, tools=TOOLS).value == 1.0
    assert scored("tool_schema", "no calls", tools=TOOLS).value is None
    with pytest.raises(DataError, match="names no tools"):
        scored("tool_schema", {"tool_calls": [ADD]})


def test_tools_of_a_file(tmp_path: Path) -> None:
    """A scorer's own tools are read and checked before the first call, and are part of its hash."""
    path = tmp_path / "tools.yaml"
    path.write_text("- {name: add, inputSchema: {type: object, required: [a]}}\n", encoding="utf-8")
    assert scored(f"tool_schema:{path}", {"tool_calls": [ADD, {"name": "add"}]}).value == 0.5
    first = scorers_of(f"tool_schema:{path}")[0].content_hash
    path.write_text("- {name: add, inputSchema: {type: object, required: [b]}}\n", encoding="utf-8")
    assert scorers_of(f"tool_schema:{path}")[0].content_hash != first
    path.write_text("- {name: add, inputSchema: {type: nothing}}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="schema of the tool add is not valid"):
        scorers_of(f"tool_schema:{path}")
    assert tools_in([{"name": ""}]) is None


@pytest.mark.parametrize(
    ("answer", "n_steps"),
    [
        ({"steps": ["a", "b"], "messages": []}, 2),
        ({"intermediate_steps": [["tool", "x"]]}, 1),
        ({"steps": 4}, 4),
        ({"messages": [{"role": "user"}, {"role": "assistant"}, {"role": "tool"}, {"type": "ai"}]}, 2),
        ({"steps": True}, None),
        ("text", None),
    ],
)
def test_steps(answer: Any, n_steps: int | None) -> None:
    """Those that the target reports; what it does not report is not scored, never 0."""
    assert n_steps_in(answer) == n_steps
    assert scored("steps", answer).value == n_steps


def test_needs_are_refused_before_the_first_call() -> None:
    """Rows without expected calls, or without tools, are named with the remedy."""
    rows = [Row("a", "q", [ADD], metadata={"tools": TOOLS}), Row("b", "q", "text")]
    check_needs(scorers_of("tool_calls, tool_schema, steps"), rows[:1])
    with pytest.raises(UsageError, match=r"'tool_calls' needs expected tool calls, and row b of 2 has none; .*_tools"):
        check_needs(scorers_of("tool_calls"), rows)
    with pytest.raises(UsageError, match=r"'tool_schema' needs the tools that there are, and row b of 2"):
        check_needs(scorers_of("tool_schema"), rows)
    with pytest.raises(UsageError, match="match is 'best'; expected one of sequence, exact, order, any"):
        scorers_of("tool_calls:best")


def test_a_run_of_an_agent() -> None:
    """The scores of an agent's answers are estimates of the run, `steps` with its own direction."""
    rows = [
        {"input": "1+2", "expected_tools": [ADD], "tools": TOOLS},
        {"input": "Rome?", "expected_tools": [SEARCH], "tools": TOOLS},
    ]

    def agent(input: str) -> dict[str, Any]:  # noqa: A002 - the name by which it is bound
        return {"answer": "3", "tool_calls": [ADD], "steps": 2, "asked": input}

    run = assaymark.evaluate(agent, rows, scorers="tool_calls,tool_schema,steps")
    assert run.estimate("rows", "tool_calls").value == 0.5
    assert run.estimate("rows", "tool_schema").value == 1.0
    assert run.estimate("rows", "steps").value == 2.0
