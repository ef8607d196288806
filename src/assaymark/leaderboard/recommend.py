"""Recommendations: models ranked by the benchmarks that measure the requested capabilities, table by table.

A model's value is the mean over the requested capabilities of the mean over the benchmarks that measure each. Its error
follows from the benchmarks' standard errors, taken as independent; for models that answered the same questions, a
paired test (`assaymark compare`) is more precise. Only models that have every benchmark used are ranked, and each model
once: with the set-up that has the most samples, then the latest, so that no model gains from repeated evaluation.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot

import numpy as np
from numpy.typing import NDArray

from assaymark.arena.rating_boards import Ratings
from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.about import task_card
from assaymark.leaderboard.averages import CONFIDENCE, mean_number
from assaymark.leaderboard.columns import FROM_FILES, ORIGINS
from assaymark.leaderboard.evidence import EvidenceTable, PreferenceRanking, preferences_for
from assaymark.leaderboard.guide import (
    Capability,
    capabilities,
    capabilities_of_task,
    capability_of_language,
    find_capability,
    measured_task,
    names,
)
from assaymark.leaderboard.query import Term, parse_query, search_keys
from assaymark.leaderboard.rows import BoardRow, Fact, IntervalValue, RowScore, ScoreColumn
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields
from assaymark.registry import meant, nearest
from assaymark.statistics.distributions import normal_cdf, two_sided_z

MOST_REQUESTED = 8  # capabilities in one request
SIZES = (2.0, 4.0, 9.0, 20.0, 45.0, 70.0)  # upper ends of the size classes, in billions of parameters
NO_ERRORS = "some values have no standard error, so probabilities are missing: state `sizes` in the board's file"
MOST_LISTED = 100  # rated models of one category
FACTS = ("params", "licence", "type", "precision", "prompts", "sha", "date")
Weights = Mapping[str, float]  # of columns, by key


@dataclass(frozen=True, slots=True)
class Requested:
    """A reader's requirements."""

    capabilities: tuple[str, ...]  # names of capabilities, or of single benchmarks
    max_params: float | None = None  # in billions
    licence: str = ""  # a prefix: apache finds apache-2.0
    where: str = ""  # further conditions, in the boards' search language
    top: int = 10  # models listed per table


@dataclass(frozen=True, slots=True)
class Demand:
    """One capability, or one benchmark, as it was understood."""

    key: str
    title: str
    suggested: str = ""  # tasks to evaluate where there is no evidence, as after --tasks
    advice: str = ""  # which benchmark to use when


@dataclass(frozen=True, slots=True)
class Used:
    """One benchmark that counts towards a demand."""

    demand: str  # its key
    column: str  # key in the table
    title: str
    measures: str  # as the benchmark's card states it; empty without a card
    share: float  # of the model's value

    json_keys = "for=demand column title measures~ share"


