"""Binding of users' functions to their arguments, by the names of their parameters, before the first row.

A function that was written for LangSmith, Braintrust, Phoenix, MLflow, Langfuse, HoneyHive or promptfoo names its
parameters as that tool does; `NAMES` has all of these names. Nothing is bound by position: a function whose second
parameter is called `outputs` must not get the expected value there. A parameter that does not fit is refused by name.
Functions are the user's own and run with the user's rights. Their return values are parsed into `Result`s here; an
unknown form is an error, not a score.
"""

import asyncio
import copy
import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import CellType, SimpleNamespace
from typing import Any, Self, TypeVar, overload

from assaymark.applications.arguments import RowView, variables_of
from assaymark.applications.returned import answer_of
from assaymark.applications.rows import CONTEXTS, EXPECTED, Row
from assaymark.applications.scorer import Answered, Result, Scorer, ScorerFacts
from assaymark.applications.source import attributes_of, held_value, own_imports
from assaymark.errors import UsageError
from assaymark.python_source import source_of_object
from assaymark.records import JsonValue, canonical_json, content_hash
from assaymark.registry import nearest
from assaymark.scoring.metric import Scale

F = TypeVar("F", bound=Callable[..., object])
_FACTS = "__assaymark_scorer__"

NAMES: Mapping[str, tuple[str, ...]] = {
    "inputs": ("inputs", "input"),
    "output": ("outputs", "output", "prediction", "response", "actual_output"),
    "expected": EXPECTED,
    "metadata": ("metadata",),
    "tags": ("tags",),
    "id": ("id",),
    "trace": ("trace",),
    "trace_id": ("trace_id",),
    "contexts": CONTEXTS,
    "row": ("example", "item", "datapoint"),
    "run": ("run",),
}  # fmt: skip
"""What a scorer may be given, and the names of parameters that get it."""
_PAIR = ("output", "context")  # promptfoo's get_assert
_INSPECT = ("state", "target")  # inspect's scorers
_INSPECT_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}  # correct, partial, incorrect, no answer
_NEEDED = frozenset({"expected", "contexts", "trace"})
_VALUE, _COMMENT = ("value", "score", "pass"), ("comment", "reason", "explanation", "rationale", "error")
_RESULT_KEYS = frozenset({*_VALUE, "label"})
# the direction of these metrics of DeepEval changed between its releases, and they do not state it
_UNSURE = frozenset({"HallucinationMetric", "BiasMetric", "ToxicityMetric"})


# ---------------------------------------------------------------------------------------- parameters


@dataclass(frozen=True, slots=True)
class Binding:
    """How a function is called: the available value for each parameter."""

    function: Callable[..., object]
    positional: tuple[tuple[str | None, object], ...]  # of positional-only parameters: value's name, and default
    keywords: Mapping[str, str]  # parameter -> what it gets
    defaulted: frozenset[str]  # parameters that keep their default without a value
    rest: Mapping[str, str]  # further arguments for `**kw`: name -> name of the value

    def call(self, values: Mapping[str, object]) -> object:
        """Call the function. values: by name; None if there is none, so that defaults are kept."""
        before = [default if what is None or (values[what] is None and default is not _EMPTY) else values[what]
                  for what, default in self.positional]  # fmt: skip
        named = {
            name: values[what]
            for name, what in self.keywords.items()
            if values[what] is not None or name not in self.defaulted
        }
        return self.function(*before, **named, **{name: values[what] for name, what in self.rest.items()})

    @property
    def required(self) -> frozenset[str]:
        """The inputs that are passed to parameters without a default."""
        named = {what for name, what in self.keywords.items() if name not in self.defaulted}
        return frozenset(named | {what for what, default in self.positional if what and default is _EMPTY})


_EMPTY = inspect.Parameter.empty


