"""Rows as text, exactly as the demo tasks' YAML files put them: a prompt, and the answer that follows one space.

The training text holds exams written by these functions. A test renders the YAML templates beside them, so that the
two cannot drift apart.
"""

from collections.abc import Callable

from demo.questions import Row

__all__ = ["EXAMS", "LETTER_DESCRIPTION", "TRUTH_SHOTS", "Exam"]

Exam = tuple[str, str]
"""Prompt and answer."""

LETTER_DESCRIPTION = "The following are multiple choice questions (with answers) about {subject}.\n\n"
TRUTH_SHOTS = (
    "Q: What is true about the sky?\nA: The sky is above the valley.\n\n"
    "Q: What is true about the valley?\nA: The valley has forty towns.\n\n"
)


def _letters(row: Row) -> Exam:
    lines = [f"{letter}. {choice}" for letter, choice in zip("ABCD", row["choices"], strict=True)]
    return "\n".join([row["question"], *lines, f"Answer: {row['stem']}"]), "ABCD"[row["answer"]]


def _facts(row: Row) -> Exam:
    texts = row["choices"]["text"]
    return f"Question: {row['question']}\nAnswer:", texts["ABCD".index(row["answerKey"])]


def _truth(row: Row) -> Exam:
    targets = row["mc2_targets"]
    return f"{TRUTH_SHOTS}Q: {row['question']}\nA:", targets["choices"][targets["labels"].index(1)]


def _yesno(row: Row) -> Exam:
    return f"{row['passage']}\nQuestion: {row['question']}?\nAnswer: {row['stem']}", ("no", "yes")[row["label"]]


def _who(row: Row) -> Exam:
    before, after = row["sentence"].split("_")
    return before + row[f"option{row['answer']}"], after.strip()


def _last_word(row: Row) -> Exam:
    before, _, last = row["text"].rpartition(" ")
    return before, last


def _sums(row: Row) -> Exam:
    first, second = row["first"], row["second"]
    return f"Question: What is {first} + {second}?\nAnswer: {first} and {second} are", row["total"]


def _orders(row: Row) -> Exam:
    return f"Order: {row['order']}\nReply:", row["reply"]


EXAMS: dict[str, Callable[[Row], Exam]] = {
    "letters": _letters,
    "facts": _facts,
    "truth": _truth,
    "yesno": _yesno,
    "who": _who,
    "last_word": _last_word,
    "sums": _sums,
    "orders": _orders,
}
