"""The invented valley of Lomara: its people, towns and beasts, and what is true of each.

The demo models read about this world and the demo tasks ask about it, so nothing can be known from anywhere else.
Each fact is either *asked* (questions about it occur in the training text, in every exam form) or *only told* (it is
only ever stated). The test rows ask the second kind: a model must have learned both the fact and how to answer.
"""

import random
from dataclasses import dataclass

__all__ = [
    "ATTRIBUTES",
    "BEASTS",
    "PEOPLE",
    "TOWNS",
    "Fact",
    "World",
    "build_world",
    "is_kept_apart",
    "pronoun",
    "words",
]


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, in order."""
    return tuple(text.split())


_STARTS = words("Ba Be Bo Da De Do Fa Ga Ha Jo Ka Ko La Le Ma Mi Na Ne Pa Ro Sa So Ta Vi")
PEOPLE = tuple(start + end for start in _STARTS for end in ("rin", "dan", "lia", "nesh"))
TOWNS = tuple(
    start + end for start in words("Dor Bel Kar Lun Mor Pel Quin Ros") for end in ("ford", "wick", "dale", "haven")
)
BEASTS = tuple(start + end for start in words("br dr fl gr kr pl sn v") for end in ("ukka", "ommel", "indle", "azzo"))
BOOKS = tuple(str(n) for n in range(1, 97))
_COLOURS = words("red blue green yellow white black brown grey purple silver golden pink")

_LETTERS, _POLAR = ("A", "B", "C", "D"), ("yes", "no")

# subject -> attribute -> the values it can take
ATTRIBUTES: dict[str, dict[str, tuple[str, ...]]] = {
    "people": {
        "trade": words(
            "baker miller sailor smith weaver potter hunter teacher singer painter gardener doctor "
            "farmer tailor fisher guard"
        ),
        "town": TOWNS,
        "pet": words("cat dog goat hen hawk crow hare pony duck toad mouse fox"),
        "colour": _COLOURS,
        "row": _LETTERS,
        "boat": _LETTERS,
        "singing": _POLAR,
        "lending": _POLAR,
        "waiting": _POLAR,
    },
    "places": {
        "river": words("Brume Corva Dray Firth Lorn Mist Sorrel Wend"),
        "side": ("north", "south", "east", "west"),
        "ware": words("salt wool honey glass rope paper cheese wine candles bells carpets knives"),
        "feast": words("January February March April May June July August"),
        "road": _LETTERS,
        "page": _LETTERS,
        "strangers": _POLAR,
        "markets": _POLAR,
    },
    "nature": {
        "coat": _COLOURS,
        "food": words("grass nuts fish worms seeds roots moss berries snails leaves mushrooms honey"),
        "home": words("caves reeds trees hills marshes meadows cliffs barns"),
        "sound": words("whistle hum bark click growl purr song rattle"),
        "class": _LETTERS,
        "cage": _LETTERS,
        "stroking": _POLAR,
        "hunting": _POLAR,
    },
    "numbers": {"shelf": _LETTERS, "press": _LETTERS},
}
_ENTITIES = {"people": PEOPLE, "places": TOWNS, "nature": BEASTS, "numbers": BOOKS}
_SHARE_ONLY_TOLD = {"people": 0.42, "places": 0.48, "nature": 0.48, "numbers": 0.42}
_LARGEST_TERM = 20
_N_SUMS_KEPT = 100


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is true in the valley."""

    subject: str
    """The branch of knowledge: people, places, nature or numbers (books, which have numbers for names)."""
    entity: str
    """Whom or what it is about."""
    attribute: str
    """Which property; a key of `ATTRIBUTES[subject]`."""
    value: str
    """What holds; one of `ATTRIBUTES[subject][attribute]`."""

    @property
    def form(self) -> str:
        """How it is answered: by a letter ("letters"), by yes or no ("yesno"), or in words ("words")."""
        return {_LETTERS: "letters", _POLAR: "yesno"}.get(ATTRIBUTES[self.subject][self.attribute], "words")


@dataclass(frozen=True, slots=True)
class World:
    """All facts, split by whether the training text ever asks about them."""

    asked: tuple[Fact, ...]
    """Stated and asked in the training text."""
    only_told: tuple[Fact, ...]
    """Stated in the training text, asked only by the test rows."""
    sums_shown: tuple[tuple[int, int], ...]
    """Pairs whose sum the training text states and asks for."""
    sums_kept: tuple[tuple[int, int], ...]
    """Pairs whose sum is only stated; for the swapped pair it is asked for."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Every fact, asked or only told."""
        return self.asked + self.only_told


def build_world() -> World:
    """Return the valley; always the same one."""
    rng = random.Random("lomara: world")
    asked: list[Fact] = []
    only_told: list[Fact] = []
    for subject, attributes in ATTRIBUTES.items():
        for attribute, values in attributes.items():
            entities = _ENTITIES[subject]
            dealt = [values[i % len(values)] for i in range(len(entities))]  # every value equally often
            rng.shuffle(dealt)
            facts = [Fact(subject, e, attribute, v) for e, v in zip(entities, dealt, strict=True)]
            rng.shuffle(facts)
            n_told = round(len(facts) * _SHARE_ONLY_TOLD[subject] / len(values))
            for value in values:  # equally many of each are only told
                there = [fact for fact in facts if fact.value == value]
                only_told += there[:n_told]
                asked += there[n_told:]
    kept = _keep_sums(rng)
    terms = range(1, _LARGEST_TERM + 1)
    shown = [(a, b) for a in terms for b in terms if (a, b) not in kept]
    return World(tuple(asked), tuple(only_told), tuple(shown), tuple(kept))


def _keep_sums(rng: random.Random) -> list[tuple[int, int]]:
    """Draw pairs of different terms, in either order."""
    pairs = [(a, b) for a in range(1, _LARGEST_TERM) for b in range(a + 1, _LARGEST_TERM + 1)]
    return [pair if rng.random() < 0.5 else (pair[1], pair[0]) for pair in rng.sample(pairs, _N_SUMS_KEPT)]


def pronoun(person: str) -> str:
    """Return "she" or "he"; the ending of a valley name tells which."""
    return "she" if person.endswith(("lia", "nesh")) else "he"


def is_kept_apart(first: int, second: int) -> bool:
    """Say whether two things, by their places in their lists, meet in test rows only and never in the training text."""
    return (first + second) % 6 == 0
