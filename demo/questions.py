"""Rows of the demo tasks: one function per task, used for the test rows and for the exams in the training text.

Every function takes a seeded generator and what to ask, and returns a row with the columns of the task's data file.
Where the right answer stands is the caller's choice (but for letters, where it is the fact), so that test sets can be
balanced exactly. Orders are kept apart by their words: what is asked `for_test` occurs in no training text.
"""

import random
from collections.abc import Sequence
from typing import Any

from demo.stories import PLACES, THINGS, tell_story
from demo.wording import WORDINGS, choice_text, question, statements, stem
from demo.world import ATTRIBUTES, Fact, is_kept_apart

__all__ = [
    "Row",
    "facts_row",
    "last_word_row",
    "letters_row",
    "orders_row",
    "stories_row",
    "sums_row",
    "truth_row",
    "who_row",
    "yesno_row",
]

Row = dict[str, Any]

_LETTERS = "ABCD"


def letters_row(rng: random.Random, fact: Fact) -> Row:
    """Return a question with four choices that are named by their letters; the answer is the index of the right one."""
    choices = [choice_text(fact, letter) for letter in _LETTERS]
    asked = question(fact, rng.randrange(2))
    return {"question": asked, "choices": choices, "stem": stem(fact), "answer": _LETTERS.index(fact.value)}


def sums_row(pair: tuple[int, int]) -> Row:
    """Return a sum to be written."""
    return {"first": pair[0], "second": pair[1], "total": str(sum(pair))}


_NOUNS = (*THINGS, *PLACES, *ATTRIBUTES["people"]["trade"], *ATTRIBUTES["people"]["pet"])

# how an order reads -> what is said when it is followed
_ORDERS = (
    ("Say {0} twice.", "{0} {0}"),
    ("Say {0} three times.", "{0} {0} {0}"),
    ("Say {0} four times.", "{0} {0} {0} {0}"),
    ("Say {0} in brackets.", "({0})"),
    ("Say {0} with a question mark.", "{0}?"),
    ("Say {0} and then {1}.", "{0} {1}"),
    ("Say {0} after {1}.", "{1} {0}"),
    ("Say {0} before {1} and {2}.", "{0} {1} {2}"),
    ("Say only the last word of {0} {1} {2}.", "{2}"),
    ("Say {0} {1} {2} backwards.", "{2} {1} {0}"),
)


def orders_row(rng: random.Random, *, for_test: bool) -> Row:
    """Return an order that says exactly what to write, and what is written when it is followed."""
    while True:
        which, places = rng.randrange(len(_ORDERS)), rng.sample(range(len(_NOUNS)), 3)
        is_about_two = "{1}" in _ORDERS[which][0]
        if is_kept_apart(places[0], places[1] if is_about_two else which) == for_test:
            break
    order, reply = (text.format(*(_NOUNS[place] for place in places)) for text in _ORDERS[which])
    return {"order": order, "reply": reply}


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


def yesno_row(rng: random.Random, fact: Fact, others: Sequence[Fact]) -> Row:
    """Return a passage of other facts about the same entity, and a question to be answered by yes (1) or no (0)."""
    passage = " ".join(rng.choice(statements(each)) for each in others)
    return {"passage": passage, "question": question(fact, 0), "stem": stem(fact), "label": int(fact.value == "yes")}


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
