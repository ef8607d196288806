"""The progress line of a run."""

import time
from dataclasses import replace

import numpy as np
import pytest

from assaymark.engine.generation import GenerationPrompt, GenerationReport
from assaymark.engine.spans import WindowReport
from assaymark.models.local.generation import as_window
from assaymark.models.progress import ProgressTally
from assaymark.records import Progress
from assaymark.runs.execute import RunProgress
from assaymark.runs.progress import summary_of, title_of


def test_outputs_of_an_earlier_attempt_are_counted() -> None:
    """A continued run counts the remaining outputs, and states how many are already stored."""
    now = RunProgress(("a", "b", "c"), 1, 1, Progress(4, 178, 70_516, 50_000, 25_000, seconds=10.0), n_stored=22)
    line = summary_of(now)
    assert line.startswith("4 of 178 outputs, ")
    assert line.endswith(", 22 more already stored")
    assert title_of(now) == "a and 2 more"
    fresh = RunProgress(("a",), 1, 1, now.model)
    assert "already stored" not in summary_of(fresh)


def test_the_time_left_of_texts_is_a_range() -> None:
    """How long they become is known only by those that have ended and by the limit; what is certain is one number."""
    open_ = Progress(10, 40, 9_000, 8_100, 4_000, seconds=60.0, seconds_left=(60.0, 130.0))
    line = "10 of 40 outputs, 4,000 of about 8,100 tokens, 10% shared, 67 tokens/s, "
    assert summary_of(RunProgress(("t",), 1, 1, open_)) == line + "1:00 to 2:10 left"
    assert summary_of(RunProgress(("t",), 1, 1, replace(open_, seconds_left=(60.0, 66.0)))) == line + "1:00 left"


def test_the_time_left_of_texts_follows_from_their_ends_and_their_limit() -> None:
    """Prompts count for nothing in it; before the first end only the limit is known."""
    prompts = [GenerationPrompt(np.arange(50, dtype=np.int32), 100) for _ in range(4)]
    seen: list[WindowReport] = []
    on_step = as_window(seen.append, prompts)
    for n_generated, n_done, seconds in ((4, 0, 10.0), (44, 0, 14.0), (84, 2, 18.0)):
        on_step(GenerationReport(200, 200, n_generated, n_generated, n_done, 4, seconds))
    assert [each.seconds_left for each in seen] == [None, (35.6, 35.6), (pytest.approx(8.4), pytest.approx(20.0))]


def test_a_step_before_all_tokens_is_shown_with_its_seconds() -> None:
    """While a model is loaded there is a line that says so; the rate of tokens leaves that time out."""
    seen: list[Progress] = []
    tally = ProgressTally(8, seen.append)
    with tally.step("starting vLLM"):
        while not seen:
            time.sleep(0.01)
    assert "0 of 8 outputs, starting vLLM, 1 s" in summary_of(RunProgress(("t",), 1, 1, seen[0]))
    tally.read(8)
    observe = tally.on_window()
    assert observe is not None
    observe(WindowReport(40, 80, 30, 60, 1.0))
    assert seen[-1].note == ""
    assert seen[-1].seconds < 1.0
