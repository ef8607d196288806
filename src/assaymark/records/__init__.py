"""The records passed between the parts: frozen, no I/O, no behaviour beyond what follows from their fields.

A sample (one evaluated row) becomes a request (all queries about it at one turn). A model answers each query of a
request, each repeat, with one output; outputs become scores. A run is one model evaluated under one plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NotRequired, Protocol, TypedDict

from assaymark.records.plans import (
    AUDIT,
    AuditPlan,
    DrawPlan,
    JsonValue,
    ModelIdentity,
    PerturbationPlan,
    PerturbedFrom,
    PresetPlan,
    RunPlan,
    TaskPlan,
    canonical_json,
    content_hash,
)
from assaymark.records.result_facts import BlindScore

__all__ = [
    "AUDIT", "BOUND", "FIRST_TOKEN", "IN_REASONING", "REFUSED", "AuditPlan", "BlindScore", "CallPart", "DrawPlan",
    "Estimate", "GenerateQuery", "GenerationSettings", "ImagePart", "JsonValue", "LoglikelihoodQuery", "Message",
    "ModelIdentity", "Output", "PerturbationPlan", "PerturbedFrom", "PresetPlan", "Progress", "Query", "QueryKind",
    "Request", "ResultPart", "RollingQuery", "Row", "RunPlan", "Sample", "Score", "ScoreStatus", "Skipped", "TaskPlan",
    "TextPart", "WorkEstimate", "canonical_json", "content_hash", "rotations_of",
]  # fmt: skip

Row = Mapping[str, Any]  # of a data set; what its values are, the task that reads it knows

# --------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text inside a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image inside a message, by content."""

    sha256: str  # of the file's bytes: `sha256:<hex>`
    media_type: str
    data: bytes = field(default=b"", compare=False, repr=False)  # the file, as it was given

    json_keys = "sha256 media_type n_bytes"

    @property
    def n_bytes(self) -> int:
        """The size of the file."""
        return len(self.data)

    def __str__(self) -> str:
        """Return the form in which prompts are shown."""
        return f"[image {self.sha256.removeprefix('sha256:')[:12]}]"


@dataclass(frozen=True, slots=True)
class CallPart:
    """A call of a tool inside a message of the assistant. arguments: JSON of an object."""

    id: str
    name: str
    arguments: str

    def __str__(self) -> str:
        """Return the form in which prompts are shown."""
        return f"[call {self.name} {self.arguments}]"


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A tool's result, as the only part of a message with role `tool`. name: the function that was called."""

    call_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[TextPart | ImagePart | CallPart | ResultPart, ...]

    @classmethod
    def of_text(cls, role: Literal["system", "user", "assistant", "tool"], text: str) -> "Message":
        """Return a message that is one text."""
        return cls(role, (TextPart(text),))

    @property
    def text(self) -> str:
        """The concatenated texts."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart | ResultPart))

    @property
    def calls(self) -> tuple[CallPart, ...]:
        """The calls of tools, in order."""
        return tuple(part for part in self.parts if isinstance(part, CallPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The images, in order."""
        return tuple(part for part in self.parts if isinstance(part, ImagePart))

    @property
    def shown(self) -> str:
        """The message for people: its text, with each image by its hash and each call by name and arguments."""
        return "".join(part.text if isinstance(part, TextPart | ResultPart) else str(part) for part in self.parts)


class Render(Protocol):
    """Returns a conversation as text."""

    def __call__(self, messages: Sequence[Message], continue_final: bool, /, tools: str | None = None) -> str:
        """Return the text; `continue_final` leaves the last message open. `tools`: JSON, as in `Request.tools`."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of a task's evaluated split."""

    task: str
    index: int  # position in the evaluated split (lm-eval's doc_id)
    row: Row  # after process_docs
    sha256: str  # of the row's canonical JSON


@dataclass(frozen=True, slots=True)
class Skipped:
    """Rows that were left out because they cannot be read."""

    n: int = 0
    first: tuple[str, ...] = ()  # where and why, for the first of them

    def __str__(self) -> str:
        """Return one line: how many, where and why."""
        more = f"; and {self.n - len(self.first):,} more" if self.n > len(self.first) else ""
        return f"{self.n:,} row{'' if self.n == 1 else 's'} skipped: {'; '.join(self.first)}{more}"


