"""The pages of traces: the list, one trace with its tree and a step of it, and sessions."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from assaymark.applications.traces.listing import PERIODS, ListQuery
from assaymark.applications.traces.otlp import id_of, read_span
from assaymark.applications.traces.steps import Step, step_of
from assaymark.applications.traces.trace_log import ORDERS, TraceLog
from assaymark.applications.traces.trace_rows import (
    MOST_COUNTED,
    LightSpan,
    Token,
    TracePage,
    TraceRow,
    TraceScore,
    TraceSession,
    TreeNode,
    counted_spans,
    latest_correction,
    seconds_between,
    tree_of,
)
from assaymark.errors import UnknownName, UsageError, clipped_line
from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields
from assaymark.store import Store

AT_ONCE = 50  # traces on a page
STEPS_AT_ONCE = 500  # rows of a tree on a page
DEEPEST = 12  # of indentation
DEEPEST_JSON = 30  # levels that are indented
WIDTH = 1000.0  # of the waterfall, in its own units
LEAST_WIDTH = 3.0  # of a bar
LONGEST_LINE = 160  # characters of an input or output in a list
LONGEST_SHOWN = 200_000  # characters of one text on a page


@dataclass(frozen=True)
class TraceSignInPage:
    """The form for a token."""

    back: str
    token: str
    problem: str = ""
    project: str = ""  # that the visitor reads now

    json_keys = "project problem"


@dataclass(frozen=True, slots=True)
class ListedTrace:
    """A trace in a list: its row, the beginning of its input and output, and its scores by name."""

    row: TraceRow
    input: str
    output: str
    scores: Mapping[str, TraceScore]


@dataclass(frozen=True)
class TraceListPage:
    """The list of a project's traces. is_live: it is loaded again every other second."""

    project: str
    query: ListQuery
    page: TracePage
    traces: tuple[ListedTrace, ...]
    is_live: bool
    form_token: str = ""  # of the form that adds traces to a queue or a data set; "" where there is none
    queues: tuple[str, ...] = ()
    note: str = ""  # the message about the traces that were added

    periods = PERIODS
    most_counted = MOST_COUNTED

    def has(self, name: str) -> bool:
        """Return whether any trace has this fact, such as its model, so that it gets a column."""
        return any(getattr(trace.row, name) not in {None, "", ()} for trace in self.traces)

    @property
    def next(self) -> str:
        """The address of the page that follows; "" on the last one."""
        if not self.page.has_more:
            return ""
        if self.query.sort:
            return self.query.address(page=str(self.query.number + 1))
        last = self.page.traces[-1]
        return self.query.address(before=f"{last.at}-{last.trace_id.hex()}")

    def to_json(self) -> dict[str, object]:
        """Return the JSON twin."""
        return {
            "project": self.project,
            "traces": [
                {**json_fields(each.row), "input": each.input, "output": each.output,
                 "scores": {name: score.value for name, score in each.scores.items()}}
                for each in self.traces
            ],
            "n_matching": self.page.n_matching,
            "next": self.next.replace("/traces", "/traces.json", 1),
            "is_cut": self.page.is_cut,
        }  # fmt: skip


def list_page(store: Store, token: Token, query: ListQuery, *, is_live: bool) -> TraceListPage:
    """Return the list that an address asks for. Raises: UsageError."""
    if query.sort not in ORDERS:
        raise UsageError(
            f"sort is '{query.sort[:40]}'; expected {', '.join(filter(None, ORDERS))}, or nothing for time"
        )
    skip = AT_ONCE * (query.number - 1) if query.sort else 0
    log = TraceLog(store)
    page = log.traces(token.project, query.filter(), AT_ONCE, order=query.sort, skip=skip, counts=not is_live)
    ids = [trace.trace_id for trace in page.traces]
    roots, scores = log.roots(token.project, ids), log.scores_of_traces(token.project, ids)
    listed = []
    for trace in page.traces:
        root = roots.get(trace.trace_id)
        texts = ("", "") if root is None else _given_and_answered(step_of(read_span(root)))
        listed.append(ListedTrace(trace, *texts, scores.get(trace.trace_id, {})))
    return TraceListPage(token.project_name, query, page, tuple(listed), is_live)


