"""The questions of stored runs, ours and other tools', in one format by which equal questions are found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assaymark.prompts.questions import question_in, strings_in
from assaymark.store import RunRow, Store
from assaymark.store.rows import SampleRecord
from assaymark.tasks.gold import choice_queries

__all__ = ["OWN_TOOL", "Question", "SampleKey", "run_questions", "stores_rows", "tool_of"]

OWN_TOOL = "assaymark"
SampleKey = tuple[str, int]  # task, sample index


@dataclass(frozen=True, slots=True)
class Question:
    """One sample's question, in the run's own wording and order of options."""

    text: str  # the whole question with its options, without shots
    question: str | None  # alone; None if it cannot be separated from the wording around it
    options: tuple[str, ...] | None  # None: unknown


def tool_of(row: RunRow) -> str:
    """Return the tool that made a run."""
    imported = row.extra.get("imported")
    return OWN_TOOL if imported is None else str(imported["tool"])


def stores_rows(tool: str) -> bool:
    """Return whether a tool's runs contain the data set's own rows, so that equal hashes mean equal rows."""
    return tool in {OWN_TOOL, "lm-eval"}


def run_questions(store: Store, run_id: str) -> dict[SampleKey, Question]:
    """Return the questions of a run's samples whose rows are stored; for a conversation the first turn."""
    row = store.run(run_id)
    read = _READ.get(tool_of(row), _unworded)
    found: dict[SampleKey, Question] = {}
    for task in row.tasks:
        for record in store.samples(run_id, task):
            if record.sample is not None and record.request.turn == 0:
                found[task, record.request.sample_index] = read(record, record.sample.row)
    return found


def _of_row(record: SampleRecord, row: Mapping[str, Any]) -> Question:
    """Return the question of a run that contains the data set's rows and its prompts."""
    request = record.request
    shown = request.segments[-1] if request.segments else request.prompt
    queries = choice_queries(request)
    if queries and queries[0].segments is not None:  # the choices are contexts, each with the whole question
        return Question("\n".join(strings_in(row)), None, None)
    question, options = question_in(row, shown, [query.continuation for query in queries])
    return Question("\n".join([shown, *options]), question or shown, options)


def _of_inspect(_: SampleRecord, row: Mapping[str, Any]) -> Question:
    options = tuple(map(str, row.get("choices") or ()))
    given = row.get("input")
    return Question("\n".join([*strings_in(given), *options]), given if isinstance(given, str) else None, options)


def _of_helm(_: SampleRecord, row: Mapping[str, Any]) -> Question:
    options = tuple(str(one["text"]) for one in row.get("references") or ())
    question = str(row["input"].get("text", ""))
    return Question("\n".join([question, *options]), question or None, options)


def _of_lighteval(_: SampleRecord, row: Mapping[str, Any]) -> Question:
    options = tuple(map(str, row.get("choices") or ()))
    return Question("\n".join([str(row["query"]), *options]), None, options)


def _unworded(_: SampleRecord, row: Mapping[str, Any]) -> Question:
    return Question("\n".join(strings_in(row)), None, None)


_READ: Mapping[str, Callable[[SampleRecord, Mapping[str, Any]], Question]] = {
    OWN_TOOL: _of_row,
    "lm-eval": _of_row,
    "inspect_ai": _of_inspect,
    "helm": _of_helm,
    "lighteval": _of_lighteval,
}
