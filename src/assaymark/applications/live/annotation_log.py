"""Queues of annotations in the store: traces to rate, the raters' claims, and their ratings.

A rater claims an item for some minutes; at most as many raters as the queue wants hold or have rated an item. A rating
is a score of the trace, so it is shown, listed and counted like any other.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, FromClause, Row, and_, delete, func, insert, or_, select, update

from assaymark.applications.live.score_rows import score_row
from assaymark.applications.live.tables import trace_queue_claims, trace_queue_items, trace_queues
from assaymark.applications.traces.span_adding import LONGEST_NAME, insert_missing, message_digest, stored_name
from assaymark.applications.traces.tables import trace_scores, traces
from assaymark.applications.traces.trace_rows import TraceScore
from assaymark.errors import UnknownName, UsageError
from assaymark.store.feature_tables import FeatureLog
from assaymark.store.leases import clock_of, now
from assaymark.store.packing import shown_text
from assaymark.store.request_texts import chunks
from assaymark.store.runs import next_id
from assaymark.store.schema import upsert

LONGEST_RATER = 64
LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class AnnotationQueue:
    """A queue. rubric: thumbs, a scale such as 1-5, or labels between commas; n_raters: of each trace."""

    id: int
    project: int
    name: str
    rubric: str
    n_raters: int
    n_items: int
    n_done: int
    n_ratings: int

    json_keys = "name rubric raters_of_each=n_raters traces=n_items done=n_done"


class QueueItem(NamedTuple):
    """A trace that a rater holds. n_left: items of the queue that this rater could take after it."""

    trace_id: bytes
    reason: str
    n_left: int


class QueueRating(NamedTuple):
    """A rater's rating of a trace."""

    trace_id: bytes
    rater: str
    value: float | None
    label: str | None


