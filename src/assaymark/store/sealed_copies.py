"""Learn what identifies the rows of a sealed data set, and find them in the runs that are stored already.

Requests that are stored later are compared as they are written (`request_rows`).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from assaymark.errors import HashMismatch
from assaymark.records import Sample
from assaymark.store.connection import Database
from assaymark.store.packing import unpack_hash, unpack_text
from assaymark.store.request_rows import text_ids
from assaymark.store.request_texts import chunks, load_texts
from assaymark.store.runs import plan_from_json
from assaymark.store.sample_facts import question_of
from assaymark.store.schema import requests, run_tasks, runs, texts
from assaymark.store.sealed_rows import (
    Recogniser,
    digest_rows,
    mark,
    new_key,
    recogniser,
    stored_digests,
    write_digests,
)

TEXTS_AT_ONCE = 2000
REQUESTS_AT_ONCE = 5000


def learn(
    database: Database, dataset_hash: str, samples: Sequence[Sample], is_public: Callable[[str], bool], *, anew: bool
) -> bool:
    """Store what identifies the rows of a sealed data set; return whether stored runs are to be searched for them.

    Args:
        database: of the store.
        dataset_hash: of the sealed data set.
        samples: its rows, or some of them.
        is_public: whether a row belongs to the preview, by the hash of its sample.
        anew: forget what was learnt before; else both are kept.

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
    with database.writing(durable=True) as connection:
        database.lock_structure(connection)
        write_digests(connection, dataset_hash, learnt)
    return True


def find_copies(database: Database) -> int:
    """Store which tasks of stored runs have rows of sealed data sets; return their number. Each text is read once.

    That the runs were searched is stored with the outcome, so that an interrupted search is made again.

    Raises: StoreError if the store cannot be read or written.
    """
    with database.reading() as connection:
        known = recogniser(connection)
        if known is None:
            return 0
        digests = stored_digests(connection)
        sources = _sources_of_texts(connection, known)
        copies = _copies(connection, sources) if sources else set()
    with database.writing() as connection:
        database.lock_structure(connection)
        here = set(connection.execute(select(run_tasks.c.id)).scalars())
        mark(connection, (copy for copy in copies if copy[0] in here))  # a run may have been removed meanwhile
        now = stored_digests(connection)
        for dataset_hash, own in digests.items():
            if not own.is_searched and now.get(dataset_hash) == own:  # else another has learnt more meanwhile
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
    """Return the rows of a data set that runs have stored: of a seal of an earlier version nothing else is known.

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
