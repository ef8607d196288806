"""Facts of samples for lists and pages, derived from a sample's request, outputs and score.

They are derived from stored rows alone, so they can be derived again at any time. `fill` stores them for a run that
nobody is writing, in short transactions, and continues where an earlier call was killed. A row of `fact_sets` marks the
facts of a task as current; every write to the run removes it (`runs.break_seal`), and readers then derive the facts
themselves.

The score that decides whether a sample is right is that of the task's primary metric in the run's estimates. For a run
without estimates (it was never summarised) `correct` is None.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, Integer, and_, bindparam, case, func, select, tuple_

from assaymark.errors import HashMismatch, clipped
from assaymark.records import IN_REASONING, JsonValue, ScoreStatus
from assaymark.store import leases
from assaymark.store.connection import Database
from assaymark.store.packing import shown_text, unpack_hash, unpack_json
from assaymark.store.request_rows import text_ids
from assaymark.store.request_texts import chunks, join_request, load_texts
from assaymark.store.rows import SampleFacts
from assaymark.store.run_facts import shown_runs
from assaymark.store.runs import run_number
from assaymark.store.schema import (
    StoredRow,
    as_saved,
    estimates,
    fact_sets,
    insert_rows,
    outputs,
    requests,
    run_facts,
    run_tasks,
    runs,
    sample_facts,
    scores,
    scorings,
    upsert,
    with_checksum,
)

AT_ONCE = 1000  # requests whose facts are derived and stored in one transaction: a few tenths of a second
SNIPPET_LENGTH = 200  # characters
CATEGORY_LENGTH = 120
BEFORE_FIRST = (-1, -1)  # sample index and turn before the first request

QUESTION_FIELDS = (
    *("question", "problem", "query", "goal", "sentence", "prompt", "instruction", "input", "ctx", "premise"),
    *("sentence1", "text", "page", "passage", "story", "turns"),
)
"""Fields in which rows of benchmarks have the question, the most specific first."""
CATEGORY_FIELDS = ("category", "subject", "subcategory", "subfield", "topic", "domain", "type", "task_type")

FACT_COLUMNS = tuple(column for column in sample_facts.columns if column.name not in {"run_task", "checksum"})

_score = (scores.c.value, scores.c.status, scores.c.detail)
_after = tuple_(requests.c.sample_index, requests.c.turn) > tuple_(
    bindparam("index", type_=Integer), bindparam("turn", type_=Integer)
)
_scored_requests = (
    select(requests, *(column.label(f"score_{column.name}") for column in _score))
    .select_from(
        requests.outerjoin(scores, and_(scores.c.request == requests.c.id, scores.c.scoring == bindparam("scoring")))
    )
    .where(requests.c.run_task == bindparam("run_task"), _after)
    .order_by(requests.c.sample_index, requests.c.turn)
    .limit(bindparam("n", type_=Integer))
)
_ended = (
    select(
        outputs.c.request,
        func.max(outputs.c.n_cut_tokens),
        func.sum(case((outputs.c.finish_reason.in_(("length", IN_REASONING)), 1), else_=0)),
        func.count(outputs.c.error),
    )
    .where(outputs.c.request.in_(bindparam("ids", expanding=True)))
    .group_by(outputs.c.request)
)


class FactTask(NamedTuple):
    """A task of a run with the score that decides whether its samples are right."""

    id: int  # row id of the run's task
    name: str
    metric: str | None = None
    filter: str | None = None
    is_share: bool = False  # whether the score is the share of a sample that is right
    scoring: int = -1  # row id of the current scoring of that metric and filter


@dataclass(frozen=True, slots=True)
class _Ends:
    """Truncation, token limits and failures of a request's outputs."""

    n_truncated_tokens: int = 0
    n_at_limit: int = 0
    n_failed: int = 0


