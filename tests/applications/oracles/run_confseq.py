"""confseq's own sequences: reads values in [0, 1], n, alpha, means, planned, bets; writes what it gives.

Bets of our rules are passed to its martingales as functions; what happens to the capital is its own code.
"""

import json
import sys
from typing import Any

import numpy as np
from confseq.betting import betting_cs, betting_mart, diversified_betting_mart
from confseq.predmix import predmix_empbern_twosided_cs

case = json.load(sys.stdin)
x, n, alpha, share = np.array(case["values"]), case["n"], case["alpha"], case["share_at_risk"]


def planned_bets(values: np.ndarray, mean: float) -> np.ndarray:
    """Bet the planned difference, over the share that is left, over the variance of the earlier values."""
    bets = []
    total = squares = 0.0
    for t, value in enumerate(values):
        bets.append(case["planned"] * n / (n - t) / ((0.25 + squares) / (t + 1)))
        squares += (value - (total / t if t else 0.5)) ** 2
        total += value
    return np.array(bets)


fixed = [lambda values, mean, bet=bet: bet * n / (n - np.arange(len(values))) for bet in case["bets"]]
rules = {"planned": [planned_bets], "portfolio": fixed}
sequences: dict[str, Any] = {"capitals": {}, "intervals": {}}
with np.errstate(all="ignore"):
    for name, functions in rules.items():
        sequences["capitals"][name] = [
            [
                diversified_betting_mart(x, mean, functions, functions, N=n, theta=theta, trunc_scale=share).tolist()
                for theta in (1, 0)
            ]
            for mean in case["means"]
        ]
        low, high = betting_cs(
            x, functions, functions, alpha=alpha, N=n, breaks=1000, running_intersection=True, trunc_scale=share
        )
        sequences["intervals"][name] = [low.tolist(), high.tolist()]
    low, high = predmix_empbern_twosided_cs(x, alpha=alpha, N=n, running_intersection=True)
    sequences["intervals"]["empirical Bernstein"] = [low.tolist(), high.tolist()]
    sequences["hedged"] = [
        betting_mart(x, mean, alpha=alpha, N=n, convex_comb=True, theta=0.5).tolist() for mean in case["means"]
    ]
sys.stdout.write(json.dumps(sequences) + "\n")
