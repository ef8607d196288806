"""The arena in the store: models, battles, and the append-only log of votes.

An append locks the one row of `vote_head`, so that votes have one order and no gaps, whatever the number of processes.
A battle has at most one vote: the database's unique key decides between two tabs. Repeating a vote with its idempotency
key returns the stored one, so a client may send it again after a broken connection.

Votes are a chain: each vote's hash covers its record and the hash before it. A record holds no text: prompt and answers
are salted commitments, SHA-256 over a random salt and the text. With salt and text a commitment can be checked; once
both are erased, nothing can be derived from it, and no hash changes. The last hash, the head, vouches for every vote
before it: published with an export, it reveals later changes.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from hashlib import sha256
from secrets import token_bytes

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Table,
    bindparam,
    case,
    func,
    insert,
    select,
    update,
)

from assaymark.arena.arena_rows import Activity, Batch, BattleRow, LogHead, ModelRow, NewVote, VoteRow
from assaymark.arena.tables import (
    ARENA_TABLES,
    arena_models,
    arena_texts,
    battle_skips,
    battles,
    rating_batches,
    vote_head,
    votes,
)
from assaymark.errors import HashMismatch, StoreError, UnknownName, UsageError
from assaymark.records import JsonValue
from assaymark.records.json_values import dataclass_of
from assaymark.store.feature_tables import FeatureLog, FeatureTables
from assaymark.store.packing import pack_text, text_bytes, text_digest, unpack_text
from assaymark.store.runs import change_row, next_id, now
from assaymark.store.schema import StoredRow, insert_rows, with_checksum

FIRST = bytes(32)
"""The hash before the first vote."""

SALT_BYTES = 32
RECORD_FIELDS = (
    *("sequence", "battle", "opened_at", "cast_at", "voter", "mode", "source", "prompt_id", "category"),
    *("model_a", "model_b", "is_swapped", "choice", "mark_a", "mark_b", "is_counted"),
    *("prompt_commitment", "answer_a_commitment", "answer_b_commitment"),
)


def commitment(salt: bytes, text: str) -> bytes:
    """Return SHA-256(salt || UTF-8 of the text): 32 bytes."""
    return hashlib.sha256(salt + text_bytes(text)).digest()


def vote_hash(previous: bytes, record: Mapping[str, object]) -> bytes:
    """Return SHA-256(previous || record as JSON with sorted keys and without spaces), over RECORD_FIELDS alone."""
    chosen = {name: record[name] for name in RECORD_FIELDS}
    text = json.dumps(chosen, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(previous + text.encode("ascii")).digest()


def first_break(records: Iterable[Mapping[str, object]], head: bytes | None = None) -> str | None:
    """Describe the first record that does not continue the chain; None if all do.

    Args:
        records: RECORD_FIELDS and `hash` (bytes) of each vote, from the first one.
        head: the hash that the last vote must have, as published.
    """
    previous, expected = FIRST, 1
    for record in records:
        if record["sequence"] != expected:
            return f"vote {expected} is missing: vote {record['sequence']} follows vote {expected - 1}"
        if vote_hash(previous, record) != record["hash"]:
            return f"vote {expected} does not have its hash: it or an earlier vote was changed"
        previous, expected = record["hash"], expected + 1
    if head is not None and previous != head:
        return f"the last vote is number {expected - 1} and does not have the published hash {head.hex()}"
    return None


AT_ONCE = 2000  # votes read in one transaction
BATTLE_FACTS = ("token", "opened_at", "voter", "origin", "mode", "source", "prompt_id", "category")
TEXTS = ("prompt", "answer_a", "answer_b")
INSERTS = {table: insert(table) for table in ARENA_TABLES}

_models = {side: arena_models.alias(side) for side in ("model_a", "model_b")}
_texts = {name: arena_texts.alias(name) for name in TEXTS}


def _joined() -> FromClause:
    joined: FromClause = battles
    for side, model in _models.items():
        joined = joined.join(model, model.c.id == battles.c[side])
    for name, text in _texts.items():
        joined = joined.join(text, text.c.id == battles.c[name])
    return joined


def _facts() -> list[ColumnElement[object]]:
    columns = [battles.c[name] for name in (*BATTLE_FACTS, "is_swapped") if name != "token"]
    names = [model.c.name.label(side) for side, model in _models.items()]
    return [*columns, *names, *(text.c.commitment.label(f"{name}_commitment") for name, text in _texts.items())]


def _votes() -> Select[object]:
    own = (column for column in votes.c if column.name not in {"battle", "checksum", "idempotency_key"})
    joined = _joined().join(votes, votes.c.battle == battles.c.id)
    return select(battles.c.token.label("battle"), *_facts(), *own).select_from(joined)


def _with_texts(joined: FromClause) -> Select[object]:
    columns = [battles.c[name] for name in (*BATTLE_FACTS, "is_swapped")]
    names = [model.c.name.label(side) for side, model in _models.items()]
    contents = [text.c.content.label(name) for name, text in _texts.items()]
    return select(*columns, *names, *contents).select_from(joined)


MODEL_NUMBER = select(arena_models.c.id).where(arena_models.c.name == bindparam("name"))
TEXT_NUMBER = select(arena_texts.c.id).where(arena_texts.c.digest == bindparam("digest"))
BATTLE_NUMBER = select(battles.c.id).where(battles.c.token == bindparam("token"))
BATTLE_BY_TOKEN = _with_texts(_joined()).where(battles.c.token == bindparam("token"))
_later = battles.alias("later")
_is_left = (  # the voter went on to another battle
    select(_later.c.id)
    .where(_later.c.voter == battles.c.voter, _later.c.mode == "anonymous", _later.c.id > battles.c.id)
    .exists()
)
N_SKIPPED = select(func.count()).select_from(battle_skips)
OPEN_BATTLE = (
    _with_texts(_joined().outerjoin(votes, votes.c.battle == battles.c.id))
    .where(
        votes.c.sequence.is_(None),
        battles.c.voter == bindparam("voter"),
        battles.c.mode == "anonymous",
        battles.c.opened_at > bindparam("after"),
        ~_is_left,
    )
    .order_by(battles.c.opened_at.desc(), battles.c.id.desc())
    .limit(1)
)
FACTS_OF_BATTLE = select(*_facts()).select_from(_joined()).where(battles.c.id == bindparam("battle"))
VOTE_BY_KEY = _votes().where(votes.c.idempotency_key == bindparam("key"))
VOTE_OF_BATTLE = _votes().where(votes.c.battle == bindparam("battle"))
VOTE_OF_TOKEN = _votes().where(battles.c.token == bindparam("token"))
VOTES_BETWEEN = (
    _votes()
    .where(votes.c.sequence > bindparam("after"), votes.c.sequence <= bindparam("until"))
    .order_by(votes.c.sequence)
    .limit(AT_ONCE)
)
_voted = battles.join(votes, votes.c.battle == battles.c.id)
ACTIVITY_OF_VOTER = (
    select(func.sum(case((votes.c.cast_at > bindparam("since"), 1), else_=0)), func.max(votes.c.cast_at))
    .select_from(_voted)
    .where(battles.c.voter == bindparam("voter"), battles.c.opened_at > bindparam("since"))
)
VOTES_OF_ORIGIN = (
    select(func.count(), func.max(votes.c.cast_at))
    .select_from(_voted)
    .where(battles.c.origin == bindparam("origin"), battles.c.opened_at > bindparam("since"))
)
BATTLES_OF_ORIGIN = select(func.count()).where(
    battles.c.origin == bindparam("origin"), battles.c.opened_at > bindparam("since")
)
HEAD = select(vote_head).where(vote_head.c.id == 1)
LOCKED_HEAD = HEAD.with_for_update()
MOVE_HEAD = (
    update(vote_head)
    .where(vote_head.c.id == 1)
    .values(sequence=bindparam("to"), hash=bindparam("over"), checksum=bindparam("sum"))
)
LAST_BATCH = select(rating_batches).order_by(rating_batches.c.sequence.desc()).limit(1)


LAST = 2**62  # above every sequence number


class AlreadyVoted(UsageError):
    """A battle that has a vote was given another one."""


class ArenaLog(FeatureLog):
    """Battles and votes of one store."""

    # --------------------------------------------------------------------------------------- models

    def register(self, names: Sequence[str]) -> None:
        """Register models by name; those that are registered keep their row, and withdrawn ones stay withdrawn."""
        with self._database.writing(locked=True) as connection:
            known = set(connection.execute(select(arena_models.c.name)).scalars())
            for name in dict.fromkeys(names):
                if name not in known:
                    row = {"id": next_id(connection, arena_models), "name": name, "added_at": now()}
                    _insert(connection, arena_models, {**row, "withdrawn_at": None})

    def withdraw(self, name: str) -> None:
        """Mark a model as withdrawn: its votes and its row on the board stay.

        Raises: UnknownName.
        """
        with self._database.writing() as connection:
            row = connection.execute(select(arena_models).where(arena_models.c.name == name)).one_or_none()
            if row is None:
                known = connection.execute(select(arena_models.c.name)).scalars().all()
                raise UnknownName("model of the arena", name, get_close_matches(name, known) or known[:5])
            change_row(connection, arena_models, row, withdrawn_at=row.withdrawn_at or now())

    def models(self) -> list[ModelRow]:
        """Return all registered models, in the order of registration."""
        rows = self._rows(select(arena_models).order_by(arena_models.c.id))
        return [ModelRow(row.id, row.name, row.added_at, row.withdrawn_at) for row in rows]

    # -------------------------------------------------------------------------------------- battles

    def open_battle(self, new: BattleRow) -> None:
        """Store a battle, before anything of it is shown.

        Raises: UnknownName for a model that is not registered.
        """
        with self._database.writing(locked=True) as connection:
            number = next_id(connection, battles)
            row: dict[str, object] = {name: getattr(new, name) for name in BATTLE_FACTS}
            row |= {"id": number, "is_swapped": int(new.is_swapped)}
            row |= {side: _model_number(connection, getattr(new, side)) for side in ("model_a", "model_b")}
            row |= {name: _text_number(connection, getattr(new, name), new.is_private) for name in TEXTS}
            _insert(connection, battles, row)

    def battle(self, token: str) -> BattleRow | None:
        """Return a battle with its texts; None if there is none with this token."""
        with self._database.reading() as connection:
            row = connection.execute(BATTLE_BY_TOKEN, {"token": token}).one_or_none()
        return None if row is None else _battle_row(row)

    def skip_battle(self, token: str, at: float) -> None:
        """Record that a battle's voter left it for another one; recording it again changes nothing.

        token: of the battle, which need not be stored. at: seconds since 1970.
        """
        with self._database.writing() as connection:
            if connection.execute(select(battle_skips.c.token).where(battle_skips.c.token == token)).first() is None:
                _insert(connection, battle_skips, {"token": token, "skipped_at": at})

    def n_skipped(self) -> int:
        """Return the number of battles that their voters left for another one."""
        with self._database.reading() as connection:
            return int(connection.execute(N_SKIPPED).scalar_one())

    def open_battle_of(self, voter: str, after: float) -> BattleRow | None:
        """Return the voter's latest anonymous battle, if it has no vote and was opened after a time."""
        with self._database.reading() as connection:
            row = connection.execute(OPEN_BATTLE, {"voter": voter, "after": after}).one_or_none()
        return None if row is None else _battle_row(row)

    def activity(self, voter: str, origin: str, since: float) -> Activity:
        """Count the acts of a voter and his network since a time."""
        values = {"voter": voter, "origin": origin, "since": since}
        with self._database.reading() as connection:
            n_own, last = connection.execute(ACTIVITY_OF_VOTER, values).one()
            n_origin, last_of_origin = connection.execute(VOTES_OF_ORIGIN, values).one()
            n_opened = connection.execute(BATTLES_OF_ORIGIN, values).scalar_one()
        return Activity(int(n_own or 0), int(n_origin), int(n_opened), last, last_of_origin)

    # ---------------------------------------------------------------------------------------- votes

    def append(self, new: NewVote) -> VoteRow:
        """Append a vote and return it, or the stored one if this idempotency key was used for the same vote.

        The vote is on the disk when this returns.

        Raises: UnknownName for a battle that does not exist; AlreadyVoted if it has another vote; UsageError for a key
        that another battle's vote has.
        """
        with self._database.writing(durable=True) as connection:
            head = connection.execute(LOCKED_HEAD).one()  # locked until the transaction ends
            battle = connection.execute(BATTLE_NUMBER, {"token": new.battle}).scalar()
            if battle is None:
                raise UnknownName("battle", new.battle[:20])
            same = _vote(connection, VOTE_BY_KEY, key=new.idempotency_key)
            stored = same or _vote(connection, VOTE_OF_BATTLE, battle=battle)
            if stored is not None:
                if same is None:
                    raise AlreadyVoted("this battle has a vote already; the first one counts")
                is_same = (stored.battle, stored.choice, stored.mark_a, stored.mark_b) == (
                    *(new.battle, new.choice), *(new.mark_a, new.mark_b)
                )  # fmt: skip
                if not is_same:
                    raise UsageError("this idempotency key was used for another vote; expected a new key for each vote")
                return stored
            row = {
                "sequence": head.sequence + 1, "battle": battle, "idempotency_key": new.idempotency_key,
                "cast_at": new.cast_at, "choice": new.choice, "mark_a": new.mark_a, "mark_b": new.mark_b,
                "is_counted": int(new.is_counted), "hash": FIRST,
            }  # fmt: skip
            facts = connection.execute(FACTS_OF_BATTLE, {"battle": battle}).one()
            record = _record({**facts._asdict(), **row, "battle": new.battle})
            row["hash"] = vote_hash(head.hash, record)
            _insert(connection, votes, row)
            moved = with_checksum(vote_head, {"id": head.id, "sequence": row["sequence"], "hash": row["hash"]})
            connection.execute(MOVE_HEAD, {"to": moved["sequence"], "over": moved["hash"], "sum": moved["checksum"]})
            return _vote_row(record, row["hash"])

    def vote_of(self, token: str) -> VoteRow | None:
        """Return the vote of a battle, None while there is none."""
        with self._database.reading() as connection:
            return _vote(connection, VOTE_OF_TOKEN, token=token)

    def head(self) -> LogHead:
        """Return the end of the log; an empty log ends with 32 zero bytes."""
        with self._database.reading() as connection:
            row = connection.execute(HEAD).one()
        return LogHead(row.sequence, row.hash.hex())

    def votes(self, *, until: int | None = None, after: int = 0) -> Iterator[VoteRow]:
        """Yield the votes in order, those after one sequence number and up to another."""
        while True:
            with self._database.reading() as connection:
                span = {"after": after, "until": LAST if until is None else until}
                rows = connection.execute(VOTES_BETWEEN, span).all()
            yield from (_vote_row(_record(row._asdict()), row.hash) for row in rows)
            if len(rows) < AT_ONCE:
                return
            after = rows[-1].sequence

    def sound_votes(self, until: int) -> list[VoteRow]:
        """Return the votes up to a sequence number.

        Raises: HashMismatch where one is not as it was cast, or is missing.
        """
        rows = list(self.votes(until=until))
        if (broken := first_break(map(_chained, rows))) is not None:
            raise HashMismatch(f"{broken}; see `assaymark arena verify`, and take the votes from a backup")
        return rows

    def answer_texts(self, *, private: bool = True) -> dict[str, str]:
        """Return the texts of all answers and prompts that are not erased, by commitment in hex.

        Without `private`, those of battles whose prompt a voter wrote are left out.
        """
        with self._database.reading() as connection:
            kept = select(arena_texts.c.commitment, arena_texts.c.content).where(arena_texts.c.content.isnot(None))
            kept = kept if private else kept.where(arena_texts.c.digest.isnot(None))
            return {bytes(row.commitment).hex(): unpack_text(row.content) for row in connection.execute(kept)}

    def problems(self) -> list[str]:
        """Describe the fault of the log: a broken chain, another head, a text that is not the committed one."""
        problems = []
        head = self.head()
        if (broken := first_break(map(_chained, self.votes()), bytes.fromhex(head.hash))) is not None:
            problems.append(broken)
        with self._database.reading() as connection:
            rows = connection.execute(select(arena_texts).where(arena_texts.c.content.isnot(None)))
            changed = [
                row.id
                for row in rows
                if row.salt is None or commitment(row.salt, unpack_text(row.content)) != row.commitment
            ]
        return problems + [f"text {number} is not the one that was committed to" for number in changed]

    def erase_texts(self, token: str) -> int:
        """Erase prompt and answers of a battle whose prompt a voter wrote; return the number of texts erased.

        The chain stays valid. Texts of the operator, which other battles share, are not erased.

        Raises: UnknownName for a battle that does not exist.
        """
        with self._database.writing(durable=True) as connection:
            row = connection.execute(select(battles).where(battles.c.token == token)).one_or_none()
            if row is None:
                raise UnknownName("battle", token[:20])
            numbers = [getattr(row, name) for name in TEXTS]
            own = select(arena_texts).where(arena_texts.c.id.in_(numbers), arena_texts.c.digest.is_(None))
            erased = connection.execute(own.where(arena_texts.c.content.isnot(None))).all()
            for text in erased:
                change_row(connection, arena_texts, text, salt=None, content=None)
            return len(erased)

    # -------------------------------------------------------------------------------------- batches

    def last_batch(self) -> Batch | None:
        """Return the batch that was published last."""
        with self._database.reading() as connection:
            row = connection.execute(LAST_BATCH).one_or_none()
        return None if row is None else Batch(row.sequence, row.hash.hex(), row.published_at)

    def publish(self, sequence: int, at: float) -> None:
        """Publish the votes up to one; another process may have done so already."""
        with self._database.writing(locked=True) as connection:
            last = connection.execute(select(func.max(rating_batches.c.sequence))).scalar() or 0
            if last >= sequence:
                return
            of_vote = connection.execute(select(votes.c.hash).where(votes.c.sequence == sequence)).scalar()
            if of_vote is None:
                raise StoreError(f"vote {sequence} does not exist; expected the number of a stored vote")
            _insert(connection, rating_batches, {"sequence": sequence, "hash": of_vote, "published_at": at})


