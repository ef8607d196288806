"""Calls of scorers, which are user code: bounded in time, with checked results."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import replace

from assaymark.applications.calls import LoopThread
from assaymark.applications.scorer import Answered, Result, Scorer
from assaymark.applications.scorers.plain import PlainScorer
from assaymark.limits.characters import exception_text


class WrongResult(Exception):
    """A scorer returned an invalid result."""


class ScorerCalls:
    """Calls scorers, each within a time limit. Units: seconds."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._loop: LoopThread | None = None

    def results(self, scorer: Scorer, answered: Answered) -> list[Result]:
        """Return a scorer's results for one answer. Raises: the scorer's errors; TimeoutError; WrongResult."""
        if isinstance(scorer, PlainScorer) and (now := _without_exit(lambda: scorer.score_now(answered))) is not None:
            return [checked_result(each) for each in now]
        if self._loop is None:
            self._loop = LoopThread()
        future = self._loop.start(_scored(scorer, answered))
        try:
            results = future.result(self._timeout_s)
        except FutureTimeoutError:
            future.cancel()
            if self._loop.is_blocked():
                self._loop = None
            raise
        return [checked_result(each) for each in results]

    def why(self, name: str, error: Exception) -> str:
        """Return in one line why a scorer gave no result."""
        if isinstance(error, FutureTimeoutError | TimeoutError):
            return f"scorer {name} did not return within {self._timeout_s:g} s"
        if isinstance(error, WrongResult):
            return f"scorer {name} {error}"
        return f"scorer {name} raised {exception_text(error)}"


async def _scored(scorer: Scorer, answered: Answered) -> Sequence[Result]:
    """Return a scorer's results. SystemExit would end the loop's thread, and with it every other call."""
    try:
        return await scorer.score(answered)
    except SystemExit as error:
        raise RuntimeError(f"exit({error.code!r}) was called") from None


def _without_exit(score: Callable[[], Sequence[Result] | None]) -> Sequence[Result] | None:
    try:
        return score()
    except SystemExit as error:
        raise RuntimeError(f"exit({error.code!r}) was called") from None


def checked_result(result: Result) -> Result:
    """Return a result after checking that its value is a number and its metadata is JSON. Raises: WrongResult."""
    if not isinstance(result, Result):
        raise WrongResult(f"returned {result!r:.80}; expected results")
    value = result.value
    if value is not None and not isinstance(value, int | float):
        raise WrongResult(f"returned the value {value!r:.80}; expected a number, or None")
    metadata = json.loads(json.dumps(dict(result.metadata), skipkeys=True, default=str)) if result.metadata else {}
    return replace(result, metadata=metadata)
