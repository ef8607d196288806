"""Scorers of tool calls and steps, without a judge.

Calls are read from the answer: `tool_calls` (`tools_called`) of what the target returned, or its messages. An answer
without a place for calls, as a text, has made none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from assaymark.applications.scorer import Answered, Result, ScorerFacts
from assaymark.applications.scorers.plain import PlainScorer
from assaymark.applications.tool_calls import (
    Tool,
    ToolCall,
    expected_calls,
    given_tools,
    has_unread_calls,
    n_steps_in,
    tools_of,
)
from assaymark.errors import DataError, MissingExtra, UsageError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import JsonValue

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MATCHES = ("sequence", "exact", "order", "any")


@dataclass(frozen=True)
class ToolCalls(PlainScorer):
    """The answer's tool calls beside the expected ones.

    match: "sequence": RAGAS' tool call accuracy: 0 unless the names are the same in the same order, else the mean over
    expected calls of the share of their arguments that are equal; "exact": 1 if the calls are the expected ones in
    order; "order": length of the longest common subsequence / expected calls; "any": matched calls / expected calls,
    in any order. The last three are DeepEval's tool correctness: of names, unless `arguments` is true.
    """

    FACTS = ScorerFacts(
        "tool_calls",
        "0 unless the calls' names are the expected ones in order, else the mean over expected calls of the share of "
        "arguments that are equal (match: exact, order, any: see the settings)",
        needs=frozenset({"expected_tools"}),
    )
    ARGUMENT = "match"
    match: str = "sequence"
    arguments: bool = False

    def __post_init__(self) -> None:
        """Refuse an unknown way of matching."""
        if self.match not in MATCHES:
            raise UsageError(f"scorer tool_calls: match is {self.match!r:.40}; expected one of {', '.join(MATCHES)}")

    def _score(self, answered: Answered) -> Result:
        expected = expected_calls(answered.row)
        if expected is None:
            raise DataError(f"row {answered.row.id}: its expected value has no tool calls")
        read = answered.tool_calls
        if read is None and has_unread_calls(answered.output):
            return self._result(0.0, "the answer's tool calls cannot be read")
        made = read or []
        comment = None if read is not None else "the answer has no tool calls, nor a place for them"
        if not expected or not made:
            return self._result(not expected and not made, comment)
        if self.match == "sequence":
            value = _in_sequence(made, expected)
        elif self.match == "exact":
            value = float(len(made) == len(expected) and all(map(self._is_equal, made, expected)))
        elif self.match == "order":
            value = self._common(made, expected) / len(expected)
        else:
            value = self._in_any_order(made, expected) / len(expected)
        return self._result(value, f"called {_names(made)}; expected {_names(expected)}" if value < 1 else comment)

    def _is_equal(self, made: ToolCall, expected: ToolCall) -> bool:
        return made.name == expected.name and (not self.arguments or made.arguments == expected.arguments)

    def _weight(self, made: ToolCall, expected: ToolCall) -> float:
        """Return the similarity of two calls: 0 for different names, else 1 or the share of equal arguments."""
        if made.name != expected.name:
            return 0.0
        return _equal_entries(made.arguments or {}, expected.arguments or {}) if self.arguments else 1.0

    def _common(self, made: Sequence[ToolCall], expected: Sequence[ToolCall]) -> float:
        """Return the weight of the heaviest common subsequence."""
        before = [0.0] * (len(made) + 1)
        for wanted in expected:
            row = [0.0]
            for at, call in enumerate(made):
                row.append(max(before[at + 1], row[at], before[at] + self._weight(call, wanted)))
            before = row
        return before[-1]

    def _in_any_order(self, made: Sequence[ToolCall], expected: Sequence[ToolCall]) -> float:
        """Return the weight of matched calls: each expected one takes the best remaining call."""
        left, total = list(made), 0.0
        for wanted in expected:
            best = max(left, key=lambda call: self._weight(call, wanted), default=None)
            if best is not None and (weight := self._weight(best, wanted)) > 0:
                total += weight
                left.remove(best)
        return total


def _names(calls: Sequence[ToolCall]) -> str:
    return ", ".join(call.name for call in calls[:20])[:300] or "none"


def _in_sequence(made: Sequence[ToolCall], expected: Sequence[ToolCall]) -> float:
    """Return RAGAS' tool call accuracy for calls in strict order."""
    if [call.name for call in made] != [call.name for call in expected]:
        return 0.0
    return sum(map(_expected_arguments, made, expected)) / len(expected)


