"""Records of traces, and the summary of a trace: a pure function of its spans, whatever order they came in."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_COUNTED = 10_000  # traces that a list counts
MOST_MODELS = 20  # listed of one trace
DAY_NS = 86_400 * 10**9
LONGEST_NS = 3650 * DAY_NS  # of a trace, and since it began


class Project(NamedTuple):
    """A project. made: seconds since 1970."""

    id: int
    name: str
    made: float
    n_traces: int
    n_spans: int
    n_bytes: int


class Token(NamedTuple):
    """A token and what it allows. scope: all | write."""

    id: str
    project: int
    project_name: str
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFacts:
    """The facts of a span's step. Cached tokens are included in the input, reasoning tokens in the output."""

    kind: str
    model: str | None
    n_input: int | None
    n_output: int | None
    cost: float | None
    user: str | None
    session: str | None
    service: str | None
    version: str | None
    response_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FullSpan(SpanFacts):
    """A span with its messages. source, body: serialised OTLP."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    started: int
    ended: int | None
    is_error: bool
    source: bytes
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSpan(FullSpan):
    """A span to store. text: what the full-text index has of it."""

    text: str


@dataclass(frozen=True, slots=True)
class AddedSpans:
    """Counts of spans by outcome: stored now, stored before with the same bytes, or a different copy of a stored one.

    refused: positions in the batch of those that were not stored, since their trace has too many.
    """

    n_new: int
    n_same: int
    n_conflicts: int
    refused: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRow(FullSpan):
    """A stored span."""

    n_conflicts: int
    received: float


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A trace. at: where lists have it. Times in nanoseconds since 1970; received: seconds, by our clock.

    n_unpriced: calls of a model whose cost is not known, so that the trace's is a lower bound.
    """

    trace_id: bytes
    at: int
    started: int
    ended: int | None
    name: str
    n_spans: int
    n_errors: int
    n_orphans: int
    models: tuple[str, ...]
    n_input: int | None
    n_output: int | None
    cost: float | None
    n_unpriced: int
    user: str | None
    session: str | None
    service: str | None
    version: str | None
    received: float

    json_keys = (
        "trace_id name time_ns=at seconds clock_fault=has_clock_fault spans=n_spans errors=n_errors orphans=n_orphans "
        "models input_tokens=n_input output_tokens=n_output cost unpriced_calls=n_unpriced user session service "
        "version"
    )

    @property
    def seconds(self) -> float | None:
        """How long it took by its own clock; None while it runs or where that clock cannot be right."""
        return seconds_between(self.started, self.ended)

    @property
    def has_clock_fault(self) -> bool:
        """Whether it ended before it began, took longer than ten years, or a step states no start."""
        return self.ended is not None and self.seconds is None


def seconds_between(started: int, ended: int | None) -> float | None:
    """Return a duration of two times in nanoseconds; None without an end, or where a clock cannot be right.

    That is so without a start, where the end comes first, and for more than ten years.
    """
    is_possible = ended is not None and 0 < started <= ended <= started + LONGEST_NS
    return (ended - started) / 1e9 if is_possible and ended is not None else None


class ScoreCondition(NamedTuple):
    """A condition on a score of a trace. sign: >=, <=, >, < or =."""

    name: str
    sign: str
    number: float


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """Which traces a list has. Times in nanoseconds, durations in seconds; before: of the page that follows."""

    since: int | None = None
    until: int | None = None
    version: str | None = None
    service: str | None = None
    model: str | None = None
    user: str | None = None
    session: str | None = None
    has_error: bool | None = None
    least_seconds: float | None = None
    least_cost: float | None = None
    score: ScoreCondition | None = None
    text: str | None = None
    before: tuple[int, bytes] | None = None  # `at` and trace id of the last trace of the page before


