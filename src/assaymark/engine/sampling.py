"""Choose one token from a row of logits: greedily, or sampled with a number that is fixed beforehand.

Filters follow transformers' order (temperature, top-k, top-p, min-p), so the distribution is the one that `generate`
samples from. Sampling walks the vocabulary in order and takes the token at which the summed probability exceeds the
given number: one number per token, nothing drawn from a shared stream.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from assaymark.engine.generation import Sampling

FIRST_LOOK = 512  # top tokens among which top-p is tried before the whole vocabulary is sorted
LOWEST_TEMPERATURE = 1e-30  # the most probable token has all probability long before; below, scores are no float32


def penalise(logits: torch.Tensor, tokens: torch.Tensor, penalty: float) -> None:
    """Make tokens that already occur less likely, in place, like transformers' repetition penalty.

    Shapes: logits [vocab]; tokens int64 [n], distinct.
    """
    tokens = tokens[tokens < logits.shape[0]]
    values = logits[tokens]
    logits[tokens] = torch.where(values < 0, values * penalty, values / penalty)


def choose(
    logits: torch.Tensor, samplings: Sequence[Sampling | None], numbers: Sequence[float]
) -> tuple[list[int], list[bool]]:
    """Return the next token of each row, and whether the row's largest logit is finite.

    Shapes: logits [n, vocab]; samplings and numbers [n]; a number is in [0, 1) and used only for sampling.
    """
    best, tokens = logits.max(dim=-1)
    by_kind: dict[Sampling, list[int]] = {}
    for row, sampling in enumerate(samplings):
        if sampling is not None:
            by_kind.setdefault(sampling, []).append(row)
    for sampling, rows in by_kind.items():
        chosen = torch.tensor(rows, device=logits.device)
        drawn = torch.tensor([numbers[row] for row in rows], dtype=torch.float64, device=logits.device)
        tokens[chosen] = draw(logits[chosen], sampling, drawn)
    return tokens.tolist(), [math.isfinite(value) for value in best.tolist()]


def choose_one(row: npt.NDArray[np.float32], sampling: Sampling, number: float) -> int:
    """Return the token drawn from one row of another engine's logits. Shapes: row [vocab]."""
    tokens, _ = choose(torch.from_numpy(row)[None], [sampling], [number])
    return tokens[0]


def draw(logits: torch.Tensor, sampling: Sampling, numbers: torch.Tensor) -> torch.Tensor:
    """Return one token for each row.

    Shapes: logits [n, vocab]; numbers float64 [n]; result int64 [n].
    """
    scores = logits.float() / max(sampling.temperature, LOWEST_TEMPERATURE)
    threshold = _threshold(scores, sampling)
    if threshold is not None:
        scores = scores.masked_fill(scores < threshold[:, None], -torch.inf)
    sums = torch.softmax(scores, dim=-1).double().cumsum(dim=-1)  # [n, vocab]
    reached = numbers * sums[:, -1]
    positions = torch.searchsorted(sums, reached[:, None], right=True)[:, 0]
    # The last possible token limits the result, in case rounding pushes the number past the end.
    last = scores.shape[1] - 1 - torch.isfinite(scores).to(torch.uint8).flip(1).argmax(dim=1)
    return torch.minimum(positions, last)


def _threshold(scores: torch.Tensor, sampling: Sampling) -> torch.Tensor | None:
    """Return the lowest score of each row that passes the filters, or None without filters.

    Shapes: scores [n, vocab]; result [n].
    """
    vocab = scores.shape[1]
    minima = []
    top_k = min(sampling.top_k, vocab) if sampling.top_k else None
    if top_k is not None:
        minima.append(scores.topk(top_k, dim=-1).values[:, -1])
    if sampling.top_p is not None and sampling.top_p < 1.0:
        minima.append(_nucleus(scores, sampling.top_p, top_k))
    if sampling.min_p is not None and sampling.min_p > 0.0:
        # p >= min_p * p_max, expressed in scores; the normaliser cancels
        minima.append(scores.amax(dim=-1) + torch.log(torch.tensor(sampling.min_p)))
    return torch.stack(minima).amax(dim=0) if minima else None


def _nucleus(scores: torch.Tensor, top_p: float, top_k: int | None) -> torch.Tensor:
    """Return the score of the last token needed to reach `top_p` of the probability that top-k leaves.

    Shapes: scores [n, vocab]; result [n].
    """
    vocab = scores.shape[1]
    for size in dict.fromkeys((min(top_k or FIRST_LOOK, vocab), top_k or vocab)):
        ordered = scores.topk(size, dim=-1).values
        whole = torch.logsumexp(ordered if top_k else scores, dim=-1, keepdim=True)
        before = torch.exp(ordered - whole).cumsum(dim=-1).roll(1, dims=-1)  # probability of all likelier tokens
        before[:, 0] = 0.0
        n_kept = (before < top_p).sum(dim=-1).clamp_min(1)
        if size == (top_k or vocab) or bool((n_kept < size).all()):
            break
    return ordered.gather(1, n_kept[:, None] - 1)[:, 0]
