"""Gradings as a stored run, so that the pages, comparisons and boards of runs show them: an instance is a sample.

The question is the issue, the answers are the patches, the target is the gold patch; the tests' log, why a patch does
not resolve its instance, and what to look at stand beside the score.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from assaymark.errors import DataError
from assaymark.interop.imported import (
    ForeignRun,
    ForeignSample,
    ImportedRun,
    imported_model,
    imported_of,
    store_imported,
)
from assaymark.records import JsonValue, Output, content_hash
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metric import Scale
from assaymark.statistics.pass_at_k import pass_at_k
from assaymark.store import Store
from assaymark.swe.grading import Graded
from assaymark.swe.grading_log import trace_id_of
from assaymark.swe.instances import Instance
from assaymark.swe.report import SCORED, SweReport

METRIC = "resolved"
OF_ATTEMPTS = "resolved_pass@{}"  # begins with the metric that decides whether a sample is right, and follows it
LONGEST_LOG = 60_000  # characters of the log of each attempt: its end


def store_gradings(
    store: Store, task: str, instances: Sequence[Instance], reports: Sequence[SweReport]
) -> tuple[str, bool]:
    """Store reports of one model as a run of a task; the same gradings are one run.

    Returns: its id, and whether it is new.
    Raises: DataError where nothing is graded; StoreError.
    """
    return store_imported(store, gradings_run(task, instances, reports))


def gradings_run(task: str, instances: Sequence[Instance], reports: Sequence[SweReport]) -> ImportedRun:
    """Return reports of one model as the records of a run.

    Args:
        task: its name; runs of different models are compared where it and their instances are the same.
        reports: one for each attempt at them.

    Raises: DataError where nothing is graded.
    """
    rows = [(instance, attempts) for instance in instances if (attempts := _graded(instance, reports))]
    if not rows:
        raise DataError("nothing is graded; grade the predictions with `assaymark swe grade` before")
    most = max(len(attempts) for _, attempts in rows)
    samples = tuple(_sample(task, index, *row) for index, row in enumerate(rows))
    scale: Scale = "share" if most > 1 else "right or wrong"
    metrics = (MetricInput(METRIC, scale=scale), *(MetricInput(OF_ATTEMPTS.format(k)) for k in range(2, most + 1)))
    summary = TaskSummaryInput(
        task, metrics, output_type="generate_until", version="1", n_total=len(instances), primary_metric=METRIC
    )
    model = reports[0].model
    run = imported_of(ForeignRun("assaymark swe", model, (summary,), samples, (), ()))
    details = {f"{task}/{at}/0": _detail(attempts) for at, (_, attempts) in enumerate(rows)}
    traces = {f"{task}/{at}/0": _traces(instance, reports) for at, (instance, _) in enumerate(rows)}
    graded = [
        [each.instance_id, [[attempt.outcome, attempt.reason] for attempt in attempts]] for each, attempts in rows
    ]
    origin = {"gradings": content_hash([task, graded, [list(sample.answers) for sample in samples]])}
    return replace(
        run,
        origin=origin,
        plan=replace(run.plan, model=imported_model(model, origin, dtype="dtype unknown", numerics="numerics unknown")),
        outputs=tuple(_with_trace(output, traces) for output in run.outputs),
        scores=tuple(
            replace(score, detail=details[score.request_id]) if score.metric == METRIC else score
            for score in run.scores
        ),
    )


def _graded(instance: Instance, reports: Sequence[SweReport]) -> list[Graded]:
    grades = [report.graded.get(instance.instance_id) for report in reports]
    return [each for each in grades if each is not None]


def _sample(task: str, index: int, instance: Instance, attempts: Sequence[Graded]) -> ForeignSample:
    scored = [each.outcome == "resolved" for each in attempts if each.outcome in SCORED]
    scores: dict[str, float | None] = {METRIC: sum(scored) / len(scored) if scored else None}
    scores |= {OF_ATTEMPTS.format(k): pass_at_k(len(scored), sum(scored), k) for k in range(2, len(scored) + 1)}
    return ForeignSample(
        task=task,
        index=index,
        row={"instance_id": instance.instance_id, "repo": instance.repo, "base_commit": instance.base_commit,
             "created_at": instance.created_at, "instance_sha": instance.sha},
        prompt=instance.problem_statement,
        target=instance.patch,
        scores=scores,
        answers=tuple(_fenced(each.prediction.model_patch) for each in attempts),
    )  # fmt: skip


def _fenced(patch: str) -> str:
    """Return a patch as a block of code, so that pages show its lines as they are; empty where there is none."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", patch)), default=0))
    return f"{fence}diff\n{patch.rstrip()}\n{fence}" if patch.strip() else ""


def _detail(attempts: Sequence[Graded]) -> dict[str, JsonValue]:
    detail: dict[str, JsonValue] = {"outcomes": [each.outcome for each in attempts]}
    if reasons := [each.reason for each in attempts if each.reason]:
        detail |= {"reason": attempts[0].outcome if len(attempts) == 1 else "of an attempt", "message": reasons[0]}
    graded = [each.grading for each in attempts if each.grading is not None]
    if flags := list(dict.fromkeys(flag for each in graded for flag in each.details.get("flags") or ())):
        detail["look_at"] = [str(flag) for flag in flags]
    if graded:
        detail["log"] = "\n\n".join(
            f"{each.outcome}, {each.seconds:.1f} s\n{each.log[-LONGEST_LOG:]}" for each in graded
        )
    return detail


def _traces(instance: Instance, reports: Sequence[SweReport]) -> list[str | None]:
    """Return the id of the trace of each graded attempt; None where its trajectory is not stored."""
    made: list[str | None] = []
    for report in reports:
        if instance.instance_id in report.graded:
            known = report.efforts.by_instance if report.efforts is not None else {}
            effort = known.get(instance.instance_id)
            made.append(None if effort is None else trace_id_of(effort.key))
    return made


def _with_trace(output: Output, traces: Mapping[str, Sequence[str | None]]) -> Output:
    known = traces[output.request_id]
    trace = known[output.repeat] if output.repeat < len(known) else None
    return output if trace is None else replace(output, call=json.dumps({"trace_id": trace}))
