"""A run of another tool as our records, ready to be stored.

The records contain what the tool's files contain; what these lack (tokens, hashes of weights) stays unknown. The plan's
model is of the kind `imported` and has the hash of each file, so the same files are the same run, distinct from our own
runs. `imported_lm_eval` builds `ImportedRun` directly, since lm-eval's files contain nearly the same data as ours; the
readers of other tools return a `ForeignRun`, which `imported_of` converts.

Storing of an imported run, completely or not at all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, SupportsFloat

from assaymark.errors import AssaymarkError
from assaymark.interop.hub_benchmarks import Unit
from assaymark.interop.log_files import open_log
from assaymark.interop.reported import ReportedValue, reported_estimates
from assaymark.records import (
    Estimate,
    GenerateQuery,
    GenerationSettings,
    JsonValue,
    LoglikelihoodQuery,
    ModelIdentity,
    Output,
    PerturbedFrom,
    Query,
    Request,
    RunPlan,
    Sample,
    Score,
    ScoreStatus,
    TaskPlan,
    content_hash,
)
from assaymark.records.json_values import json_fields
from assaymark.results.evidence.perturbations import PERTURBED, PerturbedScores
from assaymark.results.evidence.records import GroupSummaryInput, PerturbedScore, ScoreRow, TaskSummaryInput
from assaymark.results.evidence.summarise import summarise
from assaymark.scoring.choices import score_choices
from assaymark.scoring.metric import CALIBRATION, ScoreValue
from assaymark.store import Store

KIND = "imported"
UNKNOWN = "unknown (imported)"
TOLERANCE = 1e-6  # relative: a value recomputed from its samples may differ from the file's in its last digits


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """The records made from the files."""

    plan: RunPlan
    origin: Mapping[str, str]  # file name -> sha256
    requests: tuple[Request, ...]
    samples: tuple[Sample, ...]
    outputs: tuple[Output, ...]
    scores: tuple[Score, ...]
    estimates: tuple[Estimate, ...]
    extra: Mapping[str, JsonValue]  # facts about the tasks, stored with the run
    notes: tuple[str, ...] = ()  # values that the samples do not reproduce, logs that were excluded


@dataclass(frozen=True, slots=True)
class ForeignChoice:
    """One choice with its logged log-likelihood."""

    text: str
    nats: float
    is_greedy: bool | None = None


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """Facts that a log states about one generated answer; 0 or None if it does not state them."""

    n_context_tokens: int = 0
    n_tokens: int = 0
    finish_reason: str | None = None  # as of `Output`


@dataclass(frozen=True, slots=True)
class ForeignSample:
    """One sample of another tool's log."""

    task: str
    index: int
    row: Mapping[str, JsonValue]  # identifies the question; its hash pairs it with other runs of the tool
    prompt: str
    target: str
    scores: Mapping[str, float | None]  # by metric; None without a score
    answers: tuple[str, ...] = ()  # generated answers, one per repeat
    counts: tuple[AnswerFacts, ...] = ()  # of each answer, where the log states them
    choices: tuple[ForeignChoice, ...] = ()
    gold: int | None = None  # index of the correct choice
    n_choices: int | None = None  # of a generated answer that is a letter
    chance: float | None = None  # as stated of its task; None: 1 / n_choices
    n_shots: int = 0
    error: str | None = None
    sha256: str | None = None  # that of another row, of which this is a perturbed copy; None: that of its own row
    by_trial: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # scores of a sample with several trials
    filtered: Mapping[tuple[str, str], float | None] = field(default_factory=dict)  # by metric and filter, where named

    @property
    def row_sha256(self) -> str:
        """The hash by which the sample is paired with others."""
        return self.sha256 or content_hash(dict(self.row))


@dataclass(frozen=True, slots=True)
class ForeignCopies:
    """A task whose samples are perturbed copies of another task's."""

    of: str
    by: str  # the perturbation's label
    family: str | None  # in whose worst case the copies count, if in one

    @property
    def fact(self) -> PerturbedFrom:
        """The fact as it is stored with a run."""
        return {"of": self.of, "by": self.by, "family": self.family}


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The worst case over originals and copies as another tool's file reports it."""

    task: str
    metric: str
    family: str
    value: float


