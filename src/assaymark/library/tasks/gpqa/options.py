"""GPQA's four answers in a drawn order, and the letter of the right one.

lm-eval shuffles with Python's global generator, seeded 0 at the start of a run, or (n-shot) with `Random(42)`, and
keeps the outcome in the cache of `datasets`: its order depends on what else ran and on what is cached. Here each call
starts from the same seed; that is the order lm-eval gives when nothing else was drawn before (zero-shot, generative,
cot), or when its cache is warm (n-shot).
"""

import random
import re

WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
RIGHT = "Correct Answer"
BRACKETED = re.compile(r"\[.*?\]")


def cleaned(text: str | None) -> str:
    """Return an answer as it is shown."""
    if text is None:
        return " "
    return text.strip().replace(" [title]", ". ").replace("  ", " ")


def cleaned_as_on_the_board(text: str | None) -> str:
    """Return an answer as Open LLM Leaderboard v2 showed it: what stands in brackets is lost, chemistry included."""
    if text is None:
        return " "
    return BRACKETED.sub("", text.strip().replace(" [title]", ". ")).replace("  ", " ")


def drawn(rows, seed: int, clean=cleaned, *, with_list: bool = False):
    """Return the rows with `choice1`..`choice4` and `answer` ("(A)".."(D)"), and `choices` where a filter needs it."""
    generator = random.Random(seed)  # noqa: S311 - an order of choices, not a secret

    def ordered(row: dict) -> dict:
        choices = [clean(row[key]) for key in (*WRONG, RIGHT)]
        right = choices[-1]
        generator.shuffle(choices)
        fields: dict = {f"choice{i}": choice for i, choice in enumerate(choices, start=1)}
        fields |= {"choices": choices} if with_list else {}
        return fields | {"answer": f"({'ABCD'[choices.index(right)]})"}

    return rows.map(ordered) if hasattr(rows, "map") else [{**row, **ordered(row)} for row in rows]


def process_docs(rows):
    """Zero-shot."""
    return drawn(rows, seed=0)


def process_docs_n_shot(rows):
    """N-shot: questions and shots come from one split, in one order of choices."""
    return drawn(rows, seed=42)


def process_docs_generative(rows):
    """Generative and chain of thought: the filter needs the list of choices."""
    return drawn(rows, seed=0, with_list=True)


def process_docs_leaderboard(rows):
    """Open LLM Leaderboard v2."""
    return drawn(rows, seed=0, clean=cleaned_as_on_the_board)
