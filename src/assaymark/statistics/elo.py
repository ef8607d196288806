"""Online Elo ratings, updated after every vote; for a live view, since they depend on the order of the votes."""

import numpy as np
from numpy.typing import NDArray

from assaymark.statistics.battles import Battles

__all__ = ["online_elo"]


def online_elo(
    battles: Battles, *, k_factor: float = 4.0, scale: float = 400.0, start: float = 1000.0
) -> NDArray[np.float64]:
    """Return each model's rating after all votes, in their order.

    R_a += K (S - E) and R_b -= K (S - E) with E = 1 / (1 + 10^((R_b - R_a) / scale)); a tie is S = ½.

    Shapes: result [models]. Source: Elo 1978, with the K of Chatbot Arena's first leaderboards.
    """
    ratings = [start] * battles.n_models
    votes = zip(battles.first.tolist(), battles.second.tolist(), battles.outcome.tolist(), strict=True)
    for first, second, outcome in votes:
        expected = 1.0 / (1.0 + 10.0 ** ((ratings[second] - ratings[first]) / scale))
        ratings[first] += k_factor * (outcome - expected)
        ratings[second] -= k_factor * (outcome - expected)
    return np.array(ratings)
