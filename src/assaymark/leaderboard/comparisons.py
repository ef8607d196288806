"""Paired comparisons of stored runs, cached: with which answers changed, or the numbers alone."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import TypeVar

from assaymark.results.comparison.compare import compare_runs, with_answers
from assaymark.results.comparison.records import Comparison, Flip, PairComparison
from assaymark.results.evidence.from_store import run_evidence
from assaymark.store import RunRow, Store

Found = TypeVar("Found")
KEPT, KEPT_NUMBERS = 8, 1_000  # comparisons; a page of differences has one for each checkpoint or derived model


class Comparisons:
    """Comparisons of one store's runs, made again if a run changes. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._whole: dict[tuple[str, ...], Comparison] = {}
        self._numbers: dict[tuple[str, ...], PairComparison] = {}

    def whole(self, store: Store, runs: Sequence[RunRow]) -> Comparison:
        """Return the comparison of the second and later runs with the first; `answered` has the answers' texts.

        Raises: UsageError where they have no task in common.
        """
        key = tuple(_version(row) for row in runs)
        with self._lock:
            known = self._whole.get(key)
        if known is not None:
            return known
        has_texts = not all(_ask_the_same(store, runs[0], row) for row in runs[1:])  # else prompts are compared
        comparison = compare_runs([run_evidence(store, row.run_id, with_texts=has_texts) for row in runs])
        return self._keep(self._whole, key, comparison, KEPT)

    def numbers(self, store: Store, first: RunRow, second: RunRow) -> PairComparison:
        """Return the comparison of two runs without the answers that changed; a quarter of the time of `whole`.

        Raises: UsageError where they have no task in common.
        """
        key = (_version(first), _version(second))
        with self._lock:
            known = self._numbers.get(key)
        if known is not None:
            return known
        evidence = [run_evidence(store, row.run_id, with_texts=False) for row in (first, second)]
        return self._keep(self._numbers, key, replace(compare_runs(evidence).pairs[0], flips=()), KEPT_NUMBERS)

    def _keep(self, known: dict[tuple[str, ...], Found], key: tuple[str, ...], value: Found, most: int) -> Found:
        with self._lock:
            known[key] = value
            while len(known) > most:
                known.pop(next(iter(known)))
        return value


def _ask_the_same(store: Store, first: RunRow, second: RunRow) -> bool:
    """Return whether two runs have the same requests, but for those that one of them lacks, and truncated no prompt."""
    if store.has_cut_prompts(first.run_id) or store.has_cut_prompts(second.run_id):
        return False
    for task in set(first.tasks) & set(second.tasks):
        ours, theirs = (store.content_hashes(row.run_id, task).items() for row in (first, second))
        if not (ours <= theirs or theirs <= ours):
            return False
    return True


def answered(store: Store, run_ids: tuple[str, str], pair: PairComparison, flips: Sequence[Flip]) -> tuple[Flip, ...]:
    """Return some of a pair's answers that changed with their texts, which are read for these alone."""
    ours, theirs = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for flip in flips:
        ours[flip.task].append(flip.first_index)
        theirs[flip.task].append(flip.second_index)
    changed = [run_evidence(store, run_id, indices=of) for run_id, of in zip(run_ids, (ours, theirs), strict=True)]
    return with_answers(pair, flips, *changed)


def _version(row: RunRow) -> str:
    """Return a key that changes when a run's scores do."""
    return f"{row.run_id} {row.updated_at} {row.n_scores}"
