"""The receiver speaks OTLP over HTTP as its specification says, and stores before it answers."""

import asyncio
import gzip
import json
import random
import sqlite3
import threading
import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from assaymark.applications.traces.message_size import MOST_FIELDS, MOST_OF_ONE, MOST_VALUES, count_fields
from assaymark.applications.traces.otlp import LARGEST_BODY, MOST_SPANS, read_span, traces_request
from assaymark.applications.traces.receiver import AT_ONCE, _Places, _RefusedRequest
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import TraceFilter, TraceScore
from tests.applications.traces.sending import TRACE, Receiver, pairs, receiving, request, span

JSON = {"content-type": "application/json"}
PROTOBUF = {"content-type": "application/x-protobuf"}


def protobuf(*spans: Any) -> bytes:
    """Return a request as protobuf."""
    made = traces_request(json.dumps(request(*spans)).encode(), "application/json")
    return bytes(made.SerializeToString())


def field(number: int, content: bytes) -> bytes:
    """Return a field of protobuf that has a message or a text."""
    size = bytearray()
    left = len(content)
    while left > 127:
        size.append(left & 127 | 128)
        left >>= 7
    return bytes([number << 3 | 2, *size, left]) + content


def stored(receiver: Receiver, trace: str = TRACE) -> list[Any]:
    """Return the stored spans of a trace."""
    return TraceLog(receiver.store).spans(receiver.project, bytes.fromhex(trace))


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
@pytest.mark.parametrize("kind", ["json", "protobuf"])
def test_both_encodings_with_and_without_compression(receiver: Receiver, kind: str, encoding: str) -> None:
    """Spans arrive in either encoding and compression, are answered in kind, and can be read at once."""
    body = json.dumps(request(span(1))).encode() if kind == "json" else protobuf(span(1))
    packed = {"": body, "gzip": gzip.compress(body), "deflate": zlib.compress(body)}[encoding]
    headers = {**(JSON if kind == "json" else PROTOBUF), **({"content-encoding": encoding} if encoding else {})}
    headers["content-type"] += "; charset=utf-8"
    with receiver.client as client:
        answer = client.post("/v1/traces", content=packed, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json" if kind == "json" else "application/x-protobuf")
    assert answer.content == (b"{}" if kind == "json" else b"")
    assert [row.name for row in stored(receiver)] == ["step"]


def test_an_empty_request_succeeds(receiver: Receiver) -> None:
    """A request without spans is a success with an empty message."""
    with receiver.client as client:
        assert client.post("/v1/traces", content=b"", headers=PROTOBUF).status_code == 200
        assert client.post("/v1/traces", content=b"{}", headers=JSON).json() == {}


def test_json_as_the_specification_has_it(receiver: Receiver) -> None:
    """Ids in either case, integers as numbers or texts, base64 of bytes, and unknown fields are read."""
    made = span(1)
    made["traceId"] = TRACE.upper()
    made["startTimeUnixNano"] = int(made["startTimeUnixNano"])
    made["whatever"] = {"is": "new"}
    made["attributes"] = [{"key": "data", "value": {"bytesValue": "AAEC"}}, *pairs({"n": 2**53 + 1})]
    assert receiver.send(made).json() == {}
    (row,) = stored(receiver)
    from assaymark.applications.traces.otlp import read_span

    assert dict(read_span(row).attributes) == {"data": "AAEC", "n": 2**53 + 1}


def test_what_is_sent_again_is_stored_once(receiver: Receiver) -> None:
    """The same bytes change nothing; another copy is counted, and the one that has ended is kept."""
    running, ended = span(1, seconds=None), span(1, seconds=2)
    assert receiver.send(running, running).json() == {}
    assert receiver.send(running).json() == {}
    assert [(row.ended, row.n_conflicts) for row in stored(receiver)] == [(None, 0)]
    receiver.send(ended)
    receiver.send(running, span(1, seconds=3))
    (row,) = stored(receiver)
    assert row.ended == int(ended["endTimeUnixNano"])
    assert row.n_conflicts == 3
    assert TraceLog(receiver.store).trace(receiver.project, bytes.fromhex(TRACE)).n_spans == 1


def test_spans_come_in_any_order(receiver: Receiver) -> None:
    """Children before their parents make the same tree and summary as parents first, and an orphan is counted."""
    family = [span(1, name="root", seconds=9), span(2, 1, start=1), span(3, 2, start=2), span(4, 2, start=1.5)]
    for each in reversed(family):
        receiver.send(each)
        before = TraceLog(receiver.store).trace(receiver.project, bytes.fromhex(TRACE))
    assert (before.name, before.n_spans, before.n_orphans, before.seconds) == ("root", 4, 0, 9)
    receiver.send(span(9, 8, name="lost"))
    row = TraceLog(receiver.store).trace(receiver.project, bytes.fromhex(TRACE))
    assert (row.name, row.n_spans, row.n_orphans) == ("root", 5, 1)


def step(
    number: int, parent: int | None, kind: str, usage: tuple[int, int] | None = None, **more: Any
) -> dict[str, Any]:
    """Return a span of a kind with the tokens that it read and generated."""
    given = {} if usage is None else {"input_tokens": usage[0], "output_tokens": usage[1]}
    attributes = {"operation.name": kind, **{f"usage.{name}": n for name, n in given.items()}, **more}
    return span(number, parent, start=number, attributes={f"gen_ai.{name}": each for name, each in attributes.items()})


CHAT, TOOL, AGENT = "chat", "execute_tool", "invoke_agent"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # a call of a model below a tool of another call
        ([step(1, None, CHAT, (100, 10)), step(2, 1, TOOL), step(3, 2, "embeddings", (5, 0))], (105, 10)),
        ([step(1, None, CHAT, (100, 10)), step(2, 1, TOOL), step(3, 2, CHAT, (100, 20))], (200, 30)),
        ([step(1, None, CHAT, (100, 10)), step(2, 1, CHAT, (7, 1))], (107, 11)),
        # spans that sum what is below them
        ([step(1, None, AGENT, (300, 30)), step(2, 1, CHAT, (100, 10)), step(3, 1, CHAT, (200, 20))], (300, 30)),
        ([step(1, None, AGENT, (400, 40)), step(2, 1, AGENT, (300, 30)), step(3, 2, CHAT, (300, 30)),
          step(4, 1, CHAT, (100, 10))], (400, 40)),
        ([step(1, None, CHAT, (300, 30)), step(2, 1, CHAT, (100, 10)), step(3, 1, TOOL),
          step(4, 3, "embeddings", (5, 0)),
          step(5, 1, CHAT, (200, 20))], (305, 30)),
        # one call that two packages recorded, one below the other and one beside the other
        ([step(1, None, CHAT, (100, 10)), step(2, 1, CHAT, (100, 10))], (100, 10)),
        ([step(1, None, AGENT), step(2, 1, CHAT, (100, 10), **{"response.id": "r1"}),
          step(3, 1, CHAT, (100, 10), **{"response.id": "r1"})], (100, 10)),
        # an agent above calls without usage, and one above searches alone
        ([step(1, None, AGENT, (100, 10)), step(2, 1, CHAT)], (100, 10)),
        ([step(1, None, AGENT, (100, 10)), step(2, 1, TOOL), step(3, 2, "embeddings", (5, 0))], (105, 10)),
        # a total that is not divided, alone and above the call that has its parts
        ([step(1, None, AGENT), step(2, 1, CHAT, None, **{"usage.total_tokens": 110})], (110, None)),
        ([step(1, None, CHAT, None, **{"usage.total_tokens": 110}), step(2, 1, CHAT, (100, 10))], (100, 10)),
    ],
)  # fmt: skip
def test_tokens_are_the_sum_over_the_calls_of_models(
    receiver: Receiver, steps: list[dict[str, Any]], expected: tuple[int, int | None]
) -> None:
    """Whatever is nested in what, each call counts once, and spans that sum calls do not."""
    receiver.send(*steps)
    row = TraceLog(receiver.store).trace(receiver.project, bytes.fromhex(TRACE))
    assert (row.n_input, row.n_output) == expected


