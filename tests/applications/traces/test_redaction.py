"""Secrets are removed before anything is stored: under their names always, by patterns where these are configured."""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from assaymark.applications.traces.otlp import traces_request
from assaymark.applications.traces.receiving import receive_spans
from assaymark.applications.traces.redaction import BY_NAME, MOST_NAMES, REDACTED, Redaction, redaction_of
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.errors import UsageError
from assaymark.store import Store
from tests.applications.traces.secret_examples import PASSWORDS, harmless_attributes, secret_spans
from tests.applications.traces.sending import TRACE, Receiver, receiving, request, span, value

KEY = "sk-proj-abcdefghijklmnop1234567890"


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Receiver]:
    """Return a receiver that removes mail addresses, tickets and the attribute `customer`."""
    with receiving(tmp_path / "strict.sqlite", redaction_of(["Customer"], ["email", r"TICKET-\d+"])) as result:
        yield result


def everything(path: Path) -> str:
    """Return all that the store's file holds, unpacked."""
    pieces = [path.read_bytes().decode("latin-1")]
    with sqlite3.connect(path) as connection:
        for table in ("spans", "span_sources"):
            for (body,) in connection.execute(f"SELECT body FROM {table}"):
                pieces.append((zlib.decompress(body[1:]) if body[:1] == b"\x01" else body[1:]).decode("latin-1"))
        pieces += [str(row) for row in connection.execute("SELECT * FROM span_search")]
    return "\n".join(pieces)


def test_secrets_are_nowhere(strict: Receiver, tmp_path: Path) -> None:
    """Names of secrets, keys of providers in any text, JSON inside texts, and configured patterns leave no trace."""
    attributes = {
        "http.request.header.authorization": "Bearer top-secret-1",
        "db.password": "top-secret-2",
        "llm.invocation_parameters": json.dumps({"model": "gpt-4o", "api_key": "top-secret-3", "max_tokens": 5}),
        "input.value": f"use {KEY} and write to ada@example.org about TICKET-123",
        "customer": "top-secret-4",
        "list": ["bob@example.org", "fine"],
        "gen_ai.usage.input_tokens": 5,
        "session.id": "s1",
    }
    event = {"name": "exception", "timeUnixNano": "1", "attributes": [
        {"key": "exception.message", "value": {"stringValue": f"401 for {KEY}"}}]}  # fmt: skip
    made = span(1, name="ask eve@example.org", attributes=attributes, events=[event],
                status={"code": 2, "message": f"refused {KEY}"})  # fmt: skip
    nested = {"kvlistValue": {"values": [{"key": "cookie", "value": {"stringValue": "top-secret-5"}}]}}
    made["attributes"].append({"key": "headers", "value": nested})
    answer = strict.send(made, resource={"deployment.api_key": "top-secret-6", "owner": "eve@example.org"})
    assert answer.json() == {}
    held = everything(tmp_path / "strict.sqlite")
    for secret in ("top-secret", KEY, "ada@", "bob@", "eve@", "TICKET-123"):
        assert secret not in held, secret
    with strict.client as client:
        step = client.get(f"/trace/{TRACE}.json").json()["step"]
    assert step["model"] == "gpt-4o"
    assert (step["input_tokens"], step["session"], step["error"]) == (5, "s1", "refused [redacted: provider's key]")
    assert step["attributes"]["input.value"] == (
        "use [redacted: provider's key] and write to [redacted: email] about [redacted: by a pattern]"
    )
    assert step["attributes"]["list"] == ["[redacted: email]", "fine"]
    assert step["attributes"]["db.password"] == "[redacted: secret by its name]"
    parameters = json.loads(step["attributes"]["llm.invocation_parameters"])
    assert parameters == {"model": "gpt-4o", "api_key": "[redacted: secret by its name]", "max_tokens": 5}


def test_two_hundred_secrets_are_in_no_file(tmp_path: Path) -> None:
    """None of 200 secrets is in the store: names, shapes, JSON in JSON, events, keys, bytes, resources, scopes."""
    examples = list(secret_spans())
    assert len(examples) == 200
    with Store.open(str(tmp_path / "traces.sqlite")) as store:
        log = TraceLog(store)
        log.add_project("bot")
        for _, sent, resource in examples:
            body = json.dumps(request(sent, resource=resource)).encode()
            assert receive_spans(log, log.project_id("bot"), traces_request(body, "application/json")).n_stored == 1
    held = everything(tmp_path / "traces.sqlite")
    assert "AKIA" not in held
    assert [secret for secret, _, _ in examples if secret in held] == []


