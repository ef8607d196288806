"""What stored runs hold of each sample's question, ours and other tools', in one form to find the same ones by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from evalstone.prompts.questions import question_in, strings_in
from evalstone.store import RunRow, Store
from evalstone.store.rows import SampleRecord
from evalstone.tasks.gold import choice_queries

__all__ = ["OWN_TOOL", "Asked", "Place", "asked_questions", "keeps_rows", "tool_of"]

OWN_TOOL = "evalstone"
Place = tuple[str, int]  # task, sample index


@dataclass(frozen=True, slots=True)
class Asked:
    """One sample's question. Words and order are as the run has them."""

    text: str  # all that was asked of the sample, options too; shots are no part of it
    question: str | None  # alone; None where it cannot be told from the wording around it
    options: tuple[str, ...] | None  # None: unknown


def tool_of(row: RunRow) -> str:
    """Return which tool a run was made with."""
    imported = row.extra.get("imported")
    return OWN_TOOL if imported is None else str(imported["tool"])


def keeps_rows(tool: str) -> bool:
    """Return whether a tool's runs hold the data set's own rows, so that equal hashes mean equal rows."""
    return tool in {OWN_TOOL, "lm-eval"}


def asked_questions(store: Store, run_id: str) -> dict[Place, Asked]:
    """Return the questions of a run whose rows are stored; of a conversation the first turn."""
    row = store.run(run_id)
    read = _READ.get(tool_of(row), _unworded)
    found: dict[Place, Asked] = {}
    for task in row.tasks:
        for record in store.samples(run_id, task):
            if record.sample is not None and record.request.turn == 0:
                found[task, record.request.sample_index] = read(record, record.sample.row)
    return found


def _of_row(record: SampleRecord, row: Mapping[str, Any]) -> Asked:
    """Read a run that holds the data set's rows and its prompts."""
    request = record.request
    shown = request.segments[-1] if request.segments else request.prompt
    queries = choice_queries(request)
    if queries and queries[0].segments is not None:  # the choices are contexts, each the whole question
        return Asked("\n".join(strings_in(row)), None, None)
    question, options = question_in(row, shown, [query.continuation for query in queries])
    return Asked("\n".join([shown, *options]), question or shown, options)


def _of_inspect(_: SampleRecord, row: Mapping[str, Any]) -> Asked:
    options = tuple(map(str, row.get("choices") or ()))
    asked = row.get("input")
    return Asked("\n".join([*strings_in(asked), *options]), asked if isinstance(asked, str) else None, options)


def _of_helm(_: SampleRecord, row: Mapping[str, Any]) -> Asked:
    options = tuple(str(one["text"]) for one in row.get("references") or ())
    question = str(row["input"].get("text", ""))
    return Asked("\n".join([question, *options]), question or None, options)


def _of_lighteval(_: SampleRecord, row: Mapping[str, Any]) -> Asked:
    options = tuple(map(str, row.get("choices") or ()))
    return Asked("\n".join([str(row["query"]), *options]), None, options)


def _unworded(_: SampleRecord, row: Mapping[str, Any]) -> Asked:
    return Asked("\n".join(strings_in(row)), None, None)


_READ: Mapping[str, Callable[[SampleRecord, Mapping[str, Any]], Asked]] = {
    OWN_TOOL: _of_row,
    "lm-eval": _of_row,
    "inspect_ai": _of_inspect,
    "helm": _of_helm,
    "lighteval": _of_lighteval,
}
