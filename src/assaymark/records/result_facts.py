"""The facts that are stored with a run's estimates as JSON, so that it can be reported without its files.

Each part of the program has its own keys. A store may come from another machine, so a reader that shows these facts
to others checks their types first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from assaymark.records.plans import JsonValue, PerturbedFrom


class MetricFact(TypedDict):
    """A metric of a task, as a run's facts have it."""

    name: str
    aggregation: str
    higher_is_better: bool
    filters: list[str]
    scale: NotRequired[Literal["right or wrong", "share", "number"]]
    is_neutral: NotRequired[bool]


class SkippedFact(TypedDict):
    """The rows that a task left out."""

    n: int
    first: list[str]  # why the first ones were


class TaskFact(TypedDict):
    """A task at the time of the run."""

    alias: str
    version: object
    output_type: str
    num_fewshot: int
    n_total: int | None  # samples in the whole split
    chance: float | None
    primary_metric: NotRequired[str | None]
    origin: NotRequired[str]  # assaymark, user, or the tool that it was imported from
    source: NotRequired[str | None]  # its file
    metrics: Sequence[MetricFact]
    filters: list[str]
    spec: NotRequired[Mapping[str, JsonValue]]  # the file's content
    dataset_revision: NotRequired[str]  # the commit that the rows were read from, on the Hub
    skipped: NotRequired[SkippedFact]
    perturbed: NotRequired[PerturbedFrom]


class AggregateFact(TypedDict):
    """A metric of a group."""

    metric: str
    weight_by_size: bool
    filters: list[str] | None


class GroupFact(TypedDict):
    """A group at the time of the run."""

    name: str
    alias: str
    version: str
    members: list[str]
    aggregates: list[AggregateFact]


class SuiteFact(TypedDict):
    """A suite at the time of the run."""

    spec: Mapping[str, JsonValue]  # its file's content
    leaves: list[list[str]]  # of each member: its tasks
    missing: list[list[str]]  # member, why


class FilterFact(TypedDict):
    """A filter and its steps, each with its function and options."""

    name: str
    steps: list[dict[str, JsonValue]]


class RescoredMetric(MetricFact):
    """A metric's facts, with the filters of its current scores and its options."""

    options: dict[str, JsonValue]


class RescoringJudge(TypedDict):
    """The model that judged, and the scorer that asked it."""

    name: str
    content_hash: str | None
    kind: str
    scorer_hash: str
    formula: str


class RescoredEntry(TypedDict):
    """One task's rescoring: the scores that it made, and those of the run that they stand in place of."""

    task: str
    scoring_hash: str
    filters: list[FilterFact]
    metrics: list[RescoredMetric]
    in_place_of: list[list[str]]  # filter, metric
    judge: NotRequired[RescoringJudge]  # where a model judged


class BlindScore(TypedDict):
    """A task's metric, evaluated without the questions."""

    value: float
    low: float
    high: float
    n: int


class ImportedFacts(TypedDict):
    """Where an imported run comes from."""

    tool: str
    version: NotRequired[str | None]
    date: NotRequired[str | None]
    files: NotRequired[Mapping[str, str]]  # name -> sha256:<hex>
    config: NotRequired[Mapping[str, JsonValue]]
    statistics: NotRequired[Mapping[str, Mapping[str, float]]]  # by task: numbers that are no scores


class StopFacts(TypedDict):
    """How far a run came that a rule stopped; more keys describe the rule."""

    n_seen: int
    n: int
    rule: str
    seed: NotRequired[int]
    alpha: NotRequired[float]
    macro: NotRequired[bool]
    draws: NotRequired[str]  # "active" in runs of earlier versions, whose order followed the answers
    at_least: NotRequired[int]
    n_rivals: NotRequired[int]


class AuditResults(TypedDict):
    """The results that an audit has computed so far."""

    parts: Mapping[str, Any]  # by name, each in the form of its own audit


class JudgingCounts(TypedDict):
    """Questions and models that a judging left out: numbers of questions, and names of models."""

    n_without_answer: int
    n_unmatched: int
    left_out: list[str]


class ResultFacts(TypedDict, total=False):
    """The facts stored with a run's estimates (`RunRow.extra`)."""

    tasks: Mapping[str, TaskFact]
    groups: Sequence[GroupFact]
    suites: Sequence[SuiteFact]
    bootstrap_iters: int
    question_blind: Mapping[str, Mapping[str, BlindScore]]  # task -> metric
    perturbed: Sequence[Mapping[str, JsonValue]]  # fields of PerturbedScore
    rescored: Sequence[RescoredEntry]
    summary_due: bool  # a rescoring is stored, and its estimates are not computed yet
    imported: ImportedFacts
    audit: AuditResults
    judging: JudgingCounts
    screening: StopFacts
    until: StopFacts
    race: StopFacts
    claims: Sequence[Mapping[str, JsonValue]]
    beside_people: Sequence[Mapping[str, JsonValue]]  # with "line", to show
    contaminated: Sequence[Mapping[str, JsonValue]]  # with "line", to show
