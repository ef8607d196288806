"""The tables of the queue: submissions, their jobs and votes, flags on models, and the log of moderation.

Ids are random texts, so that no process waits for another to get one. Times are by the database's clock, in seconds
since 1970. Rows change, so they have no checksum; the log of moderation, which only grows, is a chain of hashes.
"""

from sqlalchemy import Column, Dialect, ForeignKey, Index, Table, UniqueConstraint
from sqlalchemy.types import BigInteger, Double, Integer, SmallInteger, String, Text, TypeDecorator

from assaymark.store.schema import metadata


class Fault(TypeDecorator[str]):
    """The party at fault for a failed attempt: `infrastructure`, `submission`, or `killed` while that is open.

    Stores have older, shorter words for the first two.
    """

    impl = String(8)
    cache_ok = True
    _STORED = {"infrastructure": "ours", "submission": "theirs"}  # noqa: RUF012 - a constant
    _READ = {word: fault for fault, word in _STORED.items()}  # noqa: RUF012

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return the stored word."""
        return value if value is None else self._STORED.get(value, value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Return the fault of a stored word."""
        return value if value is None else self._READ.get(value, value)


def _id() -> Column[str]:
    return Column("id", String(16), primary_key=True)


def _of(name: str, target: str, *, primary_key: bool = False) -> Column[str]:
    return Column(name, String(16), ForeignKey(target), nullable=False, primary_key=primary_key)


submissions = Table(
    "submissions",
    metadata,
    _id(),
    Column("submitter", String(128), nullable=False),
    Column("board", String(64), nullable=False),
    Column("model", String(200), nullable=False),  # as it was submitted; `aliases` has later names
    Column("revision", String(80), nullable=False),  # commit, or hash of a folder's content
    Column("source", String(16), nullable=False),  # hub | folder | file
    Column("content_hash", String(80), nullable=False),  # of all files that are evaluated
    Column("precision", String(16), nullable=False),
    Column("preset", String(64)),  # prompt preset; NULL: the tasks' own prompts
    Column("weights", String(16), nullable=False),  # original | adapter | delta
    Column("base", String(200)),
    Column("base_revision", String(80)),
    Column("kind", String(16), nullable=False),  # how the model was made, as columns.MODEL_TYPES
    Column("facts", Text, nullable=False),  # JSON
    Column("submitted", Double, nullable=False),
    Column("duplicate_key", String(80), unique=True),  # NULL once it was withdrawn, cancelled or failed
    Column("n_votes", Integer, nullable=False),
    Column("is_withdrawn", SmallInteger, nullable=False),
    Column("reported_run", String(64)),  # of results that were uploaded: their run
    Column("verdict", Text),  # of `reproduce` on a worker
    Column("is_verified", SmallInteger, nullable=False),
    Column("checksum", BigInteger),  # never NULL: SQLite adds no column without a default that is NOT NULL
)
Index("submissions_by_submitter", submissions.c.submitter, submissions.c.submitted)
Index("submissions_by_model", submissions.c.model)

jobs = Table(
    "jobs",
    metadata,
    _id(),
    _of("submission", "submissions.id"),
    Column("kind", String(16), nullable=False),  # evaluate | reproduce
    Column("state", String(16), nullable=False),  # pending | running | finished | failed | cancelled
    Column("submitter", String(128), nullable=False),
    Column("turn", BigInteger, nullable=False),  # round of the queue; see `queue`
    Column("position", Double, nullable=False),  # turn less the advance by votes: the order of work
    Column("created", Double, nullable=False),
    Column("not_before", Double, nullable=False),
    Column("epoch", BigInteger, nullable=False),  # raised each time the job is taken
    Column("owner", Text, nullable=False),  # JSON: liveness.Owner; empty where nobody works on it
    Column("expires", Double, nullable=False),
    Column("n_attempts", Integer, nullable=False),
    Column("started", Double),  # the last attempt
    Column("first_started", Double),
    Column("ended", Double),
    Column("fault", Fault),
    Column("reason", Text),
    Column("log_tail", Text),
    Column("run_id", String(64)),
    Column("n_done", BigInteger, nullable=False),
    Column("n_total", BigInteger, nullable=False),
    Column("stage", String(32), nullable=False),  # what the worker is doing
    UniqueConstraint("submission", "kind"),
)
Index("jobs_in_order", jobs.c.state, jobs.c.position, jobs.c.created, jobs.c.id)
Index("jobs_by_submitter", jobs.c.submitter, jobs.c.turn)
Index("jobs_by_end", jobs.c.state, jobs.c.ended)
Index(
    "jobs_started_by_turn",
    jobs.c.turn,
    sqlite_where=jobs.c.first_started.isnot(None),
    postgresql_where=jobs.c.first_started.isnot(None),
)

queue_votes = Table(
    "queue_votes", metadata, _of("submission", "submissions.id", primary_key=True),
    Column("voter", String(128), primary_key=True), Column("made", Double, nullable=False)
)  # fmt: skip

models_seen = Table(
    "models_seen",
    metadata,
    Column("model", String(200), primary_key=True),
    Column("revision", String(80), primary_key=True),
    Column("content_hash", String(80), nullable=False),
    Column("facts", Text, nullable=False),  # JSON
    Column("seen", Double, nullable=False),
)

aliases = Table(
    "aliases", metadata, Column("old_name", String(200), primary_key=True),
    Column("new_name", String(200), nullable=False), Column("made", Double, nullable=False)
)  # fmt: skip

flags = Table(
    "flags",
    metadata,
    _id(),
    Column("model", String(200), nullable=False),
    Column("kind", String(32), nullable=False),  # contamination | copy | other
    Column("text", Text, nullable=False),
    Column("reporter", String(128), nullable=False),
    Column("made", Double, nullable=False),
    Column("state", String(16), nullable=False),  # open | upheld | rejected
    Column("settled_by", String(128)),
    Column("settled", Double),
)
Index("flags_by_model", flags.c.model)

flag_replies = Table(
    "flag_replies",
    metadata,
    _id(),
    _of("flag", "flags.id"),
    Column("writer", String(128), nullable=False),
    Column("role", String(16), nullable=False),  # owner | moderator | reader
    Column("text", Text, nullable=False),
    Column("made", Double, nullable=False),
)
Index("flag_replies_by_flag", flag_replies.c.flag, flag_replies.c.made)

moderation = Table(
    "moderation",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # from 1 without a gap
    Column("made", Double, nullable=False),
    Column("moderator", String(128), nullable=False),
    Column("action", String(32), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("detail", Text, nullable=False),  # JSON
    Column("hash", String(80), nullable=False),  # of this entry and the hash of the one before
)

revoked_tokens = Table(
    "revoked_tokens",
    metadata,
    Column("token", String(64), primary_key=True),  # the token's id, not the token
    Column("revoked", Double, nullable=False),
)

QUEUE_TABLES = (submissions, jobs, queue_votes, models_seen, aliases, flags, flag_replies, moderation, revoked_tokens)
"""All of them. Submissions have checksums; what was done by moderators is in the chain of `moderation`."""