class QueryKind(StrEnum):
    """The kinds of query that a model can answer."""

    LOGLIKELIHOOD = "loglikelihood"
    ROLLING = "loglikelihood_rolling"
    GENERATE = "generate_until"


@dataclass(frozen=True, slots=True)
class LoglikelihoodQuery:
    """How probable is `continuation` after the context?"""

    index: int  # position among the request's queries; unchanged where others are already answered
    continuation: str
    segments: tuple[str, ...] | None = None  # a context of its own; None: the request's
    role: Literal["choice", "unconditional", "rotated"] = "choice"  # rotated: the options stand in another order
    kind: Literal[QueryKind.LOGLIKELIHOOD] = QueryKind.LOGLIKELIHOOD


@dataclass(frozen=True, slots=True)
class RollingQuery:
    """How probable is the whole text, without a context?"""

    index: int
    text: str
    kind: Literal[QueryKind.ROLLING] = QueryKind.ROLLING


@dataclass(frozen=True, slots=True)
class GenerationSettings:
    """How an answer is generated. None: the model's or the profile's default."""

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    do_sample: bool = False
    temperature: float = 0.0
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int = 0
    repeats: int = 1
    extra: tuple[tuple[str, JsonValue], ...] = ()
    stop_after_text: bool = False  # the white space that an answer begins with contains no stop


@dataclass(frozen=True, slots=True)
class GenerateQuery:
    """Generate an answer."""

    index: int
    settings: GenerationSettings
    kind: Literal[QueryKind.GENERATE] = QueryKind.GENERATE


Query = LoglikelihoodQuery | RollingQuery | GenerateQuery


def n_outputs_of(query: Query) -> int:
    """Return how many outputs answer a query: one, or for a generation one per repeat."""
    return query.settings.repeats if isinstance(query, GenerateQuery) else 1


@dataclass(frozen=True, slots=True)
class Request:
    """One sample at one turn, with all its queries.

    The concatenated `segments` are the exact text sent to the model (for a chat: as rendered by its template; for a
    chat API: empty, and `messages` is sent). Samples that share their shots share the same segment objects.
    """

    task: str
    sample_index: int
    sample_sha256: str
    segments: tuple[str, ...]
    queries: tuple[Query, ...]
    messages: tuple[Message, ...] = ()
    turn: int = 0
    target: str = ""  # what is logged as the reference, as text
    n_shots: int = 0
    n_leaked_shots: int = 0  # shots that are this very sample, an identical row or a near-duplicate
    tools: str | None = None  # JSON of OpenAI's `tools`: the functions that the model may call

    @property
    def id(self) -> str:
        """Unique within a run."""
        return f"{self.task}/{self.sample_index}/{self.turn}"

    @property
    def n_outputs(self) -> int:
        """The number of outputs that make its response complete."""
        return sum(n_outputs_of(query) for query in self.queries)

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """The images of its messages, in order."""
        return tuple(image for message in self.messages for image in message.images)

    @property
    def prompt(self) -> str:
        """The context of the first query (lm-eval's `prompt_hash` is its hash); without text, that of its messages."""
        first = self.queries[0] if self.queries else None
        if isinstance(first, LoglikelihoodQuery) and first.segments is not None:
            return "".join(first.segments)
        if isinstance(first, RollingQuery):
            return first.text
        return "".join(self.segments) or "\n".join(message.shown for message in self.messages)


def rotations_of(request: Request) -> list[list[LoglikelihoodQuery]]:
    """Return the queries of rotations 1, 2, ... of a request's options, each in the order in which they are shown.

    In rotation s, position p shows the option that the row has at position (p - s) mod n. Empty where the request has
    the row's own order only.
    """
    own = [query for query in request.queries if isinstance(query, LoglikelihoodQuery)]
    rotated = [query for query in own if query.role == "rotated"]
    if not rotated:
        return []
    n_choices = sum(query.role == "choice" for query in own)
    return [rotated[start : start + n_choices] for start in range(0, len(rotated), n_choices)]


# ------------------------------------------------------------------------------------- outputs and scores


