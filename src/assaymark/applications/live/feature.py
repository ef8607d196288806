"""Live monitoring as a part of the server: feedback, the pages of raters, and rows made from traces."""

from collections.abc import Sequence
from pathlib import Path

from fastapi import FastAPI

from assaymark.applications.live.annotation_routes import add_annotation, add_datasets
from assaymark.applications.live.routes import LARGEST_BODIES, add_feedback
from assaymark.applications.traces.redaction import Redaction
from assaymark.store import Store
from assaymark.web.app import Feature
from assaymark.web.render import Drawing

DRAWING = Drawing(Path(__file__).resolve().parent / "templates")


def live_feature(store: Store, redaction: Redaction, origins: Sequence[str] = ()) -> Feature:
    """Return the features that follow traces: feedback by programs and people, raters, and data sets.

    Args:
        store: of the traces.
        redaction: of what people write, before it is stored.
        origins: sites that may embed the form of feedback, checked.
    """

    def add(app: FastAPI) -> None:
        add_feedback(app, store, redaction, origins)
        add_annotation(app, store, redaction)
        add_datasets(app, store, redaction)

    return Feature(add, largest_bodies=LARGEST_BODIES, drawing=DRAWING)
