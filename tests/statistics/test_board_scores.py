"""Composites' errors and intervals: against closed forms and by simulation of leaderboards."""

import math
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from assaymark.errors import DataError
from assaymark.statistics.board_scores import (
    Part,
    average,
    clipped,
    clipped_interval,
    estimate_win_rates,
    geometric,
    interval_of,
    ratio_part,
    reported_part,
    rescaled,
    weighted_sum,
)
from assaymark.statistics.estimate import estimate_mean
from assaymark.statistics.groups import estimate_composite, linear_stderr

Floats = NDArray[np.float64]
RUNS = 600


def mean_part(values: Sequence[float], questions: Sequence[Hashable]) -> Part:
    """Return the mean of one score per question."""
    return ratio_part(values, [1.0] * len(values), questions)


def binary(generator: np.random.Generator, n: int, p: float, task: str) -> Part:
    """Return the score of n right or wrong answers."""
    return mean_part((generator.random(n) < p).astype(float).tolist(), [(task, i) for i in range(n)])


def error(part: Part) -> float:
    """Return the standard error, which must be known."""
    assert part.stderr is not None
    return part.stderr


def simulated(make: Callable[[np.random.Generator], Part], runs: int = RUNS) -> tuple[float, float, Sequence[Part]]:
    """Return the spread of a composite over simulated runs, the root mean square of its errors, and the composites."""
    generator = np.random.default_rng(1)
    parts = [make(generator) for _ in range(runs)]
    spread = float(np.std([part.value for part in parts], ddof=1))
    return spread, math.sqrt(float(np.mean([error(part) ** 2 for part in parts]))), parts


def test_a_mean_has_the_plain_error_and_interval() -> None:
    """A single member has the value, error and interval of `estimate_mean`, with t instead of z in Wilson's formula."""
    part = binary(np.random.default_rng(0), 300, 0.7, "a")
    ours, plain = interval_of(part, "composite"), estimate_mean([1.0] * 7 + [0.0] * 3)
    assert (ours.value, ours.n) == (part.value, 300)
    assert error(part) == pytest.approx(math.sqrt(part.value * (1 - part.value) / 299))
    ten = interval_of(mean_part([1.0] * 7 + [0.0] * 3, range(10)), "composite")
    assert ten.value == plain.value
    assert ten.stderr == pytest.approx(plain.stderr)


def test_independent_members_have_the_closed_form() -> None:
    """The error of a mean of tasks is √Σ SE²/T, and rescaling divides it by 1 - chance."""
    generator = np.random.default_rng(0)
    parts = [binary(generator, n, 0.6, f"t{n}") for n in (50, 200, 700)]
    assert error(average(parts)) == pytest.approx(linear_stderr([error(part) for part in parts], [1 / 3] * 3))
    assert error(rescaled(parts[0], 0.25)) == pytest.approx(error(parts[0]) / 0.75)
    assert rescaled(parts[0], 0.25).value == pytest.approx((parts[0].value - 0.25) / 0.75)
    assert rescaled(Part(0.1), 0.25).value < 0


def test_two_metrics_of_the_same_answers_are_not_independent() -> None:
    """IFEval: the mean of prompt level and instruction level, two views of the same prompts, over simulated runs."""
    n = 300

    def board(generator: np.random.Generator) -> Part:
        sizes = generator.integers(1, 4, n)
        skill = generator.beta(2, 2, n)
        hits = generator.binomial(sizes, skill)
        prompt = mean_part((hits == sizes).astype(float).tolist(), range(n))
        instructions = ratio_part(hits.tolist(), sizes.tolist(), range(n))
        return average([prompt, instructions])

    spread, said, parts = simulated(board)
    assert said == pytest.approx(spread, rel=0.05)
    assert parts[0].bounds == (0.0, 1.0)


