"""Check a server before the first request: whether it responds, accepts the key, and which models it lists."""

import time

import httpx

from assaymark.errors import ModelUnavailable
from assaymark.models.server.failures import HttpFailure
from assaymark.models.server.http_calls import LONGEST_CONNECT_S, Server
from assaymark.models.server.response_limits import ResponseBody, parse_json

LONGEST_NAME = 100  # characters of a model's name that are shown


def find_server(server: Server, base: str) -> tuple[str, ...]:
    """Return the models that a server lists; empty if it has no list, which is not an error.

    Raises: ModelUnavailable if there is no response, or the key is refused.
    """
    try:
        with server.keys.in_logs():
            status, body = _get(server, f"{base}/models")
    except (httpx.ReadTimeout, HttpFailure):  # it exists but is busy, or its list is malformed
        return ()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = server.keys.text(str(error)) or type(error).__name__
        raise ModelUnavailable(f"no server answers at {base} ({reason}); start it, or correct base_url") from None
    if status in (401, 403):
        said = " ".join(server.keys.text(body.text).split())[:200]
        has_key = "the key in OPENAI_API_KEY is not accepted" if server.keys.keys else "OPENAI_API_KEY is not set"
        raise ModelUnavailable(f"{base} refuses access ({status}): {has_key}; its message: {said}")
    if not 200 <= status < 300:
        return ()
    try:
        listed, _ = parse_json(body.content, server.limits, server.keys)
        models = listed["data"] if isinstance(listed, dict) else ()
        return tuple(str(each["id"])[:LONGEST_NAME] for each in models)
    except (HttpFailure, KeyError, TypeError):
        return ()


def _get(server: Server, url: str) -> tuple[int, ResponseBody]:
    """Return status and body of a page, read within the server's limits and slightly more than the time limit.

    Raises: HttpFailure for a body over a limit; httpx's errors.
    """
    seconds = min(server.timeout_s, LONGEST_CONNECT_S)
    deadline = time.monotonic() + seconds  # httpx's own timeout applies to each read
    with (
        httpx.Client(headers=server.sent_headers, timeout=seconds, verify=server.verify) as client,
        client.stream("GET", url) as answer,
    ):
        body = ResponseBody(server.headers_of(answer), server.limits, for_quoting=not answer.is_success)
        for chunk in answer.iter_raw():
            if not body.add(chunk):
                break
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout("the list of models took too long")
        return answer.status_code, body
