"""Score answers with function calls, by the rules of the Berkeley Function Calling Leaderboard (BFCL).

An expected call lists the acceptable values of each parameter; the empty text among them means that the parameter may
be left out. Texts are compared without case, spaces and the signs , . / - _ * ^, with equal quotes. An integer is
accepted for a float, not the reverse. Several calls may come in any order. Every wrong answer has a reason.

Our own tool schemas have JSON Schema's types too: `number` accepts integers at any depth, and a parameter without a
type is only compared by value.

`call_match` expects certain calls, or none at all (irrelevance: no function fits the question). `any_call` is right
for an answer with any call (BFCL's relevance). An answer that cannot be read is wrong. In BFCL it is wrong where calls
are expected, and has no call where none is.

Source: BFCL v4 (ShishirPatil/gorilla 6ea57973, bfcl_eval/eval_checker: ast_eval/ast_checker.py, eval_runner.py; Patil
    et al. 2025, The Berkeley Function Calling Leaderboard, ICML 2025).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from assaymark.errors import MalformedSample
from assaymark.records import ScoreStatus
from assaymark.scoring.call_values import JAVA_KINDS, JAVASCRIPT_KINDS, java_value, javascript_value
from assaymark.scoring.metric import ANY_CALL, CALL_MATCH, TOOL_CALLS, ScoreValue, metric
from assaymark.scoring.metrics import computations
from assaymark.scoring.tool_calls import FunctionCall, Language, Syntax, TaggedText, UnreadableAnswer, read_calls
from assaymark.scoring.typography import folded

Reason = Literal[
    "no_call", "not_parsed", "unwanted_call", "wrong_count", "wrong_function", "missing_parameter",
    "unexpected_parameter", "wrong_type", "wrong_value",
]  # fmt: skip

OMISSIBLE = ""  # among the acceptable values: the parameter may be left out
_PYTHON_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("string", "any"), str),
    **dict.fromkeys(("float", "number"), float),
    **dict.fromkeys(("array", "tuple"), list),
    **dict.fromkeys(("dict", "object"), dict),
    "integer": int,
    "boolean": bool,
}
_SOURCE_KINDS: Mapping[Language, tuple[Mapping[str, type], Callable[[str, str, str | None], object]]] = {
    "java": (JAVA_KINDS, java_value),
    "javascript": (JAVASCRIPT_KINDS, javascript_value),
}
Plain = Callable[[object], object]  # a text in the form in which texts are compared
_IGNORED = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """A call that is right: the function, and the acceptable values of each parameter."""

    name: str
    allowed: Mapping[str, Sequence[object]]


@dataclass(frozen=True, slots=True)
class CallFault:
    """Why calls are wrong."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """The type of a parameter: its name, and the Python types of its values and of their elements."""

    name: str
    value: type | None  # None: any
    item: type | None = None
    item_name: str | None = None


def match_calls(
    answered: Sequence[FunctionCall],
    expected: Sequence[ExpectedCall],
    functions: Sequence[Mapping[str, object]],
    language: Language = "python",
    shown_name: Callable[[str], str] = str,
    *,
    as_bfcl: bool = True,
) -> CallFault | None:
    """Return why the calls are wrong; None where they are right.

    Args:
        answered: the model's calls.
        expected: those that are right, in any order; none: no call is right.
        functions: the declarations of all functions that the model could call (name, parameters).
        language: whose literals the arguments are; those of Java and JavaScript are texts.
        shown_name: the name under which the model saw a function.
        as_bfcl: texts are compared as BFCL does, without the signs and points of numbers too.

    Raises: MalformedSample for an expected call of a function that is not declared.
    """
    if not expected:
        return CallFault("unwanted_call", f"{answered[0].name} was called; no call was expected") if answered else None
    if not answered:
        return CallFault("no_call", f"the answer has no call; expected {_n_calls(len(expected))}")
    if len(answered) != len(expected):
        return CallFault("wrong_count", f"{_n_calls(len(answered))}; expected {len(expected)}")
    left = list(answered)
    for wanted in expected:
        declared = next((each for each in functions if each.get("name") == wanted.name), None)
        if declared is None:
            raise MalformedSample(f"a call of {wanted.name} is expected, which is not among the tools")
        plain = _plain if as_bfcl else _plain_with_numbers
        checker = _CallChecker(declared, wanted, language, shown_name(wanted.name), plain)
        faults = [checker.fault_of(call) for call in left]
        if all(faults):
            return _nearest([fault for fault in faults if fault is not None])
        del left[faults.index(None)]
    return None


def _nearest(faults: Sequence[CallFault]) -> CallFault:
    """Return the fault of the first call of the right function; where there is none, of the first call."""
    return next((fault for fault in faults if fault.reason != "wrong_function"), faults[0])


def _n_calls(n: int) -> str:
    return f"{n} call{'s' if n != 1 else ''}"


class _CallChecker:
    """Checks calls against one expected call."""

    def __init__(
        self, declared: Mapping[str, object], wanted: ExpectedCall, language: Language, name: str, plain: Plain
    ) -> None:
        parameters = declared.get("parameters")
        schema = parameters if isinstance(parameters, Mapping) else {}
        self._properties: Mapping[str, object] = schema.get("properties") or {}
        self._required: Sequence[str] = schema.get("required") or ()
        self._wanted, self._language, self._name, self._plain = wanted, language, name, plain

    def fault_of(self, call: FunctionCall) -> CallFault | None:
        """Return why a call is not the expected one; None where it is."""
        if call.name != self._name:
            return CallFault("wrong_function", f"{call.name} was called; expected {self._name}")
        for name in self._required:
            if name not in call.arguments:
                return CallFault("missing_parameter", f"{self._name}: the required parameter '{name}' is missing")
        for name, value in call.arguments.items():
            fault = self._fault_of_argument(name, value)
            if fault is not None:
                return fault
        for name, allowed in self._wanted.allowed.items():
            if name not in call.arguments and OMISSIBLE not in allowed:
                return CallFault("missing_parameter", f"{self._name}: '{name}' is missing; expected {_listed(allowed)}")
        return None

    def _fault_of_argument(self, name: str, value: object) -> CallFault | None:
        if name not in self._properties or name not in self._wanted.allowed:
            what = "has no parameter" if name not in self._properties else "was to be called without"
            return CallFault("unexpected_parameter", f"{self._name} {what} '{name}'")
        where, allowed = f"{self._name}, '{name}'", self._wanted.allowed[name]
        kind = _kind_of(self._properties[name], self._language)
        if self._language != "python":
            if not isinstance(value, str):
                return _wrong_type(where, value, "a text, as source code")
            value = _SOURCE_KINDS[self._language][1](value, kind.name, kind.item_name)
        faults = [self._fault_of_reading(where, each, allowed, kind) for each in _readings(value, kind)]
        return None if None in faults else faults[0]

    def _fault_of_reading(self, where: str, value: object, allowed: Sequence[object], kind: _Kind) -> CallFault | None:
        value = _converted(value, kind)
        if not _has_type(value, allowed, kind):
            return _wrong_type(
                where, value, kind.name if kind.item_name is None else f"{kind.name} of {kind.item_name}"
            )
        return _fault_of_value(where, value, allowed, kind, self._plain)


def _wrong_type(where: str, value: object, expected: str) -> CallFault:
    return CallFault("wrong_type", f"{where}: {_short_repr(value)} is a {type(value).__name__}; expected {expected}")


# ------------------------------------------------------------------------------------------------- types


def _kind_of(declared: object, language: Language) -> _Kind:
    """Return a parameter's type by its declaration; any type where it names none that is known."""
    schema = declared if isinstance(declared, Mapping) else {}
    kinds = _PYTHON_KINDS if language == "python" else _SOURCE_KINDS[language][0]
    name, items = schema.get("type"), schema.get("items")
    if not isinstance(name, str) or name not in kinds:
        return _Kind(str(name or "any value"), None)
    item = items.get("type") if isinstance(items, Mapping) and kinds[name] is list else None
    known = item if isinstance(item, str) and item in kinds else None
    return _Kind(name, kinds[name], None if known is None else kinds[known], known)