@dataclass(frozen=True, slots=True)
class Ranked:
    """One model."""

    rank: int
    row: BoardRow
    value: IntervalValue
    better_than_next: float | None  # probability; None for the last one, and without standard errors
    first_is_better: float | None  # probability that the first of the list is better than this; None for the first
    cells: Mapping[str, RowScore]  # of the benchmarks used
    n_set_ups: int  # rows of this model that fulfil the conditions
    reason: str

    json_keys = (
        "rank model=row.model value=value.value low=value.low high=value.high stderr=value.stderr "
        "p_better_than_next=better_than_next p_first_is_better=first_is_better reason origin=row.origin scores=cells "
        "facts n_set_ups runs=row.run_ids url~=row.url"
    )

    @property
    def facts(self) -> dict[str, Fact]:
        """The facts of the model that a reader chooses by."""
        return {key: self.row.facts[key] for key in FACTS if self.row.facts.get(key) is not None}


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The best model of one size class."""

    title: str
    n_models: int
    best: Ranked

    json_keys = "size=title n_models *best"


@dataclass(frozen=True, slots=True)
class ModelRanking:
    """The models of one table."""

    source: str
    title: str
    used: tuple[Used, ...]
    no_evidence: tuple[Demand, ...]  # demands that nothing in this table measures
    models: tuple[Ranked, ...]  # the first `Requested.top`
    by_size: tuple[SizeClass, ...]
    n_ranked: int
    excluded: Mapping[str, int]  # reason -> number of models
    notes: tuple[str, ...] = ()

    json_keys = (
        "source title benchmarks=used no_evidence=no_evidence.key n_ranked excluded notes models best_by_size=by_size"
    )


@dataclass(frozen=True, slots=True)
class Missing:
    """A demand that no table has evidence for."""

    demand: Demand
    command: str  # that would give evidence; empty if this package has no such task

    json_keys = "for=demand.key title=demand.title command~ advice~=demand.advice"


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of a table. Units: params in billions; None and empty: not stated."""

    model: str
    params: float | None
    licence: str

    json_keys = "model params licence~"

    def __str__(self) -> str:
        """Return the model with its size and licence."""
        size = "size not stated" if self.params is None else f"{self.params:.3g} B"
        return f"{self.model} ({size}, {self.licence or 'licence not stated'})"


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """Models that fulfil the conditions and that nothing rates for one demand, by name."""

    demand: Demand
    models: tuple[KnownModel, ...]

    json_keys = "for=demand.key title=demand.title models"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer: one ranking per table, and people's preferences."""

    requested: Requested
    demands: tuple[Demand, ...]
    rankings: tuple[ModelRanking, ...]
    no_evidence: tuple[Missing, ...] = field(default=())
    preferences: tuple[PreferenceRanking, ...] = field(default=())
    unmeasured: tuple[Unmeasured, ...] = field(default=())
    models: Mapping[str, KnownModel] = field(default_factory=dict)  # of all tables, by name

    json_keys = (
        "for=demands.key max_params=requested.max_params license~=requested.licence where~=requested.where rankings "
        "no_evidence preferences=rated never_measured=unmeasured"
    )

    @property
    def rated(self) -> list[JsonValue]:
        """The preferences, of each the first models, with their size and licence."""
        nothing = KnownModel("", None, "")
        return [
            {"for": each.demand, "category": each.category, "n_votes": each.n_votes, "why_none": each.why_none or None,
             "models": [
                 {**json_fields(rated), "params": known.params, "licence": known.licence or None}
                 for rated in each.models[:MOST_LISTED] for known in [self.models.get(rated.model, nothing)]
             ]}
            for each in self.preferences
        ]  # fmt: skip


def recommend(sources: Sequence[EvidenceTable], requested: Requested, votes: Ratings | None = None) -> Recommendation:
    """Return the models recommended by the evidence of some tables and of an arena's published votes.

    Raises: UnknownName for a name that is neither a capability nor a benchmark of a table, with the nearest names;
    UsageError for no capability at all, for too many, or for an invalid condition.
    """
    if not 1 <= len(requested.capabilities) <= MOST_REQUESTED:
        raise UsageError(
            f"{len(requested.capabilities)} capabilities were requested; expected one to {MOST_REQUESTED} of "
            f"{', '.join(capabilities())}"
        )
    demands = tuple(dict.fromkeys(_demand(name, sources) for name in requested.capabilities))
    rankings = tuple(_ranking(source, demands, requested) for source in sources)
    rankings = tuple(ranking for ranking in rankings if ranking.used)
    preferences = tuple(_preferences(demands, votes))
    measured = {used.demand for ranking in rankings for used in ranking.used} | {each.demand for each in preferences}
    return Recommendation(
        requested,
        demands,
        rankings,
        tuple(Missing(demand, _command(demand)) for demand in demands if demand.key not in measured),
        preferences,
        tuple(_unmeasured(sources, demands, requested, preferences)),
        {name: known for source in reversed(sources) for name, known in _known_models(source.table.rows).items()},
    )


def _preferences(demands: Sequence[Demand], votes: Ratings | None) -> Iterator[PreferenceRanking]:
    if votes is not None:
        for demand in demands:
            if demand.key in capabilities():
                yield from preferences_for(capabilities()[demand.key], votes)


