"""Offline scores beside online outcomes of the same versions: whether each scorer's difference agrees with the users'.

Two variants are one comparison, so only the agreement of directions is reported. From five variants on, there is
Spearman's correlation over them, with an interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from assaymark.applications.outcomes import ArmAgainstControl, OutcomeReport
from assaymark.errors import UsageError
from assaymark.results.comparison.records import Difference
from assaymark.runs.comparison import compare_runs
from assaymark.runs.run import Run
from assaymark.statistics.correlation import FEWEST, Correlation, correlations

Verdict = Literal["agree", "disagree", "cannot tell"]


@dataclass(frozen=True, slots=True)
class OfflineScorer:
    """A scorer's paired difference of a variant's run from the control's run, in the scorer's units."""

    variant: str
    scorer: str
    difference: float
    low: float | None
    high: float | None
    n: int  # rows
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class ScorerCorrelation:
    """Over variants: a scorer's value and the mean outcome, both turned so that higher is better."""

    scorer: str
    spearman: Correlation


def runs_of_variants(names: Sequence[str], runs: Sequence[tuple[str, Run]]) -> dict[str, Run]:
    """Return variant -> run, by `VARIANT=RUN`, or by the version or name of the run's target.

    runs: the user's name for a run, and the run.

    Raises: UsageError for a run of no variant, or two of one.
    """
    by_variant: dict[str, Run] = {}
    for typed, run in runs:
        label, equals, _ = typed.rpartition("=")
        model = run.row.plan.model
        version = dict(model.options).get("version")
        known = [label] if equals else [str(version), model.name, model.name.rpartition("@")[0]]
        variant = next((name for name in names if name in known), None)
        if variant is None:
            raise UsageError(
                f"run {run.row.short_id} is of '{model.name}', which is none of the variants {', '.join(names)}; name "
                f"its variant: {names[0]}={run.row.short_id}"
            )
        if variant in by_variant:
            raise UsageError(f"two runs are of the variant '{variant}'; name each other's variant as VARIANT=RUN")
        by_variant[variant] = run
    missing = [name for name in names if name not in by_variant]
    if missing:
        raise UsageError(f"no run of {', '.join(missing)}; --offline needs a run of each variant")
    return by_variant


def beside_online(
    report: OutcomeReport, runs: dict[str, Run], *, lower_is_better: bool = False
) -> tuple[list[OfflineScorer], list[ScorerCorrelation]]:
    """Return each scorer's differences and their agreement with the online ones, and correlations.

    There are correlations from five variants on.

    runs: by variant.

    Raises: UsageError for runs of different rows.
    """
    if report.differences is None:
        return [], []
    others = [each.name for each in report.differences]
    comparison = compare_runs([runs[report.control], *(runs[name] for name in others)])
    lines: list[OfflineScorer] = []
    values: dict[str, dict[str, float]] = {}  # scorer -> variant -> value, higher is better
    for online, pair in zip(report.differences, comparison.pairs, strict=True):
        for line in (*pair.tasks, *pair.scorers):
            if line.is_neutral:
                continue
            verdict = _verdict(line, online, lower_is_better=lower_is_better)
            lines.append(OfflineScorer(online.name, line.name, line.difference, line.low, line.high, line.n, verdict))
            sign = 1 if line.higher_is_better else -1
            for name, value in ((report.control, line.first), (online.name, line.second)):
                if value is not None:
                    values.setdefault(line.name, {})[name] = sign * value
    return lines, _correlated(report, values, -1 if lower_is_better else 1)


def _verdict(line: Difference, online: ArmAgainstControl, *, lower_is_better: bool) -> Verdict:
    """Return whether both intervals are on one side of 0, each in the direction of better."""
    if line.low is None or line.high is None:
        return "cannot tell"
    offline = (int(line.low > 0) - int(line.high < 0)) * (1 if line.higher_is_better else -1)
    live = online.direction * (-1 if lower_is_better else 1)
    if not offline or not live:
        return "cannot tell"
    return "agree" if offline == live else "disagree"


def _correlated(report: OutcomeReport, values: dict[str, dict[str, float]], sign: int) -> list[ScorerCorrelation]:
    means = {
        arm.name: sign * mean.mean
        for arm, mean in zip(report.outcomes.arms, report.means, strict=True)
        if mean is not None
    }
    correlated = []
    for scorer, by_variant in values.items():
        names = sorted(by_variant.keys() & means.keys())
        if len(names) >= FEWEST:
            offline, online = (np.array([each[name] for name in names]) for each in (by_variant, means))
            correlated.append(ScorerCorrelation(scorer, correlations(offline, online)[0]))
    return correlated
