"""Details of lighteval and of the first Open LLM Leaderboard: one Parquet file per task, one row per sample.

From lighteval 0.10 on a row has `doc`, `metric` and `model_response`. Before, each fact was a column (`example`,
`full_prompt`, `choices`, `gold_index`, `predictions`, `metrics`), in some versions as the text of a Python value. The
leaderboard's first files (2023) have a column for each metric and the index of the correct choice in `gold`. There the
task is named by the file only.
Source: https://huggingface.co/docs/lighteval/saving-and-reading-results, https://huggingface.co/open-llm-leaderboard-old
"""

import ast
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignChoice, ForeignSample

__all__ = ["samples_in", "stamp_of"]

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

    Args:
        file: the Parquet file.
        tasks: those of the results file, among which the file's name finds its own.

    Raises: DataError if it has the columns of no version, or a value that cannot be read.
    """
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(file) as source:
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


def _position(doc: Mapping[str, Any]) -> tuple[int, str]:
    """Return a document's sort key by its id: its position in the data set."""
    text = str(doc.get("id", ""))
    return (int(text), "") if text.isdigit() else (0, text)


def _sample(
    index: int, doc: Mapping[str, Any], metric: Mapping[str, Any], response: Mapping[str, Any]
) -> ForeignSample:
    texts = [str(choice) for choice in doc.get("choices") or ()]
    gold = doc.get("gold_index")
    golds = _indices(gold)
    return ForeignSample(
        task=str(doc["task_name"]),
        index=index,
        row={"query": doc["query"], "choices": texts, "gold_index": gold},
        prompt=str(response.get("input") or doc["query"]),
        target=_target(texts, golds),
        scores={name: float(value) for name, value in metric.items() if isinstance(value, bool | int | float)},
        answers=tuple(map(str, response.get("text") or ())),
        choices=_choices(texts, response.get("logprobs") or (), response.get("argmax_logits_eq_gold") or ()),
        gold=golds[0] if len(golds) == 1 else None,
        n_shots=len(doc.get("fewshot_samples") or ()),
    )


def _indices(gold: Any) -> list[int]:
    """Return the indices of the correct choices; none where `gold` is something else, as the texts of answers are."""
    some = gold if isinstance(gold, list | tuple) else [gold]
    return [one for one in some if isinstance(one, int) and not isinstance(one, bool)]


def _target(texts: Sequence[str], golds: Sequence[int]) -> str:
    return " or ".join(texts[one].strip() for one in golds if 0 <= one < len(texts))


def _choices(texts: Sequence[str], nats: Sequence[float], greedy: Sequence[Any]) -> tuple[ForeignChoice, ...]:
    """Return the choices with their log-likelihoods; none where there is not one number for each."""
    if len(nats) != len(texts):
        return ()
    return tuple(
        ForeignChoice(text, float(value), bool(greedy[index]) if index < len(greedy) else None)
        for index, (text, value) in enumerate(zip(texts, nats, strict=True))
    )


# ---------------------------------------------------------------------------------- a column for each fact


def _task_named(file: Path, tasks: Iterable[str]) -> str:
    """Return the task that a file's name states; its bars may have become other signs on the way."""
    found = _NAMED.fullmatch(file.stem)
    written = found["task"] if found else file.stem.removeprefix("details_")
    return next((task for task in tasks if _plain(task) == _plain(written)), written)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", name)


def _early_sample(task: str, index: int, row: Mapping[str, Any], file: Path) -> ForeignSample:
    values = {key: _value(row.get(key), f"{file}, row {index}, {key}") for key in
              ("choices", "gold_index", "predictions", "metrics", "num_effective_few_shots")}  # fmt: skip
    gold = _gold(row.get("gold"))
    texts = [str(choice) for choice in values["choices"] or ()]
    golds = _indices(values["gold_index"]) or _indices(gold)
    nats, greedy = _predicted(values["predictions"] or ())
    question = str(row.get("example") or row["full_prompt"])
    answers = [one for one in values["predictions"] or () if isinstance(one, str)]
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
        n_shots=int(values["num_effective_few_shots"] or 0),
    )


def _metrics_of_2023(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in NO_METRICS and isinstance(value, int | float)}


def _value(given: Any, where: str) -> Any:
    """Return a column's value, read where it is the text of a Python list, dictionary or number."""
    if not isinstance(given, str):
        return given
    try:
        return ast.literal_eval(given)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise DataError(f"{where} is {given[:60]!r}, which is no Python value: {error}") from error


def _gold(given: Any) -> Any:
    """Return the correct answer: the text of a list of texts is one, any other text is the answer itself."""
    try:
        return _value(given, "gold")
    except DataError:
        return given


def _predicted(given: Sequence[Any]) -> tuple[list[float], list[bool]]:
    """Return log-likelihoods and whether each is greedy, where predictions are numbers, or pairs of both."""
    if given and all(isinstance(one, list | tuple) and len(one) == 2 for one in given):
        return [float(one[0]) for one in given], [bool(one[1]) for one in given]
    if all(isinstance(one, int | float) for one in given):
        return [float(one) for one in given], []
    return [], []


def _gold_texts(gold: Any) -> str:
    some = gold if isinstance(gold, list | tuple) else [gold]
    return " or ".join(one.strip() for one in some if isinstance(one, str))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, bool | int | float) and math.isfinite(value) else None