def test_a_cost_that_only_a_sum_reports_counts(receiver: Receiver) -> None:
    """The tokens are those of the calls, the cost is the agent's."""
    receiver.send(step(1, None, AGENT, (100, 10), **{"usage.cost": 0.25}), step(2, 1, CHAT, (100, 10)))
    row = TraceLog(receiver.store).trace(receiver.project, bytes.fromhex(TRACE))
    assert (row.n_input, row.n_output, row.cost) == (100, 10, 0.25)


PRICED: dict[str, Any] = {"usage.cost": 0.25}
UNPRICED: dict[str, Any] = {"request.model": "my-own"}


@pytest.mark.parametrize(
    ("steps", "cost", "n_unpriced"),
    [
        ([step(1, None, AGENT), step(2, 1, CHAT, (9, 1), **PRICED), step(3, 1, CHAT, (9, 1), **UNPRICED)], 0.25, 1),
        ([step(1, None, AGENT), step(2, 1, CHAT, (9, 1), **UNPRICED), step(3, 1, "embeddings", (9, 0))], None, 2),
        ([step(1, None, AGENT), step(2, 1, CHAT, (9, 1), **PRICED), step(3, 1, CHAT, (9, 1), **PRICED)], 0.5, 0),
        # a sum above covers its calls, and a call those that it consists of, but not those below a tool
        ([step(1, None, AGENT, None, **PRICED), step(2, 1, CHAT, (9, 1)), step(3, 1, TOOL),
          step(4, 3, CHAT, (5, 1))], 0.25, 0),
        ([step(1, None, CHAT, (9, 1), **PRICED), step(2, 1, CHAT, (9, 1))], 0.25, 0),
        ([step(1, None, CHAT, (9, 1), **PRICED), step(2, 1, TOOL), step(3, 2, CHAT, (5, 1))], 0.25, 1),
        # one call that two packages recorded
        ([step(1, None, CHAT, (9, 1)), step(2, 1, CHAT, (9, 1), **PRICED)], 0.25, 0),
        ([step(1, None, CHAT, (9, 1)), step(2, 1, CHAT, (9, 1))], None, 1),
        ([step(1, None, AGENT), step(2, 1, CHAT, (9, 1), **{"response.id": "r1"}, **PRICED),
          step(3, 1, CHAT, (9, 1), **{"response.id": "r1"})], 0.25, 0),
        ([step(1, None, TOOL)], None, 0),
    ],
)  # fmt: skip
def test_calls_whose_cost_is_not_known_are_counted(
    receiver: Receiver, steps: list[dict[str, Any]], cost: float | None, n_unpriced: int
) -> None:
    """A trace's cost is a lower bound where a call has none, and its session's too; it is shown as such."""
    for each in steps:
        each["attributes"].append({"key": "session.id", "value": {"stringValue": "s"}})
    receiver.send(*steps)
    log = TraceLog(receiver.store)
    row, (session,) = log.trace(receiver.project, bytes.fromhex(TRACE)), log.sessions(receiver.project)
    assert (row.cost, row.n_unpriced) == (cost, n_unpriced)
    assert (session.cost, session.n_unpriced) == (cost, n_unpriced)
    is_bound = cost is not None and n_unpriced > 0
    with receiver.client as client:
        for path in ("/traces", "/traces/sessions", f"/trace/{TRACE}"):
            html = client.get(path).text
            assert ("≥ $0.25" in html) == is_bound, path
            assert (f"{n_unpriced} call without a price" in html) == (
                is_bound or (n_unpriced == 1 and "trace/" in path)
            )


