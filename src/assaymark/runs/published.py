"""Comparison of a stored run with published results, and measurement of what a run only reports.

Only the total of a published result is known, so the test is unpaired. If the numbers of shots differ, the results are
not comparable and no p is shown; other differences (number of samples) are listed. Published results are stored with
the run, with their source. They are typed, or those that a model's folder reports.

A run that was imported without answers claims its values: its tasks are run as far as it says how, and each value is
held against the measured one's interval.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Unpack

from assaymark.documents.numbers import shown_interval, shown_value
from assaymark.errors import DataError, ModelUnavailable, UsageError
from assaymark.interop.hub_results import counterparts, is_covered, minus_reported
from assaymark.interop.read_imported import read_imported
from assaymark.records import Estimate, JsonValue, TaskPlan
from assaymark.records.result_facts import ResultFacts
from assaymark.results.estimate_texts import is_proportion, reported_words, shown_count
from assaymark.runs.evaluate import evaluate
from assaymark.runs.evaluate_options import EvaluateOptions
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
        task,
        named[0],
        _share(text, pairs[named[0]]),
        _count(text, pairs.get("n"), least=1),
        _count(text, pairs.get("shots")),
        pairs.get("source"),
    )


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

    Args:
        store: the run's database.
        name: the run.
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
    ours = IntervalEstimate(value, estimate.low, estimate.high, estimate.stderr, estimate.method, estimate.n)
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


# ------------------------------------------------------------------------------------------ runs that only report

_SHOTS_IN_NOTES = re.compile(r"\b(\d{1,3})[- ]shots?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MeasuredClaim:
    """A reported value beside one that was measured because of it."""

    reported: Estimate
    measured: Estimate
    run_id: str
    not_stated: tuple[str, ...]  # with what it is in this run
    set_up: tuple[str, ...]  # what differs from what is stated
    command: str  # that runs the task

    @property
    def is_reproduced(self) -> bool | None:
        """Whether the measured interval covers the reported value; None where that cannot be said."""
        return None if self._other_shots else is_covered(self.measured, self.reported)

    @property
    def _other_shots(self) -> bool:
        stated, own = _stated_shots(self.reported), self.measured.details.get("n_shots")
        return stated is not None and own is not None and stated != own

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        reported, own, is_share = self.reported, self.measured, is_proportion(self.measured)
        interval = shown_interval(own.low, own.high, proportion=is_share)
        measured = shown_value(own.value, proportion=is_share)
        values = (
            f"{reported.task} {reported.metric}: {shown_value(reported.value, proportion=is_proportion(reported))} "
            f"reported, {measured} measured ({f'95% interval {interval}, ' if interval else ''}n {own.n:,})"
        )
        if self._other_shots:
            return f"{values}: not comparable, since the numbers of shots differ"
        if self.is_reproduced is None:
            return f"{values}: no verdict, since {_why_no_verdict(own, reported)}"
        return f"{values}: " + (
            "reproduced, the interval covers it" if self.is_reproduced else "not reproduced, it is outside the interval"
        )


def _why_no_verdict(measured: Estimate, reported: Estimate) -> str:
    if measured.value is None:
        return "nothing was measured"
    if minus_reported(measured, reported) is None:
        return "one of them is a share and the other is not"
    return "the measured value has no interval"


def measure_reported(
    run: Run,
    tasks: Sequence[str] = (),
    model: str | None = None,
    **options: Unpack[EvaluateOptions],
) -> list[MeasuredClaim]:
    """Run the tasks of which an imported run reports values without answers, and compare each value with its own.

    The runs are stored beside the reported one, as any other.

    Args:
        run: the run that only reports.
        tasks: the tasks to run; empty: those that the reported values name.
        model: the kind of model; None: the model that the run names, a folder or an id of the Hub.
        options: model_args, and those of `evaluate` that decide no score: data_dir, include_path, workers.

    Raises: UsageError where no value has a task that is known here, or the run has none of what is reported;
        ModelUnavailable for a model that is only a name here; as `evaluate`.
    """
    claims = [each for each in run.estimates if each.value is not None]
    known = frozenset[str]() if tasks else _runnable(options)
    by_shots: dict[int | None, list[str]] = {}
    for claim in claims:
        names = by_shots.setdefault(_stated_shots(claim), [])
        names += (name for name in tasks or _task_named(claim, known) if name not in names)
    if not any(by_shots.values()):
        raise UsageError(_unknown_tasks(run, claims, known))
    made: list[MeasuredClaim] = []
    for shots, names in by_shots.items():
        if not names:
            continue
        keywords: EvaluateOptions = {**options, "num_fewshot": shots}
        named = model or run.row.plan.model.name
        try:
            measured = evaluate(named, names, **keywords)
        except ModelUnavailable as error:
            if model is not None:
                raise
            raise ModelUnavailable(
                f"{error}; the values are of a model of this name: say which it is with --model and --model_args"
            ) from error
        measured.refuse_without_results()
        command = _command(named, names, keywords)
        for claim in claims:
            if _stated_shots(claim) == shots:
                of_claim = counterparts(measured.row, measured.estimates, claim)
                made += (_measured(claim, _as_noted(own, measured, claim), measured, command) for own in of_claim)
    if not made:
        theirs = ", ".join(dict.fromkeys(f"{each.task} {each.metric}" for each in claims[:5]))
        raise UsageError(f"what was run has none of the values that run {run.short_id} reports: {theirs}")
    return made


def _stated_shots(claim: Estimate) -> int | None:
    """Return the number of shots that a reported value states, in its notes too; None where it states none."""
    facts, shots = claim.details.get("reported"), claim.details.get("n_shots")
    if shots is not None or facts is None:
        return shots
    noted = set(_SHOTS_IN_NOTES.findall(facts["notes"]))
    return int(noted.pop()) if len(noted) == 1 else None


def _task_named(claim: Estimate, known: frozenset[str]) -> list[str]:
    """Return the task that a reported value is of, if it is known here and runs here."""
    facts = claim.details.get("reported")
    name = facts["benchmark"] if facts is not None and facts["benchmark"] else claim.task
    return [name] if name in known else []


def _runnable(options: EvaluateOptions) -> frozenset[str]:
    from assaymark.tasks.catalog import Catalog

    catalog = Catalog.open([Path(folder).expanduser() for folder in options.get("include_path") or ()])
    return frozenset(entry.name for entry in catalog.entries() if entry.runnable_here)


def _unknown_tasks(run: Run, claims: Sequence[Estimate], known: frozenset[str]) -> str:
    """Return the line on reported values of which no task is known here: of which tasks, and what may be meant."""
    named = list(dict.fromkeys(each.task for each in claims))
    near = [name for name in sorted(known) if any(name.startswith(f"{task}_") for task in named)]
    facts = [each.details["reported"] for each in claims if "reported" in each.details]
    of_hub = [f"hub:{each['dataset']}/{each['benchmark']}" for each in facts if each["benchmark"]]
    meant = ", ".join([*near[:5], *dict.fromkeys(of_hub)])
    return (
        f"no task here is called as what run {run.short_id} reports ({', '.join(named[:5])}); say which to run with "
        f"--tasks{f', such as {meant}' if meant else ' (listed by `assaymark ls tasks`)'}"
    )


def _as_noted(own: Estimate, run: Run, claim: Estimate) -> Estimate:
    """Return the estimate by the filter that the reported value's notes name, if one has it; else the given one."""
    facts = claim.details.get("reported")
    noted = {} if facts is None else dict.fromkeys(word.strip() for word in facts["notes"].split(","))
    same = (each for each in run.estimates if (each.task, each.metric) == (own.task, own.metric))
    return next((each for each in same if each.filter in noted), own)


