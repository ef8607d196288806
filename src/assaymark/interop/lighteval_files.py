"""Export of a stored run in the layout of the first Open LLM Leaderboard's data sets, as lighteval wrote them.

`results/ORG/MODEL/results_<time>.json` has values and errors by task (`harness|arc:challenge|25`);
`details/details_ORG__MODEL/<time>/details_<task>_<time>.parquet` has a row for each sample, and the results file lies
there again, as on the Hub. The time is the run's own, so that a second export writes the same files.

Tokens are not stored with a run, so their columns are empty and their hashes null. The hashes of prompts are the first
Open LLM Leaderboard's: two results files whose `hash_full_prompts` are equal have asked the same prompts.

Source: https://huggingface.co/open-llm-leaderboard-old, lighteval 0.4 (`GeneralConfigLogger`, `DetailsLogger`)
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict

from assaymark.drafts import whole_file, write_whole
from assaymark.errors import MissingExtra, StoreError, UsageError
from assaymark.interop.lm_eval_results import seconds_of
from assaymark.records import Estimate, JsonValue, LoglikelihoodQuery
from assaymark.records.json_values import float_of, object_at, objects_at
from assaymark.results.evidence.from_store import choice_queries, gold_indices
from assaymark.results.views.samples import answer_text
from assaymark.store import Store
from assaymark.store.rows import AttemptRow, RunRow, SampleRecord
from assaymark.tasks.aliases import PresentName, first_board_name

__all__ = [
    "detail_rows",
    "means_of",
    "need_hashes",
    "summary_of",
    "summary_of_all",
    "write_details",
    "write_lighteval_files",
]


HASHES = {  # of a task: of a sample
    "hash_examples": "example",
    "hash_full_prompts": "full_prompt",
    "hash_input_tokens": "input_tokens",
    "hash_cont_tokens": "cont_tokens",
}


class _Answers(TypedDict):
    """The answers of a sample: log-likelihoods of its choices, or texts."""

    predictions: list[float | str | None]
    input_tokens: list[list[int]]
    cont_tokens: list[list[int]]
    truncated: list[int]  # tokens that were cut
    padded: list[int]


class DetailRow(_Answers):
    """A sample in a details file."""

    example: str
    instruction: str
    full_prompt: str
    num_effective_few_shots: int
    num_asked_few_shots: int
    gold: list[str]
    gold_index: list[int]
    choices: list[str]
    metrics: dict[str, float | None]
    hashes: dict[str, str | None]


class TaskDetails(TypedDict):
    """A task's entry in `summary_tasks`."""

    hashes: dict[str, str | None]
    truncated: int  # samples whose prompt was cut
    non_truncated: int
    padded: int
    non_padded: int
    effective_few_shots: float
    num_truncated_few_shots: int


def detail_rows(
    records: Iterable[SampleRecord], names: Mapping[tuple[str, str], str], shots: int
) -> Iterator[DetailRow]:
    """Yield a row for each sample.

    Args:
        records: the stored samples of one task.
        names: metrics to write, by metric and filter, and what they are called in the file; may be none.
        shots: examples asked for.
    """
    for record in records:
        golds = sorted(gold_indices(record))
        segments = _segments(record, golds)
        prompt = "".join(segments) or record.request.prompt
        example = segments[-1] if segments else prompt
        yield {
            "example": _utf8(example),
            "instruction": "",
            "full_prompt": _utf8(prompt),
            "num_effective_few_shots": record.request.n_shots,
            "num_asked_few_shots": shots,
            "gold": [_utf8(record.request.target)],
            "gold_index": golds,
            "choices": [_utf8(query.continuation) for query in choice_queries(record)],
            "metrics": {name: _score(record, *key) for key, name in names.items()},
            "hashes": {
                **dict.fromkeys(HASHES.values()),
                **({} if record.is_withheld else {"example": _hash(example), "full_prompt": _hash(prompt)}),
            },
            **_answers(record),
        }


def _answers(record: SampleRecord) -> _Answers:
    written = [output for output in record.outputs if _is_written(record, output.ask_index)]
    outputs = [output for output in written if output.error is None]
    return {
        "predictions": [
            _utf8(answer_text(output)) if output.text is not None else output.total_nats for output in outputs
        ],
        "input_tokens": [],
        "cont_tokens": [],
        "truncated": [output.n_cut_tokens for output in written],
        "padded": [0] * len(written),
    }


def _score(record: SampleRecord, metric: str, name_of_filter: str) -> float | None:
    return next(
        (score.value for score in record.scores if (score.metric, score.filter) == (metric, name_of_filter)), None
    )


