"""Export of a run's estimates as CSV, Parquet, Markdown, LaTeX, and Hugging Face model cards.

Each table has interval and n for every value. Formats for programs have unrounded values (shares from 0 to 1);
formats for people have shares in percent with their interval.

Export of the samples that a run did not answer correctly, as JSONL or CSV with one line per sample.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from assaymark.documents.plain_text import csv_lines, latex_inline, markdown_inline
from assaymark.options.of_plans import limit_shown
from assaymark.records import Estimate, JsonValue
from assaymark.records.json_values import float_of, object_at
from assaymark.results.estimate_texts import is_proportion, truncation_of
from assaymark.results.evidence.from_store import (
    deciding_score,
    gold_indices,
    label_of,
    part_evaluated,
    wrong_samples,
)
from assaymark.results.views.samples import answer_text, shown_choices
from assaymark.store import Store
from assaymark.store.rows import RunRow, SampleRecord

WRONG_COLUMNS = (
    *("task", "subject", "sample_index", "prompt", "choices", "picked", "gold", "answer", "target"),
    *("metric", "filter", "value", "status", "error"),
)


def wrong_rows(store: Store, run_id: str, *, by_subject: bool = False) -> Iterator[dict[str, JsonValue]]:
    """Yield a flat row for each sample of a run that was answered wrongly, not parsed, or not answered.

    by_subject: order tasks by their value, the worst first, instead of the run's own order.

    `choices` and `gold` are lists of texts; `picked` is the text of the chosen one; `subject` is the task's short name.
    """
    row = store.run(run_id)
    primary = {stored.task: stored for stored in store.estimates(run_id) if stored.details.get("primary")}
    tasks = sorted(row.tasks, key=lambda task: _value(primary.get(task))) if by_subject else list(row.tasks)
    for task in tasks:
        estimate = primary.get(task)
        subject = str(estimate.details.get("alias") or task) if estimate is not None else task
        for record in wrong_samples(store, run_id, task):
            if not record.is_withheld:
                yield {"task": task, "subject": subject, **_row(record)}


def _value(estimate: Estimate | None) -> float:
    """Return the sort key of a task: higher is better, and a task without a value comes first."""
    if estimate is None or estimate.value is None:
        return float("-inf")
    return estimate.value if estimate.higher_is_better else -estimate.value


def _row(record: SampleRecord) -> dict[str, JsonValue]:
    choices, score = [text.strip() for text in shown_choices(record)], deciding_score(record)
    detail = score.detail if score is not None and isinstance(score.detail, Mapping) else {}
    picked = detail.get("picked")
    texts = [answer_text(output) for output in record.outputs if output.text is not None]
    return {
        "sample_index": record.request.sample_index,
        "prompt": record.request.prompt,
        "choices": choices,
        "picked": choices[picked] if isinstance(picked, int) and picked < len(choices) else None,
        "gold": [choices[index] for index in sorted(gold_indices(record)) if index < len(choices)],
        "answer": texts[0] if texts else None,
        "target": record.request.target,
        "metric": score.metric if score is not None else None,
        "filter": score.filter if score is not None else None,
        "value": score.value if score is not None else None,
        "status": str(score.status) if score is not None else "failed",
        "error": next((output.error for output in record.outputs if output.error is not None), None),
    }


def wrong_to_jsonl(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield one line of JSON per row."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def wrong_to_csv(rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield the lines of a CSV file; lists are JSON, and texts are escaped so that spreadsheets run no formulas."""
    flat = (
        {key: json.dumps(each, ensure_ascii=False) if isinstance(each, list) else each for key, each in row.items()}
        for row in rows
    )
    return csv_lines(WRONG_COLUMNS, flat)


COLUMNS = (
    *("run_id", "model", "profile", "dtype", "task", "num_fewshot", "metric", "filter", "value", "low", "high"),
    *("confidence", "method", "stderr", "n", "n_failed", "n_unparsed", "chance", "higher_is_better", "limit", "note"),
)


def estimate_rows(store: Store, run_id: str) -> list[dict[str, object]]:
    """Return one flat row per estimate of a run, in its order: COLUMNS, and whether it is shown as per cent."""
    row = store.run(run_id)
    shots = {task.name: task.num_fewshot for task in row.plan.tasks}
    part = part_evaluated(row) if row.plan.limit is None else None  # which has a column of its own
    return [
        {
            "run_id": row.run_id,
            "model": row.model,
            "profile": row.plan.profile,
            "dtype": row.plan.model.dtype,
            "limit": row.plan.limit,
            "num_fewshot": shots.get(estimate.task, estimate.details.get("n_shots")),
            "is_share": is_proportion(estimate),
            "note": "; ".join(filter(None, [part, truncation_of(estimate)])),
            **{name: getattr(estimate, name) for name in COLUMNS if hasattr(estimate, name)},
        }
        for estimate in store.estimates(run_id)
    ]


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the rows as CSV with a header; undefined is empty."""
    return "".join(csv_lines(COLUMNS, rows))


def write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write the rows as Parquet, one typed column each."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = {"value", "low", "high", "confidence", "stderr", "chance", "limit"}
    counts = {"num_fewshot", "n", "n_failed", "n_unparsed"}
    kinds = {name: pa.float64() for name in numbers} | {name: pa.int64() for name in counts}
    schema = pa.schema(
        [(name, pa.bool_() if name == "higher_is_better" else kinds.get(name, pa.string())) for name in COLUMNS]
    )
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    pq.write_table(pa.table(columns, schema=schema), path)


def to_markdown(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the rows as a Markdown table for people."""
    lines = ["| Task | Metric | Shots | Value | 95% interval | n |", "|---|---|--:|--:|--:|--:|"]
    lines += ["| " + " | ".join(markdown_inline(cell) for cell in _cells(row)) + " |" for row in rows]
    return "\n".join([*lines, *(f"\n{markdown_inline(note)}" for note in _notes(rows))]) + "\n"


