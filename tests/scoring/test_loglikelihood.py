"""Log-likelihood of one target."""

import math

import pytest

from assaymark.errors import NonFiniteLogits, UnknownName
from assaymark.scoring.loglikelihood import score_loglikelihood


def test_perplexity_holds_the_log_likelihood_and_acc_the_greedy_flag() -> None:
    """lm-eval aggregates perplexity as exp(-mean) of these values."""
    scores = score_loglikelihood(-2.5, greedy=True)
    assert (scores["perplexity"].value, scores["acc"].value) == (-2.5, 1.0)
    assert set(score_loglikelihood(-2.5, greedy=False, metrics=["acc"])) == {"acc"}


def test_nan_is_an_error() -> None:
    """A NaN log-likelihood never becomes a score."""
    with pytest.raises(NonFiniteLogits):
        score_loglikelihood(math.nan, greedy=False)


def test_an_unknown_metric_names_the_nearest() -> None:
    """A misspelt metric is refused with the nearest name."""
    with pytest.raises(UnknownName, match="perplexity"):
        score_loglikelihood(-1.0, greedy=False, metrics=["perplexty"])
