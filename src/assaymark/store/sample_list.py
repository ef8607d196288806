"""Lists of a run's samples, filtered, counted and split into pages by the database, from `sample_facts`.

If a task's facts are not current (its run is being written, or an old store was never filled), the same lists are made
from facts derived while reading, which is slower, since it reads the run's texts.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

from sqlalchemy import ColumnElement, Connection, Select, and_, collate, func, select, tuple_

from assaymark.errors import UsageError
from assaymark.store.connection import Database
from assaymark.store.packing import shown_text
from assaymark.store.results import number_of
from assaymark.store.rows import CategoryCount, SampleFacts, SamplePage
from assaymark.store.runs import run_number
from assaymark.store.sample_facts import FactTask, derive, fact_tasks
from assaymark.store.schema import as_saved, fact_sets, sample_facts

LONGEST_QUERY = 1000  # characters
LONGEST_PAGE = 10_000  # samples
LAST_OFFSET = 2**31

_facts = sample_facts.c
_key = (_facts.run_task, _facts.sample_index, _facts.turn)
_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)


@dataclass(frozen=True, slots=True)
class SampleFilter:
    """The filters of a list of samples."""

    task: str | None = None  # None: every task
    wrong_only: bool = False
    category: str | None = None  # None: every category


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list.

    Raises: UsageError for an invalid offset or limit.
    """

    offset: int = 0
    limit: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.offset <= LAST_OFFSET:
            raise UsageError(f"a list cannot begin at {self.offset}; expected 0 to {LAST_OFFSET:,}")
        if not 1 <= self.limit <= LONGEST_PAGE:
            raise UsageError(f"a page cannot have {self.limit} samples; expected 1 to {LONGEST_PAGE:,}")


def searched(text: str) -> str:
    """Return a text to search for in one line, as snippets are.

    Raises: UsageError if it is too long.
    """
    if len(text) > LONGEST_QUERY:
        raise UsageError(f"the text to search for has {len(text):,} characters; expected at most {LONGEST_QUERY:,}")
    return " ".join(shown_text(text).split())


def list_samples(
    connection: Connection,
    run: int,
    wanted: SampleFilter,
    page: Page,
    text: str = "",
    matches: "Select[int, int, int] | None" = None,
) -> SamplePage:
    """Return a page of the list of samples: those whose snippet contains a text, limited to `matches` if given.

    Raises: UnknownName for a task that the run does not have.
    """
    tasks = _tasks(connection, run, wanted.task)
    current = current_tasks(connection, tasks)
    if current is None:
        derived = _derived(connection, tasks, wanted, text, matches)
        return _page_of(derived, page, is_indexed=matches is not None)
    conditions = list(_conditions(connection, current, wanted, text, matches))
    total = connection.execute(select(func.count()).select_from(sample_facts).where(*conditions)).scalar_one()
    keys = select(*_key).where(*conditions).order_by(*_key).offset(page.offset).limit(page.limit).subquery()
    on = and_(*(_facts[column.name] == keys.c[column.name] for column in _key))
    rows = connection.execute(select(sample_facts).select_from(keys.join(sample_facts, on)).order_by(*_key))
    by_id = {task.id: task for task in current}
    samples = tuple(_sample(by_id[row[0]], row) for row in as_saved(sample_facts, rows))
    return SamplePage(samples, int(total), page.offset, page.limit, matches is not None)


def _tasks(connection: Connection, run: int, name: str | None) -> list[FactTask]:
    tasks = fact_tasks(connection, run)
    if name is None:
        return tasks
    number = number_of({task.name: task.id for task in tasks}, name)
    return [task for task in tasks if task.id == number]


def current_tasks(connection: Connection, tasks: Sequence[FactTask]) -> list[FactTask] | None:
    """Return tasks with the scores from which their stored facts were derived; None if any has no current facts."""
    of_tasks = fact_sets.c.run_task.in_([task.id for task in tasks])
    sets = {row.run_task: row for row in as_saved(fact_sets, connection.execute(select(fact_sets).where(of_tasks)))}
    if not all(task.id in sets and sets[task.id].is_complete for task in tasks):
        return None
    return [task._replace(metric=sets[task.id].metric, filter=sets[task.id].filter) for task in tasks]


