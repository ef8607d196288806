"""Reader of lighteval's results JSON with its details (`lighteval_details`), and of the first Open LLM Leaderboard's.

Details are one Parquet file per task with one row per sample. A corpus metric cannot be recomputed from samples; its
value is that of the results file.

From lighteval 0.10 on a row has `doc`, `metric` and `model_response`. Before, each fact was a column (`example`,
`full_prompt`, `choices`, `gold_index`, `predictions`, `metrics`), in some versions as the text of a Python value. The
leaderboard's first files (2023) have a column for each metric and the index of the correct choice in `gold`. There the
task is named by the file only. Source: https://huggingface.co/docs/lighteval/saving-and-reading-results,
https://huggingface.co/open-llm-leaderboard-old
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignChoice, ForeignRun, ForeignSample, Importer
from assaymark.interop.log_files import json_object, object_in, open_log
from assaymark.interop.reported import ReportedValue
from assaymark.python_source import python_value
from assaymark.records import JsonValue
from assaymark.records.json_values import float_of, int_at, int_of, list_at, object_at, object_of
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import is_higher_better

NO_METRICS = frozenset({"gold", "gold_index", "num_asked_few_shots", "num_effective_few_shots", "padded", "truncated"})
"""Numbers in the files of 2023 that are no metrics; each metric is a column beside them."""
UNREAD = frozenset({"input_tokens", "cont_tokens", "pred_logits", "hashes"})
"""Columns that nothing here needs: the tokens of a task's prompts, repeated for each choice, are gigabytes as lists."""
_NAMED = re.compile(r"details_(?P<task>.+)_(?P<stamp>\d{4}-\d\d-\d\dT[\d:.-]+)")


def stamp_of(text: str) -> str:
    """Return a time as all these files can be compared by: some have colons in it, others dashes."""
    return text.replace(":", "-")


def samples_in(file: Path, tasks: Iterable[str] = ()) -> Iterator[ForeignSample]:
    """Yield the samples of a details file.

    tasks: those of the results file, among which the file's name finds its own.

    Raises: DataError if it has the columns of no version, or a value that cannot be read.
    """
    import pyarrow.parquet

    with open_log(file) as opened, pyarrow.parquet.ParquetFile(opened) as source:
        columns = source.schema_arrow.names
        rows = source.read([name for name in columns if name not in UNREAD]).to_pylist()
    if {"doc", "metric", "model_response"} <= set(columns):
        for index, row in enumerate(sorted(rows, key=lambda row: _position(row["doc"]))):
            yield _sample(index, row["doc"], row["metric"], row["model_response"])
    elif {"full_prompt", "predictions"} <= set(columns):
        task = _task_named(file, tasks)
        for index, row in enumerate(rows):
            yield _early_sample(task, index, row, file)
    else:
        raise DataError(
            f"{file} has the columns {', '.join(columns)}; expected doc, metric and model_response, or "
            "full_prompt, predictions and metrics, as lighteval's versions write them"
        )


def _position(doc: Mapping[str, object]) -> tuple[int, str]:
    """Return a document's sort key by its id: its position in the data set."""
    text = str(doc.get("id", ""))
    return (int(text), "") if text.isdigit() else (0, text)


def _sample(
    index: int, doc: Mapping[str, JsonValue], metric: Mapping[str, object], response: Mapping[str, JsonValue]
) -> ForeignSample:
    texts = [str(choice) for choice in list_at(doc, "choices")]
    gold = doc.get("gold_index")
    golds = _indices(gold)
    return ForeignSample(
        task=str(doc["task_name"]),
        index=index,
        row={"query": doc["query"], "choices": texts, "gold_index": gold},
        prompt=str(response.get("input") or doc["query"]),
        target=_target(texts, golds),
        scores={name: float(value) for name, value in metric.items() if isinstance(value, bool | int | float)},
        answers=tuple(map(str, list_at(response, "text"))),
        choices=_choices(texts, list_at(response, "logprobs"), list_at(response, "argmax_logits_eq_gold")),
        gold=golds[0] if len(golds) == 1 else None,
        n_shots=len(list_at(doc, "fewshot_samples")),
    )


def _indices(gold: object) -> list[int]:
    """Return the indices of the correct choices; none where `gold` is something else, as the texts of answers are."""
    some = gold if isinstance(gold, list | tuple) else [gold]
    return [index for index in some if isinstance(index, int) and not isinstance(index, bool)]


def _target(texts: Sequence[str], golds: Sequence[int]) -> str:
    return " or ".join(texts[index].strip() for index in golds if 0 <= index < len(texts))


