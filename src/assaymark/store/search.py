"""Full-text search over a run's samples: FTS5 on SQLite, tsvector on PostgreSQL; each run has an index of its own.

The index holds the texts of each sample's row and the generated texts. It is derived and optional: `index_samples`
builds it, a row of `search_sets` marks it as current, and any new request or output removes that row. Without an index
the snippets are searched.

A user's query is never passed to the database as its query language: it is split into words and quoted phrases, all of
which must occur, and each is passed as a quoted phrase.
"""

import json
import re
from collections.abc import Iterator, Sequence

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    bindparam,
    delete,
    func,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy import column as named
from sqlalchemy import table as table_named

from assaymark.errors import HashMismatch, RunBusy, StoreError
from assaymark.records import JsonValue
from assaymark.records.json_values import strings_in
from assaymark.store import sample_facts as facts
from assaymark.store.connection import Database
from assaymark.store.packing import shown_text, unpack_optional
from assaymark.store.request_texts import chunks, load_texts
from assaymark.store.rows import SamplePage
from assaymark.store.runs import run_number
from assaymark.store.sample_list import Page, SampleFilter, list_samples, searched
from assaymark.store.schema import (
    SEARCH_TABLE,
    SEARCH_TABLE_SQL,
    StoredRow,
    outputs,
    requests,
    run_tasks,
    search_sets,
    with_checksum,
)

AT_ONCE = 500  # requests indexed in one transaction
LONGEST_DOCUMENT = 100_000  # characters; PostgreSQL's limit is a million bytes of words and positions
UNFINISHED = -1  # in `search_sets` while the index is being built

_PIECES = re.compile(r'"([^"]*)"?|([^\s"]+)')
_WORD = re.compile(r"[^\W_]")
_search = table_named(SEARCH_TABLE, named("rowid"), named("request"), named("run"), named("document"))
_texts_of = (
    select(outputs.c.request, outputs.c.text)
    .where(outputs.c.request.in_(bindparam("ids", expanding=True)), outputs.c.text.isnot(None))
    .order_by(outputs.c.request, outputs.c.ask_index, outputs.c.repeat)
)
_MAKE = {
    "sqlite": (SEARCH_TABLE_SQL,),
    "postgresql": (
        f"CREATE TABLE {SEARCH_TABLE} (request bigint PRIMARY KEY, run bigint NOT NULL, document tsvector NOT NULL)",
        f"CREATE INDEX {SEARCH_TABLE}_words ON {SEARCH_TABLE} USING gin (document)",
        f"CREATE INDEX {SEARCH_TABLE}_runs ON {SEARCH_TABLE} (run)",
    ),
}
_ADD = {
    "sqlite": text("INSERT INTO sample_search (rowid, run, document) VALUES (:request, :token, :document)"),
    "postgresql": text(
        "INSERT INTO sample_search (request, run, document) VALUES (:request, :run, to_tsvector('simple', :document))"
    ),
}


def phrases_of(query: str) -> list[str]:
    """Return the words and quoted phrases of a user's query; punctuation alone is neither."""
    pieces = [quoted or word for quoted, word in _PIECES.findall(query)]
    return [piece.strip() for piece in pieces if _WORD.search(piece)]


# ------------------------------------------------------------------------------------------ searching


def sample_list(database: Database, run_id: str, query: str, wanted: SampleFilter, page: Page) -> SamplePage:
    """Return a page of the list of samples in which all words and quoted phrases of a query occur.

    Without a current index, and for a query without words, list the samples whose snippet contains it.

    Raises: UnknownName for a task that the run does not have; UsageError for a query that is too long.
    """
    typed = searched(query)
    phrases = phrases_of(typed)
    with database.reading() as connection:
        run = run_number(connection, run_id)
        if phrases and is_indexed(connection, run):
            return list_samples(connection, run, wanted, page, matches=_matches(connection, run, phrases))
        return list_samples(connection, run, wanted, page, typed)


def _matches(connection: Connection, run: int, phrases: Sequence[str]) -> "Select[int, int, int]":
    """Return the query for task, sample index and turn of the samples that have all phrases."""
    keys = select(requests.c.run_task, requests.c.sample_index, requests.c.turn)
    if connection.dialect.name == "sqlite":
        quoted = " ".join('"' + phrase.replace('"', '""') + '"' for phrase in phrases)
        match = named(SEARCH_TABLE).op("MATCH")(f'run : "{_token(run)}" AND document : ({quoted})')
        return keys.select_from(requests.join(_search, _search.c.rowid == requests.c.id)).where(match)
    joined = requests.join(_search, _search.c.request == requests.c.id)
    has_all = [_search.c.document.op("@@")(func.phraseto_tsquery("simple", phrase)) for phrase in phrases]
    return keys.select_from(joined).where(_search.c.run == run, *has_all)


def _token(run: int) -> str:
    """Return the word that stands for a run in FTS5's index."""
    return f"r{run}"


def is_indexed(connection: Connection, run: int) -> bool:
    """Return whether a run has a current index."""
    return (n_indexed(connection, run) or UNFINISHED) != UNFINISHED


def n_indexed(connection: Connection, run: int) -> int | None:
    """Return the number of requests in a run's index; None if there is no index, UNFINISHED while it is built."""
    n: int | None = connection.execute(select(search_sets.c.n_requests).where(search_sets.c.run == run)).scalar()
    return n


