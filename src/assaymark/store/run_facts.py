"""Facts and estimates of many runs for leaderboards, read from columns in two queries.

A plan is packed JSON, and unpacking it for each of a thousand runs takes longer than reading all their estimates. So
the facts that a leaderboard shows and filters by are columns of `run_facts`, written with the run and never changed.

Hidden runs, such as those of battles and held-out prompt sets, exist only for a store that was opened with a reason.

Every look-up of a run by its id or key uses `sees_hidden` or `shown_runs`, so that code that ignores hidden runs does
not find them.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, Select, select, true

from assaymark.errors import StoreError
from assaymark.records import RunPlan
from assaymark.store.connection import Database
from assaymark.store.leases import holder_of
from assaymark.store.packing import shown_text
from assaymark.store.rows import EstimateRow, RunEstimates, RunFacts
from assaymark.store.schema import estimates, run_facts, runs, with_checksum


def sees_hidden(connection: Connection) -> bool:
    """Return whether the connection is of a store that was opened with a reason to read hidden runs."""
    return bool(connection.get_execution_options().get("assaymark_sees_hidden", False))


def shown_runs(connection: Connection) -> ColumnElement[bool]:
    """Return the condition that a row of `runs` may be read: it is public, or the store was opened to read all."""
    return true() if sees_hidden(connection) else runs.c.visibility.is_(None)


MOST_NAMED = 10_000  # runs or tasks in one query: databases limit the number of its values

_OF_RUN = (
    *(runs.c.run_id, runs.c.status, runs.c.created_at, runs.c.updated_at),
    *(column for column in run_facts.columns if column.name not in {"run", "checksum"}),
)
_NAMES = tuple(column.name for column in _OF_RUN)
_OF_ESTIMATE = tuple(estimates.c[name] for name in EstimateRow._fields if name != "run_id")
_make_row = EstimateRow._make


def facts_row(run: int, plan: RunPlan) -> dict[str, object]:
    """Return the row of `run_facts` of a plan, with texts that both databases accept."""
    model, template = plan.model, plan.apply_chat_template
    settings = dict(plan.stored_settings)
    preset = settings.get("prompt_preset")
    row = {
        "run": run,
        "model": shown_text(model.name),
        "kind": shown_text(model.kind),
        "model_hash": _optional(model.content_hash),
        "revision": _optional(model.revision),
        "dtype": shown_text(model.dtype),
        "numerics": shown_text(model.numerics),
        "n_parameters": _integer(model.n_parameters),
        "max_length": _integer(model.max_length),
        "profile": shown_text(plan.profile),
        "seed": _integer(plan.seed),
        "sample_limit": None if plan.limit is None else float(plan.limit),
        "chat_template": None if template is False else "" if template is True else shown_text(template),
        "prompt_style": _optional(settings.get("prompting")),
        "prompt_preset": shown_text(str(preset["name"])) if isinstance(preset, Mapping) else None,
        "has_system_instruction": int(plan.system_instruction is not None),
        "audit": _optional(plan.audit),
        "n_tasks": len(plan.tasks),
        "n_samples": _integer(sum(task.n_samples for task in plan.tasks)) or 0,
    }
    return with_checksum(run_facts, row)


def _integer(value: float | None) -> int | None:
    """Return a number as a 64-bit integer; None if it is too large, as tokenizers without a limit report."""
    return int(value) if value is not None and abs(value) < 2**63 else None


def _optional(text: object) -> str | None:
    return None if text is None else shown_text(str(text))


def estimates_of_runs(
    database: Database, run_ids: Sequence[str] | None, tasks: Sequence[str] | None, *, primary_only: bool
) -> list[RunEstimates]:
    """Return runs with their estimates, the latest run first.

    Raises: StoreError for a run that does not exist.
    """
    for named in (run_ids, tasks):
        if named is not None and len(named) > MOST_NAMED:
            raise StoreError(f"a query names {len(named):,} runs or tasks; expected at most {MOST_NAMED:,}")
    with database.reading() as connection:
        facts = _facts(connection, run_ids)
        if run_ids is not None:
            _refuse_missing(run_ids, {fact.run_id for fact in facts.values()})
        cells: dict[int, list[EstimateRow]] = {number: [] for number in facts}
        wanted = None if run_ids is None else list(facts)
        none = wanted == [] or (tasks is not None and not tasks)  # pages ask for the runs alone, each time
        found = () if none else connection.execute(_estimates(wanted, tasks, primary_only=primary_only))
        for number, *values, higher, primary in found:
            if number in facts:  # not of an audit, nor of a hidden run
                cells[number].append(_make_row((facts[number].run_id, *values, higher == 1, primary == 1)))
    entries = [RunEstimates(run, tuple(cells[number])) for number, run in facts.items()]
    return sorted(entries, key=lambda entry: entry.run.updated_at, reverse=True)


def audit_states(database: Database, kind: str) -> list[tuple[str, str]]:
    """Return id and time of the last change of each audit of a kind, the earliest change first."""
    joined = runs.join(run_facts, run_facts.c.run == runs.c.id)
    statement = select(runs.c.run_id, runs.c.updated_at).select_from(joined).where(run_facts.c.audit == kind)
    with database.reading() as connection:
        rows = connection.execute(statement.where(shown_runs(connection)).order_by(runs.c.updated_at, runs.c.id)).all()
    return [(run_id, updated_at) for run_id, updated_at in rows]


def _facts(connection: Connection, run_ids: Sequence[str] | None) -> dict[int, RunFacts]:
    """Return the facts of runs by row id, the latest created first."""
    joined = runs.join(run_facts, run_facts.c.run == runs.c.id)
    chosen = run_facts.c.audit.is_(None) if run_ids is None else runs.c.run_id.in_(run_ids)
    statement = (
        select(runs.c.id, *_OF_RUN)
        .select_from(joined)
        .where(chosen & shown_runs(connection))
        .order_by(runs.c.id.desc())
    )
    by_number: dict[int, RunFacts] = {}
    for row in connection.execute(statement).all():
        values = dict(zip(_NAMES, row[1:], strict=True))
        values["has_system_instruction"] = bool(values["has_system_instruction"])
        if values["status"] == "running" and holder_of(connection, row[0]) is None:
            values["status"] = "interrupted"
        by_number[row[0]] = RunFacts(**values)
    return by_number


def _refuse_missing(run_ids: Sequence[str], existing: Collection[str]) -> None:
    for run_id in run_ids:
        if run_id not in existing:
            raise StoreError(f"run {run_id} is not in the store; it may have been removed by another process")


def _estimates(
    numbers: Sequence[int] | None, tasks: Sequence[str] | None, *, primary_only: bool
) -> "Select[int, *tuple[object, ...], int, int]":
    """Return the query for estimates of runs, or of all, in the order of the primary key, so that nothing is sorted.

    Runs are not joined, which takes as long as the reading.
    """
    statement = select(estimates.c.run, *_OF_ESTIMATE)
    if numbers is not None:
        statement = statement.where(estimates.c.run.in_(numbers))
    if tasks is not None:
        statement = statement.where(estimates.c.task.in_(tasks))
    if primary_only:
        statement = statement.where(estimates.c.is_primary == 1)
    return statement.order_by(estimates.c.run, estimates.c.position)