def _insert(connection: Connection, table: Table, row: dict[str, object]) -> None:
    insert_rows(connection, INSERTS[table], [with_checksum(table, row)])


def _model_number(connection: Connection, name: str) -> int:
    number: int | None = connection.execute(MODEL_NUMBER, {"name": name}).scalar()
    if number is None:
        raise UnknownName("model of the arena", name)
    return number


def _text_number(connection: Connection, text: str, is_private: bool) -> int:
    """Return the row of a text; an operator's is stored once, a voter's each time, so that it can be erased alone."""
    digest = None if is_private else sha256(b"arena" + text_digest(text)).digest()
    if digest is not None:
        stored: int | None = connection.execute(TEXT_NUMBER, {"digest": digest}).scalar()
        if stored is not None:
            return stored
    salt, number = token_bytes(SALT_BYTES), next_id(connection, arena_texts)
    row = {"id": number, "digest": digest, "commitment": commitment(salt, text), "salt": salt}
    _insert(connection, arena_texts, {**row, "content": pack_text(text)})
    return number


def _vote(connection: Connection, statement: Select[object], **values: object) -> VoteRow | None:
    row = connection.execute(statement, values).one_or_none()
    return None if row is None else _vote_row(_record(row._asdict()), row.hash)


def _record(values: Mapping[str, object]) -> dict[str, JsonValue]:
    """Return the content that the chain covers, as JSON values."""
    covered = {name: values[name] for name in RECORD_FIELDS}
    for name in ("is_swapped", "is_counted"):
        covered[name] = bool(covered[name])
    return {name: value.hex() if isinstance(value, bytes | memoryview) else value for name, value in covered.items()}


def _chained(row: VoteRow) -> dict[str, object]:
    """Return what the hash of a vote covers, with the hash."""
    return {**{name: getattr(row, name) for name in RECORD_FIELDS}, "hash": bytes.fromhex(row.hash)}


def _vote_row(record: Mapping[str, object], hash_: bytes) -> VoteRow:
    return dataclass_of(VoteRow, {**record, "hash": bytes(hash_).hex()})


def _battle_row(row: StoredRow) -> BattleRow:
    values = row._asdict()
    values |= {name: None if values[name] is None else unpack_text(values[name]) for name in TEXTS}
    return BattleRow(**{**values, "is_swapped": bool(values["is_swapped"])})


TABLES = FeatureTables(ARENA_TABLES, "votes", lambda store: ArenaLog(store).problems())
"""Of the arena and its studies."""
