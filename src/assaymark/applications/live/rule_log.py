"""Rules in the store, the traces that they draw, and the workers that score them.

A worker claims drawn traces (`store.claims`). A trace that has grown meanwhile has another epoch too, so that outdated
scores are not stored.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from sqlalchemy import ColumnElement, Connection, and_, case, delete, exists, func, insert, or_, select, update

from assaymark.applications.live.rule_rows import (
    Completeness,
    DrawnTrace,
    NewRule,
    Rule,
    RuleCounts,
    ScoringOutcome,
    WeightedScore,
    draw_of,
)
from assaymark.applications.live.score_rows import score_row
from assaymark.applications.live.tables import trace_rules, trace_scorings
from assaymark.applications.traces.span_adding import LONGEST_NAME, insert_missing, short_text, stored_name
from assaymark.applications.traces.tables import spans, trace_scores, traces
from assaymark.applications.traces.trace_filters import conditions_of
from assaymark.applications.traces.trace_rows import TraceFilter
from assaymark.errors import UnknownName, UsageError
from assaymark.store.claims import Claims
from assaymark.store.feature_tables import FeatureLog
from assaymark.store.leases import clock_of
from assaymark.store.liveness import Owner
from assaymark.store.packing import optional_bytes, shown_text
from assaymark.store.request_texts import chunks
from assaymark.store.runs import next_id

CLAIMS = Claims(trace_scorings, "waiting", "n_tries", most_tries=3, retry_seconds=30.0)  # of one trace and rule
OVERLAP_SECONDS = 10.0  # looked at again: receivers commit a little later than the time that they note
AT_ONCE = 2000  # traces, looked at in one transaction
READ_AT_ONCE = 5000  # scores

Drawn = tuple[bytes, float]  # trace and its `received`


class RuleLog(FeatureLog):
    """Rules and the traces that they draw. May be used by several threads and processes."""

    # ------------------------------------------------------------------------------------------ rules

    def add(self, project: int, new: NewRule) -> Rule:
        """Store a rule. Raises: UsageError for a name that another rule of the project has, or an invalid one."""
        name = stored_name(new.name, "the rule's")
        with self._database.writing(locked=True) as connection:
            if connection.execute(select(trace_rules.c.id).where(*_kept_rule_named(project, name))).first():
                raise UsageError(f"there is a rule '{name}' already; choose another name, or remove that one first")
            texts = {"name": name, **{key: shown_text(getattr(new, key)) for key in ("filter", "scorer", "score")}}
            rule = Rule(
                **(asdict(new) | texts), id=next_id(connection, trace_rules), project=project, state="active",
                made=time.time(), ended_until=new.begins, open_until=new.begins,
            )  # fmt: skip
            connection.execute(insert(trace_rules), asdict(rule))
            return rule

    def rules(self, project: int | None = None, *, only_active: bool = False) -> list[Rule]:
        """Return the rules of a project, or of all, by name, without removed ones."""
        conditions = [trace_rules.c.state == "active" if only_active else trace_rules.c.state != "removed"]
        if project is not None:
            conditions.append(trace_rules.c.project == project)
        statement = select(trace_rules).where(*conditions).order_by(trace_rules.c.name, trace_rules.c.id)
        return [Rule(**{**row._asdict(), "version": bytes(row.version)}) for row in self._rows(statement)]

    def set_state(self, project: int, name: str, state: str) -> None:
        """Make a rule active, paused or removed; its scores stay. Raises: UnknownName."""
        known_name = shown_text(name)
        with self._database.writing() as connection:
            number = connection.execute(select(trace_rules.c.id).where(*_kept_rule_named(project, known_name))).scalar()
            if number is None:
                known = select(trace_rules.c.name).where(
                    trace_rules.c.project == project, trace_rules.c.state != "removed"
                )
                raise UnknownName("rule", known_name[:LONGEST_NAME], list(connection.execute(known).scalars())[:5])
            connection.execute(update(trace_rules).where(trace_rules.c.id == number).values(state=state))
            if state == "removed":
                open_ones = trace_scorings.c.state.in_(("waiting", "running"))
                connection.execute(delete(trace_scorings).where(*_of_rule(project, number), open_ones))

    def set_version(self, rule: int, version: bytes, scale: str) -> None:
        """Store that another scorer or judge scores for a rule from now on, on the scale that the scorer declares."""
        with self._database.writing() as connection:
            values = {"version": version, "scale": scale}
            connection.execute(update(trace_rules).where(trace_rules.c.id == rule).values(values))

    def number_scores(self, project: int) -> frozenset[str]:
        """Return the names of scores whose scorers declare other values than shares, also of removed rules."""
        here = trace_rules.c.project == project, trace_rules.c.scale == "number"
        with self._database.reading() as connection:
            return frozenset(connection.execute(select(trace_rules.c.score).where(*here)).scalars())

    def counts(self, project: int) -> dict[int, RuleCounts]:
        """Return the number of drawn traces in each state, by rule."""
        statement = (
            select(trace_scorings.c.rule, trace_scorings.c.state, func.count())
            .where(trace_scorings.c.project == project)
            .group_by(trace_scorings.c.rule, trace_scorings.c.state)
        )
        by_rule: dict[int, dict[str, int]] = defaultdict(dict)
        with self._database.reading() as connection:
            for rule, state, n in connection.execute(statement):
                by_rule[rule][state] = int(n)
        return {rule: RuleCounts(**states) for rule, states in by_rule.items()}

    def reasons(self, project: int, rule: int, most: int = 3) -> list[tuple[str, int]]:
        """Return why traces of a rule failed, the most frequent reasons first."""
        n = func.count().label("n")
        statement = (
            select(trace_scorings.c.reason, n)
            .where(*_of_rule(project, rule), trace_scorings.c.reason.isnot(None))
            .where(trace_scorings.c.state.in_(("failed", "waiting")))
            .group_by(trace_scorings.c.reason)
            .order_by(n.desc())
            .limit(most)
        )
        return [(row[0], int(row[1])) for row in self._rows(statement)]

    # ---------------------------------------------------------------------------------------- drawing

    def draw(self, rule: Rule, wanted: TraceFilter, complete: Completeness, at: float | None = None) -> int:
        """Draw from the traces that have become complete since the last time; return how many are to be scored.

        A scored trace that has received another span is drawn again. Concurrent calls by several workers draw each
        trace once.

        Args:
            rule: an active one.
            complete: when traces are complete.
            at: the present, in seconds since 1970, by the clock of the receivers; None: by this machine's.
        """
        present = time.time() if at is None else at
        # up to the latest trace, since a worker's clock that is ahead must not skip later ones
        of_project = select(func.max(traces.c.received)).where(traces.c.project == rule.project)
        with self._database.reading() as connection:
            latest = connection.execute(of_project).scalar()
        if latest is None:
            return 0
        passes = (
            ("ended_until", rule.ended_until, min(present - complete.quiet_s, latest), _root_has_ended()),
            ("open_until", rule.open_until, min(present - complete.longest_s, latest), None),
        )
        n_drawn = 0
        for cursor, begins, until, condition in passes:
            after: tuple[float, bytes] = (max(begins - OVERLAP_SECONDS, rule.begins), b"")
            while after[0] <= until:
                page = self._page(rule.project, wanted, after, until, condition)
                chosen = [each for each in page if draw_of(each[0], rule.score) < rule.rate]
                last = page[-1][1] if len(page) == AT_ONCE else until
                if chosen or last - begins > OVERLAP_SECONDS:
                    n_drawn += self._put(rule, chosen, cursor, last)
                if len(page) < AT_ONCE:
                    break
                after = (page[-1][1], page[-1][0])
        return n_drawn

    def _page(
        self,
        project: int,
        wanted: TraceFilter,
        after: tuple[float, bytes],
        until: float,
        condition: ColumnElement[bool] | None,
    ) -> list[Drawn]:
        received, trace_id = traces.c.received, traces.c.trace_id
        statement = (
            select(trace_id, received)
            .where(*conditions_of(project, wanted))
            .where(received >= after[0], received <= until)
            .where(or_(received > after[0], trace_id > after[1]))
            .order_by(received, trace_id)
            .limit(AT_ONCE)
        )
        if condition is not None:
            statement = statement.where(condition)
        return [(bytes(row[0]), row[1]) for row in self._rows(statement)]

    def _put(self, rule: Rule, chosen: Sequence[Drawn], cursor: str, until: float) -> int:
        """Store the traces to score, and the progress of looking; return the number of new traces."""
        key = trace_rules.c.id == rule.id
        with self._database.writing() as connection:
            state = connection.execute(select(trace_rules.c.state).where(key).with_for_update()).scalar()
            if state != "active":
                return 0
            n_drawn = sum(self._put_some(connection, rule, some) for some in chunks(list(chosen)))
            column = trace_rules.c[cursor]
            connection.execute(update(trace_rules).where(key, column < until).values({cursor: until}))
        return n_drawn

    def _put_some(self, connection: Connection, rule: Rule, chosen: Sequence[Drawn]) -> int:
        here = *_of_rule(rule.project, rule.id), trace_scorings.c.trace_id.in_([trace_id for trace_id, _ in chosen])
        statement = select(trace_scorings.c.trace_id, trace_scorings.c.seen).where(*here)
        known = {bytes(row[0]): row[1] for row in connection.execute(statement)}
        fresh = {"n_tries": 0, "not_before": 0.0, "owner": "", "expires": 0.0, "reason": None, "ended": None}
        rows = [
            {"project": rule.project, "rule": rule.id, "trace_id": trace_id, "rate": rule.rate, "seen": received,
             "state": "waiting", "epoch": 0, **fresh}
            for trace_id, received in chosen
            if trace_id not in known
        ]  # fmt: skip
        insert_missing(connection, trace_scorings, rows)
        grown = [(trace_id, received) for trace_id, received in chosen if known.get(trace_id, received) < received]
        for trace_id, received in grown:
            key = _is_drawn(rule.project, rule.id, trace_id)
            values = {"seen": received, "state": "waiting", "epoch": trace_scorings.c.epoch + 1, **fresh}
            connection.execute(update(trace_scorings).where(key).values(values))
        return len(rows) + len(grown)

    # --------------------------------------------------------------------------------------- claiming

    def claim(self, rule: Rule, owner: Owner, seconds: float, most: int) -> list[DrawnTrace]:
        """Take drawn traces of a rule for `seconds`.

        The table is read before it is written, so that idle workers write nothing.
        """
        with self._database.reading() as connection:
            if (
                connection.execute(select(trace_scorings.c.rule).where(_may_take(connection, rule)).limit(1)).first()
                is None
            ):
                return []
        with self._database.writing() as connection:
            is_active = select(trace_rules.c.id).where(trace_rules.c.id == rule.id, trace_rules.c.state == "active")
            if connection.execute(is_active).first() is None:
                return []
            self._give_up(connection, rule)
            first = (
                select(trace_scorings.c.trace_id)
                .where(_may_take(connection, rule))
                .order_by(trace_scorings.c.not_before, trace_scorings.c.seen, trace_scorings.c.trace_id)
                .limit(most)
                .with_for_update(skip_locked=True)
            )
            ids = [bytes(trace_id) for trace_id in connection.execute(first).scalars()]
            if not ids:
                return []
            taking = (
                update(trace_scorings)
                .where(*_of_rule(rule.project, rule.id), trace_scorings.c.trace_id.in_(ids))
                .values(CLAIMS.taken(connection, owner.to_text(), seconds))
                .returning(
                    *(trace_scorings.c.trace_id, trace_scorings.c.rate, trace_scorings.c.seen),
                    *(trace_scorings.c.n_tries, trace_scorings.c.epoch),
                )
            )
            rows = connection.execute(taking).all()
        return [
            DrawnTrace(rule.id, rule.project, bytes(row[0]), row[1], row[2], row[3], row[4])
            for row in sorted(rows, key=lambda row: bytes(row[0]))
        ]

    def _give_up(self, connection: Connection, rule: Rule) -> None:
        """Fail the traces whose last allowed worker ended, too."""
        reason = f"the worker that scored it ended, {CLAIMS.most_tries} times"
        values = {"state": "failed", "owner": "", "reason": reason, "ended": time.time()}
        lost = *_of_rule(rule.project, rule.id), CLAIMS.is_spent(connection)
        connection.execute(update(trace_scorings).where(*lost).values(values))

    def expire_dead(self) -> None:
        """End the claims of processes of this machine that are known to have ended."""
        CLAIMS.expire_dead(self._database)

    def renew(self, held: Sequence[DrawnTrace], seconds: float) -> None:
        """Hold claimed traces for `seconds` from now, except those that were taken over."""
        with self._database.writing() as connection:
            for drawn in held:
                statement = update(trace_scorings).where(_is_held(drawn))
                connection.execute(statement.values(expires=clock_of(connection) + seconds))

    def release(self, held: Sequence[DrawnTrace]) -> None:
        """Put claimed traces back for the next worker at once, without counting the try."""
        with self._database.writing() as connection:
            for drawn in held:
                connection.execute(update(trace_scorings).where(_is_held(drawn)).values(CLAIMS.returned()))

    # ---------------------------------------------------------------------------------------- results

    def finish(self, outcomes: Sequence[ScoringOutcome]) -> int:
        """Store the outcomes of claimed traces, in one transaction; return how many were still held.

        Scores replace the rule's earlier ones of the same trace. Nothing is stored of a trace that another worker has
        taken over, or that was removed.
        """
        received = time.time()
        n_stored = 0
        with self._database.writing(durable=True) as connection:
            for outcome in sorted(outcomes, key=lambda each: each.drawn.trace_id):
                n_stored += self._finish(connection, outcome, received)
        return n_stored

    def _finish(self, connection: Connection, outcome: ScoringOutcome, received: float) -> bool:
        drawn = outcome.drawn
        # the trace's row is locked first, as by writers of spans, so that no span is added between check and score
        of_trace = traces.c.project == drawn.project, traces.c.trace_id == drawn.trace_id
        last = connection.execute(select(traces.c.received).where(*of_trace).with_for_update()).scalar()
        held = connection.execute(select(trace_scorings.c.rule).where(_is_held(drawn)).with_for_update()).first()
        if held is None or last is None:
            return False
        is_retried = outcome.reason is not None and outcome.may_retry and drawn.n_tries < CLAIMS.most_tries
        values: dict[str, object] = {"owner": "", "reason": short_text(outcome.reason), "expires": 0.0}
        if is_retried:
            values |= CLAIMS.retried(connection, drawn.n_tries)
        else:
            state = "failed" if outcome.reason is not None else "scored" if outcome.scores else "empty"
            values |= {"state": state, "ended": received}
            earlier = trace_scores.c.project == drawn.project, trace_scores.c.trace_id == drawn.trace_id
            connection.execute(delete(trace_scores).where(*earlier, trace_scores.c.rule == drawn.rule))
            rows = [score_row(drawn.project, score, received) for score in outcome.scores]
            for row in rows:
                row["stale"] = last if last > drawn.seen else None
            if rows:
                connection.execute(insert(trace_scores), rows)
        connection.execute(update(trace_scorings).where(_is_held(drawn)).values(values))
        return True

    def weighted_scores(
        self, project: int, *, name: str | None = None, since: int | None = None
    ) -> Iterator[WeightedScore]:
        """Yield the scores of a project with their rates, as they are read.

        Those of one name, source, version and rule version follow each other; among them those of one session, and of
        one trace, the highest rate first.

        Args:
            project: of these.
            name: of the scores; None: all.
            since: nanoseconds since 1970, of the trace of a rule's score, else of the score.
        """
        here = [trace_scores.c.project == project]
        if name is not None:
            here.append(trace_scores.c.name == shown_text(name))
        if since is not None:
            here.append(trace_scores.c.observed >= since)
        of_trace = and_(traces.c.project == trace_scores.c.project, traces.c.trace_id == trace_scores.c.trace_id)
        session = func.coalesce(trace_scores.c.session, traces.c.session)
        statement = (
            select(
                *(trace_scores.c.name, trace_scores.c.source, traces.c.version, trace_scores.c.rule_version),
                *(trace_scores.c.value, trace_scores.c.label, trace_scores.c.rate),
                case((trace_scores.c.error.isnot(None), 1), else_=0),
                case((trace_scores.c.stale.isnot(None), 1), else_=0),
                *(session, trace_scores.c.trace_id),
            )
            .select_from(trace_scores.outerjoin(traces, of_trace))
            .where(*here)
            .order_by(trace_scores.c.name, trace_scores.c.source, traces.c.version, trace_scores.c.rule_version)
            .order_by(session, trace_scores.c.trace_id, func.coalesce(trace_scores.c.rate, 0.0).desc())
            .order_by(trace_scores.c.observed, trace_scores.c.digest)
            .execution_options(yield_per=READ_AT_ONCE)
        )
        with self._database.reading() as connection:
            for row in connection.execute(statement):
                yield WeightedScore(
                    *row[:3], optional_bytes(row[3]), *row[4:7], bool(row[7]), bool(row[8]), row[9],
                    optional_bytes(row[10])
                )  # fmt: skip


def _kept_rule_named(project: int, name: str) -> list[ColumnElement[bool]]:
    return [trace_rules.c.project == project, trace_rules.c.name == name, trace_rules.c.state != "removed"]


def _of_rule(project: int, rule: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return trace_scorings.c.project == project, trace_scorings.c.rule == rule


def _is_drawn(project: int, rule: int, trace_id: bytes) -> ColumnElement[bool]:
    return and_(*_of_rule(project, rule), trace_scorings.c.trace_id == trace_id)


def _is_held(drawn: DrawnTrace) -> ColumnElement[bool]:
    return and_(_is_drawn(drawn.project, drawn.rule, drawn.trace_id), CLAIMS.is_held(drawn.epoch))


def _may_take(connection: Connection, rule: Rule) -> ColumnElement[bool]:
    """Return the condition that a drawn trace of a rule may be claimed: it waits, or its claim has expired."""
    is_free = or_(CLAIMS.may_begin(connection), CLAIMS.has_lapsed(connection))
    return and_(*_of_rule(rule.project, rule.id), is_free)


def _root_has_ended() -> ColumnElement[bool]:
    roots = and_(
        spans.c.project == traces.c.project, spans.c.trace_id == traces.c.trace_id, spans.c.parent_id.is_(None)
    )
    return exists().where(roots, spans.c.ended.isnot(None)).correlate(traces)