def _unmeasured(
    sources: Sequence[EvidenceTable], demands: Sequence[Demand], requested: Requested,
    preferences: Sequence[PreferenceRanking],
) -> Iterator[Unmeasured]:  # fmt: skip
    """Yield the models that fulfil the conditions and have, in no table, a value that measures a demand."""
    fulfilling = [_fulfilling(source, requested, {}) for source in sources]
    for demand in demands:
        rated = {each.model for ranking in preferences if ranking.demand == demand.key for each in ranking.models}
        known: dict[str, KnownModel] = {}
        for source, rows in zip(sources, fulfilling, strict=True):
            columns = {column.key for column in _columns_for(demand, source)}
            rated |= {row.model for row in source.table.rows if columns & row.cells.keys()}
            known = {**_known_models(rows), **known}
        lacking = tuple(known[name] for name in sorted(known.keys() - rated))
        if lacking:
            yield Unmeasured(demand, lacking)


def _known_models(rows: Sequence[BoardRow]) -> dict[str, KnownModel]:
    """Return the models of rows with the size and licence that any of their rows states."""
    known: dict[str, KnownModel] = {}
    for row in rows:
        if not (row.is_baseline or row.is_upload):
            params, licence = row.facts.get("params"), row.facts.get("licence")
            earlier = known.get(row.model)
            size = float(params) if isinstance(params, int | float) else None
            known[row.model] = KnownModel(
                row.model,
                size if earlier is None or earlier.params is None else earlier.params,
                str(licence or "") if earlier is None or not earlier.licence else earlier.licence,
            )
    return known


def probability_better(first: IntervalValue, second: IntervalValue) -> float | None:
    """Return the probability that the first true value is above the second, from their standard errors.

    Both are taken as independent and normal. None where a standard error is unknown.
    """
    if first.stderr is None or second.stderr is None:
        return None
    gap, error = first.value - second.value, hypot(first.stderr, second.stderr)
    if error == 0.0:
        return 0.5 if gap == 0.0 else float(gap > 0.0)
    return normal_cdf(gap / error)


# ------------------------------------------------------------------------------------------ demands


_CONDITION = re.compile(
    r"(?:cheap|free|small|tiny|fast|local|offline|open|laptop|phone)\w*|(?:\d+(?:\.\d+)?\s*)?(?:gb|gib|vram|ram|gpu|cpu)|"
    r"\d+(?:\.\d+)?\s*b(?:illion)?"
)


def _demand(name: str, sources: Sequence[EvidenceTable]) -> Demand:
    if (known := find_capability(name)) is not None:
        return _of_capability(known)
    benchmarks = {label.lower(): column for source in sources for column in source.table.columns
                  for label in (column.key, column.title, *column.tasks[:1])}  # fmt: skip
    word = name.strip().lower()
    ending = {column.key: column for label, column in benchmarks.items() if meant(word, [label]) == label}
    column = benchmarks.get(word) or (next(iter(ending.values())) if len(ending) == 1 else None)
    if column is None and (known := capability_of_language(name)) is not None:
        return _of_capability(known)
    if column is None and _CONDITION.fullmatch(word):
        raise UsageError(
            f"'{name[:80]}' is a condition and no capability: name what the model shall do with --for, and how "
            "large it may be with --max-params (billions of parameters: 8 GB hold about 3 in 16 bits, 12 in 4 bits)"
        )
    if column is None:
        near = nearest(name, [*names(), *benchmarks])
        raise UnknownName("capability", name[:80], near, f"known: {', '.join(capabilities())}, and every benchmark")
    return Demand(column.key, column.title)


def _of_capability(known: Capability) -> Demand:
    suggested = known.suggested or ",".join(known.evaluate)
    return Demand(known.key, known.title, suggested, " ".join(known.advice.split()))


def _columns_for(demand: Demand, source: EvidenceTable) -> list[ScoreColumn]:
    """Return the columns of a table that measure a demand."""
    if demand.key in capabilities():
        return [
            column for column in source.table.columns
            if demand.key in {key for task in (column.tasks or (measured_task(column),))
                              for key in capabilities_of_task(task)}
        ]  # fmt: skip
    return [column for column in source.table.columns if demand.title.lower() in {column.key, column.title.lower()}
            or demand.key == column.key or demand.key in column.tasks]  # fmt: skip


def _command(demand: Demand) -> str:
    return f"assaymark run --model_args pretrained=MODEL --tasks {demand.suggested}" if demand.suggested else ""


# ------------------------------------------------------------------------------------------ one table


