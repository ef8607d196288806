"""Audits stored like runs: answers as they arrive, results part by part.

The plan of an audit is that of a run plus the audit's settings. So the same audit is the same entry of the store: the
same command after a kill requests only what is missing, and after completion it requests nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from types import UnionType
from typing import Final, Protocol, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from assaymark.errors import StoreError, UsageError
from assaymark.models.model import Model
from assaymark.records import AUDIT, AuditPlan, JsonValue, Output, Request, RollingQuery, RunPlan, content_hash
from assaymark.records.json_values import json_of
from assaymark.runs.attempt import Attempt
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import RunOpener
from assaymark.runs.plan import PreparedRun
from assaymark.runs.prepare import prepare_run
from assaymark.runs.reproduce import stored_call
from assaymark.runs.run import Run
from assaymark.settings import environment
from assaymark.store import OpenRun, RunRow

AUDIT_VERSION = 1  # raise it when the same plan would send other requests
PARTS: Final = "parts"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """A stored run's model and tasks for further requests; tasks and options are those of `evaluate`."""

    model: Model
    prepared: PreparedRun
    tasks: list[str]
    options: EvaluateOptions


def ask_again(run: Run, tasks: Sequence[str], options: EvaluateOptions, model: object, in_python: str) -> AskedAgain:
    """Return a stored run's own model and tasks.

    Args:
        tasks: those to use, which the run must have.
        options: those that are not part of a plan.
        model: the run's model, loaded; None: its kind, to be loaded with the stored arguments.
        in_python: the call that takes a loaded model, for messages.

    Raises: UsageError for an imported run, one of an application, one without results, or another model than the run's;
        UnknownName for a task that it does not have.
    """
    run.check_tasks(tasks)
    answering, selected, call = stored_call(run, (), options, "asked again by its stored plan", model)
    opened, prepared = prepare_run(answering, selected, call)
    if opened.identity != run.row.plan.model:
        raise UsageError(
            f"the model is {opened.identity.name}, and run {run.short_id} was made by {run.row.plan.model.name} or by "
            f"other weights or arguments of that name; give the run's own model in Python: "
            f"{in_python}(run, model=MODEL)"
        )
    return AskedAgain(opened, prepared, selected, call)


class Keep(Protocol):
    """Returns a part of an audit's results from the store, or computes and stores it."""

    def __call__(self, name: str, kind: object, make: Callable[[], T]) -> T:
        """Return the part of that name, which is of the type `kind`."""
        ...


def compute_only(name: str, kind: object, make: Callable[[], T]) -> T:  # noqa: ARG001 - it stores nothing
    """Compute a part's result without storing it."""
    return make()


def audit_plan(plan: RunPlan, kind: str, settings: Mapping[str, JsonValue]) -> RunPlan:
    """Return the plan of an audit of the model and tasks of `plan`."""
    return replace(plan, audit_settings=AuditPlan(kind, AUDIT_VERSION, settings))


class StoredAudit:
    """One audit of one model, in progress or complete."""

    def __init__(self, attempt: Attempt, opened: OpenRun) -> None:
        self._attempt = attempt
        self._store, self.run_id = attempt.store, opened.run_id
        self.is_complete = opened.is_complete
        self._parts = _parts_of(self._store.run(self.run_id))

    def answer(self, requests: Sequence[Request]) -> Iterable[Output]:
        """Return the answers to requests: the stored ones, and the others after requesting and storing them."""
        real = {request.id: request for request in requests}
        pending = self._attempt.unanswered([_as_stored(request) for request in requests])
        for _ in self._attempt.answer(
            [_with_queries(real[request.id], {query.index for query in request.queries}) for request in pending]
        ):
            pass  # stored, and read below with those of earlier attempts
        by_request = self._store.outputs_of(self.run_id, list(real))
        return [output for outputs in by_request.values() for output in outputs]

    def has(self, name: str) -> bool:
        """Return whether a part's result is stored."""
        return name in self._parts

    def part(self, name: str, kind: object, make: Callable[[], T]) -> T:
        """Return a part's stored result, or compute it, and store it unless a failed request could be retried."""
        if name in self._parts:
            return cast("T", restored(kind, self._parts[name]))
        n_to_retry = self._attempt.n_to_retry
        made = make()
        if self._attempt.n_to_retry == n_to_retry:
            self._parts[name] = json_of(made)
            self._store.save_estimates(self.run_id, (), {AUDIT: {PARTS: self._parts}})
        return made


@contextmanager
def stored_audit(opener: RunOpener, model: Model, command: str | None = None) -> Iterator[StoredAudit]:
    """Open an audit by its plan (see `audit_plan`), and close it at the end as a run's attempt is closed.

    Raises: StoreError if the store cannot be written. Other errors are raised after storing the answers so far.
    """
    store = opener.store
    opened = opener.open(facts=environment(), command=command)
    attempt = Attempt(store, model, opened)
    if opened.is_complete:
        yield StoredAudit(attempt, opened)
        store.close_run(opened.run_id, opened.attempt_id, "finished")
        return
    with attempt:
        yield StoredAudit(attempt, opened)


def stored_parts(row: RunRow, kind: type[T]) -> list[T]:
    """Return the stored results of an audit so far, each of the type `kind`."""
    return [cast("T", restored(kind, part)) for part in _parts_of(row).values()]


def _parts_of(row: RunRow) -> dict[str, JsonValue]:
    results = row.extra.get(AUDIT)
    return {} if results is None else dict(results[PARTS])


def _with_queries(request: Request, wanted: set[int]) -> Request:
    return replace(request, queries=tuple(query for query in request.queries if query.index in wanted))


def _as_stored(request: Request) -> Request:
    """Return the request as it is stored: texts of rolling queries are replaced by their hash.

    The order test has many shuffles of a whole data set; rows and seed reproduce the texts.
    """
    queries = tuple(
        replace(query, text=content_hash(query.text)) if isinstance(query, RollingQuery) else query
        for query in request.queries
    )
    return replace(request, queries=queries)


def restored(kind: object, value: JsonValue) -> object:
    """Return a result of the type `kind` from its JSON values: the inverse of `json_of` for dataclasses and tuples."""
    if value is None:
        return None
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        return restored(next(argument for argument in arguments if argument is not type(None)), value)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _unfit(kind, value)
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(restored(each, inner) for each, inner in zip(kinds, value, strict=True))
    if is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, Mapping):
            raise _unfit(kind, value)
        hints = get_type_hints(kind)
        return kind(**{name: restored(hints[name], inner) for name, inner in value.items()})
    return value


def _unfit(kind: object, value: JsonValue) -> StoreError:
    return StoreError(f"a stored result of an audit is {value!r}; expected {kind}: `assaymark verify` checks the store")