def bind_parameters(
    function: Callable[..., object],
    names: Mapping[str, str],
    *,
    lone: str,
    exactly: Mapping[tuple[str, ...], Mapping[str, str]],
    what: str,
) -> Binding:
    """Return how a function is called, by the names of its parameters.

    Args:
        names: name of a parameter -> name of its value.
        lone: value for the only parameter without a default, if its name is unknown.
        exactly: parameters by which another convention is recognised -> name of a parameter -> name of its value.
        what: the function, for messages.

    Raises: UsageError in one line that names the parameter that fits nothing.
    """
    function = _callable_of(function, what)
    try:
        own = inspect.signature(function, follow_wrapped=False)
        has_rest = any(each.kind is each.VAR_KEYWORD for each in own.parameters.values())
        # a decorator's wrapper passes its arguments on; the function inside has the names
        signature = inspect.signature(function) if has_rest else own
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} has no signature to bind by name: {error}; wrap it in a function") from error
    parameters = list(signature.parameters.values())
    plain = [each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]
    names = exactly.get(tuple(each.name for each in plain), names)
    required = [each for each in plain if each.default is _EMPTY]
    if len(required) == 1 and required[0].name not in names:
        names = {**names, required[0].name: lone}
    for each in required:
        if each.name not in names:
            raise UsageError(_does_not_fit(what, each.name, names))
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    if not any(each.name in names for each in plain) and not takes_all:
        raise UsageError(f"{what} takes none of what it could be given; name a parameter {_some(names)}")
    keywords = {each.name: names[each.name] for each in plain if each.kind is not each.POSITIONAL_ONLY
                and each.name in names}  # fmt: skip
    return Binding(
        function,
        tuple((names.get(each.name), each.default) for each in plain if each.kind is each.POSITIONAL_ONLY),
        keywords,
        frozenset(each.name for each in plain if each.default is not _EMPTY),
        {name: source for name, source in names.items() if name not in signature.parameters} if takes_all else {},
    )


