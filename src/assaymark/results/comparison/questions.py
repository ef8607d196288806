"""The questions of stored runs, ours and other tools', in one format by which equal questions are found."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from assaymark.prompts.questions import question_in, strings_in
from assaymark.records import JsonValue
from assaymark.store import RunRow, Store
from assaymark.store.rows import SampleRecord
from assaymark.tasks.rescoring import choice_queries

OWN_TOOL = "assaymark"
SampleKey = tuple[str, int]  # task, sample index


@dataclass(frozen=True, slots=True)
class SampleQuestion:
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


def run_questions(store: Store, run_id: str) -> dict[SampleKey, SampleQuestion]:
    """Return the questions of a run's samples whose rows are stored; for a conversation the first turn."""
    row = store.run(run_id)
    read = _READ.get(tool_of(row), _unworded)
    questions: dict[SampleKey, SampleQuestion] = {}
    for task in row.tasks:
        for record in store.samples(run_id, task):
            if record.sample is not None and record.request.turn == 0:
                questions[task, record.request.sample_index] = read(record, record.sample.row)
    return questions


def _of_row(record: SampleRecord, row: Mapping[str, object]) -> SampleQuestion:
    """Return the question of a run that contains the data set's rows and its prompts."""
    request = record.request
    text = request.segments[-1] if request.segments else request.prompt
    queries = choice_queries(request)
    if queries and queries[0].segments is not None:  # the choices are contexts, each with the whole question
        return SampleQuestion("\n".join(strings_in(row)), None, None)
    question, options = question_in(row, text, [query.continuation for query in queries])
    return SampleQuestion("\n".join([text, *options]), question or text, options)


def _of_inspect(_: SampleRecord, row: Mapping[str, JsonValue]) -> SampleQuestion:
    options = tuple(map(str, _listed(row, "choices")))
    question = row.get("input")
    return SampleQuestion(
        "\n".join([*strings_in(question), *options]), question if isinstance(question, str) else None, options
    )


def _of_helm(_: SampleRecord, row: Mapping[str, JsonValue]) -> SampleQuestion:
    options = tuple(str(each["text"]) for each in _listed(row, "references") if isinstance(each, Mapping))
    source = row["input"]
    question = str(source.get("text", "")) if isinstance(source, Mapping) else ""
    return SampleQuestion("\n".join([question, *options]), question or None, options)


def _of_lighteval(_: SampleRecord, row: Mapping[str, JsonValue]) -> SampleQuestion:
    options = tuple(map(str, _listed(row, "choices")))
    return SampleQuestion("\n".join([str(row["query"]), *options]), None, options)


def _listed(row: Mapping[str, JsonValue], key: str) -> Sequence[JsonValue]:
    value = row.get(key)
    return value if isinstance(value, list | tuple) else ()


def _unworded(_: SampleRecord, row: Mapping[str, object]) -> SampleQuestion:
    return SampleQuestion("\n".join(strings_in(row)), None, None)


_READ: Mapping[str, Callable[[SampleRecord, Mapping[str, object]], SampleQuestion]] = {
    OWN_TOOL: _of_row,
    "lm-eval": _of_row,
    "inspect_ai": _of_inspect,
    "helm": _of_helm,
    "lighteval": _of_lighteval,
}
