"""The tables. A test compares them with the schema that the migrations create.

Each text is stored once, under its SHA-256; a prompt is a list of texts. Outputs and scores are clustered by their
request, and each row of every table has a CRC-32 over its columns, so that a flipped byte is detected. Only parents
that are removed by an indexed look-up have a foreign key; `verify` checks the other references.

Other tables are in `arena_schema` (arena, studies), `queue_schema`, `trace_schema` and `live_schema`. Columns for
leaderboards and pages are derived from these rows: `run_facts` from the plans, `sample_facts` from requests, outputs
and scores. `fact_sets` records the tasks whose sample facts are current.

The CRC covers the columns that are not NULL, by name, so a new column that starts as NULL changes no old row.
"""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Dialect, ForeignKey, Index, Insert, MetaData, Row, Table, UniqueConstraint
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import BigInteger, Double, Integer, LargeBinary, SmallInteger, String, Text

from assaymark.errors import HashMismatch, StoreError
from assaymark.settings import FORMER_NAME

HEAD = "0017"  # the newest migration; stated here so that opening a current store needs no Alembic
VERSION_TABLE = "assaymark_schema"  # Alembic's table, under a name of our own: a database may have another one
FORMER_VERSION_TABLE = f"{FORMER_NAME}_schema"  # in stores written before the program was renamed


class Blob(LargeBinary):
    """Bytes that both drivers accept and return unchanged, so that SQLAlchemy need not convert them."""

    def bind_processor(self, dialect: Dialect) -> None:
        """Pass values to the driver unchanged."""

    def result_processor(self, dialect: Dialect, coltype: object) -> None:
        """Return values of the driver unchanged."""


metadata = MetaData()
ROW_ID = BigInteger().with_variant(Integer(), "sqlite")  # SQLite's row id must be called INTEGER


def row_key() -> Column[int]:
    """Return the column of a row id that we assign."""
    return Column("id", ROW_ID, primary_key=True, autoincrement=False)


def parent_key(name: str, target: str, *, primary_key: bool = False) -> Column[int]:
    """Return a column that refers to another table's row."""
    return Column(name, ROW_ID, ForeignKey(target), nullable=False, primary_key=primary_key, autoincrement=False)


def checksum_column() -> Column[int]:
    """Return the column of the CRC-32 of a row; the last one of its table."""
    return Column("checksum", BigInteger, nullable=False)


texts = Table(
    "texts",
    metadata,
    row_key(),
    Column("sha256", Blob(32), nullable=False, unique=True),
    Column("content", Blob, nullable=False),  # packed
)

runs = Table(
    "runs",
    metadata,
    row_key(),
    Column("run_id", String(64), nullable=False, unique=True),
    Column("key", Blob, nullable=False, unique=True),  # RunPlan.key, packed
    Column("plan", Blob, nullable=False),  # JSON, packed
    Column("status", String(16), nullable=False),
    Column("created_at", String(32), nullable=False),
    Column("updated_at", String(32), nullable=False),
    Column("summary", Blob),  # JSON, packed
    Column("extra", Blob),  # JSON, packed
    Column("seal", Text),  # JSON: numbers of rows of a finished run; NULL while it may grow
    Column("visibility", String(16)),  # NULL: public; hidden: only read by a store opened for a reason
    checksum_column(),
)