def _readings(value: object, kind: _Kind) -> tuple[object, ...]:
    """Return the readings of an argument between tags by its declared type; without a type, the value or the text."""
    if not isinstance(value, TaggedText):
        return (value,)
    if kind.value is None:
        return value.value, str(value)
    return (str(value),) if kind.value is str else (value.value,)


def _converted(value: object, kind: _Kind) -> object:
    """Return a value with the conversions that are allowed: tuple to list, integer to float."""
    if isinstance(value, tuple) and kind.name == "tuple":
        value = list(value)
    if type(value) is int and kind.value is float and kind.name in ("float", "number"):
        return _as_float(value)
    if isinstance(value, list) and kind.item_name == "number":
        return [_as_float(each) if type(each) is int else each for each in value]
    return value


def _as_float(value: int) -> float | int:
    try:
        return float(value)
    except OverflowError:
        return value


def _has_type(value: object, allowed: Sequence[object], kind: _Kind) -> bool:
    """Return whether a value has the declared type, or that of the acceptable values: a variable, say, is a text."""
    if kind.value is None:
        return True
    if type(value) is kind.value:
        return kind.item is None or not isinstance(value, list) or _have_item_types(value, allowed, kind.item)
    return type(value) is _type_of(allowed)


def _have_item_types(value: Sequence[object], allowed: Sequence[object], item: type) -> bool:
    """Return whether the elements have the declared type, or that of the elements of one acceptable list."""
    for other in allowed:
        own = _type_of(other) if isinstance(other, list) else None
        if not isinstance(other, list) or all(type(each) in (item, own) for each in value):
            return True
    return False


