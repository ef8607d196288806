"""A run of lm-eval as our records, with the prompts, answers and scores of its samples files."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assaymark.errors import DataError
from assaymark.interop.imported import (
    ImportedRun,
    digest,
    disagreements,
    facts_from,
    imported_model,
    imported_tasks,
)
from assaymark.interop.lm_eval_checks import model_named
from assaymark.interop.log_files import json_object
from assaymark.interop.read_lm_eval import read_lm_eval, results_file
from assaymark.interop.read_lm_eval_samples import samples_file, samples_of
from assaymark.interop.reported import ReportedValue, in_table_order, reported_estimates
from assaymark.records import (
    Estimate,
    GenerateQuery,
    JsonValue,
    LoglikelihoodQuery,
    ModelIdentity,
    Output,
    Query,
    Request,
    RollingQuery,
    RunPlan,
    Sample,
    Score,
    content_hash,
)
from assaymark.report.evidence.records import GroupSummaryInput, RunEvidence, TaskSummaryInput
from assaymark.report.evidence.summarise import BOOTSTRAP_ITERS, summarise
from assaymark.tasks.generation import settings_of


@dataclass(slots=True)
class _Read:
    """The records read from the samples files of all tasks."""

    requests: dict[str, Request] = field(default_factory=dict)
    samples: dict[str, Sample] = field(default_factory=dict)
    outputs: list[Output] = field(default_factory=list)


def imported_run(path: str | Path) -> ImportedRun:
    """Return the run in a results file of lm-eval (or the latest in a folder), with its samples if they were logged.

    Raises: DataError, in one line, if a file is missing or not in lm-eval's format.
    """
    file = results_file(Path(path))
    try:
        evidence = read_lm_eval(file)
        return _imported(file, json_object(file), evidence)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DataError(
            f"{file} or its samples are not as lm-eval writes them: {type(error).__name__}: {error}; nothing was stored"
        ) from error


def _imported(file: Path, results: Mapping[str, Any], evidence: RunEvidence) -> ImportedRun:
    read = _Read()
    origin = {file.name: digest(file)}
    for task in evidence.tasks:
        logged = samples_file(file, task.name)
        if logged.is_file():
            origin[logged.name] = digest(logged)
        for line in samples_of(file, task.name):
            _add_line(read, task, line)
    scores = tuple(
        Score(f"{row.task}/{row.sample_index}/0", row.metric, row.value, row.filter, row.status, row.parts, row.detail)
        for row in evidence.rows
    )
    estimates, notes = _estimates(evidence, results)
    return ImportedRun(
        plan=_plan(results, evidence, origin, read),
        origin=origin,
        requests=tuple(read.requests.values()),
        samples=tuple(read.samples.values()),
        outputs=tuple(read.outputs),
        scores=scores,
        estimates=estimates,
        extra={**facts_from(evidence.tasks, evidence.groups, results["configs"]), "imported": _source(results, origin)},
        notes=notes,
    )


def _source(results: Mapping[str, Any], origin: Mapping[str, str]) -> dict[str, JsonValue]:
    return {
        "tool": "lm-eval",
        "version": results.get("lm_eval_version"),
        "date": results.get("date"),
        "files": dict(origin),
        "config": results.get("config") or {},
    }


def _plan(results: Mapping[str, Any], evidence: RunEvidence, origin: Mapping[str, str], read: _Read) -> RunPlan:
    config = results.get("config") or {}
    names = [task.name for task in evidence.tasks]
    return RunPlan(
        model=_model(results, config, origin),
        profile=f"lm-eval-{results.get('lm_eval_version') or 'unknown'}",
        tasks=imported_tasks(
            evidence.tasks,
            read.samples.values(),
            {name: n_effective(results, name) for name in names},
            {name: results["configs"][name].get("generation_kwargs") for name in names},
        ),
        seed=int(config.get("fewshot_seed") or 1234),
        limit=config.get("limit"),
        apply_chat_template=bool(results.get("chat_template_sha")),
        fewshot_as_multiturn=bool(results.get("fewshot_as_multiturn")),
        system_instruction=results.get("system_instruction"),
    )


def _model(results: Mapping[str, Any], config: Mapping[str, Any], origin: Mapping[str, str]) -> ModelIdentity:
    n_parameters = config.get("model_num_parameters")
    dtype = str(config.get("model_dtype") or "unknown").removeprefix("torch.")
    return imported_model(
        model_named(results),
        origin,
        template_hash=results.get("chat_template_sha"),
        dtype=dtype,
        numerics="float32" if dtype == "float32" else "model-dtype",  # lm-eval scores in the model's own dtype
        max_length=results.get("max_length"),
        n_parameters=n_parameters if isinstance(n_parameters, int) and n_parameters > 0 else None,
        revision=config.get("model_revision"),
    )


def n_effective(results: Mapping[str, Any], name: str) -> int:
    """Return the number of samples of a task or group: `n-samples`, else `sample_len`; 0 if there is neither."""
    counts = (results.get("n-samples") or {}).get(name, {})
    return int(counts.get("effective") or results["results"].get(name, {}).get("sample_len") or 0)


# ------------------------------------------------------------------------------------------ samples


def _add_line(read: _Read, task: TaskSummaryInput, line: Mapping[str, Any]) -> None:
    """Add one sample's request and answers; a second line of the sample (another filter) adds nothing."""
    index = int(line["doc_id"])
    sha = content_hash(line["doc"])
    request_id = f"{task.name}/{index}/0"
    if request_id in read.requests:
        return
    arguments = list((line.get("arguments") or {}).values())
    answers = list(line.get("resps") or ())
    if len(arguments) != len(answers):
        raise DataError(
            f"sample {index} of {task.name} has {len(arguments)} requests and {len(answers)} answers; expected as many "
            "answers as requests"
        )
    first = str(arguments[0]["arg_0"]) if arguments else ""
    queries = tuple(
        _query(task, number, one, first, len(given))
        for number, (one, given) in enumerate(zip(arguments, answers, strict=True))
    )
    is_rolling = task.output_type == "loglikelihood_rolling"
    read.requests[request_id] = Request(
        task=task.name,
        sample_index=index,
        sample_sha256=sha,
        segments=("",) if is_rolling else (first,),
        queries=queries,
        target=str(line.get("target", "")),
        n_shots=task.num_fewshot,
    )
    read.samples[request_id] = Sample(task.name, index, line["doc"], sha)
    for query, given in zip(queries, answers, strict=True):
        read.outputs += [_output(request_id, query, repeat, answer) for repeat, answer in enumerate(given)]


