"""How each kind of fact is said, asked and offered as a choice.

Statements and questions use different words on purpose: a test row asks about a fact that the training text has only
stated, so answering needs more than finding the same string again.
"""

from dataclasses import dataclass

from demo.world import Fact

__all__ = ["WORDINGS", "Wording", "choice_text", "question", "statements", "stem"]


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
    """What the fact is about, for questions that are answered by a whole sentence; empty where there are none."""


def _by_letter(statements: tuple[str, ...], questions: tuple[str, ...], choice: str) -> Wording:
    """Return the wording of what is answered by a letter."""
    return Wording(statements, questions, choice, topic="")


def _by_word(statements: tuple[str, ...], polar: str) -> Wording:
    """Return the wording of what is answered by yes or no; the question has no mark."""
    return Wording(statements, (polar,), choice="{v}", topic="")


WORDINGS: dict[tuple[str, str], Wording] = {
    ("people", "trade"): Wording(
        ("{e} is a {v}.", "{e} works as a {v}.", "{e} earns a living as a {v}."),
        ("What is the trade of {e}?", "What work does {e} do?"),
        "the work of a {v}",
        "the work of {e}",
    ),
    ("people", "town"): Wording(
        ("{e} lives in {v}.", "{e} has a house in {v}.", "The home of {e} is in {v}."),
        ("Where does {e} live?", "In which town does {e} live?"),
        "in the town of {v}",
        "the home of {e}",
    ),
    ("people", "pet"): Wording(
        ("{e} keeps a {v}.", "{e} has a tame {v}.", "{e} feeds a {v} every day."),
        ("Which animal does {e} keep?", "What kind of pet does {e} have?"),
        "a tame {v}",
        "the pet of {e}",
    ),
    ("people", "colour"): Wording(
        ("{e} likes {v} best.", "{e} wears {v} clothes.", "{e} paints every door {v}."),
        ("What is the favourite colour of {e}?", "Which colour does {e} like?"),
        "the colour {v}",
        "the taste of {e}",
    ),
    ("places", "river"): Wording(
        ("{e} lies on the river {v}.", "The river {v} flows through {e}.", "The mills of {e} stand on the {v}."),
        ("On which river does {e} lie?", "Which river flows past {e}?"),
        "on the river {v}",
        "the river of {e}",
    ),
    ("places", "side"): Wording(
        ("{e} is in the {v} of the valley.", "{e} is a town of the {v}.", "The road to {e} leads {v}."),
        ("In which part of the valley is {e}?", "Which way is {e}?"),
        "in the {v} of the valley",
        "the place of {e}",
    ),
    ("places", "ware"): Wording(
        ("{e} is known for its {v}.", "The people of {e} sell {v}.", "The best {v} come from {e}."),
        ("What is {e} known for?", "What is sold in {e}?"),
        "mostly {v}",
        "the trade of {e}",
    ),
    ("places", "feast"): Wording(
        ("The feast of {e} is in {v}.", "{e} holds its feast in {v}.", "Every {v} there is a feast in {e}."),
        ("When is the feast of {e}?", "In which month does {e} hold its feast?"),
        "every year in {v}",
        "the feast of {e}",
    ),
    ("nature", "coat"): Wording(
        ("The {e} is {v}.", "The {e} has a {v} coat.", "The fur of the {e} is {v}."),
        ("What colour is the {e}?", "Which colour has the coat of the {e}?"),
        "it is all {v}",
        "the coat of the {e}",
    ),
    ("nature", "food"): Wording(
        ("The {e} eats {v}.", "The {e} lives on {v}.", "The {e} looks for {v} at night."),
        ("What does the {e} eat?", "What is the food of the {e}?"),
        "it eats {v}",
        "the food of the {e}",
    ),
    ("nature", "home"): Wording(
        ("The {e} sleeps in the {v}.", "The {e} makes its nest in the {v}.", "One finds the {e} in the {v}."),
        ("Where does the {e} sleep?", "Where does one find the {e}?"),
        "deep in the {v}",
        "the nest of the {e}",
    ),
    ("nature", "sound"): Wording(
        ("The call of the {e} is a {v}.", "The {e} calls with a {v}.", "A {v} at night is the {e}."),
        ("What is the call of the {e}?", "What sound does the {e} make?"),
        "a long {v}",
        "the call of the {e}",
    ),
    ("people", "row"): _by_letter(
        ("{e} sits in row {v}.", "The seat of {e} is in row {v}.", "In church {e} is seen in row {v}."),
        ("In which row does {e} sit?", "Where is the seat of {e}?"),
        "row {v}",
    ),
    ("people", "boat"): _by_letter(
        ("{e} rows in boat {v}.", "The oar of {e} is in boat {v}.", "On the river {e} takes boat {v}."),
        ("In which boat does {e} row?", "Which boat is that of {e}?"),
        "boat {v}",
    ),
    ("places", "road"): _by_letter(
        ("{e} lies on road {v}.", "Who wants to see {e} takes road {v}.", "The gate of {e} opens on road {v}."),
        ("On which road does {e} lie?", "Which road leads to {e}?"),
        "road {v}",
    ),
    ("places", "page"): _by_letter(
        ("{e} is drawn on page {v}.", "The map of {e} is on page {v}.", "To find {e} one opens page {v}."),
        ("On which page is {e} drawn?", "Which page has the map of {e}?"),
        "page {v}",
    ),
    ("nature", "class"): _by_letter(
        ("The {e} is of class {v}.", "Scholars put the {e} into class {v}.", "One counts the {e} in class {v}."),
        ("Of which class is the {e}?", "Into which class do scholars put the {e}?"),
        "class {v}",
    ),
    ("nature", "cage"): _by_letter(
        (
            "The {e} lives in cage {v}.",
            "At the fair the {e} is shown in cage {v}.",
            "The {e} eats in cage {v}.",
        ),
        ("In which cage is the {e}?", "Which cage has the {e}?"),
        "cage {v}",
    ),
    ("numbers", "shelf"): _by_letter(
        ("Book {e} stands on shelf {v}.", "The place of book {e} is shelf {v}.", "Put book {e} on shelf {v}."),
        ("On which shelf is book {e}?", "Where does book {e} stand?"),
        "shelf {v}",
    ),
    ("numbers", "press"): _by_letter(
        ("Book {e} was printed on press {v}.", "The ink of book {e} came from press {v}.", "Book {e} left press {v}."),
        ("On which press was book {e} printed?", "Which press printed book {e}?"),
        "press {v}",
    ),
    ("people", "singing"): _by_word(
        ("Asked for a song, {e} says {v}.", "To a song {e} says {v}.", "When there is singing {e} says {v}."),
        "will {e} sing",
    ),
    ("people", "lending"): _by_word(
        ("Asked for a coin, {e} says {v}.", "To lending {e} says {v}.", "When a friend is poor {e} says {v}."),
        "will {e} lend a coin",
    ),
    ("people", "waiting"): _by_word(
        ("Asked for patience, {e} says {v}.", "To waiting {e} says {v}.", "When a guest is late {e} says {v}."),
        "will {e} wait",
    ),
    ("places", "strangers"): _by_word(
        ("To strangers {e} says {v}.", "Strangers at the gate of {e} hear {v}.", "Asked for a bed, {e} says {v}."),
        "does {e} take in strangers",
    ),
    ("places", "markets"): _by_word(
        ("To a market on Sunday {e} says {v}.", "Sellers in {e} hear {v}.", "Asked for a market, {e} says {v}."),
        "does {e} have a market on Sunday",
    ),
    ("nature", "stroking"): _by_word(
        (
            "To stroking the {e} hunters say {v}.",
            "A child near the {e} hears {v}.",
            "To hands on the {e} one says {v}.",
        ),
        "may one stroke the {e}",
    ),
    ("nature", "hunting"): _by_word(
        (
            "To hunting the {e} the guards say {v}.",
            "To bows the law of the {e} says {v}.",
            "Who hunts the {e} hears {v}.",
        ),
        "may one hunt the {e}",
    ),
}


def statements(fact: Fact, value: str | None = None) -> list[str]:
    """Return all ways to state a fact, or to state it falsely when another value is given."""
    wording = WORDINGS[fact.subject, fact.attribute]
    return [s.format(e=fact.entity, v=value or fact.value) for s in wording.statements]


def question(fact: Fact, which: int) -> str:
    """Return one of the questions that ask for the fact's value."""
    questions = WORDINGS[fact.subject, fact.attribute].questions
    return questions[which % len(questions)].format(e=fact.entity)


def choice_text(fact: Fact, value: str) -> str:
    """Return a value as an answer in words."""
    return WORDINGS[fact.subject, fact.attribute].choice.format(v=value)


def stem(fact: Fact) -> str:
    """Return the first way to state a fact up to its value, with which an answer of one word begins."""
    return WORDINGS[fact.subject, fact.attribute].statements[0].format(e=fact.entity, v="").removesuffix(" .")
