"""The random order in which questions are asked where a rule may stop: it follows from the data and a seed alone.

All models have the same order, so the questions that two of them were asked are the beginning of one list.
"""

from collections.abc import Mapping, Sequence

from assaymark.randomness import generator_for
from assaymark.records import content_hash

__all__ = ["question_order"]


def question_order(
    indices: Mapping[str, Sequence[int]], dataset_hashes: Mapping[str, str | None], seed: int
) -> list[tuple[str, int]]:
    """Return (task, index of a sample) of all questions in their order.

    Args:
        indices: of each task's samples.
        dataset_hashes: of each task's data.
        seed: of the order.
    """
    places = sorted((task, index) for task, own in indices.items() for index in own)
    data = content_hash(sorted(((task, dataset_hashes[task]) for task in indices), key=lambda pair: pair[0]))
    return [places[index] for index in generator_for("race", data, seed).permutation(len(places))]
