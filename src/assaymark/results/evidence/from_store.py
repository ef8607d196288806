"""Read stored runs as the plain records that reports use, and compute and store their estimates.

What a stored sample says: its deciding score, its choices, which of them are correct, and whether it is wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from assaymark.errors import UnknownName, UsageError
from assaymark.options.of_plans import part_shown
from assaymark.options.shared import compared_settings, headings
from assaymark.records import (
    Estimate,
    JsonValue,
    LoglikelihoodQuery,
    ModelIdentity,
    RunPlan,
    Score,
    ScoreStatus,
    TaskPlan,
)
from assaymark.records.json_values import json_fields
from assaymark.records.result_facts import ResultFacts
from assaymark.results.evidence.baselines import ConstantAnswers, with_baselines
from assaymark.results.evidence.composites import SuiteRows, composite_estimates, suite_facts, suites_from
from assaymark.results.evidence.perturbations import PERTURBED, PerturbedScores, perturbed_from
from assaymark.results.evidence.records import (
    MetricInput,
    OwnAggregation,
    RunEvidence,
    RunView,
    ScoreRow,
    StoppedByRule,
    TaskSummaryInput,
)
from assaymark.results.evidence.rescoring import scoring_of, with_rescored
from assaymark.results.evidence.summarise import BOOTSTRAP_ITERS, summarise
from assaymark.results.evidence.task_facts import (
    facts_of,
    groups_from,
    lacking_aggregations,
    own_aggregations,
    tasks_from,
    with_declared_chance,
)
from assaymark.results.model_names import short_model_name
from assaymark.scoring.metrics import aggregation_of, find_metric, is_auxiliary, is_higher_better, preferred_names
from assaymark.store import RunRow, Store
from assaymark.store.rows import SampleRecord, SampleScoreRow
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.own_rows import subject_of
from assaymark.tasks.task import Selection


def deciding_score(record: SampleRecord) -> Score | None:
    """Return the score that decides whether a sample's answer is correct: that of the preferred metric."""
    index = _deciding([score.metric for score in record.scores])
    return record.scores[index] if index is not None else None


def _deciding(metrics: Sequence[str]) -> int | None:
    own = [metric for metric in metrics if not is_auxiliary(metric)]
    preferred = next((metric for metric in preferred_names() if metric in own), own[0] if own else None)
    return metrics.index(preferred) if preferred is not None else None


def wrong_samples(store: Store, run_id: str, task: str) -> Iterator[SampleRecord]:
    """Yield a task's samples that were not answered correctly, without reading all samples of the task."""
    names = store.score_names(run_id, task)
    index = _deciding([metric for _, metric in names])
    some = store.samples(run_id, task) if index is None else store.samples_not_right(run_id, task, names[index])
    return (record for record in some if is_wrong(record))


def is_wrong(record: SampleRecord) -> bool:
    """Return whether a sample was not answered correctly: wrong, unparsed, or without an answer.

    With a metric that is not a proportion (a perplexity) no sample is wrong; an answer without a score is not wrong
    yet.
    """
    score = deciding_score(record)
    if score is None:
        return not record.outputs or any(output.error is not None for output in record.outputs)
    if score.status is not ScoreStatus.SCORED:
        return True
    return _is_graded(score) and score.value is not None and score.value < 0.5


def verdict_of(record: SampleRecord) -> str:
    """Return a sample's verdict in a word: right, wrong, unparsed, failed, scored or not scored.

    With a metric that is not a proportion (a perplexity) a sample is scored, and neither right nor wrong.
    """
    score = deciding_score(record)
    if score is None:
        return "not scored"
    if score.status is not ScoreStatus.SCORED:
        return str(score.status)
    if not _is_graded(score) or score.value is None:  # a scorer may give a label alone
        return "scored"
    return "wrong" if is_wrong(record) else "right"


