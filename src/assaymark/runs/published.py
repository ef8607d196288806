"""Comparison of a stored run with published results.

Only the total of a published result is known, so the test is unpaired. If the numbers of shots differ, the results are
not comparable and no p is shown; other differences (number of samples) are listed. Published results are stored with
the run, with their source. They are typed, or those that a model's folder reports.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from assaymark.errors import DataError, UsageError
from assaymark.interop.hub_results import counterparts
from assaymark.interop.read_imported import read_imported
from assaymark.records import Estimate, JsonValue, TaskPlan
from assaymark.records.result_facts import ResultFacts
from assaymark.results.estimate_texts import is_proportion, reported_words, shown_count
from assaymark.runs.run import Run
from assaymark.runs.stored import open_run
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.groups import UnpairedComparison, compare_with_claim

EXAMPLE = '"arc_challenge acc=0.328 shots=25 n=1172 source=URL"'
KNOWN = ("shots", "n", "source")
ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Claim:
    """A published result."""

    task: str
    metric: str
    value: float  # in [0, 1]
    n: int | None = None  # samples; None: the whole split
    shots: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """The comparison of a run with one published result."""

    claim: Claim
    value: float  # of the run
    comparison: UnpairedComparison  # run minus claim
    set_up: tuple[str, ...]  # differences in the set-up
    obstacle: str | None = None  # why the two are not comparable (different shots); then no p is shown

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        comparison, claim = self.comparison, self.claim
        if self.obstacle:
            return (
                f"not comparable: {self.obstacle}: {claim.task} {claim.metric} is {self.value:.1%} of "
                f"{comparison.n_b:,} in this run and {claim.value:.1%} of {comparison.n_a:,} as published"
            )
        verb = "differs significantly from" if comparison.p < ALPHA else "is not significantly different from"
        return (
            f"{claim.task} {claim.metric}: {self.value:.1%} of {comparison.n_b:,} {verb} the published "
            f"{claim.value:.1%} of {comparison.n_a:,}: {100 * comparison.difference:+.1f} points (95% interval "
            f"{100 * comparison.low:+.1f} to {100 * comparison.high:+.1f}, p = {comparison.p:.2g})"
        )


def parse_claim(text: str) -> Claim:
    """Parse a claim such as "arc_challenge acc=0.328 shots=25 n=1172 source=URL"; 32.8% is the same as 0.328.

    Raises: UsageError for text that is not a claim.
    """
    task, *words = text.split() or [""]
    pairs = dict(word.partition("=")[::2] for word in words)
    named = [name for name in pairs if name not in KNOWN]
    if not task or len(named) != 1 or any("=" not in word for word in words):
        raise UsageError(f"'{text}' is not a published result; expected a task and one metric=value, e.g. {EXAMPLE}")
    return Claim(
        task, named[0], _share(text, pairs[named[0]]), _count(text, pairs.get("n"), least=1),
        _count(text, pairs.get("shots")), pairs.get("source")
    )  # fmt: skip


def _share(text: str, value: str) -> float:
    try:
        share = float(value.rstrip("%")) / (100.0 if value.endswith("%") else 1.0)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise UsageError(
            f"'{text}': {value} is not a share; expected a number from 0 to 1, or a percentage such as 32.8%"
        )
    return share


def _count(text: str, value: str | None, least: int = 0) -> int | None:
    if value is None:
        return None
    if not value.replace(",", "").isdigit() or int(value.replace(",", "")) < least:
        raise UsageError(f"'{text}': {value} is not a count; expected a whole number from {least}")
    return int(value.replace(",", ""))


def compare_published(store: str | None, name: str, texts: Sequence[str]) -> list[ClaimResult]:
    """Compare a stored run with published results, and store those with the run.

    texts: claims, and models' folders, whose reported values of the run's benchmarks are claims.

    Raises: UsageError for a claim that cannot be parsed or compared, or a folder without any for the run; UnknownName
        for a task the run does not have; DataError for a folder of which nothing can be read.
    """
    run = open_run(store, name)
    row = run.row
    claims = [
        claim
        for text in texts
        for claim in (claims_of_folder(run, Path(text)) if _is_place(text) else [parse_claim(text)])
    ]
    plans = {task.name: task for task in row.plan.tasks}
    claim_results = [
        _against(
            claim, run.estimate(claim.task, claim.metric), plans.get(claim.task), _n_in_split(row.extra, claim.task)
        )
        for claim in claims
    ]
    stored = row.extra.get("claims")
    earlier = [claim for claim in stored if claim not in map(asdict, claims)] if isinstance(stored, list) else []
    run.store.save_estimates(run.id, run.estimates, {**row.extra, "claims": [*earlier, *map(asdict, claims)]})
    return claim_results


def _is_place(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # longer than a file's name can be
        return False


def claims_of_folder(run: Run, folder: Path) -> list[Claim]:
    """Return the shares that a model's folder reports of the benchmarks that a run evaluated."""
    reported = read_imported(folder).estimates
    claims = [
        Claim(
            own.task, own.metric, each.value, each.n or None, each.details.get("n_shots"), reported_words(each) or None
        )
        for each in reported
        if each.value is not None and is_proportion(each)
        for own in counterparts(run.row, run.estimates, each)
    ]
    if not claims:
        theirs, ours = ", ".join(sorted({each.task for each in reported})[:5]), ", ".join(run.row.tasks[:5])
        raise UsageError(
            f"{folder} reports nothing that run {run.short_id} evaluated: it has {theirs}, and the run {ours}"
        )
    return claims


