"""Traces that a filter names, all of them and not a page."""

from collections.abc import Iterator
from dataclasses import replace

from assaymark.applications.live.rule_rows import draw_of
from assaymark.applications.traces.listing import ListQuery
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceRow
from assaymark.errors import UsageError
from assaymark.store import Store

AT_ONCE = 500
MOST = 100_000  # traces of one filter


def traces_like(store: Store, project: int, query: ListQuery) -> Iterator[TraceRow]:
    """Yield the traces that are like that, the latest first.

    Raises: UsageError for a filter that cannot be read, more than 100,000 traces, or words that so many spans have that
        only the latest were looked at.
    """
    wanted = query.filter()
    n_traces = 0
    while True:
        page = TraceLog(store).traces(project, wanted, AT_ONCE)
        if page.is_cut:
            raise UsageError(f"too many steps have the words {query.q!r:.80}; narrow the filter, by time for example")
        n_traces += len(page.traces)
        if n_traces > MOST:
            raise UsageError(f"the filter names more than {MOST:,} traces; narrow it, by time for example")
        yield from page.traces
        if not page.has_more:
            return
        last = page.traces[-1]
        wanted = replace(wanted, before=(last.at, last.trace_id))


def sampled_traces(store: Store, project: int, query: ListQuery, n: int | None, name: str) -> list[TraceRow]:
    """Return the traces that are like that, or `n` of them drawn at random; more of the same name include fewer.

    Raises: as `traces_like`.
    """
    matching = list(traces_like(store, project, query))
    if n is None or n >= len(matching):
        return matching
    return sorted(matching, key=lambda trace: draw_of(trace.trace_id, name))[:n]
