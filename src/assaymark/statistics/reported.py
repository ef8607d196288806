"""An interval for a reported result whose samples are not available.

A file may report a value, a standard error and a number of samples, of which any may be missing. A proportion of right
answers gets Wilson's interval, whose ends are in [0, 1], with the effective sample size of the error; `value ± 1.96
stderr` would exceed [0, 1] for few samples or values near its ends. A mean of graded scores gets Student's, as it does
where its samples are known.
"""

import math

from assaymark.statistics.distributions import two_sided_z
from assaymark.statistics.estimate import IntervalEstimate
from assaymark.statistics.intervals import check_confidence, t_interval, wilson

GRADED = 0.98  # errors below this share of the error of as many 0s and 1s are those of graded scores
SMALLEST_ERROR = 1e-9  # of a proportion; a smaller one is due to rounding, and would mean more than 10^17 samples


def estimate_reported(
    value: float,
    stderr: float | None,
    n: int,
    *,
    is_proportion: bool,
    is_binary: bool = False,
    confidence: float = 0.95,
) -> IntervalEstimate:
    """Return a reported value with the interval from its standard error or number of samples.

    A proportion gets Wilson's interval with n* = p(1-p)/SE², or with n if there is no usable error. Where its error is
    smaller than that of n scores of 0 and 1, √(p(1-p)/n), its scores are graded, and it gets value ± t SE within
    [0, 1]. Any other number gets value ± z SE. `low` and `high` are None if neither is known.

    Args:
        value: as reported.
        stderr: its reported standard error; None if there is none.
        n: number of samples; 0 if it is not reported.
        is_proportion: whether the value is a share in [0, 1].
        is_binary: whether it is known that no score is graded, or that the value is an average of several means.

    Raises: DataError for a confidence outside of (0, 1).
    Source: Korn and Graubard 1998, applied to the score interval (Wilson 1927).
    """
    check_confidence(confidence)
    has_error = stderr is not None and math.isfinite(stderr) and stderr > SMALLEST_ERROR
    if is_proportion and 0.0 <= value <= 1.0:
        of_binary = math.sqrt(value * (1.0 - value) / n) if n > 1 and not is_binary else 0.0
        if has_error and stderr is not None and stderr < GRADED * of_binary:
            ends = t_interval(value, stderr, n - 1, confidence)
            low, high = max(ends.low, 0.0), min(ends.high, 1.0)
            return IntervalEstimate(
                value, low, high, stderr, "t, from the file's standard error", n, confidence, df=n - 1
            )
        return _proportion(value, stderr if has_error else None, stderr, n, confidence)
    if not has_error or stderr is None:
        return IntervalEstimate(value, None, None, stderr, "none in the file", n, confidence)
    half = two_sided_z(confidence) * stderr
    method = "normal, from the file's standard error"
    return IntervalEstimate(value, value - half, value + half, stderr, method, n, confidence)


def _proportion(
    value: float, usable: float | None, reported: float | None, n: int, confidence: float
) -> IntervalEstimate:
    """Return Wilson's interval; at 0 and 1 a standard error is uninformative, so only n is used there."""
    if usable is not None and 0.0 < value < 1.0:
        effective = max(value * (1.0 - value) / usable**2, 1.0)  # no share has a larger error than that of one sample
        method = "wilson, from the file's standard error"
    elif n > 0:
        effective, method = float(n), "wilson, from the file's number of samples"
    else:
        return IntervalEstimate(value, None, None, reported, "none in the file", n, confidence)
    interval = wilson(value * effective, effective, confidence)
    return IntervalEstimate(value, interval.low, interval.high, reported, method, n, confidence)
