"""The arguments of a target: its parameters are bound by name to the parts of a row, before the first call.

Parameters are never bound by position, since the order of arguments differs between tools. The convention, first match:

1. `inputs` or `input` is the row's inputs, as stored; `expected`, `reference`, `ground_truth` and the like its
   reference; `metadata`, `tags`, `id`, `contexts`; `example`, `item` or `datapoint` the whole row; `hooks`.
2. Any other parameter is the input of that name.
3. A single parameter of another name is the inputs.
4. Exactly (prompt, options, context) is promptfoo's `call_api`.
5. Other parameters keep their defaults, and `**kwargs` gets the inputs that no parameter names, never the reference.

A parameter that fits none of these is refused by name.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from assaymark.applications.rows import CONTEXTS, EXPECTED, Row
from assaymark.errors import UsageError
from assaymark.records import JsonValue, canonical_json

Source = Literal[
    "inputs", "expected", "metadata", "tags", "id", "contexts", "row", "hooks", "attachments", "key", "only"
]

PROMPTFOO = ("prompt", "options", "context")
_WHOLE: Mapping[str, Source] = {
    **dict.fromkeys(("inputs", "input"), "inputs"),
    **dict.fromkeys(EXPECTED, "expected"),
    "metadata": "metadata",
    "tags": "tags",
    "id": "id",
    **dict.fromkeys(CONTEXTS, "contexts"),
    **dict.fromkeys(("example", "item", "datapoint"), "row"),
    "hooks": "hooks",
    "attachments": "attachments",
}
_REFERENCE_OUTPUTS = ("outputs", "output")  # of a data set's row: the reference
_NO_DEFAULT = inspect.Parameter.empty


class RowView(dict[str, object]):
    """A whole row as tools pass it: by their names for its parts, as items and as attributes.

    `row["inputs"]`, `row.input`, `row["expected"]`, `row.reference_outputs`, `row["ground_truth"]`, `row.metadata`. Its
    `outputs` are the expected ones, as in LangSmith's examples.
    """

    def __init__(self, row: Row) -> None:
        super().__init__({"id": row.id, **copy.deepcopy(row.content)})
        whole: dict[str, object] = {"metadata": {}, "tags": [], "split": None, **self}
        for names, part in ((("inputs", "input"), "inputs"), ((*EXPECTED, *_REFERENCE_OUTPUTS), "expected")):
            whole.update(dict.fromkeys(names, whole.get(part)))
        whole.update(dict.fromkeys(CONTEXTS, whole.get("contexts")))
        inputs = whole["inputs"] if isinstance(whole["inputs"], Mapping) else {}
        self.__dict__["_whole"] = {**inputs, **whole}

    def __missing__(self, name: str) -> object:
        return self.__dict__["_whole"][name]

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__["_whole"]

    def __getattr__(self, name: str) -> object:
        try:
            return self.__dict__["_whole"][name]
        except KeyError:
            raise AttributeError(f"a row has no '{name}'; it has {', '.join(self)}") from None

    def get(self, name: str, default: object = None) -> object:
        """Return a part of the row by any of its names."""
        return self.__dict__["_whole"].get(name, default)


class Hooks:
    """Braintrust's second argument of a task: facts of the row; calls that record more have no effect here."""

    def __init__(self, row: Row, trial_index: int = 0) -> None:
        self.metadata: dict[str, object] = copy.deepcopy(dict(row.metadata))
        self.expected = copy.deepcopy(row.expected)
        self.tags = list(row.tags)
        self.parameters: dict[str, object] = {}
        self.trial_index = trial_index
        self.span = None

    def meta(self, **values: object) -> None:
        """Add metadata of the call."""
        self.metadata.update(values)

    def report_progress(self, event: object) -> None:
        """Accept a report of progress."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments that a target is called with."""

    positional: tuple[object, ...] = ()  # of parameters that cannot be named
    named: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A parameter and its source. key: of the inputs, if it is bound to one of them."""

    name: str
    source: Source
    key: str = ""
    is_positional: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class TargetBinding:
    """The source of each of a target's parameters."""

    parameters: tuple[_Parameter, ...] = ()
    takes_rest: bool = False  # **kwargs
    is_promptfoo: bool = False

    def arguments(self, row: Row, repeat: int = 0, parent: str = "") -> Arguments:
        """Return the target's arguments for a row; the values are copies, which it may change.

        parent: the call's traceparent, which promptfoo's functions get in their context.
        """
        if self.is_promptfoo:
            prompt, options, context = promptfoo_arguments(row, repeat, parent)
            return Arguments((prompt, options, context))
        named: dict[str, object] = {}
        positional: list[object] = []
        for each in self.parameters:
            if each.is_optional and each.source == "key" and each.key not in _keys(row):
                continue
            value = _value_of(each, row, repeat)
            if each.is_positional:
                positional.append(value)
            else:
                named[each.name] = value
        return Arguments(tuple(positional), {**self._rest(row, named), **named})

    def shown(self, row: Row) -> JsonValue:
        """Return a target's arguments as JSON: the value of a single argument, else values by name."""
        if self.is_promptfoo:
            return {"prompt": prompt_of(row), "vars": variables_of(row)}
        values = {
            each.name: row.content if each.source == "row" else _value_of(each, row, 0)
            for each in self.parameters
            if each.source not in ("hooks", "attachments")
            and not (each.is_optional and each.source == "key" and each.key not in _keys(row))
        }
        values |= self._rest(row, values)
        return next(iter(values.values())) if len(values) == 1 else values

    def text(self, row: Row) -> str:
        """Return a target's arguments as text: a text itself, else canonical JSON."""
        content = self.shown(row)
        return content if isinstance(content, str) else canonical_json(content)

    def _rest(self, row: Row, named: Mapping[str, object]) -> dict[str, object]:
        """Return the values for `**kwargs`."""
        if not self.takes_rest or any(each.source in ("inputs", "row", "only") for each in self.parameters):
            return {}
        if isinstance(row.inputs, Mapping):
            taken = {each.key for each in self.parameters if each.source == "key"}
            return {str(key): copy.deepcopy(each) for key, each in row.inputs.items() if key not in {*taken, *named}}
        return {} if self.parameters else {"input": row.inputs}