def _n_in_split(extra: ResultFacts, task: str) -> int | None:
    """Return the number of samples in the task's whole split, as stored with the run."""
    fact = extra.get("tasks", {}).get(task)
    n_total = None if fact is None else fact.get("n_total")
    return n_total if isinstance(n_total, int) and n_total > 0 else None


def _against(claim: Claim, estimate: Estimate, plan: TaskPlan | None, n_whole: int | None) -> ClaimResult:
    lm_evals = estimate.details.get("lm_eval_value")
    value = lm_evals if isinstance(lm_evals, float) else estimate.value  # published results count ties as lm-eval does
    if value is None or not 0.0 <= value <= 1.0 or not estimate.higher_is_better:
        raise UsageError(f"{claim.task} {claim.metric} is {value} in this run; only shares from 0 to 1 can be compared")
    n_claimed = claim.n or n_whole
    if n_claimed is None:
        raise UsageError(f"the number of samples of the claim about {claim.task} is unknown; add n=, e.g. {EXAMPLE}")
    low, high = estimate.low, estimate.high
    ours = IntervalEstimate(value, low, high, estimate.stderr, estimate.method, estimate.n, estimate.confidence)
    try:
        compared = compare_with_claim(ours, claim.value, n_claimed)
    except DataError as error:
        raise UsageError(f"{claim.task} {claim.metric} cannot be compared with the claim: {error}") from error
    set_up = tuple(_differences(claim, estimate, n_claimed))
    return ClaimResult(claim, value, compared, set_up, _obstacle(claim, plan))


def _obstacle(claim: Claim, plan: TaskPlan | None) -> str | None:
    """Return how the shots differ; None if they do not, or are unknown."""
    if claim.shots is None or plan is None or plan.num_fewshot == claim.shots:
        return None
    return f"shots {plan.num_fewshot} against {claim.shots}"


def _differences(claim: Claim, estimate: Estimate, n_claimed: int) -> list[str]:
    lines = []
    if claim.shots is None:
        lines.append("shots: not stated in the claim")
    if claim.n is None:
        lines.append(f"samples: not stated in the claim; assumed to be the whole split, {n_claimed:,}")
    if estimate.n != n_claimed:
        lines.append(f"samples: {shown_count([estimate])} in this run, {n_claimed:,} in the claim")
    if estimate.n_failed:
        lines.append(f"failures: {estimate.n_failed:,} samples of this run failed and are missing")
    return lines


def claims_to_json(results: Sequence[ClaimResult]) -> JsonValue:
    """Return the results with stable names."""
    return [
        {
            "claim": asdict(result.claim),
            "value": result.value,
            **asdict(result.comparison),
            **({} if result.obstacle is None else {"p": None}),
            "not_comparable": result.obstacle,
            "set_up": list(result.set_up),
            "verdict": result.verdict,
        }
        for result in results
    ]


def claim_lines(results: Sequence[ClaimResult]) -> list[str]:
    """Return the results as lines for a terminal."""
    lines: list[str] = []
    for result in results:
        lines.append(result.verdict)
        lines += [f"  ! set-up differs: {line}" for line in result.set_up]
        if result.claim.source:
            lines.append(f"  source: {result.claim.source}")
    return lines
