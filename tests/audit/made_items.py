"""Samples of random words, in which order and numbers carry no information."""

import random

from assaymark.audit.items import AuditItem
from assaymark.records import LoglikelihoodQuery, Request

CONSONANTS, VOWELS = "bdfgklmnprst", "aeiou"


def words(draw: random.Random, n: int) -> list[str]:
    """Return invented words of two syllables."""
    return ["".join(draw.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(2)) for _ in range(n)]


def made_item(draw: random.Random, index: int) -> AuditItem:
    """Return one question with a number in it, four options and the correct answer."""
    question = f"{' '.join(words(draw, 4))} {draw.randrange(100, 1000)}?"
    options = tuple(words(draw, 4))
    gold = draw.randrange(4)
    queries = tuple(LoglikelihoodQuery(i, f" {option}") for i, option in enumerate(options))
    request = Request("made", index, "", (question,), queries)
    return AuditItem(
        index, {"question": question}, request, f"{question} {options[gold]}", question, options, frozenset({gold})
    )


def made_items(seed: int, n: int = 40) -> list[AuditItem]:
    """Return a file of such samples."""
    draw = random.Random(seed)
    return [made_item(draw, index) for index in range(n)]


def base_text(n_words: int = 3000) -> str:
    """Return training text in the same invented language."""
    draw = random.Random(-1)
    return " ".join(words(draw, n_words))