def _does_not_fit(what: str, name: str, names: Mapping[str, str]) -> str:
    near = nearest(name, names, 1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return (
        f"{what}: nothing is called '{name}'; {hint}parameters are bound by name, never by position: rename it to one "
        f"of {_some(names)}, or give it a default"
    )


def _some(names: Mapping[str, str]) -> str:
    """Return the known names, with synonyms beside each other."""
    by_what: dict[str, list[str]] = {}
    for name, what in names.items():
        by_what.setdefault(what, []).append(name)
    return ", ".join("|".join(alike[:3]) for alike in by_what.values())


def _callable_of(function: object, what: str) -> Callable[..., object]:
    """Return the callable itself: a class is constructed, an object that wraps a function (Phoenix's) is unwrapped."""
    if inspect.isclass(function):
        try:
            function = function()
        except TypeError as error:
            raise UsageError(f"{what} is a class that needs arguments ({error}); pass an object of it") from error
    function = _wrapped_in(function) or function
    if not callable(function):
        raise UsageError(f"{what} is a {type(function).__name__}, which cannot be called; expected a function")
    return function  # type: ignore[no-any-return]


def _wrapped_in(thing: Any) -> Any:
    """Return the function that an object wraps, as those of Phoenix's decorators do; None if it wraps none.

    `inspect.signature` of such an object lacks the function's first parameter, which it takes for `self`.
    """
    if inspect.isroutine(thing) or inspect.isclass(thing) or isinstance(thing, functools.partial):
        return None
    if hasattr(thing, "__wrapped__"):
        return inspect.unwrap(thing)
    inner = getattr(getattr(type(thing), "__call__", None), "__wrapped__", None)  # noqa: B004 - the class's own function
    if inner is None or next(iter(inspect.signature(inner).parameters), None) == "self":  # a decorated method
        return None
    return inner


# ---------------------------------------------------------------------------------------- what a function sees


class _View(SimpleNamespace):
    """A run as other tools show it: by attribute and by key alike."""

    def __getitem__(self, name: str) -> object:
        return vars(self)[name]

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def get(self, name: str, default: object = None) -> object:
        """Return a value, as a mapping does."""
        return vars(self).get(name, default)

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return vars(self).keys()


def _own(value: JsonValue) -> JsonValue:
    """Return a copy of a JSON value, so that a function can change its arguments without changing others'."""
    if isinstance(value, Mapping):
        return {name: _own(inner) for name, inner in value.items()}
    return [_own(inner) for inner in value] if isinstance(value, list | tuple) else value


def _values(answered: Answered, wanted: frozenset[str]) -> dict[str, object]:
    """Return the wanted values of an answered row by name."""
    row = answered.row
    made: dict[str, Callable[[], object]] = {
        "inputs": lambda: _own(row.inputs),
        "output": lambda: _own(answered.output),
        "expected": lambda: _own(row.expected),
        "metadata": lambda: _own(row.metadata),
        "tags": lambda: list(row.tags),
        "id": lambda: row.id,
        "trace": lambda: None,
        "trace_id": lambda: answered.trace_id,
        "contexts": lambda: _own(answered.contexts if answered.contexts is not None else row.contexts),
        "row": lambda: RowView(row),
        "run": lambda: _run_view(answered),
        "promptfoo context": lambda: _promptfoo_context(row),
        "inspect state": lambda: _inspect_state(answered),
        "inspect target": lambda: _InspectTarget(row.expected),
    }
    return {name: made[name]() for name in wanted}


def _run_view(answered: Answered) -> _View:
    """Return LangSmith's `run`: its inputs and outputs are mappings; a plain output is under `output`."""
    inputs, outputs = _own(answered.row.inputs), _own(answered.output)
    return _View(
        id=answered.row.id, trace_id=answered.trace_id, error=None, latency_s=answered.latency_s,
        inputs=inputs if isinstance(inputs, dict) else {"input": inputs},
        outputs=outputs if isinstance(outputs, dict) else {"output": outputs},
    )  # fmt: skip


class _InspectTarget(tuple[str, ...]):
    """inspect's target: the texts of a row's reference; `text` is all of them."""

    __slots__ = ()

    def __new__(cls, expected: JsonValue) -> Self:
        values = expected if isinstance(expected, list | tuple) else [] if expected is None else [expected]
        return super().__new__(cls, tuple(_text(each) for each in values))

    @property
    def target(self) -> list[str]:
        """The texts."""
        return list(self)

    @property
    def text(self) -> str:
        """The texts as one."""
        return "".join(self)


def _inspect_state(answered: Answered) -> _View:
    """Return the parts of inspect's state of an answered sample that scorers read."""
    row = answered.row
    inputs, answer = _own(row.inputs), answer_of(answered.output)
    completion = answer if isinstance(answer, str) else canonical_json(answer)
    asked = _text(row.inputs)
    message = _View(role="assistant", content=completion, text=completion)
    return _View(
        sample_id=row.id, epoch=1, input=inputs, input_text=asked, user_prompt=_View(role="user", text=asked),
        metadata=_own(row.metadata), output=_View(completion=completion, message=message, error=None),
        messages=[_View(role="user", content=asked, text=asked), message], completed=True,
        target=_InspectTarget(row.expected),
    )  # fmt: skip


def _graded(result: Result) -> Result:
    """Return an inspect score with the number that its grade stands for, as inspect's own metrics read it."""
    number = _INSPECT_GRADES.get(result.label or "")
    return result if number is None or result.value is not None else replace(result, value=number)


def _promptfoo_context(row: Row) -> dict[str, object]:
    """Return promptfoo's second argument; a test's expected value is one of its variables."""
    variables = copy.deepcopy(variables_of(row))
    if row.expected is not None:
        variables.setdefault("expected", _own(row.expected))
    prompt = row.inputs if isinstance(row.inputs, str) else None
    metadata = _own(row.metadata)
    return {"vars": variables, "prompt": prompt, "test": {"vars": variables, "metadata": metadata}, "config": {}}


# ---------------------------------------------------------------------------------------- results


def results_of(returned: object, name: str) -> list[Result]:
    """Read a scorer function's return value as results.

    A number or bool is a value, a text a label, None or NaN is not scored; a mapping or an object has
    value|score|pass, label, name|key, comment|reason|explanation|rationale and metadata; a list is several of these,
    and a tuple of two is (score, label).

    Raises: TypeError for anything else; ValueError for an infinite value, or two results of one name.
    """
    if isinstance(returned, Mapping) and isinstance(returned.get("results"), list):
        returned = returned["results"]  # LangSmith's EvaluationResults
    if not isinstance(returned, list):
        return [_result(returned, name)]
    results = [_result(each, name) for each in returned]
    if len({each.name for each in results}) < len(results):
        raise ValueError(f"scorer '{name}' returned several results of one name; give each a name of its own")
    return results or [Result(name, comment="an empty list was returned")]


def _result(returned: object, name: str) -> Result:
    if isinstance(returned, Result):
        return returned
    if returned is None:
        return Result(name)
    if isinstance(returned, str):
        return Result(name, label=returned)
    if (number := _number(returned)) is not None:
        return _valued(Result(name), number)
    if isinstance(returned, tuple) and not hasattr(returned, "_fields"):
        if len(returned) != 2 or not isinstance(returned[1], str | None):
            raise TypeError(f"scorer '{name}' returned a tuple of {len(returned)}; expected (score, label)")
        return replace(_result(returned[0], name), label=returned[1])
    return _of_fields(returned, name)


def _of_fields(returned: object, name: str) -> Result:
    """Return the result of a mapping or an object with attributes."""
    mapping = returned if isinstance(returned, Mapping) else None

    def field(*names: str) -> object:
        values = (getattr(returned, each, None) if mapping is None else mapping.get(each) for each in names)
        return next((each for each in values if each is not None), None)

    known = {each for each in _RESULT_KEYS if hasattr(returned, each)} if mapping is None else set(mapping)
    if not known & _RESULT_KEYS:
        keys = ", ".join(map(str, list(mapping or ())[:6]))
        what = (
            f"a mapping with {f'the keys {keys}' if keys else 'no keys'}"
            if mapping is not None
            else f"{returned!r:.80}"
        )
        raise TypeError(
            f"scorer '{name}' returned {what}; expected a number, a text, None, or value, score, pass or label"
        )
    comment, label, metadata = field(*_COMMENT), field("label"), field("metadata")
    own_name = field("name", "key")
    if own_name == "feedback" and type(returned).__name__ == "Feedback":
        own_name = None  # MLflow's default, which it replaces by the scorer's name
    result = Result(
        str(own_name or name),
        label=None if label is None else str(label),
        comment=None if comment is None else str(comment),
        metadata={name: _own(value) for name, value in metadata.items()} if isinstance(metadata, Mapping) else {},
    )
    for each in _VALUE:
        value = field(each)
        if (number := _number(value)) is not None:
            return _valued(result, number)
        if isinstance(value, str):  # a category: LangSmith's `value`, MLflow's "yes"
            result = result if result.label is not None else replace(result, label=value)
        elif value is not None:
            raise TypeError(f"scorer '{name}' returned {each} as a {type(value).__name__}; expected a number or a text")
    return result


def _number(value: Any) -> float | None:
    """Return a number or bool as a float, decimals and numpy's scalars too; None for anything else."""
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    if type(value).__module__.partition(".")[0] in {"numpy", "torch"} and getattr(value, "shape", None) == ():
        return float(value.item())
    return None


def _valued(result: Result, number: float) -> Result:
    if math.isinf(number):
        raise ValueError(f"scorer '{result.name}' returned {number}; expected a finite number, or None for not scored")
    if math.isnan(number):
        return result if result.comment else replace(result, comment="NaN: not scored")
    return replace(result, value=number)


# ---------------------------------------------------------------------------------------- scorers


@overload
def scorer(function: F, /) -> F: ...
@overload
def scorer(
    function: None = None,
    /,
    *,
    name: str | None = None,
    formula: str = "",
    higher_is_better: bool | None = True,
    scale: Scale = "share",
    needs: Iterable[str] | None = None,
    packages: tuple[str, ...] = (),
) -> Callable[[F], F]: ...
def scorer(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    formula: str = "",
    higher_is_better: bool | None = True,
    scale: Scale = "share",
    needs: Iterable[str] | None = None,
    packages: tuple[str, ...] = (),
) -> F | Callable[[F], F]:
    """Declare facts about the values of a function or class that scores answers.

    Args:
        function: the function, where the decorator has no arguments.
        name: of the score; default: the function's.
        formula: of one answer's score, in words; shown by reports and pages.
        higher_is_better: the direction; None: neither is better.
        scale: "right or wrong" for 0 and 1, "share" for values in [0, 1], "number" for any others. A value outside is
            a failed score.
        needs: of expected, contexts, trace, latency, cost and tokens: what a row must have; default: what parameters
            without a default are given.
        packages: packages without which it cannot be computed.
    """

    def declare(declared: F) -> F:
        needed = None if needs is None else frozenset(needs)
        facts = ScorerFacts(name or "", formula, higher_is_better, scale, needed or frozenset(), packages)
        setattr(declared, _FACTS, (facts, needed is not None))
        return declared

    return declare if function is None else declare(function)


def bind_scorer(function: Any, name: str | None = None) -> Scorer:
    """Return a scorer that calls a user's function, class or object.

    Args:
        function: with parameters named as in `NAMES`, synchronous or not; or a metric of DeepEval.
        name: of its scores; default: as declared, else the function's own.

    Raises: UsageError in one line if a parameter fits nothing.
    """
    target = inspect.unwrap(function) if hasattr(function, "__wrapped__") else _wrapped_in(function) or function
    declared, needs_declared = getattr(function, _FACTS, getattr(target, _FACTS, (None, False)))
    own_name = name or (declared.name if declared else "") or _name_of(function, target)
    if not inspect.isclass(function) and callable(getattr(function, "measure", None)) and hasattr(function, "score"):
        return _MeasuredCase(function, _deepeval_facts(function, own_name, declared))
    names = {each: what for what, alike in NAMES.items() for each in alike}
    promptfoo = {"output": "output", "context": "promptfoo context"}
    inspects = {"state": "inspect state", "target": "inspect target"}
    what = f"scorer '{own_name}'{_where(target)}"
    binding = bind_parameters(function, names, lone="output", exactly={_PAIR: promptfoo, _INSPECT: inspects}, what=what)
    needs = declared.needs if declared and needs_declared else binding.required & _NEEDED
    facts = replace(declared or ScorerFacts(own_name, _summary(target)), name=own_name, needs=needs)
    return _FunctionScorer(binding, facts, source_hash(function, facts), declared is not None)


class _FunctionScorer:
    """A user's function as a scorer."""

    def __init__(self, binding: Binding, facts: ScorerFacts, code: str, is_declared: bool) -> None:
        self._binding, self.facts, self.content_hash, self._is_declared = binding, facts, code, is_declared
        named = {*binding.keywords.values(), *binding.rest.values()}
        self._wanted = frozenset(named | {what for what, _ in binding.positional if what is not None})
        called = binding.function
        self._is_async = inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(
            getattr(called, "__call__", None)  # noqa: B004 - an object's method, which may be asynchronous
        )

    async def score(self, answered: Answered) -> Sequence[Result]:
        """Call the function; a synchronous one in a thread, so that it may wait for a server."""
        values = _values(answered, self._wanted)
        call = self._binding.call
        returned = call(values) if self._is_async else await asyncio.to_thread(call, values)
        if inspect.isawaitable(returned):
            returned = await returned
        results = results_of(returned, self.facts.name)
        if "inspect state" in self._wanted:
            results = [_graded(each) for each in results]
        if self._is_declared:
            for each in results:
                refuse_outside(each, self.facts)
        return results


def refuse_outside(result: Result, facts: ScorerFacts) -> None:
    """Raise ValueError for a value outside of the scorer's declared scale."""
    value = result.value
    if value is None or facts.scale == "number":
        return
    allowed = value in (0.0, 1.0) if facts.scale == "right or wrong" else 0.0 <= value <= 1.0
    if not allowed:
        expected = "0 or 1" if facts.scale == "right or wrong" else "a value in [0, 1]"
        raise ValueError(f"scorer '{facts.name}' returned {value:g} and declares {expected}; declare scale='number'")


class _MeasuredCase:
    """A metric of DeepEval, or one with the same interface: `measure(case)` sets `score` and `reason`."""

    def __init__(self, metric: Any, facts: ScorerFacts) -> None:
        self._metric, self.facts = metric, facts
        self.content_hash = source_hash(metric, facts)

    async def score(self, answered: Answered) -> Sequence[Result]:
        """Measure with a copy of the metric, because it keeps its last score."""
        metric = copy.copy(self._metric)
        await asyncio.to_thread(metric.measure, _test_case(answered))
        if getattr(metric, "error", None):
            raise RuntimeError(str(metric.error))
        (result,) = results_of({"value": metric.score, "comment": getattr(metric, "reason", None)}, self.facts.name)
        threshold = getattr(metric, "threshold", None)
        return [result if threshold is None else replace(result, metadata={"threshold": threshold})]


def _deepeval_facts(metric: object, name: str, declared: ScorerFacts | None) -> ScorerFacts:
    if declared is not None:
        return replace(declared, name=name)
    wanted = {str(getattr(each, "value", each)) for each in getattr(metric, "_required_params", None) or ()}
    by_name = {each: what for what, alike in NAMES.items() for each in alike}
    needs = frozenset(by_name[each] for each in wanted if each in by_name) & _NEEDED
    direction = None if type(metric).__name__ in _UNSURE else True
    return ScorerFacts(name, _summary(type(metric)), direction, needs=needs)


def _test_case(answered: Answered) -> object:
    """Return DeepEval's test case; if its package is not loaded, an object with the same attributes."""
    row, contexts = answered.row, answered.contexts if answered.contexts is not None else answered.row.contexts
    fields = {
        "input": _text(row.inputs),
        "actual_output": _text(answered.output),
        "expected_output": None if row.expected is None else _text(row.expected),
        "retrieval_context": None if contexts is None else list(contexts),
    }
    if (module := sys.modules.get("deepeval.test_case")) is not None:
        return module.LLMTestCase(**fields)
    return _View(**fields, context=None, tools_called=None, expected_tools=None, metadata=_own(row.metadata))


def _text(value: JsonValue) -> str:
    """Return a value as DeepEval's test cases hold it: as text; of a mapping with one value, that value's."""
    if isinstance(value, Mapping) and len(value) == 1:
        value = next(iter(value.values()))
    return value if isinstance(value, str) else str(value)


def _name_of(original: object, function: object) -> str:
    """Return the name of a function, or the one that an object has (those of Phoenix's and MLflow's decorators)."""
    own = None if inspect.isroutine(original) or inspect.isclass(original) else getattr(original, "name", None)
    if isinstance(own, str) and own:
        return own
    registered = getattr(getattr(original, "__registry_info__", None), "name", None)  # of inspect's scorers
    if isinstance(registered, str) and registered:
        return registered.rpartition("/")[2]
    inner = function.func if isinstance(function, functools.partial) else function
    name = getattr(inner, "__name__", None) or type(inner).__name__
    qualified = str(getattr(inner, "__qualname__", ""))
    if name == "score" and ".<locals>." in qualified:
        return qualified.split(".<locals>.")[-2].rpartition(".")[2]  # of inspect's: the factory's name
    return str(name) if name != "<lambda>" else "lambda"


def _summary(function: object) -> str:
    """Return the first line of a function's documentation."""
    text = inspect.getdoc(function) if inspect.isroutine(function) or inspect.isclass(function) else None
    return (text or "").partition("\n")[0]


def _where(function: object) -> str:
    try:
        file = inspect.getsourcefile(_code_of(function))
    except TypeError:
        return ""
    return f" ({Path(file).name})" if file else ""


def _code_of(function: Any) -> Any:
    """Return the object with a source file: the function, or the class of an object."""
    if isinstance(function, functools.partial):
        return _code_of(function.func)
    inner = inspect.unwrap(function) if hasattr(function, "__wrapped__") else _wrapped_in(function) or function
    inner = getattr(inner, "_original_func", None) or inner  # of MLflow's decorator
    return inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner)