def test_secrets_of_sources_are_in_no_file(tmp_path: Path) -> None:
    """The name, version and addresses of a scope, a log's attributes and fields nobody knows have no secret either."""
    made = request(span(1), resource={"a": 1})
    scope = made["resourceSpans"][0]["scopeSpans"][0]
    scope["scope"] = {"name": KEY, "version": f"1 {KEY}", "attributes": [{"key": "token", "value": value("hunter2x")}]}
    scope["schemaUrl"] = made["resourceSpans"][0]["schemaUrl"] = "https://ada:hunter2x@a.example"
    parsed = traces_request(json.dumps(made).encode(), "application/json")
    stored = parsed.resource_spans[0].scope_spans[0].spans[0]
    stored.MergeFromString(b"\xa2\x06\x08hunter2x")  # field 100
    assert b"hunter2x" in stored.SerializeToString()
    with Store.open(str(tmp_path / "traces.sqlite")) as store:
        log = TraceLog(store)
        log.add_project("bot")
        receive_spans(log, log.project_id("bot"), parsed)
    held = everything(tmp_path / "traces.sqlite")
    assert KEY not in held
    assert "hunter2x" not in held


def test_harmless_values_stay() -> None:
    """Of 2,000 counts, hashes, ids, images, tool schemas, code and sentences fewer than 5 lose anything."""
    changed = []
    examples = list(harmless_attributes())
    assert len(examples) == 2000
    for name, plain in examples:
        pair = json_format.ParseDict({"key": name, "value": value(plain)}, KeyValue())
        before = pair.SerializeToString()
        Redaction().attributes([pair])
        changed += [(name, plain)] if pair.SerializeToString() != before else []
    assert len(changed) < 5, changed


def test_what_was_removed_is_named_in_place() -> None:
    """A text stays what it was around a secret, and JSON stays JSON, however deep it is in other JSON."""
    redaction = redaction_of(["Customer"], [])
    assert redaction.text("get https://ada:hunter2@a.example/x now") == (
        "get https://ada:[redacted: password of a URL]@a.example/x now"
    )
    inner = json.dumps({"password": PASSWORDS[0], "n": 5, "secrets": [1, {"a": "b"}], "customer": "Ada"})
    clean = json.loads(json.loads(redaction.text(json.dumps({"arguments": inner})))["arguments"])
    assert clean == {"password": BY_NAME, "n": 5, "secrets": BY_NAME, "customer": BY_NAME}
    assert redaction.text(redaction.text(inner)) == redaction.text(inner)
    too_many = f"{REDACTED}: a text with too many names of secrets]"
    assert redaction.text("key=1 " * (MOST_NAMES + 1)) == too_many
    assert redaction.text("key " * (MOST_NAMES + 1)) == "key " * (MOST_NAMES + 1)
    of_request = redaction.of_request()
    assert of_request.text("password=x1 " * (MOST_NAMES // 2)).startswith("password=[redacted")
    assert [of_request.text(text) for text in ("password=x1", "a river")] == [too_many, "a river"]


def test_counts_of_tokens_are_no_secrets() -> None:
    """Attributes that only sound like secrets keep their values."""
    redaction = Redaction()
    for key in ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "max_tokens", "gen_ai.token.type", "secretary",
                "session.id", "author"):  # fmt: skip
        assert not redaction.kind_of(key), key
    for key in ("password", "db.Password", "API_KEY", "x-api-key", "http.request.header.set-cookie", "client_secret",
                "aws.secret", "access_token", "auth.token_auth_token"):  # fmt: skip
        assert redaction.kind_of(key), key


@pytest.mark.slow
def test_a_pattern_that_is_too_slow_costs_the_text() -> None:
    """A pattern that would run for hours removes the text it was tried on, within its time limit."""
    redaction = redaction_of([], [r"(a+)+b"])
    assert redaction.text("a" * 60).startswith(REDACTED)
    assert redaction.text("aab c") == "[redacted: by a pattern] c"


def test_patterns_that_cannot_be_used() -> None:
    """A pattern that is none, or matches everything, is refused before anything is served."""
    for pattern in ("(", "x*"):
        with pytest.raises(UsageError, match="--redact"):
            redaction_of([], [pattern])
    with pytest.raises(UsageError, match="--redact_key is empty"):
        redaction_of([" "], [])


def test_values_that_would_hold_the_scanner_up() -> None:
    """Texts made to be slow to scan are scanned in time."""
    redaction = redaction_of([], ["email", "card", "phone", "ip"])
    for text in (
        '"' * 100_000,
        '"api_key"' + " " * 100_000,
        "a." * 50_000,
        "1 " * 50_000,
        '"api_key": "' + "\\" * 99_999,
        '"logprob": 1, "token": "' * 5_000,
        "<password>" * 10_000,
        "-----BEGIN PRIVATE KEY-----" * 4_000,
        "postgres://a:b" * 7_000 + "@x",
        "a" * 1_000_000 + ".webhook.office.com/",  # the following were quadratic: "cookie: " took over 80 s
        "ey-" * 1_000_000 + ".ey12345678",
        "cookie: " * 200_000,
        '("password", "abcde"), ' * 50_000,
    ):
        redaction.text(text)
