"""Lists of runs, and the run that a user names."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice, takewhile

from sqlalchemy import Connection, func, select

from assaymark.errors import UnknownName, UsageError, few
from assaymark.store.connection import Database
from assaymark.store.leases import holder_of
from assaymark.store.packing import pack_hash, unpack_json, unpack_optional, unpack_text
from assaymark.store.plan_json import plan_from_json
from assaymark.store.rows import DAMAGED, AttemptRow, RunRow, RunWriter, StoredProgress
from assaymark.store.run_facts import shown_runs
from assaymark.store.runs import counts_of, run_number, sealed_counts
from assaymark.store.schema import StoredRow, as_saved, is_as_saved, outputs, requests, run_tasks
from assaymark.store.schema import attempts as attempt_table
from assaymark.store.schema import runs as run_table

SHORTEST_SHOWN = 8
MOST_OF_MODEL = 10  # runs that a message lists
_LAST = re.compile(r"last(?:~(\d+))?")


def runs(database: Database, words: Sequence[str] = (), *, audits: bool = False) -> list[RunRow]:
    """Return the runs (or the audits) that match every word, the latest first."""
    with database.reading() as connection:
        run_rows = [_run_row(connection, row, short) for row, short in _with_short_ids(connection)]
    wanted = [word.lower() for word in words]
    of_kind = [run for run in run_rows if (run.plan.audit is not None) == audits]
    return [run for run in of_kind if all(word in _search_text(run) for word in wanted)]


def run(database: Database, name: str) -> RunRow:
    """Return the run or audit with this name; `last` is the latest run with an answer, if any has one.

    A model's name stands for its run if it has only one.

    Raises: UnknownName.
    """
    with database.reading() as connection:
        listed = _with_short_ids(connection)
        if match := _LAST.fullmatch(name):  # a run that was refused, or whose requests all failed, is not meant
            listed = [item for item in listed if plan_from_json(unpack_text(item[0].plan)).audit is None]
            n_wanted = 1 + int(match[1] or 0)
            listed = list(islice((item for item in listed if _has_answers(connection, item[0])), n_wanted)) or listed
        row, short = _find(listed, name)
        return _run_row(connection, row, short)


def attempts(database: Database, run_id: str) -> list[AttemptRow]:
    """Return the run's attempts, the earliest first."""
    with database.reading() as connection:
        number = run_number(connection, run_id)
        of_run = select(attempt_table).where(attempt_table.c.run == number).order_by(attempt_table.c.number)
        holder = holder_of(connection, number)
        rows = as_saved(attempt_table, connection.execute(of_run))
        return [_attempt_row(run_id, row, holder) for row in rows]


def writer(database: Database, key: str) -> RunWriter | None:
    """Return the process that is writing the run with this key; None if there is none, or no such run."""
    with database.reading() as connection:
        number = _number_of_key(connection, key)
        return None if number is None else holder_of(connection, number)


def progress(database: Database, key: str) -> StoredProgress:
    """Return how much of the run with this key is stored."""
    with database.reading() as connection:
        number = _number_of_key(connection, key)
        joined = requests.join(run_tasks, run_tasks.c.id == requests.c.run_task)
        mine = run_tasks.c.run == number
        n_expected = select(func.coalesce(func.sum(requests.c.n_outputs), 0)).select_from(joined).where(mine)
        n_outputs = select(func.count()).select_from(joined.join(outputs, outputs.c.request == requests.c.id))
        return StoredProgress(
            int(connection.execute(n_outputs.where(mine)).scalar_one()),
            int(connection.execute(n_expected).scalar_one()),
        )


def _number_of_key(connection: Connection, key: str) -> int | None:
    this = select(run_table.c.id).where(run_table.c.key == pack_hash(key), shown_runs(connection))
    number: int | None = connection.execute(this).scalar()
    return number


