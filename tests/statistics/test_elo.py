"""Online Elo against published ratings."""

from pathlib import Path

import numpy as np
import pytest

from assaymark.statistics.battles import Battles
from assaymark.statistics.bradley_terry import online_elo
from tests.statistics.published_votes import golden, llmfao


def test_real_votes_in_order_have_evalicas_ratings(shared_dir: Path) -> None:
    """After 8,931 votes in the file's order every rating is the published one."""
    names, votes, _ = llmfao(shared_dir)
    np.testing.assert_allclose(online_elo(votes), golden(shared_dir, "elo", names), rtol=0, atol=1e-11)


def test_one_vote_by_hand_and_the_order_matters() -> None:
    """Between equals the winner takes half of K; the same votes in another order give other ratings."""
    battles = Battles(np.array([0]), np.array([1]), np.array([1.0]), 2)
    assert online_elo(battles).tolist() == [1002.0, 998.0]
    votes = Battles(np.array([0, 0]), np.array([1, 1]), np.array([1.0, 0.0]), 2)
    turned = Battles(np.array([0, 0]), np.array([1, 1]), np.array([0.0, 1.0]), 2)
    assert online_elo(votes)[0] < 1000 < online_elo(turned)[0]
    assert online_elo(votes).sum() == pytest.approx(2000)
