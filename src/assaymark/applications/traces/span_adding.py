"""Adding spans to the store in one transaction, and how their messages are packed in it.

A span is stored once under (project, trace, span), whatever is sent again and in whatever order: the same bytes change
nothing; of two different copies, one that has ended is kept, and the other is counted.

Several processes may add spans of one trace at once: each locks the rows of its traces, in order, before it reads what
is there. On SQLite there is one writer at a time.
"""

import hashlib
import secrets
import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update
from sqlalchemy import text as sql
from sqlalchemy.dialects import postgresql, sqlite

from assaymark.applications.traces.tables import span_sources, spans, trace_projects, trace_scores, traces
from assaymark.applications.traces.trace_rows import AddedSpans, LightSpan, NewSpan, summary_of
from assaymark.errors import HashMismatch, StoreError, UsageError
from assaymark.store.packing import shown_text
from assaymark.store.request_texts import chunks
from assaymark.store.schema import insert_rows, upsert

MOST_SPANS = 100_000  # of one trace
LARGEST_INTEGER = 2**63 - 1
LONGEST_BODY = 64 << 20  # bytes that a stored message may unpack to
LONGEST_NAME = 128  # characters of the name of a project, a rule, a queue, ...
LONGEST_COLUMN = 1000  # characters of a name, a model, a user, ...
LONGEST_COLUMN_BYTES = 2400  # of it in UTF-8: an entry of PostgreSQL's indexes has at most 2,704
WORTH_COMPRESSING = 200  # bytes
PLAIN, ZLIB = b"\x00", b"\x01"
_INDEX = {
    "sqlite": sql("INSERT OR REPLACE INTO span_search (rowid, project, document) VALUES (:key, :token, :document)"),
    "postgresql": sql(
        "INSERT INTO span_search (search_key, project, document) "
        "VALUES (:key, :project, to_tsvector('simple', :document)) ON CONFLICT DO NOTHING"
    ),
}
_INSERT_SPAN = insert(spans)
LIGHT = (
    *(spans.c.trace_id, spans.c.span_id, spans.c.parent_id, spans.c.name, spans.c.started, spans.c.ended),
    *(spans.c.is_error, spans.c.kind, spans.c.model, spans.c.n_input, spans.c.n_output, spans.c.cost),
    *(spans.c.user, spans.c.session, spans.c.service, spans.c.version, spans.c.response_id),
    func.length(spans.c.body).label("n_bytes"),
)


