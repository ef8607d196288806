"""Reader of lm-eval's results JSON and samples JSONL, which become records for reports.

So a run of lm-eval can be summarised again (and must then give its own values), compared with ours sample by sample,
and checked. A samples file has the score of each sample; if it has the choices' log-likelihoods too, ties, chance and
calibration can be computed. Samples are paired with ours by the hash of their row.

Samples files have one line per sample from 0.4.3 on, before that one JSON list. The early files are named after the
model's arguments instead of the time, and have a request's arguments as a list. Source: lm-evaluation-harness 0.4.0 to
0.4.2, __main__.py; from 0.4.3 on loggers/evaluation_tracker.py
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from assaymark.errors import AssaymarkError, DataError
from assaymark.interop.imported import ImportedRun, digest, disagreements, facts_from, imported_model, imported_tasks
from assaymark.interop.lm_eval_checks import model_named, refuse_malformed
from assaymark.interop.log_files import json_object, open_text, parse_json
from assaymark.interop.reported import ReportedValue, in_table_order, reported_estimates
from assaymark.platforms import portable_name
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
    ScoreStatus,
    content_hash,
)
from assaymark.records.json_values import (
    float_of,
    int_at,
    int_of,
    list_at,
    list_of,
    object_at,
    object_of,
    text_at,
    texts_of,
)
from assaymark.results.evidence.records import (
    GroupAggregate,
    GroupSummaryInput,
    MetricInput,
    RunEvidence,
    ScoreRow,
    TaskSummaryInput,
)
from assaymark.results.evidence.summarise import BOOTSTRAP_ITERS, summarise
from assaymark.scoring.choices import score_choices
from assaymark.scoring.metric import CALIBRATION, ScoreValue
from assaymark.scoring.metrics import accuracies_over_choices, aggregation_of, is_higher_better
from assaymark.statistics.aggregate import AGGREGATIONS, traits_of
from assaymark.tasks.generation import settings_of

EARLY_NAMES = (r"/|=", r"[\"<>:/\|\\?\*\[\]]+")  # replaced by "__" in the model's arguments, by 0.4.0 and by 0.4.2


def samples_file(results: Path, task: str) -> Path:
    """Return the path of a task's samples: with the time of the results file, or with the name of early versions.

    The file may not exist, since samples are logged only on request.
    """
    stamp = results.stem.partition("_")[2] if results.stem.startswith("results_") else results.stem.rpartition("_")[2]
    names = (portable_name(task), task.replace("/", "__"))  # ours, and lm-eval's
    files = [results.parent / f"samples_{name}_{stamp}.jsonl" for name in names]
    file = next((path for path in files if path.is_file()), files[0])
    if file.is_file() or results.stem.startswith("results_"):
        return file
    arguments = str(object_at(json_object(results), "config").get("model_args") or "")
    early = [results.parent / f"{re.sub(pattern, '__', arguments)}_{task}.jsonl" for pattern in EARLY_NAMES]
    return next((path for path in early if path.is_file()), file)


def samples_of(results: Path, task: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the samples of a task; none if they were not logged.

    Raises: DataError for a line that is not a sample, and for a sample that occurs twice under one filter.
    """
    file = samples_file(results, task)
    if not file.is_file():
        return
    seen: set[tuple[str, str]] = set()
    for location, sample in _logged(file):
        if not isinstance(sample, dict):
            raise DataError(f"{location} contains a {type(sample).__name__}; expected an object")
        if "doc_id" not in sample or "doc" not in sample:
            raise DataError(f"{location}: no doc_id or doc; expected a sample as lm-eval logs it")
        key = (str(sample["doc_id"]), str(sample.get("filter", "none")))
        if key in seen:
            raise DataError(f"{location}: doc_id {key[0]} (filter {key[1]}) occurs twice")
        seen.add(key)
        yield {**sample, "arguments": _arguments(sample.get("arguments"))}


def _logged(file: Path) -> Iterator[tuple[str, object]]:
    """Yield each sample with its location in the file: the lines, or the items of the one list of an early file."""
    with open_text(file) as lines:
        first = lines.readline()
        if first.strip() == "[" or first.lstrip().startswith("[{"):
            whole = parse_json(first + lines.read(), str(file))
            yield from (
                (f"{file}, item {number}", sample) for number, sample in enumerate(list_of(whole, str(file)), start=1)
            )
            return
        lines.seek(0)
        for number, line in enumerate(lines, start=1):
            if line.strip():
                location = f"{file}, line {number}"
                yield location, parse_json(line, location)


