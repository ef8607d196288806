"""Sealed tasks of the store: their rows are shown only to the store's owner.

A seal belongs to the content of a data set, so it covers every run of it, including earlier ones and those of other
task files. Runs of other rows under the same task's name are covered as well (`public_store`), so that a corrected typo
does not reveal a benchmark.

The rows of a sealed data set are learnt from its samples and looked for in stored runs; later requests are compared as
they are written (`request_rows`).
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace

from sqlalchemy import Column, Connection, String, Table, Text, insert, select

from assaymark.errors import HashMismatch
from assaymark.records import Sample
from assaymark.store.connection import Database
from assaymark.store.packing import pack_json, unpack_hash, unpack_json, unpack_text
from assaymark.store.plan_json import plan_from_json
from assaymark.store.request_rows import text_ids
from assaymark.store.request_texts import chunks, load_texts
from assaymark.store.sample_facts import question_of
from assaymark.store.schema import (
    Blob,
    checksum_column,
    metadata,
    requests,
    run_tasks,
    runs,
    texts,
    upsert,
    with_checksum,
)
from assaymark.store.sealed_rows import (
    Recogniser,
    copies_of,
    digest_rows,
    drop_rows,
    mark,
    new_key,
    recogniser,
    stored_digests,
    write_digests,
)

KEY_BYTES = 32

sealed_tasks = Table(
    "sealed_tasks",
    metadata,
    Column("dataset_hash", String(128), primary_key=True),
    Column("task", Text, nullable=False),
    Column("content", Blob, nullable=False),  # JSON, packed: the other fields of `SealedTask`
    checksum_column(),
)


@dataclass(frozen=True, slots=True)
class SealedTask:
    """One sealed data set. The key stays in the store: it draws the preview and makes the digests of withheld texts."""

    task: str
    dataset_hash: str
    key: str = field(default_factory=lambda: secrets.token_hex(KEY_BYTES), repr=False)
    public_fraction: float = 0.0  # of the rows, drawn by the key: the preview, which is shown
    commitment: str | None = None  # published: `sha256:<hex>`
    version: str = ""
    valid_until: str = ""  # a date, YYYY-MM-DD; "": no end
    sealed_at: str = ""
    revealed_at: str = ""  # a time; since then the rows are shown

    @property
    def is_closed(self) -> bool:
        """Whether its rows are withheld."""
        return not self.revealed_at


class SealLog:
    """The sealed tasks of a store. May be used by several threads and processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[SealedTask]:
        """Return every sealed task, revealed ones too, by name and time."""
        with self._database.reading() as connection:
            rows = connection.execute(select(sealed_tasks)).all()
        seals = [SealedTask(row.task, row.dataset_hash, **unpack_json(bytes(row.content))) for row in rows]
        return sorted(seals, key=lambda seal: (seal.task, seal.sealed_at, seal.dataset_hash))

    def of_dataset(self, dataset_hash: str) -> SealedTask | None:
        """Return the seal of a data set; None where it has none."""
        return next((seal for seal in self.all() if seal.dataset_hash == dataset_hash), None)

    def put(self, seal: SealedTask) -> None:
        """Store a seal; one of the same data set is replaced. The rows of a revealed one are no longer recognised.

        Raises: StoreError if the store cannot be written.
        """
        with self._database.writing(durable=True, locked=True) as connection:
            connection.execute(upsert(connection.dialect.name, sealed_tasks), _row_of(seal))
            if not seal.is_closed:
                drop_rows(connection, seal.dataset_hash)

    def put_missing(self, seal: SealedTask) -> None:
        """Store a seal unless the data set has one already.

        Raises: StoreError if the store cannot be written.
        """
        if self.of_dataset(seal.dataset_hash) is not None:
            return
        with self._database.writing(durable=True, locked=True) as connection:
            here = select(sealed_tasks.c.task).where(sealed_tasks.c.dataset_hash == seal.dataset_hash)
            if connection.execute(here).one_or_none() is None:
                connection.execute(insert(sealed_tasks), _row_of(seal))

    # ------------------------------------------------------------------- its rows in other runs

    def learn_rows(self, dataset_hash: str, samples: Sequence[Sample], *, all_rows: bool = False) -> None:
        """Store digests of the rows of a sealed data set, and look for these rows in stored runs.

        Args:
            dataset_hash: of a sealed data set; nothing is stored for one without a seal, or a revealed one.
            all_rows: `samples` are all rows, so earlier digests are replaced, and all runs are searched again.

        Raises: StoreError if the store cannot be written.
        """
        seal = self.of_dataset(dataset_hash)
        if seal is not None and seal.is_closed and (self._learn(seal, samples, anew=all_rows) or all_rows):
            find_copies(self._database)

    def learn_missing(self) -> None:
        """Learn the rows of sealed data sets without digests from the runs that have stored them.

        Seals of earlier versions, and seals that came with an imported run, have none. An interrupted search of stored
        runs is repeated.

        Raises: StoreError if the store cannot be written.
        """
        with self._database.reading() as connection:
            known = stored_digests(connection)
        missing = [seal for seal in self.all() if seal.is_closed and seal.dataset_hash not in known]
        learnt = [
            self._learn(seal, samples, anew=False)
            for seal in missing
            if (samples := stored_samples(self._database, seal.dataset_hash))
        ]
        if any(learnt) or not all(own.is_searched for own in known.values()):
            find_copies(self._database)

    def _learn(self, seal: SealedTask, samples: Sequence[Sample], *, anew: bool) -> bool:
        def is_public(sample_sha256: str) -> bool:
            return is_in_preview(seal.key, sample_sha256, seal.public_fraction)

        return learn(self._database, seal.dataset_hash, samples, is_public, anew=anew)

    def copies(self, run_ids: Sequence[str] | None = None) -> dict[tuple[str, str], set[str]]:
        """Return the sealed data sets whose rows tasks contain, by run id and task. None: of all runs."""
        with self._database.reading() as connection:
            return copies_of(connection, run_ids)

    def recogniser(self) -> Recogniser | None:
        """Return the matcher of sealed rows, for texts that are not part of a run; None without seals."""
        with self._database.reading() as connection:
            return recogniser(connection)