def _query(task: TaskSummaryInput, index: int, arguments: Mapping[str, Any], first: str, n_repeats: int) -> Query:
    context = str(arguments["arg_0"])
    if task.output_type == "loglikelihood_rolling":
        return RollingQuery(index, context)
    if task.output_type == "generate_until":
        return GenerateQuery(index, settings_of(task.name, dict(arguments["arg_1"]), max(n_repeats, 1)))
    return LoglikelihoodQuery(
        index,
        str(arguments["arg_1"]),
        None if context == first else (context,),
        "choice" if context == first else "unconditional",
    )


def _output(request_id: str, query: Query, repeat: int, answer: Any) -> Output:
    if isinstance(query, GenerateQuery):
        return Output(request_id, query.index, repeat, text=str(answer))
    nats, greedy = answer if isinstance(answer, list | tuple) else (answer, None)
    value = _finite(nats)
    if value is None:
        return Output(
            request_id, query.index, repeat, error=f"the file has no answer: {nats!r}", error_kind="Permanent"
        )
    return Output(request_id, query.index, repeat, value, None if greedy is None else str(greedy) == "True")


def _finite(nats: Any) -> float | None:
    try:
        value = float(nats)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


# ----------------------------------------------------------------------------------------- estimates


def _estimates(evidence: RunEvidence, results: Mapping[str, Any]) -> tuple[tuple[Estimate, ...], tuple[str, ...]]:
    """Return the run's estimates, recomputed from its samples if these were logged, and notes on disagreements."""
    iterations = int((results.get("config") or {}).get("bootstrap_iters") or 0)
    with_samples = {row.task for row in evidence.rows}
    tasks = [task for task in evidence.tasks if task.name in with_samples]
    complete = with_samples == {task.name for task in evidence.tasks}
    computed = summarise(
        evidence.rows, tasks, evidence.groups if complete else (), bootstrap_iters=min(iterations, BOOTSTRAP_ITERS)
    )
    known = {(one.task, one.metric, one.filter) for one in computed}
    named = {group.name for group in evidence.groups}  # early files list a group's values but not its members
    unlisted = [one for one in results.get("groups") or () if one not in named]
    groups = (*evidence.groups, *(GroupSummaryInput(one, ()) for one in unlisted))
    reported = reported_estimates(_reported(results), evidence.tasks, groups)
    notes = tuple(disagreements(computed, reported))
    others = (one for one in reported if (one.task, one.metric, one.filter) not in known)
    return in_table_order((*computed, *others), groups), notes


def _reported(results: Mapping[str, Any]) -> Iterator[ReportedValue]:
    """Yield the values of the results file."""
    for name, entry in {**results["results"], **(results.get("groups") or {})}.items():
        for key, value in entry.items():
            metric, _, name_of_filter = str(key).partition(",")
            if not name_of_filter or metric.endswith("_stderr"):
                continue
            error = entry.get(f"{metric}_stderr,{name_of_filter}")
            yield ReportedValue(
                name,
                metric,
                float(value) if isinstance(value, int | float) else None,
                float(error) if isinstance(error, int | float) else None,
                n_effective(results, name),
                name_of_filter,
            )
