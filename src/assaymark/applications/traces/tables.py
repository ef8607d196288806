"""The tables of traces: projects and their tokens, spans as they were received, and a summary of each trace.

A span is kept as the bytes of its OTLP message, under the key that OpenTelemetry gives it, with columns of what lists
and trees need. Its resource and instrumentation scope are stored once. Rows of spans have a digest of their bytes; rows
of traces are computed from those of their spans, and change. Times are nanoseconds since 1970 as the sender's clock had
them, except those called `received` and `made`, which are seconds since 1970 by ours.
"""

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table
from sqlalchemy.types import BigInteger, Double, Integer, SmallInteger, String, Text

from assaymark.store.schema import Blob, metadata, parent_key, row_key

trace_projects = Table(
    "trace_projects", metadata, row_key(), Column("name", String(128), nullable=False, unique=True),
    Column("made", Double, nullable=False)
)  # fmt: skip

trace_tokens = Table(
    "trace_tokens",
    metadata,
    Column("id", String(16), primary_key=True),
    parent_key("project", "trace_projects.id"),
    Column("scope", String(16), nullable=False),  # all | write
    Column("digest", Blob(32), nullable=False, unique=True),  # SHA-256; the token itself is nowhere
    Column("made", Double, nullable=False),
)

span_sources = Table(
    "span_sources",
    metadata,
    Column("project", BigInteger, nullable=False),
    Column("digest", Blob(16), nullable=False),
    Column("body", Blob, nullable=False),  # an OTLP ResourceSpans without spans, packed
    PrimaryKeyConstraint("project", "digest"),
)

spans = Table(
    "spans",
    metadata,
    Column("project", BigInteger, nullable=False),
    Column("trace_id", Blob(16), nullable=False),
    Column("span_id", Blob(8), nullable=False),
    Column("parent_id", Blob(8)),
    Column("name", Text, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger),  # NULL: not yet
    Column("is_error", SmallInteger, nullable=False),
    Column("kind", String(16), nullable=False),  # of step
    Column("model", Text),
    Column("n_input", BigInteger),  # tokens, cached ones included
    Column("n_output", BigInteger),  # tokens, those of reasoning included
    Column("cost", Double),
    Column("user", Text),
    Column("session", Text),
    Column("service", Text),
    Column("version", Text),
    Column("response_id", Text),
    Column("search_key", BigInteger, nullable=False),  # increases with time; row of the full-text index
    Column("n_conflicts", Integer, nullable=False),  # other copies of it that were not kept
    Column("received", Double, nullable=False),
    Column("source", Blob(16), nullable=False),  # span_sources
    Column("digest", Blob(16), nullable=False),  # of the bytes that `body` unpacks to
    Column("body", Blob, nullable=False),  # an OTLP Span, packed
    PrimaryKeyConstraint("project", "trace_id", "span_id"),
)
Index("spans_by_search_key", spans.c.search_key)
Index("spans_by_response", spans.c.project, spans.c.response_id)

traces = Table(
    "traces",
    metadata,
    Column("project", BigInteger, nullable=False),
    Column("trace_id", Blob(16), nullable=False),
    Column("at", BigInteger, nullable=False),  # where lists have it: its start, or when it came if its clock is broken
    Column("started", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("name", Text, nullable=False),
    Column("n_spans", Integer, nullable=False),
    Column("n_errors", Integer, nullable=False),
    Column("n_orphans", Integer, nullable=False),  # spans whose parent has not come
    Column("models", Text, nullable=False),  # each after a line break, and one at the end
    Column("n_input", BigInteger),
    Column("n_output", BigInteger),
    Column("cost", Double),
    Column("n_unpriced", Integer),  # calls of a model whose cost is not known; NULL: none
    Column("user", Text),
    Column("session", Text),
    Column("service", Text),
    Column("version", Text),
    Column("n_bytes", BigInteger, nullable=False),  # stored of its spans
    Column("received", Double, nullable=False),  # when its last span came
    PrimaryKeyConstraint("project", "trace_id"),
)
Index("traces_by_time", traces.c.project, traces.c.at)
Index("traces_by_session", traces.c.project, traces.c.session)
Index("traces_by_arrival", traces.c.project, traces.c.received)

trace_scores = Table(
    "trace_scores",
    metadata,
    Column("project", BigInteger, nullable=False),
    Column("digest", Blob(16), nullable=False),  # of what was sent, so that the same is stored once
    Column("trace_id", Blob(16)),
    Column("span_id", Blob(8)),
    Column("response_id", Text),  # of the judged response, where no span is named
    Column("name", Text, nullable=False),
    Column("value", Double),
    Column("label", Text),
    Column("explanation", Text),
    Column("error", Text),  # why there is no score
    Column("observed", BigInteger, nullable=False),  # nanoseconds
    Column("received", Double, nullable=False),
    Column("source", String(16)),  # event | rule | feedback | queue; never NULL
    Column("rule", BigInteger),  # trace_rules, of a rule's score
    Column("rule_version", Blob(16)),  # of the scorer and the judge that gave it
    Column("rate", Double),  # at which its trace was chosen; NULL: not by a rule
    Column("stale", Double),  # when a span of its trace came after it; NULL: none did
    Column("session", Text),  # that is judged, where no trace is named
    Column("rater", String(64)),  # a keyed hash, or the name of a rater of a queue; NULL: unknown, or no person
    Column("correction", Text),  # what the answer should have been
    PrimaryKeyConstraint("project", "digest"),
)
Index("trace_scores_by_trace", trace_scores.c.project, trace_scores.c.trace_id)
Index("trace_scores_by_response", trace_scores.c.project, trace_scores.c.response_id)
Index("trace_scores_by_span", trace_scores.c.project, trace_scores.c.span_id)
Index("trace_scores_by_session", trace_scores.c.project, trace_scores.c.session)
Index("trace_scores_by_time", trace_scores.c.project, trace_scores.c.observed)
Index("trace_scores_by_name", trace_scores.c.project, trace_scores.c.name, trace_scores.c.observed)

TRACE_TABLES = (trace_projects, trace_tokens, span_sources, spans, traces, trace_scores)