FIRST_TOKEN = "first_token"  # noqa: S105 - total_nats is that of a letter as the first generated token
IN_REASONING = "reasoning"  # a generated text ended before its reasoning did: it is no answer, and `text` is empty
REFUSED = "refused"  # the model's `refusal`, which its server states apart, is the text of the answer
BOUND = "bound"  # as FIRST_TOKEN, and the server did not list the letter: total_nats is an upper bound


@dataclass(frozen=True, slots=True)
class Output:
    """The answer to one query of one request, at one repeat. Exactly one of total_nats, text, error is not None."""

    request_id: str
    ask_index: int
    repeat: int = 0
    total_nats: float | None = None  # log-probability of the continuation or text, summed over its tokens
    is_greedy: bool | None = None  # every scored token was the model's first choice
    text: str | None = None
    reasoning: str | None = None  # a thinking block that was removed before scoring
    tool_calls: str | None = None  # JSON
    finish_reason: str | None = None  # stop | eos | length | IN_REASONING; of a choice: None, FIRST_TOKEN or BOUND
    n_context_tokens: int = 0
    n_tokens: int = 0  # scored or generated
    n_cut_tokens: int = 0  # dropped from the left of the context so that it fits
    cache_key: str | None = None  # model, dtype, numerics, tokens, span or generation settings, seed, repeat
    from_cache: bool = False
    error: str | None = None  # what happened, and the remedy
    error_kind: str | None = None  # class name in assaymark.errors
    call: str | None = None  # JSON of what is known of the call of an application: see `applications.calls`

    json_keys = "ask_index repeat total_nats is_greedy text tool_calls? finish_reason n_tokens n_cut_tokens error"


class ScoreStatus(StrEnum):
    """How a score came about."""

    SCORED = "scored"
    UNPARSED = "unparsed"  # there is an answer, but nothing could be extracted from it
    FAILED = "failed"  # there is no answer


@dataclass(frozen=True, slots=True)
class Score:
    """One metric of one response under one filter."""

    request_id: str
    metric: str
    value: float | None  # None: undefined (failed, or only defined over many samples)
    filter: str = "none"
    status: ScoreStatus = ScoreStatus.SCORED
    parts: tuple[JsonValue, ...] | None = None  # what a corpus metric aggregates, e.g. (nats, words)
    detail: JsonValue = None  # chosen choice, ties, extracted answer: for `show --samples`

    json_keys = "metric filter value status detail"


# ------------------------------------------------------------------------------------------- a run


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a model is with its requests, counted in tokens, to which time is proportional.

    The tokens of a server are not counted: they are 0.
    """

    n_outputs_done: int
    n_outputs: int
    n_tokens_asked: int  # all sequences, each counted in full
    n_tokens_distinct: int  # after sharing
    n_tokens_done: int  # of the distinct ones
    n_from_cache: int = 0
    seconds: float = 0.0
    note: str = ""  # of a server: how many requests are in progress, and what was retried
    seconds_left: tuple[float, float] | None = (
        None  # while texts are generated: as their ends so far suggest, and at most
    )


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    """The work that answering requests would take (`assaymark plan`)."""

    n_requests: int
    n_queries: int
    n_tokens_asked: int | None  # None: only the server could count them
    n_tokens_distinct: int | None
    memory_bytes: int | None = None
    seconds: float | None = None
    too_long: tuple[str, ...] = ()  # ids of requests whose context is truncated or that cannot be answered
    failing: tuple[tuple[str, str], ...] = ()  # id and reason of each request that cannot be answered


class CompositeColumn(TypedDict):
    """A column of a composite with its interval."""

    name: str
    value: float
    low: float | None
    high: float | None
    stderr: float | None
    method: str
    n: int


class SampleDetails(TypedDict, total=False):
    """Of an estimate: its prompts and samples."""

    copy_of: str  # the task whose samples these are perturbed copies of
    n_shots: int | None
    n_total: int | None  # samples in the whole split
    n_leaked: int  # with a shot that is the sample
    n_cut: int  # with a truncated context
    n_mostly_cut: int
    n_tied: int  # with several best choices
    n_unscored: int
    n_infinite: int  # scores that are infinite, so that there is no mean
    labels: Mapping[str, int]  # of a scorer that gives labels and no values: the most frequent ones, with their counts
    n_skipped: int  # rows that could not be read
    first_skipped: str
    n_gold_absent: int  # rows whose gold answer is none of their choices
    first_gold_absent: str
    n_first_token: int  # choices scored by the first token
    n_outside: int  # of those, choices outside the most probable tokens
    equal_by: Mapping[str, int]  # right answers that are not the reference to the letter: case, typography, ...
    n_among_words: int  # wrong answers that have the reference among other words
    near_misses: Mapping[str, int]  # wrong answers that may not be meant as such: part of the reference, ...
    first_error: str
    n_failed_in_scoring: int  # of n_failed: answered, and the scorer failed
    task_in_file: str  # the name in the stored run, where a board has another


class LmEvalDetails(TypedDict, total=False):
    """Of an estimate: lm-evaluation-harness's own numbers."""

    lm_eval_value: JsonValue  # a number, or what a metric of its own returns
    lm_eval_stderr: float | None
    lm_eval_n: int


