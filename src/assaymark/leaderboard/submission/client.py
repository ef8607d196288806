"""Sending a submission to a leaderboard's server, as `assaymark submit` does."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from assaymark.errors import UsageError
from assaymark.leaderboard.submission.choices import SubmissionProblem
from assaymark.records import JsonValue

SECONDS = 60.0
LARGEST_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class Sent:
    """The server's answer: the address of the submission, or why it was not accepted."""

    url: str
    problems: tuple[SubmissionProblem, ...]
    passed: tuple[str, ...] = ()


def send(server: str, path: str, token: str, values: Mapping[str, object]) -> Sent:
    """Send values to a path of a leaderboard's server.

    Raises: UsageError for an address that is none, a server that cannot be reached or does not take submissions, and
        a token that it does not accept.
    """
    address = urlsplit(server)
    is_local = address.hostname in {"localhost", "127.0.0.1", "::1"}
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise UsageError(f"'{server}' is not an address of a leaderboard; expected https://HOST")
    if address.scheme == "http" and not is_local:
        raise UsageError(f"'{server}' is not encrypted, and the token would be readable on the way; use https://")
    root = f"{address.scheme}://{address.netloc}"
    try:
        json.dumps(values, allow_nan=False)
    except ValueError:
        raise UsageError("what is sent has a number that is NaN or infinite; correct the results file") from None
    headers = {"authorization": f"Bearer {token}"}
    try:  # no redirect is followed, which would send the token to another server
        with httpx.stream("POST", root + path, json=dict(values), headers=headers, timeout=SECONDS) as response:
            answer = _object(next(response.iter_bytes(LARGEST_ANSWER), b""))
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:  # or a proxy that needs a package
        raise UsageError(f"{root} cannot be reached: {error}; check the address") from error
    if not response.is_success and (response.status_code != 422 or "problems" not in answer):
        cause = answer.get("error") or response.reason_phrase
        raise UsageError(f"{root} refused with {response.status_code}: {cause}")
    listed, passed = answer.get("problems", []), answer.get("passed", [])
    keys = ("field", "what", "remedy")
    if (
        not isinstance(listed, list)
        or not all(isinstance(problem, Mapping) and set(keys) <= problem.keys() for problem in listed)
        or not isinstance(passed, list)
    ):
        raise UsageError(f"{root} answered in a form that is not a leaderboard's of this version; check the address")
    problems = [SubmissionProblem(*(str(problem[key]) for key in keys)) for problem in listed]
    url = str(answer.get("url", ""))
    return Sent(root + url if url else "", tuple(problems), tuple(map(str, passed)))


def _object(content: bytes) -> dict[str, JsonValue]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
