"""The declaration of one option, from which its keyword, flag, check, plan field and display follow.

Options are the annotated keys of a TypedDict, so that type checkers know the keywords of `evaluate`:

    class Options(TypedDict, total=False):
        too_long: Annotated[str, Option(help="Long prompts.", default="cut")]

Options are checked before use: an unknown one is an error, never ignored silently.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from types import UnionType
from typing import Annotated, Union, cast, get_args, get_origin, get_type_hints

from assaymark.errors import UnknownName, UsageError
from assaymark.records import JsonValue, RunPlan
from assaymark.registry import nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlan:
    """How an option decides a run's answers: its field in the plan, and how it is read from a stored plan.

    value: computes the field from all options, with their defaults filled in; None: it is set from `BindOptions`.
    read_back: returns the option's value that recreates a plan; None: the field.
    label: its name in comparisons; empty: they do not list it.
    compared: returns the value that comparisons compare; None: the field.
    in_files: whether the results files of other tools state it in our form.
    heading: returns name and text of a heading above the run's table; None: there is none.
    """

    field: str
    value: Callable[[Mapping[str, object]], object] | None = None
    read_back: Callable[[RunPlan], object] | None = None
    label: str = ""
    compared: Callable[[RunPlan], JsonValue] | None = None
    in_files: bool = True
    heading: Callable[[RunPlan], tuple[str, str] | None] | None = None


def given(name: str) -> Callable[[Mapping[str, object]], object]:
    """Return the computation of a field from the option of its name: its value, or None for an empty one."""
    return lambda options: options[name] or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a run.

    help: one line, for the command line and for readers of this code.
    flags: of the command line; None: `--` and its name; none: for Python callers only.
    metavar: placeholder of the value in the command's help; a boolean without one is a plain flag.
    default: used where nothing, or None, is given.
    choices, least: the allowed values.
    expected: the expected value in words, for errors about another type.
    read: converts the command line's text to the value.
    check: raises UsageError (or PlanError) for an invalid value.
    is_shared: whether every command that prepares a run has it; else each command adds it itself.
    in_plan: set where it decides answers; None: it concerns only this machine or the caller.
    read_back: as in `InPlan`, for an option that has no field of its own in the plan.
    """

    help: str
    flags: tuple[str, ...] | None = None
    metavar: str | None = None
    default: object = None
    choices: tuple[str, ...] = ()
    least: int | None = None
    expected: str = ""
    read: Callable[[str], object] | None = None
    check: Callable[[object], None] | None = None
    is_shared: bool = True
    in_plan: InPlan | None = None
    read_back: Callable[[RunPlan], object] | None = None

    @property
    def reads_back(self) -> Callable[[RunPlan], object] | None:
        """The function that reads the option's value from a stored plan."""
        return self.read_back if self.in_plan is None else self.in_plan.read_back or attrgetter(self.in_plan.field)


@dataclass(frozen=True, slots=True)
class Declared:
    """An option with its name and the types its value may have; no types: any value."""

    name: str
    option: Option
    types: tuple[type, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of the command line; none for Python callers only."""
        return (f"--{self.name}",) if self.option.flags is None else self.option.flags

    @property
    def parameter(self) -> str:
        """The name of the command line's option without dashes, which is also the key in configuration files."""
        return next(flag for flag in self.flags if flag.startswith("--")).removeprefix("--")

    @property
    def is_flag(self) -> bool:
        """Whether the command line's option takes no value."""
        return self.types == (bool,) and self.option.metavar is None

    @property
    def takes_several(self) -> bool:
        """Whether the command line's option may be repeated."""
        return self.types == (list, tuple)


@cache
def declared_options(kind: type) -> Mapping[str, Declared]:
    """Return the options that a TypedDict declares, by name, in declaration order."""
    declared: dict[str, Declared] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated and isinstance(hint.__metadata__[0], Option):
            declared[name] = Declared(name, hint.__metadata__[0], tuple(_types(hint.__origin__)))
    return declared


def _types(hint: object) -> Sequence[type]:
    """Return the classes of a type hint for isinstance."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return [accepted for each in get_args(hint) if each is not type(None) for accepted in _types(each)]
    if hint is float:
        return (int, float)
    if origin is Sequence or hint is Sequence:
        return (list, tuple)  # a str is a Sequence too, but is never accepted as one here
    return (cast("type", origin or hint),)


_WORDS: Mapping[type, str] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Mapping: "a mapping",
    list: "a list",
}


def check_options(kind: type, options: Mapping[str, object]) -> None:
    """Validate the given options against the declarations of `kind`, a TypedDict.

    Raises: UnknownName for an unknown option, UsageError for a value of a wrong type or an invalid one, and what an
        option's own check raises.
    """
    declared = declared_options(kind)
    for name, value in options.items():
        if name not in declared:
            raise UnknownName("option of evaluate", name, nearest(name, declared))
        if value is not None:
            _check(declared[name], value)


def with_defaults(kind: type, options: Mapping[str, object]) -> dict[str, object]:
    """Return a value for each option that `kind`, a TypedDict, declares: the given one, or its default."""
    return {
        name: declared.option.default if options.get(name) is None else options[name]
        for name, declared in declared_options(kind).items()
    }


def _check(declared: Declared, value: object) -> None:
    option, types = declared.option, declared.types
    if not isinstance(value, types) or (isinstance(value, bool) and not {bool, object} & set(types)):
        words = option.expected or _words(types)
        raise UsageError(f"{declared.name} is {value!r:.80}, of type {type(value).__name__}; expected {words}")
    if option.choices and value not in option.choices:
        raise UsageError(f"{declared.name} is '{value}'; expected one of {', '.join(option.choices)}")
    if option.least is not None and isinstance(value, int | float) and value < option.least:
        raise UsageError(f"{declared.name} is {value}; expected {option.least} or more")
    if option.check is not None:
        option.check(value)


def _words(types: tuple[type, ...]) -> str:
    """Return the expected types in words: `a number` for (int, float)."""
    names = [_WORDS.get(kind, f"a {kind.__name__}") for kind in types]
    return "a number" if float in types else " or ".join(dict.fromkeys(names))


def check_limit(value: float) -> None:
    """Raise UsageError for a limit that is neither a number of samples nor a share of them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or value <= 0 or (value > 1 and value != int(value)):
        raise UsageError(f"limit is {value!r:.40}; expected a whole number of samples from 1, or a fraction below 1")
    if value > sys.maxsize:
        raise UsageError(f"limit is {value:g}; expected at most {sys.maxsize}, or no limit")


def check_cost(value: float) -> None:
    """Raise UsageError for a limit on the cost that is not an amount of money."""
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"max_cost is {value:g}; expected an amount of money from 0")


def check_gen_kwargs(value: Mapping[str, object]) -> None:
    """Raise UsageError for generation settings that are unknown or invalid."""
    from assaymark.tasks.generation import check_gen_kwargs

    check_gen_kwargs(value)
