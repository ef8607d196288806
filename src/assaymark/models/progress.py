"""Progress of a model through its requests: counted in tokens for a local model, in outputs for a server."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from assaymark.engine.spans import WindowReport
from assaymark.records import Output, Progress

ProgressObserver = Callable[[Progress], None]


def _with_one_more(now: Progress, output: Output) -> Progress:
    """Return the counts after one more output."""
    n_cached = now.n_from_cache + output.from_cache
    return replace(now, n_outputs_done=now.n_outputs_done + 1, n_from_cache=n_cached)


class AnswerTally:
    """Counts the outputs of a server; `note` returns a short text about its state."""

    def __init__(self, n_outputs: int, observe: ProgressObserver | None, note: Callable[[], str]) -> None:
        self._observe = observe
        self._note = note
        self._started = time.perf_counter()
        self._now = Progress(0, n_outputs, 0, 0, 0)

    def done(self, output: Output) -> None:
        """Count one output."""
        self._now = _with_one_more(self._now, output)
        self.report()

    def report(self) -> None:
        """Report the progress to the observer; also called while no output arrives."""
        if self._observe is not None:
            seconds = time.perf_counter() - self._started
            self._observe(replace(self._now, seconds=seconds, note=self._note()))


class ProgressTally:
    """Counts the tokens and outputs of a local model and reports them to the observer after each window.

    Until all pieces are read, the remaining ones are assumed to have as many tokens per output as those already read,
    so that a progress bar can show the time left; at the end the counts are exact.
    """

    def __init__(self, n_outputs: int, observe: ProgressObserver | None) -> None:
        self._observe = observe
        self._started = time.perf_counter()
        self._n_read = 0
        self._pieces: list[tuple[int, int, int]] = []  # requested, distinct and done tokens of each piece
        self._now = Progress(0, n_outputs, 0, 0, 0)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Report each second the duration of a step before all tokens, which their rate leaves out.

        An error of the observer, which runs in a thread meanwhile, is raised here afterwards.
        """
        started, ended = time.perf_counter(), threading.Event()
        raised: list[BaseException] = []

        def report() -> None:
            while self._observe is not None and not ended.wait(1.0):
                try:
                    self._observe(replace(self._now, note=f"{name}, {time.perf_counter() - started:.0f} s"))
                except BaseException as error:  # noqa: BLE001 - of another's code, for the caller
                    raised.append(error)
                    return

        reporting = threading.Thread(target=report, daemon=True)
        reporting.start()
        try:
            yield
        finally:
            ended.set()
            reporting.join()
            self._started += time.perf_counter() - started
        if raised:
            raise raised[0]

    def read(self, n_outputs: int) -> None:
        """Count the outputs of a piece that begins now."""
        self._n_read += n_outputs

    def done(self, output: Output) -> None:
        """Count one output."""
        self._now = _with_one_more(self._now, output)
        if self._observe is not None and self._now.n_outputs_done == self._now.n_outputs:
            self._observe(replace(self._now, seconds=time.perf_counter() - self._started))

    def on_window(self) -> Callable[[WindowReport], None] | None:
        """Return the callback for the engine to call after each window of the piece that begins now.

        A piece may begin before the previous one is finished.
        """
        if self._observe is None:
            return None
        number = len(self._pieces)
        self._pieces.append((0, 0, 0))
        return lambda report: self._take(number, report)

    def _take(self, number: int, report: WindowReport) -> None:
        self._pieces[number] = (report.n_tokens, report.n_distinct, report.n_distinct_done)
        requested, distinct, done = (sum(counts) for counts in zip(*self._pieces, strict=True))
        share_read = self._n_read / self._now.n_outputs
        seconds, left = time.perf_counter() - self._started, report.seconds_left
        if left is not None:  # pieces that are not read yet take as long as those that are
            low, high = ((seconds + each) / share_read - seconds for each in left)
            left = low, high
        self._now = replace(
            self._now,
            n_tokens_asked=round(requested / share_read),
            n_tokens_distinct=round(distinct / share_read),
            n_tokens_done=done,
            seconds=seconds,
            seconds_left=left,
        )
        if self._observe is not None:
            self._observe(self._now)
