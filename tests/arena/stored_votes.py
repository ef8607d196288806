"""Voters whose preferences are known, and arenas over made-up answers, for tests."""

from pathlib import Path

import numpy as np

from assaymark.arena.answer_files import ArenaPrompt, StoredAnswers
from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.ballots import Publishing, VoteLimits, Voter
from assaymark.arena.battles import Arena
from assaymark.randomness import generator_for
from assaymark.statistics.bradley_terry import ELO_SCALE
from assaymark.store import Store

NO_LIMITS = VoteLimits(0.0, 10**9, 10**9, 10**9)
STRENGTHS = {"owl": 150.0, "fox": 50.0, "hen": -50.0, "eel": -150.0}  # in points


def answers(n_prompts: int = 40) -> StoredAnswers:
    """Return answers from which the model can be read by tests alone."""
    prompts = {f"p{n}": ArenaPrompt(f"p{n}", f"Prompt {n}?", ("even", "odd")[n % 2]) for n in range(n_prompts)}
    inputs = {name: {key: f"text {index} of {key}" for key in prompts} for index, name in enumerate(STRENGTHS)}
    return StoredAnswers("made up", prompts, inputs)


def arena_in(path: Path, seed: int = 0, **named: object) -> Arena:
    """Return an arena in a new store."""
    return Arena(Store.open(str(path)), answers(), named.pop("limits", NO_LIMITS), seed=seed, **named)  # type: ignore[arg-type]


PROMPTS = {
    "English": "Which road leads to the harbour, and how long does the walk take?",
    "French": "Quelle route mène au port, et combien de temps dure la promenade ?",
    "German": "Welche Straße führt zum Hafen, und wie lange dauert der Weg dorthin?",
    None: "2 + 2?",
}


def spoken_arena(path: Path) -> Arena:
    """Return an arena with forty prompts: in three languages, half of them English, and four in no clear one."""
    languages = ["English", "English", "French", "German", "English", None, "French", "English", "German", "English"]
    prompts = {f"p{n}": ArenaPrompt(f"p{n}", f"{PROMPTS[languages[n % 10]]} ({n})") for n in range(40)}
    inputs = {name: {key: f"text {index} of {key}" for key in prompts} for index, name in enumerate(STRENGTHS)}
    source = StoredAnswers("made up", prompts, inputs)
    return Arena(Store.open(str(path)), source, NO_LIMITS, seed=3, publishing=Publishing(200, 1e9, 10))


def honest_choice(model_a: str, model_b: str, generator: np.random.Generator, side: float = 0.0) -> str:
    """Return the vote of a voter with these strengths: a tenth ties, a twentieth both bad. `side`: points for A."""
    draw = generator.random()
    if draw < 0.15:
        return "tie" if draw < 0.1 else "both_bad"
    ahead = (STRENGTHS[model_a] - STRENGTHS[model_b] + side) / ELO_SCALE
    return "a" if generator.random() < 1 / (1 + np.exp(-ahead)) else "b"


def cast(arena: Arena, n: int, *, voters: int = 10, seed: int = 1, side: float = 0.0) -> None:
    """Cast n honest votes."""
    generator = generator_for("votes", seed)
    for number in range(n):
        voter = Voter(f"voter {number % voters}", "origin")
        result = arena.begin(voter)
        stored = ArenaLog(arena.store).battle(result.token)
        assert stored is not None
        choice = honest_choice(stored.model_a, stored.model_b, generator, side)
        arena.vote(voter, result.token, choice, f"key {result.token}")
