"""Letters read from written answers."""

import pytest

from evalstone.errors import MalformedSample
from evalstone.scoring.choice_letter import extract_choice_letter

ANSWERS: list[tuple[str, str | None]] = [
    ("The answer is (B).", "B"),
    ("the correct answer is: C", "C"),
    ("Answer: D", "D"),
    ("**Answer:** A", "A"),
    ("Answer: **C**. Because...", "C"),
    ("So the best choice would be option B", "B"),
    (r"Therefore $\boxed{D}$", "D"),
    (r"\boxed{\text{A}}", "A"),
    ("I would choose C, since B is wrong.", "C"),
    ("The answer is A at first sight. But no: the answer is D.", "D"),
    ("B", "B"),
    ("b", "B"),
    ("(c)", "C"),
    ("C. The mitochondria", "C"),
    ("**B) Paris**", "B"),
    ("A) is false, and so (B) it must be", "A"),
    ("Options (A) and (C) fail, which leaves (D)", "D"),
    ("A dog ran away.", None),
    ("The answer is a mystery.", None),
    ("The answer is Apple.", None),
    ("The answer is E.", None),
    ("I don't know", None),
    ("", None),
]


@pytest.mark.parametrize(("answer", "letter"), ANSWERS)
def test_letters_are_read_where_they_are_said_and_nowhere_else(answer: str, letter: str | None) -> None:
    """Stated answers, bare letters and brackets are read; articles, words and letters beyond the choices are not."""
    chosen = extract_choice_letter(answer, 4)
    assert (None if chosen is None else "ABCD"[chosen.index]) == letter


def test_what_was_read_is_kept_with_its_rule() -> None:
    """The passage and the rule are returned, so that `show --samples` can say why."""
    chosen = extract_choice_letter("Hm. The answer is (B).", 4)
    assert chosen is not None
    assert (chosen.rule, chosen.index) == ("stated", 1)
    assert "answer is (B" in chosen.text


def test_more_choices_reach_further_letters() -> None:
    """With ten choices J is a letter, with four it is none; letters cannot name thirty."""
    chosen = extract_choice_letter("The answer is (J)", 10)
    assert chosen is not None
    assert chosen.index == 9
    assert extract_choice_letter("The answer is (J)", 4) is None
    with pytest.raises(MalformedSample, match="2 to 26"):
        extract_choice_letter("A", 30)
