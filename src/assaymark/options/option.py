"""The declaration of one option, from which its keyword, flag, check, plan field and display follow.

Options are the annotated keys of a TypedDict, so that type checkers know the keywords of `evaluate`:

    class Options(TypedDict, total=False):
        too_long: Annotated[str, Option(help="Long prompts.", flags=("--too_long",), default="cut")]
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from assaymark.records import JsonValue, RunPlan

__all__ = ["Declared", "InPlan", "Option", "declared_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlan:
    """How an option decides a run's answers: its field in the plan, and how it is read from a stored plan.

    value: computes the field from all options, with their defaults filled in; None: it is set from `BindOptions`.
    read_back: returns the option's value that recreates a plan; None: the option is not read back.
    label: its name in comparisons; empty: they do not list it.
    compared: returns the value that comparisons compare; None: the field.
    in_files: whether the results files of other tools state it in our form.
    heading: returns name and text of a heading above the run's table; None: there is none.
    """

    field: str
    value: Callable[[Mapping[str, Any]], Any] | None = None
    read_back: Callable[[RunPlan], Any] | None = None
    label: str = ""
    compared: Callable[[RunPlan], JsonValue] | None = None
    in_files: bool = True
    heading: Callable[[RunPlan], tuple[str, str] | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a run.

    help: one line, for the command line and for readers of this code.
    flags: of the command line; none: for Python callers only.
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
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    default: Any = None
    choices: tuple[str, ...] = ()
    least: int | None = None
    expected: str = ""
    read: Callable[[Any], Any] | None = None
    check: Callable[[Any], None] | None = None
    is_shared: bool = True
    in_plan: InPlan | None = None
    read_back: Callable[[RunPlan], Any] | None = None

    @property
    def reads_back(self) -> Callable[[RunPlan], Any] | None:
        """The function that reads the option's value from a stored plan."""
        return self.read_back if self.in_plan is None else self.in_plan.read_back


@dataclass(frozen=True, slots=True)
class Declared:
    """An option with its name and the types its value may have; no types: any value."""

    name: str
    option: Option
    types: tuple[type, ...]

    @property
    def parameter(self) -> str:
        """The name of the command line's option without dashes, which is also the key in configuration files."""
        return next(flag for flag in self.option.flags if flag.startswith("--")).removeprefix("--")

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
    found: dict[str, Declared] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated and isinstance(hint.__metadata__[0], Option):
            found[name] = Declared(name, hint.__metadata__[0], tuple(_types(hint.__origin__)))
    return found


def _types(hint: Any) -> Sequence[type]:
    """Return the classes of a type hint for isinstance; none where it allows anything."""
    if hint is Any:
        return ()
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return [found for each in get_args(hint) if each is not type(None) for found in _types(each)]
    if hint is float:
        return (int, float)
    if origin is Sequence or hint is Sequence:
        return (list, tuple)  # a str is a Sequence too, but is never accepted as one here
    return (origin or hint,)