def fact_tasks(connection: Connection, run: int) -> list[FactTask]:
    """Return the tasks of a run, in the plan's order, with the deciding score by the run's estimates."""
    primary = and_(estimates.c.run == run, estimates.c.kind == "task", estimates.c.is_primary == 1)
    chosen = {row.task: row for row in as_saved(estimates, connection.execute(select(estimates).where(primary)))}
    of_run = select(run_tasks.c.id, run_tasks.c.name).where(run_tasks.c.run == run).order_by(run_tasks.c.position)
    current = _current_scorings(connection, run)
    tasks = []
    for number, name in connection.execute(of_run):
        row = chosen.get(name)
        scoring = None if row is None else current.get((number, row.filter, row.metric))
        if row is None or scoring is None:
            tasks.append(FactTask(number, name))
        else:
            is_share = row.unit == "proportion" and bool(row.higher_is_better)
            tasks.append(FactTask(number, name, row.metric, row.filter, is_share, scoring))
    return tasks


def _current_scorings(connection: Connection, run: int) -> dict[tuple[int, str, str], int]:
    """Return the latest scoring of each task, filter and metric of a run."""
    of_run = (
        select(scorings.c.run_task, scorings.c.filter, scorings.c.metric, scorings.c.id)
        .join(run_tasks, run_tasks.c.id == scorings.c.run_task)
        .where(run_tasks.c.run == run)
        .order_by(scorings.c.sequence)
    )
    return {(row[0], row[1], row[2]): row[3] for row in connection.execute(of_run)}


# ------------------------------------------------------------------------------------------ deriving


def derive(
    connection: Connection, task: FactTask, after: tuple[int, int] = BEFORE_FIRST, limit: int | None = None
) -> Iterator[SampleFacts]:
    """Yield the facts of a task's requests after a sample index and turn, in that order.

    Raises: HashMismatch if a text that they are derived from cannot be read.
    """
    n_left = limit
    while n_left is None or n_left > 0:
        n = AT_ONCE if n_left is None else min(AT_ONCE, n_left)
        values = {"run_task": task.id, "scoring": task.scoring, "index": after[0], "turn": after[1], "n": n}
        rows = connection.execute(_scored_requests, values).all()
        yield from _facts_of(connection, task, rows)
        if len(rows) < n:
            return
        after = (rows[-1].sample_index, rows[-1].turn)
        n_left = None if n_left is None else n_left - n


def _facts_of(connection: Connection, task: FactTask, rows: Sequence[StoredRow]) -> Iterator[SampleFacts]:
    ends: dict[int, _Ends] = {}
    for some in chunks([row.id for row in rows]):
        for request, n_truncated, n_at_limit, n_failed in connection.execute(_ended, {"ids": some}):
            ends[request] = _Ends(n_truncated, int(n_at_limit), n_failed)
    wanted = {row.form for row in rows} | {row.sample_row for row in rows if row.sample_row is not None}
    texts = load_texts(connection, wanted)
    shots = {number: _shots_of(texts[number]) for number in {row.form for row in rows}}
    for row in rows:
        content = {} if row.sample_row is None else _parsed(texts[row.sample_row], "the row of a sample")
        question = question_of(content) if row.turn == 0 else None
        if question is None:
            question = end_of_prompt(connection, task.name, row)
        yield _facts(task, row, ends.get(row.id), shots[row.form], category_of(content), snippet_of(question))


def _facts(
    task: FactTask, row: StoredRow, ends: _Ends | None, shots: tuple[int, int], category: str | None, snippet: str
) -> SampleFacts:
    status = row.score_status
    if status is None and ends is not None and ends.n_failed:
        status = ScoreStatus.FAILED.value
    correct = _correct(task, row)
    return SampleFacts(
        task=task.name,
        metric=task.metric,
        filter=task.filter,
        sample_index=row.sample_index,
        turn=row.turn,
        status=status,
        score=row.score_value,
        correct=correct,
        is_wrong=status in {"failed", "unparsed"} or (correct is not None and correct < 0.5),
        category=category,
        n_shots=shots[0],
        n_leaked_shots=shots[1],
        n_truncated_tokens=0 if ends is None else ends.n_truncated_tokens,
        n_at_limit=0 if ends is None else ends.n_at_limit,
        snippet=snippet,
    )