def _utf8(text: str) -> str:
    """Return a text that Parquet can hold: surrogates alone, which some data sets have, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _segments(record: SampleRecord, golds: Sequence[int]) -> tuple[str, ...]:
    """Return the context: where each choice has one of its own (WinoGrande), that of the correct choice."""
    queries = choice_queries(record)
    own = next((query for query in queries if query.index in golds), queries[0] if queries else None)
    return own.segments if own is not None and own.segments is not None else record.request.segments


def _is_written(record: SampleRecord, index: int) -> bool:
    """Return whether a query's answers are written: not those of choices without the question, or in another order."""
    query = next((candidate for candidate in record.request.queries if candidate.index == index), None)
    return not isinstance(query, LoglikelihoodQuery) or query.role == "choice"


def need_hashes() -> None:
    """Raise MissingExtra without the package xxhash, before anything is written."""
    if find_spec("xxhash") is None:
        raise MissingExtra("the first leaderboard's hash of a prompt (package xxhash)", "hub")


def _hash(text: str) -> str:
    """Return the XXH64 of a text as hexadecimal digits."""
    import xxhash

    return str(xxhash.xxh64(text.encode("utf-8", "surrogatepass")).hexdigest())


def summary_of(rows: Sequence[DetailRow]) -> TaskDetails:
    """Return a task's entry in `summary_tasks`: hashes over all samples in any order, and counts."""
    cut = sum(any(n > 0 for n in row["truncated"]) for row in rows)
    shots = [row["num_effective_few_shots"] for row in rows]
    return {
        "hashes": {name: _hash_of([row["hashes"][key] for row in rows]) for name, key in HASHES.items()},
        "truncated": cut,
        "non_truncated": len(rows) - cut,
        "padded": 0,
        "non_padded": sum(len(row["padded"]) for row in rows),
        "effective_few_shots": sum(shots) / len(shots) if shots else 0.0,
        "num_truncated_few_shots": sum(row["num_asked_few_shots"] != n for row, n in zip(rows, shots, strict=True)),
    }


def _hash_of(hashes: Sequence[str | None]) -> str | None:
    return None if None in hashes or not hashes else _hash("".join(sorted(digest or "" for digest in hashes)))


def summary_of_all(summaries: Mapping[str, TaskDetails]) -> dict[str, JsonValue]:
    """Return `summary_general` from the entries of all tasks."""
    of_tasks = [summary["hashes"] for _, summary in sorted(summaries.items())]
    samples = summaries.values()
    return {
        "hashes": {
            name: None
            if not of_tasks or any(task[name] is None for task in of_tasks)
            else _hash("".join(task[name] or "" for task in of_tasks))
            for name in HASHES
        },
        "truncated": sum(summary["truncated"] for summary in samples),
        "non_truncated": sum(summary["non_truncated"] for summary in samples),
        "padded": sum(summary["padded"] for summary in samples),
        "non_padded": sum(summary["non_padded"] for summary in samples),
        "num_truncated_few_shots": sum(summary["num_truncated_few_shots"] for summary in samples),
    }


