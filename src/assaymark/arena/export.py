"""The log as a file: one line for each vote, which anybody can verify and rate without the store."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assaymark.arena.prompt_clusters import near_duplicates
from assaymark.arena.vote_rows import published_row, record_of
from assaymark.drafts import whole_file
from assaymark.errors import DataError, StoreError
from assaymark.store import Store
from assaymark.store.arena_rows import Head
from assaymark.store.vote_chain import RECORD_FIELDS, first_break

__all__ = ["export_votes", "head_file", "verify_export"]


def head_file(path: Path) -> Path:
    """Return where the head of an export is: `votes.jsonl` has `votes.head.json` beside it."""
    return path.with_suffix(".head.json")


def export_votes(store: Store, path: Path, *, texts: bool = False, live_texts: bool = False) -> Head:
    """Write all votes as JSON lines, and number and hash of the last one beside it; return the latter.

    Open battles are not in the log, so nothing of them is written.

    Args:
        store: with the log.
        path: of the file.
        texts: also write prompts and answers.
        live_texts: also those of live battles, where voters wrote the prompts.

    Raises: StoreError if it cannot be written.
    """
    head = store.arena.head()
    held = store.arena.answer_texts(private=live_texts) if texts or live_texts else None
    groups = near_duplicates(store.arena.votes(until=head.sequence), store.arena.answer_texts())
    try:
        with whole_file(path) as draft, draft.open("w", encoding="utf-8", errors="backslashreplace") as file:
            for vote in store.arena.votes(until=head.sequence):
                file.write(json.dumps(published_row(vote, held, groups), ensure_ascii=False) + "\n")
        with whole_file(head_file(path)) as draft:
            draft.write_text(json.dumps(asdict(head)) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}; name another file with -o") from error
    return head


def verify_export(path: Path, head: str | None = None) -> tuple[int, str | None]:
    """Return the number of votes of an exported file, and what is wrong with its chain; None if nothing is.

    Args:
        path: written by `export_votes`.
        head: the published hash in hex; None: the one in the file beside it.

    Raises: DataError if a file cannot be read.
    """
    rows = list(_rows(path))
    if head is None:
        try:
            head = str(json.loads(head_file(path).read_text(encoding="utf-8"))["hash"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{head_file(path)} cannot be read: {error}; name the published hash with --head"
            ) from error
    try:
        return len(rows), first_break((record_of(row, RECORD_FIELDS) for row in rows), bytes.fromhex(head))
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} has a row without {error}; expected a file of `assaymark arena export`") from error


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise DataError(f"{path}, line {number}: {str(row)[:40]} is not an object; expected a vote")
                yield row
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}; expected a file of `assaymark arena export`") from error
