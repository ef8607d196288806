"""Writes the data files of the demo tasks, the same bytes every time.

    python demo/write_benchmark.py --out src/evalstone/library/demo/data

Test rows ask what the training text never asks: facts that are only told there, sums left out of it, and pairs of
people and things that never meet in it. Few-shot rows are of the other kind, so they give nothing away.
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
    stories_row,
    sum_row,
    truth_row,
    who_row,
    yesno_row,
)
from demo.stories import MEMORIES
from demo.world import Fact, World, build_world

__all__ = ["DATA_FOLDER", "SIZES", "make_rows", "write_files"]

DATA_FOLDER = Path(__file__).resolve().parents[1] / "src" / "evalstone" / "library" / "demo" / "data"

# task -> rows in the test split, rows in the train split
SIZES = {
    "demo_letters_people": (64, 20),
    "demo_letters_places": (48, 20),
    "demo_letters_nature": (48, 20),
    "demo_letters_numbers": (40, 20),
    "demo_facts": (200, 40),
    "demo_who": (150, 40),
    "demo_truth": (150, 20),
    "demo_yesno": (200, 40),
    "demo_stories": (100, 20),
    "demo_last_word": (160, 20),
}


def make_rows(task: str, split: str) -> list[Row]:
    """Return the rows of one split ("test" or "train"); no two are the same."""
    world = build_world()
    for_test = split == "test"
    rng = random.Random(f"lomara: {task} {split}")
    n = SIZES[task][0 if for_test else 1]
    if task == "demo_letters_numbers":
        return _balanced_rows(rng, [sum_row(p) for p in (world.sums_kept if for_test else world.sums_shown)], n)
    facts = world.only_told if for_test else world.asked
    if task.startswith("demo_letters_"):
        subject = task.removeprefix("demo_letters_")
        return _balanced_rows(rng, [letters_row(rng, fact) for fact in facts if fact.subject == subject], n)
    if task == "demo_facts":
        return [facts_row(rng, *each) for each in zip(rng.sample(facts, n), _balanced(rng, 4, n), strict=True)]
    if task == "demo_truth":
        return [truth_row(rng, fact, rng.randrange(2, 4), rng.randrange(2, 5)) for fact in rng.sample(facts, n)]
    if task == "demo_yesno":
        drawn = zip(rng.sample(facts, n), _balanced(rng, 2, n), strict=True)
        return [yesno_row(rng, fact, _others_of(rng, world, fact), label) for fact, label in drawn]
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
    return rng.sample([f for f in world.facts if f.entity == fact.entity and f != fact], 2)


def _somebody_else(rng: random.Random, facts: Sequence[Fact], fact: Fact) -> str:
    """Draw somebody of whom the text asks the same as of the fact's person; else how often it asks would tell."""
    return rng.choice([f.entity for f in facts if f.attribute == fact.attribute and f.value != fact.value])


def _balanced_rows(rng: random.Random, rows: list[Row], n: int) -> list[Row]:
    """Draw `n` rows with each answer equally often."""
    drawn = [row for gold in range(4) for row in rng.sample([r for r in rows if r["answer"] == gold], n // 4)]
    rng.shuffle(drawn)
    return drawn


def _balanced(rng: random.Random, n_places: int, n: int) -> list[int]:
    """Return `n` places of the right answer, each equally often, in random order."""
    places = [i % n_places for i in range(n)]
    rng.shuffle(places)
    return places


def _distinct(n: int, make: Callable[[], Row]) -> list[Row]:
    """Call `make` `n` times; the space of rows is large enough that a repetition means a mistake."""
    rows = [make() for _ in range(n)]
    if len({json.dumps(row) for row in rows}) != n:
        raise ValueError(f"two of {n} generated rows are the same: change the seed or widen the generator")
    return rows


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