def _given_and_answered(step: Step) -> tuple[str, str]:
    """Return the beginning of a step's input (of a chat, its last message) and of its output."""
    given, answered = step.input, step.output
    if step.input_messages:
        given = " ".join(part.text for part in step.input_messages[-1].parts)
    if step.output_messages:
        answered = " ".join(part.text for part in step.output_messages[-1].parts)
    return clipped_line(given, LONGEST_LINE), clipped_line(answered, LONGEST_LINE)


@dataclass(frozen=True)
class SessionsPage:
    """The sessions of a project, the latest first."""

    project: str
    sessions: tuple[TraceSession, ...]

    json_keys = "project sessions"

    def address(self, session: TraceSession) -> str:
        """Return the address of the session's traces."""
        return ListQuery(session=session.session).address()


@dataclass(frozen=True, slots=True)
class TreeStep:
    """A row of the tree. x, width: of its bar in the waterfall, in units of which the whole has 1000."""

    span_id: str
    name: str
    kind: str
    depth: int
    model: str | None
    n_tokens: int | None
    is_counted: bool
    seconds: float | None
    is_error: bool
    notes: tuple[str, ...]
    x: float
    width: float

    json_keys = "span_id name kind depth model tokens=n_tokens counted=is_counted seconds is_error notes"

    @property
    def indent(self) -> int:
        """How far it is indented."""
        return min(self.depth, DEEPEST)


