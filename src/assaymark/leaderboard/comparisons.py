"""Paired comparisons of stored runs, cached: with the answers that changed, or the numbers alone."""

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import TypeVar

from assaymark.results.comparison.compare import compare_runs
from assaymark.results.comparison.records import Comparison, PairComparison
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
        """Return the comparison of the second and later runs with the first.

        Raises: UsageError where they have no task in common.
        """
        key = tuple(_version(row) for row in runs)
        with self._lock:
            known = self._whole.get(key)
        if known is not None:
            return known
        evidence = [run_evidence(store, row.run_id) for row in runs]
        return self._keep(self._whole, key, compare_runs(evidence), KEPT)

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


def _version(row: RunRow) -> str:
    """Return a key that changes when a run's scores do."""
    return f"{row.run_id} {row.updated_at} {row.n_scores}"
