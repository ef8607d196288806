"""lm-eval's standard errors, compared with lm-eval itself."""

import math
from typing import Any

import numpy as np
import pytest

from assaymark.errors import DataError
from assaymark.randomness import mersenne
from assaymark.statistics.lm_eval_errors import (
    bootstrap_replicates,
    group_mean,
    group_stderr,
    pooled_stderr,
    stderr,
    twister_of,
    unweighted_stderr,
)


def test_numpys_twister_makes_the_draws_of_random_choices() -> None:
    """From one state, floor(double times n) gives the same positions as random.Random.choices."""
    for seed in (0, 7, 99):
        draws = (twister_of(seed).random_sample(500) * 37).astype(int)
        assert draws.tolist() == mersenne(seed).choices(range(37), k=500)


def test_resamples_come_in_lm_evals_order_and_number() -> None:
    """2,500 iterations draw two chunks of 1,000 with seeds 0 and 1; 30 iterations draw one chunk of 30."""
    replicates = bootstrap_replicates(lambda index: index.mean(axis=1), 11, 2500)
    assert len(replicates) == 2000
    source = mersenne(1)
    expected = [sum(source.choices(range(11), k=11)) / 11 for _ in range(1000)]
    np.testing.assert_allclose(replicates[1000:], expected, rtol=1e-14)
    assert len(bootstrap_replicates(lambda index: index.mean(axis=1), 11, 30)) == 30


def test_a_large_sample_is_resampled_in_pieces_with_the_same_draws() -> None:
    """Memory is bounded by drawing rows in pieces, which does not change the draws."""
    n = 9000  # 444 rows at once
    first = bootstrap_replicates(lambda index: index[:, 0].astype(float), n, 1000)
    source = mersenne(0)
    assert first[:700].tolist() == [source.choices(range(n), k=n)[0] for _ in range(700)]


def test_the_bootstrap_error_of_a_mean_is_its_closed_form() -> None:
    """The error is the spread of the replicates itself, not that divided by the root of their number."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    boot = stderr("nanmean", values.tolist(), 20_000)
    assert boot == pytest.approx(values.std() / math.sqrt(400), rel=0.02)


def test_no_error_if_lm_eval_prints_none() -> None:
    """One sample, no iterations, or an aggregation without a formula: None, never 0."""
    assert stderr("mean", [1.0]) is None
    assert stderr("mean", [1.0, 0.0], 0) is None
    assert stderr("weighted_perplexity", [(-1.0, 2), (-3.0, 2)]) is None
    assert stderr("brier_score", [(0, (0.5, 0.5))] * 4) is None


def _items(name: str, n: int) -> list[Any]:
    rng = np.random.default_rng(len(name))
    if name in ("f1", "matthews_corrcoef"):
        gold = rng.integers(0, 2, n)
        return list(zip(gold.tolist(), np.where(rng.random(n) < 0.7, gold, 1 - gold).tolist(), strict=True))
    values: list[Any] = (-rng.gamma(2.0, 1.5, n)).tolist()
    if name == "nanmean":
        values[3] = math.nan
    return values


@pytest.mark.oracle
@pytest.mark.parametrize(
    "name",
    [
        "median",
        "perplexity",
        "nanmean",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("matthews_corrcoef", "f1")),
    ],
)
def test_the_bootstrap_error_equals_lm_evals_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 60 samples and 600 draws the error equals the one lm-eval's own code returns, to 1e-12."""
    metrics = pytest.importorskip("lm_eval.api.metrics")
    registry = pytest.importorskip("lm_eval.api.registry")
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    items = _items(name, 60)
    theirs = metrics.stderr_for_metric(registry.get_aggregation(name), 600)(items)
    assert stderr(name, items, 600) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.oracle
def test_a_hundred_thousand_draws_equal_lm_evals_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The full 100,000 draws of a perplexity over 20 samples equal lm-eval's, to 1e-12."""
    metrics = pytest.importorskip("lm_eval.api.metrics")
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    items = _items("perplexity", 20)
    theirs = metrics.stderr_for_metric(metrics.perplexity, 100_000)(items)
    assert stderr("perplexity", items) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_translation_metrics_are_drawn_a_hundred_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BLEU, chrF and TER have lm-eval's 100 draws whatever the requested number."""
    metrics = pytest.importorskip("lm_eval.api.metrics")
    registry = pytest.importorskip("lm_eval.api.registry")
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    items = [("the cat sat on the mat", f"the cat sat on {word} mat") for word in ("a", "the", "one", "this", "my")]
    theirs = metrics.stderr_for_metric(registry.get_aggregation(name), 100)(items)
    assert stderr(name, items) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.oracle
def test_plain_and_group_errors_equal_lm_evals_own() -> None:
    """The error of a mean and both group formulas equal lm-eval's."""
    metrics = pytest.importorskip("lm_eval.api.metrics")
    values = [0.0, 1.0, 1.0, 0.25]
    assert stderr("mean", values) == pytest.approx(metrics.mean_stderr(values), rel=1e-14)
    errors, sizes, scores = [0.02, 0.05, 0.1], [400, 70, 12], [0.5, 0.6, 0.9]
    assert pooled_stderr(errors, sizes) == pytest.approx(metrics.pooled_sample_stderr(errors, sizes), rel=1e-14)
    assert unweighted_stderr(errors) == pytest.approx(metrics.unweighted_mean_stderr(errors), rel=1e-14)
    for weighted in (True, False):
        theirs = metrics.aggregate_subtask_metrics(scores, sizes, weighted)
        assert group_mean(scores, sizes, weight_by_size=weighted) == pytest.approx(theirs, rel=1e-14)


def test_a_group_with_a_task_without_error_has_none() -> None:
    """One "N/A" among the tasks makes the group's error undefined; lists that do not match are refused."""
    assert group_stderr([0.1, None], [10, 10], weight_by_size=True) is None
    assert group_stderr([0.3, 0.4], [10, 10], weight_by_size=False) == pytest.approx(0.25)
    with pytest.raises(DataError, match="equal numbers"):
        pooled_stderr([0.1], [1, 2])
