"""Recognise rows of sealed tasks wherever they are: in other files, as shots, in a target's inputs or judges' prompts.

The hash of a data set changes with a column, the order of rows or a selection. So the store keeps keyed digests that
identify each sealed row, and compares every text of a run with them when it is stored. The digests reveal nothing
without the key, which stays in the store; the texts themselves are not kept.

A text is compared word by word, without case, punctuation and white space (NFKC). It holds a sealed row if it has all
words of the row's question, or of its longest text, in this order. Texts that several rows of the data set share
identify none of them, and neither do texts of fewer than three words or ten letters and digits. Rows without a longer
text are recognised by the set of all their values: as rows, but not within a prompt.

`sealed_copies` lists the tasks of runs in which a row was recognised; pages read that list (`public_store`), no text.
"""

import json
import re
import secrets
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sqlalchemy import Column, Connection, String, Table, delete, insert, select

from assaymark.store.packing import pack_json, unpack_json
from assaymark.store.schema import (
    Blob,
    StoredRow,
    checksum_column,
    insert_rows,
    metadata,
    parent_key,
    run_tasks,
    runs,
    upsert,
    with_checksum,
)

KEY_BYTES = 32
DIGEST_BYTES = 8
ANCHOR_WORDS = 3  # first words of a text, which are looked for at each position before the whole text
FEWEST_CHARACTERS = 10  # letters and digits of a text that identifies a row
REMEMBERED = 20_000  # texts whose result is kept: shots are in every prompt

sealed_rows = Table(
    "sealed_rows",
    metadata,
    Column("dataset_hash", String(128), primary_key=True),
    Column("digest_key", String(64), nullable=False),  # hexadecimal
    Column("content", Blob, nullable=False),  # JSON, packed: the other fields of `RowDigests`
    checksum_column(),
)

sealed_copies = Table(
    "sealed_copies",
    metadata,
    parent_key("run_task", "run_tasks.id", primary_key=True),
    Column("dataset_hash", String(128), primary_key=True),  # the sealed data set of which it has a row
    checksum_column(),
)

_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # scripts without spaces: each character is a word
_WORD = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])[^\W_])+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are compared: without case, punctuation, white space, compatibility forms."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return (_ASCII_WORD if plain.isascii() else _WORD).findall(plain)


@dataclass(frozen=True, slots=True)
class RowDigests:
    """The identifiers of a data set's sealed rows, as keyed digests in hexadecimal."""

    key: str
    texts: frozenset[tuple[str, int, str]] = frozenset()  # of the first words; the number of all words; of all words
    rows: frozenset[str] = frozenset()  # of the sets of values of whole rows
    is_searched: bool = False  # whether runs stored before were compared with them; not so where that was interrupted

    def __or__(self, other: "RowDigests") -> "RowDigests":
        return RowDigests(self.key, self.texts | other.texts, self.rows | other.rows)


def _digest(key: bytes, words: Iterable[str]) -> str:
    return blake2b(" ".join(words).encode("utf-8", "surrogatepass"), key=key, digest_size=DIGEST_BYTES).hexdigest()


def _leaves(value: object) -> Iterator[str]:
    """Yield the texts and numbers of a row, at any depth of lists and mappings."""
    left = [value]
    while left:
        own = left.pop()
        if isinstance(own, str):
            yield own
        elif isinstance(own, int | float) and not isinstance(own, bool):
            yield str(own)
        elif isinstance(own, Mapping):
            left += reversed(list(own.values()))
        elif isinstance(own, list | tuple):
            left += reversed(own)


def _row_digest(key: bytes, row: Mapping[str, object]) -> str | None:
    """Return the digest of the set of a row's values without its id; None for fewer than two values."""
    values = {" ".join(words) for name, own in row.items() if name != "id" for leaf in _leaves(own)
              if (words := words_of(leaf))}  # fmt: skip
    return _digest(key, ["\x1f".join(sorted(values))]) if len(values) > 1 else None


