"""The consequences of each failure of a request: the table of failures, row by row."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from assaymark.models.server.failures import KeyHider, failure_of_answer, failure_of_transport, failure_within


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (429, {}, "slow down", ("RateLimited", False, True)),
        (429, {}, '{"error": {"code": "insufficient_quota"}}', ("ModelUnavailable", True, False)),
        (503, {"retry-after": "2"}, "", ("ServerFailed", False, True)),
        (503, {}, "", ("ServerFailed", True, True)),
        (500, {}, "", ("ServerFailed", True, True)),
        (408, {}, "", ("ServerFailed", True, True)),
        (400, {}, "bad temperature", ("RequestRefused", True, False)),
        (403, {}, "flagged", ("RequestRefused", True, False)),
        (400, {}, '{"error": {"code": "context_length_exceeded"}}', ("PromptTooLong", True, False)),
        (400, {}, "This model's maximum context length is 512 tokens", ("PromptTooLong", True, False)),
        (401, {}, "who are you", ("ModelUnavailable", True, False)),
        (404, {}, "", ("ModelUnavailable", True, False)),
        (301, {}, "", ("ModelUnavailable", True, False)),
        (307, {"location": "https://h/v1"}, "", ("ModelUnavailable", True, False)),
    ],
)
def test_a_status_decides_what_follows(
    status: int, headers: dict[str, str], body: str, expected: tuple[str, bool, bool]
) -> None:
    """Each status has its error, whether an attempt is spent, and whether it is retried."""
    result = failure_of_answer(status, headers, body)
    assert (result.error.__name__, result.was_accepted, result.may_retry) == expected
    assert str(status) in result.message
    assert headers.get("location", "") in result.message  # where a redirect leads


def test_a_refused_limit_of_tokens_names_the_argument() -> None:
    """Behind a proxy OpenAI's newer models refuse the older name of the limit."""
    body = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    assert "provider=openai" in failure_of_answer(400, {}, body).message
    assert "provider=openai" not in failure_of_answer(500, {}, body).message


def test_a_redirects_target_has_no_key() -> None:
    """A server may repeat the key in the address that it names."""
    result = failure_of_answer(307, {"location": "https://h/?key=sk-secret"}, "", KeyHider(("sk-secret",)))
    assert "https://h/?key=" in result.message
    assert "secret" not in result.message


def beside(**choice: object) -> dict[str, object]:
    """Return an answer whose only choice also has these fields."""
    return {"choices": [{"message": {"content": "1"}, "finish_reason": "stop", **choice}]}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (beside(finish_reason="error"), ("ServerFailed", True, True)),
        (beside(finish_reason="insufficient_system_resource"), ("ServerFailed", True, True)),
        (beside(finish_reason="network_error"), ("ServerFailed", True, True)),
        (beside(finish_reason="abort"), ("ServerFailed", True, True)),
        (beside(native_finish_reason="error"), ("ServerFailed", True, True)),
        (beside(finish_reason=None, error={"message": "upstream"}), ("ServerFailed", True, True)),
        (beside(finish_reason="odd", error="upstream"), ("ServerFailed", True, True)),
        ({**beside(finish_reason=None), "error": {"message": "upstream"}}, ("ServerFailed", True, True)),
        ({**beside(), "status": "failed"}, ("ServerFailed", True, True)),
        ({**beside(), "status": "cancelled"}, ("ServerFailed", True, True)),
        ({**beside(finish_reason=None), "status": "incomplete"}, ("ServerFailed", True, True)),
        ({**beside(finish_reason=None), "status": "in_progress"}, ("ServerFailed", True, True)),
        (beside(status="failed"), ("ServerFailed", True, True)),
        (
            {**beside(), "status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            ("AnswerWithheld", True, True),
        ),
        ({**beside(), "errors": [{"message": "upstream"}]}, ("ServerFailed", True, True)),
        ({**beside(), "success": False}, ("ServerFailed", True, True)),
        ({**beside(), "object": "error", "message": "upstream"}, ("ServerFailed", True, True)),
        ({**beside(), "error_code": 336501}, ("ServerFailed", True, True)),
        ({**beside(), "error_msg": "upstream"}, ("ServerFailed", True, True)),
        ({**beside(), "base_resp": {"status_code": 1002, "status_msg": "busy"}}, ("ServerFailed", True, True)),
        ({**beside(), "code": 502, "message": "upstream"}, ("ServerFailed", True, True)),
        (beside(error={"code": 502, "message": "lost"}), ("ServerFailed", True, True)),
        (beside(error={"code": 401, "message": "of the upstream"}), ("ServerFailed", True, True)),
        (beside(error={"code": 429, "message": "slow down"}), ("RateLimited", False, True)),
        (beside(message={"content": "", "error": "lost"}), ("ServerFailed", True, True)),
        ({**beside(), "error": {"message": "lost"}}, ("ServerFailed", True, True)),
        ({"error": {"type": "rate_limit_error", "message": "slow down"}}, ("RateLimited", False, True)),
        ({"error": {"code": "402", "message": "no credits"}}, ("ModelUnavailable", True, False)),
        ({"error": "lost"}, ("ServerFailed", True, True)),
        (beside(finish_reason="content_filter"), ("AnswerWithheld", True, True)),
        (beside(finish_reason="content_filter: RECITATION"), ("AnswerWithheld", True, True)),
        (beside(finish_reason="SAFETY"), ("AnswerWithheld", True, True)),
        (beside(finish_reason="sensitive"), ("AnswerWithheld", True, True)),
    ],
)
def test_an_accepted_request_may_report_a_failure(answer: object, expected: tuple[str, bool, bool]) -> None:
    """An error or a finish reason in an answer with status 200 decides as a status does."""
    failure = failure_within(answer)
    assert failure is not None
    assert (failure.error.__name__, failure.was_accepted, failure.may_retry) == expected