def _ranking(source: EvidenceTable, demands: Sequence[Demand], requested: Requested) -> ModelRanking:
    by_demand = {demand: _columns_for(demand, source) for demand in demands}
    notes = [
        f"{column.title} has a unit of its own and does not count"
        for column in dict.fromkeys(column for columns in by_demand.values() for column in columns)
        if not _counts(column)
    ]
    excluded: dict[str, int] = {}
    rows = _fulfilling(source, requested, excluded)
    columns = {demand: [column for column in some if _counts(column)] for demand, some in by_demand.items()}
    everyone = [row for row in source.table.rows if not (row.is_baseline or row.is_upload)]
    used = _used(columns, rows) or _used(columns, everyone)  # conditions that no model fulfils are no lack of evidence
    keys = {use.column for use in used}
    models: dict[str, list[BoardRow]] = {}
    for row in rows:
        models.setdefault(row.model, []).append(row)
    complete = {name: [row for row in some if keys <= row.cells.keys()] for name, some in models.items()}
    lacking = sum(not some for some in complete.values())
    if lacking and keys:
        excluded["not evaluated on every benchmark used"] = lacking
    ranked = _ranked({name: some for name, some in complete.items() if some}, used) if keys else []
    if any(model.value.stderr is None for model in ranked):
        notes.append(NO_ERRORS)
    classes: dict[int, list[Ranked]] = {}
    for model in ranked:
        params = model.row.facts.get("params")
        is_known = isinstance(params, int | float) and not isinstance(params, bool)
        at = sum(float(params) > end for end in SIZES) if is_known and params is not None else len(SIZES) + 1
        classes.setdefault(at, []).append(model)
    return ModelRanking(
        source=source.name,
        title=source.title,
        used=used,
        no_evidence=tuple(demand for demand in demands if demand.key not in {use.demand for use in used}),
        models=tuple(ranked[: requested.top]),
        by_size=tuple(SizeClass(_size_title(at), len(some), some[0]) for at, some in sorted(classes.items())),
        n_ranked=len(ranked),
        excluded=excluded,
        notes=tuple(notes),
    )


def _counts(column: ScoreColumn) -> bool:
    return column.is_share and column.higher_is_better


def _fulfilling(source: EvidenceTable, requested: Requested, excluded: dict[str, int]) -> list[BoardRow]:
    """Return the rows that fulfil the conditions.

    Counts in `excluded`, by reason, the models that miss only one condition: a fact that is stated, or availability.
    """
    index = source.table.index
    keys = search_keys({column.key: column.title for column in source.table.columns})
    models = index.may_rank & index.matching(parse_query(requested.where, keys))
    unusable = (index.flags("flagged") == 1) | (index.flags("available") == 0)
    conditions = {"flagged, or no longer available": (~unusable, unusable)}  # reason -> fulfilled, not to be judged
    if requested.max_params is not None:
        within = index.fulfilling(Term("params", "<=", requested.max_params))
        conditions["number of parameters not stated"] = (within, np.isnan(index.numbers("params")))
    if requested.licence:
        licensed = index.fulfilling(Term("licence", "begins", requested.licence.lower()))
        conditions["licence not stated"] = (licensed, index.texts("licence").codes < 0)
    rows = _where(source, np.logical_and.reduce([models, *(fulfilled for fulfilled, _ in conditions.values())]))
    counted = {row.model for row in rows}
    for why, (_, unknown) in conditions.items():
        others = [fulfilled for reason, (fulfilled, _) in conditions.items() if reason != why]
        lacking = {row.model for row in _where(source, np.logical_and.reduce([models, unknown, *others]))} - counted
        counted |= lacking
        if lacking:
            excluded[why] = len(lacking)
    return rows


def _where(source: EvidenceTable, mask: NDArray[np.bool_]) -> list[BoardRow]:
    return [source.table.rows[at] for at in np.flatnonzero(mask).tolist()]


