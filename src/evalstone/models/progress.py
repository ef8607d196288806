"""How far a model is with what it was asked: a local one told in tokens, one behind a server in answers."""

import time
from collections.abc import Callable
from dataclasses import replace

from evalstone.engine.spans import WindowReport
from evalstone.records import Output, Progress

ProgressObserver = Callable[[Progress], None]


def _with_one_more(now: Progress, output: Output) -> Progress:
    """Return the counts after one more output."""
    n_cached = now.n_from_cache + output.from_cache
    return replace(now, n_outputs_done=now.n_outputs_done + 1, n_from_cache=n_cached)


class AnswerTally:
    """How far a server has come; `note` says how it goes in a few words."""

    def __init__(self, n_outputs: int, observe: ProgressObserver | None, note: Callable[[], str]) -> None:
        self._observe = observe
        self._note = note
        self._started = time.perf_counter()
        self._now = Progress(0, n_outputs, 0, 0, 0)

    def done(self, output: Output) -> None:
        """Count one output."""
        self._now = _with_one_more(self._now, output)
        self.tell()

    def tell(self) -> None:
        """Tell the observer how far it is; also while no answer comes."""
        if self._observe is not None:
            seconds = time.perf_counter() - self._started
            self._observe(replace(self._now, seconds=seconds, note=self._note()))


class ProgressTally:
    """How far an answer has come, told to the observer after each window.

    Until all pieces are read, the tokens of those to come are taken to be as many per output as of those known, so
    that a progress bar can speak of time left; at the end the counts are exact.
    """

    def __init__(self, n_outputs: int, observe: ProgressObserver | None) -> None:
        self._observe = observe
        self._started = time.perf_counter()
        self._n_read = 0
        self._pieces: list[tuple[int, int, int]] = []  # tokens asked, distinct and done of each piece
        self._now = Progress(0, n_outputs, 0, 0, 0)

    def read(self, n_outputs: int) -> None:
        """Count the outputs of a piece that begins now."""
        self._n_read += n_outputs

    def done(self, output: Output) -> None:
        """Count one output."""
        self._now = _with_one_more(self._now, output)
        if self._observe is not None and self._now.n_outputs_done == self._now.n_outputs:
            self._observe(replace(self._now, seconds=time.perf_counter() - self._started))

    def on_window(self) -> Callable[[WindowReport], None] | None:
        """Return what the engine is to call after each window of the piece that begins now.

        A piece may begin before the one before it is finished.
        """
        if self._observe is None:
            return None
        number = len(self._pieces)
        self._pieces.append((0, 0, 0))
        return lambda report: self._take(number, report)

    def _take(self, number: int, report: WindowReport) -> None:
        self._pieces[number] = (report.n_tokens, report.n_distinct, report.n_distinct_done)
        asked, distinct, done = (sum(counts) for counts in zip(*self._pieces, strict=True))
        share_read = self._n_read / self._now.n_outputs
        self._now = replace(
            self._now,
            n_tokens_asked=round(asked / share_read),
            n_tokens_distinct=round(distinct / share_read),
            n_tokens_done=done,
            seconds=time.perf_counter() - self._started,
        )
        if self._observe is not None:
            self._observe(self._now)
