"""The list of stored runs, one line each, as a table and as JSON."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.padding import Padding

from assaymark.documents.terminal import Sized, Text, plain_table
from assaymark.records import JsonValue
from assaymark.results.model_names import names_apart, shortened_apart
from assaymark.store.rows import RunRow

HEADERS = ("run", "model", "tasks", "n-shot", "n", "limit", "status", "when")
SHORTENED, COUNTS = frozenset({"model", "tasks"}), frozenset({"n-shot", "n", "limit"})
SHORTEST, GAP = 8, 2  # columns


def run_list_table(rows: Sequence[RunRow]) -> RenderableType:
    """Return the stored runs, one line each; names are shortened to the terminal's width."""
    models = names_apart({row.model for row in rows})
    cells = [_cells(row, models[row.model]) for row in rows]
    headers = [header for header in HEADERS if header != "limit" or any(cell["limit"] for cell in cells)]
    widest = {header: max(len(header), *(len(cell[header]) for cell in cells)) for header in headers}

    def laid_out(width: int) -> RenderableType:
        fixed = sum(widest[header] for header in headers if header not in SHORTENED)
        free = width - 2 - fixed - GAP * (len(headers) - 1)
        model = max(SHORTEST, min(widest["model"], max(free - widest["tasks"], free // 3)))
        longest = {"model": model, "tasks": max(SHORTEST, min(widest["tasks"], free - model))}
        table = plain_table()
        for header in headers:
            folds = header == "status" and free < 2 * SHORTEST  # an id that is cut cannot be used
            least = SHORTEST if folds else longest.get(header, widest[header])
            table.add_column(
                header, justify="right" if header in COUNTS else "left", no_wrap=not folds, min_width=least
            )
        short = {header: shortened_apart({cell[header] for cell in cells}, longest[header]) for header in longest}
        for row, cell in zip(rows, cells, strict=True):
            is_fine = row.status == "finished" and not row.n_failed
            texts = [short[name][cell[name]] if name in short else cell[name] for name in headers]
            table.add_row(*(Text(text, style=_style(name, is_fine)) for name, text in zip(headers, texts, strict=True)))
        return Padding(table, (0, 1), expand=False)

    return Sized(laid_out)


def _cells(row: RunRow, model: str) -> dict[str, str]:
    failed = f" ({row.n_failed:,} failed)" if row.n_failed else ""
    shots = sorted({task.num_fewshot for task in row.plan.tasks})
    limit = row.plan.limit
    status = "imported" if row.plan.model.kind == "imported" and row.status == "finished" else row.status
    return {
        "run": row.short_id,
        "model": model,
        "tasks": ", ".join(_outermost_names(row)),
        "n-shot": "–".join(str(each) for each in dict.fromkeys((*shots[:1], *shots[-1:]))),
        "n": f"{row.n_samples:,}",
        "limit": "" if limit is None else f"{limit:.0%}" if limit < 1 else f"{int(limit):,}",
        "status": status + failed,
        "when": row.updated_at[5:16].replace("T", " "),
    }


def _style(header: str, is_fine: bool) -> str:
    return "yellow" if header == "status" and not is_fine else ""


def runs_to_json(rows: Sequence[RunRow]) -> list[dict[str, JsonValue]]:
    """Return the stored runs with stable keys."""
    return [
        {
            "run_id": row.run_id,
            "short_id": row.short_id,
            "model": row.model,
            "kind": row.plan.model.kind,
            "dtype": row.plan.model.dtype,
            "profile": row.plan.profile,
            "tasks": list(row.tasks),
            "audit": row.plan.audit,
            "status": row.status,
            "n_samples": row.n_samples,
            "n_requests": row.n_requests,
            "n_outputs": row.n_outputs,
            "n_failed": row.n_failed,
            "n_attempts": row.n_attempts,
            "created_at": row.created_at,
            "updated_at": row.updated_at,
            "command": row.command,
        }
        for row in rows
    ]


def _outermost_names(row: RunRow) -> Sequence[str]:
    """Return the run's tasks without perturbed copies, with groups in place of their tasks: `mmlu`, not 57 names."""
    groups = {group["name"]: tuple(group["members"]) for group in row.extra.get("groups", ())}
    inner = {member for members in groups.values() for member in members}
    originals = [task.name for task in row.plan.tasks if task.perturbed is None]
    names = [*(name for name in groups if name not in inner), *(task for task in originals if task not in inner)]
    if row.plan.audit is None:
        return names
    return [f"{row.plan.audit} of {names[0]}", *names[1:]] if names else [row.plan.audit]  # of the model alone
