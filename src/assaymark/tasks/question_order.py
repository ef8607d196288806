"""The random order in which questions are asked where a rule may stop: it follows from the data and a seed alone.

All models have the same order, so the questions that two of them were asked are the beginning of one list.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from assaymark.randomness import generator_for
from assaymark.records import content_hash


def question_order(
    indices: Mapping[str, Sequence[int]], dataset_hashes: Mapping[str, str | None], seed: int, *, macro: bool = False
) -> list[tuple[str, int]]:
    """Return (task, index of a sample) of all questions in their order.

    Args:
        indices: of each task's samples.
        dataset_hashes: of each task's data.
        macro: whether each task counts the same, whatever its size: each question is drawn with a probability
            proportional to its weight, one over the number of its task's questions, among those left.

    Source: of the macro order, exponential clocks: Efraimidis and Spirakis 2006, "Weighted random sampling with a
        reservoir".
    """
    places = sorted((task, index) for task, own in indices.items() for index in own)
    data = content_hash(sorted(((task, dataset_hashes[task]) for task in indices), key=lambda pair: pair[0]))
    if macro:
        clocks = generator_for("macro race", data, seed).exponential(size=len(places))
        rates = [1 / len(indices[task]) for task, _ in places]
        return [places[index] for index in np.argsort(clocks / np.array(rates), kind="stable")]
    return [places[index] for index in generator_for("race", data, seed).permutation(len(places))]


def macro_weights(places: Sequence[tuple[str, int]]) -> list[float]:
    """Return the weight of each question where each of their tasks counts the same."""
    sizes = Counter(task for task, _ in places)
    return [1 / (len(sizes) * sizes[task]) for task, _ in places]
