"""Mathematical answers."""

import importlib.metadata
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assaymark.scoring.mathematics import (
    INVALID_ANSWER,
    is_equal_mathematics,
    last_boxed,
    minerva_answer,
    normalise_minerva,
    score_minerva,
)


def test_the_last_box_is_read_with_balanced_braces() -> None:
    """Nested braces are balanced; without a box there is None, with two the last one counts."""
    assert last_boxed(r"\boxed{1} then \boxed{\frac{1}{\sqrt{2}}} end") == r"\frac{1}{\sqrt{2}}"
    assert last_boxed(r"so $\boxed 7$.") == "7"
    assert last_boxed(r"\fbox{x}") == "x"
    assert last_boxed("no box") is None
    assert last_boxed(r"\boxed{unclosed") is None


def test_the_final_answer_follows_minervas_sentence() -> None:
    """The answer in Minerva's sentence is extracted; without the sentence it is invalid."""
    assert minerva_answer("... Final Answer: The final answer is $24$. I hope it is correct.") == "$24$"
    assert minerva_answer("It is 24.") == INVALID_ANSWER
    cut = "Final Answer: The final answer is $24$. I hope it is correct"
    assert minerva_answer(cut) == "$24$"


ANSWERS = [
    "$24$", "x = 5", r"\frac12", r"\frac{1}{2}", r"\sqrt2", r"\sqrt[3]8", "100,000", "0,1", r"10\text{ cm}",
    r"5^\circ",
    r"2\pi cm", r"\left(1,2\right)", r"\text{(A)}", r"\$ 3.50", "a dozen", r"12 \mbox{ inches}", r"\boxed{7}",
    "3 units",
    r"\textbf{B}", r"90^{\circ}", r"1,\!000", r"x \in [0,1]", r"\ldots", "", "30 students", r"\text{m}^2", "1,234,567",
]  # fmt: skip


def test_the_normal_form_by_hand() -> None:
    """Units and markup are removed, fractions and roots get braces; commas go in thousands and stay in pairs."""
    assert normalise_minerva(r"x = \frac12") == r"\frac{1}{2}"
    assert normalise_minerva("100,000 dollars") == "100000"
    assert normalise_minerva("0,1") == "0,1"
    assert normalise_minerva(r"2\pi cm") == r"2\pi"
    assert normalise_minerva(r"\left(1,2\right)") == r"\left(1,2\right)"


@pytest.mark.oracle
def test_the_normal_form_equals_lm_evals(monkeypatch: pytest.MonkeyPatch) -> None:
    """For answers that exercise every rule, and their pairs, the normal form is lm-eval 0.4.13's."""
    pytest.importorskip("math_verify")
    real = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "4.11" if name == "antlr4-python3-runtime" else real(name)
    )
    theirs: Any = pytest.importorskip("lm_eval.tasks.minerva_math.utils")
    for first in ANSWERS:
        for second in ["", *ANSWERS]:
            text = f"{first} {second}".strip()
            assert normalise_minerva(text) == theirs.normalize_final_answer(text), text


def test_equal_values_in_other_notation_are_equal() -> None:
    """Fractions, decimals, intervals and orders of a set are compared by value, not by text."""
    pytest.importorskip("math_verify")
    assert is_equal_mathematics(r"$\frac{1}{2}$", "The result is 0.5")
    assert is_equal_mathematics(r"$\boxed{(x+1)^2}$", r"$x^2+2x+1$")
    assert is_equal_mathematics(r"$\{1,2\}$", r"$\{2,1\}$")
    assert not is_equal_mathematics(r"$\frac{1}{2}$", "0.51")
    assert not is_equal_mathematics("$3$", "I do not know")


def test_it_works_outside_the_main_thread() -> None:
    """In a worker thread, where no alarm can be set, the answer is the same."""
    pytest.importorskip("math_verify")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(is_equal_mathematics, "$2$", "$4/2$").result()


def test_a_minerva_solution_is_scored_both_ways() -> None:
    """A right answer in other notation scores on both metrics, a wrong one or one without the sentence does not."""
    pytest.importorskip("math_verify")
    solution = r"We find $\boxed{\frac{1}{2}}$."

    def scores(answer: str) -> list[float | None]:
        return [score.value for score in score_minerva(solution, answer).values()]

    announced = "Final Answer: The final answer is ${}$. I hope it is correct."
    assert scores(announced.replace("{}", r"\frac12")) == [1.0, 1.0]
    assert scores(announced.replace("{}", "0.5")) == [1.0, 1.0]
    assert scores(announced.replace("{}", "2")) == [0.0, 0.0]
    assert scores("It is $1/2$") == [0.0, 1.0]