def digest_rows(
    key: str, rows: Sequence[tuple[Mapping[str, object], str | None]], closed: Sequence[bool] | None = None
) -> RowDigests:
    """Return the digests that identify rows.

    Args:
        key: hexadecimal.
        rows: all rows of the data set, each with its question where that is known.
        closed: which of them are withheld; None: all. The others belong to a preview.
    """
    own_key = bytes.fromhex(key)
    texts: list[set[str]] = []
    n_rows_with: Counter[str] = Counter()
    for row, question in rows:
        leaves = [" ".join(words_of(leaf)) for leaf in _leaves(row)]
        n_rows_with.update(set(leaves))
        longest = max(leaves, key=len, default="")
        texts.append({longest, " ".join(words_of(question or ""))})
    identifying = set()
    whole = set()
    for (row, _), own, is_closed in zip(rows, texts, closed or [True] * len(rows), strict=True):
        if not is_closed:
            continue
        if (digest := _row_digest(own_key, row)) is not None:
            whole.add(digest)
        for text in own:
            words = text.split(" ")
            long_enough = len(words) >= ANCHOR_WORDS and len(text) - len(words) + 1 >= FEWEST_CHARACTERS
            if long_enough and n_rows_with[text] <= 1:
                anchor = _digest(own_key, words[:ANCHOR_WORDS])
                identifying.add((anchor, len(words), _digest(own_key, words)))
    return RowDigests(key, frozenset(identifying), frozenset(whole))


class Recogniser:
    """Finds the sealed data sets whose rows a text contains. May be used by several threads."""

    def __init__(self, digests: Mapping[str, RowDigests]) -> None:
        self._keys: dict[str, dict[str, dict[int, dict[str, set[str]]]]] = {}  # key, anchor, number of words, digest
        self._rows: dict[str, dict[str, set[str]]] = {}  # key, digest
        for dataset_hash, own in digests.items():
            anchors = self._keys.setdefault(own.key, {})
            for anchor, n, digest in own.texts:
                anchors.setdefault(anchor, {}).setdefault(n, {}).setdefault(digest, set()).add(dataset_hash)
            for digest in own.rows:
                self._rows.setdefault(own.key, {}).setdefault(digest, set()).add(dataset_hash)
        self._known: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def sources(self, text: str) -> frozenset[str]:
        """Return the hashes of the sealed data sets of which the text, or a row in JSON, contains a row."""
        known = self._known.get(text)
        if known is None:
            known = frozenset(self._in_words(words_of(text)))
            if text.startswith("{"):
                try:
                    row = json.loads(text)
                except (ValueError, RecursionError):
                    row = None
                known |= frozenset() if row is None else self.sources_of_row(row)
            with self._lock:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[text] = known
        return known

    def sources_of_row(self, row: Mapping[str, object]) -> frozenset[str]:
        """Return the hashes of the sealed data sets that contain the row."""
        sources: set[str] = set()
        for key, digests in self._rows.items():
            digest = _row_digest(bytes.fromhex(key), row)
            sources |= digests.get(digest, set()) if digest is not None else set()
        for leaf in _leaves(row):
            sources |= self._in_words(words_of(leaf))
        return frozenset(sources)

    def _in_words(self, words: Sequence[str]) -> set[str]:
        sources: set[str] = set()
        for key, anchors in self._keys.items():
            if not anchors:
                continue
            own_key = bytes.fromhex(key)
            for at in range(len(words) - ANCHOR_WORDS + 1):
                lengths = anchors.get(_digest(own_key, words[at : at + ANCHOR_WORDS]))
                for n, digests in lengths.items() if lengths is not None else ():
                    if at + n <= len(words):
                        sources |= digests.get(_digest(own_key, words[at : at + n]), set())
        return sources


# --------------------------------------------------------------------------------------------- in the store

