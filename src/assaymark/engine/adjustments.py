"""Changes that a request makes to the logits before a token is chosen: biases, penalties on generated tokens, a mask.

Only rows of sequences with an adjustment are touched, so that requests without one cost nothing.

Source: OpenAI's API reference: a token that was generated c times loses c * frequency_penalty + presence_penalty
    (c > 0), and `logit_bias` is added.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

MaskOf = Callable[[int, Sequence[int]], npt.NDArray[np.int32]]
"""Called with a repeat and its tokens so far; returns one bit for each token that may follow, the lowest first."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjustment:
    """Changes of one prompt's logits. bias: by token id; mask: which tokens may follow, None for all."""

    bias: Mapping[int, float] = field(default_factory=dict)
    frequency: float = 0.0
    presence: float = 0.0
    mask: MaskOf | None = None


def adjust(logits: torch.Tensor, adjustment: Adjustment, repeat: int, tokens: Sequence[int]) -> None:
    """Change the logits of the next token in place. Shapes: logits [vocab]; tokens: generated so far."""
    if adjustment.bias:
        _add(logits, list(adjustment.bias), list(adjustment.bias.values()))
    if (adjustment.frequency or adjustment.presence) and tokens:
        counts = Counter(tokens)
        lost = [-(n * adjustment.frequency + adjustment.presence) for n in counts.values()]
        _add(logits, list(counts), lost)
    if adjustment.mask is not None:
        words = adjustment.mask(repeat, tokens)
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")[: logits.shape[0]].astype(bool)
        allowed = torch.zeros(logits.shape[0], dtype=torch.bool)
        allowed[: bits.size] = torch.from_numpy(bits)
        logits.masked_fill_(~allowed.to(logits.device), -torch.inf)


def _add(logits: torch.Tensor, tokens: Sequence[int], values: Sequence[float]) -> None:
    at = torch.tensor(tokens, dtype=torch.int64, device=logits.device)
    logits[at] += torch.tensor(values, dtype=logits.dtype, device=logits.device)
