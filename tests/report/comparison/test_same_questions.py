"""Which sample is which in another tool's log: found by its words, left out where it is not certain."""

from evalstone.report.comparison.questions import Asked
from evalstone.report.comparison.same_questions import same_questions

COLOURS = ("red", "blue")


def ours(*questions: str, options: tuple[str, ...] = COLOURS) -> dict[tuple[str, int], Asked]:
    """Return samples whose question is known apart from its wording."""
    return {
        ("lamps", index): Asked("\n".join([f"Question: {text}\nAnswer:", *options]), text, options)
        for index, text in enumerate(questions)
    }


def theirs(*texts: str, options: tuple[str, ...] | None = None) -> dict[tuple[str, int], Asked]:
    """Return samples of which only the whole text is known."""
    return {("theirs", index): Asked(text, None, options) for index, text in enumerate(texts)}


def test_a_question_is_found_in_any_wording_order_and_case() -> None:
    """Wording around it, case, punctuation and the order of the options do not count; the place in the file neither."""
    found = same_questions(
        ours("What colour is it?", "Which lamp is it?"),
        theirs("Choose.\n\nWHICH lamp is it\n\nA) blue\nB) red", "Choose.\n\nWhat colour is it?\n\nA) red\nB) blue"),
    )
    assert found.places == {("theirs", 0): ("lamps", 1), ("theirs", 1): ("lamps", 0)}
    assert (found.n_unknown, found.n_ambiguous) == (0, 0)


def test_either_side_may_know_its_bare_questions() -> None:
    """The run that is compared with may be the one that knows only texts."""
    first, second = theirs("Say: What colour is it? red blue", options=COLOURS), ours("What colour is it?")
    assert same_questions(first, second).places == {("lamps", 0): ("theirs", 0)}


def test_other_options_are_another_question() -> None:
    """The same words before other options are not the same question, nor are words that only begin alike."""
    asked = theirs("What colour is it? A) red B) green", "What colour is item 5? A) red B) blue")
    found = same_questions(ours("What colour is it?"), asked)
    assert found.places == {}
    assert found.n_unknown == 2
    listed = theirs("What colour is it?\nAnswer:", options=("red", "blue", "green"))
    assert same_questions(ours("What colour is it?"), listed).places == {}


def test_signs_of_mathematics_count() -> None:
    """2 + 3 is not 2 - 3, and 12 + 3 does not hold 2 + 3."""
    asked = theirs("What is 2 - 3? red blue", "What is 12 + 3? red blue", "What is 2 + 3? red blue")
    assert same_questions(ours("2 + 3?"), asked).places == {("theirs", 2): ("lamps", 0)}


def test_what_fits_several_is_left_out_and_counted() -> None:
    """A text that holds two questions, and a question that stands in two texts, are paired with nothing."""
    found = same_questions(ours("Is it red?", "Is it red? Or is it blue?"), theirs("Is it red? Or is it blue?"))
    assert found.places == {}
    assert found.n_ambiguous == 1
    both = theirs("First: Is it red? red blue", "Second: Is it red? red blue")
    assert same_questions(ours("Is it red?"), both).n_ambiguous == 2


def test_equal_samples_are_paired_in_their_order() -> None:
    """A question asked twice on both sides is two pairs; a third time on one side it is left out."""
    text = "Is it red? red blue"
    found = same_questions(ours("Is it red?", "Is it red?"), theirs(text, text, text))
    assert found.places == {("theirs", 0): ("lamps", 0), ("theirs", 1): ("lamps", 1)}
    assert (found.n_unknown, found.n_ambiguous) == (0, 1)