def _used(columns: Mapping[Demand, Sequence[ScoreColumn]], rows: Sequence[BoardRow]) -> tuple[Used, ...]:
    """Return the benchmarks to use, which all ranked models share.

    Of the sets of benchmarks that rows have, it is the one that covers the most demands, then has the most values.
    """
    every = {column.key: column for some in columns.values() for column in some}
    held = [frozenset(every.keys() & row.cells.keys()) for row in rows]
    popular = Counter(key for keys in held for key in keys)
    candidates = {frozenset(_one_per_task([every[key] for key in keys], popular)) for keys in set(held) if keys}
    counts = {candidate: sum(candidate <= keys for keys in held) for candidate in candidates}
    if not counts:
        return ()

    def rating(keys: frozenset[str]) -> tuple[int, int, list[str]]:
        covered = sum(any(column.key in keys for column in some) for some in columns.values())
        return covered, counts[keys] * len(keys), sorted(keys)

    chosen = max(counts, key=rating)
    covered = {demand: [column for column in some if column.key in chosen] for demand, some in columns.items()}
    n = sum(bool(some) for some in covered.values())
    return tuple(
        Used(
            demand.key,
            column.key,
            column.title,
            " ".join(str(task_card(measured_task(column)).get("measures", "")).split()),
            1.0 / (n * len(some)),
        )
        for demand, some in covered.items()
        for column in some
    )


def _one_per_task(columns: Sequence[ScoreColumn], popular: Mapping[str, int]) -> Iterator[str]:
    """Yield one column for each task, the commonest, since a task at two numbers of shots must not count twice."""
    by_task: dict[tuple[str, ...], list[str]] = {}
    for column in columns:
        by_task.setdefault(column.tasks or (column.key,), []).append(column.key)
    yield from (max(keys, key=lambda key: (popular[key], key)) for keys in by_task.values())


def _ranked(models: Mapping[str, Sequence[BoardRow]], used: Sequence[Used]) -> list[Ranked]:
    """Return all models, the best first."""
    weights: dict[str, float] = {}
    for use in used:
        weights[use.column] = weights.get(use.column, 0.0) + use.share
    rows = [max(some, key=lambda row: _weight_of_evidence(row, weights)) for some in models.values()]
    valued = [(row, _value(row, weights)) for row in rows]
    valued.sort(key=lambda pair: (-pair[1].value, pair[0].model))
    return [
        Ranked(
            rank=at + 1,
            row=row,
            value=value,
            better_than_next=probability_better(value, valued[at + 1][1]) if at + 1 < len(valued) else None,
            first_is_better=probability_better(valued[0][1], value) if at else None,
            cells={key: row.cells[key] for key in weights},
            n_set_ups=len(models[row.model]),
            reason=_reason(row, used),
        )
        for at, (row, value) in enumerate(valued)
    ]


def _value(row: BoardRow, weights: Weights) -> IntervalValue:
    mean = mean_number([_with_error(row.cells[key].number) for key in weights], list(weights.values()))
    if mean.low is None or mean.high is None:
        return mean
    return replace(mean, low=max(mean.low, 0.0), high=min(mean.high, 1.0))


def _with_error(number: IntervalValue) -> IntervalValue:
    """Return a number with the error of its interval if its own error is 0, since all answers were right, or wrong."""
    if number.stderr != 0.0 or number.low is None or number.high is None:
        return number
    return replace(number, stderr=(number.high - number.low) / (2.0 * two_sided_z(CONFIDENCE)))


def _weight_of_evidence(row: BoardRow, weights: Weights) -> tuple[int, str, str]:
    return sum(row.cells[key].n or 0 for key in weights), str(row.facts.get("date", "")), row.id


def _reason(row: BoardRow, used: Sequence[Used]) -> str:
    """Return a model's values that speak for it, in one line."""
    demands: dict[str, list[str]] = {}
    for use in used:
        number = row.cells[use.column].number
        ends = "" if number.low is None or number.high is None else f" ({100 * number.low:.1f}–{100 * number.high:.1f})"
        demands.setdefault(use.demand, []).append(f"{use.title} {100 * number.value:.1f}{ends}")
    words = ["; ".join(f"{_title(key)}: {', '.join(parts)}" for key, parts in demands.items())]
    if row.facts.get("limit"):
        words.append(f"on some samples only ({row.facts['limit']})")
    if row.origin in FROM_FILES:
        words.append(ORIGINS[row.origin])
    return "; ".join(words)


def _title(key: str) -> str:
    known = capabilities().get(key)
    return key if known is None else known.title.lower()


def _size_title(at: int) -> str:
    if at > len(SIZES):
        return "size not stated"
    if at == 0:
        return f"up to {SIZES[0]:g} B"
    return f"over {SIZES[-1]:g} B" if at == len(SIZES) else f"{SIZES[at - 1]:g} to {SIZES[at]:g} B"
