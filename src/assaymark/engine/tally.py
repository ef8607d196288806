"""Sum scores per span as tokens' scores arrive in any grouping; a span is finished when its last one has arrived."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.spans import IntArray, SpanBatch, SpanScore


class Tally:
    """Running sums of log-probabilities by span, in float64 and always in the order of the tokens."""

    def __init__(self, spans: SpanBatch, rounding: torch.dtype | None) -> None:
        self._missing = spans.n_scored.astype(np.int64)
        self._totals = np.zeros(len(spans))
        self._is_greedy = np.ones(len(spans), dtype=bool)
        self._rounding = rounding
        self.doubtful: list[int] = []
        """Finished spans whose sum is not finite; they are never scored."""

    def add(self, spans: IntArray, logprobs: npt.NDArray[np.float64], is_best: npt.NDArray[np.bool_]) -> IntArray:
        """Add tokens' scores to their spans and return the spans that are now finished.

        Shapes: all [n_tokens]; the result is sorted.
        """
        np.add.at(self._totals, spans, logprobs)
        np.logical_and.at(self._is_greedy, spans, is_best)
        np.subtract.at(self._missing, spans, 1)
        touched = np.unique(spans)
        finished: IntArray = touched[self._missing[touched] == 0]
        return finished

    def scores_of(self, finished: IntArray) -> Iterator[SpanScore]:
        """Yield the scores of finished spans; those that are not finite are added to `doubtful` instead."""
        totals = self._totals[finished]
        if self._rounding is not None:
            totals = torch.as_tensor(totals).to(self._rounding).double().numpy()
        for index, total, is_greedy in zip(
            finished.tolist(), totals.tolist(), self._is_greedy[finished].tolist(), strict=True
        ):
            if np.isfinite(total):
                yield SpanScore(index, total, is_greedy)
            else:
                self.doubtful.append(index)
