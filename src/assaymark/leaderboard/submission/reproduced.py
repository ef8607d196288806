"""Whether reported results agree with those that a worker measured."""

from collections.abc import Sequence

from assaymark.records import Estimate

__all__ = ["verdict_of"]

SHOWN = 3  # disagreements


def verdict_of(reported: Sequence[Estimate], measured: Sequence[Estimate]) -> tuple[bool, str]:
    """Return whether the reported scores agree, and that in one sentence.

    A score agrees if it lies within the 95% interval of the measured one, as it must where the same questions were
    asked; scores that were not measured are not compared, and at least one must be.
    """
    ours = {(one.task, one.metric): one for one in measured if one.value is not None}
    pairs = [(one, ours[one.task, one.metric]) for one in reported if (one.task, one.metric) in ours]
    pairs = [(one, other) for one, other in pairs if one.value is not None]
    wrong = [(one, other) for one, other in pairs if not _agrees(one, other)]
    if not pairs:
        return False, "none of the reported scores was measured on this board, so nothing was verified"
    if not wrong:
        return True, f"verified: all {len(pairs)} reported scores are within the 95% intervals of those measured here"
    shown = "; ".join(f"{one.task} {one.metric}: {one.value:.4f} reported, {other.value:.4f} measured"
                      for one, other in wrong[:SHOWN])  # fmt: skip
    return False, f"not verified: {len(wrong)} of {len(pairs)} reported scores differ ({shown})"


def _agrees(one: Estimate, other: Estimate) -> bool:
    if one.value is None or other.value is None:
        return False
    low = other.value if other.low is None else other.low
    high = other.value if other.high is None else other.high
    return low - 1e-9 <= one.value <= high + 1e-9
