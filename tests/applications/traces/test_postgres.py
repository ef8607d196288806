"""Several receivers without state share one PostgreSQL; what one stores the others show."""

import threading

import pytest

from assaymark.applications.traces.redaction import Redaction
from assaymark.applications.traces.routes import trace_feature
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceFilter
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.applications.traces.sending import TRACE, Receiver, receiving, span
from tests.served import running

pytestmark = pytest.mark.slow


def test_two_receivers_of_one_trace(postgres_url: str) -> None:
    """Spans of one trace that two receivers get at once are stored once each, counted, searched, and pruned."""
    with (
        receiving(postgres_url) as first,
        Store.open(postgres_url) as store,
        running(create_app([trace_feature(store, Redaction())])) as url,
    ):
        second = Receiver(url, store, first.token, first.project)
        answers: list[int] = []

        def send(receiver: Receiver, start: int) -> None:
            for at in range(start, start + 40, 10):
                family = [span(at + more, 1 if at + more > 1 else None, name=f"n{at + more}") for more in range(10)]
                answers.append(receiver.send(*family).status_code)

        threads = [
            threading.Thread(target=send, args=(receiver, start))
            for receiver, start in ((first, 1), (second, 1), (first, 21), (second, 41))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert answers == [200] * 16
        row = TraceLog(second.store).trace(first.project, bytes.fromhex(TRACE))
        assert (row.n_spans, row.name, row.n_orphans) == (80, "n1", 0)
        assert len(TraceLog(first.store).spans(first.project, bytes.fromhex(TRACE))) == 80
        first.send(span(1, trace="0b" * 16, name="\x00 a rare word"))
        for receiver in (first, second):
            result = TraceLog(receiver.store).traces(first.project, TraceFilter(text='"rare word"'))
            assert [trace.trace_id.hex() for trace in result.traces] == ["0b" * 16]
            with receiver.client as client:
                assert len(client.get("/traces.json?version=1.2&slower=0.5").json()["traces"]) == 2
        assert store.verify() == []
        assert TraceLog(store).prune(first.project, most_bytes=0) == 2
        assert TraceLog(store).traces(first.project, TraceFilter(text="rare")).traces == ()
        assert TraceLog(store).remove_project("bot") == 0


def test_a_busy_server_is_tried_again(postgres_url: str) -> None:
    """While another transaction holds a trace's row, the answer is 503; later the span is stored."""
    import psycopg

    with receiving(postgres_url) as receiver:
        receiver.send(span(1))
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT * FROM traces FOR UPDATE")
            answer = receiver.send(span(2))
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert receiver.send(span(2)).status_code == 200
        assert TraceLog(receiver.store).trace(receiver.project, bytes.fromhex(TRACE)).n_spans == 2
