"""Rows that the store returns, besides the records of `assaymark.records`.

A run has attempts (each start of the command is one), tasks, requests, outputs and scores. Times are ISO 8601 in UTC,
so they sort as text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from assaymark.records import JsonValue, Output, Request, RunPlan, Sample, Score, ScoreStatus
from assaymark.records.result_facts import ResultFacts

DAMAGED = "damaged"  # the status of a run that is not as it was saved: it is listed, and shown without numbers


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that was opened for writing."""

    run_id: str
    attempt_id: int  # counts from 1 within the run
    is_new: bool  # whether the run was created now
    is_complete: bool  # an earlier attempt finished, and the run has not changed since
    n_attempts: int  # this one included


@dataclass(frozen=True, slots=True)
class RunRow:
    """A stored run."""

    run_id: str
    short_id: str  # the shortest prefix (8 or more) that no other run shares
    plan: RunPlan
    status: str  # running | finished | incomplete | interrupted | failed | damaged
    created_at: str
    updated_at: str  # when the last attempt began or ended
    n_attempts: int
    n_samples: int
    n_requests: int  # more than samples if there are conversations
    n_outputs: int
    n_failed: int  # outputs with an error
    n_scores: int
    command: str | None  # of the last attempt
    summary: Mapping[str, JsonValue]  # as given to close_run
    extra: ResultFacts  # as given to save_estimates

    json_keys = (
        "run_id short_id model kind=plan.model.kind dtype=plan.model.dtype profile=plan.profile tasks audit=plan.audit "
        "status n_samples n_requests n_outputs n_failed n_attempts created_at updated_at command"
    )

    @property
    def model(self) -> str:
        """The model's name."""
        return self.plan.model.name

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the plan's order."""
        return tuple(task.name for task in self.plan.tasks)

    @property
    def has_answers(self) -> bool:
        """Whether it holds samples, of which its values can be computed; of one that was only reported it has none.

        An imported sample counts by its scores, though its file may lack the text of its answer.
        """
        return self.n_requests > 0


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt of a run; versions and machine may differ between attempts."""

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
        """Return process, host and time as text."""
        return f"process {self.process_id} on {self.host} since {self.since[:19].replace('T', ' ')} UTC"


class StoredProgress(NamedTuple):
    """How much of a run is stored, among the requests stored so far."""

    n_outputs: int
    n_expected: int  # outputs of these requests when they are complete


class SampleScoreRow(NamedTuple):
    """One score with its sample, filter and metric, as a light tuple for hundreds of thousands."""

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
    """The number of generated texts of a task and turn with one finish reason. Units: n_tokens is their total."""

    task: str
    turn: int
    finish_reason: str | None
    n_texts: int
    n_failed: int
    n_tokens: int


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A stored request with its sample, outputs and scores."""

    sample: Sample | None  # None if the row was not given to add_requests
    request: Request
    outputs: tuple[Output, ...]  # by query, then repeat
    scores: tuple[Score, ...]  # current ones: of the latest scoring of each filter and metric
    is_withheld: bool = False  # its task is sealed, and its texts were left out (`store.public_store`)


@dataclass(frozen=True, slots=True)
class RemovedCounts:
    """Numbers of the rows that `remove` removed."""

    run_id: str
    n_requests: int
    n_outputs: int
    n_scores: int
    n_texts: int  # those that no other run uses


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that `verify` found."""

    table: str
    row: str  # the row, as text
    what: str  # the problem

    def __str__(self) -> str:
        return f"{self.table} {self.row}: {self.what}"


# ---------------------------------------------------------------------- for leaderboards and pages


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of a run that a leaderboard shows and filters by, read from columns."""

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
    sample_limit: float | None  # `--limit`: below 1 a share, otherwise the number of samples per task
    chat_template: str | None  # None: none applied; "": the model's default; else its name
    prompt_style: str | None  # letter, text, ...; None: each task's own
    prompt_preset: str | None
    has_system_instruction: bool
    audit: str | None  # kind of audit; None for a run
    n_tasks: int
    n_samples: int


class EstimateRow(NamedTuple):
    """An estimate without its details, as a light tuple for leaderboards of thousands of runs."""

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
    is_primary: bool  # whether it is the task's primary metric and filter


@dataclass(frozen=True, slots=True)
class RunEstimates:
    """A run's facts with its estimates, in the order in which they were saved."""

    run: RunFacts
    estimates: tuple[EstimateRow, ...]


class SampleFacts(NamedTuple):
    """The facts of one sample at one turn that lists show, without its prompt."""

    task: str
    metric: str | None  # with the filter: the score that decides whether it is right; None if the task has none
    filter: str | None
    sample_index: int
    turn: int
    status: str | None  # scored | unparsed | failed; None: no score yet
    score: float | None  # value of that metric
    correct: float | None  # share that is right, in [0, 1]; None if undefined or failed
    is_wrong: bool  # below one half, unparsed or failed (see the status)
    category: str | None  # category or subject in the sample's row
    n_shots: int
    n_leaked_shots: int
    n_truncated_tokens: int  # of the prompt, dropped from the left
    n_at_limit: int  # outputs that ended at the token limit
    snippet: str  # beginning of the question, in one line

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return f"{self.task}/{self.sample_index}/{self.turn}"


@dataclass(frozen=True, slots=True)
class SamplePage:
    """A page of a list of samples, and the length of the whole list."""

    samples: tuple[SampleFacts, ...]
    total: int
    offset: int
    limit: int
    is_indexed: bool = False  # whether the full-text index was searched, and not the snippets


@dataclass(frozen=True, slots=True)
class CategoryCount:
    """The number of samples of a category, and of those with `SampleFacts.is_wrong`."""

    category: str | None  # None: samples without a category
    n_samples: int
    n_wrong: int
