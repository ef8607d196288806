"""Prompts that are nearly the same: one group, so that many votes on copies of a prompt do not count as many prompts.

Two prompts are near-duplicates where their words in sequences of three are the same to four fifths (Jaccard); shorter
ones only where all their words are the same. Letters' case, punctuation and spaces do not count. Groups are the
connected ones: of three, the outer two may differ more.
Source: Bayardo, Ma and Srikant 2007 (All-Pairs: which candidates need not be compared).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from assaymark.store.arena_rows import VoteRow

__all__ = ["SIMILARITY", "cluster_prompts", "near_duplicates"]

IntArray = npt.NDArray[np.int64]

SIMILARITY = 0.8
RUN = 3  # words in a sequence
_WORD = re.compile(r"\w+")


def cluster_prompts(texts: Sequence[str]) -> list[int]:
    """Return for each text the index of the first text of its group."""
    sets = _sequences(texts)
    first: dict[bytes, int] = {}
    own = [first.setdefault(some.tobytes(), index) if some.size else index for index, some in enumerate(sets)]
    distinct = [index for index, leader in enumerate(own) if leader == index and sets[index].size > 1]
    group = _groups([sets[index] for index in distinct])
    leaders = {index: distinct[group[place]] for place, index in enumerate(distinct)}
    return [leaders.get(leader, leader) for leader in own]


def near_duplicates(votes: Iterable[VoteRow], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the first prompt of its group by prompt id, for each prompt of the votes whose text is not erased.

    texts: by commitment.
    """
    found: dict[str, str] = {}
    for vote in votes:
        if vote.prompt_commitment in texts:
            found.setdefault(vote.prompt_id, texts[vote.prompt_commitment])
    names = list(found)
    return {name: names[leader] for name, leader in zip(names, cluster_prompts(list(found.values())), strict=True)}


def _sequences(texts: Sequence[str]) -> list[IntArray]:
    """Return each text's distinct sequences of words as sorted numbers; of a short text the whole as one."""
    numbers: dict[str, int] = {}  # of words, from 1: 0 is no word, in a text shorter than a sequence
    words = []
    for text in texts:
        of_text = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
        padding = [0] * (RUN - len(of_text)) if of_text else []
        words.append(np.array([numbers.setdefault(word, len(numbers) + 1) for word in of_text] + padding, np.int64))
    # exact below 2 million distinct words; above, numbers wrap, and two sequences have the same by chance only
    base = len(numbers) + 1
    return [np.unique((some[:-2] * base + some[1:-1]) * base + some[2:]) if some.size else some for some in words]


def _groups(sets: Sequence[IntArray]) -> list[int]:
    """Return for each set the index of the first set of its group; sets in one group are not compared again.

    A pair of similarity s shares one of the first n - ceil(s n) + 1 elements of each, in any fixed order; with the
    rarest first few sets share one.
    """
    group = list(range(len(sets)))

    def first_of(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    sizes = np.array([some.size for some in sets], dtype=np.int64)
    least = np.ceil(SIMILARITY * sizes - 1e-9).astype(np.int64)  # elements of a similar set
    owners, numbers = _beginnings(sets, sizes - least + 1)
    different: set[tuple[int, int]] = set()
    for start, end in _shared(numbers):
        sharing = owners[start:end].tolist()  # the largest first
        for at, one in enumerate(sharing):
            for other in sharing[at + 1 :]:
                if sizes[other] < least[one]:
                    break
                low, high = sorted((first_of(one), first_of(other)))
                if low == high or (one, other) in different:
                    continue
                if _are_similar(sets[one], sets[other]):
                    group[high] = low
                else:
                    different.add((one, other))
    return [first_of(index) for index in range(len(sets))]


def _are_similar(one: IntArray, other: IntArray) -> bool:
    shared = np.intersect1d(one, other, assume_unique=True).size
    return bool(shared >= SIMILARITY * (one.size + other.size - shared))


def _beginnings(sets: Sequence[IntArray], lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rarest elements of each set, as many as `lengths`: owners and elements, by element.

    The owners of one element are in the order of their sizes, the largest first. Shapes: [elements of all beginnings].
    """
    sizes = np.array([some.size for some in sets], dtype=np.int64)
    if not sizes.size:
        return sizes, sizes
    owners = np.repeat(np.arange(sizes.size), sizes)
    _, elements, counts = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    order = np.lexsort((elements, counts[elements], owners))
    owners, elements = owners[order], elements[order]
    places = np.arange(owners.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_first = places < lengths[owners]
    owners, elements = owners[is_first], elements[is_first]
    order = np.lexsort((owners, -sizes[owners], elements))
    return owners[order], elements[order]


def _shared(sorted_numbers: IntArray) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each stretch of two or more equal numbers."""
    edges = np.flatnonzero(np.diff(sorted_numbers, prepend=-1, append=-1))
    for start, end in pairwise(edges.tolist()):
        if end - start > 1:
            yield start, end
