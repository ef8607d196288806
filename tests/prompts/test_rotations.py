"""Rotated prompts: options move, everything else stays, and a full turn is the original."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.errors import MalformedSample
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.rotations import rotated, rotated_layout, why_not_rotated

LETTERS = ["A", "B", "C", "D"]


def layout(text: str, choices: list[str] | None = None) -> PromptFields:
    """Return a layout with this text and these choices for every row."""
    return PromptFields(
        text=lambda _: text,
        target=lambda _: 0,
        choices=lambda _: choices or LETTERS,
        gen_prefix=lambda _: None,
    )


def test_options_move_and_letters_stay() -> None:
    """Rotation 1 moves every option one line down, the last one to the first line."""
    text = "Which?\nA. one\nB. two\nC. three\nD. four\nAnswer:"
    assert rotated_layout(layout(text), 1).text({}) == "Which?\nA. four\nB. one\nC. two\nD. three\nAnswer:"
    assert rotated_layout(layout(text), 4).text({}) == text


def test_an_option_of_several_lines_moves_as_a_whole() -> None:
    """The last option ends where the row's text ends, not with its first line."""
    row = {"options": ["a = 1", "a = 2\nprint(a)", "pass", "b = 3\nprint(b)"]}
    lines = "\n".join(f"({letter}) {option}" for letter, option in zip(LETTERS, row["options"], strict=True))
    text = f"What does it print?\n{lines}\nAnswer:"
    moved = "\n".join(f"({letter}) {each}" for letter, each in zip(LETTERS, rotated(row["options"], 1), strict=True))
    assert rotated_layout(layout(text), 1).text(row) == f"What does it print?\n{moved}\nAnswer:"


WORD = st.text("xyz .:(ABCD)", min_size=1, max_size=12).map(str.strip).filter(bool)


@given(st.lists(WORD, min_size=2, max_size=10), WORD, st.integers(0, 12))
def test_a_rotated_prompt_is_that_of_the_rotated_row(options: list[str], question: str, shift: int) -> None:
    """Rotating the text equals rendering a row whose options are rotated."""

    def prompt(shown: list[str]) -> str:
        return f"{question}\n" + "".join(f"{a}. {b}\n" for a, b in zip("ABCDEFGHIJ", shown, strict=False)) + "Answer:"

    made = rotated_layout(layout(prompt(options), list("ABCDEFGHIJ"[: len(options)])), shift)
    assert made.text({"options": options}) == prompt(rotated(options, shift))


@pytest.mark.parametrize(
    ("text", "choices", "why"),
    [
        ("Is it?\nAnswer:", ["no", "yes"], "by letter"),
        ("Which? A. one B. two C. three D. four", LETTERS, "one per line"),
        ("Which?\nA. one\nB. two\nAnswer:", LETTERS, "one per line"),
    ],
)
def test_a_prompt_that_does_not_list_its_options_is_named(text: str, choices: list[str], why: str) -> None:
    """The reason is stated, and rotating it anyway is an error of that sample."""
    assert why in str(why_not_rotated(layout(text, choices), {}))
    if choices == LETTERS:
        with pytest.raises(MalformedSample, match="cannot be rotated"):
            rotated_layout(layout(text, choices), 1).text({})