def _type_of(values: Sequence[object]) -> type | None:
    """Return the type of the first value that is not OMISSIBLE."""
    return next((type(value) for value in values if value != OMISSIBLE), None)


# ------------------------------------------------------------------------------------------------ values


def _fault_of_value(
    where: str, value: object, allowed: Sequence[object], kind: _Kind, plain: Plain
) -> CallFault | None:
    """Return why a value of the right type is none of the acceptable ones."""
    declared = kind.value or type(value)
    stated = _type_of(allowed)
    is_variable = type(value) is not declared or (stated is not None and stated is not declared)
    if kind.value is None:
        is_variable = False
    if is_variable:
        is_right = value in allowed
    elif isinstance(value, dict):
        return _fault_of_dict(where, value, allowed, plain)
    elif isinstance(value, list) and (kind.item is dict or _are_dicts(value, kind)):
        return _fault_of_dicts(where, value, allowed, plain)
    elif isinstance(value, str):
        is_right = plain(value) in [plain(each) for each in allowed if isinstance(each, str)]
    elif isinstance(value, list):
        is_right = [plain(each) for each in value] in [
            [plain(each) for each in other] for other in allowed if isinstance(other, list | tuple | str)
        ]
    else:
        is_right = value in allowed
    return None if is_right else CallFault("wrong_value", f"{where}: {_short_repr(value)}; expected {_listed(allowed)}")


def _are_dicts(value: list[object], kind: _Kind) -> bool:
    """Return whether a list whose elements have no declared type consists of objects."""
    return kind.item_name is None and bool(value) and all(isinstance(each, dict) for each in value)