def _is_graded(score: Score) -> bool:
    """Return whether a score says if an answer is right."""
    if isinstance(score.detail, dict) and "is_share" in score.detail:  # declared by a scorer
        return bool(score.detail["is_share"])
    row = find_metric(score.metric)
    return score.value in {0.0, 1.0} if row is None else row.is_share


def gold_indices(record: SampleRecord) -> frozenset[int]:
    """Return the indices of the correct choices: from the score's details, else from the logged target.

    The target is an index, a list of indices, or a choice's text. If choices share one continuation (WinoGrande), the
    text does not identify a choice, and the pick and its credit are used.
    """
    choices = choice_queries(record)
    score = deciding_score(record)
    if score is not None and isinstance(score.detail, dict) and "gold" in score.detail:
        return frozenset(score.detail["gold"])
    if len({query.continuation for query in choices}) < len(choices):
        return _gold_from_score(score, len(choices))
    target = request_target(record)
    if isinstance(target, int):
        return frozenset({target}) if 0 <= target < len(choices) else frozenset()
    if isinstance(target, list):
        return frozenset(index for index in target if isinstance(index, int) and 0 <= index < len(choices))
    return frozenset(query.index for query in choices if query.continuation.strip() == str(target).strip())


def _gold_from_score(score: Score | None, n_choices: int) -> frozenset[int]:
    """Return the correct choice if an untied pick determines it: the pick itself, or the other one of two."""
    detail = score.detail if score is not None and isinstance(score.detail, dict) else {}
    picked, credit = detail.get("picked"), detail.get("credit")
    if not isinstance(picked, int) or detail.get("n_tied") != 1:
        return frozenset()
    if credit == 1.0:
        return frozenset({picked})
    return frozenset({1 - picked}) if n_choices == 2 else frozenset()


def request_target(record: SampleRecord) -> object:
    """Return the logged target with its type: `2` is an index, `[0, 3]` a list of indices, anything else a text."""
    text = record.request.target.strip()
    if text.lstrip("-").isdigit():
        return int(text)
    if text.startswith("[") and text.endswith("]"):
        parts = [part.strip() for part in text[1:-1].split(",")]
        if all(part.lstrip("-").isdigit() for part in parts):
            return [int(part) for part in parts]
    return text


def choice_queries(record: SampleRecord) -> list[LoglikelihoodQuery]:
    """Return the queries of the choices, in their order."""
    return [
        query for query in record.request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"
    ]


_PLACES = frozenset({"tokenizer", "subfolder"})  # options that name files, whose content is in the model's hashes
NOT_IN_FILES = frozenset({"tokenizer", "model options", "code runs in", "other settings"})
"""Settings that the files of other tools do not state, or state in another form."""
SUMMARY_DUE: Final = "summary_due"  # in a run's facts from the commit of a rescoring until its estimates are computed
CONTEXT_END = 30  # characters shown of a choice's own context


@dataclass(frozen=True, slots=True)
class _RequestFacts:
    """Facts of a stored request that its scores do not include."""

    sha256: str
    n_shots: int = 0
    n_leaked_shots: int = 0
    n_cut_tokens: int = 0
    n_context_tokens: int = 0
    choices: tuple[str, ...] = ()
    prompt_hash: str = ""
    gold: tuple[int, ...] = ()
    subject: str | None = None


def save_summary(
    store: Store,
    run_id: str,
    selection: Selection,
    bound: Sequence[BoundTask] = (),
    *,
    bootstrap_iters: int = BOOTSTRAP_ITERS,
) -> tuple[Estimate, ...]:
    """Compute a run's estimates, store them with the facts of its task files, and return them.

    Args:
        bound: its bound tasks; without them the size of the whole split is unknown.
        bootstrap_iters: draws of lm-eval's bootstrap errors (`--bootstrap_iters`).

    Raises: StoreError if it cannot be written.
    """
    stored = store.run(run_id).extra
    facts: ResultFacts = {**stored, **with_rescored(facts_of(selection, bound), stored.get("rescored", ()))}
    facts |= {"suites": suite_facts(selection, stored), "bootstrap_iters": bootstrap_iters}
    return save_summary_of(store, run_id, facts, own_aggregations(selection.tasks))


