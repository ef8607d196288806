"""Secrets are removed before anything is stored: under their names always, by patterns where these are configured."""

import json
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from assaymark.applications.traces.redaction import REDACTED, Redaction, redaction_of
from assaymark.errors import UsageError
from tests.applications.traces.sending import TRACE, Receiver, receiving, span

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
    assert (step["input_tokens"], step["session"], step["error"]) == (5, "s1", f"refused {REDACTED}")
    assert step["attributes"]["input.value"] == f"use {REDACTED} and write to {REDACTED} about {REDACTED}"
    assert step["attributes"]["list"] == [REDACTED, "fine"]


def test_counts_of_tokens_are_no_secrets() -> None:
    """Attributes that only sound like secrets keep their values."""
    redaction = Redaction()
    for key in ("gen_ai.usage.input_tokens", "llm.token_count.prompt", "max_tokens", "gen_ai.token.type", "secretary",
                "session.id", "author"):  # fmt: skip
        assert not redaction.is_secret(key), key
    for key in ("password", "db.Password", "API_KEY", "x-api-key", "http.request.header.set-cookie", "client_secret",
                "aws.secret", "access_token", "auth.token_auth_token"):  # fmt: skip
        assert redaction.is_secret(key), key


@pytest.mark.slow
def test_a_pattern_that_is_too_slow_costs_the_text() -> None:
    """A pattern that would run for hours removes the text it was tried on, within its time limit."""
    redaction = redaction_of([], [r"(a+)+b"])
    assert redaction.text("a" * 60).startswith(REDACTED)
    assert redaction.text("aab c") == f"{REDACTED} c"


def test_patterns_that_cannot_be_used() -> None:
    """A pattern that is none, or matches everything, is refused before anything is served."""
    for pattern in ("(", "x*"):
        with pytest.raises(UsageError, match="--redact"):
            redaction_of([], [pattern])


def test_values_that_would_hold_the_scanner_up() -> None:
    """Texts made to be slow to scan are scanned in time."""
    redaction = redaction_of([], ["email", "card", "phone", "ip"])
    for text in (
        '"' * 100_000,
        '"api_key"' + " " * 100_000,
        "a." * 50_000,
        "1 " * 50_000,
        '"api_key": "' + "\\" * 99_999,
    ):
        redaction.text(text)
