"""Which tasks of the store are sealed: their rows are shown to nobody but the store's owner.

A seal belongs to the content of a data set, so that it covers every run of it, earlier ones and those of other task
files too; runs of other rows under the same task's name are covered as well (`outward`), so that a corrected typo does
not open a benchmark.
"""

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from sqlalchemy import Column, String, Table, Text, insert, select

from assaymark.records import Sample
from assaymark.records.previews import is_in_preview
from assaymark.store.connection import Database
from assaymark.store.packing import pack_json, unpack_json
from assaymark.store.schema import Blob, checksum_column, metadata, upsert, with_checksum
from assaymark.store.sealed_copies import find_copies, learn, stored_samples
from assaymark.store.sealed_rows import Recogniser, copies_of, drop_rows, recogniser, stored_digests

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
    """One sealed data set. The key stays in the store: it draws the preview and stands for withheld texts."""

    task: str
    dataset_hash: str
    key: str = field(default_factory=lambda: secrets.token_hex(KEY_BYTES), repr=False)
    public_fraction: float = 0.0  # of the rows, drawn by the key: a preview, which is shown
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
        """Store a seal; one of the same data set is replaced. The rows of a revealed one are recognised no more.

        Raises: StoreError if the store cannot be written.
        """
        with self._database.writing(durable=True) as connection:
            self._database.lock_structure(connection)
            connection.execute(upsert(connection.dialect.name, sealed_tasks), _row_of(seal))
            if not seal.is_closed:
                drop_rows(connection, seal.dataset_hash)

    def put_missing(self, seal: SealedTask) -> None:
        """Store a seal unless the data set has one: that one stays, whatever it says.

        Raises: StoreError if the store cannot be written.
        """
        if self.of_dataset(seal.dataset_hash) is not None:
            return
        with self._database.writing(durable=True) as connection:
            self._database.lock_structure(connection)
            here = select(sealed_tasks.c.task).where(sealed_tasks.c.dataset_hash == seal.dataset_hash)
            if connection.execute(here).one_or_none() is None:
                connection.execute(insert(sealed_tasks), _row_of(seal))

    # ------------------------------------------------------------------- its rows in other runs

    def learn_rows(self, dataset_hash: str, samples: Sequence[Sample], *, all_rows: bool = False) -> None:
        """Store what identifies the rows of a sealed data set, and find them in the runs that are stored already.

        Args:
            dataset_hash: of a sealed data set; of one that has no seal, or was revealed, nothing is stored.
            samples: its rows.
            all_rows: `samples` are all of them, so what was learnt before is replaced, and all runs are searched again.

        Raises: StoreError if the store cannot be written.
        """
        seal = self.of_dataset(dataset_hash)
        if seal is not None and seal.is_closed and (self._learn(seal, samples, anew=all_rows) or all_rows):
            find_copies(self._database)

    def learn_missing(self) -> None:
        """Learn the rows of sealed data sets, of which nothing is known, from the runs that have stored them.

        Those are seals of earlier versions, and seals that came with an imported run. A search of stored runs that was
        interrupted is made again.

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
        """Return the sealed data sets of which tasks of runs have rows, by run id and task. None: of all runs."""
        with self._database.reading() as connection:
            return copies_of(connection, run_ids)

    def recogniser(self) -> Recogniser | None:
        """Return the matcher of sealed rows in texts that leave by other ways than a run; None without seals."""
        with self._database.reading() as connection:
            return recogniser(connection)


def _row_of(seal: SealedTask) -> dict[str, object]:
    content = asdict(seal)
    row = {"dataset_hash": content.pop("dataset_hash"), "task": content.pop("task"), "content": pack_json(content)}
    return with_checksum(sealed_tasks, row)
