"""Few-shot draws: other programs' generators reproduced, leaks excluded or counted."""

import random
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assaymark.errors import PlanError
from assaymark.prompts.few_shot import DrawRules, LeakGuard, draw_shots, order_of_samples
from assaymark.records import Sample, content_hash


def samples_of(rows: list[dict[str, int]]) -> list[Sample]:
    """Return samples of these rows."""
    return [Sample("task", i, row, content_hash(row)) for i, row in enumerate(rows)]


POOL = [{"n": i} for i in range(12)]


def test_no_shots_draw_nothing() -> None:
    """With zero shots the pool is not used."""
    assert draw_shots(samples_of(POOL[:2]), 2, [], DrawRules(0, 1234)) == [(), ()]


def test_one_generator_is_used_for_all_samples() -> None:
    """Each sample in turn draws k rows from one generator with the run's seed."""
    generator = random.Random(1234)
    expected = [tuple(POOL.index(row) for row in generator.sample(POOL, 3)) for _ in range(5)]
    assert draw_shots(samples_of([{"n": 99}] * 5), 5, POOL, DrawRules(3, 1234)) == expected


def test_excluding_draws_one_more_and_drops_the_sample() -> None:
    """If samples come from the pool itself, k + 1 rows are drawn and the sample is removed."""
    generator = random.Random(1234)
    expected = [tuple(POOL.index(x) for x in generator.sample(POOL, 4) if x != row)[:3] for row in POOL]
    drawn = draw_shots(samples_of(POOL), len(POOL), POOL, DrawRules(3, 1234, exclude=True))
    assert drawn == expected
    assert all(i not in shots for i, shots in enumerate(drawn))


def test_duplicates_are_drawn_again() -> None:
    """If too few remain because rows repeat, shots are drawn from the pool without them."""
    pool = [{"n": 0}] * 9 + [{"n": 1}, {"n": 2}]
    drawn = draw_shots(samples_of([{"n": 0}] * 4), 4, pool, DrawRules(2, 1234, exclude=True))
    assert all(set(shots) == {9, 10} for shots in drawn)
    with pytest.raises(PlanError, match="3 shots are to be drawn from 2 rows"):
        draw_shots(samples_of([{"n": 0}]), 1, pool, DrawRules(3, 1234, exclude=True))


def test_first_n_uses_the_first_rows() -> None:
    """first_n is not random; with exclusion the sample itself is skipped."""
    rules = DrawRules(2, 1234, sampler="first_n")
    assert draw_shots(samples_of(POOL[:2]), 2, POOL, rules) == [(0, 1), (0, 1)]
    excluding = DrawRules(2, 1234, sampler="first_n", exclude=True)
    assert draw_shots(samples_of(POOL[:3]), 3, POOL, excluding) == [(1, 2), (0, 2), (0, 1)]
    with pytest.raises(PlanError, match="5 shots are to be drawn from 3 rows"):
        draw_shots(samples_of(POOL[:1]), 1, POOL[:3], DrawRules(5, 1, sampler="first_n"))


def test_the_scheme_of_2023_shuffles_first() -> None:
    """One generator shuffles the samples and then draws their shots."""
    rules = DrawRules(2, 42, scheme="shuffled")
    order = order_of_samples(6, rules)
    generator = random.Random(42)
    expected = list(range(6))
    generator.shuffle(expected)
    assert order == expected
    samples = samples_of([{"n": 100 + i} for i in range(6)])
    drawn = draw_shots([samples[i] for i in order], 6, POOL, rules)
    assert drawn == [tuple(POOL.index(row) for row in generator.sample(POOL, 2)) for _ in range(6)]
    first = draw_shots([samples[i] for i in order[:2]], 6, POOL, rules)
    assert first == drawn[:2]


