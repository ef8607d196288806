"""Spread of a score over prompt templates, compared with the spread by chance alone.

The same samples are evaluated under every template, so the scores are a table. The range of the means (largest minus
smallest) increases with the number of templates and with noise; its distribution without any effect of the template is
found by shuffling each sample's scores among the templates, which preserves each sample's difficulty.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.arrays import Floats
from assaymark.statistics.distributions import two_sided_z


@dataclass(frozen=True, slots=True)
class PromptSpread:
    """One model's scores under several templates on the same samples."""

    means: tuple[float, ...]  # of each template
    mean: float  # over templates
    low: float  # of the mean, with samples and templates as random
    high: float
    spread: float  # largest minus smallest mean
    spread_low: float  # basic bootstrap over samples, 95%, which corrects for the upward bias of resampled spreads
    spread_high: float
    null_spread: float  # mean spread if templates had no effect
    null_high: float  # its 95% quantile
    p: float  # probability of at least this spread if templates had no effect
    sd_templates: float  # standard deviation between templates beyond noise; 0 if there is none
    sd_items: float  # between samples beyond noise
    n: int


@dataclass(frozen=True, slots=True)
class RankAgreement:
    """Agreement of templates on the order of models."""

    kendall_w: float  # 1: every template gives the same order; 0: no agreement
    best: tuple[int, ...]  # each model's best rank over templates; 1 is best
    worst: tuple[int, ...]
    n_orders: int  # number of different orders


def prompt_spread(
    scores: NDArray[np.number | np.bool_], *, draws: int = 2000, name: Sequence[object] = ()
) -> PromptSpread:
    """Summarise scores of the same samples under several templates.

    Var(mean) = σ²_item / n + σ²_template / K + σ²_rest / (n K), from a two-way layout without repeats.

    Shapes: scores [samples, templates], of shares. Raises: DataError unless there are at least two of each.
    Source: Searle, Casella and McCulloch 1992, section 4.3 (variances); Pitman 1938 (shuffling within samples);
    Davison and Hinkley 1997, section 5.2 (basic bootstrap).
    """
    table = np.asarray(scores, dtype=np.float64)
    if table.ndim != 2 or min(table.shape) < 2 or not np.isfinite(table).all():
        raise DataError(
            f"scores have shape {table.shape}; expected [samples, templates], at least 2 of each, none missing"
        )
    n, k = table.shape
    means = table.mean(axis=0)
    spread = float(np.ptp(means))
    items, templates, rest = _variances(table)
    stderr = math.sqrt(items / n + templates / k + rest / (n * k))
    z = two_sided_z(0.95)
    null, resampled = _drawn_spreads(table, draws, name)
    low, high = (2.0 * spread - float(end) for end in np.quantile(resampled, [0.975, 0.025]))
    mean = float(means.mean())
    return PromptSpread(
        means=tuple(means.tolist()),
        mean=mean,
        low=max(mean - z * stderr, 0.0),
        high=min(mean + z * stderr, 1.0),
        spread=spread,
        spread_low=min(max(low, 0.0), spread),
        spread_high=max(high, spread),
        null_spread=float(null.mean()),
        null_high=float(np.quantile(null, 0.95)),
        p=float((1 + (null >= spread - 1e-12).sum()) / (draws + 1)),
        sd_templates=math.sqrt(templates),
        sd_items=math.sqrt(items),
        n=n,
    )


def _drawn_spreads(table: Floats, draws: int, name: Sequence[object]) -> tuple[Floats, Floats]:
    """Return the spreads of tables shuffled within samples, and of tables with resampled samples."""
    n, k = table.shape
    generator = generator_for("prompt spread", *name, n, k)
    null = np.array([np.ptp(generator.permuted(table, axis=1).mean(axis=0)) for _ in range(draws)])
    picks = generator.integers(0, n, size=(min(draws, 1000), n))
    return null, np.array([np.ptp(table[pick].mean(axis=0)) for pick in picks])


def _variances(table: Floats) -> tuple[float, float, float]:
    """Return the variances of samples, templates and residuals, by expected mean squares; negative estimates are 0."""
    n, k = table.shape
    grand = table.mean()
    of_items, of_templates = table.mean(axis=1), table.mean(axis=0)
    residual = table - of_items[:, None] - of_templates[None, :] + grand
    rest = float((residual**2).sum() / ((n - 1) * (k - 1)))
    items = (k * float(of_items.var(ddof=1)) - rest) / k
    templates = (n * float(of_templates.var(ddof=1)) - rest) / n
    return max(items, 0.0), max(templates, 0.0), rest


def rank_agreement(means: NDArray[np.number | np.bool_]) -> RankAgreement:
    """Return the templates' agreement on the order of models; equal means share the middle rank.

    W = 12 S / (K² (M³ - M)), S the sum of squared deviations of the models' rank sums.

    Shapes: means [models, templates]. Raises: DataError for fewer than two models.
    Source: Kendall and Babington Smith 1939.
    """
    table = np.asarray(means, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] < 2:
        raise DataError(f"means have shape {table.shape}; expected [models, templates] with at least 2 models")
    n_models, k = table.shape
    above = (table[None, :, :] > table[:, None, :]).sum(axis=1)  # [models, templates]
    equal = (table[None, :, :] == table[:, None, :]).sum(axis=1) - 1
    ranks = 1.0 + above + equal / 2.0
    sums = ranks.sum(axis=1)
    deviation = float(((sums - sums.mean()) ** 2).sum())
    return RankAgreement(
        kendall_w=12.0 * deviation / (k**2 * (n_models**3 - n_models)),
        best=tuple((1 + above.min(axis=1)).tolist()),
        worst=tuple((1 + above.max(axis=1)).tolist()),
        n_orders=len({tuple(column) for column in ranks.T.tolist()}),
    )
