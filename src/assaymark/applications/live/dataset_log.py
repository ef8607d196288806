"""Data sets in the store made from traces. A row stays when its trace is removed; equal inputs are stored once."""

import time
from typing import NamedTuple

from sqlalchemy import func, insert, select

from assaymark.applications.live.tables import LIVE_TABLES, trace_dataset_rows
from assaymark.applications.traces.span_adding import message_digest, stored_name
from assaymark.errors import HashMismatch
from assaymark.records import JsonValue, canonical_json
from assaymark.store.feature_tables import FeatureLog, FeatureTables
from assaymark.store.packing import pack_json, shown_text, unpack_json


def inputs_digest(inputs: JsonValue) -> bytes:
    """Return a hash of a row's inputs, 16 bytes, which is unique in a data set."""
    return message_digest(canonical_json(inputs))


class StoredRow(NamedTuple):
    """A row of a data set. content: as `read_rows` reads it."""

    trace_id: bytes
    content: JsonValue
    added: float


class DatasetLog(FeatureLog):
    """Data sets of a project. May be used by several threads and processes."""

    def add(self, project: int, dataset: str, trace_id: bytes, content: dict[str, JsonValue]) -> bytes | None:
        """Add a row; return None, or the trace of an existing row with the same inputs, which is not changed.

        trace_id: of the trace that is the row. content: the row, with `inputs`.

        Raises: UsageError for an invalid name.
        """
        name = stored_name(dataset, "the data set's")
        key = {"project": project, "dataset": name, "digest": inputs_digest(content.get("inputs"))}
        with self._database.writing(durable=True, locked=True) as connection:
            here = [trace_dataset_rows.c[column] == value for column, value in key.items()]
            known = connection.execute(select(trace_dataset_rows.c.trace_id).where(*here)).scalar()
            if known is not None:
                return bytes(known)
            row = {**key, "trace_id": trace_id, "content": pack_json(content), "added": time.time()}
            connection.execute(insert(trace_dataset_rows), row)
            return None

    def rows(self, project: int, dataset: str) -> list[StoredRow]:
        """Return the rows of a data set in the order in which they were added; none for an unknown one."""
        statement = (
            select(trace_dataset_rows.c.trace_id, trace_dataset_rows.c.content, trace_dataset_rows.c.added)
            .where(trace_dataset_rows.c.project == project, trace_dataset_rows.c.dataset == shown_text(dataset))
            .order_by(trace_dataset_rows.c.added, trace_dataset_rows.c.digest)
        )
        return [StoredRow(bytes(row[0]), unpack_json(bytes(row[1])), row[2]) for row in self._rows(statement)]

    def problems(self) -> list[str]:
        """Return a line for each row whose inputs are not those that were stored."""
        statement = select(trace_dataset_rows.c.dataset, trace_dataset_rows.c.digest, trace_dataset_rows.c.content)
        rows = [(row[0], bytes(row[1]), bytes(row[2])) for row in self._rows(statement)]
        lines: list[str] = []
        for dataset, digest, packed in rows:
            try:
                content = unpack_json(packed)
                is_sound = isinstance(content, dict) and inputs_digest(content.get("inputs")) == digest
            except HashMismatch:
                is_sound = False
            if not is_sound:
                lines.append(f"a row of the data set '{dataset}' has not the inputs that were stored")
        return lines

    def sizes(self, project: int) -> dict[str, int]:
        """Return the number of rows of each data set of a project, by name."""
        statement = (
            select(trace_dataset_rows.c.dataset, func.count())
            .where(trace_dataset_rows.c.project == project)
            .group_by(trace_dataset_rows.c.dataset)
            .order_by(trace_dataset_rows.c.dataset)
        )
        return {row[0]: int(row[1]) for row in self._rows(statement)}


TABLES = FeatureTables(LIVE_TABLES, "trace_dataset_rows", lambda store: DatasetLog(store).problems())
"""Of what is done with traces: rules, queues of annotation, data sets."""