def test_the_gauntlet_draws_other_rows_of_the_same_split() -> None:
    """Each sample gets the requested number of other rows, or all there are, from one generator."""
    rules = DrawRules(3, 1234, scheme="others")
    samples = samples_of(POOL)
    drawn = draw_shots(samples, 12, POOL, rules)
    assert all(len(set(shots)) == 3 and sample.index not in shots for sample, shots in zip(samples, drawn, strict=True))
    assert set(random.Random(1234).sample(range(12), 3)) == {0, 1, 7}
    assert sorted(drawn[0]) == [1, 7, 9]  # the first sample is not its own shot
    assert draw_shots(samples[:4], 12, POOL, rules) == drawn[:4]
    few = draw_shots(samples_of(POOL[:3]), 3, POOL[:3], rules)
    assert [sorted(shots) for shots in few] == [[1, 2], [0, 2], [0, 1]]


def test_a_small_pool_is_an_error() -> None:
    """More shots than rows is an error of the plan."""
    with pytest.raises(PlanError, match="13 shots are to be drawn from 12 rows"):
        draw_shots(samples_of(POOL[:1]), 1, POOL, DrawRules(13, 1))


@given(st.integers(0, 4), st.lists(st.integers(0, 5), min_size=6, max_size=20))
def test_our_own_scheme_never_leaks(n_shots: int, values: list[int]) -> None:
    """In the per-sample scheme a sample never gets itself or an equal row, and no shot twice."""
    pool = [{"n": value} for value in values]
    samples = samples_of(pool)
    rules = DrawRules(n_shots, 1234, scheme="per-sample", forbid_leaks=True)
    if any(len(pool) - values.count(value) < n_shots for value in values):
        with pytest.raises(PlanError):
            draw_shots(samples, len(pool), pool, rules)
        return
    for sample, shots in zip(samples, draw_shots(samples, len(pool), pool, rules), strict=True):
        assert LeakGuard(pool, None).count(sample, shots) == 0
        assert len(set(shots)) == n_shots


@pytest.mark.parametrize("sampler", ["default", "first_n"])
def test_a_row_with_the_same_question_is_not_a_shot(sampler: Literal["default", "first_n"]) -> None:
    """If leaks are forbidden near-duplicates are excluded as well; otherwise the draw is unchanged."""
    samples = samples_of([{"n": i + 1000} for i in range(12)])
    rules = DrawRules(3, 1234, scheme="per-sample", sampler=sampler, forbid_leaks=True)
    for sample, shots in zip(samples, draw_shots(samples, 12, POOL, rules, lambda row: row["n"] % 5), strict=True):
        assert len(set(shots)) == 3
        assert all(POOL[i]["n"] % 5 != sample.row["n"] % 5 for i in shots)
    allowing = replace(rules, forbid_leaks=False)
    assert draw_shots(samples, 12, POOL, allowing, lambda row: 0) == draw_shots(samples, 12, POOL, allowing)
    with pytest.raises(PlanError, match="3 shots are to be drawn from 0 rows"):
        draw_shots(samples, 12, POOL, rules, lambda row: 0)


def test_our_own_scheme_does_not_depend_on_the_others() -> None:
    """A sample draws the same shots alone, in any order and with any other samples."""
    samples = samples_of([{"n": 100 + i} for i in range(5)])
    rules = DrawRules(3, 1234, scheme="per-sample", forbid_leaks=True)
    whole = draw_shots(samples, 5, POOL, rules)
    assert draw_shots(samples[::-1], 5, POOL, rules) == whole[::-1]
    assert draw_shots(samples[3:4], 5, POOL, rules) == whole[3:4]
    assert len(set(whole)) > 1


def test_leaks_are_counted() -> None:
    """Shots equal to the sample's row are counted at any position, and shots with the same question if it is known."""
    sample = samples_of([{"n": 3}])[0]
    assert LeakGuard(POOL, None).count(sample, (1, 3, 5)) == 1
    assert LeakGuard(POOL, None).count(sample, (1, 2)) == 0
    assert LeakGuard(POOL, lambda row: row["n"] % 2).count(sample, (1, 2, 3, 4, 5)) == 3
    assert LeakGuard(POOL, lambda row: None).count(sample, (1, 2, 3)) == 1
