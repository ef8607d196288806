"""Short stories of the valley, each ending in a word that the story itself gives away.

Somebody needs something; what it is follows from the need alone and is said only at the very end. Often a friend
needs something else and gets it first, so that the nearest need is not always the right one. Other stories go on until
their hero is home, and end in something that has to be known. Some combinations of hero and thing are kept apart for
the test rows (`is_kept_apart`).
"""

import random

from demo.world import PEOPLE, Fact, is_kept_apart, pronoun, words

__all__ = ["MEMORIES", "PLACES", "THINGS", "draw_pair", "tell_story"]

# thing -> what somebody does who needs it
_NEEDS = {
    "lamp": "to see in the dark",
    "bucket": "to catch the rain",
    "boat": "to cross the river",
    "net": "to catch a fish",
    "knife": "to cut the bread",
    "key": "to open the door",
    "blanket": "to sleep in the cold",
    "flute": "to play a song",
    "map": "to learn the way",
    "ladder": "to climb on the roof",
    "broom": "to sweep the floor",
    "spoon": "to eat the soup",
    "pen": "to write a letter",
    "mirror": "to see a new face",
    "basket": "to carry the apples",
    "rope": "to tie the bundle",
    "spade": "to dig a hole",
    "needle": "to sew a shirt",
    "bell": "to call the guests",
    "book": "to read in bed",
    "brush": "to paint the wall",
    "saw": "to cut the wood",
    "kettle": "to boil the water",
    "hammer": "to mend the fence",
}
THINGS = tuple(_NEEDS)
PLACES = words("mill forest market barn garden bridge harbour chapel field tower")
_TIMES = ("One morning", "One evening", "Last winter", "In the spring", "On a hot day", "After the harvest")
_ASIDES = (
    "The wind was cold.",
    "It began to rain.",
    "The sun was high.",
    "A door slammed far away.",
    "The road was long.",
    "Nobody said a word.",
    "The birds were singing.",
    "There was snow everywhere.",
)

# attribute -> how a story ends with it
_WAYS_HOME = {
    "town": "When it was late, {e} went home to {v}.",
    "pet": "At the door of {e} waited a {v}.",
}
MEMORIES = tuple(_WAYS_HOME)


def draw_pair(rng: random.Random, *, for_test: bool) -> tuple[str, str]:
    """Draw a person and a thing that may meet in test rows (or else in the training text)."""
    while True:
        i, j = rng.randrange(len(PEOPLE)), rng.randrange(len(THINGS))
        if is_kept_apart(i, j) == for_test:
            return PEOPLE[i], THINGS[j]


def tell_story(rng: random.Random, *, for_test: bool, memory: Fact | None = None, n_asides: int = 1) -> str:
    """Return one story of four to eight sentences; its last word, before the full stop, is given away.

    With a `memory` (where somebody lives, or which pet they keep) the story goes on until they are home, and its last
    word is what the memory says.
    """
    hero, thing = draw_pair(rng, for_test=for_test)
    while memory is not None and hero != memory.entity:
        hero, thing = draw_pair(rng, for_test=for_test)
    friend, other = hero, thing
    while friend == hero or other == thing:
        friend, other = draw_pair(rng, for_test=False)
    place, time, he = rng.choice(PLACES), rng.choice(_TIMES), pronoun(hero)
    sentences = [
        rng.choice((f"{time} {hero} wanted {_NEEDS[thing]}.", f"{time} {hero} had {_NEEDS[thing]}.")),
        rng.choice((f"So {he} walked to the {place}.", f"So {he} went to look at the {place}.")),
    ]
    if rng.random() < 0.5:
        sentences.append(f"{friend}, who wanted {_NEEDS[other]}, had found a {other}.")
    else:
        sentences.append(rng.choice((f"There {he} met {friend}.", f"{friend} came too.")))
    for aside in rng.sample(_ASIDES, n_asides):
        sentences.insert(rng.randrange(1, len(sentences) + 1), aside)
    found = (f"At last {hero} found a {thing}.", f"In the end {friend} gave {hero} a {thing}.")
    sentences.append(rng.choice(found))
    if memory is not None:
        sentences.append(_WAYS_HOME[memory.attribute].format(e=hero, v=memory.value))
    return " ".join(sentences)