@dataclass(frozen=True, slots=True)
class TracePage:
    """A page of a list of traces. is_cut: a search looked at the latest matching spans only.

    n_matching: traces on all pages, at most `MOST_COUNTED`; None where they were not counted.
    """

    traces: tuple[TraceRow, ...]
    has_more: bool
    is_cut: bool = False
    n_matching: int | None = None


@dataclass(frozen=True, slots=True)
class TraceSession:
    """The traces of one session together."""

    session: str
    n_traces: int
    first: int
    last: int
    n_errors: int
    n_input: int | None
    n_output: int | None
    cost: float | None
    n_unpriced: int
    user: str | None  # the first by name
    n_users: int

    json_keys = (
        "session user users=n_users traces=n_traces first_ns=first last_ns=last errors=n_errors input_tokens=n_input "
        "output_tokens=n_output cost unpriced_calls=n_unpriced"
    )


@dataclass(frozen=True, slots=True)
class TraceScore:
    """A score of a trace, a span, the response with an id, or a session. observed: nanoseconds since 1970.

    rate: at which a rule drew its trace; stale: when a span of the trace came after it, seconds since 1970.
    """

    digest: bytes
    trace_id: bytes | None = None
    span_id: bytes | None = None
    response_id: str | None = None
    name: str = ""
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    error: str | None = None
    observed: int = 0
    source: str = "event"  # event | rule | feedback | queue
    session: str | None = None
    rater: str | None = None
    correction: str | None = None
    rule: int | None = None
    rule_version: bytes | None = None
    rate: float | None = None
    stale: float | None = None

    json_keys = "span_id response_id name value label explanation error source rate is_stale rater correction"

    @property
    def is_stale(self) -> bool:
        """Whether a span of the trace came after it."""
        return self.stale is not None


def latest_correction(scores: Sequence[TraceScore], root: str) -> str | None:
    """Return the latest correction of a trace's answer; those of other steps, and of a session, are of other answers.

    Args:
        scores: of the trace, in the order of their times.
        root: the id of its first step.
    """
    for score in reversed(scores):
        is_of_session = (score.trace_id, score.span_id, score.response_id) == (None,) * 3
        if score.correction and not is_of_session and (score.span_id is None or score.span_id.hex() == root):
            return score.correction
    return None


class LightSpan(NamedTuple):
    """A stored span without its messages."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    started: int
    ended: int | None
    is_error: int
    kind: str
    model: str | None
    n_input: int | None
    n_output: int | None
    cost: float | None
    user: str | None
    session: str | None
    service: str | None
    version: str | None
    response_id: str | None
    n_bytes: int
    n_conflicts: int  # copies with other content


class TreeNode(NamedTuple):
    """A span's place in the tree: its position in the list of spans, and its depth."""

    at: int
    depth: int
    is_orphan: bool  # it names a parent that has not come
    breaks_cycle: bool  # its parent is among its descendants, so it is shown at the top


def tree_of(spans: Sequence[LightSpan | SpanRow]) -> list[TreeNode]:
    """Return the spans of a trace in the order of its tree, children by start; each span is there exactly once."""
    position = {span.span_id: index for index, span in enumerate(spans)}
    children: dict[int, list[int]] = {}
    roots: list[tuple[int, bool]] = []
    for index, span in enumerate(spans):
        parent = None if span.parent_id is None else position.get(span.parent_id)
        if parent is None:
            roots.append((index, span.parent_id is not None))
        else:
            children.setdefault(parent, []).append(index)
    order = sorted(roots, key=lambda root: (spans[root[0]].started, spans[root[0]].span_id))
    nodes: list[TreeNode] = []
    seen: set[int] = set()

    def walk(start: int, *, is_orphan: bool, breaks_cycle: bool) -> None:
        waiting = [(start, 0)]
        while waiting:
            index, depth = waiting.pop()
            if index in seen:
                continue
            seen.add(index)
            nodes.append(TreeNode(index, depth, is_orphan and depth == 0, breaks_cycle and depth == 0))
            below = sorted(children.get(index, ()), key=lambda child: (spans[child].started, spans[child].span_id))
            waiting += [(child, depth + 1) for child in reversed(below)]

    for index, is_orphan in order:
        walk(index, is_orphan=is_orphan, breaks_cycle=False)
    if len(seen) < len(spans):  # what is left hangs on circles of parents
        left = sorted(set(range(len(spans))) - seen, key=lambda index: (spans[index].started, spans[index].span_id))
        for index in left:
            if index not in seen:
                walk(_on_circle(index, spans, position), is_orphan=False, breaks_cycle=True)
    return nodes


