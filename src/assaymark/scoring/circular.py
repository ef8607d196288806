"""CircularEval: a question counts as right only if it is answered correctly in every rotation of its options.

The original rule stops at the first wrong rotation; here all of them are asked, so that the accuracy over rotations is
known as well.
"""

from collections.abc import Sequence
from math import prod

from assaymark.scoring.choices import Gold, resolve_gold, score_choices
from assaymark.scoring.values import ScoreValue

__all__ = ["CIRCULAR", "OVER_ROTATIONS", "score_rotations"]

CIRCULAR = "circular_acc"
OVER_ROTATIONS = "acc_rotations"


def score_rotations(nats: Sequence[Sequence[float]], choices: Sequence[str], gold: Gold) -> dict[str, ScoreValue]:
    """Score one question that was asked in every rotation of its options.

    `circular_acc` is 1 if the best choice is gold in every rotation, else 0; `acc_rotations` is the share of rotations
    in which it is. Tied best choices share the credit within a rotation; the credit of `circular_acc` is the product.
    Details: `picked_by_rotation` (positions in the row's order), `n_right`, `n_tied` (the most in a rotation),
    `credit`, `n_choices`, and for `circular_acc` the `chance` of independent guesses, n_choices ** -n_choices.

    Args:
        nats: log-likelihoods [rotation, position shown]; in rotation s, position p shows option (p - s) mod n.
        choices: the letters.
        gold: index, letter, or a list of indices any of which is correct, in the row's order.

    Units: nats. Raises: NonFiniteLogits, MalformedSample as `score_choices`.
    Source: Liu et al. 2023 (MMBench, arXiv 2307.06281), section 4.2.
    """
    n = len(choices)
    right = resolve_gold(gold, choices)
    golds = right if isinstance(right, tuple) else (right,)
    found = [
        score_choices(
            row, [False] * n, None, choices, [(each + shift) % n if 0 <= each < n else each for each in golds], ["acc"]
        )["acc"]
        for shift, row in enumerate(nats)
    ]
    shares = [float(one.detail["credit"]) for one in found]
    n_right = sum(one.value == 1.0 for one in found)
    detail = {
        "picked_by_rotation": [(one.detail["picked"] - shift) % n for shift, one in enumerate(found)],
        "n_right": n_right,
        "n_tied": max(one.detail["n_tied"] for one in found),
        "n_choices": n,
    }
    return {
        CIRCULAR: ScoreValue(
            float(n_right == len(found)), detail={**detail, "credit": prod(shares), "chance": float(n) ** -n}
        ),
        OVER_ROTATIONS: ScoreValue(n_right / len(found), detail={**detail, "credit": sum(shares) / len(shares)}),
    }
