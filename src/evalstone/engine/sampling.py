"""From a row of logits to one token: greedy, or drawn by a number that was fixed beforehand.

Filters follow transformers' order (temperature, top-k, top-p, min-p), so the distribution is the one that `generate`
draws from. The draw itself walks the vocabulary in its own order and takes the token where the summed probability
passes the given number: one number a token, nothing drawn from a shared stream.
"""

from collections.abc import Sequence

import torch

from evalstone.engine.generation import Sampling

FIRST_LOOK = 512  # tokens among which top-p is tried before the whole vocabulary is sorted


def penalise(logits: torch.Tensor, tokens: torch.Tensor, penalty: float) -> None:
    """Make tokens that stand already less likely, in place, as transformers' repetition penalty does.

    Shapes: logits [vocab]; tokens int64 [n], distinct.
    """
    tokens = tokens[tokens < logits.shape[0]]
    values = logits[tokens]
    logits[tokens] = torch.where(values < 0, values * penalty, values / penalty)


def choose(
    logits: torch.Tensor, samplings: Sequence[Sampling | None], numbers: Sequence[float]
) -> tuple[list[int], list[bool]]:
    """Return the next token of each row, and whether the row's logits are finite where it matters.

    Shapes: logits [n, vocab]; samplings and numbers [n]; a number is in [0, 1) and used only where there is sampling.
    """
    best, tokens = logits.max(dim=-1)
    finite = torch.isfinite(best)
    by_kind: dict[Sampling, list[int]] = {}
    for row, sampling in enumerate(samplings):
        if sampling is not None:
            by_kind.setdefault(sampling, []).append(row)
    for sampling, rows in by_kind.items():
        places = torch.tensor(rows, device=logits.device)
        drawn = torch.tensor([numbers[row] for row in rows], dtype=torch.float64, device=logits.device)
        tokens[places] = draw(logits[places], sampling, drawn)
    return tokens.tolist(), finite.tolist()


def draw(logits: torch.Tensor, sampling: Sampling, numbers: torch.Tensor) -> torch.Tensor:
    """Return one token for each row.

    Shapes: logits [n, vocab]; numbers float64 [n]; result int64 [n].
    """
    scores = logits.float() / sampling.temperature
    threshold = _threshold(scores, sampling)
    if threshold is not None:
        scores = scores.masked_fill(scores < threshold[:, None], -torch.inf)
    sums = torch.softmax(scores, dim=-1).double().cumsum(dim=-1)  # [n, vocab]
    wanted = numbers * sums[:, -1]
    places = torch.searchsorted(sums, wanted[:, None], right=True)[:, 0]
    # The last possible token, should rounding push the number past the end.
    last = scores.shape[1] - 1 - torch.isfinite(scores).to(torch.uint8).flip(1).argmax(dim=1)
    return torch.minimum(places, last)


def _threshold(scores: torch.Tensor, sampling: Sampling) -> torch.Tensor | None:
    """Return the least score of each row that the filters let pass, None for no filter.

    Shapes: scores [n, vocab]; result [n].
    """
    vocab = scores.shape[1]
    floors = []
    top_k = min(sampling.top_k, vocab) if sampling.top_k else None
    if top_k is not None:
        floors.append(scores.topk(top_k, dim=-1).values[:, -1])
    if sampling.top_p is not None and sampling.top_p < 1.0:
        floors.append(_nucleus(scores, sampling.top_p, top_k))
    if sampling.min_p is not None and sampling.min_p > 0.0:
        # p >= min_p * p_max, put into scores; the normaliser cancels
        floors.append(scores.amax(dim=-1) + torch.log(torch.tensor(sampling.min_p)))
    return torch.stack(floors).amax(dim=0) if floors else None


def _nucleus(scores: torch.Tensor, top_p: float, top_k: int | None) -> torch.Tensor:
    """Return the score of the last token needed to gather `top_p` of the probability left by top-k.

    Shapes: scores [n, vocab]; result [n].
    """
    vocab = scores.shape[1]
    for size in dict.fromkeys((min(top_k or FIRST_LOOK, vocab), top_k or vocab)):
        ordered = scores.topk(size, dim=-1).values
        whole = torch.logsumexp(ordered if top_k else scores, dim=-1, keepdim=True)
        before = torch.exp(ordered - whole).cumsum(dim=-1).roll(1, dims=-1)  # probability of all tokens ahead
        before[:, 0] = 0.0
        n_kept = (before < top_p).sum(dim=-1).clamp_min(1)
        if size == (top_k or vocab) or bool((n_kept < size).all()):
            break
    return ordered.gather(1, n_kept[:, None] - 1)[:, 0]
