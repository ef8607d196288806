"""Rows made from traces: the application's inputs, with the answer that it should have given.

A row's expected value is a person's correction. The application's own answer becomes one only if somebody accepts it,
since a test that expects the former answer finds no fault in it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from assaymark.applications.live.answered_traces import as_value, contexts_of, inputs_and_output, read_trace
from assaymark.applications.live.dataset_log import inputs_digest
from assaymark.applications.traces.steps import Step
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceRow, TraceScore, latest_correction
from assaymark.errors import DataError
from assaymark.records import JsonValue
from assaymark.store import Store

MOST_TAGS = 20
_TAGS = ("tag.tags", "langfuse.trace.tags", "tags")


@dataclass(frozen=True, slots=True)
class MadeRow:
    """A row of a data set, as `assaymark run --tasks` reads it. digest: of its inputs."""

    trace_id: bytes
    digest: bytes
    content: dict[str, JsonValue]


@dataclass
class RowCounts:
    """Counts of traces by outcome. same: the traces that add no row, each with the one that has the same inputs."""

    n_rows: int = 0
    n_without_expected: int = 0
    same: list[tuple[bytes, bytes]] = field(default_factory=list)
    without_inputs: list[tuple[bytes, str]] = field(default_factory=list)  # and why


def row_of_trace(
    trace: TraceRow,
    steps: Sequence[Step],
    scores: Sequence[TraceScore],
    *,
    accept_output: bool = False,
    correction: str | None = None,
) -> MadeRow:
    """Return the row of a trace.

    Args:
        steps: in the order of the tree.
        scores: of the trace, among them corrections; the latest of its answer counts.
        accept_output: whether the output is the expected value if nobody corrected it.
        correction: given now; it takes precedence over all others.

    Raises: DataError if no step of the trace has the application's input.
    """
    inputs, output = inputs_and_output(steps)
    if inputs is None:
        raise DataError("no step says what the application was asked (input.value, or messages)")
    last = correction or latest_correction(scores, steps[0].span.span_id)
    expected = as_value(last) if last is not None else output if accept_output else None
    contexts = contexts_of(steps)
    tags = _tags(steps)
    content: dict[str, JsonValue] = {"id": trace.trace_id.hex(), "inputs": inputs}
    content |= {} if expected is None else {"expected": expected}
    content |= {"contexts": list(contexts)} if contexts else {}
    content["metadata"] = {"trace_id": trace.trace_id.hex(), **({"version": trace.version} if trace.version else {})}
    content |= {"tags": tags} if tags else {}
    return MadeRow(trace.trace_id, inputs_digest(inputs), content)


def _tags(steps: Sequence[Step]) -> list[str]:
    """Return the tags of the trace: those of the first step that has any."""
    for step in steps:
        for name in _TAGS:
            value = step.span.attributes.get(name)
            value = as_value(value) if isinstance(value, str) else value
            listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
            if tags := [str(tag)[:200] for tag in listed if isinstance(tag, str | int) and tag != ""]:
                return tags[:MOST_TAGS]
    return []


def rows_of_traces(
    store: Store,
    project: int,
    trace_ids: Iterable[bytes],
    counts: RowCounts,
    *,
    accept_output: bool = False,
    known: dict[bytes, bytes] | None = None,
) -> Iterator[MadeRow]:
    """Yield the rows of traces, only the first of those with the same inputs, and count the others.

    Args:
        trace_ids: in the order of the rows.
        counts: updated.
        accept_output: as for `row_of_trace`.
        known: digests of inputs that are rows already, with their traces.
    """
    seen = {} if known is None else dict(known)
    for trace_id in trace_ids:
        try:
            trace, steps = read_trace(store, project, trace_id)
            row = row_of_trace(trace, steps, TraceLog(store).scores(project, trace_id), accept_output=accept_output)
        except DataError as error:
            counts.without_inputs.append((trace_id, str(error)))
            continue
        if row.digest in seen:
            counts.same.append((trace_id, seen[row.digest]))
            continue
        seen[row.digest] = trace_id
        counts.n_rows += 1
        counts.n_without_expected += "expected" not in row.content
        yield row