def bind_target(function: Callable[..., object], rows: Sequence[Row], name: str) -> TargetBinding:
    """Return the field of these rows that each parameter of a function is bound to.

    Raises: UsageError naming a parameter that nothing fits, and the available values.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise UsageError(f"the parameters of {name} cannot be read; expected a Python function") from None
    own = [each for each in signature.parameters.values() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    takes_rest = any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values())
    keys = _common_keys(rows)
    if tuple(each.name for each in own) == PROMPTFOO and not {"options", "context"} & keys.everywhere:
        return TargetBinding(is_promptfoo=True)
    strange = [each for each in own if each.name not in _WHOLE and each.name not in keys.anywhere]
    required = [each for each in strange if each.default is _NO_DEFAULT]
    by_keys = any(each.name in keys.anywhere and each.name not in _WHOLE for each in own)
    has_inputs = by_keys or any(_WHOLE.get(each.name) in ("inputs", "row") for each in own)
    only = required[0] if len(required) == 1 and not has_inputs else None
    bound = [
        _bound(each, _Choice(keys, by_keys, only), rows, name)
        for each in own
        if not (each in strange and each is not only and each.default is not _NO_DEFAULT)
    ]
    if not bound and not takes_rest:
        raise UsageError(
            f"{name} takes no argument, so every row would be the same call; expected a parameter, as `inputs`"
        )
    return TargetBinding(tuple(bound), takes_rest)


@dataclass(frozen=True, slots=True)
class _Keys:
    """The names of inputs: those that all rows have, and those that any row has."""

    everywhere: frozenset[str]
    anywhere: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Choice:
    """How a function's parameters are read. by_keys: some are inputs by name; only: the only one gets all inputs."""

    keys: _Keys
    by_keys: bool
    only: inspect.Parameter | None


def _common_keys(rows: Sequence[Row]) -> _Keys:
    each = [_keys(row) for row in rows]
    return _Keys(frozenset.intersection(*each), frozenset.union(*each)) if each else _Keys(frozenset(), frozenset())


def _keys(row: Row) -> frozenset[str]:
    return frozenset(map(str, row.inputs)) if isinstance(row.inputs, Mapping) else frozenset()