def _arguments(arguments: object) -> object:
    """Return the arguments of a sample's requests by name, as in lm-eval's current format."""
    if not isinstance(arguments, list):
        return arguments
    return {
        f"gen_args_{number}": of_request
        if isinstance(of_request, Mapping)
        else {f"arg_{i}": part for i, part in enumerate(of_request)}
        for number, of_request in enumerate(arguments)
    }


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


def _imported(file: Path, results: Mapping[str, JsonValue], evidence: RunEvidence) -> ImportedRun:
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
    facts = facts_from(evidence.tasks, evidence.groups, object_at(results, "configs"))
    return ImportedRun(
        plan=_plan(results, evidence, origin, read),
        origin=origin,
        requests=tuple(read.requests.values()),
        samples=tuple(read.samples.values()),
        outputs=tuple(read.outputs),
        scores=scores,
        estimates=estimates,
        extra={**facts, "imported": _source(results, origin)},
        notes=notes,
    )


def _source(results: Mapping[str, object], origin: Mapping[str, str]) -> dict[str, JsonValue]:
    return {
        "tool": "lm-eval",
        "version": results.get("lm_eval_version"),
        "date": results.get("date"),
        "files": dict(origin),
        "config": results.get("config") or {},
    }


def _plan(results: Mapping[str, JsonValue], evidence: RunEvidence, origin: Mapping[str, str], read: _Read) -> RunPlan:
    config, configs = object_at(results, "config"), object_at(results, "configs")
    limit = config.get("limit")
    names = [task.name for task in evidence.tasks]
    return RunPlan(
        model=_model(results, config, origin),
        profile=f"lm-eval-{results.get('lm_eval_version') or 'unknown'}",
        tasks=imported_tasks(
            evidence.tasks,
            read.samples.values(),
            {name: n_effective(results, name) for name in names},
            {name: object_of(configs[name], name).get("generation_kwargs") for name in names},
        ),
        seed=int_at(config, "fewshot_seed", 1234),
        limit=limit if isinstance(limit, int | float) else None,
        apply_chat_template=bool(results.get("chat_template_sha")),
        fewshot_as_multiturn=bool(results.get("fewshot_as_multiturn")),
        system_instruction=text_at(results, "system_instruction"),
    )


def _model(results: Mapping[str, object], config: Mapping[str, object], origin: Mapping[str, str]) -> ModelIdentity:
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


def n_effective(results: Mapping[str, JsonValue], name: str) -> int:
    """Return the number of samples of a task or group: `n-samples`, else `sample_len`; 0 if there is neither."""
    counts, entry = object_at(object_at(results, "n-samples"), name), object_at(object_at(results, "results"), name)
    return int_at(counts, "effective", int_at(entry, "sample_len", 0))


# ------------------------------------------------------------------------------------------ samples