class AddingSpans:
    """One transaction that adds spans."""

    def __init__(self, connection: Connection, project: int, received: float) -> None:
        self._connection, self._project, self._received = connection, project, received

    def add(self, batch: Sequence[NewSpan]) -> AddedSpans:
        """Add spans; see `TraceLog.add_spans`."""
        trace_ids = sorted({span.trace_id for span in batch})
        self._lock_project()
        sources = sorted((message_digest(body), body) for body in {span.source for span in batch})
        rows = [{"project": self._project, "digest": digest, "body": _pack(body)} for digest, body in sources]
        insert_missing(self._connection, span_sources, rows)
        n_before = self._lock_traces(trace_ids)
        stored = self._stored(batch, {trace_id for trace_id, n in n_before.items() if n})
        new: dict[tuple[bytes, bytes], tuple[NewSpan, bytes]] = {}  # with its digest
        replaced: dict[tuple[bytes, bytes], tuple[NewSpan, bytes]] = {}
        conflicts: dict[tuple[bytes, bytes], int] = defaultdict(int)
        refused: list[int] = []
        n_same = n_conflicts = 0
        room = {trace_id: MOST_SPANS - n for trace_id, n in n_before.items()}
        for index, span in enumerate(batch):
            key = (span.trace_id, span.span_id)
            digest = message_digest(span.body)
            copy = new.get(key) or replaced.get(key)
            known = (copy[1], copy[0].ended) if copy is not None else stored.get(key)
            if known is None:
                if room[span.trace_id] <= 0:
                    refused.append(index)
                    continue
                room[span.trace_id] -= 1
                new[key] = (span, digest)
                continue
            if known[0] == digest:
                n_same += 1
                continue
            n_conflicts += 1
            conflicts[key] += 1
            if known[1] is None and span.ended is not None:
                (new if key in new else replaced)[key] = (span, digest)
        self._write(new, replaced, conflicts)
        touched = {key[0] for key in (*new, *replaced)}
        if touched:
            self._summarise(touched)
            self._mark_stale([trace_id for trace_id in touched if n_before[trace_id]])
        self._forget_empty(n_before, touched)
        return AddedSpans(len(new), n_same, n_conflicts, tuple(refused))

    def _lock_project(self) -> None:
        """Keep the project from being removed meanwhile. Raises: StoreError if it was."""
        statement = select(trace_projects.c.id).where(trace_projects.c.id == self._project)
        if self._connection.execute(statement.with_for_update(key_share=True, read=True)).first() is None:
            raise StoreError("the project of these spans was removed; make one with `assaymark traces project add`")

    def _lock_traces(self, trace_ids: Sequence[bytes]) -> dict[bytes, int]:
        """Lock the rows of traces until the transaction ends; return each trace's number of stored spans."""
        empty = {
            **{column.name: None for column in traces.columns},
            **dict.fromkeys(("at", "started", "n_spans", "n_errors", "n_orphans", "n_bytes"), 0),
            "project": self._project,
            "name": "",
            "models": "",
            "received": self._received,
        }
        insert_missing(self._connection, traces, [{**empty, "trace_id": trace_id} for trace_id in trace_ids])
        n_by_trace: dict[bytes, int] = {}
        for some in chunks(trace_ids):
            statement = (
                select(traces.c.trace_id, traces.c.n_spans)
                .where(traces.c.project == self._project, traces.c.trace_id.in_(some))
                .order_by(traces.c.trace_id)
                .with_for_update()
            )
            n_by_trace.update((bytes(row[0]), row[1]) for row in self._connection.execute(statement))
        return n_by_trace

    def _stored(self, batch: Sequence[NewSpan], known: set[bytes]) -> dict[tuple[bytes, bytes], tuple[bytes, object]]:
        """Return digest and end of those spans of the batch that are stored."""
        by_trace: dict[bytes, list[bytes]] = defaultdict(list)
        for span in batch:
            if span.trace_id in known:
                by_trace[span.trace_id].append(span.span_id)
        by_span: dict[tuple[bytes, bytes], tuple[bytes, object]] = {}
        for trace_id, span_ids in by_trace.items():
            for some in chunks(span_ids):
                statement = select(spans.c.span_id, spans.c.digest, spans.c.ended).where(
                    spans.c.project == self._project, spans.c.trace_id == trace_id, spans.c.span_id.in_(some)
                )
                for span_id, digest, ended in self._connection.execute(statement):
                    by_span[trace_id, bytes(span_id)] = (bytes(digest), ended)
        return by_span

    def _write(
        self,
        new: dict[tuple[bytes, bytes], tuple[NewSpan, bytes]],
        replaced: dict[tuple[bytes, bytes], tuple[NewSpan, bytes]],
        conflicts: dict[tuple[bytes, bytes], int],
    ) -> None:
        """Insert the new spans, replace those that have ended meanwhile, and count the copies that are not kept."""
        connection = self._connection
        key = int(self._received * 1e6) * 4096 + secrets.randbelow(4096)
        added = [
            self._row(span, digest, key + at, conflicts.get(place, 0))
            for at, (place, (span, digest)) in enumerate(new.items())
        ]
        insert_rows(connection, _INSERT_SPAN, added)
        documents = [
            {
                "key": row["search_key"],
                "project": self._project,
                "token": f"p{self._project}",
                "document": shown_text(f"{span.name}\n{span.text}"),
            }
            for row, (span, _) in zip(added, new.values(), strict=True)
        ]
        for place, (span, digest) in replaced.items():
            changed = self._row(span, digest, 0, 0)
            for name in ("project", "trace_id", "span_id", "search_key", "n_conflicts"):
                del changed[name]
            where = self._is_span(place)
            connection.execute(update(spans).where(where).values(changed))
        if documents:
            connection.execute(_INDEX[connection.dialect.name], documents)
        for place, n in conflicts.items():
            if place not in new:
                statement = update(spans).where(self._is_span(place))
                connection.execute(statement.values(n_conflicts=spans.c.n_conflicts + n))

    def _is_span(self, place: tuple[bytes, bytes]) -> ColumnElement[bool]:
        return (spans.c.project == self._project) & (spans.c.trace_id == place[0]) & (spans.c.span_id == place[1])

    def _row(self, span: NewSpan, digest: bytes, search_key: int, n_conflicts: int) -> dict[str, object]:
        return {
            "project": self._project,
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_id": span.parent_id,
            "name": short_text(span.name) or "",
            "started": min(span.started, LARGEST_INTEGER),
            "ended": None if span.ended is None else min(span.ended, LARGEST_INTEGER),
            "is_error": int(span.is_error),
            "kind": span.kind,
            "model": short_text(span.model),
            "n_input": span.n_input,
            "n_output": span.n_output,
            "cost": span.cost,
            "user": short_text(span.user),
            "session": short_text(span.session),
            "service": short_text(span.service),
            "version": short_text(span.version),
            "response_id": short_text(span.response_id),
            "search_key": search_key,
            "n_conflicts": n_conflicts,
            "received": self._received,
            "source": message_digest(span.source),
            "digest": digest,
            "body": _pack(span.body),
        }

    def _summarise(self, touched: set[bytes]) -> None:
        """Compute the rows of traces again from all of their spans."""
        rows: list[dict[str, object]] = []
        for some in chunks(sorted(touched), 100):
            statement = select(*LIGHT, spans.c.n_conflicts).where(
                spans.c.project == self._project, spans.c.trace_id.in_(some)
            )
            by_trace: dict[bytes, list[LightSpan]] = defaultdict(list)
            for row in self._connection.execute(statement.order_by(spans.c.started, spans.c.span_id)):
                by_trace[bytes(row.trace_id)].append(LightSpan._make(row))
            rows += [
                {"project": self._project, "trace_id": trace_id, **summary_of(of_trace, self._received)}
                for trace_id, of_trace in by_trace.items()
            ]
        insert_rows(self._connection, upsert(self._connection.dialect.name, traces), rows)

    def _mark_stale(self, trace_ids: Sequence[bytes]) -> None:
        """Mark scores that rules gave these traces before all spans had arrived as stale, to be scored again."""
        for some in chunks(sorted(trace_ids)):
            of_rules = trace_scores.c.source == "rule", trace_scores.c.stale.is_(None)
            here = trace_scores.c.project == self._project, trace_scores.c.trace_id.in_(some)
            self._connection.execute(update(trace_scores).where(*here, *of_rules).values(stale=self._received))

    def _forget_empty(self, n_before: dict[bytes, int], touched: set[bytes]) -> None:
        """Remove the rows that were made for locking, of traces without stored spans."""
        for trace_id, n in n_before.items():
            if not n and trace_id not in touched:
                self._connection.execute(
                    delete(traces).where(traces.c.project == self._project, traces.c.trace_id == trace_id)
                )


