"""Display of one stored sample."""

from assaymark.records import LoglikelihoodQuery, Request, Score
from assaymark.results.views.samples import flags_of_programs, shown_choices
from assaymark.store.rows import SampleRecord

SHOT = "The trophy does not fit into the suitcase because the trophy is too big.\n\n"


def with_contexts(*contexts: str) -> SampleRecord:
    """Return a sample whose choices have contexts of their own and one continuation."""
    queries = tuple(LoglikelihoodQuery(i, " was late.", segments=(SHOT, text)) for i, text in enumerate(contexts))
    return SampleRecord(None, Request("readings", 0, "sha256:0", (), queries), (), ())


def test_choices_with_contexts_of_their_own_show_where_they_differ() -> None:
    """The line with the difference is shown, without the shot before it, however short the line is."""
    assert shown_choices(with_contexts("Ann", "Bea")) == ["Ann | was late.", "Bea | was late."]
    assert shown_choices(with_contexts("It was Ann", "It was Amy"))[1] == "It was Amy | was late."


def test_a_difference_far_from_the_end_is_shown() -> None:
    """A long line is shortened around the difference, so that no two choices look the same."""
    before, after = "very " * 40, " and so on" * 40
    first, second = shown_choices(with_contexts(f"{before}Ann{after}", f"{before}Bea{after}"))
    assert first.startswith("… very ")
    assert "Ann" in first
    assert "Bea" in second
    assert len(first) < 200


def test_choices_with_one_context_show_their_texts() -> None:
    """If the context is shared, a choice is shown as its continuation."""
    queries = (LoglikelihoodQuery(0, " yes"), LoglikelihoodQuery(1, " no"))
    record = SampleRecord(None, Request("plain", 0, "sha256:0", (SHOT,), queries), (), ())
    assert shown_choices(record) == [" yes", " no"]


def test_flags_of_programs_are_shown() -> None:
    """What an answer's programs mention is named once; a sample without flags shows nothing."""
    record = with_contexts("Ann", "Bea")
    assert flags_of_programs(record) == ""
    programs = [{"passed": True, "reason": None, "flags": ["equality"]}, {"passed": False, "reason": "no"}] * 2
    score = Score("readings/0/0", "pass@1", 0.5, detail={"programs": programs})
    flagged = SampleRecord(None, record.request, (), (score,))
    assert flags_of_programs(flagged) == "the program mentions equality"
