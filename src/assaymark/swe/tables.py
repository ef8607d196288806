"""The tables of software-engineering tasks: checks of instances, gradings of patches, and attempts of agents."""

from sqlalchemy import Column, Double, Index, Integer, SmallInteger, String, Table, Text

from assaymark.store.schema import Blob, checksum_column, metadata

swe_checks = Table(  # whether the gold patch resolves an instance and the empty one does not
    "swe_checks",
    metadata,
    Column("instance_sha", String(64), primary_key=True),
    Column("environment_sha", String(64), primary_key=True),
    Column("instance_id", Text, nullable=False),
    Column("is_runnable", SmallInteger, nullable=False),
    Column("reason", Text, nullable=False),  # empty where it is runnable
    Column("seconds", Double, nullable=False),  # of the gold patch's tests
    Column("checked", Double, nullable=False),  # seconds since 1970
    checksum_column(),
)

swe_gradings = Table(
    "swe_gradings",
    metadata,
    Column("instance_sha", String(64), primary_key=True),
    Column("patch_sha", String(64), primary_key=True),
    Column("environment_sha", String(64), primary_key=True),
    Column("instance_id", Text, nullable=False),
    Column("outcome", String(32), nullable=False),  # resolved | unresolved | error | ambiguous_failure | infra_failure
    Column("reason", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("graded", Double, nullable=False),  # seconds since 1970
    Column("patch", Blob, nullable=False),  # packed, like the log
    Column("details", Blob, nullable=False),  # JSON, packed: tests by list, flags, what was put back
    Column("log", Blob, nullable=False),
    checksum_column(),
)
Index("swe_gradings_by_patch", swe_gradings.c.patch_sha, swe_gradings.c.instance_sha)

swe_attempts = Table(  # what `swe predict` got
    "swe_attempts",
    metadata,
    Column("key", String(64), primary_key=True),  # of model, settings and instance
    Column("instance_id", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("patch_sha", String(64), nullable=False),
    Column("exit_status", String(64), nullable=False),
    Column("n_calls", Integer, nullable=False),
    Column("cost", Double),  # NULL: unknown
    Column("ended", Double, nullable=False),  # seconds since 1970
    Column("trajectory", Blob, nullable=False),  # JSON, packed
    checksum_column(),
)
Index("swe_attempts_by_patch", swe_attempts.c.patch_sha, swe_attempts.c.instance_id)

SWE_TABLES = (swe_checks, swe_gradings, swe_attempts)
