"""How each kind of fact is said, asked and offered as a choice.

Statements and questions use different words on purpose: a test row asks about a fact that the training text has only
stated, so answering needs more than finding the same string again.
"""

from dataclasses import dataclass

from demo.world import Fact

__all__ = ["WORDINGS", "Wording", "choice_text", "polar_question", "question", "statements"]


@dataclass(frozen=True, slots=True)
class Wording:
    """The sentences for one attribute; `{e}` is the entity and `{v}` the value."""

    statements: tuple[str, ...]
    """Ways to state the fact."""
    questions: tuple[str, ...]
    """Ways to ask for the value."""
    choice: str
    """The value as an answer in words."""
    topic: str
    """What the fact is about, for questions that are answered by a whole sentence."""
    polar: str
    """A question to be answered by yes or no, without its question mark."""


WORDINGS: dict[tuple[str, str], Wording] = {
    ("people", "trade"): Wording(
        ("{e} is a {v}.", "{e} works as a {v}.", "{e} earns a living as a {v}."),
        ("What is the trade of {e}?", "What work does {e} do?"),
        "the work of a {v}",
        "the work of {e}",
        "is {e} a {v}",
    ),
    ("people", "town"): Wording(
        ("{e} lives in {v}.", "{e} has a house in {v}.", "The home of {e} is in {v}."),
        ("Where does {e} live?", "In which town does {e} live?"),
        "in the town of {v}",
        "the home of {e}",
        "does {e} live in {v}",
    ),
    ("people", "pet"): Wording(
        ("{e} keeps a {v}.", "{e} has a tame {v}.", "{e} feeds a {v} every day."),
        ("Which animal does {e} keep?", "What kind of pet does {e} have?"),
        "a tame {v}",
        "the pet of {e}",
        "does {e} keep a {v}",
    ),
    ("people", "colour"): Wording(
        ("{e} likes {v} best.", "{e} wears {v} clothes.", "{e} paints every door {v}."),
        ("What is the favourite colour of {e}?", "Which colour does {e} like?"),
        "the colour {v}",
        "the taste of {e}",
        "does {e} like {v}",
    ),
    ("places", "river"): Wording(
        ("{e} lies on the river {v}.", "The river {v} flows through {e}.", "The mills of {e} stand on the {v}."),
        ("On which river does {e} lie?", "Which river flows past {e}?"),
        "on the river {v}",
        "the river of {e}",
        "is {e} on the river {v}",
    ),
    ("places", "side"): Wording(
        ("{e} is in the {v} of the valley.", "{e} is a town of the {v}.", "The road to {e} leads {v}."),
        ("In which part of the valley is {e}?", "Which way is {e}?"),
        "in the {v} of the valley",
        "the place of {e}",
        "is {e} in the {v}",
    ),
    ("places", "ware"): Wording(
        ("{e} is known for its {v}.", "The people of {e} sell {v}.", "The best {v} come from {e}."),
        ("What is {e} known for?", "What is sold in {e}?"),
        "mostly {v}",
        "the trade of {e}",
        "do they sell {v} in {e}",
    ),
    ("places", "feast"): Wording(
        ("The feast of {e} is in {v}.", "{e} holds its feast in {v}.", "Every {v} there is a feast in {e}."),
        ("When is the feast of {e}?", "In which month does {e} hold its feast?"),
        "every year in {v}",
        "the feast of {e}",
        "is the feast of {e} in {v}",
    ),
    ("nature", "coat"): Wording(
        ("The {e} is {v}.", "The {e} has a {v} coat.", "The fur of the {e} is {v}."),
        ("What colour is the {e}?", "Which colour has the coat of the {e}?"),
        "it is all {v}",
        "the coat of the {e}",
        "is the {e} {v}",
    ),
    ("nature", "food"): Wording(
        ("The {e} eats {v}.", "The {e} lives on {v}.", "The {e} looks for {v} at night."),
        ("What does the {e} eat?", "What is the food of the {e}?"),
        "it eats {v}",
        "the food of the {e}",
        "does the {e} eat {v}",
    ),
    ("nature", "home"): Wording(
        ("The {e} sleeps in the {v}.", "The {e} makes its nest in the {v}.", "One finds the {e} in the {v}."),
        ("Where does the {e} sleep?", "Where does one find the {e}?"),
        "deep in the {v}",
        "the nest of the {e}",
        "does the {e} sleep in the {v}",
    ),
    ("nature", "sound"): Wording(
        ("The call of the {e} is a {v}.", "The {e} calls with a {v}.", "A {v} at night is the {e}."),
        ("What is the call of the {e}?", "What sound does the {e} make?"),
        "a long {v}",
        "the call of the {e}",
        "is the call of the {e} a {v}",
    ),
}


def statements(fact: Fact, value: str | None = None) -> list[str]:
    """Return all ways to state a fact, or to state it falsely when another value is given."""
    wording = WORDINGS[fact.subject, fact.attribute]
    return [s.format(e=fact.entity, v=value or fact.value) for s in wording.statements]


def question(fact: Fact, which: int) -> str:
    """Return one of the two questions that ask for the fact's value."""
    return WORDINGS[fact.subject, fact.attribute].questions[which].format(e=fact.entity)


def choice_text(fact: Fact, value: str) -> str:
    """Return a value as an answer in words."""
    return WORDINGS[fact.subject, fact.attribute].choice.format(v=value)


def polar_question(fact: Fact, value: str) -> str:
    """Return the question whether `value` is the fact's value, without its question mark."""
    return WORDINGS[fact.subject, fact.attribute].polar.format(e=fact.entity, v=value)
