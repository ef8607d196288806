"""The worker of live monitoring: it draws traces by the active rules, scores them, and stores the scores.

Any number of workers may share a store. Traces of a killed worker are scored by another one; see `rule_log`.
"""

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from assaymark.applications.judging_scores import MOST_TOKENS, JudgedAnswer, judge_rows
from assaymark.applications.live.answered_traces import answered_trace, read_trace
from assaymark.applications.live.rule_log import RuleLog
from assaymark.applications.live.rule_rows import Completeness, DrawnTrace, Rule, ScoringOutcome
from assaymark.applications.live.rules import rule_code, rule_scorer, rule_version
from assaymark.applications.scorer import Answered, JudgedScorer, Result
from assaymark.applications.scorer_calls import ScorerCalls, WrongResult
from assaymark.applications.scorers.named import AnyScorer
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.span_adding import LONGEST_NAME, message_digest
from assaymark.applications.traces.trace_rows import TraceRow, TraceScore
from assaymark.errors import AssaymarkError, DataError, HashMismatch, StoreError, UnknownName, UsageError
from assaymark.judges.judge import open_judge
from assaymark.models.model import Model
from assaymark.records import GenerationSettings, QueryKind, Request, Sample, content_hash
from assaymark.settings import lease_seconds
from assaymark.store import Store
from assaymark.store.liveness import Owner

AT_ONCE = 32  # traces that are claimed together
LONGEST_COMMENT = 2000
RENEWALS = 3  # per lease


@dataclass
class RoundCounts:
    """Counts of one round. problems: of rules whose scorer or judge cannot be used now."""

    n_drawn: int = 0
    n_scored: int = 0
    n_empty: int = 0  # the scorer gave neither value nor label
    n_failed: int = 0  # of these some are tried again
    n_lost: int = 0  # taken over by another worker, or removed, meanwhile
    problems: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        """Traces that were scored or tried."""
        return self.n_scored + self.n_empty + self.n_failed


@dataclass(frozen=True)
class _Ready:
    """A rule whose scorer and judge can be used. version: of both, as stored with scores."""

    rule: Rule
    scorer: AnyScorer
    judge: Model | None
    version: bytes


@dataclass(frozen=True)
class _HeldTraces:
    """A drawn trace that was read. answered: None if it cannot be scored, for the reason `why`."""

    drawn: DrawnTrace
    trace: TraceRow | None
    answered: Answered | None
    why: str = ""


