"""Traces of an application that answers questions, stored as a receiver stores them."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assaymark.applications.live.rule_log import RuleLog
from assaymark.applications.live.rule_rows import Rule
from assaymark.applications.live.rules import new_rule
from assaymark.applications.live.worker import RoundCounts, ScoringWorker
from assaymark.applications.traces.otlp import traces_request
from assaymark.applications.traces.receiving import receive_spans
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceScore
from assaymark.store import Store
from tests.applications.traces.sending import request, span

__all__ = ["Live", "conversation", "trace_id"]

LATER = 1000.0  # seconds, after which every trace is complete


def trace_id(number: int) -> str:
    """Return a trace's id."""
    return f"{number:032x}"


def conversation(
    number: int,
    question: str = "What is Rome?",
    answer: str | None = "Rome, thank you.",
    *,
    documents: tuple[str, ...] = (),
    error: str = "",
    more: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the spans of one question: the application, and a search where there are documents."""
    named = {"input.value": json.dumps({"question": question}), "input.mime_type": "application/json"}
    attributes = {"openinference.span.kind": "AGENT", **named, **(more or {})}
    if answer is not None:
        attributes["output.value"] = answer
    status: dict[str, Any] = {"status": {"code": 2, "message": error}} if error else {}
    spans = [span(1, trace=trace_id(number), name="answer", attributes=attributes, **status)]
    if documents:
        results = {"openinference.span.kind": "RETRIEVER"}
        results |= {f"retrieval.documents.{at}.document.content": text for at, text in enumerate(documents)}
        spans.append(span(2, 1, trace=trace_id(number), name="search", seconds=0.5, attributes=results))
    return spans


@dataclass
class Live:
    """A store with one project."""

    store: Store
    project: int
    token: str

    @classmethod
    @contextmanager
    def open(cls, place: str) -> "Iterator[Live]":
        """Open a store, and make the project `bot`."""
        with Store.open(place) as store:
            token = TraceLog(store).add_project("bot")
            yield cls(store, TraceLog(store).project_id("bot"), token)

    @property
    def place(self) -> str:
        """Where the store is, as `--store` takes it."""
        return str(self.store.url)

    def send(self, *spans: Mapping[str, Any], resource: Mapping[str, Any] | None = None) -> None:
        """Store spans as the receiver does."""
        body = json.dumps(request(*spans, resource=resource)).encode()
        received = receive_spans(TraceLog(self.store), self.project, traces_request(body, "application/json"))
        assert received.n_rejected == 0, received.message

    def ask(self, number: int, *arguments: Any, version: str = "1.2", **keywords: Any) -> str:
        """Store the trace of a question; return its id."""
        self.send(*conversation(number, *arguments, **keywords), resource={"service.version": version})
        return trace_id(number)

    def rule(self, name: str, scorer: str, **keywords: Any) -> Rule:
        """Make a rule."""
        return RuleLog(self.store).add(self.project, new_rule(name, scorer, **keywords))

    def score(self, at: float | None = None, **keywords: Any) -> RoundCounts:
        """Score what is complete a while later."""
        return ScoringWorker(self.store, **keywords).round(time.time() + LATER if at is None else at)

    def scores(self, number: int) -> list[TraceScore]:
        """Return the scores of a trace."""
        return TraceLog(self.store).scores(self.project, bytes.fromhex(trace_id(number)))


def scorer_file(folder: Path, text: str) -> str:
    """Write a file of scorers; return its path."""
    path = folder / "scorers.py"
    path.write_text(text)
    return str(path)
