"""Multiple-choice questions in the prompt styles letter, text and cot: parsing and rendering."""

import pytest

from assaymark.errors import MalformedSample, PlanError
from assaymark.prompts.prompt_styles import COT_INSTRUCTION, PromptStyle, styled_description, styled_layout
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.questions import read_question
from assaymark.records import Row

LISTED = "What barks?\nA. a cat\nB. a dog\nC. a fish\nAnswer:"
PLAIN = "Question: What barks?\nAnswer:"
TEXTS = ["a cat", "a dog", "a fish"]


def layout(text: object, choices: list[str], target: object) -> PromptFields:
    """Return a layout that is the same for every row."""
    return PromptFields(
        text=lambda _: text, target=lambda _: target, choices=lambda _: choices, gen_prefix=lambda _: None
    )


def styled(
    text: object, choices: list[str], target: object, prompt_style: PromptStyle
) -> tuple[str, object, list[str] | None]:
    """Return text, target and choices of the question in a prompt style."""
    made = styled_layout(layout(text, choices, target), prompt_style, shot=False)
    return made.text({}), made.target({}), made.choices({}) if made.choices else None


def test_a_listed_question_loses_its_choices() -> None:
    """In the style text the list is removed and its lines become the choices; question, cue and gold stay."""
    assert styled(LISTED, ["A", "B", "C"], 1, "text") == ("What barks?\nAnswer:", 1, TEXTS)


def test_a_plain_question_gets_a_list() -> None:
    """In the style letter the choices are listed before the cue line, and letters are scored."""
    expected = "Question: What barks?\nA. a cat\nB. a dog\nC. a fish\nAnswer:"
    assert styled(PLAIN, TEXTS, 1, "letter") == (expected, 1, ["A", "B", "C"])
    assert styled(PLAIN, TEXTS, "a dog", "letter")[1] == 1  # a gold given by its text


@pytest.mark.parametrize(("text", "choices"), [(LISTED, ["A", "B", "C"]), (PLAIN, TEXTS)])
def test_the_own_style_keeps_the_text(text: str, choices: list[str]) -> None:
    """In the style of its file a task has the same text and choices."""
    own: PromptStyle = "letter" if choices[0] == "A" else "text"
    assert styled(text, choices, 1, own) == (text, 1, choices)


@pytest.mark.parametrize(("text", "choices"), [(LISTED, ["A", "B", "C"]), (PLAIN, TEXTS)])
def test_reasoning_comes_before_the_letter(text: str, choices: list[str]) -> None:
    """In the style cot both have the same prompt, the reference is the letter, and a shot ends with the sentence."""
    expected = "Question: What barks?\nA. a cat\nB. a dog\nC. a fish\nAnswer: Let's think step by step."
    assert styled(text, choices, 1, "cot") == (expected, "B", None)
    assert styled(text, choices, [0, 2], "cot")[1] == ["A", "C"]
    shot = styled_layout(layout(text, choices, 1), "cot", shot=True)
    assert (shot.text({}), shot.target({})) == (expected, "The answer is (B).")


def test_the_instruction_follows_the_tasks_description() -> None:
    """The description stays and is followed by the instruction; without a description there is a general one."""

    def about(_: Row) -> str:
        return "Questions about dogs.\n\n"

    assert styled_description(about, "cot")({}) == f"Questions about dogs. {COT_INSTRUCTION}\n\n"
    assert styled_description(lambda _: "", "cot")({}).startswith(
        "The following are multiple choice questions (with answers). Think"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Which?\n(A) a cat\n(B) a dog\n(C) a fish\nAnswer:",
        "Which?\nA) a cat\nB) a dog\nC) a fish\nAnswer:",
        "A. Smith asks: which?\nA. a cat\nB. a dog\nC. a fish\nAnswer:",
    ],
)
def test_lists_are_parsed_in_their_usual_formats(text: str) -> None:
    """Brackets, full stops, and a question that begins like a list; the last complete list counts."""
    result = read_question(text, ["A", "B", "C"])
    assert (result.choices, result.cue) == (tuple(TEXTS), "Answer:")
    assert result.lead in {"Which?", "A. Smith asks: which?"}


def test_a_choice_may_have_several_lines() -> None:
    """The text between two letters is the first one's choice."""
    assert read_question("?\nA. one\nline more\nB. two\nAnswer:", ["A", "B"]).choices == ("one\nline more", "two")


def test_questions_that_do_not_fit_a_style_are_refused() -> None:
    """Contexts as choices, letters that are not listed, and more choices than letters are errors."""
    with pytest.raises(PlanError, match="the choices are contexts"):
        styled(1, ["He ran", "She ran"], 0, "letter")
    with pytest.raises(MalformedSample, match="does not list what they stand for"):
        styled("Which letter?", ["A", "B"], 0, "text")
    with pytest.raises(MalformedSample, match="11 choices; prompt style cot has letters for at most 10"):
        styled(PLAIN, [f"choice {n}" for n in range(11)], 0, "cot")
    with pytest.raises(PlanError, match="the task has no choices"):
        styled_layout(PromptFields(lambda _: "", lambda _: "", None, lambda _: None), "letter", shot=False)
