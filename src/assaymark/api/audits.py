"""Stored audits: list them, and show them again."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from assaymark.api.judging_run import JudgingRun
from assaymark.api.run import Run, location_of
from assaymark.api.stored import existing_store
from assaymark.audit.contamination import ContaminationTest, corrected
from assaymark.audit.prompts import PromptAudit
from assaymark.audit.stored import stored_parts
from assaymark.models.cost.bill import cost_line
from assaymark.records import JsonValue
from assaymark.store import RunRow, Store

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "CONTAMINATION",
    "CONTROL",
    "JUDGING",
    "PROMPTS",
    "ShownAudit",
    "find_audit",
    "judging_as_run",
    "list_audits",
    "list_judgings",
    "stored_line",
]

CONTAMINATION = "contamination"
CONTROL = "contamination, control"
PROMPTS = "prompts"
JUDGING = "judging"  # a judging is stored as an audit is; see `assaymark.judges`


@dataclass(frozen=True, slots=True)
class ShownAudit:
    """A stored audit, ready to print."""

    row: RunRow
    content: JsonValue
    view: "RenderableType"  # for a terminal
    remarks: tuple[str, ...]


def list_audits(store: str | None, words: Sequence[str] = ()) -> list[RunRow]:
    """Return the stored audits whose id, model, status or tasks match every word, newest first."""
    found = existing_store(store).audits(words) if Store.exists(store) else []
    return [row for row in found if row.plan.audit != JUDGING]


def list_judgings(store: str | None, words: Sequence[str] = ()) -> list[RunRow]:
    """Return the stored judgings whose id, judge, status or tasks match every word, newest first."""
    found = existing_store(store).audits(words) if Store.exists(store) else []
    return [row for row in found if row.plan.audit == JUDGING]


def find_audit(store: str | None, name: str) -> ShownAudit | None:
    """Return a stored audit by its id or the beginning of one; None if that is a run.

    Raises: UnknownName with the nearest ids.
    """
    opened = existing_store(store)
    row = opened.run(name)
    if row.plan.audit is None:
        return None
    content, view = _results(opened, row)
    what = JUDGING if row.plan.audit == JUDGING else "audit"
    remarks = [f"{what} {row.short_id} in {location_of(opened)}"]
    if (cost := Run(opened, row.run_id).cost) is not None:
        remarks.insert(0, cost_line(cost))
    if row.status != "finished":
        again = "the same call" if row.command is None else row.command
        remarks.insert(0, f"it is {row.status}, with partial results; continue it with: {again}")
    if row.plan.audit == CONTROL:
        remarks.insert(0, "responses of a control model; see their results with the audit that used it")
    return ShownAudit(row, content, view, tuple(remarks))


def judging_as_run(audit: ShownAudit, store: str | None) -> Run | None:
    """Return a judging as a run, so that its samples can be shown: what was judged, and the judge's texts.

    None for other audits.
    """
    return JudgingRun(existing_store(store), audit.row.run_id) if audit.row.plan.audit == JUDGING else None


def _results(store: Store, row: RunRow) -> "tuple[JsonValue, RenderableType]":
    from assaymark.audit.contamination_tables import contamination_json, contamination_table
    from assaymark.audit.prompt_tables import prompts_table
    from assaymark.judges.results import read_results
    from assaymark.judges.tables import judging_json, judging_table

    if row.plan.audit == JUDGING:
        judged = read_results(store, row)
        return judging_json(row, judged), judging_table(row, judged)
    if row.plan.audit == PROMPTS:
        audits: list[PromptAudit] = stored_parts(row, PromptAudit)
        return {"audits": [asdict(one) for one in audits], "ranks": []}, prompts_table(audits)
    parts: list[tuple[ContaminationTest, ...]] = stored_parts(row, tuple[ContaminationTest, ...])
    tests = corrected([test for part in parts for test in part])
    return contamination_json(tests), contamination_table(tests)


def stored_line(store: Store, run_id: str) -> str:
    """Return the line that states where an audit is stored and how to show it again."""
    row = store.run(run_id)
    return f"audit {row.short_id} in {location_of(store)}; show it with: assaymark show {row.short_id}"
