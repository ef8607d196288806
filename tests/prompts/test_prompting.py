"""A multiple-choice question put by letter, by text, and with reasoning: what is taken apart and put together."""

import pytest

from evalstone.errors import MalformedSample, PlanError
from evalstone.prompts.prompter import Layout
from evalstone.prompts.prompting import COT_INSTRUCTION, Prompting, instructed, put_layout
from evalstone.prompts.questions import read_question
from evalstone.prompts.templates import Row

LISTED = "What barks?\nA. a cat\nB. a dog\nC. a fish\nAnswer:"
PLAIN = "Question: What barks?\nAnswer:"
TEXTS = ["a cat", "a dog", "a fish"]


def layout(text: object, choices: list[str], target: object) -> Layout:
    """Return a layout that puts every row alike."""
    return Layout(text=lambda _: text, target=lambda _: target, choices=lambda _: choices, gen_prefix=lambda _: None)


def put(text: object, choices: list[str], target: object, prompting: Prompting) -> tuple[str, object, list[str] | None]:
    """Return text, target and choices of the question put in another way."""
    made = put_layout(layout(text, choices, target), prompting, shot=False)
    return made.text({}), made.target({}), made.choices({}) if made.choices else None


def test_a_listed_question_loses_its_choices() -> None:
    """Put as text, the list goes and its lines become what is weighed; question, last line and gold stay."""
    assert put(LISTED, ["A", "B", "C"], 1, "text") == ("What barks?\nAnswer:", 1, TEXTS)


def test_a_plain_question_gets_a_list() -> None:
    """Put as letter, the choices stand before the line that asks for the answer, and letters are weighed."""
    expected = "Question: What barks?\nA. a cat\nB. a dog\nC. a fish\nAnswer:"
    assert put(PLAIN, TEXTS, 1, "letter") == (expected, 1, ["A", "B", "C"])
    assert put(PLAIN, TEXTS, "a dog", "letter")[1] == 1  # a gold that is named by its text


@pytest.mark.parametrize(("text", "choices"), [(LISTED, ["A", "B", "C"]), (PLAIN, TEXTS)])
def test_the_own_way_keeps_the_text(text: str, choices: list[str]) -> None:
    """A task put in the way its file puts it is asked with the same text and choices."""
    own: Prompting = "letter" if choices[0] == "A" else "text"
    assert put(text, choices, 1, own) == (text, 1, choices)


@pytest.mark.parametrize(("text", "choices"), [(LISTED, ["A", "B", "C"]), (PLAIN, TEXTS)])
def test_reasoning_comes_before_the_letter(text: str, choices: list[str]) -> None:
    """Put as cot, both forms ask alike, the reference is the letter, and a shot shows the sentence that is read."""
    expected = "Question: What barks?\nA. a cat\nB. a dog\nC. a fish\nAnswer: Let's think step by step."
    assert put(text, choices, 1, "cot") == (expected, "B", None)
    assert put(text, choices, [0, 2], "cot")[1] == ["A", "C"]
    shot = put_layout(layout(text, choices, 1), "cot", shot=True)
    assert (shot.text({}), shot.target({})) == (expected, "The answer is (B).")


def test_the_instruction_follows_the_tasks_own_words() -> None:
    """The description stays, and says then what to do; without one there is a general head."""

    def about(_: Row) -> str:
        return "Questions about dogs.\n\n"

    assert instructed(about)({}) == f"Questions about dogs. {COT_INSTRUCTION}\n\n"
    assert instructed(lambda _: "")({}).startswith("The following are multiple choice questions (with answers). Think")


@pytest.mark.parametrize(
    "text",
    [
        "Which?\n(A) a cat\n(B) a dog\n(C) a fish\nAnswer:",
        "Which?\nA) a cat\nB) a dog\nC) a fish\nAnswer:",
        "A. Smith asks: which?\nA. a cat\nB. a dog\nC. a fish\nAnswer:",
    ],
)
def test_lists_are_read_in_their_usual_forms(text: str) -> None:
    """Brackets, full stops, and a question that begins like a list; the last whole list counts."""
    found = read_question(text, ["A", "B", "C"])
    assert (found.choices, found.cue) == (tuple(TEXTS), "Answer:")
    assert found.lead in {"Which?", "A. Smith asks: which?"}


def test_a_choice_of_several_lines_is_kept_whole() -> None:
    """What stands between two letters is the first one's choice."""
    assert read_question("?\nA. one\nline more\nB. two\nAnswer:", ["A", "B"]).choices == ("one\nline more", "two")


def test_what_cannot_be_put_is_refused() -> None:
    """Contexts as choices, letters that nothing explains, and more choices than letters."""
    with pytest.raises(PlanError, match="the choices are contexts"):
        put(1, ["He ran", "She ran"], 0, "letter")
    with pytest.raises(MalformedSample, match="does not list what they stand for"):
        put("Which letter?", ["A", "B"], 0, "text")
    with pytest.raises(MalformedSample, match="11 choices; put as cot there are letters for 10"):
        put(PLAIN, [f"choice {n}" for n in range(11)], 0, "cot")
    with pytest.raises(PlanError, match="offers no choices"):
        put_layout(Layout(lambda _: "", lambda _: "", None, lambda _: None), "letter", shot=False)