def _bound(parameter: inspect.Parameter, choice: _Choice, rows: Sequence[Row], name: str) -> _Parameter:
    own, is_positional = parameter.name, parameter.kind is parameter.POSITIONAL_ONLY
    is_optional = parameter.default is not _NO_DEFAULT
    if choice.only is parameter:
        return _Parameter(own, "only", is_positional=is_positional)
    if own in _WHOLE and own in choice.keys.anywhere and not choice.by_keys:
        whole = _WHOLE[own]
        raise UsageError(
            f"parameter '{own}' of {name} can be two things: the row's {whole}, and the input named '{own}'; rename it "
            f"to `{_other_name(own)}` for the row's {whole}, or take `**kwargs`, which gets the inputs by name"
        )
    if own in _WHOLE and not (choice.by_keys and own in choice.keys.anywhere):
        _check_whole(own, _WHOLE[own], rows, name, is_optional=is_optional)
        return _Parameter(own, _WHOLE[own], is_positional=is_positional)
    if own in choice.keys.everywhere or (own in choice.keys.anywhere and is_optional):
        return _Parameter(own, "key", own, is_positional=is_positional, is_optional=is_optional)
    if own in choice.keys.anywhere:
        lacking = next(row for row in rows if own not in _keys(row))
        raise UsageError(
            f"parameter '{own}' of {name}: row {lacking.id} has no input of that name; give the parameter "
            "a default, or the row a value"
        )
    inputs = ", ".join(sorted(choice.keys.anywhere)) or "a text"
    raise UsageError(
        f"parameter '{own}' of {name} fits nothing in the rows; expected `inputs` (or `input`), `expected`, "
        f"`metadata`, `contexts`, `item` (the whole row), or the name of an input ({inputs}), or give it a default"
    )


def _other_name(name: str) -> str:
    source = _WHOLE[name]
    return next((each for each, of in _WHOLE.items() if of == source and each != name), "item")


def _check_whole(name: str, source: Source, rows: Sequence[Row], target: str, *, is_optional: bool) -> None:
    """Raise UsageError if a parameter needs a part of the row that no row has."""
    if is_optional or source not in ("expected", "contexts"):
        return
    if all((row.expected if source == "expected" else row.contexts) is None for row in rows):
        raise UsageError(
            f"parameter '{name}' of {target}: no row has {source}; give it a default, or the rows a column"
        )


def _value_of(parameter: _Parameter, row: Row, repeat: int) -> object:
    if parameter.source == "key" and isinstance(row.inputs, Mapping):
        return copy.deepcopy(row.inputs[parameter.key])
    if parameter.source == "only" and row.input_column is not None and isinstance(row.inputs, Mapping):
        return copy.deepcopy(row.inputs[row.input_column])
    if parameter.source in ("inputs", "only"):
        return copy.deepcopy(row.inputs)
    if parameter.source == "row":
        return RowView(row)
    if parameter.source == "hooks":
        return Hooks(row, repeat)
    values: Mapping[str, object] = {
        "expected": row.expected,
        "metadata": dict(row.metadata),
        "tags": list(row.tags),
        "id": row.id,
        "contexts": None if row.contexts is None else list(row.contexts),
        "attachments": {},
    }
    return copy.deepcopy(values[parameter.source])


# ------------------------------------------------------------------------------------------- promptfoo, templates


def prompt_of(row: Row) -> str:
    """Return a row's inputs as one text: the text, that of `prompt` or of a single input, else canonical JSON."""
    inputs = row.inputs
    if isinstance(inputs, Mapping):
        for name in ("prompt", *(list(inputs) if len(inputs) == 1 else ())):
            if isinstance(inputs.get(name), str):
                return str(inputs[name])
    return inputs if isinstance(inputs, str) else canonical_json(inputs)


def variables_of(row: Row) -> dict[str, JsonValue]:
    """Return a row's inputs by name: promptfoo's `vars`."""
    return dict(row.inputs) if isinstance(row.inputs, Mapping) else {"input": row.inputs}


def promptfoo_arguments(row: Row, repeat: int, parent: str) -> tuple[str, dict[str, JsonValue], dict[str, JsonValue]]:
    """Return prompt, options and context of promptfoo's `call_api`."""
    variables = copy.deepcopy(variables_of(row))
    context = {
        "vars": variables,
        "test": {"vars": variables, "metadata": copy.deepcopy(dict(row.metadata))},
        "repeatIndex": repeat,
        "traceparent": parent,
    }
    return prompt_of(row), {"config": {}}, context


def names_in(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the names that a template may use: the inputs that all rows have, and the row's own parts."""
    yield from sorted(_common_keys(rows).everywhere)
    yield from ("input", "inputs", "prompt", "id")
