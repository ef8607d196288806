"""The plain records that reports are made from.

Reports must be testable without a store and without a model, so summarise, compare and the writers of other tools'
files take only these records: one row per score, the metrics of each task, the tasks of each group, and a run's
settings. `from_store` makes them from a stored run, `interop.read_lm_eval` from another tool's log.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import SupportsFloat

from assaymark.errors import DataError
from assaymark.records import Estimate, JsonValue, ScoreStatus
from assaymark.scoring.metric import Scale
from assaymark.scoring.metrics import is_number, preferred_names

FOLD_ABOVE = 8
"""A group with a value and more tasks than this is shown without its tasks."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One metric of one sample of one task under one filter."""

    task: str
    sample_index: int
    sample_sha256: str
    metric: str
    value: float | None
    filter: str = "none"
    status: ScoreStatus = ScoreStatus.SCORED
    parts: tuple[JsonValue, ...] | None = None  # what a corpus metric aggregates, e.g. (nats, words)
    detail: JsonValue = None  # of a multiple choice: picked, gold, tied, log-likelihoods
    n_shots: int = 0
    n_leaked_shots: int = 0
    n_cut_tokens: int = 0
    n_context_tokens: int = 0  # tokens of the prompt that the model received
    gold: tuple[int, ...] = ()  # positions of the gold choices, where the sample has choices
    choices: tuple[str, ...] = ()  # their texts, where they are distinct
    subject: str | None = None  # of its row, where the task is the user's own

    @property
    def item(self) -> JsonValue:
        """What the metric's aggregation gets: the value, the parts, or a text or mapping, which is stored as one."""
        return item_of(self.value, self.parts, self.detail)


def item_of(value: float | None, parts: tuple[JsonValue, ...] | None, detail: JsonValue) -> JsonValue:
    """Return what a metric's aggregation gets of one sample."""
    if parts is None:
        return value
    return parts[0] if isinstance(detail, dict) and detail.get("wrapped") else parts


def row_value(row: ScoreRow) -> float:
    """Return the number by which a sample is compared: shared credit, the score, or the nats of a ratio."""
    if isinstance(row.detail, dict) and (credit := row.detail.get("credit")) is not None:
        return float(credit)
    if row.value is not None and row.parts is None:
        return float(row.value)
    if row.parts is not None and len(row.parts) == 2 and isinstance(row.parts[0], int | float):
        return float(row.parts[0])
    return float(row.value) if row.value is not None else math.nan


def score_number(value: object) -> float:
    """Return a number among a score's parts or details.

    Raises: DataError if it is none.
    """
    if isinstance(value, int | float | SupportsFloat):  # the protocol alone takes 15 µs
        return float(value)
    raise DataError(f"a stored score has {value!r} where a number is expected; score the run again: assaymark rescore")


OwnAggregation = Callable[..., object]  # a task file's function: of the list of a metric's items


@dataclass(frozen=True, slots=True)
class MetricInput:
    """One metric of a task, as it is aggregated."""

    name: str
    aggregation: str | OwnAggregation = "mean"  # named in `statistics.aggregate`, or the task's own
    higher_is_better: bool = True
    filters: tuple[str, ...] = ("none",)
    scale: Scale | None = None  # of a sample's score, where it is declared; None: by the table of metrics
    is_neutral: bool = False  # neither higher nor lower is better

    @property
    def is_number(self) -> bool:
        """Whether it is known not to be a share, even where all its values are in [0, 1]."""
        return is_number(self.name) if self.scale is None else self.scale == "number"


@dataclass(frozen=True, slots=True)
class TaskSummaryInput:
    """The properties of a task that a summary needs."""

    name: str
    metrics: tuple[MetricInput, ...]
    output_type: str = "multiple_choice"
    alias: str | None = None
    version: str = "N/A"
    num_fewshot: int = 0
    n_total: int | None = None  # samples in the whole split, whatever the limit
    chance: float | None = None  # from the card; where None it is computed from the numbers of choices
    primary_metric: str | None = None
    n_skipped: int = 0  # rows that were left out because they cannot be read
    first_skipped: str = ""  # where the first of them is, and why
    is_own: bool = False  # the user's: samples of each of its subjects are summarised too
    asks: str = ""  # hash of what the task asks, without how it is scored; empty where it is not known
    copy_of: str | None = None  # the task whose samples its are perturbed copies of

    @property
    def primary(self) -> tuple[str, str] | None:
        """The metric and filter shown for the task in comparisons and narrow tables."""
        by_name = {metric.name: metric for metric in self.metrics}
        wanted = (self.primary_metric, *preferred_names(), *by_name)
        metric_input = next((by_name[name] for name in wanted if name in by_name), None)
        return (
            (metric_input.name, metric_input.filters[0] if metric_input.filters else "none")
            if metric_input is not None
            else None
        )


@dataclass(frozen=True, slots=True)
class GroupAggregate:
    """How a group averages one metric: micro (weighted by samples) or macro (each task equally)."""

    metric: str
    weight_by_size: bool = True
    filters: tuple[str, ...] | None = None  # None: every filter its tasks have


@dataclass(frozen=True, slots=True)
class GroupSummaryInput:
    """A group of tasks and groups."""

    name: str
    members: tuple[str, ...]  # direct children: tasks or groups
    aggregates: tuple[GroupAggregate, ...] = ()  # none: only a heading
    alias: str | None = None
    version: str = "N/A"


@dataclass(frozen=True, slots=True)
class PerturbedScore:
    """One metric of a task, or of the pooled tasks of a group, perturbed and as it is. Field names are stored."""

    task: str
    metric: str
    filter: str
    by: str  # a perturbation, or a family of them
    is_worst: bool  # the worst case of a family, over all samples; else over the samples that have a copy
    n: int
    original: float  # mean over the same samples, unperturbed
    value: float
    low: float | None  # of the value
    high: float | None
    difference: float  # value - original
    difference_low: float | None
    difference_high: float | None
    p: float  # two-sided, of no difference
    n_broken: int  # samples whose score fell
    n_mended: int  # samples whose score rose
    n_left_out: int  # without a score of the original or of a copy
    is_primary: bool
    is_share: bool  # all values are in [0, 1]
    n_tasks: int = 1
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class RunView:
    """One run's estimates under one heading, for tables."""

    label: str
    run_id: str
    estimates: tuple[Estimate, ...]
    facts: tuple[tuple[str, str], ...] = ()  # shown above the table: profile, dtype, limit, ...
    perturbed: tuple[PerturbedScore, ...] = ()


@dataclass(frozen=True, slots=True)
class StoppedByRule:
    """How far a run came that was stopped by a rule: the first questions of an order that follows from a seed."""

    n_seen: int
    n: int  # questions of the benchmark
    seed: int
    macro: bool = False  # each task counted the same: the order is another one
    is_active: bool = False  # its order followed its answers, as earlier versions offered: no other run has it


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """One run's scores and settings, for comparisons."""

    label: str
    run_id: str
    rows: tuple[ScoreRow, ...]
    tasks: tuple[TaskSummaryInput, ...]
    groups: tuple[GroupSummaryInput, ...] = ()
    settings: Mapping[str, JsonValue] = field(default_factory=dict)  # of the whole run: dtype, template, profile, ...
    task_settings: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)  # shots, spec and data hash
    prompt_hashes: Mapping[tuple[str, int], str] = field(default_factory=dict)  # (task, sample index) -> sha256
    choices: Mapping[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)  # (task, sample index) -> texts
    stopped: StoppedByRule | None = None
    pairing: tuple[str, ...] = ()  # how samples were matched with another tool's, where row hashes do not match