@dataclass(frozen=True, slots=True)
class ForeignRun:
    """A run of another tool, as its reader returns it."""

    tool: str
    model: str
    tasks: tuple[TaskSummaryInput, ...]
    samples: tuple[ForeignSample, ...]
    reported: tuple[ReportedValue, ...]
    files: tuple[Path, ...]
    version: str | None = None
    date: str | None = None
    dtype: str = "dtype unknown"
    config: Mapping[str, JsonValue] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    shots_known: bool = True  # whether the files state the number of shots
    may_be_part: bool = False  # whether samples may be some of those of a value that does not say of how many it is
    copies: Mapping[str, ForeignCopies] = field(default_factory=dict)  # by task
    worst_cases: tuple[WorstCase, ...] = ()
    statistics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by task: numbers that are no scores


@dataclass(frozen=True, slots=True)
class Importer:
    """A reader of one tool's files; registered under `importers`."""

    recognises: Callable[[Path], object]  # whether a file or folder is that tool's, as a truth value
    read: Callable[[Path], ForeignRun]  # raises DataError, or KeyError and the like for files not as the tool writes
    format: str  # of the files, for messages
    read_in_unit: Callable[[Path, Unit], ForeignRun] | None = None  # of files that need not state it


def imported_of(run: ForeignRun) -> ImportedRun:
    """Return another tool's run as our records, with its values recomputed from its samples."""
    names = [file.name for file in run.files]
    origin = {
        name if names.count(name) == 1 else f"{file.parent.name}/{name}": digest(file)
        for name, file in zip(names, run.files, strict=True)
    }
    requests = [_request(sample) for sample in run.samples]
    samples = tuple(
        Sample(foreign_sample.task, foreign_sample.index, foreign_sample.row, foreign_sample.row_sha256)
        for foreign_sample in run.samples
    )
    pairs = list(zip(requests, run.samples, strict=True))
    rows = [row for sample in run.samples for row in _rows(sample)]
    with_samples = {row.task for row in rows}
    perturbed = PerturbedScores({name: (copies.of, copies.by, copies.family) for name, copies in run.copies.items()})
    tasks = [task for task in run.tasks if task.name in with_samples]
    computed = summarise(perturbed.watch(rows), tasks, bootstrap_iters=0)
    results = perturbed.results(tasks, ())
    reported = reported_estimates(run.reported, run.tasks, shots_known=run.shots_known)
    partial = _of_more_samples(reported, computed, may_be_part=run.may_be_part)
    shown = [estimate for estimate in computed if (estimate.task, estimate.metric, estimate.filter) not in partial]
    known = {(estimate.task, estimate.metric, estimate.filter) for estimate in shown}
    source: dict[str, JsonValue] = {"tool": run.tool, "version": run.version, "date": run.date}
    source |= {"files": origin, "config": dict(run.config)}
    if run.statistics:
        source["statistics"] = {task: dict(numbers) for task, numbers in run.statistics.items()}
    facts = facts_from(run.tasks, (), {task.name: {} for task in run.tasks}, origin=run.tool, copies=run.copies)
    if results:
        facts[PERTURBED] = [json_fields(result) for result in results]
    return ImportedRun(
        plan=_plan(run, origin, samples),
        origin=origin,
        requests=tuple(requests),
        samples=samples,
        outputs=tuple(output for request, sample in pairs for output in _outputs(request, sample)),
        scores=tuple(
            Score(f"{r.task}/{r.sample_index}/0", r.metric, r.value, r.filter, r.status, r.parts, r.detail)
            for r in rows
        ),
        estimates=(
            *shown,
            *(estimate for estimate in reported if (estimate.task, estimate.metric, estimate.filter) not in known),
        ),
        extra={**facts, "imported": source},
        notes=(
            *run.notes,
            *disagreements(computed, reported, may_be_part=run.may_be_part),
            *_other_intervals(shown, run.reported),
            *_other_worst_cases(run, results),
        ),
    )