class AnnotationLog(FeatureLog):
    """Queues, their items and ratings. May be used by several threads and processes."""

    def add_queue(self, project: int, name: str, rubric: str, n_raters: int) -> AnnotationQueue:
        """Make a queue, or return the one of this name.

        Raises: UsageError for an invalid name, or a queue of this name with another rubric or number of raters.
        """
        kept_name = stored_name(name, "the queue's")
        with self._database.writing(locked=True) as connection:
            here = trace_queues.c.project == project, trace_queues.c.name == kept_name
            known = connection.execute(select(trace_queues).where(*here)).one_or_none()
            if known is None:
                row = {"id": next_id(connection, trace_queues), "project": project, "name": kept_name,
                       "rubric": rubric, "n_raters": n_raters, "made": time.time()}  # fmt: skip
                connection.execute(insert(trace_queues), row)
            elif (known.rubric, known.n_raters) != (rubric, n_raters):
                raise UsageError(
                    f"the queue '{kept_name}' has the rubric {known.rubric} and {known.n_raters} raters of each "
                    "trace; name these, or choose another name"
                )
        return self.queue(project, kept_name)

    def queue(self, project: int, name: str) -> AnnotationQueue:
        """Return a queue. Raises: UnknownName."""
        known = self.queues(project)
        queue = next((each for each in known if each.name == name), None)
        if queue is None:
            raise UnknownName("queue", name[:LONGEST_NAME], [each.name for each in known][:5])
        return queue

    def queues(self, project: int) -> list[AnnotationQueue]:
        """Return the queues of a project by name."""
        statement = select(trace_queues).where(trace_queues.c.project == project).order_by(trace_queues.c.name)
        of_items = (
            select(trace_queue_items.c.queue, func.count(), func.sum(trace_queue_items.c.is_done))
            .where(trace_queue_items.c.project == project)
            .group_by(trace_queue_items.c.queue)
        )
        of_claims = (
            select(trace_queue_claims.c.queue, func.count())
            .where(trace_queue_claims.c.project == project, trace_queue_claims.c.rated.isnot(None))
            .group_by(trace_queue_claims.c.queue)
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
            items = {row[0]: (int(row[1]), int(row[2])) for row in connection.execute(of_items)}
            ratings = {row[0]: int(row[1]) for row in connection.execute(of_claims)}
        return [
            AnnotationQueue(row.id, row.project, row.name, row.rubric, row.n_raters, *items.get(row.id, (0, 0)),
                            ratings.get(row.id, 0))
            for row in rows
        ]  # fmt: skip

    def remove_queue(self, queue: AnnotationQueue) -> None:
        """Remove a queue; the ratings stay with the traces."""
        with self._database.writing() as connection:
            for table in (trace_queue_claims, trace_queue_items):
                connection.execute(delete(table).where(table.c.project == queue.project, table.c.queue == queue.id))
            connection.execute(delete(trace_queues).where(trace_queues.c.id == queue.id))

    def add_items(self, queue: AnnotationQueue, trace_ids: Sequence[bytes], reason: str) -> int:
        """Put traces into a queue, in this order; return the number of new ones. Removed traces are left out."""
        wanted = list(dict.fromkeys(trace_ids))
        n_new = 0
        with self._database.writing(locked=True) as connection:
            last = select(func.max(trace_queue_items.c.position)).where(*_in_queue(trace_queue_items, queue))
            position = int(connection.execute(last).scalar() or 0)
            for some in chunks(wanted):
                there = _ids(connection, traces, traces.c.project == queue.project, traces.c.trace_id.in_(some))
                known = _ids(connection, trace_queue_items, *_in_queue(trace_queue_items, queue),
                             trace_queue_items.c.trace_id.in_(some))  # fmt: skip
                new = [trace_id for trace_id in some if trace_id in there - known]
                rows = [
                    {"project": queue.project, "queue": queue.id, "trace_id": trace_id, "position": position + at,
                     "reason": shown_text(reason)[:LONGEST_REASON], "added": time.time(), "is_done": 0}
                    for at, trace_id in enumerate(new, 1)
                ]  # fmt: skip
                insert_missing(connection, trace_queue_items, rows)
                position += len(new)
                n_new += len(new)
        return n_new

    def claim(self, queue: AnnotationQueue, rater: str, seconds: float) -> QueueItem | None:
        """Give a rater an item for some time: the one that this rater holds already, else the first free one.

        Raises: UsageError for an invalid name of a rater.
        """
        name = stored_name(rater, "the rater's", LONGEST_RATER)
        with self._database.writing(locked=True) as connection:  # two raters must not take an item's last place
            free = self._free(connection, queue, name)
            if not free:
                return None
            trace_id, reason = bytes(free[0][0]), free[0][1]
            row = {"project": queue.project, "queue": queue.id, "trace_id": trace_id, "rater": name,
                   "expires": now(connection) + seconds, "rated": None, "is_skipped": 0}  # fmt: skip
            connection.execute(upsert(connection.dialect.name, trace_queue_claims), row)
            return QueueItem(trace_id, reason, len(free) - 1)

    def _free(self, connection: Connection, queue: AnnotationQueue, rater: str) -> list[Row[bytes, str]]:
        """Return the items that a rater may take, in their order, with those that the rater holds first."""
        claims = trace_queue_claims.alias()
        own = and_(
            *_in_queue(claims, queue), claims.c.trace_id == trace_queue_items.c.trace_id, claims.c.rater == rater
        )
        others = trace_queue_claims.alias()
        held_by_others = (
            select(func.count())
            .where(
                *_in_queue(others, queue), others.c.trace_id == trace_queue_items.c.trace_id, others.c.rater != rater
            )
            .where(others.c.is_skipped == 0)
            .where(or_(others.c.rated.isnot(None), others.c.expires > clock_of(connection)))
            .scalar_subquery()
        )
        statement = (
            select(trace_queue_items.c.trace_id, trace_queue_items.c.reason)
            .select_from(trace_queue_items.outerjoin(claims, own))
            .where(*_in_queue(trace_queue_items, queue), trace_queue_items.c.is_done == 0)
            .where(or_(claims.c.rater.is_(None), and_(claims.c.rated.is_(None), claims.c.is_skipped == 0)))
            .where(held_by_others < queue.n_raters)
            .order_by(claims.c.rater.is_(None), trace_queue_items.c.position)
        )
        return list(connection.execute(statement).all())

    def rate(self, queue: AnnotationQueue, rater: str, score: TraceScore) -> None:
        """Store a rater's rating of an item; it replaces an earlier one.

        Raises: UsageError if the item is not in the queue, or others have already given all wanted ratings.
        """
        name = stored_name(rater, "the rater's", LONGEST_RATER)
        if score.trace_id is None:
            raise UsageError("a rating names no trace")
        with self._database.writing(durable=True, locked=True) as connection:
            item = and_(*_in_queue(trace_queue_items, queue), trace_queue_items.c.trace_id == score.trace_id)
            if connection.execute(select(trace_queue_items.c.queue).where(item)).first() is None:
                raise UsageError(f"trace {score.trace_id.hex()[:8]} is not in the queue '{queue.name}' any more")
            claims = and_(*_in_queue(trace_queue_claims, queue), trace_queue_claims.c.trace_id == score.trace_id)
            rated = select(func.count()).where(
                claims, trace_queue_claims.c.rated.isnot(None), trace_queue_claims.c.rater != name
            )
            n_others = int(connection.execute(rated).scalar_one())
            if n_others >= queue.n_raters:
                raise UsageError(
                    f"{n_others} others have rated this trace meanwhile, as many as should; take the next one"
                )
            row = {"project": queue.project, "queue": queue.id, "trace_id": score.trace_id, "rater": name,
                   "expires": 0.0, "rated": time.time(), "is_skipped": 0}  # fmt: skip
            connection.execute(upsert(connection.dialect.name, trace_queue_claims), row)
            digest = message_digest(f"queue {queue.id} {score.trace_id.hex()} {name}")
            values = {
                **score_row(queue.project, score, time.time()),
                "digest": digest,
                "rater": name,
                "source": "queue",
            }
            connection.execute(upsert(connection.dialect.name, trace_scores), values)
            if n_others + 1 >= queue.n_raters:
                connection.execute(update(trace_queue_items).where(item).values(is_done=1))

    def skip(self, queue: AnnotationQueue, rater: str, trace_id: bytes) -> None:
        """Note that a rater does not want to rate an item; others may."""
        claim = and_(
            *_in_queue(trace_queue_claims, queue),
            trace_queue_claims.c.trace_id == trace_id,
            trace_queue_claims.c.rater == stored_name(rater, "the rater's", LONGEST_RATER),
            trace_queue_claims.c.rated.is_(None),
        )
        with self._database.writing() as connection:
            connection.execute(update(trace_queue_claims).where(claim).values(is_skipped=1, expires=0.0))

    def ratings(self, queue: AnnotationQueue) -> list[QueueRating]:
        """Return the raters' answers by trace and rater."""
        of_claim = and_(
            trace_scores.c.project == trace_queue_claims.c.project,
            trace_scores.c.trace_id == trace_queue_claims.c.trace_id,
            trace_scores.c.rater == trace_queue_claims.c.rater,
            trace_scores.c.name == queue.name,
            trace_scores.c.source == "queue",
        )
        statement = (
            select(*(trace_scores.c[name] for name in QueueRating._fields))
            .select_from(trace_queue_claims.join(trace_scores, of_claim))
            .where(*_in_queue(trace_queue_claims, queue), trace_queue_claims.c.rated.isnot(None))
            .order_by(trace_scores.c.trace_id, trace_scores.c.rater)
        )
        return [QueueRating(bytes(row[0]), *row[1:]) for row in self._rows(statement)]


def _in_queue(table: FromClause, queue: AnnotationQueue) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return table.c.project == queue.project, table.c.queue == queue.id


def _ids(connection: Connection, table: FromClause, *conditions: ColumnElement[bool]) -> set[bytes]:
    return {bytes(row) for row in connection.execute(select(table.c.trace_id).where(*conditions)).scalars()}