def test_a_copied_task_counts_as_one() -> None:
    """Nous: a task that is a copy of another adds no information; as independent the error would be too small."""
    generator = np.random.default_rng(0)
    part = binary(generator, 300, 0.4, "logical_deduction_three_objects")
    assert error(average([part, part])) == pytest.approx(error(part))
    other = binary(generator, 300, 0.4, "another")
    assert error(average([part, other])) == pytest.approx(math.hypot(error(part), error(other)) / 2)


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.0, 0.02, 0.05, 0.15])
def test_the_error_of_clipped_members_is_the_simulated_one(theta: float) -> None:
    """Open LLM Leaderboard v2: 24 subtasks normalised and clipped, at chance, near it and far from it."""
    n, chances = 120, [1 / k for k in (2, 2, 6, 3, 2, 11, 2, 5, 7, 3, 6, 2, 19, 5, 18, 6, 6, 2, 2, 4, 5, 7, 3, 2)]

    def board(generator: np.random.Generator) -> Part:
        return average(
            [clipped(rescaled(binary(generator, n, b + theta * (1 - b), str(i)), b)) for i, b in enumerate(chances)]
        )

    spread, said, parts = simulated(board, runs=300)
    assert said == pytest.approx(spread, rel=0.16)
    if theta == 0:
        plain = average([rescaled(binary(np.random.default_rng(2), n, b, str(i)), b) for i, b in enumerate(chances)])
        assert error(plain) > 1.4 * spread, "without a thought for clipping the error would be far too large"
        assert np.mean([part.value for part in parts]) > 0.015, "clipping lifts a model that guesses"


def test_clipping_far_from_chance_changes_nothing() -> None:
    """Ten errors above chance the clipped score has the unclipped one's error; far below it has none."""
    part = rescaled(binary(np.random.default_rng(0), 400, 0.8, "a"), 0.25)
    assert error(clipped(part)) == pytest.approx(error(part), rel=1e-6)
    below = rescaled(binary(np.random.default_rng(0), 400, 0.01, "a"), 0.5)
    assert clipped(below).value == 0
    assert error(clipped(below)) == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_a_clipped_interval_covers_the_clipped_truth() -> None:
    """The interval of a clipped composite covers the composite of the true scores in 19 of 20, at and near chance."""
    for theta in (0.0, 0.05):
        generator = np.random.default_rng(3)
        held = 0
        for _ in range(120):
            parts = [rescaled(binary(generator, 100, 0.25 + 0.75 * theta, str(i)), 0.25) for i in range(8)]
            result = clipped_interval(average([clipped(part) for part in parts]), average(parts), "composite")
            assert result.low is not None
            assert result.high is not None
            assert 0 <= result.low <= result.value <= result.high
            held += result.low <= theta <= result.high
        assert held >= 0.91 * 120


@pytest.mark.parametrize("chance", [0.0, 0.25])
def test_intervals_of_composites_cover(chance: float) -> None:
    """The 95% interval of a normalised mean of unequal tasks covers the truth in 91 to 99 of 100 runs."""
    truths, sizes = (0.9, 0.55, 0.3, 0.98), (60, 500, 100, 40)
    truth = float(np.mean([(p - chance) / (1 - chance) for p in truths]))
    generator = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        drawn = [binary(generator, n, p, str(p)) for p, n in zip(truths, sizes, strict=True)]
        result = interval_of(average([rescaled(part, chance) for part in drawn]), "composite")
        assert result.low is not None
        assert result.high is not None
        held += result.low <= truth <= result.high
    assert 0.91 <= held / 200 <= 0.99


def test_a_perfect_score_has_an_interval_of_positive_width() -> None:
    """If all answers are correct, the interval still has a width, and ends at 100%."""
    parts = [rescaled(mean_part([1.0] * 50, [(t, i) for i in range(50)]), 0.25) for t in "abc"]
    result = interval_of(average(parts), "composite")
    assert [result.value, result.high] == pytest.approx([1.0, 1.0])
    assert result.low is not None
    assert 0.9 < result.low < 0.99


def test_a_small_task_that_is_all_wrong_has_the_error_that_it_may_have() -> None:
    """50 of 100 and 0 of 4: the composite has the interval of the group's mean, as a reported row too."""
    scores = {("big", 100): [1.0] * 50 + [0.0] * 50, ("small", 4): [0.0] * 4}
    parts = [mean_part(values, [(task, i) for i in range(n)]) for (task, n), values in scores.items()]
    result = interval_of(average(parts), "composite")
    group = estimate_composite([estimate_mean(values) for values in scores.values()], [0.5, 0.5])
    assert (result.low, result.high) == pytest.approx((group.low, group.high), abs=1e-9)
    assert (result.low, result.high) == pytest.approx((0.2019, 0.5025), abs=1e-4)
    reported = [reported_part(estimate_mean(values), task) for task, values in scores.items()]
    row = interval_of(average(reported), "composite")
    assert (row.low, row.high) == pytest.approx((group.low, group.high), abs=1e-6)