def test_one_bad_span_does_not_cost_the_others(receiver: Receiver) -> None:
    """Spans with invalid ids are rejected and counted with their reason; the rest is stored."""
    bad = [
        {**span(2), "traceId": "00" * 16},
        {**span(3), "traceId": "abc"},
        {**span(4), "spanId": "5b8efff798038103d269b633813fc60c"},
        {**span(5), "parentSpanId": "0102"},
    ]
    partial = receiver.send(span(1), *bad).json()["partialSuccess"]
    assert partial["rejectedSpans"] == "4"
    assert "2: the trace id is not 16 bytes" in partial["errorMessage"]
    assert [row.span_id.hex() for row in stored(receiver)] == [f"{1:016x}"]
    with receiver.client as client:
        answer = client.post("/v1/traces", content=protobuf(span(1), *bad), headers=PROTOBUF)
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 4


def test_what_cannot_be_read_is_refused(receiver: Receiver) -> None:
    """Each refusal has its status, and a google.rpc.Status in the sender's encoding."""
    deep = b'{"a":' * 500 + b"1" + b"}" * 500
    cases: list[tuple[int, bytes, dict[str, str]]] = [
        (400, b"\xff\xff\xff", PROTOBUF),
        (400, b"not json", JSON),
        (400, b"[]", JSON),
        (400, deep, JSON),
        (400, b'{"resourceSpans": 5}', JSON),
        (400, b"x", {**JSON, "content-encoding": "gzip"}),
        (400, gzip.compress(b"{}")[:-9], {**JSON, "content-encoding": "gzip"}),
        (400, gzip.compress(b"{}") * 2, {**JSON, "content-encoding": "gzip"}),  # else the second would be lost
        (400, b"{}", {**JSON, "content-encoding": "br"}),
        (415, b"{}", {"content-type": "text/plain"}),
    ]
    with receiver.client as client:
        for status, body, headers in cases:
            answer = client.post("/v1/traces", content=body, headers=headers)
            assert answer.status_code == status, (body[:20], answer.text)
            if headers["content-type"] == PROTOBUF["content-type"]:
                assert "no OTLP message" in Status.FromString(answer.content).message
            else:
                assert answer.json()["code"] == 3


