"""Writes the data files of the demo tasks, the same bytes every time.

    python demo/write_benchmark.py --out src/assaymark/library/demo/data

Test rows ask what the training text never asks: facts that are only told there, sums left out of it, and pairs of
people, things and words that never meet in its exams. Few-shot rows are of the other kind, so they give nothing away.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

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
from demo.world import Fact, World, build_world

__all__ = ["DATA_FOLDER", "SIZES", "make_rows", "write_files"]

DATA_FOLDER = Path(__file__).resolve().parents[1] / "src" / "assaymark" / "library" / "demo" / "data"

# task -> rows in the test split, rows in the train split
SIZES = {
    "demo_letters_people": (76, 20),
    "demo_letters_places": (28, 16),
    "demo_letters_nature": (28, 16),
    "demo_letters_numbers": (68, 20),
    "demo_facts": (200, 40),
    "demo_who": (150, 40),
    "demo_truth": (150, 20),
    "demo_yesno": (160, 40),
    "demo_stories": (100, 20),
    "demo_last_word": (130, 20),
    "demo_sums": (100, 20),
    "demo_orders": (150, 20),
}


def make_rows(task: str, split: str) -> list[Row]:
    """Return the rows of one split ("test" or "train"); no two are the same."""
    for_test = split == "test"
    rng = random.Random(f"lomara: {task} {split}")
    n = SIZES[task][0 if for_test else 1]
    world = build_world()
    facts = world.only_told if for_test else world.asked
    if task.startswith("demo_letters_"):
        ours = [f for f in facts if f.form == "letters" and f.subject == task.removeprefix("demo_letters_")]
        return [letters_row(rng, fact) for fact in _balanced_facts(rng, ours, "ABCD", n)]
    if task == "demo_yesno":
        ours = _balanced_facts(rng, [f for f in facts if f.form == "yesno"], ("yes", "no"), n)
        return [yesno_row(rng, fact, _others_of(rng, world, fact)) for fact in ours]
    if task == "demo_orders":
        return _distinct(n, lambda: orders_row(rng, for_test=for_test))
    if task == "demo_sums":
        return [sums_row(pair) for pair in rng.sample(world.sums_kept if for_test else world.sums_shown, n)]
    in_words = [f for f in facts if f.form == "words"]
    return _rows_in_words(task, rng, in_words, n, for_test=for_test)


def _rows_in_words(task: str, rng: random.Random, facts: Sequence[Fact], n: int, *, for_test: bool) -> list[Row]:
    """Return the rows of a task whose answers are phrases, names or the ends of stories."""
    if task == "demo_facts":
        return [facts_row(rng, *each) for each in zip(rng.sample(facts, n), _balanced(rng, 4, n), strict=True)]
    if task == "demo_truth":
        return [truth_row(rng, fact, rng.randrange(2, 4), rng.randrange(2, 5)) for fact in rng.sample(facts, n)]
    if task == "demo_who":
        drawn = zip(rng.sample([f for f in facts if f.subject == "people"], n), _balanced(rng, 2, n), strict=True)
        return [who_row(rng, fact, _somebody_else(rng, facts, fact), gold) for fact, gold in drawn]
    memories = [f for f in facts if f.attribute in MEMORIES]
    if task == "demo_stories":
        return _distinct(n, lambda: stories_row(rng, rng.choice(memories), for_test=for_test))
    ends = [*rng.sample(memories, n // 2), *[None] * (n // 2)]  # half need a memory, half the story alone
    rng.shuffle(ends)
    rows = iter(ends)
    return _distinct(n, lambda: last_word_row(rng, next(rows), for_test=for_test))


def _others_of(rng: random.Random, world: World, fact: Fact) -> list[Fact]:
    return rng.sample([f for f in world.facts if f.entity == fact.entity and f.form == "words"], 2)


def _balanced_facts(rng: random.Random, facts: Sequence[Fact], values: Sequence[str], n: int) -> list[Fact]:
    """Draw `n` facts with each value equally often."""
    drawn = [fact for v in values for fact in rng.sample([f for f in facts if f.value == v], n // len(values))]
    rng.shuffle(drawn)
    return drawn


def _somebody_else(rng: random.Random, facts: Sequence[Fact], fact: Fact) -> str:
    """Draw somebody of whom the text asks the same as of the fact's person; else how often it asks would tell."""
    return rng.choice([f.entity for f in facts if f.attribute == fact.attribute and f.value != fact.value])


def _balanced(rng: random.Random, n_places: int, n: int) -> list[int]:
    """Return `n` places of the right answer, each equally often, in random order."""
    places = [i % n_places for i in range(n)]
    rng.shuffle(places)
    return places


def _distinct(n: int, make: Callable[[], Row]) -> list[Row]:
    """Call `make` until there are `n` different rows; too many repetitions mean a mistake."""
    rows: dict[str, Row] = {}
    for _ in range(2 * n):
        row = make()
        rows.setdefault(json.dumps(row), row)
        if len(rows) == n:
            return list(rows.values())
    raise ValueError(f"{2 * n} generated rows have only {len(rows)} different ones: widen the generator")


def write_files(folder: Path) -> None:
    """Write `<folder>/<task>/<split>.jsonl` for every task and split."""
    for task in SIZES:
        (folder / task).mkdir(parents=True, exist_ok=True)
        for split in ("test", "train"):
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in make_rows(task, split)]
            (folder / task / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8", newline="\n")


def main() -> None:
    """Write the data files."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", type=Path, default=DATA_FOLDER)
    arguments = parser.parse_args()
    write_files(arguments.out)
    print(f"wrote {2 * len(SIZES)} files below {arguments.out}")


if __name__ == "__main__":
    main()
