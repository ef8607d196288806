"""Reader of lm-eval's results JSON and samples JSONL, which become records for reports.

So a run of lm-eval can be summarised again (and must then give its own values), compared with ours sample by sample,
and checked. A samples file has the score of each sample; if it has the choices' log-likelihoods too, ties, chance and
calibration can be computed. Samples are paired with ours by the hash of their row.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assaymark.errors import AssaymarkError, DataError
from assaymark.interop.lm_eval_checks import model_named, refuse_malformed
from assaymark.interop.log_files import json_object
from assaymark.interop.read_lm_eval_samples import samples_of
from assaymark.records import ScoreStatus, content_hash
from assaymark.report.evidence.records import (
    GroupAggregate,
    GroupSummaryInput,
    MetricInput,
    RunEvidence,
    ScoreRow,
    TaskSummaryInput,
)
from assaymark.scoring.choices import score_choices
from assaymark.scoring.metrics import CALIBRATION, accuracies_over_choices, aggregation_of, is_higher_better
from assaymark.statistics.aggregate import AGGREGATIONS

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

    Args:
        path: a results file, or a folder with results files (the latest is used, with the samples of the same time).

    Raises: DataError if there is no results file, or a file is not in lm-eval's format.
    """
    file = results_file(Path(path))
    results = json_object(file)
    refuse_malformed(file, results)
    groups = tuple(_groups(results))
    tasks = tuple(_task(name, results) for name in results["configs"])
    rows: list[ScoreRow] = []
    prompts: dict[tuple[str, int], str] = {}
    for task in tasks:
        for line in samples_of(file, task.name):
            rows += _rows(task, line, results["configs"][task.name])
            prompts[task.name, int(line["doc_id"])] = str(line.get("prompt_hash", ""))
    config = results.get("config") or {}
    return RunEvidence(
        label=_label(results),
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
    found = sorted(path.rglob("results_*.json"), key=lambda file: file.name) if path.is_dir() else []
    found = found or (sorted(path.rglob("results.json")) if path.is_dir() else [])
    if not found:
        raise DataError(f"no results of lm-eval at {path}; expected a file results_<time>.json, or a folder with one")
    return found[-1]


def _label(results: Mapping[str, Any]) -> str:
    name = model_named(results, "lm-eval run")
    return name.rstrip("/").rpartition("/")[2] or name


def _task(name: str, results: Mapping[str, Any]) -> TaskSummaryInput:
    config, entry = results["configs"][name], results["results"].get(name, {})
    listed = {
        str(metric["metric"]): metric for metric in config.get("metric_list") or () if isinstance(metric, Mapping)
    }
    directions = (results.get("higher_is_better") or {}).get(name, {})
    found: dict[str, list[str]] = {}
    for key in entry:
        metric, _, name_of_filter = str(key).partition(",")
        if key not in NOT_METRICS and not metric.endswith("_stderr"):
            found.setdefault(metric, []).append(name_of_filter or "none")
    counts = (results.get("n-samples") or {}).get(name, {})
    return TaskSummaryInput(
        name=name,
        metrics=tuple(
            MetricInput(
                metric,
                _aggregation(metric, listed.get(metric, {})),
                bool(directions.get(metric, is_higher_better(metric))),
                tuple(filters),
            )
            for metric, filters in found.items()
        ),
        output_type=str(config.get("output_type", "generate_until")),
        alias=str(entry.get("alias", name)).lstrip(" -"),
        version=str(results["versions"].get(name, "N/A")),
        num_fewshot=int((results.get("n-shot") or {}).get(name) or 0),
        n_total=counts.get("original"),
    )


def _aggregation(metric: str, listed: Mapping[str, Any]) -> str:
    """Return the aggregation of a metric; the mean if it was a function of the task file, which is not known here."""
    named = listed.get("aggregation")
    if isinstance(named, str) and named in AGGREGATIONS:
        return named
    return aggregation_of(metric)


def _groups(results: Mapping[str, Any]) -> Iterator[GroupSummaryInput]:
    averaged = results.get("groups") or {}
    for name, members in (results.get("group_subtasks") or {}).items():
        if not members:
            continue
        entry = averaged.get(name, {})
        metrics = [str(key).split(",") for key in entry if key not in NOT_METRICS and "_stderr," not in str(key)]
        leaves = _leaves(name, results["group_subtasks"])
        yield GroupSummaryInput(
            name=name,
            members=tuple(members),
            aggregates=tuple(
                GroupAggregate(
                    metric, _is_by_size(f"{metric},{filters}", entry, leaves, results["results"]), (filters,)
                )
                for metric, filters in metrics
            ),
            alias=str(entry.get("alias", name)).lstrip(" -"),
            version=str(results["versions"].get(name, "N/A")),
        )


def _leaves(name: str, members: Mapping[str, Sequence[str]]) -> list[str]:
    found: list[str] = []
    for member in members.get(name, ()):
        found += _leaves(member, members) if members.get(member) else [member]
    return list(dict.fromkeys(found))


def _is_by_size(key: str, entry: Mapping[str, Any], leaves: Sequence[str], results: Mapping[str, Any]) -> bool:
    """Return whether a group's value is the mean over samples, inferred from the values."""
    known = [results[leaf] for leaf in leaves if isinstance(results.get(leaf, {}).get(key), int | float)]
    if not known or not isinstance(entry.get(key), int | float):
        return True
    sizes = [int(one.get("sample_len") or 1) for one in known]
    micro = sum(one[key] * size for one, size in zip(known, sizes, strict=True)) / sum(sizes)
    macro = sum(one[key] for one in known) / len(known)
    return bool(abs(micro - entry[key]) <= abs(macro - entry[key]))


def _rows(task: TaskSummaryInput, line: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[ScoreRow]:
    """Yield the logged scores of one line, and for choices those that its log-likelihoods allow in addition."""
    name_of_filter = str(line.get("filter", "none"))
    own = _choice_scores(task, line, config)
    index, sha = int(line["doc_id"]), content_hash(line["doc"])
    for metric in line.get("metrics") or [one.name for one in task.metrics if one.name in line]:
        value, parts = _value(line.get(metric))
        scored = own.get(metric)
        missing = value is None and parts is None
        yield ScoreRow(
            task.name,
            index,
            sha,
            str(metric),
            value,
            name_of_filter,
            ScoreStatus.FAILED if missing else ScoreStatus.SCORED,
            parts,
            scored.detail if scored is not None and scored.value == value else None,
        )
    for metric in CALIBRATION if own else ():
        yield ScoreRow(task.name, index, sha, metric, own[metric].value, name_of_filter, parts=own[metric].parts)


def _value(value: Any) -> tuple[float | None, tuple[Any, ...] | None]:
    if isinstance(value, bool | int | float):
        return float(value), None
    if isinstance(value, list) and len(value) == 2 and isinstance(value[1], str) and value[1].startswith("["):
        return None, (value[0], tuple(float(part) for part in value[1].strip("[]").split()))
    return None, tuple(value) if isinstance(value, list) else None


def _choice_scores(task: TaskSummaryInput, line: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scores of a multiple-choice sample from its log-likelihoods; empty if the line lacks data for it."""
    answers = line.get("filtered_resps")
    arguments = line.get("arguments")
    if task.output_type != "multiple_choice" or not isinstance(answers, list) or not isinstance(arguments, Mapping):
        return {}
    if not all(isinstance(answer, list) and len(answer) == 2 for answer in answers):
        return {}
    delimiter = str(config.get("target_delimiter", " "))
    texts = [str(one.get("arg_1", "")).removeprefix(delimiter) for one in arguments.values()]
    gold = _gold(line, texts)
    if gold is None or len(texts) != len(answers):
        return {}
    told = accuracies_over_choices(without=("unconditional", "token counts"))
    metrics = [metric.name for metric in task.metrics if metric.name in told]
    try:
        nats = [float(value) for value, _ in answers]
        if not all(map(math.isfinite, nats)):
            return {}
        return dict(
            score_choices(
                nats,
                [str(greedy) == "True" for _, greedy in answers],
                None,
                texts,
                gold,
                metrics,
            )
        )
    except (AssaymarkError, ValueError):  # a line in another layout has its logged scores only
        return {}


def _gold(line: Mapping[str, Any], texts: Sequence[str]) -> int | list[int] | None:
    """Return the logged index of the correct choice; None if the target is no choice, or choices have equal texts."""
    target = str(line.get("target", "")).strip()
    if len(set(texts)) < len(texts):
        return None
    if target.isdigit():
        return int(target) if int(target) < len(texts) else None
    if target.startswith("[") and all(part.strip().isdigit() for part in target[1:-1].split(",")):
        return [int(part) for part in target[1:-1].split(",")]
    return texts.index(target) if target in texts else None