@pytest.mark.parametrize("reason", ["stop", "length", "eos_token", "stop_sequence", "tool_calls", "max_tokens", None])
def test_an_ordinary_end_is_no_failure(reason: str | None) -> None:
    """The finish reasons of whole and of truncated answers, and an error that is null, are none."""
    assert failure_within({**beside(finish_reason=reason, error=None), "error": None}) is None
    for fields in (
        {"status": "completed"}, {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"error": {}, "errors": [], "error_code": 0}, {"error": {"code": 0, "message": ""}}, {"code": 200},
        {"success": True, "object": "chat.completion"}, {"base_resp": {"status_code": 0, "status_msg": ""}},
    ):  # fmt: skip
        assert failure_within({**beside(finish_reason=reason), **fields}) is None


def test_the_servers_message_is_quoted_in_short() -> None:
    """The message of an error object is quoted, and a page of HTML is not."""
    assert failure_of_answer(500, {}, '{"error": {"message": "out of\\nmemory"}}').message.endswith(": out of memory")
    assert failure_of_answer(500, {}, '{"error": "busy"}').message.endswith(": busy")
    assert len(failure_of_answer(500, {}, "<html>" + "x" * 5000).message) < 400


def test_a_wait_is_read_as_number_or_date() -> None:
    """Retry-After is seconds or a date; any other value means no wait."""
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    waits = [failure_of_answer(429, {"retry-after": value}, "").retry_after_s for value in ("7", "0.5", moment, "soon")]
    assert waits[:2] == [7.0, 0.5]
    assert waits[2] == pytest.approx(30, abs=3)
    assert waits[3] is None


@pytest.mark.parametrize(
    ("error", "kind", "was_accepted"),
    [
        (httpx.ConnectError("refused"), "Unreachable", False),
        (httpx.ConnectTimeout("slow"), "Unreachable", False),
        (httpx.ReadTimeout("slow"), "TimedOut", True),
        (TimeoutError(), "TimedOut", True),
        (httpx.RemoteProtocolError("gone"), "ConnectionLost", True),
        (httpx.ReadError(""), "ConnectionLost", True),
    ],
)
def test_a_transport_error_decides_what_follows(error: httpx.TransportError, kind: str, was_accepted: bool) -> None:
    """A request that was never sent has spent no attempt; one whose answer was lost has."""
    result = failure_of_transport(error, 5.0)
    assert (result.error.__name__, result.was_accepted, result.may_retry) == (kind, was_accepted, True)