def source_hash(function: object, facts: ScorerFacts | None = None) -> str:
    """Return a hash of a function: its file and what that imports of the user's, its name in it, and bound settings.

    For a function without a file (typed into a notebook) it covers the source text, or else the byte code.
    """
    code = _code_of(function)
    try:
        file = inspect.getsourcefile(code)
    except TypeError:
        file = None
    if file is not None and Path(file).is_file():
        source = _file_hash(Path(file))
    else:
        try:
            source = source_of_object(code)
        except (OSError, TypeError):
            compiled = getattr(code, "__code__", None)
            source = repr(code) if compiled is None else repr((compiled.co_code.hex(), compiled.co_consts))
    declared = None if facts is None else [facts.name, facts.scale, facts.higher_is_better, sorted(facts.needs)]
    qualified = f"{getattr(code, '__module__', '')}.{getattr(code, '__qualname__', '')}" if file is None else getattr(
        code, "__qualname__", ""
    )  # fmt: skip
    return content_hash({"source": source, "name": qualified, "settings": _settings_of(function), "facts": declared})


def _file_hash(file: Path) -> str:
    """Return the hash of a file, and of the user's own modules that it imports."""
    own = content_hash(file.read_text(encoding="utf-8", errors="replace"))
    imported = own_imports(file.resolve())
    return content_hash([own, imported]) if imported else own


def _settings_of(function: object) -> JsonValue:
    """Return the values in a partial, a closure, an object or its defaults, which its source does not show."""
    if isinstance(function, functools.partial):
        return [_plain(list(function.args)), _plain(function.keywords), _settings_of(function.func)]
    if inspect.ismethod(function):
        return [_settings_of(function.__func__), _settings_of(function.__self__)]
    if inspect.isfunction(function):
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_set(cell)]
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items()]
        return [_plain(each) for each in (*cells, *defaults)]
    return _plain(attributes_of(function)) if not inspect.isclass(function) else None


def _is_set(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # a cell that is not assigned yet
        return False


def _plain(value: object) -> JsonValue:
    """Return a value as it stands in a hash; the name of its type where it has no source."""
    try:
        return held_value(value)
    except UsageError:
        return type(value).__qualname__
