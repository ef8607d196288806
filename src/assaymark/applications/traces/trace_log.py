"""Traces in the store: projects and their tokens, adding of spans, lists, trees, and removal.

All spans of one call are stored in one transaction, together with the summaries of their traces, so that what was
acknowledged is readable (`span_adding`).
"""

import hashlib
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    distinct,
    func,
    insert,
    inspect,
    or_,
    select,
)
from sqlalchemy import text as sql

from assaymark.applications.live.score_rows import score_row, scores_of_trace
from assaymark.applications.live.tables import LIVE_TABLES, trace_queue_claims, trace_queue_items, trace_scorings
from assaymark.applications.traces.span_adding import (
    LIGHT,
    AddingSpans,
    insert_missing,
    message_digest,
    stored_name,
    unpack_message,
)
from assaymark.applications.traces.tables import (
    TRACE_TABLES,
    span_sources,
    spans,
    trace_projects,
    trace_scores,
    trace_tokens,
    traces,
)
from assaymark.applications.traces.trace_filters import conditions_of, lasted
from assaymark.applications.traces.trace_rows import (
    MOST_COUNTED,
    AddedSpans,
    LightSpan,
    NewSpan,
    Project,
    SpanRow,
    Token,
    TraceFilter,
    TracePage,
    TraceRow,
    TraceScore,
    TraceSession,
)
from assaymark.applications.watch.alarm_log import AlarmLog
from assaymark.errors import HashMismatch, UnknownName, UsageError
from assaymark.store.connection import OpenStore
from assaymark.store.feature_tables import FeatureLog, FeatureTables
from assaymark.store.leases import now
from assaymark.store.packing import optional_bytes, shown_text
from assaymark.store.request_texts import chunks
from assaymark.store.runs import next_id
from assaymark.store.schema import SPAN_SEARCH_TABLE, SPAN_SEARCH_TABLE_SQL, StoredRow
from assaymark.store.search import phrases_of

MOST_MATCHES = 2000  # spans that a search looks at, the latest
WAIT_SECONDS = 2.0  # for another writer, while a sender waits: it gives up after 10
DELETED_AT_ONCE = 200  # traces
_MAKE_SEARCH = {
    "sqlite": (SPAN_SEARCH_TABLE_SQL,),
    "postgresql": (
        f"CREATE TABLE {SPAN_SEARCH_TABLE} (search_key bigint PRIMARY KEY, project bigint NOT NULL, document tsvector)",
        f"CREATE INDEX {SPAN_SEARCH_TABLE}_words ON {SPAN_SEARCH_TABLE} USING gin (document)",
    ),
}
_FORGET = {
    "sqlite": sql("DELETE FROM span_search WHERE rowid = :key"),
    "postgresql": sql("DELETE FROM span_search WHERE search_key = :key"),
}
_SEARCH = {
    "sqlite": sql("SELECT rowid FROM span_search WHERE span_search MATCH :query ORDER BY rowid DESC LIMIT :most")
}
ORDERS: dict[str, tuple[ColumnElement[float] | ColumnElement[int], ...]] = {
    "": (),
    "took": (func.coalesce(lasted(), -1).desc(),),
    "tokens": ((func.coalesce(traces.c.n_input, 0) + func.coalesce(traces.c.n_output, 0)).desc(),),
    "cost": (func.coalesce(traces.c.cost, -1).desc(),),
}
"""By which traces may be listed, the largest first; what is not known comes last."""
_TRACE_COLUMNS = [column for column in traces.c if column.name not in {"project", "n_bytes"}]
_SCORE_COLUMNS = [trace_scores.c[each.name] for each in fields(TraceScore)]


