"""Rows of lighteval's details and the summary of a task's rows, from stored samples.

Tokens are not stored with a run, so their columns are empty and their hashes null. The hashes of prompts are the first
Open LLM Leaderboard's: two results files whose `hash_full_prompts` are equal have asked the same prompts.
Source: lighteval 0.4, `DetailsLogger`
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from assaymark.errors import MissingExtra
from assaymark.records import JsonValue, LoglikelihoodQuery
from assaymark.report.evidence.stored_samples import choice_queries, gold_indices
from assaymark.report.views.samples import answer_text
from assaymark.store.rows import SampleRecord

__all__ = ["detail_rows", "need_hashes", "summary_of", "summary_of_all", "write_details"]

HASHES = {  # of a task: of a sample
    "hash_examples": "example",
    "hash_full_prompts": "full_prompt",
    "hash_input_tokens": "input_tokens",
    "hash_cont_tokens": "cont_tokens",
}
Row = Mapping[str, Any]


def detail_rows(
    records: Iterable[SampleRecord], names: Mapping[tuple[str, str], str], shots: int
) -> Iterator[dict[str, Any]]:
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
            "hashes": {**dict.fromkeys(HASHES.values()), "example": _hash(example), "full_prompt": _hash(prompt)},
            **_answers(record),
        }


def _answers(record: SampleRecord) -> dict[str, list[Any]]:
    written = [output for output in record.outputs if _is_written(record, output.ask_index)]
    given = [one for one in written if one.error is None]
    return {
        "predictions": [_utf8(answer_text(one)) if one.text is not None else one.total_nats for one in given],
        "input_tokens": [],
        "cont_tokens": [],
        "truncated": [one.n_cut_tokens for one in written],
        "padded": [0] * len(written),
    }


def _score(record: SampleRecord, metric: str, name_of_filter: str) -> float | None:
    return next((one.value for one in record.scores if (one.metric, one.filter) == (metric, name_of_filter)), None)


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
    query = next((one for one in record.request.queries if one.index == index), None)
    return not isinstance(query, LoglikelihoodQuery) or query.role == "choice"


def need_hashes() -> None:
    """Raise MissingExtra without the package xxhash, before anything is written."""
    if find_spec("xxhash") is None:
        raise MissingExtra("the first leaderboard's hash of a prompt (package xxhash)", "hub")


def _hash(text: str) -> str:
    """Return the XXH64 of a text as hexadecimal digits."""
    import xxhash

    return str(xxhash.xxh64(text.encode("utf-8", "surrogatepass")).hexdigest())


def summary_of(rows: Sequence[Row]) -> dict[str, JsonValue]:
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
    return None if None in hashes else _hash("".join(sorted(one or "" for one in hashes)))


def summary_of_all(summaries: Mapping[str, Mapping[str, Any]]) -> dict[str, JsonValue]:
    """Return `summary_general` from the entries of all tasks."""
    counts = ("truncated", "non_truncated", "padded", "non_padded", "num_truncated_few_shots")
    of_tasks = [one["hashes"] for _, one in sorted(summaries.items())]
    return {
        "hashes": {
            name: None if any(one[name] is None for one in of_tasks) else _hash("".join(one[name] for one in of_tasks))
            for name in HASHES
        },
        **{name: sum(one[name] for one in summaries.values()) for name in counts},
    }


def write_details(file: Any, rows: Sequence[Row]) -> None:
    """Write a task's rows as Parquet; predictions are numbers (log-likelihoods) or texts, by task."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text, number, numbers = pa.string(), pa.int64(), pa.list_(pa.int64())
    predicted = text if any(isinstance(one, str) for row in rows for one in row["predictions"]) else pa.float64()
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
