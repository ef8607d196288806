"""The table of texts: each is stored once, found by its SHA-256 when written and by its id when read."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection, bindparam, insert, select

from assaymark.errors import HashMismatch
from assaymark.store.packing import pack_text, unpack_text
from assaymark.store.runs import next_id
from assaymark.store.schema import insert_rows, texts

T = TypeVar("T")
LOOKED_UP_AT_ONCE = 500  # values in one IN (...)
UNPACKED_AT_ONCE = 2**30  # characters of texts read together, above which MOST_SHRUNK applies
MOST_SHRUNK = 50  # largest ratio of unpacked to packed length of such a set of texts

_ids_by_hash = select(texts.c.sha256, texts.c.id).where(texts.c.sha256.in_(bindparam("hashes", expanding=True)))
_insert = insert(texts)
_contents_by_id = select(texts.c.id, texts.c.content).where(texts.c.id.in_(bindparam("ids", expanding=True)))


def chunks(items: Sequence[T], size: int = LOOKED_UP_AT_ONCE) -> Iterator[Sequence[T]]:
    """Yield consecutive pieces of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def store_texts(connection: Connection, wanted: Mapping[bytes, str]) -> dict[bytes, int]:
    """Return the id of each text by its hash; new texts are added.

    The transaction must hold the structure lock, so that no text found here is removed before its id is used.
    """
    ids: dict[bytes, int] = {}
    for some in chunks(list(wanted)):
        ids.update(connection.execute(_ids_by_hash, {"hashes": some}).tuples().all())
    first = next_id(connection, texts)
    new = [(sha256, text) for sha256, text in wanted.items() if sha256 not in ids]
    rows = [{"id": first + i, "sha256": sha256, "content": pack_text(text)} for i, (sha256, text) in enumerate(new)]
    insert_rows(connection, _insert, rows)
    ids.update({sha256: first + i for i, (sha256, _) in enumerate(new)})
    return ids


def load_texts(connection: Connection, ids: Iterable[int]) -> dict[int, str]:
    """Return texts by id.

    Raises: HashMismatch if one is missing, or a few bytes unpack to gigabytes.
    """
    wanted = ids if isinstance(ids, Collection) else list(ids)
    found: dict[int, str] = {}
    n_packed = n_unpacked = 0
    for some in chunks(list(dict.fromkeys(wanted))):
        for number, content in connection.execute(_contents_by_id, {"ids": some}):
            found[number] = unpack_text(content)
            n_packed, n_unpacked = n_packed + len(content), n_unpacked + len(found[number])
            if n_unpacked > max(UNPACKED_AT_ONCE, MOST_SHRUNK * n_packed):
                raise HashMismatch(
                    f"texts of {n_packed:,} bytes unpack to more than {UNPACKED_AT_ONCE:,} characters; expected "
                    f"at most {MOST_SHRUNK} times as many: assaymark writes no such texts"
                )
    for number in wanted:
        if number not in found:
            raise HashMismatch(
                f"text {number} is not in the store though a request refers to it; run `assaymark verify`"
            )
    return found