_RECOGNISERS: dict[tuple[object, ...], Recogniser] = {}  # by what the digests are of
_MOST_RECOGNISERS = 4


def stored_digests(connection: Connection) -> dict[str, RowDigests]:
    """Return the digests of each sealed data set, by its hash."""
    return {row.dataset_hash: _digests_of(row) for row in connection.execute(select(sealed_rows)).all()}


def recogniser(connection: Connection) -> Recogniser | None:
    """Return the matcher of the store's sealed rows; None where no rows are sealed."""
    columns = sealed_rows.c
    version = select(columns.dataset_hash, columns.digest_key, columns.checksum).order_by(columns.dataset_hash)
    key = tuple(tuple(row) for row in connection.execute(version).all())
    if not key:
        return None
    known = _RECOGNISERS.get(key)
    if known is None:
        known = Recogniser(stored_digests(connection))
        if len(_RECOGNISERS) >= _MOST_RECOGNISERS:
            _RECOGNISERS.clear()
        _RECOGNISERS[key] = known
    return known


def write_digests(connection: Connection, dataset_hash: str, digests: RowDigests) -> None:
    """Store the digests of a data set in place of earlier ones."""
    content = {"texts": sorted(map(list, digests.texts)), "rows": sorted(digests.rows),
               "is_searched": digests.is_searched}  # fmt: skip
    row = {"dataset_hash": dataset_hash, "digest_key": digests.key, "content": pack_json(content)}
    connection.execute(upsert(connection.dialect.name, sealed_rows), with_checksum(sealed_rows, row))


def new_key(connection: Connection) -> str:
    """Return the key of the store's digests, a new one if there are none: one key lets a text be compared with all."""
    known = connection.execute(select(sealed_rows.c.digest_key).limit(1)).scalar()
    return known or secrets.token_hex(KEY_BYTES)


def drop_rows(connection: Connection, dataset_hash: str) -> None:
    """Remove the digests of a data set whose rows were revealed."""
    for table in (sealed_rows, sealed_copies):
        connection.execute(delete(table).where(table.c.dataset_hash == dataset_hash))


def _digests_of(row: StoredRow) -> RowDigests:
    content = unpack_json(bytes(row.content))
    texts = frozenset((anchor, n, digest) for anchor, n, digest in content["texts"])
    return RowDigests(row.digest_key, texts, frozenset(content["rows"]), content["is_searched"])


def mark(connection: Connection, copies: Iterable[tuple[int, str]]) -> None:
    """Store that tasks of runs have rows of sealed data sets: row id of the run's task, hash of the data set."""
    wanted = set(copies)
    tasks = {task for task, _ in wanted}
    of_tasks = select(sealed_copies.c.run_task, sealed_copies.c.dataset_hash)
    known = {tuple(row) for row in connection.execute(of_tasks.where(sealed_copies.c.run_task.in_(tasks))).all()}
    new = [{"run_task": task, "dataset_hash": dataset_hash} for task, dataset_hash in sorted(wanted - known)]
    insert_rows(connection, insert(sealed_copies), [with_checksum(sealed_copies, row) for row in new])


def copies_of(connection: Connection, run_ids: Sequence[str] | None) -> dict[tuple[str, str], set[str]]:
    """Return the sealed data sets whose rows tasks contain, by run id and task. None: of all runs."""
    statement = (
        select(runs.c.run_id, run_tasks.c.name, sealed_copies.c.dataset_hash)
        .join(run_tasks, run_tasks.c.id == sealed_copies.c.run_task)
        .join(runs, runs.c.id == run_tasks.c.run)
    )
    if run_ids is not None:
        statement = statement.where(runs.c.run_id.in_(run_ids))
    copies: dict[tuple[str, str], set[str]] = {}
    for run_id, task, dataset_hash in connection.execute(statement).all():
        copies.setdefault((run_id, task), set()).add(dataset_hash)
    return copies
