"""Ratings from real votes, from simulated votes, and for models that cannot be rated."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assaymark.arena.ratings import ArenaRatings, RatingSettings, rate
from assaymark.arena.vote_files import read_votes, votes_in
from assaymark.arena.votes import Votes
from assaymark.datasets.rows import Rows
from assaymark.errors import DataError, UnknownName, UsageError

Row = dict[str, Any]


def vote(first: str, second: str, winner: str, **known: object) -> Row:
    """Return one row."""
    return {"model_a": first, "model_b": second, "winner": winner, **known}


def random_votes(rng: np.random.Generator, n: int, *models: str) -> list[Row]:
    """Return votes between models of equal strength, four on each prompt."""
    rows: list[Row] = []
    for number in range(n):
        first, second = rng.permutation(models).tolist()[:2]
        rows.append(vote(first, second, str(rng.choice(["a", "b", "tie"])), prompt=number // 4))
    return rows


def read(rows: list[Row]) -> Votes:
    """Return rows as votes."""
    return votes_in(Rows.of(rows), style=True)


def ratings_of(found: ArenaRatings) -> dict[str, float]:
    """Return rating by model."""
    return {rating.model: rating.rating for rating in found.ratings}


def test_real_votes_side_effect_and_widths(shared_dir: Path) -> None:
    """On 8,931 votes GPT 4 leads with 1172, side A has an effect of 15.8 points, and intervals by prompt are wide."""
    votes = read_votes(shared_dir / "data/arena/llmfao/crowd-comparisons.csv")
    result = rate(votes, RatingSettings())
    first = result.ratings[0]
    assert (first.model, result.by, result.n_clusters, len(result.ratings)) == ("GPT 4", "prompt", 13, 59)
    assert first.rating == pytest.approx(1172.13, abs=0.005)
    assert first.online_elo == pytest.approx(1095.5935481722963)
    assert result.median_widths["prompt"] > 1.5 * result.median_widths["judge"] > result.median_widths["vote"]
    sided = rate(votes, RatingSettings(by="judge", side=True))
    assert sided.effects[0].name == "side A"
    assert sided.effects[0].points == pytest.approx(15.79, abs=0.01)


def test_an_anchor_shifts_all_ratings_and_has_no_interval() -> None:
    """Differences stay, the anchor has its rating and no interval, the others' intervals are of the difference."""
    rng = np.random.default_rng(0)
    rows = random_votes(rng, 400, "x", "y", "z")
    free, fixed = rate(read(rows), RatingSettings()), rate(read(rows), RatingSettings(anchor=("y", 1114.0)))
    a, b = ratings_of(free), ratings_of(fixed)
    assert b["y"] == 1114.0
    assert b["x"] - b["z"] == pytest.approx(a["x"] - a["z"])
    assert np.mean(list(a.values())) == pytest.approx(1000.0)
    ends = {rating.model: (rating.low, rating.high) for rating in fixed.ratings}
    assert ends["y"] == (None, None)
    assert None not in ends["x"]
    drawn = rate(read(rows), RatingSettings(anchor=("y", 1114.0), interval="bootstrap"))
    for entry, other in zip(fixed.ratings, drawn.ratings, strict=True):
        if entry.low is not None and entry.high is not None:
            assert other.low is not None
            assert abs(other.low - entry.low) < 0.25 * (entry.high - entry.low)


def test_style_control_removes_a_planted_preference_for_length() -> None:
    """Of two equal models the verbose one leads if voters prefer length, and does not if length is controlled for."""
    rng = np.random.default_rng(1)
    rows = []
    squares = 0.0
    for number in range(3000):
        tokens = {"long": rng.integers(50, 400), "short": rng.integers(20, 250)}
        first, second = rng.permutation(["long", "short"]).tolist()
        a, b = float(tokens[first]), float(tokens[second])
        difference = (a - b) / (a + b + 1)
        squares += difference**2
        liked = rng.random() < 1 / (1 + np.exp(-1.5 * difference))
        rows.append(
            vote(first, second, "a" if liked else "b", tokens_a=a, tokens_b=b, bold_a=1, bold_b=1, prompt=number)
        )
    votes = read(rows)
    plain, controlled = rate(votes, RatingSettings()), rate(votes, RatingSettings(style=True))
    assert ratings_of(plain)["long"] - ratings_of(plain)["short"] > 30
    ends = {rating.model: (rating.low, rating.high) for rating in controlled.ratings}["long"]
    assert ends[0] is not None
    assert ends[1] is not None
    assert ends[0] < 1000.0 < ends[1]
    assert controlled.same_styles == ("bold",)
    effect = controlled.effects[0]
    assert effect.low is not None
    assert effect.high is not None
    spread = float(np.sqrt(squares / 3000))
    assert effect.low < 1.5 * spread * 173.7178 < effect.high


def test_unconnected_models_have_bounds_instead_of_ratings() -> None:
    """A model that won all votes, one that lost all and unconnected ones have no rating; the first two have bounds."""
    rows = [vote("x", "y", winner, prompt=number) for number, winner in enumerate("abab")]
    rows += [vote("best", name, "a", prompt=10 + number) for number, name in enumerate("xyxyxyxyxy")]
    rows += [vote("worst", "x", "b", prompt=30), vote("p", "q", "tie", prompt=31)]
    result = rate(read(rows), RatingSettings())
    assert ratings_of(result) == pytest.approx({"x": 1000.0, "y": 1000.0})
    apart = {each.model: each for each in result.apart}
    assert (apart["best"].standing, apart["best"].n_against_rated) == ("above", 10)
    chance = 0.05 ** (1 / 10)
    assert apart["best"].bound == pytest.approx(1000 + 400 * np.log10(chance / (1 - chance)))
    assert apart["worst"].standing == "below"
    assert apart["worst"].bound == pytest.approx(1000 + 400 * np.log10(0.95 / 0.05))
    assert (apart["p"].standing, apart["p"].bound) == ("unjoined", None)
    assert result.n_votes == 4


def test_duplicated_votes_change_only_the_count() -> None:
    """With votes entered twice every rating, interval and rank by prompt is unchanged."""
    rng = np.random.default_rng(2)
    rows = random_votes(rng, 300, "x", "y", "z", "w")
    once, twice = rate(read(rows), RatingSettings()), rate(read(rows * 2), RatingSettings())
    for entry, other in zip(once.ratings, twice.ratings, strict=True):
        assert (other.model, other.n_votes) == (entry.model, 2 * entry.n_votes)
        assert (other.best_rank, other.worst_rank) == (entry.best_rank, entry.worst_rank)
        assert (other.rating, other.low, other.high) == pytest.approx((entry.rating, entry.low, entry.high), abs=1e-6)


def test_impossible_ratings_are_errors() -> None:
    """No connected models, an anchor that is not rated, and a missing column are errors with a remedy."""
    with pytest.raises(DataError, match="collect more votes"):
        rate(read([vote("x", "y", "a")]), RatingSettings())
    with pytest.raises(UnknownName, match="rated model 'gpt-5'"):
        rate(read([vote("gpt-4", "y", "tie")]), RatingSettings(anchor=("gpt-5", 1000.0)))
    with pytest.raises(UsageError, match="no column for 'judge'"):
        rate(read([vote("x", "y", "tie")]), RatingSettings(by="judge"))
