"""Prompts that are nearly the same: one group, so that many votes on copies of a prompt do not count as many prompts.

Two prompts are near-duplicates where their words in sequences of three are the same to four fifths (Jaccard); shorter
ones only where all their words are the same. Letters' case, punctuation and spaces do not count. Groups are the
connected ones: of three, the outer two may differ more.
Source: Bayardo, Ma and Srikant 2007 (All-Pairs: which candidates need not be compared).
"""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from evalstone.store.arena_rows import VoteRow

__all__ = ["SIMILARITY", "cluster_prompts", "near_duplicates"]

SIMILARITY = 0.8
RUN = 3  # words in a sequence
_WORD = re.compile(r"\w+")


def cluster_prompts(texts: Sequence[str]) -> list[int]:
    """Return for each text the index of the first text of its group."""
    first: dict[frozenset[tuple[str, ...]], int] = {}
    parts = [_parts(text) for text in texts]
    own = [first.setdefault(part, index) if part else index for index, part in enumerate(parts)]
    distinct = [index for index, leader in enumerate(own) if leader == index and len(parts[index]) > 1]
    group = list(range(len(texts)))

    def root(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    for one, other in _similar(distinct, [parts[index] for index in distinct]):
        low, high = sorted((root(one), root(other)))
        group[high] = low
    return [root(leader) for leader in own]


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


def _parts(text: str) -> frozenset[tuple[str, ...]]:
    """Return a text's sequences of words; of a short text the whole."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    if len(words) <= RUN:
        return frozenset([tuple(words)]) if words else frozenset()
    return frozenset(tuple(words[at : at + RUN]) for at in range(len(words) - RUN + 1))


def _similar(names: Sequence[int], sets: Sequence[frozenset[tuple[str, ...]]]) -> list[tuple[int, int]]:
    """Return the pairs of similar sets, by name.

    A pair of similarity s shares one of the first n - ceil(s n) + 1 elements of each, in any fixed order; with the
    rarest first few sets share one.
    """
    counts = Counter(part for some in sets for part in some)
    listed: dict[tuple[str, ...], list[int]] = defaultdict(list)
    found = []
    for at, some in sorted(enumerate(sets), key=lambda pair: len(pair[1])):
        beginning = sorted(some, key=lambda part: (counts[part], part))[
            : len(some) - math.ceil(SIMILARITY * len(some) - 1e-9) + 1
        ]
        for other in {other for part in beginning for other in listed[part]}:
            shared = len(some & sets[other])
            if shared >= SIMILARITY * (len(some) + len(sets[other]) - shared):
                found.append((names[at], names[other]))
        for part in beginning:
            listed[part].append(at)
    return found
