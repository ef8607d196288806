"""Export of the samples that a run did not answer correctly, as JSONL or CSV with one line per sample."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from assaymark.records import Estimate
from assaymark.report.evidence.stored_samples import deciding_score, gold_indices, wrong_samples
from assaymark.report.plain_text import csv_row
from assaymark.report.views.samples import answer_text, shown_choices
from assaymark.store import Store
from assaymark.store.rows import SampleRecord

__all__ = ["WRONG_COLUMNS", "wrong_rows", "wrong_to_csv", "wrong_to_jsonl"]

WRONG_COLUMNS = (
    *("task", "subject", "sample_index", "prompt", "choices", "picked", "gold", "answer", "target"),
    *("metric", "filter", "value", "status", "error"),
)


def wrong_rows(store: Store, run_id: str, *, by_subject: bool = False) -> Iterator[dict[str, Any]]:
    """Yield a flat row for each sample of a run that was answered wrongly, not parsed, or not answered.

    Args:
        store: the store that holds the run.
        run_id: the run's id.
        by_subject: order tasks by their value, the worst first, instead of the run's own order.

    `choices` and `gold` are lists of texts; `picked` is the text of the chosen one; `subject` is the task's short name.
    """
    row = store.run(run_id)
    primary = {one.task: one for one in store.estimates(run_id) if one.details.get("primary")}
    tasks = sorted(row.tasks, key=lambda task: _value(primary.get(task))) if by_subject else list(row.tasks)
    for task in tasks:
        estimate = primary.get(task)
        subject = str(estimate.details.get("alias") or task) if estimate is not None else task
        for record in wrong_samples(store, run_id, task):
            yield {"task": task, "subject": subject, **_row(record)}


def _value(estimate: Estimate | None) -> float:
    """Return the sort key of a task: higher is better, and a task without a value comes first."""
    if estimate is None or estimate.value is None:
        return float("-inf")
    return estimate.value if estimate.higher_is_better else -estimate.value


def _row(record: SampleRecord) -> dict[str, Any]:
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


def wrong_to_jsonl(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield one line of JSON per row."""
    for row in rows:
        yield json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"


def wrong_to_csv(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a CSV file; lists are JSON, and texts are escaped so that spreadsheets run no formulas."""
    out = io.StringIO()
    writer = csv.DictWriter(out, WRONG_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        flat = {
            key: json.dumps(value, ensure_ascii=False) if isinstance(value, list) else value
            for key, value in row.items()
        }
        writer.writerow(csv_row(flat))
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()