def test_copies_count_once_where_all_answers_are_right_too() -> None:
    """A task and its copy, all right, have about the interval of one of them; two tasks a narrower one."""
    part = mean_part([1.0] * 20, [("a", i) for i in range(20)])
    other = mean_part([1.0] * 20, [("b", i) for i in range(20)])
    one, copied, two = (interval_of(each, "x") for each in (part, average([part, part]), average([part, other])))
    assert (copied.low, copied.high) == pytest.approx((one.low, one.high), abs=0.01)
    assert one.low is not None
    assert two.low is not None
    assert two.low > one.low + 0.05


def test_one_sample_has_the_error_of_a_coin() -> None:
    """57 subjects of one sample each (`--limit 1`) have the error of 57 tosses, not 0."""
    parts = [mean_part([1.0], [(t, 0)]) for t in range(57)]
    assert error(average(parts)) == pytest.approx(0.5 / math.sqrt(57))


def test_the_geometric_mean_has_the_simulated_error() -> None:
    """Geometric: error and coverage over simulated runs; 0 has no error, below 0 there is no mean."""

    def board(generator: np.random.Generator) -> Part:
        result = geometric([binary(generator, 200, p, str(p)) for p in (0.3, 0.6, 0.9)])
        assert result is not None
        return result

    spread, said, parts = simulated(board)
    assert said == pytest.approx(spread, rel=0.05)
    truth = (0.3 * 0.6 * 0.9) ** (1 / 3)
    result = [interval_of(part, "composite", logarithmic=True) for part in parts[:150]]
    held = np.mean([f.low is not None and f.high is not None and f.low <= truth <= f.high for f in result])
    assert 0.91 <= held <= 0.99
    weighted = geometric([Part(0.5), Part(0.8)], [3, 1])
    assert weighted is not None
    assert weighted.value == pytest.approx(0.5**0.75 * 0.8**0.25)
    zero = geometric([Part(0.0), Part(0.5)])
    assert zero is not None
    assert (zero.value, zero.stderr) == (0.0, None)
    assert geometric([Part(-0.1), Part(0.5)]) is None


def test_per_sample_chance_is_part_of_the_error() -> None:
    """Questions of 3 to 10 choices: the error of Σ(x - 1/k) / Σ(1 - 1/k) is that of simulations with new questions."""

    def board(generator: np.random.Generator) -> Part:
        chance = 1 / generator.integers(3, 11, 250)
        right = (generator.random(250) < chance + 0.3 * (1 - chance)).astype(float)
        return ratio_part((right - chance).tolist(), (1 - chance).tolist(), range(250))

    spread, said, _ = simulated(board)
    assert said == pytest.approx(spread, rel=0.05)


def test_unknown_errors_stay_unknown() -> None:
    """A published number without samples has a value and no interval; so has a composite with such a member."""
    part = average([Part(0.5), binary(np.random.default_rng(0), 50, 0.5, "a")])
    result = interval_of(part, "composite")
    assert (result.low, result.high, result.stderr) == (None, None, None)


def test_invalid_input_is_refused() -> None:
    """No samples, counts that differ, and a zero above the best are refused."""
    with pytest.raises(DataError, match="at least 1"):
        mean_part([], [])
    with pytest.raises(DataError, match="equal numbers"):
        weighted_sum([Part(0.5)], [0.5, 0.5])
    with pytest.raises(DataError, match="expected the first below"):
        rescaled(Part(0.5), 1.0)


def test_win_rates_have_the_simulated_error() -> None:
    """Three models on the same questions: the error of each win rate is its spread over simulated leaderboards."""
    truths = np.array([[0.50, 0.55, 0.45], [0.60, 0.62, 0.58], [0.30, 0.27, 0.36]])  # [columns, models]
    generator = np.random.default_rng(7)

    def columns() -> list[list[Part]]:
        made = []
        for c, row in enumerate(truths):
            luck = generator.random(150)  # shared by the models: a hard question is hard for all
            own = generator.random((3, 150))
            scores = [np.where(generator.random(150) < 0.5, luck, own[m]) < p for m, p in enumerate(row)]
            made.append([mean_part(s.astype(float).tolist(), [(c, i) for i in range(150)]) for s in scores])
        return made

    results = [estimate_win_rates(columns(), draws=300) for _ in range(300)]
    values = np.array([[model.value for model in models] for models in results])
    errors = np.array([[model.stderr for model in models] for models in results], dtype=float)
    assert values.mean(axis=1) == pytest.approx(0.5)
    np.testing.assert_allclose(np.sqrt((errors**2).mean(axis=0)), values.std(axis=0, ddof=1), rtol=0.2)
    alone = estimate_win_rates([[Part(0.5), Part(0.6)]])
    assert [(model.value, model.low) for model in alone] == [(0.0, None), (1.0, None)]
