"""What one option is: the declaration from which its keyword, flag, check, plan entry and display follow.

Options are the annotated keys of a TypedDict, so that type checkers know the keywords of `evaluate`:

    class Options(TypedDict, total=False):
        too_long: Annotated[str, Option(help="Long prompts.", flags=("--too_long",), default="cut")]
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from evalstone.records import JsonValue, RunPlan

__all__ = ["Declared", "InPlan", "Option", "declared_options"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InPlan:
    """How an option decides a run's answers: its field in the plan, and what a stored plan says of it.

    value: makes the field's value of all options, with their defaults filled in; None: the tasks are bound with it.
    read_back: the option's value that leads to this plan again; None: the option is not read back.
    label: under which comparisons list it; empty: they do not.
    compared: what comparisons compare; None: the field.
    in_files: whether the files of other tools state it in our form.
    heading: name and text of what stands above the run's table; None: nothing does.
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
    flags: of the command line; none: only Python callers have it.
    metavar: what stands for the value in the command's help; a truth value without one is a plain flag.
    default: taken where nothing is given, or None is.
    choices, least: the values that may be.
    expected: in words, for a value of another type.
    read: makes the value of the command line's text.
    check: raises UsageError (or PlanError) for a value that cannot be.
    is_shared: whether every command that prepares a run has it; else a command adds it itself.
    in_plan: where it decides answers; None: it is this machine's or the caller's business.
    read_back: as of `InPlan`, for an option that has no field of its own in the plan.
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
        """What finds the option's value in a stored plan."""
        return self.read_back if self.in_plan is None else self.in_plan.read_back


@dataclass(frozen=True, slots=True)
class Declared:
    """An option with its name and the types its value may have; no types: anything."""

    name: str
    option: Option
    types: tuple[type, ...]

    @property
    def parameter(self) -> str:
        """The name of the command line's option without its dashes, which is also that of a configuration's key."""
        return next(flag for flag in self.option.flags if flag.startswith("--")).removeprefix("--")

    @property
    def is_flag(self) -> bool:
        """Whether the command line's option takes no value."""
        return self.types == (bool,) and self.option.metavar is None

    @property
    def takes_several(self) -> bool:
        """Whether the command line's option may be given several times."""
        return self.types == (list, tuple)


@cache
def declared_options(kind: type) -> Mapping[str, Declared]:
    """Return the options that a TypedDict declares, by name, in the order of their declaration."""
    found: dict[str, Declared] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is Annotated and isinstance(hint.__metadata__[0], Option):
            found[name] = Declared(name, hint.__metadata__[0], tuple(_types(hint.__origin__)))
    return found


def _types(hint: Any) -> Sequence[type]:
    """Return the classes of a hint for isinstance; none where it allows anything."""
    if hint is Any:
        return ()
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return [found for each in get_args(hint) if each is not type(None) for found in _types(each)]
    if hint is float:
        return (int, float)
    if origin is Sequence or hint is Sequence:
        return (list, tuple)  # a text is a sequence too, and never meant as one here
    return (origin or hint,)
