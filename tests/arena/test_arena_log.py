"""The log of votes: one vote per battle, the chain, erasure, batches; on either database."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, text, update

from assaymark.arena.arena_log import FIRST, AlreadyVoted, ArenaLog, commitment, first_break, vote_hash
from assaymark.arena.arena_rows import Activity, BattleRow, NewVote
from assaymark.arena.studies.study_file import StudyPlan
from assaymark.arena.studies.study_log import NewAssignment, StudyLog
from assaymark.arena.tables import ARENA_TABLES
from assaymark.errors import HashMismatch, UnknownName, UsageError
from assaymark.store import Store

BATTLE = BattleRow(
    token="t0", opened_at=1000.5, voter="v", origin="o", mode="anonymous", source="s", prompt_id="p", category=None,
    model_a="large", model_b="small", is_swapped=True, prompt="Who?", answer_a="I.", answer_b="You.",
)  # fmt: skip


def opened(store: Store, n: int, **changes: object) -> list[str]:
    """Store n battles; return their tokens."""
    ArenaLog(store).register(["small", "large"])
    tokens = [f"t{index}" for index in range(n)]
    for token in tokens:
        ArenaLog(store).open_battle(replace(BATTLE, token=token, **changes))  # type: ignore[arg-type]
    return tokens


def vote(token: str, key: str | None = None, choice: str = "a") -> NewVote:
    """Return a vote on a battle."""
    return NewVote(token, key or f"key {token}", 1010.25, choice)


def test_a_vote_is_read_back_with_the_facts_of_its_battle(store: Store) -> None:
    """The stored vote has models, sides and commitments of its battle, and the head moves to it."""
    (token,) = opened(store, 1)
    stored = ArenaLog(store).append(vote(token))
    assert [*ArenaLog(store).votes()] == [stored] == [ArenaLog(store).vote_of(token)]
    assert (stored.model_a, stored.model_b, stored.is_swapped, stored.choice) == ("large", "small", True, "a")
    assert ArenaLog(store).head().hash == stored.hash
    assert ArenaLog(store).problems() == []


def test_a_repeated_key_returns_the_stored_vote(store: Store) -> None:
    """A client that sends its vote again after a broken connection gets the vote that is stored."""
    (token,) = opened(store, 1)
    assert ArenaLog(store).append(vote(token)) == ArenaLog(store).append(replace(vote(token), cast_at=2000.0))
    assert ArenaLog(store).head().sequence == 1


def test_a_key_of_another_vote_is_refused(store: Store) -> None:
    """One key cannot stand for two different votes."""
    first, other = opened(store, 2)
    ArenaLog(store).append(vote(first, "key"))
    with pytest.raises(UsageError, match="used for another vote"):
        ArenaLog(store).append(vote(other, "key"))


def test_a_battle_has_one_vote(store: Store) -> None:
    """Another vote on a battle is refused, and the first one stays."""
    (token,) = opened(store, 1)
    ArenaLog(store).append(vote(token))
    with pytest.raises(AlreadyVoted):
        ArenaLog(store).append(vote(token, "another", "b"))
    assert [each.choice for each in ArenaLog(store).votes()] == ["a"]


def test_an_unknown_battle_or_model_is_refused(store: Store) -> None:
    """Nothing is stored for a token or model that does not exist."""
    with pytest.raises(UnknownName, match="battle"):
        ArenaLog(store).append(vote("none"))
    with pytest.raises(UnknownName, match="model of the arena"):
        ArenaLog(store).open_battle(BATTLE)


def test_of_many_simultaneous_votes_one_is_stored(url: str) -> None:
    """Two stores and eight threads vote on the same ten battles: each gets one vote, and there is no gap."""
    with Store.open(url) as item, Store.open(url) as other:
        tokens = opened(item, 10)
        stored: list[str] = []

        def cast(store: Store, name: str) -> None:
            for token in tokens:
                try:
                    stored.append(ArenaLog(store).append(vote(token, f"{name} {token}")).battle)
                except AlreadyVoted:
                    continue

        threads = [threading.Thread(target=cast, args=((item, other)[n % 2], str(n))) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(stored) == sorted(tokens)
        assert [row.sequence for row in ArenaLog(item).votes()] == list(range(1, 11))
        assert ArenaLog(item).problems() == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("UPDATE votes SET choice = 'b' WHERE sequence = 2", "vote 2 does not have its hash"),
        ("UPDATE battles SET voter = 'x' WHERE token = 't1'", "vote 2 does not have its hash"),
        ("DELETE FROM votes WHERE sequence = 2", "vote 2 is missing"),
        ("DELETE FROM votes WHERE sequence = 3", "does not have the published hash"),
        ("UPDATE arena_texts SET salt = commitment", "is not the one that was committed to"),
    ],
)
def test_a_changed_log_is_found(store: Store, change: str, found: str) -> None:
    """An edited, removed or truncated vote breaks the chain; an edited text differs from its commitment."""
    for token in opened(store, 3):
        ArenaLog(store).append(vote(token))
    with store._database.writing() as connection:
        connection.execute(text(change))
    assert any(found in line for line in ArenaLog(store).problems())


@pytest.mark.parametrize("change", ["votes SET choice = 'b'", "battles SET model_a = model_b", "votes SET cast_at = 2"])
def test_a_changed_vote_is_not_rated(store: Store, change: str) -> None:
    """Ratings and exports take the votes only where each has the hash that follows from those before it."""
    for token in opened(store, 3):
        ArenaLog(store).append(vote(token))
    assert ArenaLog(store).sound_votes(2) == [*ArenaLog(store).votes(until=2)]
    with store.database.writing() as connection:
        connection.execute(text(f"UPDATE {change}"))
    with pytest.raises(HashMismatch, match="vote 1 does not have its hash"):
        ArenaLog(store).sound_votes(2)


def test_erasing_a_voters_texts_keeps_the_chain(store: Store) -> None:
    """Texts of a voter are erased with their salts; the log still verifies, and no byte of the text remains."""
    tokens = opened(store, 3, is_private=True)
    for token in tokens:
        ArenaLog(store).append(vote(token))
    assert ArenaLog(store).erase_texts("t1") == 3
    assert ArenaLog(store).problems() == []
    erased, kept = ArenaLog(store).battle("t1"), ArenaLog(store).battle("t2")
    assert erased is not None
    assert (erased.prompt, erased.answer_a) == (None, None)
    assert kept is not None
    assert kept.prompt == "Who?"


def test_an_operators_texts_are_stored_once_and_not_erased(store: Store) -> None:
    """Battles over stored answers share their texts, which a voter's erasure leaves."""
    opened(store, 3)
    with store._database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM arena_texts")).scalar() == 3
    assert ArenaLog(store).erase_texts("t1") == 0