def save_summary_of(
    store: Store, run_id: str, facts: ResultFacts, functions: Mapping[tuple[str, str], OwnAggregation]
) -> tuple[Estimate, ...]:
    """Compute a run's estimates and its suites' composites from stored facts, store both, and return them.

    Args:
        facts: the facts stored with the run: its tasks, groups and suites.
        functions: aggregations that are functions of task files, by (task, metric).

    Raises: StoreError if it cannot be written.
    """
    tasks, suites = tasks_from(facts, functions), suites_from(facts)
    of_suites, constant, perturbed = SuiteRows(suites), ConstantAnswers(), PerturbedScores.of(facts)
    rows = of_suites.watch(row for task in tasks for row in score_rows(store, run_id, task.name, subjects=task.is_own))
    rows = perturbed.watch(rows)
    estimates = summarise(constant.watch(rows), tasks, groups_from(facts), bootstrap_iters=facts["bootstrap_iters"])
    estimates = with_baselines(estimates, constant, facts.get("question_blind") or {})
    estimates = (*estimates, *composite_estimates(suites, of_suites, estimates))
    own = {name: value for name, value in facts.items() if name != SUMMARY_DUE}
    if perturbed.copies:
        own[PERTURBED] = [json_fields(each) for each in perturbed.results(tasks, groups_from(facts))]
    store.save_estimates(run_id, estimates, own)
    return estimates


def finish_summary(store: Store, row: RunRow) -> None:
    """Compute the estimates of a run whose rescoring was killed after its scores were stored.

    Raises: UsageError where that needs a function of a task file, which is not loaded to show a run.
    """
    if not row.extra.get(SUMMARY_DUE):
        return
    if lacking := lacking_aggregations(row.extra, {}):
        raise UsageError(
            f"run {row.short_id} was rescored by a command that was killed before it aggregated {lacking[0][1]} of "
            f"task {lacking[0][0]} by a function of its file; finish it with: assaymark rescore {row.short_id}"
        )
    save_summary_of(store, row.run_id, row.extra, {})


def score_rows(store: Store, run_id: str, task: str, *, subjects: bool = False) -> list[ScoreRow]:
    """Return one task's scores, each with facts of its request, and with the subject of its row where that is asked."""
    facts = _facts_by_request(store, run_id, task, subjects=subjects)
    return [_row(score, facts) for score in store.scores(run_id, task)]


def run_view(store: Store, run_id: str) -> RunView:
    """Return a run's stored estimates under its model's name, for tables."""
    row = store.run(run_id)
    return RunView(
        label_of(row), row.short_id, with_declared_chance(store.estimates(run_id), row.extra), tuple(facts_shown(row)),
        perturbed_from(row.extra)
    )  # fmt: skip


def run_evidence(
    store: Store, run_id: str, *, with_texts: bool = True, indices: Mapping[str, Sequence[int]] | None = None
) -> RunEvidence:
    """Return a run's scores and settings, for comparisons.

    Without `with_texts` no prompt is read, which takes a tenth of the time: the numbers of a comparison are the same,
    but it does not know the prompts' hashes, the choices and the scores' details. With `indices` it is of these samples
    of each task.
    """
    row = store.run(run_id)
    rows: list[ScoreRow] = []
    prompts: dict[tuple[str, int], str] = {}
    choices: dict[tuple[str, int], tuple[str, ...]] = {}
    for task in row.tasks:
        if indices is not None and not indices.get(task):
            continue
        of_task = None if indices is None else indices[task]
        facts = (
            _facts_by_request(store, run_id, task, indices=of_task)
            if with_texts
            else {at: _RequestFacts(sha256) for at, sha256 in store.sample_hashes(run_id, task).items()}
        )
        scores = store.scores(
            run_id, task, details=with_texts, indices=of_task, of_metrics=lambda metric: not is_auxiliary(metric)
        )
        rows += [_row(score, facts) for score in scores]
        prompts |= {
            (task, at): request_facts.prompt_hash
            for (at, turn), request_facts in facts.items()
            if turn == 0 and request_facts.prompt_hash
        }
        choices |= {(task, index): each.choices for (index, _), each in facts.items() if each.choices}
    plan = row.plan
    return RunEvidence(
        label=label_of(row),
        run_id=row.short_id,
        rows=tuple(rows),
        tasks=tasks_from(row.extra) or tuple(_guessed_tasks(plan, rows)),
        groups=groups_from(row.extra),
        settings=_settings(plan),
        task_settings={
            task.name: {**_task_settings(plan, task), "scoring": scoring_of(row.extra, task.name)}
            for task in plan.tasks
        },
        prompt_hashes=prompts,
        choices=choices,
        stopped=stopped_by_rule(row),
    )