def digest(file: Path) -> str:
    """Return `sha256:<hex>` of a file."""
    with open_log(file) as opened:
        return "sha256:" + sha256(opened.read()).hexdigest()


def disagreements(
    computed: Sequence[Estimate], reported: Sequence[Estimate], *, may_be_part: bool = False
) -> list[str]:
    """Return a line for each reported value that its samples do not reproduce; `may_be_part` as of a `ForeignRun`."""
    partial = _of_more_samples(reported, computed, may_be_part=may_be_part)
    own = {(estimate.task, estimate.metric, estimate.filter): estimate for estimate in computed}
    lines = []
    for estimate in reported:
        counterpart = own.get((estimate.task, estimate.metric, estimate.filter))
        if counterpart is None or estimate.value is None:
            continue
        if (estimate.task, estimate.metric, estimate.filter) in partial:
            n_held, given = counterpart.n + counterpart.n_failed, counterpart.value
            of = f"of {estimate.n:,} samples" if estimate.n else "without a number of samples"
            lines.append(
                f"{estimate.task} {estimate.metric}: the file reports {estimate.value:.6g} {of}, "
                f"and holds {n_held:,} of them, which give "
                f"{'no value' if given is None else format(given, '.6g')}; the reported value is shown"
            )
        elif _differs(estimate, counterpart):
            value = _recomputed(counterpart)
            lines.append(
                f"{estimate.task} {estimate.metric}: the results file reports {estimate.value:.6g}, its samples give "
                f"{'no value' if value is None else format(value, '.6g')}; the samples' value is shown"
            )
    return lines


def _other_intervals(computed: Sequence[Estimate], reported: Sequence[ReportedValue]) -> Iterator[str]:
    """Yield a line for each stated interval that the samples of an equal value do not reproduce."""
    stated = {(each.task, each.metric, each.filter): each for each in reported if each.interval is not None}
    for own in computed:
        value = stated.get((own.task, own.metric, own.filter))
        if value is None or value.interval is None or own.low is None or own.high is None:
            continue
        ends, theirs = (own.low, own.high), (value.interval.low, value.interval.high)
        far = [abs(mine - other) > TOLERANCE * max(abs(other), 1.0) for mine, other in zip(ends, theirs, strict=True)]
        if any(far):
            yield (
                f"{own.task} {own.metric}: its interval in the file is from {theirs[0]:.4g} to {theirs[1]:.4g} "
                f"({value.interval.method}), that of its samples from {own.low:.4g} to {own.high:.4g} ({own.method}), "
                "which is shown"
            )


def _recomputed(own: Estimate) -> float | None:
    """Return the value of samples by the rule of the tool that reported one."""
    stated = own.details.get("lm_eval_value", own.value)
    return float(stated) if isinstance(stated, SupportsFloat) else None


def _differs(reported: Estimate, own: Estimate) -> bool:
    value, stated = _recomputed(own), reported.value
    return value is None or stated is None or abs(value - stated) > TOLERANCE * max(abs(stated), 1.0)


def _of_more_samples(
    reported: Sequence[Estimate], computed: Sequence[Estimate], *, may_be_part: bool
) -> set[tuple[str, str, str]]:
    """Return task, metric and filter of the reported values that are of more samples than the files hold with a value.

    may_be_part: so is a value without a number of samples that those in the files do not give.
    """
    held = {(each.task, each.metric, each.filter): each for each in computed}
    of = ((each, held.get((each.task, each.metric, each.filter))) for each in reported if each.value is not None)
    return {
        (each.task, each.metric, each.filter)
        for each, own in of
        if own is not None
        and (not own.n or each.n > own.n + own.n_failed or (may_be_part and not each.n and _differs(each, own)))
    }


def _other_worst_cases(run: ForeignRun, results: Sequence[PerturbedScore]) -> Iterator[str]:
    """Yield a line for each reported worst case that the samples do not reproduce."""
    own = {(each.task, each.metric, each.by): each.value for each in results if each.is_worst}
    for reported in run.worst_cases:
        value = own.get((reported.task, reported.metric, reported.family))
        if value is not None and abs(value - reported.value) > TOLERANCE * max(abs(reported.value), 1.0):
            yield (
                f"{reported.task} {reported.metric}: the files report {reported.value:.6g} as the worst of "
                f"{reported.family}, the samples give {value:.6g}; the samples' value is shown"
            )


