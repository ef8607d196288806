"""Gates for tests: a stored run passes only where the interval of a metric shows that it meets a condition.

Three outcomes: the bound meets the condition (pass), the whole interval is on the other side (fail), or there are too
few rows to say (undecided). Rows whose call or score failed fail a gate too, since their scores are not known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from assaymark.errors import UnknownName, UsageError
from assaymark.records import Estimate, ScoreStatus
from assaymark.registry import nearest

if TYPE_CHECKING:
    from assaymark.results.comparison.gates import BoundResult
    from assaymark.results.comparison.records import Difference
    from assaymark.runs.run import Run

Undecided = Literal["fail", "pass", "skip"]
CONFIDENCE = 0.95  # of the one-sided bounds, as of `compare --gate`


class GateFailed(AssertionError):
    """A run that does not meet a condition, or is not shown to; `result` has the numbers."""

    def __init__(self, result: "GateResult") -> None:
        super().__init__(result.message)
        self.result = result


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of a gate. bound: the one-sided bound that was compared, of the value or of its gain."""

    metric: str
    condition: str
    outcome: Literal["pass", "fail", "undecided"]
    estimate: float | None
    bound: float | None
    n: int
    n_failed: int
    n_needed: int | None
    message: str

    @property
    def properties(self) -> list[tuple[str, str]]:
        """The numbers as texts, by name: for JUnit's properties."""
        values: dict[str, object] = {
            "outcome": self.outcome, "estimate": self.estimate, "bound": self.bound, "n": self.n,
            "n_failed": self.n_failed, "n_needed": self.n_needed,
        }  # fmt: skip
        own = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in values.items()
               if value is not None}  # fmt: skip
        return [(f"{self.metric}, {self.condition}: {name}", text) for name, text in own.items()]


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults that a test's mark sets for the gates in it."""

    undecided: Undecided = "fail"
    allow_failed: int = 0


CURRENT: list[tuple[Defaults, Callable[[GateResult], None]]] = []
"""The test that runs now, where the plug-in for pytest is loaded: its defaults, and what records a result with it."""


def gate(
    run: "Run",
    metric: str,
    condition: str,
    *,
    baseline: "Run | None" = None,
    task: str | None = None,
    undecided: Undecided | None = None,
    allow_failed: int | None = None,
) -> GateResult:
    """Assert that a run meets a condition on a one-sided 95% bound of a metric.

    Args:
        run: a stored run.
        metric: a metric or scorer of it.
        condition: "lower >= 0.9" or "upper <= 0.1", of the run's own value; with a baseline "not more than 0.02 below
            baseline" ("above", where lower is better), or "better than baseline", compared row by row.
        baseline: the run that it is compared with.
        task: of the run, where it has several.
        undecided: the outcome with too few rows: "fail" (the default), "pass", or "skip" the test.
        allow_failed: rows whose call or score may have failed.

    Raises: GateFailed (an AssertionError) where the condition is not met, or undecided; UsageError for a condition that
        cannot be parsed or no result could meet; UnknownName for a metric that the run does not have.
    """
    __tracebackhide__ = True  # pytest shows the test's line, not ours
    defaults = CURRENT[-1][0] if CURRENT else Defaults()
    undecided = undecided or defaults.undecided
    if undecided not in ("fail", "pass", "skip"):
        raise UsageError(f"undecided is {undecided!r}; expected fail, pass or skip")
    allowed = defaults.allow_failed if allow_failed is None else allow_failed
    result = _result(run, metric, condition, baseline, task, allowed)
    if CURRENT:
        CURRENT[-1][1](result)
    if result.outcome == "undecided" and undecided == "skip":
        import pytest

        pytest.skip(result.message)
    if result.outcome == "fail" or (result.outcome == "undecided" and undecided == "fail"):
        raise GateFailed(result)
    return result


def _result(
    run: "Run", metric: str, condition: str, baseline: "Run | None", task: str | None, allowed: int
) -> GateResult:
    from assaymark.results.comparison.gates import check_against, check_bound, parse_bound_gate
    from assaymark.results.estimate_texts import is_proportion

    parsed = parse_bound_gate(condition)
    if parsed.kind == "baseline" and baseline is None:
        raise UsageError(f"gate '{condition}' needs a run to compare with: baseline=RUN")
    if parsed.kind != "baseline" and baseline is not None:
        raise UsageError(
            f"gate '{condition}' is about one run; expected 'not more than 0.02 below baseline', or no baseline"
        )
    estimate = _estimate(run, metric, task)
    if baseline is None:
        bound_result = check_bound(
            parsed, _values(run, estimate), is_share=is_proportion(estimate), confidence=CONFIDENCE
        )
    else:
        bound_result = check_against(parsed, _difference(baseline, run, estimate))
    n_failed = estimate.n_failed
    n_planned = next(each.n_samples for each in run.row.plan.tasks if each.name == estimate.task)
    n_missing = n_planned - estimate.n - n_failed - estimate.n_unparsed
    outcome, why = bound_result.outcome, ""
    if n_missing > 0:
        rows = "row has" if n_missing == 1 else "rows have"
        outcome, why = "fail", f"{n_missing:,} {rows} no answer yet; finish the run by running it again"
    elif n_failed > allowed:
        first = estimate.details.get("first_error")
        rows = "row has" if n_failed == 1 else "rows have"
        outcome, why = "fail", f"{n_failed:,} {rows} no score because a call or its score failed"
        why += f" (first: {first})" if first else ""
    message = _message(estimate, parsed.text, outcome, bound_result, why, baseline)
    return GateResult(
        estimate.metric, parsed.text, outcome, bound_result.estimate, bound_result.bound, bound_result.n, n_failed,
        bound_result.n_needed, message
    )  # fmt: skip