@dataclass(frozen=True)
class StepPage:
    """A trace: its row, its tree, and one of its steps."""

    project: str
    trace: TraceRow
    tree: tuple[TreeStep, ...]  # the rows from `first` on
    first: int  # position of the first row that is on the page
    n_rows: int
    step: Step | None
    scores: tuple[TraceScore, ...]
    form_token: str = ""  # of the form that makes it a row; "" if there is none
    dataset: str = ""  # that was named last
    row_note: str = ""  # what became of the row

    json_keys = "project trace tree step scores"

    @property
    def correction(self) -> str:
        """The latest correction of the answer that somebody gave; "" without one."""
        root = self.tree[0].span_id if self.tree and not self.first else ""
        return latest_correction(self.scores, root) or ""

    def step_name(self, span_id: str) -> str:
        """Return the name of a step of the tree; of another one its id."""
        return next((row.name for row in self.tree if row.span_id == span_id and row.name), f"step {span_id}")

    @property
    def n_pages(self) -> int:
        """Pages of rows of the tree."""
        return -(-self.n_rows // STEPS_AT_ONCE)

    @property
    def number(self) -> int:
        """Which of them this is, from 1."""
        return self.first // STEPS_AT_ONCE + 1

    def at_page(self, number: int) -> str:
        """Return the address of a page of the tree."""
        return f"/trace/{self.id}?page={number}"

    @property
    def id(self) -> str:
        """The trace's id."""
        return self.trace.trace_id.hex()

    @property
    def attributes(self) -> list[tuple[str, str]]:
        """The attributes of the step as text, by name."""
        return [] if self.step is None else _texts(self.step.span.attributes)

    @property
    def resource(self) -> list[tuple[str, str]]:
        """The attributes of the step's resource as text, by name."""
        return [] if self.step is None else _texts(self.step.span.resource)

    @property
    def events(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The step's events with their attributes."""
        return [] if self.step is None else [(event.name, _texts(event.attributes)) for event in self.step.span.events]

    @property
    def session_address(self) -> str:
        """The address of the traces of its session."""
        return ListQuery(session=self.trace.session or "").address()


def trace_page(
    store: Store, token: Token, trace: str, span: str = "", number: int | None = None, *, is_whole: bool = False
) -> StepPage:
    """Return a trace with one of its steps: the named one, else the first that failed, else the first.

    Args:
        token: of the project.
        span: id of the step.
        number: of the page of the tree, from 1; None: that with the step.
        is_whole: whether the tree is whole.

    Raises: UnknownName for a trace or span that the project does not have.
    """
    trace_id = _id("trace", trace, 16)
    row = TraceLog(store).trace(token.project, trace_id)
    spans = TraceLog(store).light_spans(token.project, trace_id)
    nodes = tree_of(spans)
    if span:
        span_id = _id("span", span, 8)
        at = next((at for at, node in enumerate(nodes) if spans[node.at].span_id == span_id), None)
        if at is None:
            raise UnknownName("span", span[:40])
    else:
        begins = 0 if number is None else min(max(number - 1, 0) * STEPS_AT_ONCE, max(len(nodes) - 1, 0))
        at = next((at for at in range(begins, len(nodes)) if spans[nodes[at].at].is_error), begins)
        at = at if number is None or at < begins + STEPS_AT_ONCE else begins
    step = None
    if nodes:
        (chosen,) = TraceLog(store).spans(token.project, trace_id, bytes(spans[nodes[at].at].span_id))
        step = step_of(read_span(chosen))
    first = 0 if is_whole else at // STEPS_AT_ONCE * STEPS_AT_ONCE
    visible_nodes = nodes if is_whole else nodes[first : first + STEPS_AT_ONCE]
    scores = tuple(TraceLog(store).scores(token.project, trace_id))
    tree = _tree(spans, visible_nodes, set().union(*counted_spans(spans, nodes).values()), row)
    return StepPage(token.project_name, row, tuple(tree), first, len(nodes), step, scores)


def trace_of(store: Store, token: Token, trace: str) -> bytes:
    """Return the id of a trace of the project. Raises: UnknownName."""
    return TraceLog(store).trace(token.project, _id("trace", trace, 16)).trace_id


def _id(noun: str, text: str, size: int) -> bytes:
    if (identifier := id_of(text, size)) is None:
        raise UnknownName(noun, text[:40])
    return identifier


def _tree(
    spans: Sequence[LightSpan], nodes: Sequence[TreeNode], counted: Collection[int], trace: TraceRow
) -> list[TreeStep]:
    """Return rows of a trace's tree: those of some nodes."""
    ends = [span.ended for span in spans if span.ended is not None and span.ended >= trace.started]
    length = max((max(ends) if ends else trace.started) - trace.started, 1)
    rows = []
    for node in nodes:
        span = spans[node.at]
        known = [n for n in (span.n_input, span.n_output) if n is not None]
        seconds = seconds_between(span.started, span.ended)
        fault = "its clock runs backwards" if (span.ended or 0) < span.started else "its clock cannot be right"
        notes = [
            *(["its parent has not come"] if node.is_orphan else []),
            *(["its parent is below it"] if node.breaks_cycle else []),
            *(["runs"] if span.ended is None else [fault] if seconds is None else []),
            *([f"{span.n_conflicts} other copies"] if span.n_conflicts else []),
        ]
        start = min(max(span.started - trace.started, 0) / length, 1.0)
        share = 0.0 if seconds is None or span.ended is None else min((span.ended - span.started) / length, 1.0 - start)
        width = max(share * WIDTH, LEAST_WIDTH)
        rows.append(
            TreeStep(
                span_id=bytes(span.span_id).hex(),
                name=span.name,
                kind=span.kind,
                depth=node.depth,
                model=span.model,
                n_tokens=sum(known) if known else None,
                is_counted=node.at in counted,
                seconds=seconds,
                is_error=bool(span.is_error),
                notes=tuple(notes),
                x=round(min(start * WIDTH, WIDTH - width), 1),
                width=round(width, 1),
            )
        )
    return rows


def _texts(attributes: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    """Return attributes as text, by name, shortened for the page."""
    return [
        (name, (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:LONGEST_SHOWN])
        for name, value in sorted(attributes.items())
    ]


def indented(text: str) -> str:
    """Return the JSON of an object or a list with indentation; "" for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return ""
    try:
        value = parse_json(text, DEEPEST_JSON)
    except ValueError:
        return ""
    return json.dumps(value, ensure_ascii=False, indent=2) if isinstance(value, dict | list) else ""


def shown_seconds(seconds: float | None) -> str:
    """Return a duration as lists of steps show it."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.2f} s" if seconds < 100 else f"{seconds:,.0f} s"


def shown_cost(cost: float | None, n_unpriced: int = 0) -> str:
    """Return a cost in US dollars; a dash if unknown, and a lower bound if that of some calls is unknown."""
    text = "–" if cost is None else f"${cost:.4f}" if cost < 10 else f"${cost:,.2f}"
    return f"≥ {text}" if n_unpriced and cost is not None else text


def shown_instant(nanoseconds: int) -> str:
    """Return a time with its milliseconds, in UTC; one outside the calendar as a number."""
    try:
        moment = datetime.fromtimestamp(nanoseconds / 1e9, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{nanoseconds} ns"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{nanoseconds // 10**6 % 1000:03d}"
