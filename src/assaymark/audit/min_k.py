"""Membership scores: how likely a text is, and how likely its least likely tokens are.

These scores hardly separate seen from unseen samples of one distribution (Duan et al. 2024: near chance). So no p is
computed for a set alone, only for its difference from a control set that cannot have been seen.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.models.local.token_moments import TextMoments, token_moments_of
from assaymark.models.model import Model

__all__ = ["MembershipScores", "membership_scores"]

SHARE = 0.2  # k of Min-K%, as published


@dataclass(frozen=True, slots=True)
class MembershipScores:
    """Scores of one text. Higher is stronger evidence of membership, except `bits_per_byte`; None without tokens."""

    min_k: float | None  # mean of the lowest 20% of token log-probabilities
    min_k_plus: float | None  # the same after standardising by the model's own distribution at each token
    mean_nats: float | None  # per token
    nats_per_zip_byte: float | None
    bits_per_byte: float | None  # lower is likelier; does not depend on the tokenizer


def membership_scores(model: Model, texts: Sequence[str]) -> list[MembershipScores]:
    """Return each text's scores.

    Raises: UsageError for a model that returns sums of log-probabilities only.
    Source: Shi et al. 2023 (Min-K%, arXiv 2310.16789); Zhang et al. 2024 (Min-K%++, arXiv 2404.02936); Carlini et al.
    2021 (zlib).
    """
    return [_scores(text, moments) for text, moments in zip(texts, token_moments_of(model, texts), strict=True)]


def _scores(text: str, moments: TextMoments) -> MembershipScores:
    if not moments.logprobs.size:
        return MembershipScores(None, None, None, None, None)
    count = max(1, math.ceil(SHARE * moments.logprobs.size))
    standard = (moments.logprobs - moments.means) / np.maximum(moments.deviations, 1e-6)
    total = float(moments.logprobs.sum())
    raw = text.encode("utf-8", "surrogatepass")
    return MembershipScores(
        min_k=float(np.sort(moments.logprobs)[:count].mean()),
        min_k_plus=float(np.sort(standard)[:count].mean()),
        mean_nats=total / moments.logprobs.size,
        nats_per_zip_byte=total / len(zlib.compress(raw)),
        bits_per_byte=-total / math.log(2) / max(len(raw), 1),
    )
