"""Input and output of scoring: ragged token sequences with a scored tail each.

A span is the tail of one sequence; its score is the sum of the log-probabilities of its tokens, each given all tokens
before it. Tokens are in one flat int32 array, because Python lists of tokens cost 38 bytes each and all of MMLU would
take more than a gigabyte.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from assaymark.errors import ModelError, PlanError

IntArray = npt.NDArray[np.int32 | np.int64]


@dataclass(frozen=True, slots=True)
class SpanBatch:
    """Ragged token sequences: sequence i is tokens[offsets[i]:offsets[i+1]]; its last n_scored[i] tokens are scored.

    Shapes: tokens int32 [total]; offsets int64 [n + 1]; n_scored int32 [n], with 1 <= n_scored[i] < length of i, since
        the first token of a sequence has no context to be predicted from.
    """

    tokens: IntArray
    offsets: IntArray
    n_scored: IntArray

    def __post_init__(self) -> None:
        """Check that the arrays are consistent.

        Raises: PlanError with the first span that has no context or nothing to score.
        """
        if self.offsets.size != self.n_scored.size + 1 or self.offsets[0] != 0:
            raise PlanError(
                f"{self.n_scored.size} spans with {self.offsets.size} offsets from {self.offsets[:1]}; "
                "expected one offset more than spans, the first 0"
            )
        if self.offsets[-1] != self.tokens.size:
            raise PlanError(f"the last offset is {self.offsets[-1]}, expected the token count {self.tokens.size}")
        lengths = np.diff(self.offsets)
        bad = np.flatnonzero((self.n_scored < 1) | (self.n_scored >= lengths))
        if bad.size:
            i = int(bad[0])
            raise PlanError(
                f"span {i} has {lengths[i]} tokens of which {self.n_scored[i]} are scored; expected at least one "
                "scored token and at least one before it (replace an empty context by the model's BOS or EOS)"
            )

    @classmethod
    def from_lists(cls, sequences: Iterable[Sequence[int] | IntArray], n_scored: Iterable[int]) -> "SpanBatch":
        """Return the batch of these token lists, in this order.

        Raises: PlanError as the constructor.
        """
        arrays = [np.asarray(sequence, dtype=np.int32) for sequence in sequences]
        offsets = np.zeros(len(arrays) + 1, dtype=np.int64)
        np.cumsum([array.size for array in arrays], out=offsets[1:])
        tokens = np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int32)
        return cls(tokens, offsets, np.asarray(list(n_scored), dtype=np.int32))

    def __len__(self) -> int:
        return int(self.n_scored.size)

    def sequence(self, index: int) -> IntArray:
        """Return the tokens of one sequence, context and scored tail.

        Shapes: int32 [length].
        """
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def subset(self, indices: Sequence[int] | IntArray) -> "SpanBatch":
        """Return the batch of only these spans, in the order given."""
        return SpanBatch.from_lists([self.sequence(int(i)) for i in indices], [int(self.n_scored[i]) for i in indices])


@dataclass(frozen=True, slots=True)
class SpanScore:
    """The score of one span.

    Units: total_nats is the sum over the span's tokens, never the mean. is_greedy: whether each of them was the argmax
        over the whole (padded) vocabulary.
    """

    index: int
    total_nats: float
    is_greedy: bool


@dataclass(frozen=True, slots=True)
class SpanFailure:
    """A span without a score, and why. A failure is never a wrong answer.

    kind: states whether a retry may succeed, and is stored with the output. reason: a message without the index, which
        has no meaning outside the batch; code that knows the request composes the full message.
    """

    index: int
    kind: type[ModelError]
    reason: str


@dataclass(frozen=True, slots=True)
class WindowReport:
    """The progress of `Engine.score`, after each window.

    Units: tokens of model input. `n_tokens` counts requested tokens (each span in full), `n_distinct` computed ones.
    """

    n_tokens_done: int
    n_tokens: int
    n_distinct_done: int
    n_distinct: int
    seconds: float
    note: str | None = None
    seconds_left: tuple[float, float] | None = (
        None  # while texts are generated: an estimate from the lengths so far, and the most
    )


WindowObserver = Callable[[WindowReport], None]