class ReportedFacts(TypedDict):
    """Who reported a value that has no answers, and how. Texts are empty where nothing is stated."""

    stated: float  # in the unit of whoever reported it
    unit: str  # share | per cent; empty for a number that is no share
    unit_by: str  # how the unit was made out
    file: str
    date: str
    source: str  # URL
    by: str
    notes: str
    dataset: str
    benchmark: str  # its task on the Hub, if it is registered there
    revision: NotRequired[str]  # of the data set; runs imported by earlier versions have none


class CalibrationDetails(TypedDict, total=False):
    """Of an estimate: calibration and baselines."""

    brier: float
    calibration_error: float
    calibration_error_null: float
    calibration_p: float
    best_constant: float  # accuracy of always picking the same choice
    best_constant_choice: int
    only_choice: int  # where the model picked no other
    best_constant_text: str | None
    question_blind: BlindScore


class GroupDetails(TypedDict, total=False):
    """Of a group's estimate."""

    members: Sequence[str]
    n_tasks: int
    lacking: Sequence[str]  # tasks without a value, so that the group has none
    weighting: str  # micro | macro


class CompositeDetails(TypedDict, total=False):
    """Of a suite's composite."""

    normalise: str
    clip: bool
    aggregate: str
    beside: Sequence[str]
    n_members: int
    columns: Sequence[CompositeColumn]
    unclipped: CompositeColumn | None
    missing: Sequence[Sequence[str]]
    why: str | None  # there is no composite
    reproduced: bool
    unshown: object
    note: str


class EstimateDetails(SampleDetails, LmEvalDetails, CalibrationDetails, GroupDetails, CompositeDetails, total=False):
    """Facts about an estimate beside its value, stored with it as JSON. The keys depend on `kind`."""

    reported: ReportedFacts  # of a value from a model's repository
    kind: str  # task | group | composite
    path: Sequence[str]  # the groups it is in, outermost first
    alias: str
    title: str
    version: str
    output_type: str
    primary: bool  # the metric that stands for the task
    unit: str  # proportion | plain
    is_neutral: bool  # neither higher nor lower is better
    profile: str


def with_filter(name: str, filter_name: str, form: str = " ({})") -> str:
    """Return a metric or task with the filter of its answers; alone where they count as they are.

    form: of the filter's name, which follows.
    """
    return name if filter_name in {"none", ""} else name + form.format(filter_name)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Many scores summarised: one cell of a table."""

    task: str
    metric: str
    filter: str
    value: float | None
    low: float | None  # of the interval
    high: float | None
    method: str  # of the interval, e.g. wilson
    n: int  # samples that count; 0 beside a value: imported from a file that does not state it
    n_failed: int = 0
    n_unparsed: int = 0
    stderr: float | None = None
    chance: float | None = None
    higher_is_better: bool = True
    confidence: float = 0.95
    details: EstimateDetails = field(default_factory=EstimateDetails)

    def __str__(self) -> str:
        """Return one line: task, metric, value, interval, samples."""
        metric = with_filter(self.metric, self.filter)
        value = "undefined" if self.value is None else f"{self.value:.4g}"
        if self.low is not None and self.high is not None:
            value += f" ({self.confidence:.0%} interval {self.low:.4g} to {self.high:.4g})"
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        size = "not stated" if self.value is not None and not self.n else self.n
        return f"{self.task} {metric}: {value}, n = {size}{failed}"
