"""Parts shared by the commands about traces: finding the store, the project and the trace, and printing tables."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from assaymark.applications.traces.trace_log import TraceLog
from assaymark.cli.output import print_rich
from assaymark.errors import MissingExtra, UnknownName, UsageError

if TYPE_CHECKING:
    from assaymark.store import Store

SHORTEST_ID = 4  # hexadecimal digits by which a trace may be named
NUMBERS = frozenset({"steps", "seconds", "tokens", "cost", "spans", "n", "rate", "failed", "mean", "drawn", "scored"})

project_option = click.option("--project", metavar="NAME", help="Project (default: the only one).")


def trace_id_of(store: "Store", project: int, text: str) -> bytes:
    """Return the id of a trace from all or the first of its digits. Raises: UnknownName, UsageError."""
    lowered = text.lower()
    if len(lowered) == 32 and all(digit in "0123456789abcdef" for digit in lowered):
        return bytes.fromhex(lowered)
    if len(lowered) < SHORTEST_ID:
        raise UsageError(f"the trace '{text[:40]}'; expected its id, or at least {SHORTEST_ID} digits of it")
    from assaymark.applications.traces.trace_rows import TraceFilter

    recent = TraceLog(store).traces(project, TraceFilter(), 1000).traces
    matching = [trace.trace_id for trace in recent if trace.trace_id.hex().startswith(lowered)]
    if len(matching) > 1:
        raise UsageError(f"{len(matching)} traces begin with '{text[:40]}'; give more digits")
    if not matching:
        raise UnknownName("trace", text[:40])
    return matching[0]


def open_store(store: str | None, *, writing: bool = False) -> "Store":
    """Return the store that a command names, open."""
    from assaymark.store import Store

    return Store.open(store) if writing else Store.open_to_read(store)


@contextmanager
def open_project(store: str | None, name: str | None, *, writing: bool = False) -> "Iterator[tuple[Store, int]]":
    """Open the store that a command names; yield it and the project's number. Raises: UnknownName, UsageError."""
    with open_store(store, writing=writing) as opened:
        yield opened, _project_of(opened, name)


def _project_of(store: "Store", name: str | None) -> int:
    if name is not None:
        return TraceLog(store).project_id(name)
    known = TraceLog(store).projects()
    if len(known) != 1:
        names = ", ".join(each.name for each in known[:5]) or "none; `assaymark traces project add NAME` makes one"
        raise UsageError(f"there are {len(known)} projects ({names}); name one with --project")
    return known[0].id


def need_extra() -> None:
    """Raise MissingExtra if the packages that read spans are not installed."""
    from importlib.util import find_spec

    if find_spec("google") is None or find_spec("opentelemetry") is None:
        raise MissingExtra("assaymark traces", "traces")


def print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table; columns of numbers are to the right."""
    from assaymark.documents.blocks import Column, table
    from assaymark.documents.document import document

    columns = (Column(title, "number" if title in NUMBERS else "text") for title in head)
    print_rich(document(table(columns, rows)))