attempts = Table(
    "attempts",
    metadata,
    parent_key("run", "runs.id", primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("status", String(16), nullable=False),
    Column("started_at", String(32), nullable=False),
    Column("ended_at", String(32)),
    Column("host", String(255), nullable=False),
    Column("process_id", BigInteger, nullable=False),
    Column("command", Blob),  # packed
    Column("facts", Blob, nullable=False),  # JSON, packed
    Column("summary", Blob),  # JSON, packed
    checksum_column(),
)

run_tasks = Table(
    "run_tasks", metadata, row_key(), parent_key("run", "runs.id"), Column("position", Integer, nullable=False),
    Column("name", String(255), nullable=False), checksum_column(), UniqueConstraint("run", "name")
)  # fmt: skip

requests = Table(
    "requests",
    metadata,
    row_key(),
    parent_key("run_task", "run_tasks.id"),
    Column("sample_index", Integer, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("content_hash", Blob(32), nullable=False),
    Column("sample_sha256", Blob, nullable=False),  # packed hash
    Column("n_outputs", Integer, nullable=False),  # of a complete request: its queries, with their repeats
    Column("pieces", Text, nullable=False),  # JSON: ids of the texts to which the form refers by number
    Column("form", BigInteger, nullable=False),  # text: the request as JSON, its long texts as indices of `pieces`
    Column("sample_row", BigInteger),  # text: the sample's row as JSON
    checksum_column(),
    UniqueConstraint("run_task", "sample_index", "turn"),
)

outputs = Table(
    "outputs",
    metadata,
    parent_key("request", "requests.id", primary_key=True),
    Column("ask_index", Integer, primary_key=True, autoincrement=False),
    Column("repeat", Integer, primary_key=True, autoincrement=False),
    Column("attempt", Integer, nullable=False),  # number of the attempt that wrote it
    Column("total_nats", Double),
    Column("is_greedy", SmallInteger),
    Column("text", Blob),  # packed, like reasoning, tool_calls and error
    Column("reasoning", Blob),
    Column("tool_calls", Blob),
    Column("finish_reason", String(64)),
    Column("n_context_tokens", Integer, nullable=False),
    Column("n_tokens", Integer, nullable=False),
    Column("n_cut_tokens", Integer, nullable=False),
    Column("cache_key", Blob),  # packed hash
    Column("from_cache", SmallInteger, nullable=False),
    Column("error", Blob),
    Column("error_kind", String(64)),
    Column("call", Blob),  # JSON, packed: latency, cost, tokens and contexts of an application's call
    checksum_column(),
    sqlite_with_rowid=False,
)

_answered_by_key = outputs.c.cache_key.isnot(None) & outputs.c.error.is_(None)
Index("outputs_by_cache_key", outputs.c.cache_key, sqlite_where=_answered_by_key, postgresql_where=_answered_by_key)

scorings = Table(
    "scorings",
    metadata,
    row_key(),
    parent_key("run_task", "run_tasks.id"),
    Column("scoring_hash", Blob, nullable=False),  # packed hash
    Column("filter", String(255), nullable=False),
    Column("metric", String(255), nullable=False),
    Column("sequence", Integer, nullable=False),  # the highest of one task, filter and metric is the current one
    checksum_column(),
    UniqueConstraint("run_task", "scoring_hash", "filter", "metric"),
)

scores = Table(
    "scores",
    metadata,
    parent_key("request", "requests.id", primary_key=True),
    Column("scoring", ROW_ID, primary_key=True, autoincrement=False),
    Column("value", Double),
    Column("status", String(16), nullable=False),
    Column("parts", Blob),  # JSON, packed
    Column("detail", Blob),  # JSON, packed
    checksum_column(),
    sqlite_with_rowid=False,
)

estimates = Table(
    "estimates",
    metadata,
    parent_key("run", "runs.id", primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("task", Text, nullable=False),  # or the name of a group or suite
    Column("metric", Text, nullable=False),
    Column("filter", Text, nullable=False),
    Column("value", Double),
    Column("low", Double),
    Column("high", Double),
    Column("method", Text, nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("n_failed", BigInteger, nullable=False),
    Column("n_unparsed", BigInteger, nullable=False),
    Column("stderr", Double),
    Column("chance", Double),
    Column("higher_is_better", SmallInteger, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("kind", String(32), nullable=False),  # task | group | composite; this and the next three repeat details
    Column("is_primary", SmallInteger, nullable=False),
    Column("n_shots", Integer),
    Column("unit", String(32)),  # proportion | plain
    Column("details", Blob, nullable=False),  # JSON, packed
    checksum_column(),
)
Index("estimates_by_task", estimates.c.task, estimates.c.metric, estimates.c.filter)

run_facts = Table(
    "run_facts",
    metadata,
    parent_key("run", "runs.id", primary_key=True),
    Column("model", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("model_hash", Text),
    Column("revision", Text),
    Column("dtype", Text, nullable=False),
    Column("numerics", Text, nullable=False),
    Column("n_parameters", BigInteger),
    Column("max_length", BigInteger),
    Column("profile", Text, nullable=False),
    Column("seed", BigInteger),
    Column("sample_limit", Double),
    Column("chat_template", Text),  # NULL: none applied; empty: the model's default
    Column("prompt_style", Text),  # letter, text, ...; NULL: each task's own
    Column("prompt_preset", Text),
    Column("has_system_instruction", SmallInteger, nullable=False),
    Column("audit", Text),  # kind of audit; NULL for a run
    Column("n_tasks", Integer, nullable=False),
    Column("n_samples", BigInteger, nullable=False),
    checksum_column(),
)

fact_sets = Table(
    "fact_sets",
    metadata,
    parent_key("run_task", "run_tasks.id", primary_key=True),
    Column("metric", Text),  # with the filter: the score that decides; NULL if the task has none
    Column("filter", Text),
    Column("is_share", SmallInteger, nullable=False),  # whether that score is the share of a sample that is right
    Column("reached_index", Integer, nullable=False),  # facts are stored up to this sample and turn
    Column("reached_turn", Integer, nullable=False),
    Column("is_complete", SmallInteger, nullable=False),
    checksum_column(),
)

sample_facts = Table(
    "sample_facts",
    metadata,
    parent_key("run_task", "run_tasks.id", primary_key=True),
    Column("sample_index", Integer, primary_key=True, autoincrement=False),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    Column("status", String(16)),  # of the deciding score; NULL if there is no score
    Column("score", Double),
    Column("correct", Double),  # in [0, 1]; NULL if undefined
    Column("is_wrong", SmallInteger, nullable=False),
    Column("category", Text),
    Column("n_shots", Integer, nullable=False),
    Column("n_leaked_shots", Integer, nullable=False),
    Column("n_truncated_tokens", Integer, nullable=False),  # of the prompt
    Column("n_at_limit", Integer, nullable=False),  # outputs that ended at the token limit
    Column("snippet", Text, nullable=False),
    checksum_column(),
    sqlite_with_rowid=False,
)
Index(  # narrow: counts, categories and pages are found in it without reading the snippets
    "sample_facts_narrow",
    *(sample_facts.c[name] for name in ("run_task", "sample_index", "turn", "is_wrong", "category")),
)

search_sets = Table(
    "search_sets",
    metadata,
    parent_key("run", "runs.id", primary_key=True),
    Column("n_requests", Integer, nullable=False),  # number of requests in the index; see `search`
    checksum_column(),
)

run_leases = Table(
    "run_leases",
    metadata,
    parent_key("run", "runs.id", primary_key=True),
    Column("attempt", Integer, nullable=False),  # number of the attempt that took it
    Column("epoch", BigInteger, nullable=False),  # raised each time the lease is taken
    Column("owner", Text, nullable=False),  # JSON: liveness.Owner; empty after release
    Column("expires", Double, nullable=False),  # seconds since 1970 by the database's clock
    checksum_column(),
)

StoredRow = Row[*tuple[object, ...]]  # of a query; its columns are read by their names
AnyRow = TypeVar("AnyRow", bound=Sequence[Any])

_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    bytes: lambda value: value,
    int: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    str: lambda value: value.encode("utf-8", "surrogatepass"),
}

_KIND_NAMES = {kind: kind.__name__.encode() for kind in _ENCODERS}


@cache
def _names_of(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if column.name != "checksum")


@cache
def _encoded_names_of(table: Table) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in _names_of(table))


def row_checksum(table: Table, values: Sequence[object]) -> int:
    """Return the CRC-32 of a row in the table's order, over name, type and value of each column that is not NULL."""
    return checksum_of(_encoded_names_of(table), values)


def checksum_of(names: Sequence[bytes], values: Sequence[object]) -> int:
    """Return the CRC-32 of the values of columns with these names; a migration has the names of its own schema."""
    pieces: list[bytes] = []
    for name, value in zip(names, values, strict=False):  # the checksum itself comes last
        if value is not None:
            kind = type(value)
            if kind not in _ENCODERS:
                kind = _plain_kind(value)
            pieces += (name, _KIND_NAMES[kind], _ENCODERS[kind](value))
    return zlib.crc32(b"\x00".join(pieces))


def _plain_kind(value: object) -> type:
    """Return the type as which an enumeration's text or numpy's float is stored."""
    for kind in _ENCODERS:
        if isinstance(value, kind):
            return kind
    raise StoreError(f"a row has {value!r}, a {type(value).__name__}; expected a number, text or bytes")


def is_as_saved(table: Table, row: Sequence[Any]) -> bool:
    """Return whether a row has the values that it was saved with; it begins with all columns of the table."""
    checksum: int = row[len(_names_of(table))]
    return row_checksum(table, row) == checksum


def as_saved(table: Table, rows: Iterable[AnyRow]) -> list[AnyRow]:
    """Return rows that begin with all columns of a table, to be shown.

    Raises: HashMismatch for one that has not the values that it was saved with.
    """
    checked, names, place = list(rows), _encoded_names_of(table), len(_names_of(table))
    for row in checked:
        if checksum_of(names, row) != row[place]:
            which = ", ".join(f"{key.name} {row[_names_of(table).index(key.name)]}" for key in table.primary_key)
            raise HashMismatch(
                f"a row of {table.name} ({which}) is not as it was saved; `assaymark verify` lists what is damaged: "
                "take it from a backup"
            )
    return checked


def with_checksum(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    """Set the checksum of a row; return the same dictionary."""
    row["checksum"] = row_checksum(table, [row[name] for name in _names_of(table)])
    return row


@cache
def _compiled(statement: Insert, dialect: Dialect) -> SQLCompiler:
    return statement.compile(dialect=dialect, column_keys=[column.name for column in statement.table.columns])


def insert_rows(connection: Connection, statement: Insert, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert rows of plain values: the statement is compiled once, and the rows are passed to the driver unchanged.

    (SQLAlchemy's own insertion inspects each value of each row, which takes three times as long as the insertion.)
    """
    if not rows:
        return
    compiled = _compiled(statement, connection.dialect)
    if (names := compiled.positiontup) is not None:
        connection.exec_driver_sql(str(compiled), [tuple(row[name] for name in names) for row in rows])
    else:
        connection.exec_driver_sql(str(compiled), list(rows))


@cache
def upsert(dialect_name: str, table: Table) -> Insert:
    """Return the statement that inserts rows, and replaces those with the same key."""
    dialect = sqlite if dialect_name == "sqlite" else postgresql
    statement = dialect.insert(table)
    keys = [column.name for column in table.primary_key.columns]
    others = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in keys}
    inserting: Insert = statement.on_conflict_do_update(index_elements=keys, set_=others)
    return inserting


SEARCH_TABLE = "sample_search"  # the full-text index; `search` creates it for the first run that is indexed
SEARCH_TABLE_SQL = f"CREATE VIRTUAL TABLE {SEARCH_TABLE} USING fts5(run, document)"  # on SQLite
SPAN_SEARCH_TABLE = "span_search"  # the full-text index of spans; `traces` creates it with the first project
SPAN_SEARCH_TABLE_SQL = f"CREATE VIRTUAL TABLE {SPAN_SEARCH_TABLE} USING fts5(project, document)"