def _row_of(seal: SealedTask) -> dict[str, object]:
    content = asdict(seal)
    row = {"dataset_hash": content.pop("dataset_hash"), "task": content.pop("task"), "content": pack_json(content)}
    return with_checksum(sealed_tasks, row)


TEXTS_AT_ONCE = 2000
REQUESTS_AT_ONCE = 5000


def learn(
    database: Database, dataset_hash: str, samples: Sequence[Sample], is_public: Callable[[str], bool], *, anew: bool
) -> bool:
    """Store digests of the rows of a sealed data set; return whether stored runs have to be searched for them.

    Args:
        samples: its rows, or some of them.
        is_public: whether a row belongs to the preview, by the hash of its sample.
        anew: replace earlier digests; otherwise both are kept.

    Raises: StoreError if the store cannot be written.
    """
    with database.reading() as connection:
        key = new_key(connection)
        known = stored_digests(connection).get(dataset_hash)
    rows = [(sample.row, question_of(sample.row)) for sample in samples]
    learnt = digest_rows(
        key if known is None else known.key, rows, [not is_public(sample.sha256) for sample in samples]
    )
    if known is not None and not anew:
        learnt |= known
    if known is not None and (learnt.texts, learnt.rows) == (known.texts, known.rows):
        return not known.is_searched
    with database.writing(durable=True, locked=True) as connection:
        write_digests(connection, dataset_hash, learnt)
    return True


