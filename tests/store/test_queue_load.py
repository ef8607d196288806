"""The queue's simulation, small: on both databases no job is lost, done twice or starved though workers die."""

import pytest
from benchmarks.queue_speed import Load, simulate

pytestmark = pytest.mark.slow


def test_workers_that_die_lose_and_repeat_nothing(url: str) -> None:
    """200 submissions of 40 submitters, five workers of which every tenth job kills one."""
    result = simulate(Load(url, n_submissions=200, n_submitters=40, n_workers=5, deaths=0.1))
    assert (result.n_lost, result.n_twice) == (0, 0)
    assert result.n_deaths > 0
    assert result.n_retried > 0
    assert len(result.claim_ms) == 200
    assert result.worst_overtaking <= 5
