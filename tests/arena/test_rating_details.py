"""Models of ties, parts, matrices and influence of ratings from a file of votes."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assaymark.arena.rating_details import Ties
from assaymark.arena.ratings import RatingSettings, rate
from assaymark.arena.vote_files import month_of, read_votes
from assaymark.errors import UsageError
from tests.arena.test_ratings import random_votes, ratings_of, read, vote


def test_models_of_ties_rate_and_predict_real_votes(shared_dir: Path) -> None:
    """Both keep GPT 4 first, state their parameter with an interval, and predict 39% ties, which half wins cannot."""
    votes = read_votes(shared_dir / "data/arena/llmfao/crowd-comparisons.csv")
    half = rate(votes, RatingSettings(by="judge", matrix=True))
    assert half.ties is None
    assert half.matrices is not None
    assert half.matrices.predicted_tie is None
    published: dict[Ties, float] = {"davidson": float(np.log(1.480)), "rao-kupper": 0.942}
    for ties, value in published.items():
        result = rate(votes, RatingSettings(by="judge", ties=ties, matrix=True))
        assert result.ratings[0].model == "GPT 4"
        assert result.ties is not None
        assert result.ties.value == pytest.approx(value, abs=5e-4)
        assert result.ties.low is not None
        assert result.ties.high is not None
        assert result.ties.low < result.ties.value < result.ties.high
        matrices = result.matrices
        assert matrices is not None
        assert matrices.predicted_tie is not None
        counts = np.array(matrices.n_battles)
        chances = np.array([[np.nan_to_num(each or 0.0) for each in row] for row in matrices.predicted_tie])
        assert (counts * chances).sum() / counts.sum() == pytest.approx(3471 / 8931, abs=0.002)
        assert ratings_of(result)["GPT 4"] > ratings_of(half)["GPT 4"]


def test_a_model_of_ties_bounds_a_model_that_won_all() -> None:
    """The bound is the strength at which 6 wins of 6 without a tie have probability 5%: above that without ties."""
    rng = np.random.default_rng(0)
    rows = random_votes(rng, 600, "x", "y")
    rows += [vote("best", "x", "a", prompt=1000 + number) for number in range(6)]
    settings = (RatingSettings(), RatingSettings(ties="davidson"))
    bounds = [rate(read(rows), setting).apart[0].bound for setting in settings]
    assert bounds[0] is not None
    assert bounds[1] is not None
    assert bounds[1] > bounds[0] + 20


def test_the_probability_of_the_best_is_in_the_ratings() -> None:
    """It sums to 1, follows the order of clear ratings, and is None if the votes have one cluster."""
    rng = np.random.default_rng(1)
    rows = random_votes(rng, 400, "x", "y", "z") + [vote("x", "y", "a", prompt=number) for number in range(150)]
    result = rate(read(rows), RatingSettings())
    assert sum(rating.p_best or 0.0 for rating in result.ratings) == pytest.approx(1.0)
    assert result.ratings[0].model == "x"
    assert result.ratings[0].p_best is not None
    assert result.ratings[0].p_best > 0.95
    alone = [{**row, "prompt": 1} for row in rows]
    assert {each.p_best for each in rate(read(alone), RatingSettings()).ratings} == {None}
    ties = [vote("x", "y", "tie", prompt=number) for number in range(50)]
    for interval in ("sandwich", "bootstrap"):  # nobody is the best for certain where all are equal
        assert {each.p_best for each in rate(read(ties), RatingSettings(interval=interval)).ratings} == {None}


def test_parts_are_rated_from_their_own_votes_on_one_scale() -> None:
    """Models equal in all votes are 400 points apart in each of two months, in opposite directions, around one mean."""
    rows: list[dict[str, Any]] = []
    for month, winner, loser in (("2024-05", "x", "y"), ("2024-06", "y", "x")):
        for number in range(110):
            first = winner if number % 11 else loser
            rows.append(vote("x", "y", first, prompt=len(rows), tstamp=f"{month}-03T10:00:00+00:00", category="code"))
            rows.append(vote("z", "x", "tie", prompt=len(rows), tstamp=f"{month}-03", category=None))
    rows.append(vote("x", "y", "tie", prompt=len(rows), tstamp="unknown", category="one"))
    votes = read(rows)
    result = rate(votes, RatingSettings(over="time"))
    assert [(part.name, part.n_votes) for part in result.parts] == [("2024-05", 220), ("2024-06", 220)]
    assert result.n_without_part == 1
    for part, sign in zip(result.parts, (1, -1), strict=True):
        rated = {rating.model: rating.rating for rating in part.ratings}
        assert rated["x"] - rated["y"] == pytest.approx(sign * 400.0, abs=1e-6)
        assert np.mean(list(rated.values())) == pytest.approx(1000.0)
    by_category = rate(votes, RatingSettings(over="category"))
    assert [part.name for part in by_category.parts] == ["code", "one"]
    assert [each.model for each in by_category.parts[0].ratings] == ["x", "y"]
    overall = ratings_of(by_category)
    mean = (overall["x"] + overall["y"]) / 2
    assert np.mean([item.rating for item in by_category.parts[0].ratings]) == pytest.approx(mean)
    with pytest.raises(UsageError, match="divided by category, time"):
        rate(votes, RatingSettings(over="language"))


def test_a_part_without_ratings_says_why() -> None:
    """A month in which one model won all votes has no ratings, and the others keep theirs."""
    rows = [vote("x", "y", winner, prompt=n, tstamp="2024-05-01") for n, winner in enumerate(["a", "b"] * 5)]
    rows += [vote("x", "y", "a", prompt=20, tstamp="2024-06-01")]
    result = rate(read(rows), RatingSettings(over="time"))
    assert [bool(part.ratings) for part in result.parts] == [True, False]
    assert "collect more votes" in (result.parts[1].why_none or "")
    assert result.parts[1].apart == ("x", "y")


def test_months_of_what_files_have() -> None:
    """Seconds, milliseconds, ISO texts and dates give months in UTC; other texts give none."""
    moments = [1717200000.0, 1717200000000, "1717200000.5", "2024-06-01", "2024-05-31T23:30:00-02:00", "20240601"]
    assert [month_of(each) for each in (*moments, date(2024, 6, 1))] == ["2024-06"] * 7
    assert [month_of(item) for item in ("soon", None, "", float("nan"), 1e300)] == [""] * 5


def test_influential_rows_are_those_of_the_file(shared_dir: Path) -> None:
    """Without the 13 named rows of the file the other model is first; a model of ties and weights are refused."""
    path = shared_dir / "data/arena/llmfao/crowd-comparisons.csv"
    result = rate(read_votes(path), RatingSettings(influence=True)).top_votes
    assert result is not None
    assert (result.first, result.second, result.n_votes, len(result.rows)) == (
        "GPT 4",
        "Platypus-2 Instruct (70B)",
        13,
        13,
    )
    assert result.share == pytest.approx(13 / 8931)
    assert sum(count for *_, count in result.pairs) == 13
    votes = read_votes(path)
    kept = ~np.isin(votes.rows, result.rows)
    battles = votes.battles
    rest = replace(battles, first=battles.first[kept], second=battles.second[kept], outcome=battles.outcome[kept])
    assert rate(votes.chosen(kept, rest, votes.models), RatingSettings()).ratings[0].model == result.second
    for settings in (RatingSettings(influence=True, ties="davidson"), RatingSettings(influence=True, reweight=True)):
        with pytest.raises(UsageError, match="--ties half"):
            rate(votes, settings)


def test_settings_that_exclude_each_other_are_refused() -> None:
    """The bootstrap and weights of pairs are for ties as half wins."""
    rows = random_votes(np.random.default_rng(2), 60, "x", "y")
    for settings in (RatingSettings(ties="davidson", interval="bootstrap"),
                     RatingSettings(ties="rao-kupper", reweight=True)):  # fmt: skip
        with pytest.raises(UsageError, match="half wins"):
            rate(read(rows), settings)


def test_reweighted_ratings_with_bootstrap_agree_with_the_sandwich() -> None:
    """A pair with 600 votes counts as one with 50, and both intervals are of that estimate."""
    rng = np.random.default_rng(3)
    rows = random_votes(rng, 150, "x", "y", "z")
    rows += [vote("x", "y", str(rng.choice(["a", "a", "b"])), prompt=500 + number // 4) for number in range(600)]
    plain = rate(read(rows), RatingSettings())
    weighted = rate(read(rows), RatingSettings(reweight=True))
    drawn = rate(read(rows), RatingSettings(reweight=True, interval="bootstrap"))
    assert ratings_of(weighted) == pytest.approx(ratings_of(drawn))
    assert abs(ratings_of(plain)["z"] - ratings_of(weighted)["z"]) > 1
    for entry, other in zip(weighted.ratings, drawn.ratings, strict=True):
        assert entry.low is not None
        assert entry.high is not None
        assert other.low is not None
        assert abs(other.low - entry.low) < 0.25 * (entry.high - entry.low)