def facts_from(
    tasks: Sequence[TaskSummaryInput],
    groups: Sequence[GroupSummaryInput],
    configs: Mapping[str, object],
    *,
    origin: str = "lm-eval",
    copies: Mapping[str, ForeignCopies] | None = None,
) -> dict[str, JsonValue]:
    """Return the facts about tasks that are stored with a run, in the format that `report.task_facts` reads."""
    perturbed = {name: {"perturbed": of_task.fact} for name, of_task in (copies or {}).items()}
    return {
        "tasks": {
            task.name: {
                **_task_facts(task),
                "origin": origin,
                "spec": configs[task.name],
                **perturbed.get(task.name, {}),
            }
            for task in tasks
        },
        "groups": [json_fields(group) for group in groups],
    }


def _task_facts(task: TaskSummaryInput) -> dict[str, JsonValue]:
    return {
        "alias": task.alias,
        "version": task.version,
        "output_type": task.output_type,
        "num_fewshot": task.num_fewshot,
        "n_total": task.n_total,
        "chance": task.chance,
        "primary_metric": task.primary_metric,
        "source": None,
        "metrics": [
            {
                "name": metric.name,
                "aggregation": metric.aggregation,
                "higher_is_better": metric.higher_is_better,
                "filters": list(metric.filters),
                **({"is_neutral": True} if metric.is_neutral else {}),
            }
            for metric in task.metrics
        ],
        "filters": list(dict.fromkeys(name for metric in task.metrics for name in metric.filters)),
    }


def _request(sample: ForeignSample) -> Request:
    queries: tuple[Query, ...] = tuple(LoglikelihoodQuery(i, choice.text) for i, choice in enumerate(sample.choices))
    if not queries and (sample.answers or sample.error):
        queries = (GenerateQuery(0, GenerationSettings(repeats=max(1, len(sample.answers)))),)
    return Request(
        task=sample.task,
        sample_index=sample.index,
        sample_sha256=sample.row_sha256,
        segments=(sample.prompt,),
        queries=queries,
        target=sample.target,
        n_shots=sample.n_shots,
    )


def _outputs(request: Request, sample: ForeignSample) -> Iterator[Output]:
    if sample.error is not None:
        for query in request.queries:
            yield Output(request.id, query.index, error=sample.error, error_kind="Permanent")
        return
    for index, choice in enumerate(sample.choices):
        yield Output(request.id, index, 0, choice.nats, choice.is_greedy)
    for repeat, answer in enumerate(() if sample.choices else sample.answers):
        counts = sample.counts[repeat] if repeat < len(sample.counts) else AnswerFacts()
        yield Output(
            request.id, 0, repeat, text=answer, finish_reason=counts.finish_reason,
            n_context_tokens=counts.n_context_tokens, n_tokens=counts.n_tokens,
        )  # fmt: skip


def _rows(sample: ForeignSample) -> Iterator[ScoreRow]:
    """Yield the logged scores of a sample, and for choices those that their log-likelihoods allow in addition."""
    sha = sample.row_sha256
    own = _choice_scores(sample)
    unfiltered = {(metric, "none"): value for metric, value in sample.scores.items()}
    for (metric, name_of_filter), value in {**unfiltered, **sample.filtered}.items():
        scored = own.get(metric)
        known: dict[str, JsonValue] = {} if sample.n_choices is None else {"n_choices": sample.n_choices}
        if known and sample.chance is not None:
            known["chance"] = sample.chance
        if name_of_filter == "none" and metric in sample.by_trial:
            known["trials"] = list(sample.by_trial[metric])
        yield ScoreRow(
            sample.task,
            sample.index,
            sha,
            metric,
            value,
            name_of_filter,
            status=ScoreStatus.FAILED if value is None else ScoreStatus.SCORED,
            detail=scored.detail if scored is not None and scored.value == value else known or None,
            n_shots=sample.n_shots,
        )
    for metric in CALIBRATION if own else ():
        yield ScoreRow(sample.task, sample.index, sha, metric, own[metric].value, parts=own[metric].parts)


