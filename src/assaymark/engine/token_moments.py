"""Compute statistics of whole next-token distributions at each token of a text.

Besides each token's log-probability these are the mean and spread of log-probabilities under the model's own
distribution at that position. One sequence, one forward pass, float32.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.spans import IntArray
from assaymark.engine.steps import forward_pass

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ROWS_AT_ONCE = 256  # rows of log-probabilities in float32: bounds memory for large vocabularies


@dataclass(frozen=True, slots=True)
class TokenMoments:
    """Statistics of one text's tokens, all but the first of the sequence.

    Shapes: each float64 [length - 1]. Units: nats.
    """

    logprobs: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]  # Σ_v p_v log p_v
    deviations: npt.NDArray[np.float64]  # √(Σ_v p_v (log p_v)² - mean²)


@torch.inference_mode()
def token_moments(model: "PreTrainedModel", tokens: IntArray) -> TokenMoments:
    """Return the statistics of a sequence.

    Shapes: tokens [length], at least 2. Source: Zhang et al. 2024 (Min-K%++, arXiv 2404.02936), equation 4.
    """
    device = next(model.parameters()).device
    ids = torch.as_tensor(np.asarray(tokens, dtype=np.int64), device=device)
    with forward_pass(model):
        logits = model(input_ids=ids[None, :-1], use_cache=False).logits[0]  # [length - 1, vocab]
    parts: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    for first in range(0, logits.shape[0], ROWS_AT_ONCE):
        logp = torch.log_softmax(logits[first : first + ROWS_AT_ONCE].float(), dim=-1)
        targets = ids[1 + first : 1 + first + logp.shape[0]]
        p = logp.exp()
        finite = logp.clamp(min=-1e4)  # 0 · -inf is 0 here
        mean = (p * finite).sum(dim=-1)
        spread = ((p * finite**2).sum(dim=-1) - mean**2).clamp(min=0).sqrt()
        parts.append((logp.gather(1, targets[:, None])[:, 0], mean, spread))
    columns = [torch.cat(column).double().cpu().numpy() for column in zip(*parts, strict=True)]
    return TokenMoments(columns[0], columns[1], columns[2])
