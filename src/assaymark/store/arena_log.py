"""The arena in the store: models, battles, and the append-only log of votes.

An append locks the one row of `vote_head`, so that votes have one order and no gaps, whatever the number of processes.
A battle has at most one vote: the database's unique key decides between two tabs. Repeating a vote with its idempotency
key returns the stored one, so a client may send it again after a broken connection.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Select, func, select

from assaymark.errors import StoreError, UnknownName, UsageError
from assaymark.store.arena_rows import Activity, Batch, BattleRow, Head, ModelRow, NewBattle, NewVote, VoteRow
from assaymark.store.arena_schema import arena_models, arena_texts, battles, rating_batches, vote_head, votes
from assaymark.store.arena_statements import (
    ACTIVITY_OF_VOTER,
    AT_ONCE,
    BATTLE_BY_TOKEN,
    BATTLE_FACTS,
    BATTLE_NUMBER,
    BATTLES_OF_ORIGIN,
    FACTS_OF_BATTLE,
    HEAD,
    INSERTS,
    LAST_BATCH,
    LOCKED_HEAD,
    MODEL_NUMBER,
    MOVE_HEAD,
    OPEN_BATTLE,
    TEXT_NUMBER,
    TEXTS,
    VOTE_BY_KEY,
    VOTE_OF_BATTLE,
    VOTE_OF_TOKEN,
    VOTES_BETWEEN,
    VOTES_OF_ORIGIN,
)
from assaymark.store.connection import Database
from assaymark.store.packing import pack_text, text_digest, unpack_text
from assaymark.store.runs import change_row, next_id, now
from assaymark.store.schema import insert_rows, with_checksum
from assaymark.store.vote_chain import FIRST, RECORD_FIELDS, commitment, first_break, new_salt, vote_hash

__all__ = ["AlreadyVoted", "ArenaLog"]

LAST = 2**62  # above every sequence number


class AlreadyVoted(UsageError):
    """A battle that has a vote was given another one."""


class ArenaLog:
    """Battles and votes of one store."""

    def __init__(self, database: Database) -> None:
        """Use the store's database."""
        self._database = database

    # --------------------------------------------------------------------------------------- models

    def register(self, names: Sequence[str]) -> None:
        """Register models by name; those that are registered keep their row, and withdrawn ones stay withdrawn."""
        with self._database.writing() as connection:
            self._database.lock_structure(connection)
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
        with self._database.reading() as connection:
            rows = connection.execute(select(arena_models).order_by(arena_models.c.id)).all()
        return [ModelRow(row.id, row.name, row.added_at, row.withdrawn_at) for row in rows]

    # -------------------------------------------------------------------------------------- battles

    def open_battle(self, new: NewBattle) -> None:
        """Store a battle, before anything of it is shown.

        Raises: UnknownName for a model that is not registered.
        """
        with self._database.writing() as connection:
            self._database.lock_structure(connection)
            number = next_id(connection, battles)
            row: dict[str, Any] = {name: getattr(new, name) for name in BATTLE_FACTS}
            row |= {"id": number, "is_swapped": int(new.is_swapped)}
            row |= {side: _model_number(connection, getattr(new, side)) for side in ("model_a", "model_b")}
            row |= {name: _text_number(connection, getattr(new, name), new.is_private) for name in TEXTS}
            _insert(connection, battles, row)

    def battle(self, token: str) -> BattleRow | None:
        """Return a battle with its texts; None if there is none with this token."""
        with self._database.reading() as connection:
            row = connection.execute(BATTLE_BY_TOKEN, {"token": token}).one_or_none()
        return None if row is None else _battle_row(row)

    def open_battle_of(self, voter: str, after: float) -> BattleRow | None:
        """Return the voter's latest anonymous battle without a vote that was opened after a time."""
        with self._database.reading() as connection:
            row = connection.execute(OPEN_BATTLE, {"voter": voter, "after": after}).one_or_none()
        return None if row is None else _battle_row(row)

    def activity(self, voter: str, origin: str, since: float) -> Activity:
        """Return what a voter and his network did since a time."""
        values = {"voter": voter, "origin": origin, "since": since}
        with self._database.reading() as connection:
            n_own, last = connection.execute(ACTIVITY_OF_VOTER, values).one()
            n_origin, last_of_origin = connection.execute(VOTES_OF_ORIGIN, values).one()
            n_opened = connection.execute(BATTLES_OF_ORIGIN, values).scalar_one()
        return Activity(int(n_own or 0), int(n_origin), int(n_opened), last, last_of_origin)

    # ---------------------------------------------------------------------------------------- votes

    def append(self, new: NewVote) -> VoteRow:
        """Append a vote and return it; the one that is stored if this idempotency key was used for the same vote.

        The vote is on the disk when this returns.

        Raises: UnknownName for a battle that does not exist; AlreadyVoted if it has another vote; UsageError for a key
        that another battle's vote has.
        """
        with self._database.writing(durable=True) as connection:
            head = _locked_head(connection)
            battle = connection.execute(BATTLE_NUMBER, {"token": new.battle}).scalar()
            if battle is None:
                raise UnknownName("battle", new.battle[:20])
            same = _vote(connection, VOTE_BY_KEY, key=new.idempotency_key)
            stored = same or _vote(connection, VOTE_OF_BATTLE, battle=battle)
            if stored is not None:
                return _repeated(stored, new, is_same_key=same is not None)
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

    def head(self) -> Head:
        """Return the end of the log; an empty log ends with 32 zero bytes."""
        with self._database.reading() as connection:
            row = connection.execute(HEAD).one()
        return Head(row.sequence, row.hash.hex())

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

    def answer_texts(self, *, private: bool = True) -> dict[str, str]:
        """Return the texts of all answers and prompts that are not erased, by commitment in hex.

        Without `private`, those of battles whose prompt a voter wrote are left out.
        """
        with self._database.reading() as connection:
            kept = select(arena_texts.c.commitment, arena_texts.c.content).where(arena_texts.c.content.isnot(None))
            kept = kept if private else kept.where(arena_texts.c.digest.isnot(None))
            return {bytes(row.commitment).hex(): unpack_text(row.content) for row in connection.execute(kept)}

    def problems(self) -> list[str]:
        """Return what is wrong with the log: a broken chain, another head, a text that is not the committed one."""
        found = []
        head = self.head()
        records = ({**_fields(row), "hash": bytes.fromhex(row.hash)} for row in self.votes())
        if (broken := first_break(records, bytes.fromhex(head.hash))) is not None:
            found.append(broken)
        with self._database.reading() as connection:
            rows = connection.execute(select(arena_texts).where(arena_texts.c.content.isnot(None)))
            changed = [row.id for row in rows if not _is_committed(row)]
        return found + [f"text {number} is not the one that was committed to" for number in changed]

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
        with self._database.writing() as connection:
            self._database.lock_structure(connection)
            last = connection.execute(select(func.max(rating_batches.c.sequence))).scalar() or 0
            if last >= sequence:
                return
            of_vote = connection.execute(select(votes.c.hash).where(votes.c.sequence == sequence)).scalar()
            if of_vote is None:
                raise StoreError(f"vote {sequence} does not exist; expected the number of a stored vote")
            _insert(connection, rating_batches, {"sequence": sequence, "hash": of_vote, "published_at": at})