def test_a_batch_ends_at_a_stored_vote(store: Store) -> None:
    """Publishing moves forward only."""
    for token in opened(store, 3):
        ArenaLog(store).append(vote(token))
    assert ArenaLog(store).last_batch() is None
    ArenaLog(store).publish(2, 1020.0)
    ArenaLog(store).publish(1, 1030.0)
    batch = ArenaLog(store).last_batch()
    assert batch is not None
    assert (batch.sequence, batch.published_at) == (2, 1020.0)


def test_the_voters_open_battle_is_found_again(store: Store) -> None:
    """A voter who comes back gets his latest battle while it has no vote; a skip is counted once, stored or not."""
    first, other = opened(store, 2)
    result = ArenaLog(store).open_battle_of("v", 0.0)
    assert result is not None
    assert result.token == other
    assert ArenaLog(store).open_battle_of("v", 1005.0) is None
    assert ArenaLog(store).open_battle_of("another", 0.0) is None
    assert ArenaLog(store).n_skipped() == 0  # that another battle was opened, after a day for example, is not a skip
    for token in (first, first, "of a live battle"):
        ArenaLog(store).skip_battle(token, 1006.0)
    ArenaLog(store).append(vote(other))
    assert ArenaLog(store).open_battle_of("v", 0.0) is None
    assert ArenaLog(store).n_skipped() == 2
    assert ArenaLog(store).activity("v", "o", 0.0) == Activity(1, 1, 2, 1010.25, 1010.25)


