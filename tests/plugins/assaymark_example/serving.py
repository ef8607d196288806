"""A part of `assaymark serve` with an option of its own, and a check of what visitors of an arena write."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
from fastapi import FastAPI, Response

from assaymark.cli.extras import ServedPart
from assaymark.web.app import Feature


def _features(options: Mapping[str, Any], _store: str | None) -> list[Feature]:
    notice = options["notice"]
    if notice is None:
        return []

    def add(app: FastAPI) -> None:
        @app.get("/notice")
        def show() -> Response:
            return Response(notice, media_type="text/plain")

    return [Feature(add, links=[("/notice", "Notice")], only_reads=True)]


notice_part = ServedPart((click.option("--notice", metavar="TEXT", help="Serve a notice at /notice."),), _features)


def no_shouting(messages: Sequence[Mapping[str, str]]) -> str | None:
    """Return why a conversation is refused: its last message has no small letter."""
    text = messages[-1]["content"]
    return "please do not shout" if text.isupper() else None