# ------------------------------------------------------------------------------------------- indexing


def index_samples(database: Database, run_id: str) -> int:
    """Build a run's index; return the number of requests in it.

    Raises: RunBusy if the run is being written; StoreError if the database has no full-text search.
    """
    facts.fill(database, run_id)
    with database.writing() as connection:
        run = run_number(connection, run_id)
        _refuse_busy(connection, run, run_id)
        database.lock_structure(connection)
        _make_table(connection, database.shown_url)
        forget_index(connection, run)
        _mark(connection, run, UNFINISHED)
    n, last = 0, 0
    while True:
        with database.writing() as connection:
            _refuse_busy(connection, run, run_id)
            database.lock_structure(connection)
            if n_indexed(connection, run) != UNFINISHED:
                raise RunBusy(f"run {run_id} was changed while its index was built; build the index again")
            rows = connection.execute(_requests_of(run).where(requests.c.id > last).limit(AT_ONCE)).all()
            if not rows:
                _mark(connection, run, n)
                return n
            documents = list(_documents(connection, rows))
            added = [{"request": row.id, "run": run, "token": _token(run), "document": document}
                     for row, document in zip(rows, documents, strict=True)]  # fmt: skip
            connection.execute(_ADD[connection.dialect.name], added)
        n, last = n + len(rows), rows[-1].id


def _refuse_busy(connection: Connection, run: int, run_id: str) -> None:
    if not facts.is_at_rest(connection, run):
        raise RunBusy(f"run {run_id} is being written; wait for its end, then build the index")


def _mark(connection: Connection, run: int, n_requests: int) -> None:
    connection.execute(delete(search_sets).where(search_sets.c.run == run))
    connection.execute(insert(search_sets), with_checksum(search_sets, {"run": run, "n_requests": n_requests}))


def _make_table(connection: Connection, where: str) -> None:
    if _has_table(connection):
        return
    if connection.dialect.name == "sqlite" and not _has_fts5(connection):
        raise StoreError(
            f"store {where}: the SQLite of this Python has no full-text search; use a Python with FTS5 or a "
            "PostgreSQL server, or search without an index"
        )
    for statement in _MAKE[connection.dialect.name]:
        connection.exec_driver_sql(statement)


def _has_fts5(connection: Connection) -> bool:
    count = connection.exec_driver_sql("SELECT count(*) FROM pragma_module_list WHERE name = 'fts5'")
    return bool(count.scalar_one())


def _has_table(connection: Connection) -> bool:
    return inspect(connection).has_table(SEARCH_TABLE)


def forget_index(connection: Connection, run: int) -> None:
    """Remove a run's index, if it has one."""
    connection.execute(delete(search_sets).where(search_sets.c.run == run))
    if not _has_table(connection):
        return
    if connection.dialect.name == "sqlite":
        ids = select(requests.c.id).join(run_tasks, run_tasks.c.id == requests.c.run_task).where(run_tasks.c.run == run)
        connection.execute(delete(_search).where(_search.c.rowid.in_(ids)))
    else:
        connection.execute(delete(_search).where(_search.c.run == run))


def count_rows(connection: Connection, run: int) -> int:
    """Return the number of a run's rows in the index."""
    if not _has_table(connection):
        return 0
    mine: ColumnElement[bool]
    if connection.dialect.name == "sqlite":
        mine = named(SEARCH_TABLE).op("MATCH")(f'run : "{_token(run)}"')
    else:
        mine = _search.c.run == bindparam("run", run, type_=BigInteger)
    return int(connection.execute(select(func.count()).select_from(_search).where(mine)).scalar_one())


def _requests_of(run: int) -> "Select[*tuple[object, ...]]":
    of_run = select(requests.c.id, requests.c.sample_row, requests.c.pieces, requests.c.form, requests.c.sample_index,
                    requests.c.turn, requests.c.sample_sha256, run_tasks.c.name)  # fmt: skip
    joined = of_run.join(run_tasks, run_tasks.c.id == requests.c.run_task).where(run_tasks.c.run == run)
    return joined.order_by(requests.c.id)


def _documents(connection: Connection, rows: Sequence[StoredRow]) -> Iterator[str]:
    """Yield the document to index for each request: the texts of its sample's row, and the generated texts."""
    generated: dict[int, list[str]] = {}
    for some in chunks([row.id for row in rows]):
        for request, packed in connection.execute(_texts_of, {"ids": some}):
            generated.setdefault(request, []).append(unpack_optional(packed) or "")
    texts = load_texts(connection, {row.sample_row for row in rows if row.sample_row is not None})
    for row in rows:
        if row.sample_row is None:
            own = [facts.end_of_prompt(connection, row.name, row)]
        else:
            own = list(strings_in(_content(texts[row.sample_row])))
        yield shown_text("\n".join([*own, *generated.get(row.id, ())])[:LONGEST_DOCUMENT])


def _content(row_text: str) -> JsonValue:
    try:
        return json.loads(row_text)
    except (ValueError, RecursionError) as error:
        raise HashMismatch(f"the row of a sample cannot be read: {error}; run `assaymark verify`") from error
