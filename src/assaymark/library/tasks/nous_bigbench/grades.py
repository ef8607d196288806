"""BIG-bench's multiple-choice grade: the score that the task's authors gave to the choice a model holds most likely.

As in the Nous suite: examples that occur twice are asked once, choices are shown in one fixed order drawn with seed 42,
and of equally likely choices one is picked by a hash of the likelihoods.
"""

import hashlib
import json

SEED = 42


def shown(choices: list[str]) -> list[str]:
    """Return the choices in the order in which a prompt lists them."""
    from numpy.random import RandomState

    return [str(choice) for choice in RandomState(SEED).permutation(sorted(choices))]


def process_docs(rows):
    """Return the rows that differ, each with `shown`: a list for a list, a Dataset for a Dataset."""
    fields = ("input", "choices", "scores", "target")
    first: dict[str, int] = {}
    for i, row in enumerate(rows):
        first.setdefault(json.dumps([row[field] for field in fields]), i)
    kept = list(first.values())
    if hasattr(rows, "select"):
        return rows.select(kept).map(lambda row: {"shown": shown(row["choices"])})
    return [{**rows[i], "shown": shown(rows[i]["choices"])} for i in kept]


def pick(likelihoods: list[float]) -> int:
    """Return the index of the largest; among equals, the one that a hash of all of them names."""
    import numpy as np

    values = np.asarray(likelihoods, dtype=np.float64)
    best = np.flatnonzero(values == values.max())
    return int(best[int(hashlib.sha256(values.tobytes()).hexdigest(), 16) % len(best)])


def process_results(doc: dict, results: list) -> dict[str, float]:
    """Return the picked choice's score."""
    return {"multiple_choice_grade": doc["scores"][pick([answer[0] for answer in results])]}