def token_digest(token: str) -> bytes:
    """Return the hash under which a token is known."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class TraceLog(FeatureLog):
    """Projects and their traces. May be used by several threads and processes."""

    def __init__(self, store: OpenStore) -> None:
        super().__init__(store)
        self._store = store

    # ---------------------------------------------------------------------------- projects and tokens

    def add_project(self, name: str) -> str:
        """Make a project; return its first token, which is stored nowhere.

        Raises: UsageError for a name that is taken, empty or longer than 128 characters.
        """
        clean_name = stored_name(name, "the project's")
        with self._database.writing(durable=True, locked=True) as connection:
            if connection.execute(select(trace_projects.c.id).where(trace_projects.c.name == clean_name)).first():
                raise UsageError(
                    f"there is a project '{clean_name}' already; choose another name, or make a token for it"
                )
            if not inspect(connection).has_table(SPAN_SEARCH_TABLE):
                for statement in _MAKE_SEARCH[connection.dialect.name]:
                    connection.exec_driver_sql(statement)
            number = next_id(connection, trace_projects)
            connection.execute(insert(trace_projects), {"id": number, "name": clean_name, "made": now(connection)})
            return _add_token(connection, number, "all")

    def add_token(self, project: str, scope: str = "all", *, replacing: bool = False) -> str:
        """Return a new token of a project; with `replacing` its earlier ones are worth nothing from now on.

        Raises: UnknownName.
        """
        with self._database.writing(durable=True) as connection:
            number = _project_number(connection, project)
            if replacing:
                connection.execute(delete(trace_tokens).where(trace_tokens.c.project == number))
            return _add_token(connection, number, scope)

    def token(self, token: str) -> Token | None:
        """Return a token's rights; None for one that is not valid."""
        return self._token(trace_tokens.c.digest == token_digest(token))

    def token_of_id(self, token_id: str) -> Token | None:
        """Return the rights of the token with an id; None for one that was removed."""
        return self._token(trace_tokens.c.id == shown_text(token_id))

    def _token(self, condition: ColumnElement[bool]) -> Token | None:
        joined = trace_tokens.join(trace_projects, trace_projects.c.id == trace_tokens.c.project)
        columns = (trace_tokens.c.id, trace_tokens.c.project, trace_projects.c.name, trace_tokens.c.scope)
        with self._database.reading() as connection:
            row = connection.execute(select(*columns).select_from(joined).where(condition)).one_or_none()
        return None if row is None else Token(*row)

    def projects(self) -> list[Project]:
        """Return every project by name, with how much it has."""
        counts = (func.count(traces.c.trace_id), func.sum(traces.c.n_spans), func.sum(traces.c.n_bytes))
        joined = trace_projects.outerjoin(traces, traces.c.project == trace_projects.c.id)
        columns = (trace_projects.c.id, trace_projects.c.name, trace_projects.c.made)
        statement = select(*columns, *counts).select_from(joined).group_by(*columns).order_by(trace_projects.c.name)
        rows = self._rows(statement)
        return [Project(row[0], row[1], row[2], int(row[3]), int(row[4] or 0), int(row[5] or 0)) for row in rows]

    def project_id(self, name: str) -> int:
        """Return a project's number. Raises: UnknownName."""
        with self._database.reading() as connection:
            return _project_number(connection, name)

    def remove_project(self, name: str) -> int:
        """Remove a project with all that it has; return the number of its traces. Raises: UnknownName."""
        with self._database.writing() as connection:
            number = _project_number(connection, name)
            connection.execute(delete(trace_tokens).where(trace_tokens.c.project == number))
        n_removed = self._remove_traces(number, select(traces.c.trace_id).where(traces.c.project == number))
        AlarmLog(self._store).remove_all(number)
        with self._database.writing() as connection:
            for table in (trace_scores, span_sources, *LIVE_TABLES):
                connection.execute(delete(table).where(table.c.project == number))
            connection.execute(delete(trace_projects).where(trace_projects.c.id == number))
        self._database.shrink()
        return n_removed

    # ---------------------------------------------------------------------------------------- writing

    def add_spans(self, project: int, batch: Sequence[NewSpan]) -> AddedSpans:
        """Store spans, all of them or none; they are on the disk and readable when this returns.

        Raises: StoreBusy where another writer holds the database too long; StoreError.
        """
        if not batch:
            return AddedSpans(0, 0, 0, ())
        received = time.time()
        with self._database.writing(durable=True, wait_seconds=WAIT_SECONDS) as connection:
            adding = AddingSpans(connection, project, received)
            return adding.add(batch)

    def add_scores(self, project: int, scores: Sequence[TraceScore]) -> int:
        """Store results of evaluations; those that are stored already change nothing. Return how many are new."""
        if not scores:
            return 0
        in_order = sorted(scores, key=lambda score: score.digest)
        rows = [score_row(project, score, time.time()) for score in in_order]
        with self._database.writing(durable=True, wait_seconds=WAIT_SECONDS) as connection:
            digests = [score.digest for score in in_order]
            known = set()
            for some in chunks(digests):
                statement = select(trace_scores.c.digest).where(
                    trace_scores.c.project == project, trace_scores.c.digest.in_(some)
                )
                known |= {bytes(digest) for digest in connection.execute(statement).scalars()}
            insert_missing(connection, trace_scores, rows)
        return len(set(digests) - known)

    # ---------------------------------------------------------------------------------------- reading

    def traces(
        self,
        project: int,
        wanted: TraceFilter,
        limit: int = 50,
        *,
        order: str = "",
        skip: int = 0,
        counts: bool = False,
    ) -> TracePage:
        """Return a page of a project's traces.

        Args:
            order: a key of `ORDERS`, the largest first and the latest of equal ones; "": the latest first.
            skip: traces of the pages before, in an order that is not that of time.
            counts: whether those on all pages are counted.
        """
        conditions = conditions_of(project, wanted)
        with self._database.reading() as connection:
            is_cut = False
            if wanted.text and (phrases := phrases_of(wanted.text)):
                matching = _matching_traces(connection, project, phrases)
                if matching is None:
                    return TracePage((), has_more=False, n_matching=0)
                ids, is_cut = matching
                conditions.append(traces.c.trace_id.in_(bindparam("matching", expanding=True, value=ids)))
            statement = (
                select(*_TRACE_COLUMNS)
                .where(*conditions)
                .order_by(*ORDERS[order], traces.c.at.desc(), traces.c.trace_id.desc())
                .limit(limit + 1)
                .offset(skip)
            )
            rows = connection.execute(statement).all()
            some = select(traces.c.trace_id).where(*conditions).limit(MOST_COUNTED).subquery()
            n = connection.execute(select(func.count()).select_from(some)).scalar_one() if counts else None
        return TracePage(tuple(_trace_row(row) for row in rows[:limit]), len(rows) > limit, is_cut, n)

    def roots(self, project: int, trace_ids: Sequence[bytes]) -> dict[bytes, SpanRow]:
        """Return the first root of each of some traces; none for a trace whose root has not arrived or is damaged."""
        order = func.row_number().over(partition_by=spans.c.trace_id, order_by=(spans.c.started, spans.c.span_id))
        numbered = (
            select(spans.c.trace_id, spans.c.span_id, order.label("place"))
            .where(spans.c.project == project, spans.c.trace_id.in_(trace_ids), spans.c.parent_id.is_(None))
            .subquery()
        )
        with self._database.reading() as connection:
            first = select(numbered.c.trace_id, numbered.c.span_id).where(numbered.c.place == 1)
            keys = [(bytes(trace_id), bytes(span_id)) for trace_id, span_id in connection.execute(first)]
        found: dict[bytes, SpanRow] = {}
        for trace_id, span_id in keys:
            with suppress(HashMismatch):  # its own page says so
                found[trace_id] = self.spans(project, trace_id, span_id)[0]
        return found

    def scores_of_traces(self, project: int, trace_ids: Sequence[bytes]) -> dict[bytes, dict[str, TraceScore]]:
        """Return the latest score of each name that some traces have."""
        statement = (
            select(*_SCORE_COLUMNS)
            .where(trace_scores.c.project == project, trace_scores.c.trace_id.in_(trace_ids))
            .order_by(trace_scores.c.observed, trace_scores.c.digest)
        )
        found: dict[bytes, dict[str, TraceScore]] = {}
        with self._database.reading() as connection:
            for row in connection.execute(statement):
                score = _score(row)
                found.setdefault(score.trace_id or b"", {})[score.name] = score
        return found

    def trace(self, project: int, trace_id: bytes) -> TraceRow:
        """Return one trace. Raises: UnknownName."""
        statement = select(*_TRACE_COLUMNS).where(traces.c.project == project, traces.c.trace_id == trace_id)
        with self._database.reading() as connection:
            row = connection.execute(statement).one_or_none()
        if row is None:
            raise UnknownName("trace", trace_id.hex())
        return _trace_row(row)

    def spans(self, project: int, trace_id: bytes, span_id: bytes | None = None) -> list[SpanRow]:
        """Return the spans of a trace by start, or one of them.

        Raises: HashMismatch for a span whose bytes are not those that were stored.
        """
        conditions = [spans.c.project == project, spans.c.trace_id == trace_id]
        if span_id is not None:
            conditions.append(spans.c.span_id == span_id)
        return self._span_rows(*conditions)

    def _span_rows(self, *conditions: ColumnElement[bool]) -> list[SpanRow]:
        statement = select(
            *(column for column in LIGHT if column.name != "n_bytes"),
            *(spans.c.n_conflicts, spans.c.received, spans.c.digest, spans.c.body),
            span_sources.c.body.label("source_body"),
        ).select_from(
            spans.join(
                span_sources, and_(span_sources.c.project == spans.c.project, span_sources.c.digest == spans.c.source)
            )
        )
        statement = statement.where(*conditions)
        rows = self._rows(statement.order_by(spans.c.started, spans.c.span_id))
        sources: dict[bytes, bytes] = {}
        return [_span_row(row, sources) for row in rows]

    def light_spans(self, project: int, trace_id: bytes) -> list[LightSpan]:
        """Return the columns of a trace's spans without their messages, by start."""
        statement = select(*LIGHT, spans.c.n_conflicts).where(spans.c.project == project, spans.c.trace_id == trace_id)
        return [LightSpan._make(row) for row in self._rows(statement.order_by(spans.c.started, spans.c.span_id))]

    def sessions(self, project: int, limit: int = 100) -> list[TraceSession]:
        """Return the sessions, those with the latest trace first."""
        last = func.max(traces.c.at)
        statement = (
            select(
                traces.c.session,
                func.count(),
                func.min(traces.c.at),
                last,
                func.sum(traces.c.n_errors),
                func.sum(traces.c.n_input),
                func.sum(traces.c.n_output),
                func.sum(traces.c.cost),
                func.coalesce(func.sum(traces.c.n_unpriced), 0),
                func.min(traces.c.user),
                func.count(distinct(traces.c.user)),
            )
            .where(traces.c.project == project, traces.c.session.isnot(None))
            .group_by(traces.c.session)
            .order_by(last.desc(), traces.c.session)
            .limit(limit)
        )
        return [
            TraceSession(row[0], row[1], row[2], row[3], int(row[4]), _whole(row[5]), _whole(row[6]), row[7],
                         int(row[8]), *row[9:])
            for row in self._rows(statement)
        ]  # fmt: skip

    def scores(self, project: int, trace_id: bytes) -> list[TraceScore]:
        """Return the scores of a trace, its spans, its responses and its session, in the order of their times."""
        statement = (
            select(*_SCORE_COLUMNS)
            .where(trace_scores.c.project == project, or_(*scores_of_trace(project, trace_id)))
            .order_by(trace_scores.c.observed, trace_scores.c.digest)
        )
        rows = self._rows(statement)
        return [_score(row) for row in rows]

    def all_spans(self, project: int) -> Iterator[SpanRow]:
        """Yield every span of a project, trace by trace, the earliest first; a trace added meanwhile may be missed."""
        statement = select(traces.c.trace_id).where(traces.c.project == project).order_by(traces.c.at)
        with self._database.reading() as connection:
            ids = [bytes(trace_id) for trace_id in connection.execute(statement).scalars()]
        for trace_id in ids:
            yield from self.spans(project, trace_id)

    def problems(self) -> list[str]:
        """Return a line for each trace of which a span's bytes are not those that were stored."""
        every = [(row[0], bytes(row[1])) for row in self._rows(select(traces.c.project, traces.c.trace_id))]
        lines: list[str] = []
        for project, trace_id in every:
            try:
                n_spans = len(self.spans(project, trace_id))
            except HashMismatch as error:
                lines.append(str(error))
                continue
            if n_spans != (counted := self.trace(project, trace_id).n_spans):
                lines.append(f"trace {trace_id.hex()} has {n_spans:,} spans, and its row says {counted:,}")
        return lines

    # --------------------------------------------------------------------------------------- removing

    def prune(self, project: int, *, older_than: float | None = None, most_bytes: int | None = None) -> int:
        """Remove traces; return how many.

        Args:
            older_than: seconds: traces whose last span came longer ago.
            most_bytes: the latest traces that have so many bytes together stay.
        """
        n_removed = 0
        if older_than is not None:
            statement = select(traces.c.trace_id).where(
                traces.c.project == project, traces.c.received < time.time() - older_than
            )
            n_removed += self._remove_traces(project, statement)
        if most_bytes is not None:
            total = func.sum(traces.c.n_bytes).over(order_by=(traces.c.received.desc(), traces.c.trace_id))
            summed = select(traces.c.trace_id, total.label("total")).where(traces.c.project == project).subquery()
            n_removed += self._remove_traces(project, select(summed.c.trace_id).where(summed.c.total > most_bytes))
        with self._database.writing() as connection:
            used = select(spans.c.source).where(spans.c.project == project)
            unused = (span_sources.c.project == project) & span_sources.c.digest.not_in(used)
            if n_removed:
                connection.execute(delete(span_sources).where(unused))
        self._database.shrink()
        return n_removed

    def _remove_traces(self, project: int, statement: Select[bytes]) -> int:
        """Remove the traces that a query selects, a few in each transaction."""
        with self._database.reading() as connection:
            ids = [bytes(trace_id) for trace_id in connection.execute(statement).scalars()]
        for some in chunks(sorted(ids), DELETED_AT_ONCE):
            with self._database.writing() as connection:
                lock = traces.c.project == project, traces.c.trace_id.in_(some)
                connection.execute(select(traces.c.trace_id).where(*lock).with_for_update())
                of_spans = spans.c.project == project, spans.c.trace_id.in_(some)
                keys = connection.execute(select(spans.c.search_key).where(*of_spans)).scalars().all()
                if keys:
                    connection.execute(_FORGET[connection.dialect.name], [{"key": key} for key in keys])
                connection.execute(delete(spans).where(*of_spans))
                for table in (trace_scores, trace_scorings, trace_queue_claims, trace_queue_items):
                    connection.execute(delete(table).where(table.c.project == project, table.c.trace_id.in_(some)))
                connection.execute(delete(traces).where(*lock))
        return len(ids)


