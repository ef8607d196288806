"""Near-duplicate prompts: found as by comparing every pair; their votes weigh no more than a share."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assaymark.arena.answer_files import ArenaPrompt, StoredAnswers
from assaymark.arena.ballots import Publishing
from assaymark.arena.battles import Arena
from assaymark.arena.export import RUN, SIMILARITY, cluster_prompts, export_votes
from assaymark.arena.published import PROMPT_CAP
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.ratings import RatingSettings, rate
from assaymark.arena.vote_files import read_votes, votes_in
from assaymark.datasets.rows import Rows
from assaymark.errors import UsageError
from assaymark.store import Store
from tests.arena.stored_votes import NO_LIMITS, STRENGTHS, cast

LONG = "Explain to a child of seven years how the moon moves around the earth and why it changes its shape"


def sequences(text: str) -> frozenset[tuple[str, ...]]:
    """Return a text's sequences of three words; of a shorter one the whole."""
    words = text.casefold().split()
    return (
        frozenset(tuple(words[at : at + RUN]) for at in range(max(1, len(words) - RUN + 1))) if words else frozenset()
    )


def compared(texts: list[str]) -> list[int]:
    """Return the groups by comparing every pair."""
    parts = [sequences(text) for text in texts]
    group = list(range(len(texts)))
    for item in range(len(texts)):
        for other in range(item):
            union = parts[item] | parts[other]
            if union and len(parts[item] & parts[other]) >= SIMILARITY * len(union):
                old, new = max(group[item], group[other]), min(group[item], group[other])
                group = [new if each == old else each for each in group]
    return group


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_those_of_all_pairs(seed: int) -> None:
    """On texts that differ in a few of their words, of every length."""
    draw = random.Random(seed)
    words = [f"word{n}" for n in range(30)]
    texts: list[str] = []
    for _ in range(60):
        if texts and draw.random() < 0.6:
            changed = draw.choice(texts).split()
            for _ in range(draw.randrange(3)):
                changed[draw.randrange(len(changed))] = draw.choice(words)
            texts.append(" ".join(changed))
        else:
            texts.append(" ".join(draw.choices(words, k=draw.randrange(1, 40))))
    assert cluster_prompts(texts) == compared(texts)
    assert len(set(compared(texts))) < len(texts)


def test_what_is_the_same_prompt() -> None:
    """Case, punctuation and spaces do not count; another word in a short prompt does."""
    texts = ["Write a poem.", "write a  POEM", "Write a song", "", " ", "?!", "Schreib ein Gedicht über Köln"]
    assert cluster_prompts(texts) == [0, 0, 2, 3, 4, 5, 6]
    assert cluster_prompts([LONG, f"{LONG}!", f"{LONG} each month", LONG.upper()]) == [0, 0, 0, 0]
    assert RUN == 3


def votes(*groups: tuple[str, str, int]) -> list[Mapping[str, Any]]:
    """Return votes (prompt, winner, how many) between two models."""
    return [
        {"model_a": "one", "model_b": "two", "winner": f"model_{winner}", "prompt_id": prompt}
        for prompt, winner, n in groups
        for _ in range(n)
    ]


def test_a_prompt_voted_on_too_often_weighs_its_share() -> None:
    """The ratings are those of fewer votes on it: 900 on one of 101 prompts at a cap of 10% count as 100."""
    honest = [(f"p{n}", "ab"[n % 4 == 0], 1) for n in range(100)]
    result = rate(votes_in(Rows.of(votes(("same", "b", 900), *honest))), RatingSettings(prompt_cap=0.1))
    fewer = rate(votes_in(Rows.of(votes(("same", "b", 100), *honest))), RatingSettings())
    rows = {rating.model: rating.rating for rating in result.ratings}
    assert rows == pytest.approx({each.model: each.rating for each in fewer.ratings}, abs=1e-6)
    uncapped = rate(votes_in(Rows.of(votes(("same", "b", 900), *honest))), RatingSettings())
    assert abs(rows["one"] - {item.model: item.rating for item in uncapped.ratings}["one"]) > 50
    untouched = rate(votes_in(Rows.of(votes(*honest))), RatingSettings(prompt_cap=0.1))
    assert untouched.ratings == rate(votes_in(Rows.of(votes(*honest))), RatingSettings()).ratings
    assert np.isfinite(result.ratings[0].low or np.nan)


def test_a_cap_needs_prompts() -> None:
    """A file of votes without prompts is refused with one line."""
    rows = [
        {key: vote[key] for key in ("model_a", "model_b", "winner")} for vote in votes(("p", "a", 3), ("q", "b", 3))
    ]
    with pytest.raises(UsageError, match="no column for their prompts"):
        rate(votes_in(Rows.of(rows)), RatingSettings(prompt_cap=0.1))


@pytest.mark.slow
def test_the_arenas_board_counts_near_duplicates_as_one_prompt(tmp_path: Path) -> None:
    """Twenty copies of a prompt among forty: one group, which weighs its share."""
    copies = {f"p{n}": ArenaPrompt(f"p{n}", f"{LONG} ({n})" if n < 20 else f"Prompt {n}?", "all") for n in range(40)}
    inputs = {name: {key: f"text {index} of {key}" for key in copies} for index, name in enumerate(STRENGTHS)}
    source = StoredAnswers("made up", copies, inputs)
    with Store.open(str(tmp_path / "s.sqlite")) as store:
        arena = Arena(store, source, NO_LIMITS, Publishing(10, 1e9, 10), seed=1)
        cast(arena, 400)
        board = Ratings(store).board()
        export_votes(store, tmp_path / "votes.jsonl")
    actual = rate(read_votes(tmp_path / "votes.jsonl"), RatingSettings(side=True, prompt_cap=PROMPT_CAP))
    assert board.fitted is not None
    assert [rating.rating for rating in actual.ratings] == pytest.approx([each.rating for each in board.fitted.ratings])
    without = rate(read_votes(tmp_path / "votes.jsonl"), RatingSettings(side=True))
    assert [item.rating for item in without.ratings] != pytest.approx([result.rating for result in actual.ratings])
    assert board.n_prompts - board.n_prompt_groups == 19
    assert board.largest_prompt_group > 150
    assert "those on one prompt together at most 1% of all" in " ".join(board.basis)