def _estimate(run: "Run", metric: str, task: str | None) -> Estimate:
    """Return the estimate that a gate is about; its task is the only one with this metric."""
    own = [each for each in run.estimates if each.details.get("kind") == "task"]
    if not own:
        run.refuse_without_results()
        raise UsageError(f"run {run.short_id} has no results")
    if task is not None:
        own = [each for each in own if each.task == task]
        if not own:
            raise UnknownName("task in this run", task, nearest(task, run.row.tasks) or run.row.tasks[:5])
    with_metric = [each for each in own if metric in (each.metric, f"{each.metric},{each.filter}")]
    if not with_metric:
        known = dict.fromkeys(each.metric for each in own)
        raise UnknownName("metric of this run", metric, nearest(metric, known) or list(known)[:8])
    if len({each.task for each in with_metric}) > 1:
        names = ", ".join(dict.fromkeys(each.task for each in with_metric))
        raise UsageError(f"run {run.short_id} has {metric} of several tasks ({names}); name one: task=NAME")
    return with_metric[0]


def _values(run: "Run", estimate: Estimate) -> list[float]:
    """Return the scores of an estimate's rows. Raises: UsageError for a metric that is not a mean over rows."""
    from assaymark.results.evidence.from_store import score_rows
    from assaymark.results.evidence.records import row_value
    from assaymark.results.evidence.task_facts import tasks_from
    from assaymark.statistics.aggregate import traits_of

    (facts,) = [each for each in tasks_from(run.row.extra) if each.name == estimate.task]
    aggregation = next((each.aggregation for each in facts.metrics if each.name == estimate.metric), "mean")
    if not traits_of(aggregation).is_mean:
        raise UsageError(f"{estimate.metric} is not a mean over rows ({aggregation}), so a gate has no bound of it")
    rows = score_rows(run.store, run.id, estimate.task)
    own = [row for row in rows if (row.metric, row.filter) == (estimate.metric, estimate.filter)]
    return [row_value(row) for row in own if row.status is not ScoreStatus.FAILED and row.value is not None]


def _difference(baseline: "Run", run: "Run", estimate: Estimate) -> "Difference":
    """Return the comparison of a metric in two runs, row by row."""
    from dataclasses import replace

    from assaymark.results.comparison.compare import compare_runs
    from assaymark.results.comparison.stored_runs import matched_evidence
    from assaymark.results.evidence.from_store import run_evidence

    if baseline.id == run.id:
        raise UsageError(f"run {run.short_id} would be compared with itself; name another baseline")
    _estimate(baseline, estimate.metric, estimate.task)  # raises where it lacks the metric
    evidence = []
    for each in (baseline, run):
        of_run = run_evidence(each.store, each.id)
        tasks = [replace(task, primary_metric=estimate.metric) for task in of_run.tasks if task.name == estimate.task]
        evidence.append(replace(of_run, tasks=tuple(tasks), groups=()))
    matched = matched_evidence(evidence, [(each.store, each.id) for each in (baseline, run)])
    (pair,) = compare_runs(matched).pairs
    line = next((each for each in pair.tasks if each.name == estimate.task), None)
    if line is None:
        raise UsageError(
            f"{estimate.metric} cannot be compared: {'; '.join(pair.notes) or 'no row has a score in both runs'}"
        )
    return line


def _message(
    estimate: Estimate, condition: str, outcome: str, interval: "BoundResult", why: str, baseline: "Run | None"
) -> str:
    """Return the result in a few lines, for people who read a failed test."""
    from assaymark.documents.numbers import shown_difference, shown_value
    from assaymark.results.estimate_texts import is_proportion

    is_share = is_proportion(estimate)

    def value_text(value: float | None) -> str:
        if value is None:
            return "none"
        if baseline is not None:
            return shown_difference(value, proportion=is_share) + (" points" if is_share else "")
        return shown_value(value, proportion=is_share)

    words = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
    subject = estimate.metric if baseline is None else f"gain of {estimate.metric} over {baseline.short_id}"
    bounds = (
        f"from {value_text(interval.low)} to {value_text(interval.high)} (one-sided {interval.confidence:.0%} bounds)"
    )
    measured = f"{value_text(interval.estimate)}, {bounds}, n {interval.n:,}" if interval.n else "no row has a score"
    lines = [f"gate '{estimate.metric}: {condition}' {words[outcome]}", f"  {subject} on {estimate.task}: {measured}"]
    if why:
        lines.append(f"  {why}")
    elif outcome == "undecided" and interval.n:
        needed = (
            "no number of rows would decide"
            if interval.n_needed is None
            else f"about {interval.n_needed:,} rows would decide"
        )
        lines.append(f"  {needed}, were the value exactly the one measured (power 80%)")
    unscored = estimate.n_unparsed
    if unscored:
        lines.append(f"  {unscored:,} {'row is' if unscored == 1 else 'rows are'} not scored, and in no number")
    return "\n".join(lines)
