"""The results of an evaluation. The process that wrote them has read the submission, so they are not trusted.

The worker copies the file without following a link; then a process without the model checks the copy: its tables are
those of a new store, its texts unpack to a bounded size, and its runs are those of the job, with every question
answered and every score in the range of its metric.
"""

import math
import os
import sqlite3
import stat
import sys
import zlib
from contextlib import closing
from pathlib import Path

from assaymark.drafts import draft_folder
from assaymark.errors import DataError
from assaymark.platforms import not_here
from assaymark.records import RunPlan
from assaymark.scoring.metrics import find_metric
from assaymark.store import Store

if sys.platform == "win32":
    raise not_here("evaluating submissions")

STORE = "run.sqlite"
PIECE = 1 << 20
LARGEST_TEXT = 32 << 20  # bytes of one text, unpacked
MOST_UNPACKED = 16 << 30  # of all texts that are packed
SMALL = 1 << 10  # bytes of a packed text that zlib cannot expand to a large one
LARGEST_FACTS = 1 << 20  # bytes of what is stored of a run beside its samples
LARGEST_SCORE = 1e9  # of metrics whose score is any number, log-likelihoods in nats among them


class _NoResults(DataError):
    """A file that cannot be the evaluation's results."""


def take_results(folder: Path, target: Path, most_bytes: int) -> None:
    """Copy the store that an evaluation wrote in its folder.

    Raises: DataError if it is not a regular file, or larger than `most_bytes`.
    """
    with closing(_Opened(folder / STORE)) as source, target.open("xb") as copy:
        n_left = most_bytes
        while piece := os.read(source.number, PIECE):
            n_left -= len(piece)
            if n_left < 0:
                raise _NoResults(f"the results are larger than {most_bytes:,} bytes; expected at most that")
            copy.write(piece)


class _Opened:
    """A regular file, opened without following a link and without waiting for a pipe's other end."""

    def __init__(self, path: Path) -> None:
        try:
            self.number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _NoResults(f"the evaluation left no results that can be opened ({error.strerror})") from None
        if not stat.S_ISREG(os.fstat(self.number).st_mode):
            self.close()
            raise _NoResults("the evaluation's results are no regular file")

    def close(self) -> None:
        os.close(self.number)


def keep_store(before: Path, after: Path) -> None:
    """Move the store of an earlier attempt to the next one's folder; only regular files, which are not opened here."""
    for name in (STORE, f"{STORE}-wal"):
        try:
            if stat.S_ISREG((before / name).lstat().st_mode):
                (before / name).rename(after / name)
        except OSError:
            continue


def check_content(path: Path) -> None:
    """Check the structure of a store before it is opened as one.

    Raises: DataError if it is damaged, has other tables, views or triggers than a new store, or unpacks to more than is
        allowed.
    """
    with draft_folder() as folder:
        Store.open(str(folder / STORE)).close()
        expected = _schema(folder / STORE)
    try:
        if _schema(path) != expected:
            raise _NoResults("the results have other tables than a store of this version; evaluate again")
        _check_texts(path)
    except (sqlite3.Error, zlib.error, UnicodeDecodeError) as error:
        raise _NoResults(f"the results cannot be read: {error}") from error


def _connected(path: Path) -> "closing[sqlite3.Connection]":
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    return closing(connection)


def _schema(path: Path) -> set[tuple[str, str, str, str | None]]:
    with _connected(path) as connection:
        rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT 1000").fetchall()
    return {row for row in rows if row[1] not in {"sqlite_stat1", "sqlite_stat4"}}


def _check_texts(path: Path) -> None:
    """Raise DataError if texts unpack to too many bytes; a small file can hold terabytes."""
    n_unpacked = 0
    with _connected(path) as connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")') if row[2] == "BLOB"]
            for column in columns:
                query = f'SELECT "{column}" FROM "{table}" WHERE length("{column}") > {SMALL}'  # noqa: S608 - checked names
                for (value,) in connection.execute(query):
                    if isinstance(value, bytes) and value[:1] == b"\x01":
                        n_unpacked += _n_unpacked(value[1:])
                        if n_unpacked > MOST_UNPACKED:
                            raise _NoResults(f"the results' texts unpack to more than {MOST_UNPACKED:,} bytes")


def _n_unpacked(packed: bytes) -> int:
    stream = zlib.decompressobj()
    n_bytes = 0
    while packed and not stream.eof:
        n_bytes += len(stream.decompress(packed, PIECE))
        packed = stream.unconsumed_tail
        if n_bytes > LARGEST_TEXT:
            raise _NoResults(f"a text of the results unpacks to more than {LARGEST_TEXT:,} bytes")
    return n_bytes


def check_run(source: Store, plan: RunPlan, *, may_stop: bool = False) -> tuple[str, bool]:
    """Return the id of the run of exactly this plan, and whether it is complete.

    may_stop: whether the run may be incomplete because a rule stopped it; the rule itself is not checked here.

    Raises: DataError if there is none, if a sample of it is missing, or if a score is outside its metric's range.
    """
    rows = [row for row in source.runs() if row.plan.key == plan.key]
    identity = (plan.model.name, plan.model.n_parameters)  # of the model, these alone are no part of the key
    if not rows or (rows[0].plan.model.name, rows[0].plan.model.n_parameters) != identity:
        raise _NoResults("the results have no run of the job's model, tasks and settings")
    row = rows[0]
    is_complete = row.status == "finished"
    if not is_complete and not (may_stop and row.status == "incomplete"):
        raise _NoResults(f"the run is {row.status}; expected finished")
    n_bytes = len(repr((row.summary, row.command, [attempt.facts for attempt in source.attempts(row.run_id)])))
    if n_bytes > LARGEST_FACTS:
        raise _NoResults(f"the facts of the run have {n_bytes:,} characters; expected at most {LARGEST_FACTS:,}")
    for task in plan.tasks:
        indices = set()
        for record in source.samples(row.run_id, task.name):
            indices.add(record.request.sample_index)
            for score in record.scores:
                _check_score(task.name, score.metric, score.value)
        if len(indices) > task.n_samples or (is_complete and len(indices) != task.n_samples):
            raise _NoResults(f"{task.name} has {len(indices):,} samples; expected {task.n_samples:,}")
    return row.run_id, is_complete


def _check_score(task: str, metric: str, value: float | None) -> None:
    if value is None:
        return
    row = find_metric(metric)
    low, high = (0.0, 1.0) if row is not None and row.is_share else (-LARGEST_SCORE, LARGEST_SCORE)
    if not math.isfinite(value) or not low <= value <= high:
        raise _NoResults(f"{task} has a score {value:g} of {metric}; expected a number from {low:g} to {high:g}")
