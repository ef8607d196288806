"""An interval for a number that a file states, where its samples are not known.

All there is may be a value, a standard error and a number of samples, and any of them may be missing. A proportion
gets Wilson's interval, whose ends lie in [0, 1], with the sample size that the error amounts to; `value ± 1.96
stderr` would leave [0, 1] for few samples or values near its ends.
"""

import math

from evalstone.statistics.distributions import two_sided_z
from evalstone.statistics.estimate import IntervalEstimate
from evalstone.statistics.intervals import check_confidence, wilson

__all__ = ["estimate_reported"]

SMALLEST_ERROR = 1e-9  # of a proportion; one below it is rounding, and would stand for more than 10^17 samples


def estimate_reported(
    value: float, stderr: float | None, n: int, *, is_proportion: bool, confidence: float = 0.95
) -> IntervalEstimate:
    """Return a stated value with the interval that its standard error and number of samples allow.

    A proportion: Wilson's interval, n* = p(1-p)/SE², or n where the file has no usable error. Any other number:
    value ± z SE. `low` and `high` are None where neither is known.

    Args:
        value: as the file states it.
        stderr: its standard error; None where the file has none.
        n: samples; 0 where the file does not say.
        is_proportion: whether it is a share in [0, 1].
        confidence: of the interval.

    Raises: DataError for a confidence that is none.
    Source: Korn and Graubard 1998, applied to the score interval (Wilson 1927).
    """
    check_confidence(confidence)
    has_error = stderr is not None and math.isfinite(stderr) and stderr > SMALLEST_ERROR
    if is_proportion and 0.0 <= value <= 1.0:
        return _proportion(value, stderr if has_error else None, stderr, n, confidence)
    if not has_error or stderr is None:
        return IntervalEstimate(value, None, None, stderr, "none in the file", n, confidence)
    half = two_sided_z(confidence) * stderr
    method = "normal, from the file's standard error"
    return IntervalEstimate(value, value - half, value + half, stderr, method, n, confidence)


def _proportion(
    value: float, usable: float | None, stated: float | None, n: int, confidence: float
) -> IntervalEstimate:
    """Return Wilson's interval; at 0 and at 1 a standard error says nothing, so only n counts there."""
    if usable is not None and 0.0 < value < 1.0:
        effective = max(value * (1.0 - value) / usable**2, 1.0)  # an error beyond one sample's is no error of a share
        method = "wilson, from the file's standard error"
    elif n > 0:
        effective, method = float(n), "wilson, from the file's number of samples"
    else:
        return IntervalEstimate(value, None, None, stated, "none in the file", n, confidence)
    interval = wilson(value * effective, effective, confidence)
    return IntervalEstimate(value, interval.low, interval.high, stated, method, n, confidence)
