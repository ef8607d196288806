"""The list of stored runs, one line each, as a table and as JSON.

Additions of `--details` to a run's table: calibration, baselines and the minimum detectable effect (MDE).

The MDE is that of a paired comparison with another model; it warns against ranking models by small differences.
"""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.padding import Padding

from assaymark.records import JsonValue
from assaymark.results.console import Text
from assaymark.results.evidence.baselines import BLIND
from assaymark.results.evidence.records import RunView
from assaymark.results.numbers import is_proportion, names_apart, shortened_apart
from assaymark.results.views.baselines_table import baselines_table
from assaymark.results.views.cells import Sized, TableLine, leaf_estimates, plain_table
from assaymark.statistics.power import mde_paired_binary
from assaymark.store.rows import RunRow

DISAGREEMENT = 0.2  # assumed share of samples on which two models differ; a comparison shows the measured one
CALIBRATION_HEADERS = ("calibration\nerror", "expected\nby chance")
FEWEST_CALIBRATED = 50  # with fewer samples the error is mostly noise
MAX_NAMED = 4  # tasks that are listed by name


def detail_tables(rows: Sequence[TableLine], *, details: bool) -> list[RenderableType]:
    """Return the tables of calibration and of baselines that are not empty.

    Without `details` only the baselines are returned, and only if the run has a question-blind baseline.
    """
    has_blind = any(row.any_cell is not None and BLIND in row.any_cell.details for row in rows)
    tables = (_calibration(rows) if details else None, baselines_table(rows) if details or has_blind else None)
    return [table for table in tables if table is not None]


def foot_lines(views: Sequence[RunView]) -> list[str]:
    """Return the line under a table with the range of minimum detectable effects over tasks.

    Every task that a comparison tests is included, even if its group hides it in the table.
    """
    sizes: dict[str, int] = {}
    for cell in [estimate for view in views for estimate in leaf_estimates(view)]:
        if is_proportion(cell) and cell.n > 0:
            label = str(cell.details.get("alias") or cell.task)
            sizes[label] = min(cell.n, sizes.get(label, cell.n))
    if not sizes:
        return []
    effects = {label: mde_paired_binary(n, DISAGREEMENT) for label, n in sizes.items()}
    enough = {label: mde for label, mde in effects.items() if mde <= DISAGREEMENT}
    few = [label for label in effects if label not in enough]
    parts = []
    if enough:
        ends = [min(enough, key=enough.__getitem__), max(enough, key=enough.__getitem__)]
        named = [f"{100 * enough[label]:.1f} points on {label}" for label in ends]
        parts.append(named[0] if enough[ends[0]] == enough[ends[1]] else f"from {named[0]} to {named[1]}")
    if few:
        hidden = f" and {len(few) - MAX_NAMED} more" if len(few) > MAX_NAMED else ""
        parts.append(f"none on {', '.join(few[:MAX_NAMED])}{hidden} (too few samples)")
    if_so = f"if the models disagree on {DISAGREEMENT:.0%} of the answers"
    return [f"Minimum detectable effect (power 80%), {if_so}: {'; '.join(parts)}."]


def _calibrated(row: TableLine) -> bool:
    return row.any_cell is not None and row.is_first and row.any_cell.details.get("brier") is not None


def _calibration_headers(rows: Sequence[TableLine]) -> tuple[str, ...]:
    """Return the headers after the Brier score's, if any row has a number in these columns."""
    return CALIBRATION_HEADERS if any(any(_calibration_cells(row)[1:]) for row in rows) else ()


def _calibration_cells(row: TableLine) -> list[str]:
    if not _calibrated(row) or row.any_cell is None:
        return ["", "", ""]
    details = row.any_cell.details
    known = [details.get("calibration_error"), details.get("calibration_error_null")]
    if row.any_cell.n < FEWEST_CALIBRATED:
        known = [None, None]
    return [f"{details['brier']:.3f}", *("" if error is None else f"{100 * error:.1f}%" for error in known)]


def _calibration(rows: Sequence[TableLine]) -> Padding | None:
    calibrated = [row for row in rows if _calibrated(row)]
    if not calibrated:
        return None
    table = plain_table()
    table.add_column("calibration", overflow="fold")
    headers = ("multiclass\nBrier score", *_calibration_headers(calibrated))
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    for row in calibrated:
        table.add_row(Text(row.label), *_calibration_cells(row)[: len(headers)])
    return Padding(table, (1, 1, 0, 1))


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