def insert_missing(connection: Connection, table: object, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert the rows whose keys do not exist."""
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    if rows:
        connection.execute(dialect.insert(table).on_conflict_do_nothing(), list(rows))


def short_text(value: str | None) -> str | None:
    """Return a text as a column has it."""
    if value is None:
        return None
    text = shown_text(value[:LONGEST_COLUMN])
    return text.encode("utf-8", "surrogatepass")[:LONGEST_COLUMN_BYTES].decode("utf-8", "ignore")


def stored_name(name: str, whose: str, longest: int = LONGEST_NAME) -> str:
    """Return a name as it is stored. Raises: UsageError where it is empty or too long; `whose`: as "the queue's"."""
    text = shown_text(name.strip())
    if not 0 < len(text) <= longest:
        raise UsageError(f"{whose} name has {len(text)} characters; expected 1 to {longest}")
    return text


def message_digest(body: bytes | str) -> bytes:
    """Return the digest by which a message, or the text that identifies a score, is known: 16 bytes of its SHA-256."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body).digest()[:16]


def _pack(body: bytes) -> bytes:
    if len(body) >= WORTH_COMPRESSING:
        small = zlib.compress(body, 3)
        if len(small) < len(body):
            return ZLIB + small
    return PLAIN + body


def unpack_message(packed: bytes) -> bytes:
    """Return a stored message. Raises: HashMismatch if it is invalid."""
    if packed[:1] == PLAIN:
        return packed[1:]
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(packed[1:], LONGEST_BODY + 1)
    except zlib.error as error:
        raise HashMismatch(f"a stored span cannot be read: {error}; `assaymark verify` shows more") from error
    if packed[:1] != ZLIB or len(body) > LONGEST_BODY or not stream.eof:
        raise HashMismatch("a stored span cannot be read; `assaymark verify` shows more")
    return body