def test_an_attribute_that_is_nested_too_deep_is_left_out_alone(receiver: Receiver) -> None:
    """Its span, the others and further attributes are kept, and the sender is told; what never ends is refused."""
    deep = '{"arrayValue": {"values": [' * 4000 + '{"stringValue": "]}"}' + "]}}" * 4000
    made = [span(1, attributes={"a": 'x\\"[', "z": 1}), span(2)]
    body = json.dumps(request(*made)).replace('{"intValue": "1"}', deep)
    with receiver.client as client:
        answer = client.post("/v1/traces", content=body, headers=JSON)
        assert answer.status_code == 200
        partial = answer.json()["partialSuccess"]
        assert partial == {"errorMessage": "left out 1 attribute, nested deeper than 100 levels"}
        endless = client.post("/v1/traces", content=body[:-200], headers=JSON)
        assert (endless.status_code, "ends within" in endless.text) == (400, True)
    first, second = (read_span(row) for row in stored(receiver))
    assert first.attributes == {"a": 'x\\"[', "z": "(nested too deep)"}
    assert second.attributes == {}


def test_a_bomb_is_refused(receiver: Receiver) -> None:
    """A body that unpacks to more than the limit is refused before it is all unpacked, and so is a long one."""
    bomb = gzip.compress(b"\0" * (LARGEST_BODY + 1000))
    with receiver.client as client:
        answer = client.post("/v1/traces", content=bomb, headers={**PROTOBUF, "content-encoding": "gzip"})
        assert (answer.status_code, Status.FromString(answer.content).code) == (413, 8)
        answer = client.post("/v1/traces", content=b"\0" * (LARGEST_BODY + 10), headers=PROTOBUF)
        assert answer.status_code == 413


def test_many_empty_messages_are_refused_before_they_are_made(receiver: Receiver) -> None:
    """A few kilobytes of gzip that unpack to millions of objects are refused in either encoding; texts are not."""
    spans = field(1, field(2, b"\x12\x00" * (MOST_FIELDS + 1)))
    attributes = field(1, field(2, field(2, b"\x4a\x00" * (MOST_OF_ONE + 1))))
    listed = b'{"resourceSpans": [' + b"{}," * (MOST_VALUES + 1) + b"{}]}"
    with receiver.client as client:
        for kind, body, words in ((PROTOBUF, spans, "300,000 fields"), (PROTOBUF, attributes, "one Span"),
                                  (JSON, listed, "120,000 values"), (JSON, b'["",' * 999_999, "values")):  # fmt: skip
            headers = {**kind, "content-encoding": "gzip"}
            for path in ("/v1/traces", "/v1/logs") if kind is JSON else ("/v1/traces",):
                answer = client.post(path, content=gzip.compress(body), headers=headers)
                assert answer.status_code == 413
                assert words in answer.text
        many = field(1, field(2, b"\x12\x02\x28\x00" * (MOST_SPANS + 1)))
        answer = client.post("/v1/traces", content=many, headers=PROTOBUF)
        assert (answer.status_code, Status.FromString(answer.content).code) == (413, 8)
        assert "5,001 spans" in answer.text
    assert receiver.send(span(1, attributes={"input.value": "[{," * MOST_VALUES})).json() == {}