def _plain(value: object) -> object:
    """Return a text as BFCL compares texts; another value as it is."""
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _plain_with_numbers(value: object) -> object:
    """Return a text as BFCL compares texts, and its numbers with their signs: 1.5 is not 15, -5 is not 5."""
    if not isinstance(value, str):
        return value
    value = folded(value).replace("’", "'")
    numbers = re.findall(r"(?<![\w.\-/])-?\d+|\d+", re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", value.replace("−", "-")))
    return _plain(value), *numbers


def _fault_of_dict(
    where: str, value: Mapping[str, object], allowed: Sequence[object], plain: Plain
) -> CallFault | None:
    """Compare an object with acceptable ones, whose values are lists of acceptable values."""
    fault = CallFault("wrong_value", f"{where}: {_short_repr(value)}; expected {_listed(allowed)}")
    for other in allowed:
        if not isinstance(other, Mapping):
            continue
        mismatch = _fault_of_keys(where, value, other, plain)
        if mismatch is None:
            return None
        fault = mismatch
    return fault


def _fault_of_keys(
    where: str, value: Mapping[str, object], other: Mapping[str, Sequence[object]], plain: Plain
) -> CallFault | None:
    for key, each in value.items():
        if key not in other:
            return CallFault("wrong_value", f"{where}: the key '{key}' is not expected")
        if plain(each) not in [plain(acceptable) for acceptable in other[key]]:
            return CallFault(
                "wrong_value", f"{where}, key '{key}': {_short_repr(each)}; expected {_listed(other[key])}"
            )
    for key, values in other.items():
        if key not in value and OMISSIBLE not in values:
            return CallFault("wrong_value", f"{where}: the key '{key}' is missing; expected {_listed(values)}")
    return None


def _fault_of_dicts(where: str, value: Sequence[object], allowed: Sequence[object], plain: Plain) -> CallFault | None:
    """Compare a list of objects with acceptable lists, in order."""
    fault = CallFault("wrong_value", f"{where}: {_short_repr(value)}; expected {_listed(allowed)}")
    for other in allowed:
        if not isinstance(other, Sequence) or len(value) != len(other):
            continue
        pairs = zip(value, other, strict=True)
        faults = [
            _fault_of_dict(where, each, [acceptable], plain) if isinstance(each, Mapping) else fault
            for each, acceptable in pairs
        ]
        mismatch = next((each for each in faults if each is not None), None)
        if mismatch is None:
            return None
        fault = mismatch
    return fault


def _listed(allowed: Sequence[object]) -> str:
    texts = [_short_repr(value) for value in allowed if value != OMISSIBLE]
    if not texts:
        return "it to be left out"
    return " or ".join(texts[:5]) + (f" or {len(texts) - 5} more" if len(texts) > 5 else "")


def _short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


@dataclass(frozen=True, slots=True)
class CallMatchRules:
    """How a task's answers are read and compared.

    shown_name: the name under which the model saw a function.
    as_bfcl: an answer is read as BFCL does: calls among other words are none, nor are those that cannot be read where
        none is expected.
    """

    syntax: Syntax = "any"
    language: Language = "python"
    shown_name: Callable[[str], str] = str
    as_bfcl: bool = False


def score_calls(
    answer: str,
    expected: Sequence[ExpectedCall],
    functions: Sequence[Mapping[str, object]],
    metrics: Sequence[str],
    rules: CallMatchRules,
) -> tuple[dict[str, ScoreValue], ScoreStatus]:
    """Return the scores of one answer, and whether it could be read.

    The detail has the calls, and for a wrong answer `reason` (see `call_match.Reason`) and `message`.

    Args:
        answer: the text, or a server's calls as `text_of_tool_calls` returns them.
        expected: the right calls; none: no call is right.
        functions: the declarations of the functions that the model could call.
        metrics: CALL_MATCH or ANY_CALL, or both.
        rules: how answers are read and compared.
    """
    calls: tuple[FunctionCall, ...] = ()
    unreadable: CallFault | None = None
    try:
        names = None if rules.as_bfcl else {rules.shown_name(str(each.get("name"))) for each in functions}
        calls = read_calls(answer, rules.syntax, rules.language, names=names)
    except UnreadableAnswer as error:
        unreadable = CallFault("not_parsed", str(error))
    read = CallAnswer(calls, unreadable, expected, functions, rules)
    scores = {name: computations(TOOL_CALLS)[name](read) for name in metrics}
    is_wrong = any(value.value == 0.0 for value in scores.values())
    return scores, ScoreStatus.UNPARSED if unreadable is not None and is_wrong else ScoreStatus.SCORED


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The calls of one answer, and those that they are compared with."""

    calls: tuple[FunctionCall, ...]
    unreadable: CallFault | None  # why the calls could not be read
    expected: Sequence[ExpectedCall]
    functions: Sequence[Mapping[str, object]]
    rules: CallMatchRules


@metric(
    of=TOOL_CALLS,
    name=CALL_MATCH,
    formula="1 if the function calls are the expected ones, else 0",
    scale="right or wrong",
)
def call_match(answer: CallAnswer) -> ScoreValue:
    """Return whether the calls are right; to BFCL an answer that cannot be read has none."""
    rules = answer.rules
    if answer.unreadable is not None and (answer.expected or not rules.as_bfcl):
        return _scored(answer.calls, answer.unreadable)
    fault = match_calls(
        answer.calls, answer.expected, answer.functions, rules.language, rules.shown_name, as_bfcl=rules.as_bfcl
    )
    return _scored(answer.calls, fault)


@metric(of=TOOL_CALLS, name=ANY_CALL, formula="1 if the answer has any function call, else 0", scale="right or wrong")
def any_call(answer: CallAnswer) -> ScoreValue:
    """Return whether there is a call."""
    fault = None if answer.calls else CallFault("no_call", "the answer has no call; expected any")
    return _scored(answer.calls, answer.unreadable or fault)


def _scored(calls: Sequence[FunctionCall], fault: CallFault | None) -> ScoreValue:
    detail: dict[str, object] = {"calls": [call.content for call in calls]}
    if fault is not None:
        detail |= {"reason": fault.reason, "message": fault.message}
    return ScoreValue(float(fault is None), detail=detail)
