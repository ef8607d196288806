"""The progress line of a run."""

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
