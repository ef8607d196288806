"""Feedback in the store: people's scores, each stored once under its id."""

import time
from collections.abc import Sequence

from sqlalchemy import delete, select

from assaymark.applications.live.score_rows import score_row
from assaymark.applications.traces.tables import trace_projects, trace_scores, trace_tokens
from assaymark.applications.traces.trace_rows import Token, TraceScore
from assaymark.store.feature_tables import FeatureLog
from assaymark.store.request_texts import chunks
from assaymark.store.schema import insert_rows, upsert

WAIT_SECONDS = 2.0  # of waiting for another writer, while a sender waits
HINT_BYTES = 8  # of a token's digest, by which a link names the token that has signed it


class FeedbackLog(FeatureLog):
    """Feedback, and the keys that sign its forms. May be used by several threads and processes."""

    def put(self, project: int, scores: Sequence[TraceScore], replaced: Sequence[bytes]) -> int:
        """Store feedback, on the disk when this returns; return how many of its ids are new.

        Args:
            project: whose token was shown.
            replaced: digests to remove first: all that earlier feedback with the same ids may have left.

        Raises: StoreBusy, StoreError.
        """
        received = time.time()
        rows = {score.digest: score_row(project, score, received) for score in scores}
        with self._database.writing(durable=True, wait_seconds=WAIT_SECONDS) as connection:
            known: set[bytes] = set()
            for some in chunks(sorted({*replaced, *rows})):
                here = trace_scores.c.project == project, trace_scores.c.digest.in_(some)
                stored = connection.execute(select(trace_scores.c.digest).where(*here)).scalars()
                known |= {bytes(digest) for digest in stored}
                connection.execute(delete(trace_scores).where(*here))
            if rows:
                # the same id may be sent twice at once: the later one replaces, in one order for all
                insert_rows(
                    connection, upsert(connection.dialect.name, trace_scores), [rows[key] for key in sorted(rows)]
                )
        return len(set(rows) - known)

    def signing_token(self, project: int) -> bytes | None:
        """Return the digest of a project's first token, with which links can be signed; None without any."""
        statement = (
            select(trace_tokens.c.digest)
            .where(trace_tokens.c.project == project)
            .order_by(trace_tokens.c.made, trace_tokens.c.id)
            .limit(1)
        )
        with self._database.reading() as connection:
            digest = connection.execute(statement).scalar()
        return None if digest is None else bytes(digest)

    def tokens_of_hint(self, hint: bytes) -> list[tuple[Token, bytes]]:
        """Return the tokens whose digest begins with these bytes, with their digests."""
        if len(hint) != HINT_BYTES:
            return []
        rest = 32 - HINT_BYTES
        statement = (
            select(
                *(trace_tokens.c.id, trace_tokens.c.project, trace_projects.c.name, trace_tokens.c.scope),
                trace_tokens.c.digest,
            )
            .select_from(trace_tokens.join(trace_projects, trace_projects.c.id == trace_tokens.c.project))
            .where(trace_tokens.c.digest >= hint + bytes(rest), trace_tokens.c.digest <= hint + b"\xff" * rest)
        )
        return [(Token(*row[:4]), bytes(row[4])) for row in self._rows(statement)]
