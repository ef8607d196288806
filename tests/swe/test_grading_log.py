"""The rows of checks, gradings and attempts, on both databases."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.errors import HashMismatch
from assaymark.store import Store
from assaymark.swe.grading_log import Check, Grading, GradingLog, StoredAttempt
from assaymark.swe.tables import SWE_TABLES
from tests.store.test_verify import flipped


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GradingLog]:
    """Return the log of an empty store."""
    is_file = request.param == "sqlite"
    url = str(tmp_path / "s.sqlite") if is_file else request.getfixturevalue("postgres_store")
    with Store.open(url) as store:
        yield GradingLog(store)
        assert store.verify() == []


GRADING = Grading(
    instance_sha="i" * 64,
    patch_sha="p" * 64,
    environment_sha="e" * 64,
    instance_id="local__x-1",
    outcome="resolved",
    reason="why\x00",
    seconds=1.5,
    patch="patch \udc80",
    details={"flags": ["a"]},
    log="log\x00",
)
ATTEMPT = StoredAttempt("k" * 64, "local__x-1", "m", "p" * 64, "Submitted", 3, None, {"info": {"submission": "\udc80"}})


def test_a_grading_is_stored_once(log: GradingLog) -> None:
    """The second one of the same patch, instance and environment changes nothing; NUL and lone surrogates are kept."""
    log.add_grading(GRADING)
    log.add_grading(replace(GRADING, outcome="unresolved"))
    log.add_grading(replace(GRADING, environment_sha="f" * 64, outcome="error"))
    (stored,) = log.gradings(GRADING.patch_sha, GRADING.instance_sha, GRADING.environment_sha)
    assert replace(stored, graded=0.0) == replace(GRADING, reason="why\ufffd")
    assert [each.outcome for each in log.gradings(GRADING.patch_sha, GRADING.instance_sha)] == ["error", "resolved"]
    assert log.gradings("q" * 64, GRADING.instance_sha) == []


def test_a_check_is_replaced_by_a_later_one(log: GradingLog) -> None:
    """What was not runnable may be later."""
    failed = Check("i" * 64, "e" * 64, "local__x-1", is_runnable=False, reason="no", seconds=0.0)
    log.add_check(failed)
    assert log.why_not_runnable(failed.instance_sha) == "no"
    log.add_check(replace(failed, is_runnable=True, reason=""))
    assert log.check(failed.instance_sha, failed.environment_sha) == replace(failed, is_runnable=True, reason="")
    assert log.why_not_runnable(failed.instance_sha) is None
    assert log.why_not_runnable("j" * 64) is None


def test_an_attempt_is_found_by_key_and_by_patch(log: GradingLog) -> None:
    """Those of other models are not."""
    log.add_attempt(ATTEMPT)
    log.add_attempt(replace(ATTEMPT, key="l" * 64, model="other", cost=0.5))
    assert log.attempt(ATTEMPT.key) == ATTEMPT
    assert log.attempts_of(ATTEMPT.patch_sha, ATTEMPT.instance_id, "m") == [ATTEMPT]
    assert log.attempt("z" * 64) is None


READERS: dict[str, Callable[[GradingLog], object]] = {
    "swe_checks": lambda log: log.check("i" * 64, "e" * 64),
    "swe_gradings": lambda log: log.gradings(GRADING.patch_sha, GRADING.instance_sha),
    "swe_attempts": lambda log: log.attempt(ATTEMPT.key),
}


def test_a_changed_value_is_found(tmp_path: Path) -> None:
    """`verify` finds a flipped byte in every column of checks, gradings and attempts; what is read is an error."""
    path, n_changed = tmp_path / "s.sqlite", 0
    with Store.open(str(path)) as store:
        log = GradingLog(store)
        log.add_grading(GRADING)
        log.add_attempt(replace(ATTEMPT, cost=0.5))
        log.add_check(Check("i" * 64, "e" * 64, "local__x-1", is_runnable=False, reason="no", seconds=1.0))
        for table in SWE_TABLES:
            for column in table.columns:
                with closing(sqlite3.connect(path)) as connection, connection:
                    ((value,),) = connection.execute(f'SELECT "{column.name}" FROM {table.name}')
                    if value is None:
                        continue
                    change = f'UPDATE {table.name} SET "{column.name}" = ?'
                    connection.execute(change, (flipped(value, 3),))
                    connection.commit()
                    assert store.verify() != [], column
                    if column.name in {"outcome", "trajectory", "reason"}:
                        with pytest.raises(HashMismatch, match="is not as it was saved"):
                            READERS[table.name](log)
                    connection.execute(change, (value,))
                    n_changed += 1
        assert store.verify() == []
    assert n_changed >= 20