def _correct(task: FactTask, row: StoredRow) -> float | None:
    """Return the share of a sample that is right; tied best choices share the credit, as in estimates."""
    if not task.is_share or row.score_status not in {"scored", "unparsed"}:
        return None
    detail = unpack_json(row.score_detail)
    value = detail.get("credit", row.score_value) if isinstance(detail, dict) else row.score_value
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else None


def _shots_of(form: str) -> tuple[int, int]:
    """Return how many shots the request of a stored form has, and how many of them are the sample itself."""
    content = _parsed(form, "the form of a request")
    n_shots, n_leaked = content.get("n_shots"), content.get("n_leaked_shots")
    if not isinstance(n_shots, int) or not isinstance(n_leaked, int):
        raise HashMismatch("the form of a request does not state its shots; run `assaymark verify`")
    return n_shots, n_leaked


def _parsed(text: str, what: str) -> Mapping[str, JsonValue]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HashMismatch(f"{what} cannot be read: {error}; run `assaymark verify`") from error
    if not isinstance(content, dict):
        raise HashMismatch(f"{what} is a {type(content).__name__}; expected a mapping: run `assaymark verify`")
    return content


def question_of(row: Mapping[str, object]) -> str | None:
    """Return the question of a sample's row: one of QUESTION_FIELDS, or an application's inputs; else None."""
    for name in QUESTION_FIELDS:
        value = row.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, str) and value.strip():
            return value
    inputs = row.get("inputs")
    if isinstance(inputs, Mapping):
        return question_of(inputs) or json.dumps(inputs, ensure_ascii=False)
    return inputs if isinstance(inputs, str) and inputs.strip() else None


def category_of(row: Mapping[str, object]) -> str | None:
    """Return the category or subject in a sample's row or its metadata, None if none of CATEGORY_FIELDS is there."""
    name = category_field(row)
    return None if name is None else _one_line(str(_with_metadata(row)[name]), CATEGORY_LENGTH)


def category_field(row: Mapping[str, object]) -> str | None:
    """Return the one of CATEGORY_FIELDS from which the category of a row is; None without one."""
    own = _with_metadata(row)
    return next((name for name in CATEGORY_FIELDS if isinstance(own.get(name), str) and str(own[name]).strip()), None)


def _with_metadata(row: Mapping[str, object]) -> Mapping[str, object]:
    metadata = row.get("metadata")
    return {**metadata, **row} if isinstance(metadata, Mapping) else row


def snippet_of(text: str) -> str:
    """Return the beginning of a text in one line."""
    return _one_line(text, SNIPPET_LENGTH)


def _one_line(text: str, length: int) -> str:
    return clipped(shown_text(" ".join(text[: 4 * length].split())), length)


def end_of_prompt(connection: Connection, task: str, row: StoredRow) -> str:
    """Return the sample's own part of a prompt: the last message of the user, or the text after the shots."""
    numbers = text_ids(row.pieces, row.form)
    texts = load_texts(connection, numbers)
    key = (task, row.sample_index, row.turn)
    request = join_request(key, unpack_hash(row.sample_sha256), texts[row.form], [texts[n] for n in numbers[:-1]])
    messages = [message.text for message in request.messages if message.role == "user" and message.text.strip()]
    if messages:
        return messages[-1]
    own = [segment for segment in request.segments if segment.strip()]
    return own[-1] if own else request.prompt


# ------------------------------------------------------------------------------------------- filling


def is_at_rest(connection: Connection, run: int) -> bool:
    """Return whether nobody is writing a run; on a server, nobody can begin to until the transaction ends."""
    lease = leases.lock(connection, run)
    return lease is None or not lease.is_held


def set_row(task: FactTask, reached: tuple[int, int], *, is_complete: bool) -> dict[str, object]:
    """Return the row of `fact_sets` for a task whose facts are stored up to `reached`."""
    row = {
        "run_task": task.id,
        "metric": task.metric,
        "filter": task.filter,
        "is_share": int(task.is_share),
        "reached_index": reached[0],
        "reached_turn": reached[1],
        "is_complete": int(is_complete),
    }
    return with_checksum(fact_sets, row)


