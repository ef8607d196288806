"""Prompts are built many times faster than in lm-eval, in the same process on the same rows."""

import time
from pathlib import Path

import pytest

from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from tests.tasks import oracle


@pytest.mark.oracle
def test_prompts_are_twenty_times_faster(shared_dir: Path, lm_files: Catalog) -> None:
    """25-shot arc_challenge: at most a twentieth of lm-eval's time per sample (its first 40 against our whole task)."""
    (task,) = lm_files.select(["lm-eval:arc_challenge"]).tasks
    theirs = oracle.make_task(task.source, shared_dir / "data")
    start = time.process_time()
    prompted = oracle.prompts_of(theirs, 25, 40)
    their_seconds = (time.process_time() - start) / len(prompted)
    bound = bind(task, BindOptions(num_fewshot=25, data_dir=shared_dir / "data"))
    start = time.process_time()
    n_requests = sum(1 for _ in bound.requests())
    our_seconds = (time.process_time() - start) / n_requests
    assert n_requests == 1172
    assert their_seconds / our_seconds > 20