def _measured(claim: Estimate, own: Estimate, run: Run, command: str) -> MeasuredClaim:
    facts = claim.details.get("reported")
    fact = (run.row.extra.get("tasks") or {}).get(own.task)
    compared: tuple[tuple[str, object, object], ...] = (
        ("shots", _stated_shots(claim), own.details.get("n_shots")),
        ("number of rows", claim.n or None, own.n),
        (
            "revision of the data set",
            None if facts is None else facts.get("revision") or None,
            None if fact is None else fact.get("dataset_revision"),
        ),
    )
    not_stated = tuple(
        f"{what} ({'not known' if here is None else f'{here:,}' if isinstance(here, int) else here} here)"
        for what, stated, here in compared
        if stated is None
    )
    set_up = tuple(
        f"{what}: {stated} reported, {'not known' if here is None else here} here"
        for what, stated, here in compared
        if stated is not None and stated != here
    )
    failed = (f"failures: {own.n_failed:,} samples failed and are missing",) if own.n_failed else ()
    return MeasuredClaim(claim, own, run.id, not_stated, (*set_up, *failed), command)


def _command(model: str, tasks: Sequence[str], options: EvaluateOptions) -> str:
    """Return the command that runs the same, to be altered: what a report does not state can only be tried."""
    words = ["assaymark", "run", "--model", model]
    if arguments := options.get("model_args"):
        shown = arguments if isinstance(arguments, str) else ",".join(f"{name}={arguments[name]}" for name in arguments)
        words += ["--model_args", shown]
    words += ["--tasks", ",".join(tasks)]
    if options.get("num_fewshot") is not None:
        words += ["--num_fewshot", str(options["num_fewshot"])]
    if options.get("data_dir") is not None:
        words += ["--data_dir", str(options["data_dir"])]
    for folder in options.get("include_path") or ():
        words += ["--include_path", str(folder)]
    return shlex.join(words)


def measured_to_json(claims: Sequence[MeasuredClaim]) -> JsonValue:
    """Return the measured claims with stable names."""
    return [
        {
            "task": each.reported.task, "metric": each.reported.metric, "reported": each.reported.value,
            "measured": each.measured.value, "low": each.measured.low, "high": each.measured.high,
            "n": each.measured.n, "measured_task": each.measured.task, "measured_metric": each.measured.metric,
            "filter": each.measured.filter, "run": each.run_id, "is_reproduced": each.is_reproduced,
            "difference": minus_reported(each.measured, each.reported),
            "not_stated": list(each.not_stated), "set_up": list(each.set_up),
            "who": reported_words(each.reported), "verdict": each.verdict, "command": each.command,
        }
        for each in claims
    ]  # fmt: skip


def measured_lines(claims: Sequence[MeasuredClaim]) -> Iterator[str]:
    """Yield the measured claims as lines for a terminal."""
    for each in claims:
        yield each.verdict
        if each.not_stated:
            yield f"  ! not stated: {', '.join(each.not_stated)}"
        yield from (f"  ! set-up differs: {line}" for line in each.set_up)
        if words := reported_words(each.reported):
            yield f"  source: {words}"
    yield from (f"asked by: {command}" for command in dict.fromkeys(each.command for each in claims))