class ScoringWorker:
    """Scores traces of a store by its rules, in rounds."""

    def __init__(
        self,
        store: Store,
        *,
        project: int | None = None,
        complete: Completeness = Completeness(),  # noqa: B008 - frozen
        timeout_s: float = 60.0,
        judges: Callable[[str, str | None], Model] | None = None,
    ) -> None:
        """Make a worker.

        Args:
            store: open for writing.
            project: whose rules are followed; None: of every project.
            complete: when a trace counts as complete.
            timeout_s: of one call of a scorer that is a function.
            judges: opens the judge that a rule names; None: as `assaymark run --judge` does.
        """
        self._store, self._project, self._complete = store, project, complete
        self._calls = ScorerCalls(timeout_s)
        self._open_judge = judges or open_judge
        self._judges: dict[tuple[str, str | None], Model] = {}
        self._loaded: dict[str, tuple[object, AnyScorer]] = {}  # code and scorer
        self._owner = Owner.this_process(uuid.uuid4().hex)

    def round(self, at: float | None = None) -> RoundCounts:
        """Draw the traces that have become complete, and score until no more can be scored now.

        at: the present by the receivers' clock, seconds since 1970; None: by this machine's.

        Raises: StoreError.
        """
        counts = RoundCounts()
        RuleLog(self._store).expire_dead()
        for rule in RuleLog(self._store).rules(self._project, only_active=True):
            try:
                ready = self._ready(rule)
                wanted = ListQuery.of_text(rule.filter).filter()
                counts.n_drawn += RuleLog(self._store).draw(rule, wanted, self._complete, at)
                self._score_all(ready, counts)
            except StoreError:
                raise
            except AssaymarkError as error:
                counts.problems.append(f"rule '{rule.name}': {error}")
        return counts

    def watch(self, every_s: float, report: Callable[[RoundCounts], None], is_over: threading.Event) -> None:
        """Make a round every few seconds until the event is set; a busy store is retried in the next."""
        while not is_over.is_set():
            try:
                report(self.round())
            except StoreError as error:
                report(RoundCounts(problems=[str(error)]))
            is_over.wait(every_s)

    def _ready(self, rule: Rule) -> _Ready:
        """Return a rule ready to score. Raises: UsageError, ModelError and other errors of ours if it is not."""
        scorer = self._scorer(rule.scorer)
        judge = None
        if isinstance(scorer, JudgedScorer):
            if rule.judge is None:
                raise UsageError(f"scorer '{scorer.facts.name}' asks a judge, and the rule names none; make it again")
            key = rule.judge, rule.judge_args
            if key not in self._judges:
                self._judges[key] = self._open_judge(*key)
            judge = self._judges[key]
            if QueryKind.GENERATE not in judge.answers:
                raise UsageError(f"{judge.identity.name} generates no text, so it cannot be a judge")
        content = None if judge is None else judge.identity.content_hash
        version = rule_version(scorer, rule.judge, rule.judge_args, content)
        if (version, scorer.facts.scale) != (rule.version, rule.scale):
            RuleLog(self._store).set_version(rule.id, version, scorer.facts.scale)
        return _Ready(rule, scorer, judge, version)

    def _scorer(self, text: str) -> AnyScorer:
        """Return a rule's scorer, under the hash that its files had when it was loaded: what is edited later waits."""
        code = rule_code(text)
        loaded = self._loaded.get(text)
        if loaded is None or loaded[0] is not code:
            loaded = self._loaded[text] = code, rule_scorer(text)
        return loaded[1]

    def _score_all(self, ready: _Ready, counts: RoundCounts) -> None:
        seconds = lease_seconds()
        while drawn := RuleLog(self._store).claim(ready.rule, self._owner, seconds, AT_ONCE):
            try:
                with self._kept(drawn, seconds):
                    outcomes = self._outcomes(ready, drawn)
            except BaseException:
                RuleLog(self._store).release(drawn)
                raise
            n_stored = RuleLog(self._store).finish(outcomes)
            counts.n_lost += len(outcomes) - n_stored
            counts.n_failed += sum(each.reason is not None for each in outcomes)
            counts.n_scored += sum(each.reason is None and bool(each.scores) for each in outcomes)
            counts.n_empty += sum(each.reason is None and not each.scores for each in outcomes)

    @contextmanager
    def _kept(self, drawn: Sequence[DrawnTrace], seconds: float) -> Iterator[None]:
        """Renew the claim on traces while the block runs."""
        is_over = threading.Event()

        def renew() -> None:
            while not is_over.wait(seconds / RENEWALS):
                try:
                    RuleLog(self._store).renew(drawn, seconds)
                except StoreError:  # until the claim expires there is time to try again
                    continue

        thread = threading.Thread(target=renew, name="trace claims", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _outcomes(self, ready: _Ready, drawn: Sequence[DrawnTrace]) -> list[ScoringOutcome]:
        held = [self._read(each) for each in drawn]
        if ready.judge is not None:
            ready.judge.check()
            return self._judged(ready, ready.judge, held)
        return [self._scored(ready, each) for each in held]

    def _read(self, drawn: DrawnTrace) -> _HeldTraces:
        try:
            trace, steps = read_trace(self._store, drawn.project, drawn.trace_id)
        except (UnknownName, DataError, HashMismatch) as error:
            return _HeldTraces(drawn, None, None, str(error))
        try:
            return _HeldTraces(drawn, trace, answered_trace(trace, steps))
        except DataError as error:
            return _HeldTraces(drawn, trace, None, str(error))

    def _scored(self, ready: _Ready, held: _HeldTraces) -> ScoringOutcome:
        if held.answered is None:
            return _failed(ready, held, held.why, may_retry=False)
        if isinstance(ready.scorer, JudgedScorer):
            raise UsageError(f"scorer '{ready.scorer.facts.name}' asks a judge, and none is open")
        name = ready.scorer.facts.name
        try:
            return _outcome(ready, held, self._calls.results(ready.scorer, held.answered))
        except Exception as error:  # noqa: BLE001 - whatever a scorer raises is a failed score
            return _failed(ready, held, self._calls.why(name, error))

    def _judged(self, ready: _Ready, judge: Model, held: Sequence[_HeldTraces]) -> list[ScoringOutcome]:
        scorer = ready.scorer
        if not isinstance(scorer, JudgedScorer):
            raise UsageError(f"scorer '{scorer.facts.name}' asks no judge")
        answers = {at: _judged_answer(at, each.answered) for at, each in enumerate(held) if each.answered is not None}
        settings = GenerationSettings(max_tokens=MOST_TOKENS)
        results = judge_rows([scorer], list(answers.values()), judge, judge.answer, settings)
        outcomes = []
        for at, each in enumerate(held):
            if at not in answers:
                outcomes.append(_failed(ready, each, each.why, may_retry=False))
                continue
            result = results[0, answers[at].request.id, 0]
            if isinstance(result, str):
                outcomes.append(_failed(ready, each, result))
                continue
            try:
                outcomes.append(_outcome(ready, each, result))
            except WrongResult as error:
                outcomes.append(_failed(ready, each, self._calls.why(scorer.facts.name, error)))
        return outcomes


def _judged_answer(at: int, answered: Answered) -> JudgedAnswer:
    content = answered.row.content
    sample = Sample("trace", at, content, content_hash(content))
    return JudgedAnswer(Request(sample.task, at, sample.sha256, (), ()), sample, 0, answered)


def _outcome(ready: _Ready, held: _HeldTraces, results: Sequence[Result]) -> ScoringOutcome:
    """Return a scorer's results as scores. Raises: WrongResult for a name that cannot be stored."""
    scores: dict[str, TraceScore] = {}
    for result in results:
        name = result.name.strip()
        if not 0 < len(name) <= LONGEST_NAME:
            raise WrongResult(
                f"returned a result named '{name:.80}'; expected a name of 1 to {LONGEST_NAME} characters"
            )
        is_number = result.value is not None and math.isfinite(result.value)
        if is_number or result.label is not None:
            value = float(result.value) if is_number and result.value is not None else None
            comment = None if result.comment is None else result.comment[:LONGEST_COMMENT]
            scores[name] = replace(_score(ready, held, name), value=value, label=result.label, explanation=comment)
    return ScoringOutcome(held.drawn, tuple(scores.values()))


def _failed(ready: _Ready, held: _HeldTraces, why: str, *, may_retry: bool = True) -> ScoringOutcome:
    reason = " ".join(why.split())[:LONGEST_COMMENT]
    failed = replace(_score(ready, held, ready.rule.score), error=reason)
    return ScoringOutcome(held.drawn, (failed,), reason, may_retry)


def _score(ready: _Ready, held: _HeldTraces, name: str) -> TraceScore:
    """Return a score of a rule's trace, still without its value."""
    drawn = held.drawn
    identity = f"rule {drawn.rule} {drawn.trace_id.hex()} {name}"
    return TraceScore(
        digest=message_digest(identity),
        trace_id=drawn.trace_id,
        name=name,
        observed=time.time_ns() if held.trace is None else held.trace.at,
        source="rule",
        rule=drawn.rule,
        rule_version=ready.version,
        rate=drawn.rate,
    )