def find_copies(database: Database) -> int:
    """Store which tasks of stored runs have rows of sealed data sets; return their number. Each text is read once.

    The completed search is stored with its outcome, so that an interrupted one is repeated.

    Raises: StoreError if the store cannot be read or written.
    """
    with database.reading() as connection:
        known = recogniser(connection)
        if known is None:
            return 0
        digests = stored_digests(connection)
        sources = _sources_of_texts(connection, known)
        copies = _copies(connection, sources) if sources else set()
    with database.writing(locked=True) as connection:
        here = set(connection.execute(select(run_tasks.c.id)).scalars())
        mark(connection, (copy for copy in copies if copy[0] in here))  # a run may have been removed meanwhile
        now = stored_digests(connection)
        for dataset_hash, own in digests.items():
            if not own.is_searched and now.get(dataset_hash) == own:  # else another process has learnt more meanwhile
                write_digests(connection, dataset_hash, replace(own, is_searched=True))
    return len(copies)


def _sources_of_texts(connection: Connection, known: Recogniser) -> dict[int, frozenset[str]]:
    """Return the sealed data sets of each text that has a row of one, by the text's row id."""
    sources: dict[int, frozenset[str]] = {}
    after = -1
    while True:
        some = select(texts.c.id, texts.c.content).where(texts.c.id > after).order_by(texts.c.id).limit(TEXTS_AT_ONCE)
        rows = connection.execute(some).all()
        for number, content in rows:
            try:
                text = unpack_text(content)
            except HashMismatch:
                continue  # `verify` reports it, and no page can show it
            if own := known.sources(text):
                sources[number] = own
        if len(rows) < TEXTS_AT_ONCE:
            return sources
        after = rows[-1].id


def _copies(connection: Connection, sources: dict[int, frozenset[str]]) -> set[tuple[int, str]]:
    columns = (requests.c.id, requests.c.run_task, requests.c.pieces, requests.c.form, requests.c.sample_row)
    copies: set[tuple[int, str]] = set()
    after = -1
    while True:
        some = select(*columns).where(requests.c.id > after).order_by(requests.c.id).limit(REQUESTS_AT_ONCE)
        rows = connection.execute(some).all()
        for row in rows:
            try:
                numbers = [*text_ids(row.pieces, row.form), row.sample_row]
            except HashMismatch:
                continue
            copies.update((row.run_task, own) for number in numbers for own in sources.get(number, ()))
        if len(rows) < REQUESTS_AT_ONCE:
            return copies
        after = rows[-1].id


def stored_samples(database: Database, dataset_hash: str) -> list[Sample]:
    """Return the rows of a data set that runs have stored: seals of earlier versions have no other record of them.

    Raises: StoreError if the store cannot be read.
    """
    samples: dict[str, Sample] = {}
    with database.reading() as connection:
        for run, plan in connection.execute(select(runs.c.id, runs.c.plan)).all():
            names = [task.name for task in plan_from_json(unpack_text(plan)).tasks if task.dataset_hash == dataset_hash]
            if not names:
                continue
            own = (
                select(requests.c.sample_index, requests.c.sample_sha256, requests.c.sample_row, run_tasks.c.name)
                .join(run_tasks, run_tasks.c.id == requests.c.run_task)
                .where(run_tasks.c.run == run, run_tasks.c.name.in_(names), requests.c.sample_row.isnot(None))
            )
            for some in chunks(connection.execute(own).all(), REQUESTS_AT_ONCE):
                new = [row for row in some if unpack_hash(row.sample_sha256) not in samples]
                loaded = load_texts(connection, {row.sample_row for row in new})
                for row in new:
                    sha256 = unpack_hash(row.sample_sha256)
                    content = json.loads(loaded[row.sample_row])
                    samples[sha256] = Sample(row.name, row.sample_index, content, sha256)
    return list(samples.values())


def is_in_preview(key: str, sample_sha256: str, fraction: float) -> bool:
    """Return whether a row belongs to the preview: a share of the rows, drawn by a keyed hash of each.

    The draw depends on the key and on the row alone: not on its position, the other rows, `--limit` or the machine. A
    larger share has all rows of a smaller one, and equal rows are on the same side.

    Args:
        key: hexadecimal; without it nobody can say which rows will be shown.
        sample_sha256: of the row, as `Sample.sha256`.
        fraction: of the rows, in [0, 1].
    """
    digest = hmac.new(bytes.fromhex(key), b"preview\0" + sample_sha256.encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big") < fraction * 2**64