def _choices(texts: Sequence[str], nats: Sequence[object], greedy: Sequence[object]) -> tuple[ForeignChoice, ...]:
    """Return the choices with their log-likelihoods; none where there is not one number for each."""
    if len(nats) != len(texts):
        return ()
    return tuple(
        ForeignChoice(text, float_of(value, "logprobs"), bool(greedy[index]) if index < len(greedy) else None)
        for index, (text, value) in enumerate(zip(texts, nats, strict=True))
    )


# ---------------------------------------------------------------------------------- a column for each fact


def _task_named(file: Path, tasks: Iterable[str]) -> str:
    """Return the task that a file's name states; its bars may have become other signs on the way."""
    match = _NAMED.fullmatch(file.stem)
    written = match["task"] if match else file.stem.removeprefix("details_")
    return next((task for task in tasks if _plain(task) == _plain(written)), written)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name)


def _early_sample(task: str, index: int, row: Mapping[str, object], file: Path) -> ForeignSample:
    values = {key: _value(row.get(key), f"{file}, row {index + 1}, {key}") for key in
              ("choices", "gold_index", "predictions", "metrics", "num_effective_few_shots")}  # fmt: skip
    gold = _gold(row.get("gold"))
    texts = [str(choice) for choice in list_at(values, "choices")]
    golds = _indices(values["gold_index"]) or _indices(gold)
    predictions = list_at(values, "predictions")
    nats, greedy = _predicted(predictions)
    question = str(row.get("example") or row["full_prompt"])
    answers = [answer for answer in predictions if isinstance(answer, str)]
    scores = values["metrics"] if isinstance(values["metrics"], Mapping) else _metrics_of_2023(row)
    return ForeignSample(
        task=task,
        index=index,
        row={"query": question, "choices": texts, "gold_index": golds[0] if len(golds) == 1 else golds},
        prompt=str(row["full_prompt"]),
        target=_target(texts, golds) or _gold_texts(gold),
        scores={name: _number(value) for name, value in scores.items()},
        answers=tuple(answers),
        choices=_choices(texts, nats, greedy),
        gold=golds[0] if len(golds) == 1 else None,
        n_shots=int_at(values, "num_effective_few_shots", 0),
    )


def _metrics_of_2023(row: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in NO_METRICS and isinstance(value, int | float)}


def _value(value: object, where: str) -> JsonValue:
    """Return a column's value, read where it is the text of a Python list, dictionary or number."""
    if not isinstance(value, str):
        return value
    try:
        return python_value(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise DataError(f"{where} is {value[:60]!r}, which is not a Python value: {error}") from error


def _gold(value: object) -> JsonValue:
    """Return the correct answer: the text of a list of texts is one, any other text is the answer itself."""
    try:
        return _value(value, "gold")
    except DataError:
        return value


def _predicted(predictions: Sequence[JsonValue]) -> tuple[list[float], list[bool]]:
    """Return log-likelihoods and whether each is greedy, where predictions are numbers, or pairs of both."""
    pairs = [prediction for prediction in predictions if isinstance(prediction, list | tuple) and len(prediction) == 2]
    if pairs and len(pairs) == len(predictions):
        return [float(nats) for nats, _ in pairs], [bool(is_greedy) for _, is_greedy in pairs]
    numbers = [float(prediction) for prediction in predictions if isinstance(prediction, int | float)]
    return (numbers if len(numbers) == len(predictions) else []), []


def _gold_texts(gold: object) -> str:
    some = gold if isinstance(gold, list | tuple) else [gold]
    return " or ".join(text.strip() for text in some if isinstance(text, str))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, bool | int | float) and math.isfinite(value) else None


STDERR = "_stderr"
OVER_ALL = "all"  # lighteval's mean over all tasks, whatever their metrics


def is_lighteval(path: Path) -> bool:
    """Return whether a path is lighteval's results file, a details file, or a folder with either."""
    if path.is_dir():
        return _results_in(path) is not None or any(path.rglob("details_*.parquet"))
    if path.suffix == ".parquet":
        return path.name.startswith("details_")
    return path.suffix == ".json" and path.is_file() and "config_general" in object_in(path)


