"""Spans for tests, and a server that receives them."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.routes import trace_feature
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.watch.pages import watch_feature
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.served import running

TRACE = "5b8efff798038103d269b633813fc60c"
NOW = time.time_ns()


def value(plain: Any) -> dict[str, Any]:
    """Return a value of an attribute as OTLP's JSON."""
    if isinstance(plain, bool):
        return {"boolValue": plain}
    if isinstance(plain, int):
        return {"intValue": str(plain)}
    if isinstance(plain, float):
        return {"doubleValue": plain}
    if isinstance(plain, list):
        return {"arrayValue": {"values": [value(part) for part in plain]}}
    return {"stringValue": plain}


def pairs(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return attributes as OTLP's JSON."""
    return [{"key": key, "value": value(plain)} for key, plain in attributes.items()]


def span(
    number: int,
    parent: int | None = None,
    *,
    trace: str = TRACE,
    name: str = "step",
    start: float = 0,
    seconds: float | None = 1,
    **more: Any,
) -> dict[str, Any]:
    """Return a span as OTLP's JSON; its attributes, events and status are in `more`."""
    began = NOW + int(start * 1e9)
    made = {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(began),
        "attributes": pairs(more.pop("attributes", {})),
        **more,
    }
    if parent is not None:
        made["parentSpanId"] = f"{parent:016x}"
    if seconds is not None:
        made["endTimeUnixNano"] = str(began + int(seconds * 1e9))
    return made


def request(*spans: Mapping[str, Any], resource: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a request to store spans as OTLP's JSON."""
    attributes = pairs({"service.name": "bot", "service.version": "1.2", **(resource or {})})
    scope = {"scope": {"name": "tests"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [scope]}]}


@dataclass
class Receiver:
    """A server with one project."""

    url: str
    store: Store
    token: str
    project: int

    @property
    def client(self) -> httpx.Client:
        """A client that has the project's token."""
        return httpx.Client(base_url=self.url, headers={"authorization": f"Bearer {self.token}"}, timeout=30)

    def send(self, *spans: Mapping[str, Any], resource: Mapping[str, Any] | None = None) -> httpx.Response:
        """Send spans as JSON."""
        with self.client as client:
            body = json.dumps(request(*spans, resource=resource))
            return client.post("/v1/traces", content=body, headers={"content-type": "application/json"})


@contextmanager
def receiving(place: Path | str, redaction: Redaction | None = None) -> Iterator[Receiver]:
    """Serve a receiver over a store with the project `bot`."""
    with Store.open(str(place)) as store:
        token = TraceLog(store).add_project("bot")
        app = create_app([trace_feature(store, redaction or Redaction()), watch_feature(store)])
        with running(app) as url:
            yield Receiver(url, store, token, TraceLog(store).project_id("bot"))
