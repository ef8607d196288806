"""A page with its table, and the same table as a section of reports."""

from pathlib import Path

from fastapi import FastAPI, Request, Response

from assaymark.documents.blocks import Block, Heading, table
from assaymark.results.report.contents import ReportContents
from assaymark.results.views.cells import leaf_estimates
from assaymark.store import Store
from assaymark.web.app import Feature
from assaymark.web.render import Drawing, respond, wants_json

TEMPLATES = Path(__file__).resolve().parent / "templates"


def sizes_feature(store: Store) -> Feature:
    """Return the page `/sizes`, and `/sizes.json`: how many samples each stored run has."""

    def add(app: FastAPI) -> None:
        @app.get("/sizes")
        @app.get("/sizes.json")
        def sizes(request: Request) -> Response:
            runs = [{"run": row.short_id, "model": row.model, "samples": row.n_samples} for row in store.runs()]
            return respond(request, "sizes.html", {"runs": runs}, as_json=wants_json(request))

    return Feature(add, links=[("/sizes", "Sizes")], drawing=Drawing(TEMPLATES), only_reads=True)


def sizes_section(contents: ReportContents) -> list[Block]:
    """Return how many samples of each task were scored and how many failed; nothing without tasks."""
    estimates = [estimate for view in contents.views for estimate in leaf_estimates(view)]
    rows = [(each.task, f"{each.n:,}", f"{each.n_failed:,}") for each in estimates]
    return [Heading("Sizes"), table(("task", "scored", "failed"), rows)] if rows else []
