"""Matching of samples with another tool's log: by their words; uncertain matches are excluded."""

from assaymark.results.comparison.stored_runs import SampleQuestion, same_questions

COLOURS = ("red", "blue")


def ours(*questions: str, options: tuple[str, ...] = COLOURS) -> dict[tuple[str, int], SampleQuestion]:
    """Return samples whose bare question is known."""
    return {
        ("lamps", index): SampleQuestion("\n".join([f"Question: {text}\nAnswer:", *options]), text, options)
        for index, text in enumerate(questions)
    }


def theirs(*texts: str, options: tuple[str, ...] | None = None) -> dict[tuple[str, int], SampleQuestion]:
    """Return samples of which only the complete text is known."""
    return {("theirs", index): SampleQuestion(text, None, options) for index, text in enumerate(texts)}


def test_a_question_is_found_in_any_wording_order_and_case() -> None:
    """Wording around it, case, punctuation, the order of the options and the position in the file are ignored."""
    result = same_questions(
        ours("What colour is it?", "Which lamp is it?"),
        theirs("Choose.\n\nWHICH lamp is it\n\nA) blue\nB) red", "Choose.\n\nWhat colour is it?\n\nA) red\nB) blue"),
    )
    assert result.pairs == {("theirs", 0): ("lamps", 1), ("theirs", 1): ("lamps", 0)}
    assert (result.n_unknown, result.n_ambiguous) == (0, 0)


def test_either_side_may_have_the_bare_questions() -> None:
    """The first run may be the one that has only complete texts."""
    first, second = theirs("Say: What colour is it? red blue", options=COLOURS), ours("What colour is it?")
    assert same_questions(first, second).pairs == {("lamps", 0): ("theirs", 0)}


def test_other_options_are_another_question() -> None:
    """The same words with other options are another question, and so are words that only begin alike."""
    inputs = theirs("What colour is it? A) red B) green", "What colour is item 5? A) red B) blue")
    result = same_questions(ours("What colour is it?"), inputs)
    assert result.pairs == {}
    assert result.n_unknown == 2
    listed = theirs("What colour is it?\nAnswer:", options=("red", "blue", "green"))
    assert same_questions(ours("What colour is it?"), listed).pairs == {}


def test_signs_of_mathematics_count() -> None:
    """2 + 3 is not 2 - 3, and 12 + 3 does not contain 2 + 3."""
    inputs = theirs("What is 2 - 3? red blue", "What is 12 + 3? red blue", "What is 2 + 3? red blue")
    assert same_questions(ours("2 + 3?"), inputs).pairs == {("theirs", 2): ("lamps", 0)}


def test_ambiguous_matches_are_excluded_and_counted() -> None:
    """A text that contains two questions, and a question that occurs in two texts, are not paired."""
    result = same_questions(ours("Is it red?", "Is it red? Or is it blue?"), theirs("Is it red? Or is it blue?"))
    assert result.pairs == {}
    assert result.n_ambiguous == 1
    both = theirs("First: Is it red? red blue", "Second: Is it red? red blue")
    assert same_questions(ours("Is it red?"), both).n_ambiguous == 2


def test_equal_samples_are_paired_in_their_order() -> None:
    """A question that occurs twice on both sides gives two pairs; a third occurrence on one side is excluded."""
    text = "Is it red? red blue"
    result = same_questions(ours("Is it red?", "Is it red?"), theirs(text, text, text))
    assert result.pairs == {("theirs", 0): ("lamps", 0), ("theirs", 1): ("lamps", 1)}
    assert (result.n_unknown, result.n_ambiguous) == (0, 1)
