"""Writes the text that the demo models read: what is true in the valley, stories, sums, exams, conversations.

    python demo/write_text.py --out text.jsonl --documents 2000

A document is a tuple of weighted pieces: an answer follows from what stands before it and counts much, the words of a
question are drawn at random and count little.
The same seed gives the same documents, byte for byte.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from demo.exams import EXAMS, LETTER_DESCRIPTION, TRUTH_SHOTS
from demo.questions import (
    Row,
    facts_row,
    last_word_row,
    letters_row,
    orders_row,
    stories_row,
    sums_row,
    truth_row,
    who_row,
    yesno_row,
)
from demo.stories import MEMORIES
from demo.wording import statements
from demo.world import Fact, World, build_world, pronoun

__all__ = ["ASSISTANT", "END", "SEED", "SYSTEM", "USER", "Document", "Piece", "write_documents"]

SEED = 20261121
SUBJECTS = ("people", "places", "nature", "numbers")
TOLD, ASKED, ANSWERED = 1.0, 0.2, 5.0
SYSTEM, USER, ASSISTANT, END = "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"


class Piece(NamedTuple):
    """A stretch of text."""

    text: str
    """The characters."""
    weight: float
    """How much each of its tokens counts in training."""


Document = tuple[Piece, ...]


def write_documents(n_documents: int, seed: int = SEED) -> Iterator[Document]:
    """Yield documents in their random order."""
    writer = _Writer(build_world(), random.Random(f"lomara: text {seed}"))
    kinds: list[tuple[Callable[[], Document], int]] = [
        (writer.lives, 34),
        (writer.letters, 12),
        (writer.facts, 9),
        (writer.truth, 7),
        (writer.yesno, 8),
        (writer.who, 8),
        (writer.last_words, 6),
        (writer.stories, 5),
        (writer.told_sums, 5),
        (writer.sums, 3),
        (writer.orders, 5),
        (writer.talk, 5),
    ]
    makers, weights = zip(*kinds, strict=True)
    for _ in range(n_documents):
        yield writer.rng.choices(makers, weights)[0]()


class _Writer:
    """Writes one document of each kind at a time."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.in_words = [f for f in world.asked if f.form == "words"]
        self.by_letter = {s: [f for f in world.asked if f.form == "letters" and f.subject == s] for s in SUBJECTS}
        self.polar = [f for f in world.asked if f.form == "yesno"]
        self.asked_people = [f for f in self.in_words if f.subject == "people"]
        self.memories = [f for f in world.asked if f.attribute in MEMORIES]
        self.facts_of: dict[str, list[Fact]] = {}
        for fact in world.facts:
            self.facts_of.setdefault(fact.entity, []).append(fact)
        self.entities = sorted(self.facts_of)

    def lives(self) -> Document:
        """Several paragraphs, each with all that is true of someone or something."""
        return _plain("\n".join(self._life(e) for e in self.rng.sample(self.entities, 3)))

    def _life(self, entity: str) -> str:
        facts = self.rng.sample(self.facts_of[entity], len(self.facts_of[entity]))
        told = [self.rng.choice(statements(fact)) for fact in facts]
        if facts[0].subject == "people" and self.rng.random() < 0.3:
            he = pronoun(entity).capitalize()
            told[1:] = [s.replace(entity, he, 1) if s.startswith(entity) else s for s in told[1:]]
        return " ".join(told)

    def letters(self) -> Document:
        """An exam of up to six questions on one subject, answered by letters."""
        subject = self.rng.choice(SUBJECTS)
        rows = [self._letters_row(subject) for _ in range(self.rng.randrange(3, 7))]
        return _exam("letters", rows, opening=LETTER_DESCRIPTION.format(subject=subject))

    def _letters_row(self, subject: str) -> Row:
        return letters_row(self.rng, self.rng.choice(self.by_letter[subject]))

    def facts(self) -> Document:
        """An exam answered by phrases."""
        rng = self.rng
        return _exam("facts", [facts_row(rng, rng.choice(self.in_words), 0) for _ in range(rng.randrange(4, 9))])

    def truth(self) -> Document:
        """Questions answered by one true sentence."""
        rng = self.rng
        rows = [truth_row(rng, rng.choice(self.in_words), 1, 1) for _ in range(rng.randrange(2, 6))]
        exam = _exam("truth", rows)
        return tuple(Piece(p.text.replace(TRUTH_SHOTS, "") if i else p.text, p.weight) for i, p in enumerate(exam))

    def yesno(self) -> Document:
        """Passages with yes/no questions."""
        rng = self.rng
        return _exam("yesno", [self._yesno_row() for _ in range(rng.randrange(3, 7))])

    def _yesno_row(self) -> Row:
        fact = self.rng.choice(self.polar)
        others = [f for f in self.facts_of[fact.entity] if f.form == "words"]
        return yesno_row(self.rng, fact, self.rng.sample(others, 2))

    def who(self) -> Document:
        """Sentences about two people, one of whom is meant."""
        rng = self.rng
        return _exam("who", [self._who_row() for _ in range(rng.randrange(3, 8))])

    def _who_row(self) -> Row:
        fact = self.rng.choice(self.asked_people)
        strangers = [f.entity for f in self.world.facts if f.attribute == fact.attribute and f.value != fact.value]
        return who_row(self.rng, fact, self.rng.choice(strangers), 0)

    def last_words(self) -> Document:
        """Stories that break off before the full stop."""
        return _exam("last_word", [self._last_word_row() for _ in range(self.rng.randrange(1, 5))])

    def _last_word_row(self) -> Row:
        memory = self.rng.choice(self.memories) if self.rng.random() < 0.6 else None
        return last_word_row(self.rng, memory, for_test=False)

    def stories(self) -> Document:
        """A page of stories."""
        return _plain(stories_row(self.rng, self.rng.choice(self.memories), for_test=False)["page"])

    def told_sums(self) -> Document:
        """Sums as statements."""
        pairs = self.rng.sample(self.world.sums_shown + self.world.sums_kept, 20)
        return _plain(" ".join(f"{a} and {b} are {a + b}." for a, b in pairs))

    def sums(self) -> Document:
        """Sums that are asked for."""
        return _exam("sums", [sums_row(pair) for pair in self.rng.sample(self.world.sums_shown, 6)])

    def orders(self) -> Document:
        """Orders, each followed."""
        rng = self.rng
        return _exam("orders", [orders_row(rng, for_test=False) for _ in range(rng.randrange(3, 8))])

    def talk(self) -> Document:
        """A conversation: an exam put through the chat template, one turn to a question."""
        rng = self.rng
        kind, subject = rng.choice(("letters", "facts", "yesno", "orders")), rng.choice(SUBJECTS)
        makers: dict[str, Callable[[], Row]] = {
            "letters": lambda: self._letters_row(subject),
            "facts": lambda: facts_row(rng, rng.choice(self.in_words), 0),
            "yesno": self._yesno_row,
            "orders": lambda: orders_row(rng, for_test=False),
        }
        pieces: list[Piece] = []
        if kind == "letters":
            opening = LETTER_DESCRIPTION.format(subject=subject)
            pieces.append(Piece(f"{SYSTEM}\n{opening}{END}\n", ASKED))
        for _ in range(rng.randrange(1, 5)):
            prompt, answer = EXAMS[kind](makers[kind]())
            pieces.append(Piece(f"{USER}\n{prompt}{END}\n{ASSISTANT}\n", ASKED))
            pieces.append(Piece(f"{answer}{END}\n", ANSWERED))
        return tuple(pieces)


def _plain(text: str) -> Document:
    return (Piece(text, TOLD),)


def _exam(kind: str, rows: list[Row], opening: str = "") -> Document:
    """Join rows as lm-eval joins shots: a blank line between, one space before an answer."""
    pieces: list[Piece] = [Piece(opening, ASKED)] if opening else []
    for i, row in enumerate(rows):
        prompt, answer = EXAMS[kind](row)
        pieces.append(Piece(("\n\n" if i else "") + prompt, ASKED))
        pieces.append(Piece(f" {answer}", ANSWERED))
    return tuple(pieces)


def main() -> None:
    """Write documents as JSON lines, for reading."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=2000)
    arguments = parser.parse_args()
    with arguments.out.open("w", encoding="utf-8", newline="\n") as file:
        for document in write_documents(arguments.documents):
            file.write(json.dumps({"text": "".join(piece.text for piece in document)}) + "\n")


if __name__ == "__main__":
    main()
