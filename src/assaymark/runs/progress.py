"""Progress of a run: tokens, the share of them that sharing prefixes saves, rate and time left.

On a terminal it is a progress bar; elsewhere (a log file, CI) a line every 15 seconds.
"""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from assaymark.cli.output import echo

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from assaymark.records import Progress
    from assaymark.runs.execute import RunProgress

LINE_EVERY_SECONDS = 15.0


def summary_of(progress: "RunProgress") -> str:
    """Return one line: what is done, the share of shared tokens, the rate and the time left."""
    model = progress.model
    before = f", {progress.n_stored:,} more already stored" if progress.n_stored else ""
    return (_counted_in_tokens(model) if model.n_tokens_asked else _counted_in_outputs(model)) + before


def _counted_in_tokens(model: "Progress") -> str:
    """Return one line about a local model, whose tokens are counted; lengths of texts are not known beforehand."""
    saved = 1.0 - model.n_tokens_distinct / model.n_tokens_asked
    rate = model.n_tokens_done / model.seconds if model.seconds > 0 else 0.0
    left = model.seconds_left
    if left is None and rate:
        left = ((model.n_tokens_distinct - model.n_tokens_done) / rate,) * 2
    parts = [
        f"{model.n_outputs_done:,} of {model.n_outputs:,} outputs",
        f"{model.n_tokens_done:,} of {'about ' if model.seconds_left else ''}{model.n_tokens_distinct:,} tokens",
        f"{saved:.0%} shared",
    ]
    if model.n_from_cache:
        parts.append(f"{model.n_from_cache:,} from the cache")
    if rate:
        parts.append(f"{rate:,.0f} tokens/s")
    if left is not None:
        low, high = map(clock, left)
        parts.append(f"{low} left" if low == high or left[1] < 1.2 * left[0] else f"{low} to {high} left")
    return ", ".join(parts)


def _counted_in_outputs(model: "Progress") -> str:
    """Return one line about a server, whose tokens are not counted."""
    parts = [f"{model.n_outputs_done:,} of {model.n_outputs:,} outputs"]
    if model.n_from_cache:
        parts.append(f"{model.n_from_cache:,} from the cache")
    if model.seconds > 0 and model.n_outputs_done:
        rate = model.n_outputs_done / model.seconds
        parts.append(f"{rate:,.1f} outputs/s, {clock((model.n_outputs - model.n_outputs_done) / rate)} left")
    return ", ".join([*parts, *([model.note] if model.note else [])])


def clock(seconds: float) -> str:
    """Return a duration for people: 42s, 3:07, 2:05:00."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def title_of(progress: "RunProgress") -> str:
    """Return the names of the tasks being evaluated, shortened."""
    names = progress.tasks
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return f"[{progress.chunk}/{progress.n_chunks}] {title}" if progress.n_chunks > 1 else title


class ProgressLine:
    """Shows a run's progress on stderr: a context manager to pass as `observe`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.is_terminal = sys.stderr.isatty()
        self._bar: Bar | None = None
        self._task: TaskID
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if not self.quiet and self.is_terminal:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[text]}"))
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("starting", total=1.0, text="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: "RunProgress") -> None:
        """Show the progress."""
        if self.quiet:
            return
        if self._bar is not None:
            model = progress.model
            done = model.n_tokens_done / max(model.n_tokens_distinct, 1)
            if not model.n_tokens_asked:
                done = model.n_outputs_done / max(model.n_outputs, 1)
            self._bar.update(self._task, completed=done, description=title_of(progress), text=summary_of(progress))
        elif time.monotonic() - self._last_line >= LINE_EVERY_SECONDS:
            self._last_line = time.monotonic()
            echo(f"{title_of(progress)}: {summary_of(progress)}", err=True)
