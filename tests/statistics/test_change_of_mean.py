"""The alarm without a baseline beside its formula, its promise in simulations, and what peeking does in its place."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from assaymark.errors import UsageError
from assaymark.statistics.arrays import Floats
from assaymark.statistics.change_of_mean import (
    CELLS,
    GRID,
    MeanChangeDetector,
    change_point,
)
from assaymark.statistics.e_detector import BETS, log_evidence, threshold_of

N, ALPHA, REPETITIONS = 1000, 0.05, 500
THRESHOLD = threshold_of(N, ALPHA)
MOST = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / REPETITIONS)


def evidence_of_cells(values: Sequence[float]) -> list[float]:
    """Return the evidence after each value, as the formulas have it."""
    evidence, peaks = [], [0.0] * CELLS
    below = [[0.0] * len(BETS) for _ in range(CELLS)]
    above = [[0.0] * len(BETS) for _ in range(CELLS)]
    for value in values:
        for cell in range(CELLS):
            low, high = float(GRID[cell]), float(GRID[cell + 1])
            for at, bet in enumerate(BETS):
                below[cell][at] = (1 + bet / (1 - low) * (low - value)) * (below[cell][at] + 1)
                above[cell][at] = (1 + bet / high * (value - high)) * (above[cell][at] + 1)
            peaks[cell] = max(peaks[cell], (sum(below[cell]) + sum(above[cell])) / (2 * len(BETS)))
        evidence.append(min(peaks))
    return evidence


def surviving(detector: MeanChangeDetector) -> tuple[float, float] | None:
    """Return the ends of the means that are not refuted; None when all are."""
    (cells,) = np.nonzero(detector.state[:CELLS] < math.log(detector.threshold))
    return (float(GRID[cells[0]]), float(GRID[cells[-1] + 1])) if len(cells) else None


def stationary(kind: str) -> Floats:
    """Return streams without a change, of a mean that no detector is told. Shape: [repetitions, n]."""
    generator = np.random.default_rng(11)
    if kind == "graded":
        return generator.beta(8, 2, (REPETITIONS, N))
    if kind == "dependent":  # after a good value nearly constant, after a bad one all or nothing, always of mean .9
        streams, last = [], np.ones(REPETITIONS)
        for _ in range(N):
            calm = 0.9 + 0.1 * (2 * (generator.random(REPETITIONS) < 0.5) - 1.0)
            last = np.where(last > 0.9, calm, (generator.random(REPETITIONS) < 0.9).astype(float))
            streams.append(last)
        return np.clip(np.stack(streams, axis=1), 0, 1)
    return (generator.random((REPETITIONS, N)) < float(kind)).astype(float)


def false_alarms(streams: Floats) -> float:
    """Return the share of streams that raise an alarm.

    An alarm refutes all cells, so only streams that refute the middle one of their values need the detector itself.
    """
    mean = float(streams.mean())
    cell = min(int(np.searchsorted(GRID, mean, side="right")) - 1, CELLS - 1)
    suspects = []
    for at, stream in enumerate(streams):
        both = np.stack([stream, 1 - stream])
        logs = log_evidence(both, np.array([GRID[cell], 1 - GRID[cell + 1]]))
        if np.exp(np.minimum(logs, 700)).mean(axis=(0, 2)).max() >= THRESHOLD:
            suspects.append(at)
    return sum(MeanChangeDetector(THRESHOLD).add(streams[at]) is not None for at in suspects) / len(streams)


def peeking_alarms(streams: Floats) -> float:
    """Return the share of streams in which the last 50 ever differ from all before by 1.96 errors, looked at always."""
    sums, squares = (np.cumsum(each, axis=1) for each in (streams, streams**2))
    n, w = np.arange(1, N + 1), 50
    late, late_squares = sums[:, w:] - sums[:, :-w], squares[:, w:] - squares[:, :-w]
    early, early_squares = sums[:, :-w], squares[:, :-w]
    before = n[:-w]
    variance_late = late_squares / w - (late / w) ** 2
    variance_early = early_squares / before - (early / before) ** 2
    error = np.sqrt(variance_late / w + variance_early / before)[:, w:]  # at least 50 before
    difference = np.abs(late / w - early / before)[:, w:]
    return float((difference > 1.96 * np.maximum(error, 1e-9)).any(axis=1).mean())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["0.5", "0.9", "0.99", "graded", "dependent"])
def test_false_alarms_are_as_promised_and_peeking_is_not(kind: str) -> None:
    """Of 500 streams of an unknown mean at most 5% raise an alarm, to three errors; a test at each value is above."""
    streams = stationary(kind)
    assert false_alarms(streams) <= MOST
    peeking = peeking_alarms(streams)
    assert peeking > MOST
    if kind not in {"0.99", "dependent"}:
        assert peeking > 0.5


@pytest.mark.slow
def test_the_true_cell_decides() -> None:
    """What `false_alarms` leaves out is right: of twenty whole detectors none alarms that it did not look at."""
    streams = stationary("0.9")[:20]
    whole = sum(MeanChangeDetector(THRESHOLD).add(stream) is not None for stream in streams) / 20
    assert whole == false_alarms(streams)


def test_fast_evidence_is_the_plain_formulas() -> None:
    """The vectorised evidence is that of the formulas after each value, to rounding, in blocks of any sizes."""
    generator = np.random.default_rng(1)
    values = np.concatenate([generator.random(150) < 0.9, generator.random(100) < 0.4]).astype(float)
    plain = evidence_of_cells(values.tolist())
    detector = MeanChangeDetector(1e30)
    at = 0
    for size in (1, 2, 40, 90, 117):
        detector.add(values[at : at + size])
        at += size
        assert detector.evidence == pytest.approx(plain[at - 1], rel=1e-9)
    assert at == len(values)
    position = MeanChangeDetector(500).add(values)
    assert position == next(at for at, evidence in enumerate(plain) if evidence >= 500)


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after", "median"), [(0.9, 0.8, 330), (0.9, 0.7, 75), (0.7, 0.9, 97)])
def test_delays(before: float, after: float, median: int) -> None:
    """A change after 2,000 values is found after the published median delay, dated, and a drop is told from a rise."""
    generator = np.random.default_rng(5)
    delays, dates = [], []
    for _ in range(12):
        values = np.concatenate([generator.random(2000) < before, generator.random(2000) < after]).astype(float)
        detector = MeanChangeDetector(THRESHOLD)
        position = detector.add(values)
        delays.append(math.inf if position is None else position - 1999)
        if position is not None:
            assert surviving(detector) is None
            change = change_point(values[: position + 1], detector.evidence)
            assert change.is_drop == (after < before)
            assert change.evidence >= THRESHOLD
            dates.append(change.since - 2000)
    assert np.median(delays) == pytest.approx(median, rel=0.2)
    assert np.isfinite(delays).mean() > 0.9
    assert abs(np.median(dates)) < 25


def test_the_surviving_means_contain_the_true_one() -> None:
    """Without a change the means that are left are few, and the true one is among them."""
    values = (np.random.default_rng(6).random(3000) < 0.9).astype(float)
    detector = MeanChangeDetector(60_000)
    assert detector.add(values) is None
    ends = surviving(detector)
    assert ends is not None
    low, high = ends
    assert low <= 0.9 <= high
    assert high - low < 0.12


def test_a_resumed_detector_goes_on() -> None:
    """With its state and the number of values kept elsewhere, a detector goes on as if it had seen them."""
    values = (np.random.default_rng(7).random(400) < 0.75).astype(float)
    whole, first, second = (MeanChangeDetector(1e30) for _ in range(3))
    whole.add(values)
    first.add(values[:150])
    second.resume(np.frombuffer(first.state.astype("<f8").tobytes(), "<f8"), first.n_seen)
    second.add(values[150:])
    assert second.n_seen == 400
    assert second.evidence == pytest.approx(whole.evidence)
    with pytest.raises(UsageError, match="expected 1300 numbers"):
        second.resume(np.zeros(3), 1)


def test_the_change_point_is_the_best_of_all_splits() -> None:
    """The date is that of least squares over all splits, computed one by one."""
    values = np.concatenate([np.full(13, 0.8), np.full(9, 0.3)]) + np.random.default_rng(8).normal(0, 0.1, 22)
    left = [values[:k].var() * k + values[k:].var() * (len(values) - k) for k in range(1, len(values))]
    change = change_point(values, 1.0)
    assert change.since == int(np.argmin(left)) + 1
    assert change.mean_before == pytest.approx(values[: change.since].mean())
    assert change.mean == pytest.approx(values[change.since :].mean())
    with pytest.raises(UsageError, match="at least two"):
        change_point([1.0], 1.0)


@pytest.mark.parametrize("values", [[1.2], [-0.1, 0.5], [math.nan]])
def test_values_out_of_range_are_refused(values: list[float]) -> None:
    """A value outside of [0, 1] is refused with what to do; so is a threshold of 1."""
    with pytest.raises(UsageError, match="divide by their bound"):
        MeanChangeDetector(THRESHOLD).add(values)
    with pytest.raises(UsageError, match="expected more than 1"):
        MeanChangeDetector(1.0)