def to_latex(rows: Sequence[Mapping[str, object]]) -> str:
    """Return the rows as a LaTeX table (needs `booktabs`)."""
    lines = [r"\begin{tabular}{llrrrr}", r"\toprule", r"Task & Metric & Shots & Value & 95\% interval & $n$ \\"]
    lines += [r"\midrule", *(" & ".join(latex_inline(cell) for cell in _cells(row)) + r" \\" for row in rows)]
    lines += [r"\midrule" + "\n" + rf"\multicolumn{{6}}{{l}}{{{latex_inline(note)}}} \\" for note in _notes(rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _notes(rows: Sequence[Mapping[str, JsonValue]]) -> list[str]:
    """Return a note for each `--limit` among the rows, and for each score that is not meaningful."""
    limits = [limit for row in rows if isinstance(limit := row["limit"], int | float)]
    faults = [f"{row['task']}: {row['note']}" for row in rows if row["note"]]
    return [*dict.fromkeys(limit_shown(limit).capitalize() for limit in limits), *dict.fromkeys(faults)]


def _cells(row: Mapping[str, JsonValue]) -> list[str]:
    is_share = bool(row.get("is_share"))
    metric = str(row["metric"]) if row["filter"] == "none" else f"{row['metric']} ({row['filter']})"
    interval = "–"
    if row["low"] is not None and row["high"] is not None:
        interval = f"{_number(row['low'], is_share=is_share)}–{_number(row['high'], is_share=is_share)}"
    shots = "–" if row["num_fewshot"] is None else str(row["num_fewshot"])
    return [str(row["task"]), metric, shots, _number(row["value"], is_share=is_share), interval, f"{row['n']:,}"]


def _number(value: object, *, is_share: bool) -> str:
    if value is None:
        return "–"
    number = float_of(value, "value")
    return f"{100 * number:.1f}%" if is_share else f"{number:.4g}"


def model_index(store: Store, run_id: str) -> str:
    """Return the `model-index` block of a Hugging Face model card, as YAML.

    Source: huggingface/hub-docs, modelcard.md (task, dataset, metrics; type and name are required of a dataset).
    """
    import yaml

    row = store.run(run_id)
    results = model_index_results(row, store.estimates(run_id))
    content = {"model-index": [{"name": label_of(row), "results": results}]}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def model_index_results(row: RunRow, estimates: Iterable[Estimate]) -> list[dict[str, JsonValue]]:
    """Return a run's results as `model-index` lists them, one entry per task."""
    facts = row.extra.get("tasks")
    tasks: Mapping[str, object] = facts if isinstance(facts, Mapping) else {}
    shots = {task.name: task.num_fewshot for task in row.plan.tasks}
    by_task: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        if estimate.value is not None:
            by_task.setdefault(estimate.task, []).append(estimate)
    task_of_subject = {
        name: estimates[0].details["path"][-1]
        for name, estimates in by_task.items()
        if estimates[0].details.get("kind") == "subject"
    }
    return [
        {
            "task": {"type": "text-generation", "name": "Text Generation"},
            "dataset": _dataset(name, task_of_subject.get(name, name), tasks, shots),
            "metrics": [
                {
                    "type": estimate.metric,
                    "name": (
                        estimate.metric if estimate.filter == "none" else f"{estimate.metric} ({estimate.filter})"
                    ),
                    "value": estimate.value,
                    "args": _evidence_of(estimate, part_evaluated(row)),
                }
                for estimate in estimates
            ],
        }
        for name, estimates in by_task.items()
    ]


def _dataset(name: str, task: str, tasks: Mapping[str, JsonValue], shots: Mapping[str, int]) -> dict[str, JsonValue]:
    """Return the data set of a task, or of the task that a subject belongs to, under a name."""
    spec = object_at(object_at(tasks, task), "spec")
    dataset = {
        "name": name,
        "type": str(spec.get("dataset_path") or name),
        "config": spec.get("dataset_name"),
        "split": spec.get("test_split") or spec.get("validation_split"),
        "args": None if shots.get(task) is None else {"num_few_shot": shots[task]},
    }
    return {key: value for key, value in dataset.items() if value is not None}


def _evidence_of(estimate: Estimate, samples: str | None) -> dict[str, JsonValue]:
    known: dict[str, JsonValue] = {
        "n": estimate.n or None, "samples": samples, "low": estimate.low, "high": estimate.high,
        "interval": estimate.method, "note": truncation_of(estimate) or None,
    }  # fmt: skip
    return {key: value for key, value in known.items() if value is not None}
