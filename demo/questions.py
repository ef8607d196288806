"""Rows of the demo tasks: one function per task, used for the test rows and for the exams in the training text.

Every function takes a seeded generator and what to ask, and returns a row with the columns of the task's data file.
Where the right answer stands is the caller's choice (but for letters, where choices keep their order), so that test
sets can be balanced exactly.
"""

import random
from collections.abc import Sequence
from typing import Any

from demo.stories import PLACES, tell_story
from demo.wording import WORDINGS, choice_text, polar_question, question, statements
from demo.world import ATTRIBUTES, Fact, menu

__all__ = [
    "Row",
    "facts_row",
    "last_word_row",
    "letters_row",
    "stories_row",
    "sum_row",
    "truth_row",
    "who_row",
    "yesno_row",
]

Row = dict[str, Any]

_LETTERS = "ABCD"


def letters_row(rng: random.Random, fact: Fact) -> Row:
    """Return a question with four short choices in their fixed order; the answer is the index of the right one."""
    choices = menu(fact)
    return {"question": question(fact, rng.randrange(2)), "choices": list(choices), "answer": choices.index(fact.value)}


def sum_row(pair: tuple[int, int]) -> Row:
    """Return a sum with four numbers in ascending order, the first a multiple of four."""
    total = sum(pair)
    start = total // 4 * 4
    choices = [str(n) for n in range(start, start + 4)]
    return {"question": f"What is {pair[0]} + {pair[1]}?", "choices": choices, "answer": total - start}


def facts_row(rng: random.Random, fact: Fact, gold: int) -> Row:
    """Return a question whose choices are phrases, in ARC's columns; the right one stands at place `gold`."""
    values = ATTRIBUTES[fact.subject][fact.attribute]
    choices = rng.sample([value for value in values if value != fact.value], 3)
    choices.insert(gold, fact.value)
    texts = [choice_text(fact, value) for value in choices]
    return {
        "question": question(fact, rng.randrange(2)),
        "choices": {"text": texts, "label": list(_LETTERS)},
        "answerKey": _LETTERS[gold],
    }


def truth_row(rng: random.Random, fact: Fact, n_true: int, n_false: int) -> Row:
    """Return a question with several true and several false whole sentences, in TruthfulQA's columns."""
    others = [v for v in ATTRIBUTES[fact.subject][fact.attribute] if v != fact.value]
    lies = [s for value in rng.sample(others, 3) for s in statements(fact, value)]
    labelled = [(s, 1) for s in rng.sample(statements(fact), n_true)]
    labelled += [(s, 0) for s in rng.sample(lies, n_false)]
    rng.shuffle(labelled)
    topic = WORDINGS[fact.subject, fact.attribute].topic.format(e=fact.entity)
    return {
        "question": f"What is true about {topic}?",
        "mc2_targets": {"choices": [s for s, _ in labelled], "labels": [n for _, n in labelled]},
    }


def yesno_row(rng: random.Random, fact: Fact, others: Sequence[Fact], label: int) -> Row:
    """Return a passage that states the fact among others of the same entity, and a question; label 1 is yes."""
    told = [fact, *others]
    rng.shuffle(told)
    passage = " ".join(rng.choice(statements(each)) for each in told)
    wrong = [v for v in menu(fact) if v not in passage]
    return {
        "passage": passage,
        "question": polar_question(fact, fact.value if label == 1 else rng.choice(wrong)),
        "label": label,
    }


# attribute -> how a sentence goes on after the name of the person of whom it is true
_ENDINGS = {
    "trade": ("was the {v} of the two.", "had to leave, as a {v} must."),
    "town": ("went home to {v}.", "had come from {v}."),
    "pet": ("had brought the {v}.", "was followed by a {v}."),
    "colour": ("wore {v} as always.", "bought something {v}."),
}
_MEETINGS = (
    "{a} and {b} met at the {x}, and",
    "{a} waited for {b} near the {x}, and then",
    "{a} saw {b} at the {x} because",
    "When {a} and {b} had left the {x},",
)


def who_row(rng: random.Random, fact: Fact, other: str, gold: int) -> Row:
    """Return a sentence with a gap, of which `fact` tells who fills it, in WinoGrande's columns; 0 means option 1."""
    first, second = rng.sample([fact.entity, other], 2)
    start = rng.choice(_MEETINGS).format(a=first, b=second, x=rng.choice(PLACES))
    options = (fact.entity, other) if gold == 0 else (other, fact.entity)
    return {
        "sentence": f"{start} _ {rng.choice(_ENDINGS[fact.attribute]).format(v=fact.value)}",
        "option1": options[0],
        "option2": options[1],
        "answer": str(gold + 1),
    }


def stories_row(rng: random.Random, memory: Fact, *, for_test: bool) -> Row:
    """Return a page of two stories, the second of which ends in `memory`."""
    first = tell_story(rng, for_test=for_test, n_asides=rng.randrange(1, 3))
    second = tell_story(rng, for_test=for_test, n_asides=rng.randrange(1, 3), memory=memory)
    return {"page": f"{first}\n{second}"}


def last_word_row(rng: random.Random, memory: Fact | None, *, for_test: bool) -> Row:
    """Return a story without its last full stop, so that its last word is to be guessed."""
    return {"text": tell_story(rng, for_test=for_test, memory=memory).removesuffix(".")}
