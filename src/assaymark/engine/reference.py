"""The slow plain reference: one sequence, one forward pass, full logits, log-softmax in float32.

Every fast path is tested against this file, so it shares nothing with them: no cache, no batch, no trie.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.spans import IntArray
from assaymark.engine.steps import forward_pass


@torch.inference_mode()
def token_logprobs(
    model: Any, tokens: IntArray, n_scored: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the log-probability of each of the last `n_scored` tokens, and whether it was the argmax.

    Shapes: tokens [length]; the model sees tokens[:-1], since the last predicts nothing; results [n_scored].
    Units:  nats; NaN where the logits are not finite (callers must reject it).
    """
    device = next(model.parameters()).device
    ids = torch.as_tensor(np.asarray(tokens, dtype=np.int64), device=device)
    with forward_pass(model):
        logits = model(input_ids=ids[None, :-1], use_cache=False).logits[0, -n_scored:].float()  # [S, V]
    targets = ids[-n_scored:]
    chosen = torch.log_softmax(logits, dim=-1).gather(1, targets[:, None])[:, 0]  # [S]
    is_best = logits.argmax(dim=-1) == targets
    return chosen.double().cpu().numpy(), is_best.cpu().numpy()


def score_sequence(model: Any, tokens: IntArray, n_scored: int) -> tuple[float, bool]:
    """Return the sum of `token_logprobs` and whether every scored token was the argmax.

    Units: nats.
    """
    logprobs, is_best = token_logprobs(model, tokens, n_scored)
    return float(logprobs.sum()), bool(is_best.all())
