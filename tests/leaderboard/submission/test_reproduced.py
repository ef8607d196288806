"""The verdict on reported results: what counts as verified."""

import pytest

from assaymark.leaderboard.submission.checks import verdict_of
from assaymark.records import Estimate


def estimate(name: str, value: float, half: float = 0.02, n_shots: int = 5) -> Estimate:
    """Return gsm8k's exact match under one of its filters, with an interval of this half width."""
    return Estimate(
        task="gsm8k", metric="exact_match", filter=name, value=value, low=value - half, high=value + half,
        method="wilson", n=1319, stderr=None, higher_is_better=True, details={"n_shots": n_shots},
    )  # fmt: skip


MEASURED = [estimate("strict-match", 0.1), estimate("flexible-extract", 0.6)]


def test_each_filter_is_compared_with_its_own() -> None:
    """Honest numbers of two filters are verified in any order; one filter's number given for the other is not."""
    assert verdict_of(MEASURED, MEASURED) == verdict_of(MEASURED[::-1], MEASURED)
    assert verdict_of(MEASURED, MEASURED)[0]
    is_verified, why = verdict_of([estimate("strict-match", 0.6)], MEASURED)
    assert not is_verified
    assert "gsm8k exact_match (strict-match): 0.6000 reported, 0.1000 measured" in why


@pytest.mark.parametrize("others", [[], MEASURED])
def test_an_invented_filter_is_not_verified(others: list[Estimate]) -> None:
    """A score under a filter that was not measured is not verified, also beside scores that are right."""
    is_verified, why = verdict_of([*others, estimate("best-of-mine", 0.6)], MEASURED)
    assert not is_verified
    assert "(best-of-mine): 0.6000 reported, not measured under this filter" in why


def test_another_set_up_is_not_verified() -> None:
    """The verdict names versions or shots, and no difference of the model; 1 and 1.0 are one version."""
    reported = [estimate("strict-match", 0.1)]
    assert verdict_of(reported, MEASURED, {"gsm8k": "3"}, {"gsm8k": "3.0"})[0]
    assert verdict_of(reported, MEASURED, {}, {"gsm8k": "3.0"})[0]
    is_verified, why = verdict_of(reported, MEASURED, {"gsm8k": "2.0"}, {"gsm8k": "3.0"})
    said = "not verified: 1 task reported of another set-up (gsm8k: version 2.0 reported, 3.0 measured)"
    assert (is_verified, why) == (False, said)
    is_verified, why = verdict_of([estimate("strict-match", 0.1, n_shots=8)], MEASURED)
    assert (is_verified, "gsm8k: 8 shots reported, 5 measured" in why) == (False, True)