def _add_line(read: _Read, task: TaskSummaryInput, line: Mapping[str, JsonValue]) -> None:
    """Add one sample's request and answers; a second line of the sample (another filter) adds nothing."""
    index, row = int_at(line, "doc_id"), object_of(line["doc"], "doc")
    sha = content_hash(row)
    request_id = f"{task.name}/{index}/0"
    if request_id in read.requests:
        return
    arguments = [object_of(each, "arguments") for each in object_at(line, "arguments").values()]
    answers = [list_of(each, "resps") for each in list_at(line, "resps")]
    if len(arguments) != len(answers):
        raise DataError(
            f"sample {index} of {task.name} has {len(arguments)} requests and {len(answers)} answers; expected as many "
            "answers as requests"
        )
    first = str(arguments[0]["arg_0"]) if arguments else ""
    queries = tuple(
        _query(task, number, argument, first, len(repeated))
        for number, (argument, repeated) in enumerate(zip(arguments, answers, strict=True))
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
    read.samples[request_id] = Sample(task.name, index, row, sha)
    for query, repeats in zip(queries, answers, strict=True):
        read.outputs += [_output(request_id, query, repeat, answer) for repeat, answer in enumerate(repeats)]


def _query(task: TaskSummaryInput, index: int, arguments: Mapping[str, JsonValue], first: str, n_repeats: int) -> Query:
    context = str(arguments["arg_0"])
    if task.output_type == "loglikelihood_rolling":
        return RollingQuery(index, context)
    if task.output_type == "generate_until":
        return GenerateQuery(index, settings_of(task.name, object_of(arguments["arg_1"], "arg_1"), max(n_repeats, 1)))
    return LoglikelihoodQuery(
        index,
        str(arguments["arg_1"]),
        None if context == first else (context,),
        "choice" if context == first else "unconditional",
    )


def _output(request_id: str, query: Query, repeat: int, answer: object) -> Output:
    if isinstance(query, GenerateQuery):
        return Output(request_id, query.index, repeat, text=str(answer))
    nats, greedy = answer if isinstance(answer, list | tuple) else (answer, None)
    value = _finite(nats)
    if value is None:
        return Output(
            request_id, query.index, repeat, error=f"the file has no answer: {nats!r}", error_kind="Permanent"
        )
    return Output(request_id, query.index, repeat, value, None if greedy is None else str(greedy) == "True")


def _finite(nats: JsonValue) -> float | None:
    try:
        value = float_of(nats, "answer")
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


# ----------------------------------------------------------------------------------------- estimates


def _estimates(evidence: RunEvidence, results: Mapping[str, JsonValue]) -> tuple[tuple[Estimate, ...], tuple[str, ...]]:
    """Return the run's estimates, recomputed from its samples if these were logged, and notes on disagreements."""
    iterations = int_at(object_at(results, "config"), "bootstrap_iters", 0)
    with_samples = {row.task for row in evidence.rows}
    tasks = [task for task in evidence.tasks if task.name in with_samples]
    complete = with_samples == {task.name for task in evidence.tasks}
    computed = summarise(
        evidence.rows, tasks, evidence.groups if complete else (), bootstrap_iters=min(iterations, BOOTSTRAP_ITERS)
    )
    named = {group.name for group in evidence.groups}  # early files list a group's values but not its members
    unlisted = [name for name in object_at(results, "groups") if name not in named]
    groups = (*evidence.groups, *(GroupSummaryInput(name, ()) for name in unlisted))
    reported = reported_estimates(_reported(results), evidence.tasks, groups)
    by_functions = _aggregated_by_functions(results)
    unknown = [
        each
        for each in computed
        if each.metric in by_functions.get(each.task, set().union(*by_functions.values()) if each.task in named else ())
        and disagreements([each], reported)
    ]
    computed = tuple(each for each in computed if each not in unknown)
    known = {(estimate.task, estimate.metric, estimate.filter) for estimate in computed}
    notes = (
        *disagreements(computed, reported),
        *(f"{each.task} {each.metric}: a function of the task file aggregates it, which is not known here; the value "
          "is as reported" for each in unknown),
    )  # fmt: skip
    others = (estimate for estimate in reported if (estimate.task, estimate.metric, estimate.filter) not in known)
    return in_table_order((*computed, *others), groups), notes


def _aggregated_by_functions(results: Mapping[str, JsonValue]) -> dict[str, set[str]]:
    """Return the metrics of each task whose aggregation is none of lm-eval's, but code of the task file."""
    return {
        name: {
            str(metric["metric"])
            for metric in list_at(object_of(config, name), "metric_list")
            if isinstance(metric, Mapping) and str(metric.get("aggregation") or "mean") not in AGGREGATIONS
        }
        for name, config in object_at(results, "configs").items()
    }


def _reported(results: Mapping[str, JsonValue]) -> Iterator[ReportedValue]:
    """Yield the values of the results file."""
    by_functions = _aggregated_by_functions(results)
    everywhere = set[str]().union(*by_functions.values())
    for name, cells in {**object_at(results, "results"), **object_at(results, "groups")}.items():
        entry = object_of(cells, name)
        for key, value in entry.items():
            metric, comma, name_of_filter = str(key).partition(",")
            is_plain_number = key not in NOT_METRICS and isinstance(value, int | float) and not isinstance(value, bool)
            if metric.endswith("_stderr") or not (name_of_filter or is_plain_number):
                continue  # a number without a filter, as in files that were merged by hand, is of no filter
            error = entry.get(f"{metric}_stderr{comma}{name_of_filter}")
            is_mean = metric not in by_functions.get(name, everywhere) or metric in _MEANS_BY_FUNCTIONS
            yield ReportedValue(
                name, metric, float(value) if isinstance(value, int | float) else None,
                float(error) if isinstance(error, int | float) else None, n_effective(results, name),
                name_of_filter or "none", is_mean=is_mean
            )  # fmt: skip


_MEANS_BY_FUNCTIONS = frozenset({"inst_level_strict_acc", "inst_level_loose_acc"})  # IFEval's, over all instructions
NOT_METRICS = frozenset({"alias", "name", "sample_len", "sample_count", "samples"})
SETTINGS = {
    "profile": "lm_eval_version",
    "chat template": "chat_template_sha",
    "shots as turns": "fewshot_as_multiturn",
    "system instruction": "system_instruction",
    "longest context": "max_length",
}


def read_lm_eval(path: str | Path) -> RunEvidence:
    """Return a run of lm-eval.

    path: a results file, or a folder with results files (the latest is used, with the samples of the same time).

    Raises: DataError if there is no results file, or a file is not in lm-eval's format.
    """
    file = results_file(Path(path))
    results = json_object(file)
    refuse_malformed(file, results)
    groups = tuple(_groups(results))
    configs = {name: object_of(config, name) for name, config in object_at(results, "configs").items()}
    tasks = tuple(_task(name, config, results) for name, config in configs.items())
    rows: list[ScoreRow] = []
    prompts: dict[tuple[str, int], str] = {}
    for task in tasks:
        for line in samples_of(file, task.name):
            rows += _rows(task, line, configs[task.name])
            prompts[task.name, int_at(line, "doc_id")] = str(line.get("prompt_hash", ""))
    config = object_at(results, "config")
    model = model_named(results, "lm-eval run")
    return RunEvidence(
        label=model.rstrip("/").rpartition("/")[2] or model,
        run_id="",
        rows=tuple(rows),
        tasks=tasks,
        groups=groups,
        settings={
            "model": model_named(results),
            "dtype": str(config.get("model_dtype") or "unknown").removeprefix("torch."),
            "seed of the shots": config.get("fewshot_seed"),
            "limit": config.get("limit"),
            **{name: results.get(key) for name, key in SETTINGS.items()},
        },
        task_settings={task.name: {"shots": task.num_fewshot, "task version": task.version} for task in tasks},
        prompt_hashes=prompts,
    )


def results_file(path: Path) -> Path:
    """Return the results file itself, or the latest one in or below a folder (`results.json` of early versions)."""
    if path.is_file():
        return path
    paths = sorted(path.rglob("results_*.json"), key=lambda file: file.name) if path.is_dir() else []
    paths = paths or (sorted(path.rglob("results.json")) if path.is_dir() else [])
    if not paths:
        raise DataError(f"no results of lm-eval at {path}; expected a file results_<time>.json, or a folder with one")
    return paths[-1]


def _task(name: str, config: Mapping[str, JsonValue], results: Mapping[str, JsonValue]) -> TaskSummaryInput:
    entry = object_at(object_at(results, "results"), name)
    listed = {str(metric["metric"]): metric for metric in list_at(config, "metric_list") if isinstance(metric, Mapping)}
    directions = object_at(object_at(results, "higher_is_better"), name)
    by_metric: dict[str, list[str]] = {}
    for key in entry:
        metric, _, name_of_filter = str(key).partition(",")
        if key not in NOT_METRICS and not metric.endswith("_stderr"):
            by_metric.setdefault(metric, []).append(name_of_filter or "none")
    n_total = object_at(object_at(results, "n-samples"), name).get("original")
    return TaskSummaryInput(
        name=name,
        metrics=tuple(
            MetricInput(
                metric,
                _aggregation(metric, listed.get(metric, {})),
                bool(directions.get(metric, is_higher_better(metric))),
                tuple(filters),
            )
            for metric, filters in by_metric.items()
        ),
        output_type=str(config.get("output_type", "generate_until")),
        alias=str(entry.get("alias", name)).lstrip(" -"),
        version=str(object_at(results, "versions").get(name, "N/A")),
        num_fewshot=int_at(object_at(results, "n-shot"), name, 0),
        n_total=None if n_total is None else int_of(n_total, "n-samples"),
    )


def _aggregation(metric: str, listed: Mapping[str, object]) -> str:
    """Return the aggregation of a metric; the metric's own if it was a function of the task file."""
    named = listed.get("aggregation")
    if isinstance(named, str) and named in AGGREGATIONS:
        return named
    return aggregation_of(metric)


def _groups(results: Mapping[str, JsonValue]) -> Iterator[GroupSummaryInput]:
    averaged, entries = object_at(results, "groups"), object_at(results, "results")
    subtasks = {name: texts_of(members or (), name) for name, members in object_at(results, "group_subtasks").items()}
    for name, members in subtasks.items():
        if not members:
            continue
        entry = object_at(averaged, name)
        metrics = [str(key).split(",") for key in entry if key not in NOT_METRICS and "_stderr," not in str(key)]
        leaves = _leaves(name, subtasks)
        yield GroupSummaryInput(
            name=name,
            members=tuple(members),
            aggregates=tuple(
                GroupAggregate(metric, _is_by_size(f"{metric},{filters}", entry, leaves, entries), (filters,))
                for metric, filters in metrics
            ),
            alias=str(entry.get("alias", name)).lstrip(" -"),
            version=str(object_at(results, "versions").get(name, "N/A")),
        )


def _leaves(name: str, members: Mapping[str, Sequence[str]]) -> list[str]:
    leaves: list[str] = []
    for member in members.get(name, ()):
        leaves += _leaves(member, members) if members.get(member) else [member]
    return list(dict.fromkeys(leaves))


def _is_by_size(
    key: str, entry: Mapping[str, JsonValue], leaves: Sequence[str], results: Mapping[str, JsonValue]
) -> bool:
    """Return whether a group's value is the mean over samples, inferred from the values."""
    of_leaves = [object_at(results, leaf) for leaf in leaves]
    known = [
        (value, int_at(each, "sample_len", 1)) for each in of_leaves if isinstance(value := each.get(key), int | float)
    ]
    own = entry.get(key)
    if not known or not isinstance(own, int | float):
        return True
    micro = sum(value * size for value, size in known) / sum(size for _, size in known)
    macro = sum(value for value, _ in known) / len(known)
    return bool(abs(micro - own) <= abs(macro - own))


def _rows(task: TaskSummaryInput, line: Mapping[str, JsonValue], config: Mapping[str, JsonValue]) -> Iterator[ScoreRow]:
    """Yield the logged scores of one line, and for choices those that its log-likelihoods allow in addition."""
    name_of_filter = str(line.get("filter", "none"))
    own = _choice_scores(task, line, config)
    index, sha = int_at(line, "doc_id"), content_hash(line["doc"])
    present = [metric_input.name for metric_input in task.metrics if metric_input.name in line]
    means = {metric_input.name for metric_input in task.metrics if traits_of(metric_input.aggregation).is_mean}
    for metric in texts_of(line.get("metrics") or present, "metrics"):
        if metric in means and isinstance(line.get(metric), str | list | Mapping):
            continue  # a function of the task file aggregates it, which is not known here: the value is as reported
        value, parts = _value(line.get(metric))
        scored = own.get(metric)
        missing = value is None and parts is None
        yield ScoreRow(
            task.name,
            index,
            sha,
            metric,
            value,
            name_of_filter,
            ScoreStatus.FAILED if missing else ScoreStatus.SCORED,
            parts,
            scored.detail if scored is not None and scored.value == value else None,
        )
    for metric in CALIBRATION if own else ():
        yield ScoreRow(task.name, index, sha, metric, own[metric].value, name_of_filter, parts=own[metric].parts)


def _value(value: object) -> tuple[float | None, tuple[JsonValue, ...] | None]:
    if isinstance(value, bool | int | float):
        return float(value), None
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], str) and value[1].startswith("["):
        with suppress(ValueError):  # else it is a text, such as [invalid]
            return None, (value[0], tuple(float(part) for part in value[1].strip("[]").split()))
    match value:
        case [[label], int() as picked]:  # of f1 and mcc, where the target is a list
            return None, (label, picked)
        case list():
            return None, tuple(value)
    return None, None


