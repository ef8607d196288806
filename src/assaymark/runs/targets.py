"""Kinds of targets that `evaluate` and `assaymark run` evaluate besides models, registered by features."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assaymark.errors import UsageError
from assaymark.records import JsonValue
from assaymark.registry import Registry

if TYPE_CHECKING:
    from assaymark.cli.output import OptionDecorator
    from assaymark.runs.run import Run
    from assaymark.store import RunRow


@dataclass(frozen=True, slots=True)
class TargetKind:
    """One kind of target.

    takes: whether a call of `evaluate` with this first argument and these keywords is one of this kind.
    evaluate: as `evaluate`: the target, the rows, keywords; returns the stored run.
    options: options that `assaymark run` has for it.
    plan: as `evaluate`, but returns a forecast of the requests.
    of_command: returns the target, its rows and keywords of `evaluate` from the command's parsed options, without those
        that every run has; None for the evaluation of a model.
    """

    takes: Callable[[object, Mapping[str, object]], bool]
    evaluate: Callable[..., "Run"]
    options: "tuple[OptionDecorator, ...]"
    of_command: Callable[[Mapping[str, object]], tuple[object, object, dict[str, object]] | None]
    plan: Callable[..., "TargetForecast"] | None = None


@dataclass(frozen=True, slots=True)
class TargetForecast:
    """The forecast of a target's evaluation. content: with stable names; lines: the same as text."""

    content: JsonValue
    lines: tuple[str, ...]


TARGETS: Registry[TargetKind] = Registry("targets", "kind of target")


def kind_of(target: object, keywords: Mapping[str, object]) -> TargetKind | None:
    """Return the kind of target of a call of `evaluate`; None for a model."""
    return next((kind for kind in _kinds() if kind.takes(target, keywords)), None)


def plan_target(target: object, rows: object, keywords: Mapping[str, object]) -> TargetForecast:
    """Forecast the requests of a target's evaluation; nothing is called or sent.

    Raises: UsageError for a kind of target whose work cannot be forecast; what its evaluation raises before a call.
    """
    kind = next((kind for kind in _kinds() if kind.plan is not None), None)
    if kind is None or kind.plan is None:
        raise UsageError("no kind of target that is installed can be planned")
    return kind.plan(target, rows, **keywords)


def target_of_command(parameters: Mapping[str, object]) -> tuple[object, object, dict[str, object]] | None:
    """Return the target that a command names, its rows and keywords; None where it names a model.

    Raises: UsageError for options that do not go together.
    """
    return next((named for kind in _kinds() if (named := kind.of_command(parameters)) is not None), None)


def refuse_target(row: "RunRow", what: str) -> None:
    """Raise UsageError for a run of a target, which can only be called by the command or the call that made it."""
    if row.plan.model.kind in TARGETS:
        raise UsageError(
            f"run {row.short_id} is of the application {row.model}, which cannot be {what}; run the same command again "
            "with what is to change: answers of the same source and version are not asked for twice"
        )


def target_options() -> "OptionDecorator":
    """Return the decorator that adds the options of every kind of target to a command."""
    from assaymark.cli.output import with_options

    return with_options(*(option for kind in reversed(list(_kinds())) for option in kind.options))


def _kinds() -> Iterator[TargetKind]:
    return (TARGETS.load(name) for name in TARGETS)
