"""AlpacaEval's win rates against its published table; an optional check, since the data are for non-commercial use."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.statistics.baseline_rates import equal_length_rate, why_no_equal_length
from assaymark.statistics.logistic import (
    LengthWeights,
    item_difficulties,
    length_controlled_win_rate,
    length_gaps,
    win_rate,
)
from tests.statistics.published_votes import rows_of

N_ITEMS = 805


@pytest.fixture(scope="module")
def annotations(shared_dir: Path) -> dict[str, np.ndarray]:
    """Return preference, baseline's length and model's length of each item, by model."""
    file = shared_dir / "data/arena/alpaca_eval/annotations_weighted_gpt4turbo_compact.csv.gz"
    if not file.is_file():
        pytest.skip(f"no {file}: AlpacaEval's data are not part of the repository")
    results: dict[str, np.ndarray] = {}
    with gzip.open(file, "rt", newline="") as stream:
        for row in csv.DictReader(stream):
            table = results.setdefault(row["dir"], np.full((N_ITEMS, 3), np.nan))
            if row["preference"]:
                table[int(row["row"])] = [float(row[name]) for name in ("preference", "len_1", "len_2")]
    return results


def published(shared_dir: Path, file: str) -> dict[str, dict[str, str]]:
    """Return a table of AlpacaEval by model."""
    return {row[""]: row for row in rows_of(shared_dir / "data/arena/alpaca_eval" / file)}


def test_win_rates_are_the_published_ones(annotations: dict[str, np.ndarray], shared_dir: Path) -> None:
    """For 57 models the win rate is the published one to 1e-9 points."""
    board = published(shared_dir, "weighted_alpaca_eval_gpt4_turbo_leaderboard.csv")
    models = annotations.keys() & board.keys()
    assert len(models) == 57
    for model in models:
        preferences = annotations[model][:, 0]
        ours = 100.0 * win_rate(preferences[~np.isnan(preferences)])
        assert ours == pytest.approx(float(board[model]["win_rate"]), abs=1e-9)


def test_length_controlled_win_rates_are_near_the_published_ones(
    annotations: dict[str, np.ndarray], shared_dir: Path
) -> None:
    """With the published weights, and difficulties estimated from these models, the mean error is below 1 point."""
    board = published(shared_dir, "weighted_alpaca_eval_gpt4_turbo_leaderboard.csv")
    rows = published(shared_dir, "lc_glm_weights_baseline_gpt4_1106_preview.csv")
    models = sorted(annotations.keys() & board.keys() & rows.keys() - {"gpt4_1106_preview"})
    weights = [
        LengthWeights(
            float(rows[model]["not_gamed_baseline.astype(float)"]),
            float(rows[model]["np.tanh(std_delta_len)"]),
            float(rows[model]["instruction_difficulty"]),
        )
        for model in models
    ]
    offsets = np.array([
        entry.quality + entry.length * gaps_of(annotations[model]) for model, entry in zip(models, weights, strict=True)
    ])  # fmt: skip
    preferences = np.array([annotations[model][:, 0] - 1.0 for model in models])
    difficulties = item_difficulties(preferences, offsets, np.array([weight.difficulty for weight in weights]))
    ours = [100.0 * length_controlled_win_rate(each, difficulties) for each in weights]
    theirs = [float(board[model]["length_controlled_winrate"]) for model in models]
    errors = np.abs(np.array(ours) - np.array(theirs))
    assert len(models) >= 55
    assert errors.mean() < 1.0


def test_rates_at_equal_length_are_the_published_ones_where_they_are_given(
    annotations: dict[str, np.ndarray], shared_dir: Path
) -> None:
    """Without other models' data: within 2 points for 6 models, none for 50 whose answers are nearly all shorter."""
    board = published(shared_dir, "weighted_alpaca_eval_gpt4_turbo_leaderboard.csv")
    errors, n_without = [], 0
    for model in sorted(annotations.keys() & board.keys() - {"gpt4_1106_preview"}):
        table = annotations[model][~np.isnan(annotations[model][:, 0])]
        shares, lengths = list(table[:, 0] - 1.0), [(float(own), float(base)) for base, own in table[:, 1:]]
        result = equal_length_rate(shares, lengths, list(range(len(table))))
        if result is None:
            assert "extrapolation" in str(why_no_equal_length(shares, lengths, list(range(len(table)))))
            n_without += 1
        else:
            errors.append(100.0 * result.value - float(board[model]["length_controlled_winrate"]))
    assert (len(errors), n_without) == (6, 50)
    assert np.abs(errors).mean() < 0.6
    assert np.abs(errors).max() < 2.0


def gaps_of(table: np.ndarray) -> np.ndarray:
    """Return the gaps of length, 0 for a missing item."""
    known = ~np.isnan(table[:, 0])
    gaps = np.zeros(len(table))
    gaps[known] = length_gaps(table[known, 1], table[known, 2])
    return gaps


def test_difficulties_are_found_again() -> None:
    """From 400 models with known weights the difficulties of the items that made their preferences are estimated."""
    rng = np.random.default_rng(0)
    difficulties, slopes = rng.normal(size=30), rng.uniform(0.5, 1.5, 400)
    offsets = rng.normal(size=(400, 30))
    chances = 1.0 / (1.0 + np.exp(-(offsets + slopes[:, None] * difficulties)))
    np.testing.assert_allclose(item_difficulties(chances, offsets, slopes), difficulties, atol=1e-3)


def test_preferences_outside_of_1_to_2_are_refused() -> None:
    """A share of wins given instead of preferences is an error."""
    with pytest.raises(DataError, match="outside of 1 to 2"):
        win_rate(np.array([0.3, 1.0]))
