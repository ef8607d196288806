"""Traces as a part of the server: the receiver of OTLP, and the pages."""

from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI

from assaymark.applications.traces.pages import indented, shown_cost, shown_instant, shown_seconds
from assaymark.applications.traces.receiver import LARGEST_BODIES, add_receiver
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.routes import add_pages
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.store import Store
from assaymark.web.app import Feature
from assaymark.web.render import Drawing

LINKS = (("/traces", "Traces"),)
FILTERS: dict[str, Callable[..., object]] = {
    "instant": shown_instant,
    "took": shown_seconds,
    "money": shown_cost,
    "indented": indented,
}
DRAWING = Drawing(Path(__file__).resolve().parent / "templates", FILTERS)


def trace_feature(store: Store, redaction: Redaction, *, has_rows: bool = False) -> Feature:
    """Return the receiver of traces, and their pages, as a part of the application.

    has_rows: whether live monitoring is served too, whose form makes rows from traces.
    """

    def add(app: FastAPI) -> None:
        add_receiver(app, store, redaction)
        add_pages(app, store, has_rows=has_rows)

    return Feature(add, LINKS, LARGEST_BODIES, DRAWING, ready=TraceLog(store).projects)
