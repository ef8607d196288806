"""Export of a run's estimates as CSV, Parquet, Markdown, LaTeX, and Hugging Face model cards.

Each table has interval and n for every value. Formats for programs have unrounded values (shares from 0 to 1);
formats for people have shares in percent with their interval.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assaymark.options.of_plans import limit_shown
from assaymark.records import Estimate
from assaymark.report.evidence.from_store import label_of
from assaymark.report.numbers import is_proportion
from assaymark.report.plain_text import csv_row, latex_inline, markdown_inline
from assaymark.store import Store

COLUMNS = (
    *("run_id", "model", "profile", "dtype", "task", "num_fewshot", "metric", "filter", "value", "low", "high"),
    *("confidence", "method", "stderr", "n", "n_failed", "n_unparsed", "chance", "higher_is_better", "limit"),
)


def estimate_rows(store: Store, run_id: str) -> list[dict[str, Any]]:
    """Return one flat row per estimate of a run, in its order: COLUMNS, and whether it is shown as per cent."""
    row = store.run(run_id)
    shots = {task.name: task.num_fewshot for task in row.plan.tasks}
    return [
        {
            "run_id": row.run_id,
            "model": row.model,
            "profile": row.plan.profile,
            "dtype": row.plan.model.dtype,
            "limit": row.plan.limit,
            "num_fewshot": shots.get(one.task),
            "is_share": is_proportion(one),
            **{name: getattr(one, name) for name in COLUMNS if hasattr(one, name)},
        }
        for one in store.estimates(run_id)
    ]


def to_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV with a header; undefined is empty."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(map(csv_row, rows))
    return out.getvalue()


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
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


def to_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a Markdown table for people."""
    lines = ["| Task | Metric | Shots | Value | 95% interval | n |", "|---|---|--:|--:|--:|--:|"]
    lines += ["| " + " | ".join(markdown_inline(cell) for cell in _cells(row)) + " |" for row in rows]
    return "\n".join([*lines, *(f"\n{markdown_inline(note)}" for note in _limits(rows))]) + "\n"


def to_latex(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as a LaTeX table (needs `booktabs`)."""
    lines = [r"\begin{tabular}{llrrrr}", r"\toprule", r"Task & Metric & Shots & Value & 95\% interval & $n$ \\"]
    lines += [r"\midrule", *(" & ".join(latex_inline(cell) for cell in _cells(row)) + r" \\" for row in rows)]
    lines += [r"\midrule" + "\n" + rf"\multicolumn{{6}}{{l}}{{{latex_inline(note)}}} \\" for note in _limits(rows)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _limits(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a note for each `--limit` among the rows."""
    return [
        limit_shown(limit).capitalize() for limit in dict.fromkeys(row["limit"] for row in rows) if limit is not None
    ]


def _cells(row: Mapping[str, Any]) -> list[str]:
    is_share = bool(row.get("is_share"))
    metric = row["metric"] if row["filter"] == "none" else f"{row['metric']} ({row['filter']})"
    interval = "–"
    if row["low"] is not None and row["high"] is not None:
        interval = f"{_number(row['low'], is_share=is_share)}–{_number(row['high'], is_share=is_share)}"
    shots = "–" if row["num_fewshot"] is None else str(row["num_fewshot"])
    return [row["task"], metric, shots, _number(row["value"], is_share=is_share), interval, f"{row['n']:,}"]


def _number(value: float | None, *, is_share: bool) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f}%" if is_share else f"{value:.4g}"


def model_index(store: Store, run_id: str) -> str:
    """Return the `model-index` block of a Hugging Face model card, as YAML.

    Source: huggingface/hub-docs, modelcard.md (task, dataset, metrics; type and name are required of a dataset).
    """
    import yaml

    content = {"model-index": [{"name": label_of(store.run(run_id)), "results": model_index_results(store, run_id)}]}
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def model_index_results(store: Store, run_id: str) -> list[dict[str, Any]]:
    """Return a run's results as `model-index` lists them, one entry per task."""
    row = store.run(run_id)
    facts = row.extra.get("tasks")
    tasks: Mapping[str, Any] = facts if isinstance(facts, Mapping) else {}
    shots = {task.name: task.num_fewshot for task in row.plan.tasks}
    by_task: dict[str, list[Estimate]] = {}
    for one in store.estimates(run_id):
        if one.value is not None:
            by_task.setdefault(one.task, []).append(one)
    return [
        {
            "task": {"type": "text-generation", "name": "Text Generation"},
            "dataset": _dataset(name, tasks.get(name, {}).get("spec") or {}, shots.get(name)),
            "metrics": [
                {
                    "type": one.metric,
                    "name": _metric_name(one),
                    "value": one.value,
                    "args": _evidence_of(one, row.plan.limit),
                }
                for one in estimates
            ],
        }
        for name, estimates in by_task.items()
    ]


def _dataset(name: str, spec: Mapping[str, Any], shots: int | None) -> dict[str, Any]:
    found = {
        "name": name,
        "type": str(spec.get("dataset_path") or name),
        "config": spec.get("dataset_name"),
        "split": spec.get("test_split") or spec.get("validation_split"),
        "args": None if shots is None else {"num_few_shot": shots},
    }
    return {key: value for key, value in found.items() if value is not None}


def _metric_name(one: Estimate) -> str:
    return one.metric if one.filter == "none" else f"{one.metric} ({one.filter})"


def _evidence_of(one: Estimate, limit: float | None) -> dict[str, Any]:
    samples = None if limit is None else limit_shown(limit)
    known = {"n": one.n or None, "samples": samples, "low": one.low, "high": one.high, "interval": one.method}
    return {key: value for key, value in known.items() if value is not None}
