"""Watching as a part of the server: the page of quality over time, beside those of traces."""

from pathlib import Path

from fastapi import FastAPI

from assaymark.applications.traces.readers import Readers
from assaymark.applications.watch.routes import add_watch_pages
from assaymark.store import Store
from assaymark.web.app import Feature
from assaymark.web.render import Drawing

__all__ = ["watch_feature"]


def watch_feature(store: Store) -> Feature:
    """Return the pages of watching, for an application that has those of traces."""

    def add(app: FastAPI) -> None:
        add_watch_pages(app, store, Readers(store).need)

    return Feature(add, drawing=Drawing(Path(__file__).resolve().parent / "templates"))
