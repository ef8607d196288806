"""Letters extracted from generated answers."""

import pytest

from assaymark.errors import MalformedSample
from assaymark.scoring.filters import extract_choice_letter

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
def test_only_stated_letters_are_extracted(answer: str, letter: str | None) -> None:
    """Stated answers, bare letters and brackets count; articles, words and letters beyond the choices do not."""
    chosen = extract_choice_letter(answer, 4)
    assert (None if chosen is None else "ABCD"[chosen.index]) == letter


def test_the_passage_and_the_rule_are_returned() -> None:
    """So `show --samples` can show why a letter was chosen."""
    chosen = extract_choice_letter("Hm. The answer is (B).", 4)
    assert chosen is not None
    assert (chosen.rule, chosen.index) == ("stated", 1)
    assert "answer is (B" in chosen.text


def test_the_number_of_choices_limits_the_letters() -> None:
    """With ten choices J is a letter, with four it is none; letters cannot name thirty."""
    chosen = extract_choice_letter("The answer is (J)", 10)
    assert chosen is not None
    assert chosen.index == 9
    assert extract_choice_letter("The answer is (J)", 4) is None
    with pytest.raises(MalformedSample, match="2 to 26"):
        extract_choice_letter("A", 30)