def _expected_arguments(made: ToolCall, expected: ToolCall) -> float:
    """Return the share of expected arguments that a call has, compared as texts; further ones cost nothing."""
    wanted, has = expected.arguments or {}, made.arguments or {}
    if not wanted:
        return float(not has)
    return sum(name in has and str(has[name]) == str(value) for name, value in wanted.items()) / len(wanted)


def _equal_entries(first: Mapping[str, JsonValue], second: Mapping[str, JsonValue]) -> float:
    """Return the share of the union of names whose values are equal; of mappings inside the same, recursively."""
    if first == second:
        return 1.0
    total = 0.0
    for name in first.keys() & second.keys():
        left, other = first[name], second[name]
        if isinstance(left, Mapping) and isinstance(other, Mapping):
            total += _equal_entries(left, other)
        else:
            total += float(left == other)
    return total / len(first.keys() | second.keys())


def read_tools(value: object, scorer: str) -> tuple[Tool, ...] | None:
    """Return the tools of a setting: a list, or a YAML or JSON file with one. Raises: UsageError."""
    if isinstance(value, str):
        path = Path(value).expanduser()
        if not path.is_file():
            raise UsageError(f"scorer {scorer}: there is no file {path}; expected {scorer}:FILE")
        try:
            value = load_yaml(path.read_bytes())
        except DataError as error:
            raise UsageError(f"scorer {scorer}: {path}: {error}") from None
    return given_tools(value, scorer)


@dataclass(frozen=True)
class ToolSchema(PlainScorer):
    """Whether calls are of tools that exist, with arguments that fit their schemas (Phoenix, MLflow).

    tools: a list, or a file with one; default: those that each row names as `tools`.
    """

    FACTS = ScorerFacts(
        "tool_schema",
        "calls of tools that exist, with arguments valid under the tool's schema / calls; no calls: not scored",
        needs=frozenset({"tools"}),
        packages=("jsonschema",),
    )
    ARGUMENT: ClassVar[str] = "tools"
    IN_THREAD = True
    tools: JsonValue = None

    _tools: tuple[Tool, ...] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        """Read the tools and check their schemas, before anything is called."""
        object.__setattr__(self, "_tools", read_tools(self.tools, "tool_schema"))
        for tool in self._tools or ():
            _validator(tool)

    def _needs(self) -> frozenset[str]:
        return frozenset() if self._tools is not None else self.FACTS.needs

    def _settings(self) -> dict[str, JsonValue]:
        known = self._tools
        return {"tools": None if known is None else [[each.name, dict(each.schema or {})] for each in known]}

    def _score(self, answered: Answered) -> Result:
        tools = self._tools if self._tools is not None else tools_of(answered.row)
        if tools is None:
            raise DataError(f"row {answered.row.id}: it names no tools")
        calls = answered.tool_calls
        if not calls:
            return self._result(None, "the answer has no tool calls")
        by_name = {tool.name: tool for tool in tools}
        faults = [fault for call in calls if (fault := _fault(call, by_name)) is not None]
        return self._result(1 - len(faults) / len(calls), "; ".join(faults)[:2000] or None)


def _fault(call: ToolCall, tools: Mapping[str, Tool]) -> str | None:
    """Return the fault of a call; None for one that fits."""
    tool = tools.get(call.name)
    if tool is None:
        return f"there is no tool {call.name:.60}"
    if call.arguments is None:
        return f"{call.name:.60}: its arguments are no JSON object"
    error = next(iter(_validator(tool).iter_errors(dict(call.arguments))), None)
    return None if error is None else f"{call.name:.60}: {error.json_path}: {error.message}"[:300]


def _validator(tool: Tool) -> "Validator":
    try:
        import jsonschema
        import referencing
    except ImportError:
        raise MissingExtra("the scorer tool_schema", "scorers") from None
    schema = dict(tool.schema or {})
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise UsageError(f"the schema of the tool {tool.name:.60} is not valid: {error.message:.300}") from None
    return kind(schema, registry=referencing.Registry())


@dataclass(frozen=True)
class Steps(PlainScorer):
    """Steps that the answer took."""

    FACTS = ScorerFacts(
        "steps",
        "entries of `steps`, `intermediate_steps` or `trajectory` in what the target returned, or the number there; "
        "else its messages of the assistant; none: not scored",
        higher_is_better=False,
        scale="number",
    )

    def _score(self, answered: Answered) -> Result:
        n_steps = n_steps_in(answered.output)
        return self._result(n_steps, None if n_steps is not None else "the target did not report its steps")