def fill_runs(database: Database) -> int:
    """Store the facts of all runs that nobody is writing; return the number of samples.

    Runs with damaged texts are skipped; `verify` reports them.

    Raises: StoreError if they cannot be written.
    """
    with database.reading() as connection:
        run_ids = _lacking(connection)
    n_filled = 0
    for run_id in run_ids:
        try:
            n_filled += fill(database, run_id)
        except HashMismatch:
            continue
    return n_filled


def _lacking(connection: Connection) -> list[str]:
    """Return the runs, without audits, that have a task without complete facts."""
    joined = (
        runs.join(run_facts, run_facts.c.run == runs.c.id)
        .join(run_tasks, run_tasks.c.run == runs.c.id)
        .outerjoin(fact_sets, and_(fact_sets.c.run_task == run_tasks.c.id, fact_sets.c.is_complete == 1))
    )
    lacking = select(runs.c.run_id).select_from(joined).where(fact_sets.c.run_task.is_(None))
    lacking = (
        lacking.where(run_facts.c.audit.is_(None), shown_runs(connection))
        .group_by(runs.c.id, runs.c.run_id)
        .order_by(runs.c.id)
    )
    return list(connection.execute(lacking).scalars())


def fill(database: Database, run_id: str, *, only_summarised: bool = False) -> int:
    """Store the facts of a run's samples that are not current; return the number of samples.

    A run that is being written is skipped, and so is an audit; with `only_summarised` also a run without estimates.

    Raises: HashMismatch if a text that they are derived from cannot be read; StoreError.
    """
    n_filled, is_done = 0, False
    while not is_done:
        with database.writing() as connection:
            number = run_number(connection, run_id)
            if not is_at_rest(connection, number) or _is_audit(connection, number):
                return n_filled
            if only_summarised and not _has_estimates(connection, number):
                return n_filled
            database.lock_structure(connection)
            n, is_done = _fill_some(connection, number)
            n_filled += n
    return n_filled


def _is_audit(connection: Connection, run: int) -> bool:
    of_run = select(run_facts.c.audit).where(run_facts.c.run == run)
    return connection.execute(of_run).scalar() is not None


def _has_estimates(connection: Connection, run: int) -> bool:
    return connection.execute(select(estimates.c.run).where(estimates.c.run == run).limit(1)).first() is not None


def _fill_some(connection: Connection, run: int) -> tuple[int, bool]:
    """Derive and store some facts of a run; return their number, and whether none are left."""
    n_left = AT_ONCE
    tasks = fact_tasks(connection, run)
    of_run = select(fact_sets).where(fact_sets.c.run_task.in_([task.id for task in tasks]))
    sets = {row.run_task: row for row in connection.execute(of_run).all()}
    for task in tasks:
        stored = sets.get(task.id)
        wanted = (task.metric, task.filter, task.is_share)
        is_same = stored is not None and (stored.metric, stored.filter, bool(stored.is_share)) == wanted
        if stored is not None and is_same and stored.is_complete:
            continue
        after = (stored.reached_index, stored.reached_turn) if stored is not None and is_same else BEFORE_FIRST
        derived = list(derive(connection, task, after, n_left))
        insert_rows(connection, upsert(connection.dialect.name, sample_facts), [_row(task, facts) for facts in derived])
        if derived:
            after = (derived[-1].sample_index, derived[-1].turn)
        is_whole = len(derived) < n_left
        insert_rows(
            connection, upsert(connection.dialect.name, fact_sets), [set_row(task, after, is_complete=is_whole)]
        )
        n_left -= len(derived)
        if n_left <= 0:
            return AT_ONCE, False
    return AT_ONCE - n_left, True


def _row(task: FactTask, facts: SampleFacts) -> dict[str, object]:
    values = facts._asdict()
    row = {column.name: values[column.name] for column in FACT_COLUMNS}
    return with_checksum(sample_facts, {"run_task": task.id, **row, "is_wrong": int(facts.is_wrong)})
