"""Models that change over time: the test of their ratings in months, and what intervals hold, in simulated arenas."""

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.arena_drift import DRIFTING, drifting_votes, rated, simulate
from benchmarks.arena_simulation import Voters
from scipy import stats

from assaymark.arena.rating_documents import warnings
from assaymark.arena.ratings import RatingSettings, changes_between, rate
from assaymark.arena.vote_files import read_votes, votes_in
from assaymark.arena.votes import published_row
from assaymark.cli.main import main
from assaymark.datasets.rows import Rows


def test_the_test_of_equal_ratings_is_chi_square() -> None:
    """Q = Σ (r - mean)² / error² with scipy's χ² on parts - 1; p after Holm; the sign is last minus first."""
    half = stats.norm.ppf(0.975)
    parts = [
        ("01", [("a", 1000.0, 1000 - 20 * half, 1000 + 20 * half), ("b", 990.0, 990 - 10 * half, 990 + 10 * half)]),
        ("02", [("a", 1090.0, 1090 - 25 * half, 1090 + 25 * half), ("b", 995.0, 995 - 10 * half, 995 + 10 * half)]),
        ("03", [("a", 1050.0, 1050 - 20 * half, 1050 + 20 * half), ("c", 1000.0, None, None)]),
    ]
    first, second = changes_between(parts, 0.95)
    ratings, weights = np.array([1000.0, 1090.0, 1050.0]), 1 / np.array([20.0, 25.0, 20.0]) ** 2
    mean = (weights * ratings).sum() / weights.sum()
    expected = stats.chi2.sf((weights * (ratings - mean) ** 2).sum(), 2)
    assert (first.model, first.first, first.last) == ("a", "01", "03")
    assert first.points == pytest.approx(50.0)
    assert first.p == pytest.approx(expected, rel=1e-9)
    assert first.significance == pytest.approx(2 * expected, rel=1e-9)
    assert (second.model, second.last) == ("b", "02")


def test_a_model_that_changes_is_named_with_its_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By 200 points upwards, in `--over time` as a table and as JSON; without `--over` nothing is tested."""
    votes = drifting_votes(Voters(8, "one arena"), 3000, 200.0)
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps(published_row(vote)) + "\n" for vote in votes))
    assert main(["arena", "rate", str(path), "--over", "time"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert f"ratings differ over time, so those of all votes are averages: model {DRIFTING} by +" in output
    assert main(["arena", "rate", str(path), "--over", "time", "--json"]) == 0
    (first, *_) = json.loads(capsys.readouterr().out)["changes"]
    assert (first["model"], first["first"], first["last"]) == (f"model {DRIFTING}", "2024-01", "2024-02")
    assert 100 < first["points"] < 250
    assert rate(read_votes(path), RatingSettings()).changes == ()


def test_models_that_do_not_change_are_not_named() -> None:
    """No warning in an arena whose models stay as they are."""
    votes = drifting_votes(Voters(8, "steady"), 2000, 0.0)
    result = rated(votes)
    assert len(result.changes) == 8
    assert all(change.significance > 0.05 for change in result.changes)
    read = votes_in(Rows.of([published_row(vote) for vote in votes]))
    assert not any("ratings differ" in line for line in warnings(result, read))


@pytest.mark.slow
def test_intervals_and_detection_in_simulated_arenas() -> None:
    """Intervals of all votes hold the average, not the strength at the end; months hold theirs; the change is found."""
    steady, changed = simulate(8, 3000, 0.0, 12), simulate(8, 3000, 100.0, 12)
    for each in (steady, changed):
        assert 0.92 <= np.mean(each.others) <= 0.985
        assert 0.93 <= np.mean(each.months) <= 0.98
        assert np.mean(each.limit) >= 0.88
    assert np.mean(steady.seen + steady.false) <= 0.08
    assert np.mean(changed.seen) >= 0.65
    assert np.mean(changed.first) >= 0.8
    assert np.mean(changed.now) <= 0.2
