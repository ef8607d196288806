"""The line about a run under way: what is done, what was known, and how long it may take."""

from evalstone.cli.progress import summary_of, title_of
from evalstone.records import Progress
from evalstone.runner.execute import RunProgress


def test_what_an_earlier_attempt_stored_is_said() -> None:
    """A run that goes on counts what is left to ask, and says how much was stored before."""
    now = RunProgress(("a", "b", "c"), 1, 1, Progress(4, 178, 70_516, 50_000, 25_000, seconds=10.0), n_stored=22)
    line = summary_of(now)
    assert line.startswith("4 of 178 outputs, ")
    assert line.endswith(", 22 more already stored")
    assert title_of(now) == "a and 2 more"
    fresh = RunProgress(("a",), 1, 1, now.model)
    assert "already stored" not in summary_of(fresh)