def read_lighteval(path: Path) -> ForeignRun:
    """Return the run in lighteval's files: the latest in a folder, with the details of the same time.

    Raises: DataError if a file is not in lighteval's format.
    """
    results_file = path if path.suffix == ".json" else _results_in(path) if path.is_dir() else None
    details = _details_of(results_file, path)
    results: Mapping[str, JsonValue] = json_object(results_file) if results_file is not None else {}
    samples = [sample for file in details for sample in samples_in(file, object_at(results, "results"))]
    reported = tuple(_reported(results, samples))
    if not samples and not reported:
        raise DataError(f"{path} holds no number and no sample; expected lighteval's results, such as "
                        '{"results": {"harness|arc:challenge|25": {"acc": 0.5}}}')  # fmt: skip
    general = object_at(results, "config_general")
    config = object_at(general, "model_config")
    return ForeignRun(
        tool="lighteval",
        version=str(general["lighteval_sha"]) if general.get("lighteval_sha") not in {None, "?"} else None,
        date=results_file.stem.partition("_")[2] if results_file is not None else None,
        model=str(general.get("model_name") or config.get("model_name") or "unknown"),
        dtype=str(config.get("dtype") or general.get("model_dtype") or "dtype unknown").removeprefix("torch."),
        tasks=tuple(_tasks(results, samples)),
        samples=tuple(samples),
        reported=reported,
        files=(*([results_file] if results_file is not None else []), *details),
        config={key: value for key, value in general.items() if key != "model_config"},
    )


def _results_in(folder: Path) -> Path | None:
    """Return the latest results file below a folder, if it is lighteval's."""
    latest = max(folder.rglob("results_*.json"), key=lambda file: file.name, default=None)
    return latest if latest is not None and "config_general" in object_in(latest) else None


def _details_of(results: Path | None, path: Path) -> list[Path]:
    """Return the details of the same time as the results: next to them, or in lighteval's `details` folder."""
    if results is None:
        return sorted(path.rglob("details_*.parquet")) if path.is_dir() else [path]
    stamp = stamp_of(results.stem.partition("_")[2])
    folders = [results.parent]
    parts = list(results.parts)
    if "results" in parts:
        last = len(parts) - 1 - parts[::-1].index("results")
        folders.append(Path(*parts[:last], "details", *parts[last + 1 : -1]))
    paths = {file for each in folders if each.is_dir() for file in each.rglob("details_*.parquet")}
    return sorted(file for file in paths if stamp_of(file.stem).endswith(f"_{stamp}"))


def _tasks(results: Mapping[str, JsonValue], samples: Sequence[ForeignSample]) -> Iterator[TaskSummaryInput]:
    configs, entries = object_at(results, "config_tasks"), object_at(results, "results")
    listed = [name for name in entries if name != OVER_ALL]
    for name in dict.fromkeys([*listed, *(sample.task for sample in samples)]):
        stated = configs.get(name)
        config = stated if isinstance(stated, Mapping) else {}  # the first leaderboard has a text there
        own = [sample for sample in samples if sample.task == name]
        directions = {
            str(metric["metric_name"]): bool(metric["higher_is_better"])
            for metric in list_at(config, "metrics")
            if isinstance(metric, Mapping) and {"metric_name", "higher_is_better"} <= set(metric)
        }
        entry = object_at(entries, name)
        reported = [metric for metric in entry if not metric.endswith(STDERR)]
        metrics = dict.fromkeys(metric for sample in own for metric in sample.scores) or dict.fromkeys(reported)
        shots = config.get("num_fewshots")
        yield TaskSummaryInput(
            name=name,
            metrics=tuple(
                MetricInput(metric, higher_is_better=directions.get(metric, is_higher_better(metric)))
                for metric in metrics
            ),
            output_type="multiple_choice" if any(sample.choices for sample in own) else "generate_until",
            alias=name.rpartition("|")[0] or name,
            version=str(object_at(results, "versions").get(name, config.get("version", "N/A"))),
            num_fewshot=_shots_in(name) if shots is None else int_of(shots, "num_fewshots"),
        )


def _shots_in(name: str) -> int:
    """Return the number of shots at the end of a task's full name (`arc:challenge|25`)."""
    tail = name.rpartition("|")[2]
    return int(tail) if tail.isdigit() else 0


def _reported(results: Mapping[str, JsonValue], samples: Sequence[ForeignSample]) -> Iterator[ReportedValue]:
    for task, cells in object_at(results, "results").items():
        entry = object_of(cells, task)
        n = sum(sample.task == task for sample in samples)
        for metric, value in entry.items():
            if task == OVER_ALL or metric.endswith(STDERR) or not isinstance(value, int | float):
                continue
            stderr = entry.get(f"{metric}{STDERR}")
            yield ReportedValue(task, metric, float(value), stderr if isinstance(stderr, int | float) else None, n)


IMPORTER = Importer(
    is_lighteval, read_lighteval, "lighteval's results and details (the first Open LLM Leaderboard's too)"
)
