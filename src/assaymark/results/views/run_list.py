"""The list of stored runs, one line each, as a table and as JSON."""

from collections.abc import Sequence

from assaymark.documents.blocks import Column, table
from assaymark.documents.document import Document, document
from assaymark.options.of_plans import positions
from assaymark.results.model_names import names_apart
from assaymark.store.rows import RunRow

HEADERS = ("run", "model", "tasks", "n-shot", "n", "limit", "status", "when")
NAMES, COUNTS = frozenset({"model", "tasks"}), frozenset({"n-shot", "n", "limit"})


def run_list(rows: Sequence[RunRow]) -> Document:
    """Return the stored runs, one line each; names are shortened to the terminal's width."""
    models = names_apart({row.model for row in rows})
    cells = [_cells(row, models[row.model]) for row in rows]
    headers = [header for header in HEADERS if header != "limit" or any(cell["limit"] for cell in cells)]
    columns = [
        Column(header, "name" if header in NAMES else "number" if header in COUNTS else "text") for header in headers
    ]
    return document(table(columns, ([cell[header] for header in headers] for cell in cells)))


def _cells(row: RunRow, model: str) -> dict[str, str]:
    failed = f" ({row.n_failed:,} failed)" if row.n_failed else ""
    shots = sorted({task.num_fewshot for task in row.plan.tasks})
    limit, chosen = row.plan.limit, "chosen" if positions(row.plan) else ""
    status = "imported" if row.plan.model.kind == "imported" and row.status == "finished" else row.status
    return {
        "run": row.short_id,
        "model": model,
        "tasks": ", ".join(_outermost_names(row)),
        "n-shot": "–".join(str(each) for each in dict.fromkeys((*shots[:1], *shots[-1:]))),
        "n": f"{row.n_samples:,}",
        "limit": chosen if limit is None else f"{limit:.0%}" if limit < 1 else f"{int(limit):,}",
        "status": status + failed,
        "when": row.updated_at[5:16].replace("T", " "),
    }


def _outermost_names(row: RunRow) -> Sequence[str]:
    """Return the run's tasks without perturbed copies, with groups in place of their tasks: `mmlu`, not 57 names."""
    groups = {group["name"]: tuple(group["members"]) for group in row.extra.get("groups", ())}
    inner = {member for members in groups.values() for member in members}
    originals = [task.name for task in row.plan.tasks if task.perturbed is None]
    names = [*(name for name in groups if name not in inner), *(task for task in originals if task not in inner)]
    if row.plan.audit is None:
        return names
    return [f"{row.plan.audit} of {names[0]}", *names[1:]] if names else [row.plan.audit]  # of the model alone
