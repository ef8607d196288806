"""Checks, gradings and attempts in the store. Gradings are added and never changed, so nothing is graded twice."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

from sqlalchemy import ColumnElement, Table, insert, select

from assaymark.records import JsonValue
from assaymark.store.feature_tables import FeatureLog, FeatureTables
from assaymark.store.packing import pack_json, pack_text, shown_text, unpack_json, unpack_text
from assaymark.store.schema import StoredRow, as_saved, insert_rows, upsert, with_checksum
from assaymark.swe.tables import SWE_TABLES, swe_attempts, swe_checks, swe_gradings

_INSERTS = {table: insert(table) for table in SWE_TABLES}


@dataclass(frozen=True, slots=True)
class Check:
    """Whether an instance can be graded in an environment; reason: why not."""

    instance_sha: str
    environment_sha: str
    instance_id: str
    is_runnable: bool
    reason: str
    seconds: float


class GradingDetails(TypedDict, total=False):
    """Facts about a grading beside its outcome."""

    patch_successfully_applied: bool
    applied_by: str
    restored: list[str]  # files that were put back
    flags: list[str]  # what people should look at
    tests_status: Mapping[str, Mapping[str, Sequence[str]]]  # FAIL_TO_PASS, PASS_TO_PASS -> success, failure -> tests


@dataclass(frozen=True, slots=True)
class Grading:
    """The effect of one patch on one instance's tests.

    Attributes:
        outcome: resolved, unresolved, error (it did not apply, or took too long), ambiguous_failure (pytest did not
            end), or infra_failure (the instance is not runnable here).
        reason: why it is not resolved, where more is known than which tests failed.
        details: tests by list and success, flags, what was put back, how the patch was applied.
    """

    instance_sha: str
    patch_sha: str
    environment_sha: str
    instance_id: str
    outcome: str
    reason: str
    seconds: float
    patch: str
    details: GradingDetails
    log: str
    graded: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    """One attempt of a model or an agent at an instance. trajectory: in mini-swe-agent's form."""

    key: str
    instance_id: str
    model: str
    patch_sha: str
    exit_status: str
    n_calls: int
    cost: float | None
    trajectory: dict[str, JsonValue]


def trace_id_of(attempt: str) -> str:
    """Return the id of an attempt's trace, in hex, by its key: storing it again adds nothing."""
    return hashlib.sha256(f"swe trace {attempt}".encode()).hexdigest()[:32]


class GradingLog(FeatureLog):
    """Checks, gradings and attempts of one store."""

    def check(self, instance_sha: str, environment_sha: str) -> Check | None:
        """Return the check of an instance in an environment; None where there is none."""
        columns = swe_checks.c
        where = columns.instance_sha == instance_sha, columns.environment_sha == environment_sha
        rows = as_saved(swe_checks, self._rows(select(swe_checks).where(*where)))
        if not rows:
            return None
        (row,) = rows
        return Check(instance_sha, environment_sha, row.instance_id, bool(row.is_runnable), row.reason, row.seconds)

    def why_not_runnable(self, instance_sha: str) -> str | None:
        """Return why an instance is not runnable here; None where it is in some environment, or was not checked."""
        rows = self._rows(select(swe_checks).where(swe_checks.c.instance_sha == instance_sha))
        if not rows or any(row.is_runnable for row in rows):
            return None
        return str(rows[-1].reason)

    def add_check(self, check: Check) -> None:
        """Store a check, in place of an earlier one."""
        row = {name: getattr(check, name) for name in ("instance_sha", "environment_sha", "instance_id", "seconds")}
        row |= {"is_runnable": int(check.is_runnable), "reason": shown_text(check.reason), "checked": time.time()}
        with self._database.writing() as connection:
            connection.execute(upsert(connection.dialect.name, swe_checks), [with_checksum(swe_checks, row)])

    def gradings(self, patch_sha: str, instance_sha: str, environment_sha: str | None = None) -> list[Grading]:
        """Return the gradings of a patch for an instance, the latest first; in one environment or in all."""
        columns = swe_gradings.c
        where = [columns.patch_sha == patch_sha, columns.instance_sha == instance_sha]
        if environment_sha is not None:
            where.append(columns.environment_sha == environment_sha)
        with self._database.reading() as connection:
            of_patch = select(swe_gradings).where(*where).order_by(columns.graded.desc())
            rows = as_saved(swe_gradings, connection.execute(of_patch))
        return [_grading(row) for row in rows]

    def add_grading(self, grading: Grading) -> None:
        """Store a grading; one that is stored stays."""
        names = ("instance_sha", "patch_sha", "environment_sha", "instance_id", "outcome", "seconds")
        row = {name: getattr(grading, name) for name in names}
        row |= {"reason": shown_text(grading.reason), "graded": time.time(), "patch": pack_text(grading.patch)}
        row |= {"details": pack_json(grading.details), "log": pack_text(grading.log)}
        self._add(swe_gradings, row)

    def attempt(self, key: str) -> StoredAttempt | None:
        """Return an attempt of `swe predict` by its key; None where there is none."""
        attempts = self._attempts(swe_attempts.c.key == key)
        return attempts[0] if attempts else None

    def attempts_of(self, patch_sha: str, instance_id: str, model: str) -> list[StoredAttempt]:
        """Return the attempts of a model that ended with a patch for an instance."""
        columns = swe_attempts.c
        return self._attempts(
            columns.patch_sha == patch_sha, columns.instance_id == instance_id, columns.model == model
        )

    def add_attempt(self, attempt: StoredAttempt) -> None:
        """Store an attempt; one that is stored stays."""
        names = ("key", "instance_id", "model", "patch_sha", "exit_status", "n_calls", "cost")
        row = {name: getattr(attempt, name) for name in names}
        row |= {"ended": time.time(), "trajectory": pack_json(attempt.trajectory)}
        self._add(swe_attempts, row)

    def _attempts(self, *where: ColumnElement[bool]) -> list[StoredAttempt]:
        with self._database.reading() as connection:
            of_key = select(swe_attempts).where(*where).order_by(swe_attempts.c.ended)
            rows = as_saved(swe_attempts, connection.execute(of_key))
        names = ("key", "instance_id", "model", "patch_sha", "exit_status", "n_calls", "cost")
        made = []
        for row in rows:
            values = {name: getattr(row, name) for name in names}
            made.append(StoredAttempt(**values, trajectory=unpack_json(row.trajectory)))
        return made

    def _add(self, table: Table, row: dict[str, object]) -> None:
        with self._database.writing(locked=True) as connection:
            keys = list(table.primary_key.columns)
            same = select(keys[0]).where(*(key == row[key.name] for key in keys))
            if connection.execute(same).first() is None:
                insert_rows(connection, _INSERTS[table], [with_checksum(table, row)])


def _grading(row: StoredRow) -> Grading:
    return Grading(
        *(row.instance_sha, row.patch_sha, row.environment_sha, row.instance_id, row.outcome, row.reason, row.seconds),
        *(unpack_text(row.patch), unpack_json(row.details), unpack_text(row.log), row.graded),
    )


TABLES = FeatureTables(SWE_TABLES)
"""Of software-engineering tasks."""