def _insert(connection: Connection, table: Any, row: dict[str, Any]) -> None:
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
    salt, number = new_salt(), next_id(connection, arena_texts)
    row = {"id": number, "digest": digest, "commitment": commitment(salt, text), "salt": salt}
    _insert(connection, arena_texts, {**row, "content": pack_text(text)})
    return number


def _is_committed(row: Any) -> bool:
    return row.salt is not None and commitment(row.salt, unpack_text(row.content)) == row.commitment


def _locked_head(connection: Connection) -> Any:
    """Return the head's row, locked until the transaction ends; the migration makes it."""
    return connection.execute(LOCKED_HEAD).one()


def _repeated(stored: VoteRow, new: NewVote, *, is_same_key: bool) -> VoteRow:
    if not is_same_key:
        raise AlreadyVoted("this battle has a vote already; the first one counts")
    is_same = (stored.battle, stored.choice, stored.mark_a, stored.mark_b) == (
        *(new.battle, new.choice), *(new.mark_a, new.mark_b)
    )  # fmt: skip
    if not is_same:
        raise UsageError("this idempotency key was used for another vote; expected a new key for each vote")
    return stored


def _vote(connection: Connection, statement: Select[Any], **values: Any) -> VoteRow | None:
    row = connection.execute(statement, values).one_or_none()
    return None if row is None else _vote_row(_record(row._asdict()), row.hash)


def _record(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the chain covers, as JSON's kinds of value."""
    found = {name: values[name] for name in RECORD_FIELDS}
    for name in ("is_swapped", "is_counted"):
        found[name] = bool(found[name])
    return {name: value.hex() if isinstance(value, bytes | memoryview) else value for name, value in found.items()}


def _vote_row(record: Mapping[str, Any], hash_: bytes) -> VoteRow:
    return VoteRow(**record, hash=bytes(hash_).hex())


def _fields(row: VoteRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in RECORD_FIELDS}


def _battle_row(row: Any) -> BattleRow:
    values = row._asdict()
    values |= {name: None if values[name] is None else unpack_text(values[name]) for name in TEXTS}
    values |= {"number": values.pop("id"), "is_swapped": bool(values["is_swapped"])}
    return BattleRow(**values)