def _choice_scores(sample: ForeignSample) -> dict[str, ScoreValue]:
    """Return the scores of a multiple-choice sample from its log-likelihoods; empty if the file lacks data for it."""
    if sample.gold is None or len(sample.choices) < 2:
        return {}
    nats = [choice.nats for choice in sample.choices]
    greedy = [bool(choice.is_greedy) for choice in sample.choices]
    texts = [choice.text.strip() for choice in sample.choices]
    try:
        return dict(score_choices(nats, greedy, None, texts, sample.gold))
    except (AssaymarkError, ValueError):  # a sample in another layout has its logged scores only
        return {}


def _plan(run: ForeignRun, origin: Mapping[str, str], samples: Sequence[Sample]) -> RunPlan:
    tasks = imported_tasks(run.tasks, samples, _n_reported(run))
    return RunPlan(
        model=imported_model(run.model, origin, dtype=run.dtype, numerics="numerics unknown"),
        profile=f"{run.tool}-{run.version}" if run.version else run.tool,
        tasks=tuple(
            replace(task, perturbed={"of": copies.of, "by": copies.by})
            if (copies := run.copies.get(task.name)) is not None
            else task
            for task in tasks
        ),
    )


def _n_reported(run: ForeignRun) -> dict[str, int]:
    """Return the number of samples of each task as reported; 0 if it is not."""
    sizes = {task.name: task.n_total or 0 for task in run.tasks}
    for value in run.reported:
        sizes[value.task] = value.n or sizes.get(value.task, 0)
    return sizes


def imported_model(name: str, origin: Mapping[str, str], **known: Any) -> ModelIdentity:
    """Return the identity of a model that another tool evaluated: its name, the files' hashes, and known facts."""
    unknown = {"content_hash": None, "tokenizer_hash": None, "template_hash": None}
    return ModelIdentity(name=name, kind=KIND, options=(("files", dict(origin)),), **{**unknown, **known})


def imported_tasks(
    tasks: Sequence[TaskSummaryInput],
    samples: Iterable[Sample],
    n_reported: Mapping[str, int],
    generation: Mapping[str, JsonValue] | None = None,
) -> tuple[TaskPlan, ...]:
    """Return the plans of another tool's tasks; their data is identified by the rows in its files.

    n_reported: the number of samples of tasks without samples in the files.
    """
    shas: dict[str, list[str]] = {}
    for sample in samples:
        shas.setdefault(sample.task, []).append(sample.sha256)
    return tuple(
        TaskPlan(
            name=task.name,
            version=task.version,
            spec_hash=UNKNOWN,
            dataset_hash=content_hash(shas[task.name]) if task.name in shas else UNKNOWN,
            num_fewshot=task.num_fewshot,
            n_samples=len(shas.get(task.name, ())) or n_reported[task.name],
            generation=(generation or {}).get(task.name),
        )
        for task in tasks
    )


def store_imported(store: Store, imported: ImportedRun, *, command: str | None = None) -> tuple[str, bool]:
    """Store an imported run. Returns its id and whether it is new; the same files are the same run.

    Raises: StoreError if it cannot be written; then nothing is stored.
    """
    if (known := store.complete_run(imported.plan)) is not None:
        return known, False
    opened = store.open_run(imported.plan, facts={"imported": imported.extra["imported"]}, command=command)
    try:
        store.add_requests(opened.run_id, imported.requests, imported.samples)
        store.add(opened.run_id, opened.attempt_id, imported.outputs)
        store.add_scores(opened.run_id, imported.scores, content_hash({"imported": dict(imported.origin)}))
        store.save_estimates(opened.run_id, imported.estimates, imported.extra)
        store.close_run(opened.run_id, opened.attempt_id, "finished", {"notes": list(imported.notes)})
    except BaseException:
        store.remove(opened.run_id)
        raise
    return opened.run_id, True