def write_details(file: object, rows: Sequence[DetailRow]) -> None:
    """Write a task's rows as Parquet; predictions are numbers (log-likelihoods) or texts, by task."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, number, numbers = pa.string(), pa.int64(), pa.list_(pa.int64())
    predicted = (
        text if any(isinstance(prediction, str) for row in rows for prediction in row["predictions"]) else pa.float64()
    )
    metrics = dict.fromkeys(name for row in rows for name in row["metrics"])
    schema = pa.schema({
        "example": text, "instruction": text, "full_prompt": text,
        "num_effective_few_shots": number, "num_asked_few_shots": number,
        "predictions": pa.list_(predicted), "input_tokens": pa.list_(numbers), "cont_tokens": pa.list_(numbers),
        "truncated": numbers, "padded": numbers, "gold": pa.list_(text), "choices": pa.list_(text),
        "gold_index": numbers, **({"metrics": pa.struct(dict.fromkeys(metrics, pa.float64()))} if metrics else {}),
        "hashes": pa.struct(dict.fromkeys(HASHES.values(), text)),
    })  # fmt: skip
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), file)


ALL = "all"
STDERR = "_stderr"
MEAN = "mean"  # other aggregations (perplexity) cannot be repeated from what a sample's row has, and are left out there


def write_lighteval_files(
    store: Store, run_id: str, folder: Path, *, model: str, place: str, tasks: Collection[str] | None = None
) -> Iterator[Path]:
    """Write a run's results and details; yield the paths.

    Args:
        store: the store that holds the run.
        run_id: the run's id; the run must have been summarised (`report.from_store.save_summary`).
        folder: the folder in which `results` and `details` lie.
        model: its name in the results; that of the run may be a path of this machine.
        place: the model's subfolder in `results`, such as `org/name`.
        tasks: those whose samples are written; None: all.

    Raises: UsageError if the run has no results yet, or the package xxhash is missing; StoreError if the files cannot
    be written.
    """
    run = store.run(run_id)
    if not run.extra.get("tasks"):
        raise UsageError(f"run {run.short_id} has no results yet (it is {run.status}); finish it by running it again")
    estimates = [estimate for estimate in store.estimates(run.run_id) if estimate.details.get("kind", "task") == "task"]
    stamp = datetime.fromisoformat(run.updated_at).strftime("%Y-%m-%dT%H-%M-%S.%f")
    details = folder / "details" / f"details_{place.replace('/', '__')}"
    summaries: dict[str, TaskDetails] = {}
    try:
        for task in run.tasks if tasks is None else [name for name in run.tasks if name in tasks]:
            own = [estimate for estimate in estimates if estimate.task == task]
            if not own:
                continue
            name = _name(next((estimate for estimate in own if estimate.details.get("primary")), own[0]))[0]
            listed = objects_at(object_at(object_at(run.extra, "tasks"), task), "metrics")
            means = {metric["name"] for metric in listed if metric["aggregation"] == MEAN}
            metrics = {
                (estimate.metric, estimate.filter): _name(estimate)[1] for estimate in own if estimate.metric in means
            }
            shots = int(own[0].details.get("n_shots") or 0)
            records = (record for record in store.samples(run.run_id, task) if not record.is_withheld)
            rows = list(detail_rows(records, metrics, shots))
            summaries[name] = summary_of(rows)
            file = details / stamp / f"details_{name.replace('/', '_')}_{stamp}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(file) as draft:
                write_details(draft, rows)
            yield file
        results = _results(run, estimates, summaries)
        results["config_general"] = _general(run, store.attempts(run.run_id), model)
        text = json.dumps(results, indent=2, ensure_ascii=False)
        for file in (folder / "results" / place / f"results_{stamp}.json", details / f"results_{stamp}.json"):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, text, errors="surrogatepass")
            yield file
    except OSError as error:
        raise StoreError(f"results cannot be written to {folder}: {error}; name another folder") from error


def _results(run: RunRow, estimates: Sequence[Estimate], summaries: Mapping[str, TaskDetails]) -> dict[str, JsonValue]:
    results: dict[str, dict[str, float]] = {}
    for estimate in estimates:
        name, metric = _name(estimate)
        value, error = estimate.details.get("lm_eval_value", estimate.value), estimate.details.get("lm_eval_stderr")
        if value is not None:
            results.setdefault(name, {})[metric] = float_of(value, metric)
        if value is not None and error is not None:
            results[name][f"{metric}{STDERR}"] = float(error)
    tasks = object_at(run.extra, "tasks")
    return {
        "results": {**results, ALL: means_of(results.values())},
        "versions": {
            **{_name(each)[0]: str(object_at(tasks, each.task).get("version", "N/A")) for each in estimates}, ALL: 0
        },
        "config_tasks": {name.rpartition("|")[0]: "LM Harness task" for name in results},
        "summary_tasks": dict(summaries),
        "summary_general": summary_of_all(summaries),
        "assaymark": {"run_id": run.run_id, "profile": run.plan.profile},
    }  # fmt: skip


def _general(run: RunRow, attempts: Sequence[AttemptRow], model: str) -> dict[str, JsonValue]:
    seconds = seconds_of(attempts)
    start = datetime.fromisoformat(run.created_at).timestamp()
    return {
        "lighteval_sha": None,
        "num_fewshot_seeds": 1,
        "override_batch_size": None,
        "max_samples": run.plan.limit,
        "job_id": "",
        "start_time": start,
        "end_time": start + seconds,
        "total_evaluation_time_secondes": str(seconds),
        "model_name": model,
        "model_sha": run.plan.model.revision or "",
        "model_dtype": f"torch.{run.plan.model.dtype}",
        "model_size": None,
    }


def means_of(entries: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return each metric's mean over the tasks that have it, whatever they measure: the leaderboard's `all`."""
    by_metric: dict[str, list[float]] = {}
    for entry in entries:
        for name, value in entry.items():
            by_metric.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in by_metric.items()}


def _name(estimate: Estimate) -> tuple[str, str]:
    """Return what the leaderboard would have called an estimate's task and metric."""
    group = "mmlu" if "mmlu" in estimate.details.get("path", ()) else None
    return first_board_name(
        PresentName(estimate.task, estimate.metric, estimate.filter, group), int(estimate.details.get("n_shots") or 0)
    )