def _add_token(connection: Connection, project: int, scope: str) -> str:
    token = f"asm_{secrets.token_urlsafe(30)}"
    row = {"id": secrets.token_hex(8), "project": project, "scope": scope, "digest": token_digest(token)}
    connection.execute(insert(trace_tokens), {**row, "made": now(connection)})
    return token


def _project_number(connection: Connection, name: str) -> int:
    statement = select(trace_projects.c.id).where(trace_projects.c.name == shown_text(name))
    number = connection.execute(statement).scalar()
    if number is None:
        known = connection.execute(select(trace_projects.c.name).order_by(trace_projects.c.name)).scalars().all()
        raise UnknownName("project", name[:128], known[:5])
    return int(number)


def _matching_traces(connection: Connection, project: int, phrases: Sequence[str]) -> tuple[list[bytes], bool] | None:
    """Return the traces of the latest spans that have all phrases, and whether there may be more; None without any."""
    if not inspect(connection).has_table(SPAN_SEARCH_TABLE):
        return None
    if connection.dialect.name == "sqlite":
        quoted = " ".join('"' + shown_text(phrase).replace('"', '""') + '"' for phrase in phrases)
        words = {"query": f'project : "p{project}" AND document : ({quoted})', "most": MOST_MATCHES}
        keys = list(connection.execute(_SEARCH["sqlite"], words).scalars())
    else:
        tests = " AND ".join(f"document @@ phraseto_tsquery('simple', :w{at})" for at in range(len(phrases)))
        statement = sql(
            f"SELECT search_key FROM {SPAN_SEARCH_TABLE} WHERE project = :project AND {tests} "  # noqa: S608
            "ORDER BY search_key DESC LIMIT :most"
        )
        values = {f"w{at}": shown_text(phrase) for at, phrase in enumerate(phrases)}
        keys = list(connection.execute(statement, {"project": project, "most": MOST_MATCHES, **values}).scalars())
    ids: dict[bytes, None] = {}
    for some in chunks(keys):
        # a condition on the project here would make SQLite read the index of the project instead
        of_keys = select(spans.c.project, spans.c.trace_id).where(spans.c.search_key.in_(some))
        rows = connection.execute(of_keys).all()
        ids.update(dict.fromkeys(bytes(trace_id) for owner, trace_id in rows if owner == project))
    return (list(ids), len(keys) == MOST_MATCHES) if ids else None


