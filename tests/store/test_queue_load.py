"""The queue's simulation, small: on both databases no job is lost, done twice or starved though workers die."""

import pytest
from benchmarks.queue_speed import Load, simulate

pytestmark = pytest.mark.slow


def test_workers_that_die_lose_and_repeat_nothing(url: str) -> None:
    """80 submissions of 16 submitters, four workers of which every eighth job kills one."""
    result = simulate(Load(url, n_submissions=80, n_submitters=16, n_workers=4, deaths=0.125))
    assert (result.n_lost, result.n_twice) == (0, 0)
    assert result.n_deaths > 0
    assert result.n_retried > 0
    assert len(result.claim_ms) == 80
    assert result.worst_overtaking <= 4