def test_a_withdrawn_model_stays_listed(store: Store) -> None:
    """Withdrawing marks a model; registering it again does not undo that."""
    opened(store, 1)
    ArenaLog(store).withdraw("small")
    ArenaLog(store).register(["small", "other"])
    assert [(model.name, model.withdrawn_at is None) for model in ArenaLog(store).models()] == [
        ("small", False), ("large", True), ("other", True)
    ]  # fmt: skip
    with pytest.raises(UnknownName):
        ArenaLog(store).withdraw("none")


Edit = Callable[[dict[str, object]], None]


def test_the_chain_is_sha256_over_the_previous_hash_and_the_record(store: Store) -> None:
    """The first vote's hash, computed here from its definition, is the stored one."""
    import hashlib
    import json
    from dataclasses import asdict

    (token,) = opened(store, 1)
    stored = asdict(ArenaLog(store).append(vote(token)))
    hash_ = stored.pop("hash")
    body = json.dumps(stored, sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(bytes(32) + body.encode()).hexdigest() == hash_
    assert vote_hash(FIRST, stored).hex() == hash_
    assert first_break([{**stored, "hash": bytes.fromhex(hash_)}]) is None
    assert commitment(b"s" * 32, "é") == hashlib.sha256(b"s" * 32 + "é".encode()).digest()


@pytest.mark.slow
def test_a_change_of_any_value_of_the_arena_is_found(file_store: Store) -> None:
    """`Store.verify` finds another value in any column of any row of battles, votes and studies."""
    store = file_store
    (token,) = opened(store, 1, category="c")
    ArenaLog(store).append(replace(vote(token), mark_a="poor", mark_b="poor"))
    ArenaLog(store).withdraw("small")
    ArenaLog(store).publish(1, 2.0)
    ArenaLog(store).skip_battle("skipped", 1.5)
    new_assignment = NewAssignment(0, "small", "large", "a")
    plan: StudyPlan = {
        "study": "s", "title": "", "consent": "", "models": [], "items": [], "questions": [], "ratings": 1, "cap": 1,
        "demographics": [], "seed": 0, "n_comparisons": 0,
    }  # fmt: skip
    StudyLog(store).create(plan, {"rater": "token"}, {"rater": [new_assignment]}, 1.0)
    StudyLog(store).consent(1, {"age": "old"}, 2.0)
    StudyLog(store).answer(1, 0, {"better": "a"}, 3.0, 1.0)
    assert store.verify() == []
    for table in ARENA_TABLES:
        for column in table.columns:
            with store._database.reading() as connection:
                value = connection.execute(select(column)).scalars().first()
            assert value is not None, f"no value in {table.name}.{column.name}"
            if column.primary_key or column.foreign_keys:
                continue
            tail: Any = b"~" if isinstance(value, bytes) else "~"
            other = value + 1 if isinstance(value, int | float) else value[:-1] + tail
            for old, new in ((value, other), (other, value)):
                with store._database.writing() as connection:
                    connection.execute(update(table).where(column == old).values({column: new}))
                assert (store.verify() == []) == (new == value), f"{table.name}.{column.name}"


def test_a_removed_vote_is_found_by_verify(store: Store) -> None:
    """The store's verification includes the chain."""
    for token in opened(store, 2):
        ArenaLog(store).append(vote(token))
    with store._database.writing() as connection:
        connection.execute(text("DELETE FROM votes WHERE sequence = 2"))
    assert [(each.table, each.row) for each in store.verify()] == [("votes", "log")]
