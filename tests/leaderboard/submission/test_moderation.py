"""Flags and replies, names that lead on, revoked tokens, and a log that shows when it was changed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.submission.moderation import Moderation
from assaymark.leaderboard.submission.tables import moderation
from assaymark.store import Store


def test_a_flag_is_answered_and_settled(store: Store) -> None:
    """A flag has its reason, replies in order, and a moderator's decision that the log has."""
    flag = Moderation(store).flag("org/model", "copy", "the same weights as org/other", "eve")
    with pytest.raises(UsageError, match="reported 'org/model' already"):
        Moderation(store).flag("org/model", "other", "again", "eve")
    Moderation(store).reply(flag, "ada", "owner", "It is a licensed copy.")
    assert Moderation(store).settle([flag, flag], "rejected", "mod") == 1
    assert Moderation(store).settle([flag], "rejected", "mod") == 0
    assert [(each.state, each.settled_by) for each in Moderation(store).flags("org/model")] == [("rejected", "mod")]
    assert [(reply.role, reply.text) for reply in Moderation(store).replies(flag)] == [
        ("owner", "It is a licensed copy.")
    ]
    assert [(entry.action, entry.subject) for entry in Moderation(store).entries()] == [("flag rejected", "org/model")]
    with pytest.raises(UnknownName):
        Moderation(store).reply("nothing", "ada", "owner", "?")


def test_racing_moderators_settle_once(store: Store, url: str) -> None:
    """Of eight moderators who settle the same flags at once one does, and the log has each decision once."""
    chosen = [Moderation(store).flag(f"org/{number}", "copy", "the same weights", "eve") for number in range(5)]
    start = threading.Barrier(8)

    def settle(moderator: int) -> int:
        with Store.open(url) as opened:
            start.wait()
            return Moderation(opened).settle(chosen, "upheld", f"mod{moderator}")

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(settle, range(8))) == [0] * 7 + [5]
    assert len(Moderation(store).entries()) == 5
    assert Moderation(store).verify_log() == []


def test_names_lead_to_the_present_one(store: Store) -> None:
    """A model that was renamed twice is found by each of its names; a circle is refused."""
    Moderation(store).rename("a/one", "a/two", "mod")
    Moderation(store).rename("a/two", "a/three", "mod")
    assert Moderation(store).names() == {"a/one": "a/three", "a/two": "a/three"}
    with pytest.raises(UsageError, match="lead to each other"):
        Moderation(store).rename("a/three", "a/one", "mod")


def test_the_log_shows_what_was_changed_or_removed(store: Store) -> None:
    """An entry that was edited, and one that was removed, are found."""
    for number in range(4):
        Moderation(store).log("mod", "withdraw", f"org/{number}", {"why": "asked"})
    assert Moderation(store).verify_log() == []
    with store._database.writing() as connection:
        connection.execute(moderation.update().where(moderation.c.number == 2).values(subject="org/9"))
    assert Moderation(store).verify_log() == ["entry 2 differs from its hash"]
    with store._database.writing() as connection:
        connection.execute(moderation.delete().where(moderation.c.number == 3))
    assert "entry 3 is missing" in Moderation(store).verify_log()
    assert ("moderation", "log") in {(each.table, each.row) for each in store.verify()}


def test_a_token_is_revoked_once(store: Store) -> None:
    """Revoking is remembered, and logged once."""
    assert not Moderation(store).is_revoked("t1")
    Moderation(store).revoke("t1", "mod")
    Moderation(store).revoke("t1", "mod")
    assert Moderation(store).is_revoked("t1")
    assert len(Moderation(store).entries()) == 1