def _on_circle(index: int, spans: Sequence[LightSpan | SpanRow], position: Mapping[bytes, int]) -> int:
    """Return the span of the circle above a span that begins first."""
    passed: dict[int, None] = {}
    while index not in passed:
        passed[index] = None
        index = position[spans[index].parent_id or b""]  # each span of a circle has a parent
    circle = list(passed)[list(passed).index(index) :]
    return min(circle, key=lambda each: (spans[each].started, spans[each].span_id))


_QUANTITIES = ("n_input", "n_output", "cost")
_MODEL_KINDS = frozenset({"llm", "embedding", "reranker"})
_APART = frozenset({"tool", "agent"})  # a call of a model below one of these is another call than the one above it


@dataclass(slots=True)
class _Below:
    """Totals below a span, by quantity: of all descendants, and without those below a tool or an agent."""

    everything: Counter[str] = field(default_factory=Counter)
    near: Counter[str] = field(default_factory=Counter)
    has_llm: bool = False


def counted_spans(spans: Sequence[LightSpan], nodes: Sequence[TreeNode]) -> dict[str, set[int]]:
    """Return the positions of the spans that count, by quantity: tokens read and generated, cost.

    Each call of a model counts, whatever is nested in what. A span that sums what is below it does not: one of an agent
    or chain above a call of a language model, and a call whose usage equals that of the calls below it (two packages
    recorded one call, or one that has several steps). Where such a span alone reports a quantity, it counts for it.
    """
    counted: dict[str, set[int]] = {name: set() for name in _QUANTITIES}
    parents = _parents(nodes)
    below = [_Below() for _ in nodes]
    responses: set[tuple[str, str]] = set()  # their ids, and the quantities that were found of them
    for position in reversed(range(len(nodes))):  # children before their parents
        at, found = nodes[position].at, below[position]
        span = spans[at]
        own = {name: value for name in _QUANTITIES if (value := getattr(span, name)) is not None}
        is_model = span.kind in _MODEL_KINDS
        if is_model:
            is_sum = _are_equal(own, found.near) or _are_equal(own, found.everything)
        else:
            is_sum = found.has_llm or _are_equal(own, found.everything)
        if is_model and span.response_id is not None:  # another package may have recorded the same call
            known = {(span.response_id, name) for name in own}
            is_sum = is_sum or not known.isdisjoint(responses)
            own = {name: value for name, value in own.items() if (span.response_id, name) not in responses}
            responses |= known
        if is_sum:
            own = {name: value for name, value in own.items() if name not in found.everything}
        for name in own:
            counted[name].add(at)
        if (parent := parents[position]) is not None:
            of_parent = below[parent]
            for sums, shown in ((of_parent.everything, found.everything), (of_parent.near, found.near)):
                if sums is of_parent.everything or span.kind not in _APART:
                    sums.update(shown)
                    sums.update(own)
            of_parent.has_llm |= found.has_llm or (span.kind == "llm" and bool(own))
    return counted


def _parents(nodes: Sequence[TreeNode]) -> list[int | None]:
    """Return the position of the node above each, in the order of the tree; None at the top."""
    path: list[int] = []
    parents: list[int | None] = []
    for position, node in enumerate(nodes):
        del path[node.depth :]
        parents.append(path[-1] if path else None)
        path.append(position)
    return parents