def _trace_row(row: StoredRow) -> TraceRow:
    values = row._asdict()
    values["trace_id"] = bytes(values["trace_id"])
    values["n_unpriced"] = values["n_unpriced"] or 0
    values["models"] = tuple(name for name in values["models"].split("\n") if name)
    return TraceRow(**values)


def _score(row: StoredRow) -> TraceScore:
    binary = {name: optional_bytes(getattr(row, name)) for name in ("trace_id", "span_id", "rule_version")}
    return TraceScore(**{**row._asdict(), "digest": bytes(row.digest), **binary})


def _span_row(row: StoredRow, sources: dict[bytes, bytes]) -> SpanRow:
    values = row._asdict()
    body = unpack_message(bytes(values["body"]))
    if message_digest(body) != bytes(values.pop("digest")):
        raise HashMismatch(
            f"the span {bytes(row.span_id).hex()} of trace {bytes(row.trace_id).hex()} has not the bytes that were "
            "stored; `assaymark verify` shows what else is damaged"
        )
    packed = bytes(values.pop("source_body"))
    if packed not in sources:
        sources[packed] = unpack_message(packed)
    parent = optional_bytes(values["parent_id"])
    ids = {"trace_id": bytes(row.trace_id), "span_id": bytes(row.span_id), "parent_id": parent}
    return SpanRow(**{**values, **ids, "is_error": bool(row.is_error), "body": body, "source": sources[packed]})


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


TABLES = FeatureTables(TRACE_TABLES, "spans", lambda store: TraceLog(store).problems())
"""Of traces."""