def stopped_by_rule(row: RunRow) -> StoppedByRule | None:
    """Return how far a run came that a rule stopped (a goal, a race, screening); None for others and for whole ones."""
    facts = row.extra.get("screening") or row.extra.get("until") or row.extra.get("race")
    if row.status == "finished" or not facts:
        return None
    seed, is_active = int(facts.get("seed") or 0), facts.get("draws") == "active"
    return StoppedByRule(int(facts["n_seen"]), int(facts["n"]), seed, bool(facts.get("macro")), is_active)


def part_evaluated(row: RunRow) -> str | None:
    """Return, in words, which part of its tasks' samples a run evaluated, as it was told to; None for all of them."""
    if (stopped := stopped_by_rule(row)) is not None:
        return f"stopped by rule after {stopped.n_seen:,} of {stopped.n:,} questions"
    return part_shown(row.plan)


def find_estimate(estimates: Sequence[Estimate], task: str, metric: str | None = None) -> Estimate:
    """Return the estimate of a task (or group) and metric; without a metric, the task's primary one.

    Raises: UnknownName with the known names.
    """
    of_task = [estimate for estimate in estimates if estimate.task == task]
    if not of_task:
        names = list(dict.fromkeys(estimate.task for estimate in estimates))
        raise UnknownName("task in this run", task, names[:5])
    if metric is None:
        return next((estimate for estimate in of_task if estimate.details.get("primary")), of_task[0])
    matches = [estimate for estimate in of_task if metric in {estimate.metric, f"{estimate.metric},{estimate.filter}"}]
    if not matches:
        raise UnknownName(f"metric of {task}", metric, [estimate.metric for estimate in of_task])
    return matches[0]


def label_of(row: RunRow) -> str:
    """Return the last part of the model's path or hub id; for an adapter, base + adapter."""
    return short_model_name(row.model)


def precision_shown(model: ModelIdentity) -> str:
    """Return the type of a model's weights, and the numerics of the computation if not float32."""
    sure = model.numerics == "float32" or "unknown" in model.numerics
    return model.dtype if sure else f"{model.dtype}, {model.numerics}"


def facts_shown(row: RunRow) -> Iterator[tuple[str, str]]:
    """Yield name and text of each heading above a run's table."""
    plan = row.plan
    if plan.model.kind == "imported":
        yield "imported", f"imported from {plan.profile}{'' if row.has_answers else ', reported without answers'}"
    else:
        yield "profile", plan.profile
    if "unknown" not in plan.model.dtype:
        yield "dtype", precision_shown(plan.model)
    if base_url := dict(plan.model.options).get("base_url"):
        yield "server", f"at {urlsplit(str(base_url)).netloc}"
    yield from headings(plan)
    if row.extra.get("rescored"):
        yield "scored again", "scored again after the run"
    if row.status != "finished":
        yield "status", row.status
        if stopped_by_rule(row) is not None:
            yield "race", str(part_evaluated(row))


