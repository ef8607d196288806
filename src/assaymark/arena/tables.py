"""The tables of the arena (battles, votes, their published batches) and of human studies.

Votes are append-only: a row is never changed, and each is covered by the hash of the next one. People's texts are only
in `arena_texts`, beside a random salt; rows refer to a salted commitment, so that text and salt can be erased without
changing a hash. A rater's demographics are in a table of their own.
"""

from sqlalchemy import BigInteger, Column, Double, Index, Integer, SmallInteger, String, Table, Text, UniqueConstraint

from assaymark.store.schema import Blob, checksum_column, metadata, parent_key, row_key

arena_models = Table(
    "arena_models",
    metadata,
    row_key(),
    Column("name", Text, nullable=False, unique=True),
    Column("added_at", String(32), nullable=False),
    Column("withdrawn_at", String(32)),  # it stays listed, and is drawn no more
    checksum_column(),
)

arena_texts = Table(
    "arena_texts",
    metadata,
    row_key(),
    Column("digest", Blob(32), unique=True),  # of an operator's text, stored once; NULL for a voter's and once erased
    Column("commitment", Blob(32), nullable=False),  # SHA-256 of salt and text; never changed
    Column("salt", Blob(32)),  # NULL once erased
    Column("content", Blob),  # packed; NULL once erased
    checksum_column(),
)

battles = Table(
    "battles",
    metadata,
    row_key(),
    Column("token", String(64), nullable=False, unique=True),  # random, in the address that its voter uses
    Column("opened_at", Double, nullable=False),  # seconds since 1970
    Column("voter", String(64), nullable=False),  # keyed hash
    Column("origin", String(64), nullable=False),  # keyed hash of the network address
    Column("mode", String(16), nullable=False),  # anonymous | named
    Column("source", Text, nullable=False),  # of the answers
    Column("prompt_id", Text, nullable=False),
    Column("category", Text),
    Column("model_a", BigInteger, nullable=False),  # arena_models, as shown: side A is the left one
    Column("model_b", BigInteger, nullable=False),
    Column("is_swapped", SmallInteger, nullable=False),  # the coin: whether the pair was drawn in the other order
    Column("prompt", BigInteger, nullable=False),  # arena_texts, like the answers
    Column("answer_a", BigInteger, nullable=False),
    Column("answer_b", BigInteger, nullable=False),
    checksum_column(),
)
Index("battles_of_voter", battles.c.voter, battles.c.opened_at)
Index("battles_of_origin", battles.c.origin, battles.c.opened_at)

battle_skips = Table(  # battles that their voters left for another one; live ones have no row in `battles`
    "battle_skips",
    metadata,
    Column("token", String(64), primary_key=True),
    Column("skipped_at", Double, nullable=False),  # seconds since 1970
    checksum_column(),
)

votes = Table(
    "votes",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),  # 1, 2, ... without gaps
    parent_key("battle", "battles.id"),
    Column("idempotency_key", String(64), nullable=False, unique=True),
    Column("cast_at", Double, nullable=False),  # seconds since 1970
    Column("choice", String(16), nullable=False),  # a | b | tie | both_bad
    Column("mark_a", String(16)),  # acceptable | poor
    Column("mark_b", String(16)),
    Column("is_counted", SmallInteger, nullable=False),  # whether ratings use it; not in the named mode
    Column("hash", Blob(32), nullable=False),  # of the previous vote's hash and this vote's record
    checksum_column(),
    UniqueConstraint("battle"),
)

vote_head = Table(  # one row, which each append locks
    "vote_head",
    metadata,
    row_key(),
    Column("sequence", BigInteger, nullable=False),
    Column("hash", Blob(32), nullable=False),
    checksum_column(),
)

rating_batches = Table(
    "rating_batches",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),  # the last vote of the batch
    Column("hash", Blob(32), nullable=False),  # of that vote
    Column("published_at", Double, nullable=False),
    checksum_column(),
)

studies = Table(
    "studies",
    metadata,
    row_key(),
    Column("name", String(64), nullable=False, unique=True),
    Column("plan", Blob, nullable=False),  # JSON, packed: the study's file with its prompts and answers
    Column("created_at", Double, nullable=False),
    checksum_column(),
)

study_raters = Table(
    "study_raters",
    metadata,
    row_key(),
    parent_key("study", "studies.id"),
    Column("name", String(64), nullable=False),
    Column("token_hash", Blob(32), nullable=False, unique=True),  # of the invitation
    Column("state", String(16), nullable=False),  # invited | consented | finished | erased
    Column("consented_at", Double),
    checksum_column(),
    UniqueConstraint("study", "name"),
)

study_demographics = Table(
    "study_demographics",
    metadata,
    parent_key("rater", "study_raters.id", primary_key=True),
    Column("content", Blob, nullable=False),  # JSON, packed
    checksum_column(),
)

assignments = Table(
    "assignments",
    metadata,
    row_key(),
    parent_key("rater", "study_raters.id"),
    Column("position", Integer, nullable=False),
    Column("prompt", Integer, nullable=False),  # index in the study's plan
    Column("model_a", Text, nullable=False),
    Column("model_b", Text, nullable=False),
    Column("expected", String(16)),  # of an attention check: the side that is right
    checksum_column(),
    UniqueConstraint("rater", "position"),
)

study_answers = Table(
    "study_answers",
    metadata,
    parent_key("assignment", "assignments.id", primary_key=True),
    Column("answers", Text, nullable=False),  # JSON: question -> choice
    Column("answered_at", Double, nullable=False),
    Column("seconds", Double),  # since the item was first shown
    checksum_column(),
)

ARENA_TABLES = (
    *(arena_models, arena_texts, battles, battle_skips, votes, vote_head, rating_batches),
    *(studies, study_raters, study_demographics, assignments, study_answers),
)
