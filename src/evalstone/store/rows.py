"""What reading the store gives: frozen rows, apart from the nouns of `records` that are stored as they are.

A run has attempts (each start of the command is one), tasks, requests, outputs and scores. Times are ISO 8601 in UTC,
so they sort as text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evalstone.records import JsonValue, Output, Request, RunPlan, Sample, Score, ScoreStatus


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that is ready to be written to."""

    run_id: str
    attempt_id: int  # counts from 1 within the run
    is_new: bool  # this plan was not in the store
    is_complete: bool  # an earlier attempt finished, and nothing was changed since
    n_attempts: int  # this one included


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run as the store knows it."""

    run_id: str
    short_id: str  # the shortest prefix (8 or more) that no other run shares
    plan: RunPlan
    status: str  # running | finished | incomplete | interrupted | failed
    created_at: str
    updated_at: str  # when the last attempt began or ended
    n_attempts: int
    n_samples: int
    n_requests: int  # more than samples where there are conversations
    n_outputs: int
    n_failed: int  # outputs with an error
    n_scores: int
    command: str | None  # of the last attempt
    summary: Mapping[str, JsonValue]  # as given to close_run
    extra: Mapping[str, JsonValue]  # as given to save_estimates

    @property
    def model(self) -> str:
        """The model's name."""
        return self.plan.model.name

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the plan's order."""
        return tuple(task.name for task in self.plan.tasks)


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One start of a run: versions and machine may differ between attempts of the same run."""

    run_id: str
    attempt_id: int
    status: str  # running | finished | incomplete | interrupted | failed
    started_at: str
    ended_at: str | None
    host: str
    process_id: int
    command: str | None
    facts: Mapping[str, JsonValue]
    summary: Mapping[str, JsonValue]


class RunWriter(NamedTuple):
    """The process that is writing a run."""

    attempt_id: int
    host: str
    process_id: int
    since: str  # when its attempt began

    def __str__(self) -> str:
        """Return who and since when, in words."""
        return f"process {self.process_id} on {self.host} since {self.since[:19].replace('T', ' ')} UTC"


class StoredProgress(NamedTuple):
    """How much of a run is stored. Of the requests that were stored so far; later ones are not counted yet."""

    n_outputs: int
    n_expected: int  # outputs that make these requests complete


class StoredScore(NamedTuple):
    """One score with its place, light enough for hundreds of thousands."""

    task: str
    sample_index: int
    turn: int
    filter: str
    metric: str
    value: float | None
    status: ScoreStatus
    parts: tuple[JsonValue, ...] | None
    detail: JsonValue


class GeneratedRow(NamedTuple):
    """How many written answers of a task and turn ended in one way. Units: n_tokens of all of them together."""

    task: str
    turn: int
    finish_reason: str | None
    n_texts: int
    n_failed: int
    n_tokens: int


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """All that is stored about one request: what was asked, answered and scored."""

    sample: Sample | None  # None where the row was not given to add_requests
    request: Request
    outputs: tuple[Output, ...]  # by ask, then repeat
    scores: tuple[Score, ...]  # the current ones: the latest scoring of each filter and metric


@dataclass(frozen=True, slots=True)
class RemovedCounts:
    """What `remove` took away."""

    run_id: str
    n_requests: int
    n_outputs: int
    n_scores: int
    n_texts: int  # those that no other run uses


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that `verify` found wrong."""

    table: str
    row: str  # which row, in words
    what: str  # what is wrong with it

    def __str__(self) -> str:
        return f"{self.table} {self.row}: {self.what}"


# ---------------------------------------------------------------------------- for boards and pages


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a board shows and filters by of a run, all of it from columns."""

    run_id: str
    status: str  # running | finished | incomplete | interrupted | failed
    created_at: str
    updated_at: str
    model: str
    kind: str  # of the model: hf, openai, fake, imported, ...
    model_hash: str | None  # None for an HTTP model
    revision: str | None
    dtype: str
    numerics: str
    n_parameters: int | None
    max_length: int | None
    profile: str
    seed: int | None  # of the few-shot draw
    sample_limit: float | None  # `--limit`: below 1 a share, from 1 on a number of samples per task
    chat_template: str | None  # None: none applied; "": the default one of the model; else its name
    prompt_style: str | None  # letter, text, ...; None: as each task has it
    prompt_preset: str | None
    has_system_instruction: bool
    audit: str | None  # which audit; None for a run
    n_tasks: int
    n_samples: int


class EstimateRow(NamedTuple):
    """One estimate without its details, light enough for the boards of thousands of runs."""

    run_id: str
    task: str  # or a group or suite
    metric: str
    filter: str
    value: float | None
    low: float | None
    high: float | None
    method: str
    n: int
    n_failed: int
    n_unparsed: int
    stderr: float | None
    chance: float | None
    confidence: float
    kind: str  # task | group | composite
    n_shots: int | None
    unit: str | None  # proportion | plain
    higher_is_better: bool
    is_primary: bool  # the metric and filter that stand for the task


@dataclass(frozen=True, slots=True)
class RunEstimates:
    """A run's facts with its estimates, in the order in which they were saved."""

    run: RunFacts
    estimates: tuple[EstimateRow, ...]


class SampleFacts(NamedTuple):
    """What lists show of one sample at one turn, without its prompt."""

    task: str
    metric: str | None  # with the filter: the score that decides; None where the task has none
    filter: str | None
    sample_index: int
    turn: int
    status: str | None  # scored | unparsed | failed; None: no score yet
    score: float | None  # value of the deciding metric
    correct: float | None  # which share of it is right, in [0, 1]; None where undefined or failed
    is_wrong: bool  # below one half, unparsed or failed; the status tells these apart
    category: str | None  # what the row calls its category or subject
    n_shots: int
    n_leaked_shots: int
    n_truncated_tokens: int  # of the prompt, dropped from the left
    n_at_limit: int  # outputs that ended at the token limit
    snippet: str  # the beginning of the question, in one line

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return f"{self.task}/{self.sample_index}/{self.turn}"


@dataclass(frozen=True, slots=True)
class SamplePage:
    """Some samples of a list, and how many the whole list has."""

    samples: tuple[SampleFacts, ...]
    total: int
    offset: int
    limit: int
    is_indexed: bool = False  # found by the full-text index, and not by the snippets


@dataclass(frozen=True, slots=True)
class CategoryCount:
    """How many samples of a category there are, and how many of them `SampleFacts.is_wrong`."""

    category: str | None  # None: those without one
    n_samples: int
    n_wrong: int
