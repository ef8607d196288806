"""AlpacaEval's win rates against its published table; an optional check, since the data are for non-commercial use."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from assaymark.statistics.baseline_rates import equal_length_rate, why_no_equal_length
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
