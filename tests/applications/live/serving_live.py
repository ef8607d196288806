"""A server of traces and of live monitoring over a store with one project."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from assaymark.applications.live.annotation_routes import live_feature
from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.routes import trace_feature
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.applications.traces.sending import Receiver
from tests.served import running

__all__ = ["serving_live"]


@contextmanager
def serving_live(place: Path | str, origins: Sequence[str] = ()) -> Iterator[Receiver]:
    """Serve a store with the project `bot`; origins: sites that may embed the form."""
    with Store.open(str(place)) as store:
        token = TraceLog(store).add_project("bot")
        redaction = Redaction()
        app = create_app([trace_feature(store, redaction), live_feature(store, redaction, origins)])
        with running(app) as url:
            yield Receiver(url, store, token, TraceLog(store).project_id("bot"))