def _choice_scores(
    task: TaskSummaryInput, line: Mapping[str, object], config: Mapping[str, object]
) -> dict[str, ScoreValue]:
    """Return the scores of a multiple-choice sample from its log-likelihoods; empty if the line lacks data for it."""
    answers = line.get("filtered_resps")
    arguments = line.get("arguments")
    if task.output_type != "multiple_choice" or not isinstance(answers, list) or not isinstance(arguments, Mapping):
        return {}
    if not all(isinstance(answer, list) and len(answer) == 2 for answer in answers):
        return {}
    delimiter = str(config.get("target_delimiter", " "))
    texts = [str(argument.get("arg_1", "")).removeprefix(delimiter) for argument in arguments.values()]
    gold = _gold(line, texts)
    if gold is None or len(texts) != len(answers):
        return {}
    computable = accuracies_over_choices(without=("unconditional", "token counts"))
    metrics = [metric.name for metric in task.metrics if metric.name in computable]
    try:
        nats = [float(value) for value, _ in answers]
        if not all(map(math.isfinite, nats)):
            return {}
        return dict(score_choices(nats, [str(greedy) == "True" for _, greedy in answers], None, texts, gold, metrics))
    except (AssaymarkError, ValueError):  # a line in another layout has its logged scores only
        return {}


def _gold(line: Mapping[str, object], texts: Sequence[str]) -> int | list[int] | None:
    """Return the logged index of the correct choice; None if the target is not a choice or choices have equal texts."""
    target = str(line.get("target", "")).strip()
    if len(set(texts)) < len(texts):
        return None
    if target.isdigit():
        return int(target) if int(target) < len(texts) else None
    if target.startswith("[") and all(part.strip().isdigit() for part in target[1:-1].split(",")):
        return [int(part) for part in target[1:-1].split(",")]
    return texts.index(target) if target in texts else None
