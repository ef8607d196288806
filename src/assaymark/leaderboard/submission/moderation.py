"""Flags on models, their names, revoked tokens, and the log of moderators' actions.

The log only grows. Each entry's hash covers the entry and the hash of the one before, so that `verify_log` finds an
entry that was changed or removed.
"""

import json
import secrets
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, insert, select, update

from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.submission.queue_rows import FlagReply, FlagRow, LogEntry
from assaymark.leaderboard.submission.tables import (
    QUEUE_TABLES,
    aliases,
    flag_replies,
    flags,
    moderation,
    revoked_tokens,
)
from assaymark.records import JsonValue, content_hash
from assaymark.store.feature_tables import FeatureLog, FeatureTables
from assaymark.store.leases import now

LONGEST_CHAIN = 10  # of names, each renamed to the next


class Moderation(FeatureLog):
    """Readers' reports about models, and moderators' decisions. May be used by several threads and processes."""

    # ------------------------------------------------------------------------------------------- flags

    def flag(self, model: str, kind: str, text: str, reporter: str) -> str:
        """Report a model; return the flag's id. Raises: UsageError if the reporter has an open flag on it."""
        flag = secrets.token_hex(6)
        with self._database.writing(locked=True) as connection:
            mine = (flags.c.model == model) & (flags.c.reporter == reporter) & (flags.c.state == "open")
            if (open_flag := connection.execute(select(flags.c.id).where(mine)).scalar()) is not None:
                raise UsageError(f"you have reported '{model}' already (flag {open_flag}); reply there instead")
            row = {"id": flag, "model": model, "kind": kind, "text": text, "reporter": reporter, "state": "open"}
            connection.execute(insert(flags), {**row, "made": now(connection), "settled_by": None, "settled": None})
        return flag

    def reply(self, flag: str, writer: str, role: str, text: str) -> None:
        """Add a reply to a flag. Raises: UnknownName."""
        self.flag_of(flag)
        with self._database.writing() as connection:
            row = {"id": secrets.token_hex(6), "flag": flag, "writer": writer, "role": role, "text": text}
            connection.execute(insert(flag_replies), {**row, "made": now(connection)})

    def settle(self, chosen: Sequence[str], state: str, moderator: str) -> int:
        """Uphold, reject or open flags again, all or none of them, and log each; return how many changed.

        Raises: UnknownName.
        """
        n_changed = 0
        with self._database.writing(locked=True) as connection:  # the second of two moderators sees what the first did
            for flag in dict.fromkeys(chosen):
                row = connection.execute(select(flags.c.model, flags.c.state).where(flags.c.id == flag)).one_or_none()
                if row is None:
                    raise UnknownName("flag", flag[:40])
                if row.state != state:
                    values = {"state": state, "settled_by": moderator, "settled": now(connection)}
                    connection.execute(update(flags).where(flags.c.id == flag).values(**values))
                    self._log(connection, moderator, f"flag {state}", row.model, {"flag": flag})
                    n_changed += 1
        return n_changed

    def flag_of(self, flag: str) -> FlagRow:
        """Return one flag. Raises: UnknownName."""
        with self._database.reading() as connection:
            row = connection.execute(select(flags).where(flags.c.id == flag)).one_or_none()
        if row is None:
            raise UnknownName("flag", flag[:40])
        return FlagRow(**row._asdict())

    def flags(
        self, model: str | None = None, *, reporter: str | None = None, state: str | None = None, limit: int = 500
    ) -> list[FlagRow]:
        """Return the flags, of one model, reporter or state or of all, the latest first."""
        statement = select(flags).order_by(flags.c.made.desc(), flags.c.id).limit(limit)
        for column, wanted in ((flags.c.model, model), (flags.c.reporter, reporter), (flags.c.state, state)):
            if wanted is not None:
                statement = statement.where(column == wanted)
        return [FlagRow(**row._asdict()) for row in self._rows(statement)]

    def replies(self, flag: str) -> list[FlagReply]:
        """Return the replies to a flag, the first one first."""
        wanted = select(flag_replies).where(flag_replies.c.flag == flag).order_by(flag_replies.c.made)
        return [FlagReply(row.writer, row.role, row.text, row.made) for row in self._rows(wanted)]

    # ------------------------------------------------------------------------------------------- names

    def rename(self, old: str, new: str, moderator: str) -> None:
        """Give a model another name; the old one leads to it. Raises: UsageError if that would be a circle."""
        with self._database.writing(locked=True) as connection:
            if old == new or _followed(self._names(connection), new) == old:
                raise UsageError(f"'{new}' leads to '{old}' already; the names would lead to each other")
            at = now(connection)
            connection.execute(delete(aliases).where(aliases.c.old_name.in_((old, new))))
            connection.execute(insert(aliases), {"old_name": old, "new_name": new, "made": at})
            connection.execute(update(flags).where(flags.c.model == old).values(model=new))
            self._log(connection, moderator, "rename", old, {"to": new})

    def names(self) -> dict[str, str]:
        """Return the present name of every model that was renamed, by each earlier name."""
        with self._database.reading() as connection:
            names = self._names(connection)
        return {old: _followed(names, old) for old in names}

    @staticmethod
    def _names(connection: Connection) -> dict[str, str]:
        return {row.old_name: row.new_name for row in connection.execute(select(aliases))}

    # -------------------------------------------------------------------------------------- tokens

    def revoke(self, token: str, moderator: str) -> None:
        """Revoke a token by its id, and log it."""
        with self._database.writing(locked=True) as connection:
            if connection.execute(select(revoked_tokens).where(revoked_tokens.c.token == token)).first() is None:
                connection.execute(insert(revoked_tokens), {"token": token, "revoked": now(connection)})
                self._log(connection, moderator, "revoke token", token, {})

    def is_revoked(self, token: str) -> bool:
        """Return whether a token's id was revoked."""
        with self._database.reading() as connection:
            return connection.execute(select(revoked_tokens).where(revoked_tokens.c.token == token)).first() is not None

    # ----------------------------------------------------------------------------------------- log

    def log(self, moderator: str, action: str, subject: str, detail: Mapping[str, JsonValue]) -> None:
        """Add an entry to the log."""
        with self._database.writing(locked=True) as connection:
            self._log(connection, moderator, action, subject, detail)

    def _log(
        self, connection: Connection, moderator: str, action: str, subject: str, detail: Mapping[str, JsonValue]
    ) -> None:
        self._database.lock_structure(connection)
        last = connection.execute(select(moderation).order_by(moderation.c.number.desc()).limit(1)).one_or_none()
        number, before = (1, "") if last is None else (last.number + 1, last.hash)
        at = now(connection)
        row: dict[str, object] = {"number": number, "made": at, "moderator": moderator, "action": action}
        row |= {"subject": subject[:200], "detail": json.dumps(dict(detail), sort_keys=True)}
        connection.execute(insert(moderation), {**row, "hash": _hash(before, row)})

    def entries(self, *, limit: int = 500) -> list[LogEntry]:
        """Return the entries of the log, the latest first."""
        statement = select(moderation).order_by(moderation.c.number.desc()).limit(limit)
        return [
            LogEntry(row.number, row.made, row.moderator, row.action, row.subject, json.loads(row.detail), row.hash)
            for row in self._rows(statement)
        ]

    def verify_log(self) -> list[str]:
        """Return a line for each entry that was changed or removed; empty if the log is whole."""
        problems, before, expected = [], "", 1
        with self._database.reading() as connection:
            for row in connection.execute(select(moderation).order_by(moderation.c.number)):
                content = {name: value for name, value in row._asdict().items() if name != "hash"}
                if row.number != expected:
                    problems.append(f"entry {expected} is missing")
                elif _hash(before, content) != row.hash:
                    problems.append(f"entry {row.number} differs from its hash")
                before, expected = row.hash, row.number + 1
        return problems


def _hash(before: str, row: Mapping[str, object]) -> str:
    return content_hash(
        [before, *(row[name] for name in ("number", "made", "moderator", "action", "subject", "detail"))]
    )


def _followed(names: Mapping[str, str], name: str) -> str:
    for _ in range(LONGEST_CHAIN):
        if name not in names:
            break
        name = names[name]
    return name


TABLES = FeatureTables(QUEUE_TABLES, "moderation", lambda store: Moderation(store).verify_log())
"""Of submissions, their queue and its moderation."""