def _row(score: SampleScoreRow, facts: dict[tuple[int, int], _RequestFacts]) -> ScoreRow:
    own = facts[score.sample_index, score.turn]
    return ScoreRow(
        task=score.task,
        sample_index=score.sample_index,
        sample_sha256=own.sha256,
        metric=score.metric,
        value=score.value,
        filter=score.filter,
        status=score.status,
        parts=score.parts,
        detail=score.detail,
        n_shots=own.n_shots,
        n_leaked_shots=own.n_leaked_shots,
        n_cut_tokens=own.n_cut_tokens,
        n_context_tokens=own.n_context_tokens,
        gold=own.gold,
        choices=own.choices,
        subject=own.subject,
    )


def _facts_by_request(
    store: Store, run_id: str, task: str, *, subjects: bool = False, indices: Sequence[int] | None = None
) -> dict[tuple[int, int], _RequestFacts]:
    """Return the facts of a task's requests by (sample index, turn)."""
    return {
        (record.request.sample_index, record.request.turn): _request_facts(record, subjects)
        for record in store.samples(run_id, task, indices=indices)
    }


def _request_facts(record: SampleRecord, subjects: bool) -> _RequestFacts:
    request = record.request
    n_cut, n_context = max(((o.n_cut_tokens, o.n_context_tokens) for o in record.outputs), default=(0, 0))
    queries = [query for query in request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"]
    texts = tuple(query.continuation.strip() for query in queries)
    if len(set(texts)) < len(texts):  # WinoGrande's choices share one continuation and differ before it
        texts = tuple(
            "… " + "".join(query.segments or ())[-CONTEXT_END:].partition(" ")[2].strip() for query in queries
        )
    return _RequestFacts(
        request.sample_sha256,
        request.n_shots,
        request.n_leaked_shots,
        n_cut,
        n_context,
        texts if len(set(texts)) > 1 else (),
        sha256(request.prompt.encode("utf-8", "surrogatepass")).hexdigest(),
        tuple(sorted(gold_indices(record))) if len(queries) > 1 else (),
        subject_of(record.sample.row) if subjects and record.sample is not None else None,
    )


def _settings(plan: RunPlan) -> dict[str, JsonValue]:
    """Return the comparable settings of a plan; for an imported run, only those that its files state."""
    settings = _all_settings(plan)
    return {name: settings[name] for name in settings if plan.model.kind != "imported" or name not in NOT_IN_FILES}


def _task_settings(plan: RunPlan, task: TaskPlan) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {
        "shots": task.num_fewshot,
        "task version": task.version,
        "generation settings": task.generation,
    }
    if plan.model.kind == "imported":
        return known
    asked_by = "scorers" if plan.model.kind == "application" else "task file"  # with the code they lie in
    return {**known, asked_by: task.spec_hash, "data set": task.dataset_hash}


def _all_settings(plan: RunPlan) -> dict[str, JsonValue]:
    model = plan.model
    return {
        "model": model.content_hash or model.name,
        "dtype": model.dtype,
        "numerics": model.numerics,
        "tokenizer": model.tokenizer_hash,
        "longest context": model.max_length,
        # of an application, and of the fake model, they are what is compared: its version, how often it is right
        "model options": []
        if model.kind in {"application", "fake"}
        else [list(option) for option in model.options if option[0] not in _PLACES],
        **compared_settings(plan),
        "code runs in": plan.code_runs_in,
        "other settings": [list(setting) for setting in plan.extra],
    }


def _guessed_tasks(plan: RunPlan, rows: Sequence[ScoreRow]) -> Iterator[TaskSummaryInput]:
    """Yield the tasks of a run that was never summarised (because it was interrupted), inferred from its scores."""
    for task in plan.tasks:
        names = dict.fromkeys(row.metric for row in rows if row.task == task.name)
        metrics = tuple(
            MetricInput(
                name,
                aggregation_of(name),
                is_higher_better(name),
                tuple(dict.fromkeys(row.filter for row in rows if row.task == task.name and row.metric == name)),
            )
            for name in names
        )
        yield TaskSummaryInput(task.name, metrics, version=task.version, num_fewshot=task.num_fewshot)