def _are_equal(own: Mapping[str, float], sums: Mapping[str, float]) -> bool:
    known = own.keys() & sums.keys()
    if (
        "n_input" in own
        and "n_output" not in own
        and own["n_input"] == sums.get("n_input", 0) + sums.get("n_output", 0)
    ):
        return True  # a total that is not divided
    return bool(known) and all(math.isclose(own[name], sums[name], rel_tol=1e-6) for name in known)


def n_unpriced(spans: Sequence[LightSpan], nodes: Sequence[TreeNode], costs: Collection[int]) -> int:
    """Return the number of calls of a model whose cost is not known, by themselves or in a sum above them.

    A call that two packages recorded, one within the other or with one response id, is one; a failed call without
    tokens is none. A call with a cost covers what is recorded within it, but for calls below a tool or an agent.

    costs: positions of the spans whose cost counts.
    """
    parents = _parents(nodes)
    holds_call = [False] * len(nodes)  # below it, without what is below a tool or an agent
    for position in reversed(range(len(nodes))):  # children before their parents
        kind, parent = spans[nodes[position].at].kind, parents[position]
        if parent is not None and kind not in _APART:
            holds_call[parent] |= holds_call[position] or kind in _MODEL_KINDS
    priced = {span.response_id for span in spans if span.cost is not None}
    found, of_responses = 0, set[str]()
    covers = list[str]()  # what covers the calls below each span: "" nothing, "call", "sum"
    for position, node in enumerate(nodes):
        span, parent = spans[node.at], parents[position]
        above = "" if parent is None else covers[parent]
        is_call = span.kind in _MODEL_KINDS
        own = "" if span.cost is None else "call" if is_call else "sum" if node.at in costs else ""
        inherited = "" if above == "call" and span.kind in _APART else above
        covers.append("sum" if "sum" in (own, inherited) else own or inherited)
        is_nothing = span.is_error and span.n_input is None and span.n_output is None
        if not is_call or span.cost is not None or above or holds_call[position] or is_nothing:
            continue
        if span.response_id is not None:
            if span.response_id in priced or span.response_id in of_responses:
                continue
            of_responses.add(span.response_id)
        found += 1
    return found


def summary_of(spans: Sequence[LightSpan], received: float) -> dict[str, object]:
    """Return the columns of a trace that follow from its spans.

    spans: at least one. received: when its last span came, in seconds.
    """
    nodes = tree_of(spans)
    counted = counted_spans(spans, nodes)
    first = spans[next((node.at for node in nodes if not node.is_orphan), nodes[0].at)]
    started = min(span.started for span in spans)
    ends = [span.ended for span in spans if span.ended is not None]
    now = int(received * 1e9)
    names = list(dict.fromkeys(model for model in (span.model for span in spans) if model))[:MOST_MODELS]
    return {
        "at": started if now - LONGEST_NS < started < now + DAY_NS else now,
        "started": started,
        "ended": max(ends) if len(ends) == len(spans) else None,
        "name": first.name,
        "n_spans": len(spans),
        "n_errors": sum(bool(span.is_error) for span in spans),
        "n_orphans": sum(node.is_orphan for node in nodes),
        "models": "".join(f"\n{name}" for name in names) + "\n" if names else "",
        "n_input": _total(spans[at].n_input for at in sorted(counted["n_input"])),
        "n_output": _total(spans[at].n_output for at in sorted(counted["n_output"])),
        "cost": _total(spans[at].cost for at in sorted(counted["cost"])),
        "n_unpriced": n_unpriced(spans, nodes, counted["cost"]),
        **{
            name: next((value for span in [first, *spans] if (value := getattr(span, name)) is not None), None)
            for name in ("user", "session", "service", "version")
        },
        "n_bytes": sum(span.n_bytes for span in spans),
        "received": received,
    }


def _total(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values; None where none is known."""
    known = [value for value in values if value is not None]
    total = sum(known) if known else None
    return min(total, 2**63 - 1) if isinstance(total, int) else total