def _conditions(
    connection: Connection,
    tasks: Sequence[FactTask],
    wanted: SampleFilter,
    text: str,
    matches: "Select[int, int, int] | None",
) -> Iterator[ColumnElement[bool]]:
    yield _facts.run_task.in_([task.id for task in tasks])
    if wanted.wrong_only:
        yield _facts.is_wrong == 1
    if wanted.category is not None:
        yield _facts.category == shown_text(wanted.category)
    if text:
        # SQLite's LIKE and lower() know ASCII only; elsewhere "C" makes them so
        snippet: ColumnElement[str] = _facts.snippet
        if connection.dialect.name != "sqlite":
            snippet = collate(_facts.snippet, "C")
        yield func.lower(snippet).contains(text.translate(_LOWER), autoescape=True)
    if matches is not None:
        yield tuple_(*_key).in_(matches)


def _sample(task: FactTask, row: Sequence[object]) -> SampleFacts:
    """Return the facts of a row of `sample_facts`, in the table's order."""
    index, turn, status, score, correct, is_wrong, *rest = row[1:-1]
    values = (task.name, task.metric, task.filter, index, turn, status, score, correct, bool(is_wrong), *rest)
    return SampleFacts._make(values)


# ---------------------------------------------------------------------------- without stored facts


def _derived(
    connection: Connection,
    tasks: Sequence[FactTask],
    wanted: SampleFilter,
    text: str,
    matches: "Select[int, int, int] | None",
) -> Iterator[SampleFacts]:
    """Yield the same samples from facts derived while reading."""
    among: Collection[tuple[int, int, int]] | None = None
    if matches is not None:
        among = {(row[0], row[1], row[2]) for row in connection.execute(matches)}
    part = text.translate(_LOWER)
    category = None if wanted.category is None else shown_text(wanted.category)
    for task in tasks:
        for facts in derive(connection, task):
            if wanted.wrong_only and not facts.is_wrong:
                continue
            if category is not None and facts.category != category:
                continue
            if part not in facts.snippet.translate(_LOWER):
                continue
            if among is not None and (task.id, facts.sample_index, facts.turn) not in among:
                continue
            yield facts


def _page_of(listed: Iterator[SampleFacts], page: Page, *, is_indexed: bool) -> SamplePage:
    """Return a page of a list, and count the whole list."""
    samples: list[SampleFacts] = []
    total = 0
    for facts in listed:
        if page.offset <= total < page.offset + page.limit:
            samples.append(facts)
        total += 1
    return SamplePage(tuple(samples), total, page.offset, page.limit, is_indexed)


# ------------------------------------------------------------------------------------- categories


def categories(database: Database, run_id: str, task: str | None) -> list[CategoryCount]:
    """Return the categories of a run's samples by name; the count of samples without a category is last.

    Raises: UnknownName for a task that the run does not have.
    """
    with database.reading() as connection:
        tasks = _tasks(connection, run_number(connection, run_id), task)
        current = current_tasks(connection, tasks)
        counts: dict[str | None, list[int]] = {}
        if current is not None:
            of_tasks = _facts.run_task.in_([each.id for each in current])
            grouped = select(_facts.category, func.count(), func.sum(_facts.is_wrong)).where(of_tasks)
            for category, n, n_wrong in connection.execute(grouped.group_by(_facts.category)):
                counts[category] = [int(n), int(n_wrong)]
        else:
            for each in tasks:
                for facts in derive(connection, each):
                    count = counts.setdefault(facts.category, [0, 0])
                    count[0] += 1
                    count[1] += facts.is_wrong
    ordered = sorted(counts.items(), key=lambda item: (item[0] is None, item[0] or ""))
    return [CategoryCount(category, n, n_wrong) for category, (n, n_wrong) in ordered]