def test_fields_are_counted_as_the_parser_finds_them() -> None:
    """The count on the wire is that of a walk over the parsed message."""
    nested = {"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {"values": [{"intValue": "300"}]}}}]}}
    made = span(1, 2, attributes={"a": "b" * 300, "n": -5, "x": 1.5}, events=[{"name": "e", "timeUnixNano": "1"}])
    made["attributes"].append({"key": "deep", "value": nested})
    body = protobuf(made, span(2), span(3, flags=257))

    def fields_of(message: Message) -> int:
        n = 0
        for descriptor, value in message.ListFields():
            for each in value if descriptor.is_repeated else [value]:
                n += 1 + (fields_of(each) if descriptor.message_type is not None else 0)
        return n

    parsed = ExportTraceServiceRequest.FromString(body)
    assert count_fields(body, parsed.DESCRIPTOR) == fields_of(parsed) > 50
    for cut in range(len(body)):  # what is damaged ends too
        assert count_fields(body[:cut], parsed.DESCRIPTOR) <= fields_of(parsed)


def test_gzip_that_tells_less_than_it_has(receiver: Receiver) -> None:
    """A body whose last bytes name a smaller size is not unpacked beyond it."""
    packed = gzip.compress(b" " * (5 << 20))[:-4] + (5).to_bytes(4, "little")
    with receiver.client as client:
        answer = client.post("/v1/traces", content=packed, headers={**JSON, "content-encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (413, 8)


def test_large_requests_are_read_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests take places by their unpacked size: two of the largest, and further ones wait or are sent away."""
    monkeypatch.setattr("assaymark.applications.traces.receiver.WAIT_SECONDS", 0.01)

    async def try_places() -> None:
        places = _Places()
        async with places.taken(LARGEST_BODY):
            async with places.taken(LARGEST_BODY):
                with pytest.raises(_RefusedRequest, match="too many batches"):
                    await places.taken(1).__aenter__()
            async with AsyncExitStack() as taken:
                for _ in range(AT_ONCE - 1):
                    await taken.enter_async_context(places.taken(1))
                with pytest.raises(_RefusedRequest, match="too many batches"):
                    await places.taken(1).__aenter__()

    asyncio.run(try_places())


def test_a_large_resource_is_not_stored_for_each_of_many_scopes(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of scopes whose resources are together too large the later spans are rejected, and the answer says why."""
    monkeypatch.setattr("assaymark.applications.traces.receiving.LARGEST_SOURCES", 2500)
    made = request(resource={"text": "a" * 1000})
    made["resourceSpans"][0]["scopeSpans"] = [{"scope": {"name": f"{at}"}, "spans": [span(at)]} for at in range(1, 5)]
    with receiver.client as client:
        partial = client.post("/v1/traces", content=json.dumps(made), headers=JSON).json()["partialSuccess"]
    assert partial["rejectedSpans"] == "2"
    assert "resources and scopes" in partial["errorMessage"]
    assert len(stored(receiver)) == 2


def test_without_a_token_nothing_is_taken(receiver: Receiver) -> None:
    """No token, a wrong one and a removed one are refused."""
    body = json.dumps(request(span(1)))
    for each in ("", "Bearer wrong", "Basic eDp5"):
        headers = {**JSON, "authorization": each}
        answer = httpx.post(f"{receiver.url}/v1/traces", content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, 16)
    TraceLog(receiver.store).add_token("bot", replacing=True)
    assert receiver.send(span(1)).status_code == 401


def test_a_busy_store_is_tried_again(receiver: Receiver, tmp_path: Path) -> None:
    """While another process writes, the answer is 503 with Retry-After, and nothing is stored; later it is."""
    other = sqlite3.connect(tmp_path / "traces.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    answer = receiver.send(span(1))
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (503, "1", 14)
    other.execute("ROLLBACK")
    other.close()
    assert receiver.send(span(1)).status_code == 200
    assert len(stored(receiver)) == 1


def test_projects_do_not_share_traces(receiver: Receiver) -> None:
    """The same ids in two projects are two traces, and neither list has the other's."""
    other_token = TraceLog(receiver.store).add_project("other")
    receiver.send(span(1, name="mine"))
    with httpx.Client(base_url=receiver.url, headers={"authorization": f"Bearer {other_token}"}) as client:
        client.post("/v1/traces", content=json.dumps(request(span(1, name="theirs"))), headers=JSON)
    other = TraceLog(receiver.store).project_id("other")
    for project, name in ((receiver.project, "mine"), (other, "theirs")):
        page = TraceLog(receiver.store).traces(project, TraceFilter())
        assert [trace.name for trace in page.traces] == [name]
        result = TraceLog(receiver.store).traces(project, TraceFilter(text="theirs")).traces
        assert [trace.name for trace in result] == (["theirs"] if name == "theirs" else [])


def test_broken_clocks_are_kept_and_listed_by_arrival(receiver: Receiver) -> None:
    """A start at 0, in the far future or after its end is stored as it is; the list has the trace at its arrival."""
    clocks = [(0, 5), (2**64 - 1, 2**64 - 1), (receiver.project + 10**18, 10**18)]
    for number, (start, end) in enumerate(clocks, 1):
        made = {**span(1, trace=f"{number:032x}"), "startTimeUnixNano": str(start), "endTimeUnixNano": str(end)}
        assert receiver.send(made).json() == {}
    rows = TraceLog(receiver.store).traces(receiver.project, TraceFilter()).traces
    assert len(rows) == 3
    assert {row.started for row in rows} == {0, 2**63 - 1, receiver.project + 10**18}
    assert all(abs(row.at / 1e9 - row.received) < 2 for row in rows if row.started in {0, 2**63 - 1})


def test_two_senders_of_one_trace_at_once(receiver: Receiver) -> None:
    """Batches of one trace that arrive together are all counted in its row."""

    def send(start: int) -> None:
        receiver.send(*(span(start + at) for at in range(20)))

    threads = [threading.Thread(target=send, args=(1 + 20 * at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert TraceLog(receiver.store).trace(receiver.project, bytes.fromhex(TRACE)).n_spans == 120


def log_record(**attributes: Any) -> dict[str, Any]:
    """Return a request with one log record as OTLP's JSON."""
    fields: dict[str, Any] = {
        name: attributes.pop(name) for name in ("traceId", "spanId", "eventName") if name in attributes
    }
    record: dict[str, Any] = {"timeUnixNano": "5", "attributes": pairs(attributes), **fields}
    scopes = [{"logRecords": [record]}]
    return {"resourceLogs": [{"scopeLogs": scopes}]}


def test_results_of_evaluations(receiver: Receiver) -> None:
    """`gen_ai.evaluation.result` is stored once, on its span or its response; other log records are rejected."""
    receiver.send(span(1, attributes={"gen_ai.response.id": "r-1"}))
    event: dict[str, Any] = {"eventName": "gen_ai.evaluation.result", "gen_ai.evaluation.name": "faithful"}
    place = {"traceId": TRACE, "spanId": f"{1:016x}"}
    on_span = log_record(**(event | place | {"gen_ai.evaluation.score.value": 0.5}))
    on_response = log_record(**(event | {"gen_ai.response.id": "r-1", "gen_ai.evaluation.score.label": "yes"}))
    other = log_record(traceId=TRACE, spanId=f"{1:016x}", message="hello")
    with receiver.client as client:
        for body in (on_span, on_span, on_response):
            assert client.post("/v1/logs", content=json.dumps(body), headers=JSON).json() == {}
        partial = client.post("/v1/logs", content=json.dumps(other), headers=JSON).json()["partialSuccess"]
    assert partial["rejectedLogRecords"] == "1"
    scores = TraceLog(receiver.store).scores(receiver.project, bytes.fromhex(TRACE))
    assert {(score.name, score.value, score.label) for score in scores} == {
        ("faithful", 0.5, None),
        ("faithful", None, "yes"),
    }
    assert len(scores) == 2


def test_the_official_exporter_delivers(receiver: Receiver) -> None:
    """OpenTelemetry's own SDK and exporter send spans that arrive whole."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    headers = {"authorization": f"Bearer {receiver.token}"}
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces", headers=headers)))
    tracer = provider.get_tracer("tests")
    with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner"):
        trace_id = outer.get_span_context().trace_id
    provider.force_flush()
    provider.shutdown()
    assert [row.name for row in stored(receiver, f"{trace_id:032x}")] == ["outer", "inner"]


def test_the_official_exporter_tries_again(receiver: Receiver, tmp_path: Path) -> None:
    """While the store is busy OpenTelemetry's exporter waits as it is told, and then delivers one copy."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    headers = {"authorization": f"Bearer {receiver.token}"}
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{receiver.url}/v1/traces", headers=headers)))
    with provider.get_tracer("tests").start_as_current_span("patient") as patient:
        trace_id = patient.get_span_context().trace_id
    other = sqlite3.connect(tmp_path / "traces.sqlite", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(3, lambda: other.execute("ROLLBACK"))  # longer than the receiver waits
    release.start()
    try:
        provider.force_flush()
        assert release.finished.is_set()
    finally:
        release.join()
        provider.shutdown()
        other.close()
    assert [(row.name, row.n_conflicts) for row in stored(receiver, f"{trace_id:032x}")] == [("patient", 0)]


def test_a_flipped_byte_of_a_span_is_found(receiver: Receiver, tmp_path: Path) -> None:
    """`verify` reports a span whose bytes changed, and its page says so instead of showing them."""
    receiver.send(span(1, attributes={"input.value": "plain"}))
    assert receiver.store.verify() == []
    with sqlite3.connect(tmp_path / "traces.sqlite") as connection:
        ((body,),) = connection.execute("SELECT body FROM spans").fetchall()
        connection.execute("UPDATE spans SET body = ?", (body[:-1] + bytes([body[-1] ^ 1]),))
    connection.close()
    (problem,) = receiver.store.verify()
    assert f"{1:016x}" in str(problem)
    with receiver.client as client:
        assert client.get(f"/trace/{TRACE}.json").status_code == 503


def test_a_protobuf_of_nothing_known(receiver: Receiver) -> None:
    """Fields of a later version are ignored in protobuf too."""
    body = ExportTraceServiceRequest().SerializeToString() + b"\xfa\x3f\x03new"  # field 1023
    with receiver.client as client:
        assert client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200


def test_a_long_text_of_wide_characters_is_cut_for_the_index(url: str) -> None:
    """A session, a response or a score's name of 1,000 characters of four bytes each is stored, on either database."""
    generator = random.Random(1)  # of random characters, since PostgreSQL compresses others
    texts = ["".join(chr(generator.randrange(0x10000, 0x1FFFF)) for _ in range(1000)) for _ in range(3)]
    with receiving(url) as receiver:
        attributes = {"session.id": texts[0], "gen_ai.response.id": texts[1]}
        assert receiver.send(span(1, attributes=attributes)).status_code == 200
        score = TraceScore(b"d" * 16, bytes.fromhex(TRACE), None, None, texts[2], 1.0, None, None, None, 1)
        TraceLog(receiver.store).add_scores(receiver.project, [score])
        row = TraceLog(receiver.store).trace(receiver.project, bytes.fromhex(TRACE))
        assert row.session == texts[0][:600]
        assert [each.name for each in TraceLog(receiver.store).scores(receiver.project, bytes.fromhex(TRACE))] == [
            texts[2][:600]
        ]
