"""Stored audits: listed and shown again, apart from runs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from evalstone.api.run import place_of
from evalstone.api.stored import existing_store
from evalstone.audit.contamination import ContaminationTest, corrected
from evalstone.audit.prompts import PromptAudit
from evalstone.audit.stored import kept_parts
from evalstone.records import JsonValue
from evalstone.store import RunRow, Store

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["CONTAMINATION", "CONTROL", "PROMPTS", "KeptAudit", "find_audit", "list_audits", "where_kept"]

CONTAMINATION = "contamination"
CONTROL = "contamination, control"
PROMPTS = "prompts"


@dataclass(frozen=True, slots=True)
class KeptAudit:
    """An audit as the store has it."""

    row: RunRow
    content: JsonValue
    view: "RenderableType"  # for a terminal
    remarks: tuple[str, ...]


def list_audits(store: str | None, words: Sequence[str] = ()) -> list[RunRow]:
    """Return the stored audits whose id, model, status or tasks match every word, newest first."""
    return existing_store(store).audits(words) if Store.exists(store) else []


def find_audit(store: str | None, name: str) -> KeptAudit | None:
    """Return a stored audit by its id or the beginning of it; None where that is a run.

    Raises: UnknownName with the nearest ids.
    """
    opened = existing_store(store)
    row = opened.run(name)
    if row.plan.audit is None:
        return None
    content, view = _results(row)
    remarks = [f"audit {row.short_id} in {place_of(opened)}"]
    if row.status != "finished":
        again = "the same call" if row.command is None else row.command
        remarks.insert(0, f"it is {row.status}; what it has so far is shown, and this goes on with it: {again}")
    if row.plan.audit == CONTROL:
        remarks.insert(0, "answers of a control model; what came of them is with the audit that it was asked for")
    return KeptAudit(row, content, view, tuple(remarks))


def _results(row: RunRow) -> "tuple[JsonValue, RenderableType]":
    from evalstone.audit.contamination_tables import contamination_json, contamination_table
    from evalstone.audit.prompt_tables import prompts_table

    if row.plan.audit == PROMPTS:
        audits: list[PromptAudit] = kept_parts(row, PromptAudit)
        return {"audits": [asdict(one) for one in audits], "ranks": []}, prompts_table(audits)
    parts: list[tuple[ContaminationTest, ...]] = kept_parts(row, tuple[ContaminationTest, ...])
    tests = corrected([test for part in parts for test in part])
    return contamination_json(tests), contamination_table(tests)


def where_kept(store: Store, run_id: str) -> str:
    """Return the line that says where an audit is and how to see it again."""
    row = store.run(run_id)
    return f"audit {row.short_id} in {place_of(store)}; see it again: evalstone show {row.short_id}"