def _find(listed: Sequence[tuple[StoredRow, str]], name: str) -> tuple[StoredRow, str]:
    if match := _LAST.fullmatch(name):
        back = int(match[1] or 0)
        if back < len(listed):
            return listed[back]
        raise UnknownName("run", name, remedy=f"runs in the store: {len(listed)}; see `assaymark ls runs`")
    exact = [item for item in listed if item[0].run_id == name]
    matching = exact or [item for item in listed if name and item[0].run_id.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        candidates = [short for _, short in matching[:5]]
        raise UnknownName("run", name, candidates, f"{len(matching)} runs begin with it; give more digits")
    if of_model := _of_model(listed, name):
        return _only(of_model, name)
    near = get_close_matches(name, [row.run_id[: max(len(name), 4)] for row, _ in listed], n=3, cutoff=0.5)
    shorts = [short for row, short in listed if any(row.run_id.startswith(beginning) for beginning in near)][:3]
    raise UnknownName("run", name, shorts, "see `assaymark ls runs`")


def _of_model(listed: Sequence[tuple[StoredRow, str]], name: str) -> list[tuple[StoredRow, str]]:
    """Return the runs, not the audits, of the model with this name: whole, without its folder, or with an ellipsis.

    A name with an ellipsis, as narrow tables show it, stands for the only model that it fits.
    """
    models = [(item, plan.model.name.rstrip("/")) for item in listed
              if (plan := plan_from_json(unpack_text(item[0].plan))).audit is None]  # fmt: skip
    wanted = name.rstrip("/")
    matches = [item for item, model in models if wanted and f"/{model}".endswith(f"/{wanted}")]
    start, ellipsis, end = wanted.replace("...", "…").partition("…")
    if matches or not ellipsis or not start + end:
        return matches
    fitting = [(item, model) for item, model in models if _fits(model, start, end)]
    names = sorted({model for _, model in fitting})
    if len(names) > 1:
        raise UnknownName("run", name, names[:5], f"{len(names)} models fit; give more of the name")
    return [item for item, _ in fitting]


def _fits(model: str, start: str, end: str) -> bool:
    return any(
        len(name) >= len(start) + len(end) and name.startswith(start) and name.endswith(end)
        for name in (model, model.rpartition("/")[2])
    )


def _only(of_model: Sequence[tuple[StoredRow, str]], name: str) -> tuple[StoredRow, str]:
    if len(of_model) > 1:
        lines = []
        for row, short in of_model[:MOST_OF_MODEL]:
            tasks = few([task.name for task in plan_from_json(unpack_text(row.plan)).tasks], 3)
            when = str(row.updated_at)[:16].replace("T", " ")
            lines.append(f"\n  {short}  {tasks}  {row.status}  {when} UTC")
        more = f"\n  and {len(of_model) - MOST_OF_MODEL} more" if len(of_model) > MOST_OF_MODEL else ""
        raise UsageError(f"{len(of_model)} runs are of model {name}; name one by its id:{''.join(lines)}{more}")
    return of_model[0]


def _has_answers(connection: Connection, row: StoredRow) -> bool:
    """Return whether not all of a run's requests failed; an imported run that is closed may have results alone."""
    if row.seal is not None:
        counts = sealed_counts(row.seal)
        return not 0 < counts["n_outputs"] == counts["n_failed"]
    requested = outputs.join(requests, requests.c.id == outputs.c.request)
    joined = requested.join(run_tasks, run_tasks.c.id == requests.c.run_task)
    answered = select(outputs.c.request).select_from(joined).where(run_tasks.c.run == row.id, outputs.c.error.is_(None))
    return connection.execute(answered.limit(1)).first() is not None


def _with_short_ids(connection: Connection) -> list[tuple[StoredRow, str]]:
    """Return every run, the latest first, with the shortest unique beginning of its id."""
    rows = connection.execute(select(run_table).where(shown_runs(connection))).all()
    ids = sorted(row.run_id for row in rows)
    shorts = {}
    for i, run_id in enumerate(ids):
        neighbours = [*ids[max(0, i - 1) : i], *ids[i + 1 : i + 2]]
        shared = max((_n_shared(run_id, other) for other in neighbours), default=0)
        shorts[run_id] = run_id[: max(SHORTEST_SHOWN, shared + 1)]
    latest_first = sorted(rows, key=lambda row: (row.updated_at, row.id), reverse=True)
    return [(row, shorts[row.run_id]) for row in latest_first]


def _n_shared(text: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))


def _run_row(connection: Connection, row: StoredRow, short: str) -> RunRow:
    plan = plan_from_json(unpack_text(row.plan))
    is_sound = is_as_saved(run_table, row)
    counts = sealed_counts(row.seal) if is_sound and row.seal is not None else counts_of(connection, row.id)
    of_run = attempt_table.c.run == row.id
    n_attempts = connection.execute(select(func.count()).where(of_run)).scalar_one()
    last = connection.execute(
        select(attempt_table).where(of_run).order_by(attempt_table.c.number.desc()).limit(1)
    ).one_or_none()
    status = row.status if is_sound else DAMAGED
    if status == "running" and holder_of(connection, row.id) is None:
        status = "interrupted"
    return RunRow(
        run_id=row.run_id,
        short_id=short,
        plan=plan,
        status=status,
        created_at=row.created_at,
        updated_at=row.updated_at,
        n_attempts=n_attempts,
        n_samples=_n_samples(connection, row.id) if row.seal is None else sum(task.n_samples for task in plan.tasks),
        command=None if last is None else unpack_optional(last.command),
        summary=unpack_json(row.summary) or {},
        extra={} if row.extra is None else unpack_json(row.extra),
        **counts,
    )


def _n_samples(connection: Connection, number: int) -> int:
    """Return the number of samples with requests; later turns of a conversation are requests of the same sample."""
    joined = requests.join(run_tasks, run_tasks.c.id == requests.c.run_task)
    first_turns = select(func.count()).select_from(joined).where(run_tasks.c.run == number, requests.c.turn == 0)
    return int(connection.execute(first_turns).scalar_one())


def _attempt_row(run_id: str, row: StoredRow, holder: RunWriter | None) -> AttemptRow:
    status = row.status
    if status == "running" and (holder is None or holder.attempt_id != row.number):
        status = "interrupted"
    return AttemptRow(
        run_id=run_id,
        attempt_id=row.number,
        status=status,
        started_at=row.started_at,
        ended_at=row.ended_at,
        host=row.host,
        process_id=row.process_id,
        command=unpack_optional(row.command),
        facts=unpack_json(row.facts) or {},
        summary=unpack_json(row.summary) or {},
    )


def _search_text(run: RunRow) -> str:
    return " ".join([run.run_id, run.model, run.status, run.plan.profile, *run.tasks]).lower()
