"""Sign-flip permutation against enumeration and scipy."""

from itertools import product

import numpy as np
import pytest

from assaymark.statistics.paired import mcnemar_exact, sign_flip_p


def test_few_differences_are_enumerated() -> None:
    """With seven differences p is the exact share of the 128 assignments at least as extreme."""
    d = np.array([0.3, -0.1, 0.25, 0.7, 0.0, 0.15, -0.05, 0.4])
    nonzero = d[d != 0]
    sums = [abs(float(np.dot(signs, nonzero))) for signs in product((1, -1), repeat=len(nonzero))]
    assert sign_flip_p(d) == np.mean(np.array(sums) >= nonzero.sum() - 1e-9)


def test_equal_steps_give_the_exact_mcnemar_p() -> None:
    """On right and wrong answers the enumerated permutation is McNemar's exact test."""
    assert sign_flip_p([1.0] * 6 + [-1.0] * 2 + [0.0] * 9) == pytest.approx(mcnemar_exact(6, 2))


def test_many_differences_agree_with_scipy() -> None:
    """With 60 differences the sampled p is scipy's permutation p within the noise of the draws."""
    st = pytest.importorskip("scipy.stats")
    d = np.random.default_rng(4).normal(0.22, 1.0, 60)
    theirs = st.permutation_test((d,), np.sum, permutation_type="samples", n_resamples=20_000, random_state=0).pvalue
    assert sign_flip_p(d) == pytest.approx(theirs, abs=0.012)


def test_p_is_never_zero_and_no_difference_gives_one() -> None:
    """Overwhelming evidence gives 1 over draws + 1, equal scores give 1."""
    assert sign_flip_p([1.0] * 200, draws=999) == pytest.approx(1 / 1000)
    assert sign_flip_p([0.0] * 5) == 1.0


def test_the_same_name_gives_the_same_p() -> None:
    """Sampled signs are seeded by name."""
    d = np.random.default_rng(0).normal(0.1, 1, 50)
    assert sign_flip_p(d) == sign_flip_p(d)
    assert sign_flip_p(d) != sign_flip_p(d, name=("other",))


def test_the_level_is_kept_under_the_null() -> None:
    """Of 400 comparisons of equal models about 5% have p below 5%."""
    rng = np.random.default_rng(0)
    rejected = sum(sign_flip_p(rng.normal(0, 1, 40), draws=499) <= 0.05 for _ in range(400))
    assert 8 <= rejected <= 32
