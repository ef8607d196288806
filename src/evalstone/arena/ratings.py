"""Votes become ratings: one scale for all models that votes join, with intervals, ranks, and who stands apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evalstone.arena.covariates import covariates_of
from evalstone.arena.votes import ORDER, By, Votes
from evalstone.errors import DataError, UnknownName, UsageError
from evalstone.registry import nearest
from evalstone.statistics.arrays import Floats, Ints
from evalstone.statistics.battles import Standing, average_win_rates, joined_groups, standing_of
from evalstone.statistics.bradley_terry import ELO_SCALE, BradleyTerry, expected_win_rates, fit_bradley_terry
from evalstone.statistics.elo import online_elo
from evalstone.statistics.multiplicity import RankSet
from evalstone.statistics.rating_errors import RatingErrors, bootstrap_strengths, clustered_errors, one_sided_bound
from evalstone.statistics.rating_ranks import ranks_by_upper_bound, rating_rank_sets

__all__ = ["INITIAL", "ApartModel", "ArenaRatings", "Effect", "Rating", "RatingSettings", "rate"]

Labels = NDArray[Any]

INITIAL = 1000.0
"""The mean rating of the rated models, where no model is the anchor."""


@dataclass(frozen=True, slots=True)
class RatingSettings:
    """How votes are made into ratings."""

    by: By | None = None  # what belongs together; None: prompt, else judge, else vote, as the file tells
    style: bool = False
    side: bool = False
    anchor: tuple[str, float] | None = None  # a model and its rating
    interval: Literal["sandwich", "bootstrap"] = "sandwich"
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class Rating:
    """One model's place. Units: rating, low, high in points (400 are odds of ten to one); win rates in [0, 1]."""

    model: str
    rating: float
    low: float | None  # of the rating minus the mean of all, or minus the anchor's; None: too few clusters, or anchor
    high: float | None
    n_votes: int
    n_ties: int
    n_clusters: int  # prompts (judges, ...) its votes lie in
    best_rank: int
    worst_rank: int
    rank_by_upper_bound: int | None  # the published boards' rank
    expected_win_rate: float  # against all other rated models alike, ties half
    average_win_rate: float  # seen, against the opponents that it met
    online_elo: float  # in the file's order


@dataclass(frozen=True, slots=True)
class ApartModel:
    """A model without a rating, because no chain of wins and ties joins it both ways to the rated ones."""

    model: str
    standing: Standing
    n_votes: int
    n_against_rated: int  # all won if it stands above, all lost if below
    bound: float | None  # points it lies above (below), taking the rated ones' as known, style and side aside


@dataclass(frozen=True, slots=True)
class Effect:
    """What one standard deviation of a style, or standing on side A, is worth."""

    name: str
    points: float
    low: float | None
    high: float | None
    logits: float


@dataclass(frozen=True, slots=True)
class ArenaRatings:
    """All ratings of a file of votes, the highest first, and what they rest on."""

    ratings: tuple[Rating, ...]
    apart: tuple[ApartModel, ...]
    effects: tuple[Effect, ...]
    settings: RatingSettings
    by: By
    n_clusters: int
    n_votes: int  # between rated models
    n_ties: int
    n_without_style: int  # votes left out of a style-controlled rating
    same_styles: tuple[str, ...]  # styles in which no two answers differ
    median_widths: Mapping[str, float]  # of the sandwich, by each thing that may belong together


def rate(votes: Votes, settings: RatingSettings) -> ArenaRatings:
    """Return the ratings of the largest group of models that votes join, and the models apart from it.

    Raises: DataError where no two models are joined; UnknownName for an anchor that is not rated; UsageError for
    labels or styles that the file does not have.
    """
    by = _chosen_by(votes, settings)
    told = votes.with_style() if settings.style else votes
    rated, group = _rated(told)
    covariates = covariates_of(rated, style=settings.style, side=settings.side)
    fit = fit_bradley_terry(rated.battles, covariates.columns)
    groupings = rated.groupings()
    errors = {name: clustered_errors(rated.battles, fit, own, covariates.columns) for name, own in groupings.items()}
    replicates = None
    if settings.interval == "bootstrap":
        replicates = bootstrap_strengths(rated.battles, fit, groupings[by], covariates.columns)
    board = _Board(rated, fit, errors[by], settings, _anchor_place(rated, settings), replicates)
    return ArenaRatings(
        ratings=board.ratings(),
        apart=board.apart(told, group, told.groupings()[by]),
        effects=board.effects(covariates.names),
        settings=settings,
        by=by,
        n_clusters=errors[by].n_clusters,
        n_votes=len(rated.battles),
        n_ties=int((rated.battles.outcome == 0.5).sum()),
        n_without_style=len(votes.battles) - len(told.battles),
        same_styles=covariates.left_out,
        median_widths={name: width for name, own in errors.items() if (width := board.median_width(own)) is not None},
    )


def _chosen_by(votes: Votes, settings: RatingSettings) -> By:
    known = votes.groupings()
    if settings.by is None:
        return next(name for name in ORDER if name in known)
    if settings.by not in known:
        raise UsageError(f"the file has no column for '{settings.by}'; its votes go together by {', '.join(known)}")
    return settings.by


def _rated(votes: Votes) -> tuple[Votes, Ints]:
    """Return the votes among the largest group that can be rated, and its models' places among all."""
    group = joined_groups(votes.battles.wins())[0]
    if len(group) < 2:
        raise DataError(
            f"no two of {len(votes.models)} models are joined both ways by wins and ties in {len(votes.battles)} "
            "votes, so nothing can be rated; each model needs a win or tie, and a loss or tie: collect more votes"
        )
    battles, kept = votes.battles.among(group)
    return votes.chosen(kept, battles, [votes.models[place] for place in group]), group


def _anchor_place(rated: Votes, settings: RatingSettings) -> int | None:
    if settings.anchor is None:
        return None
    name = settings.anchor[0]
    if name not in rated.models:
        raise UnknownName("rated model", name, nearest(name, rated.models) or rated.models[:5])
    return rated.models.index(name)


@dataclass(frozen=True, slots=True, eq=False)
class _Board:
    """A fit on the scale of the boards."""

    votes: Votes
    fit: BradleyTerry
    errors: RatingErrors
    settings: RatingSettings
    anchor: int | None
    replicates: Floats | None

    def points(self, strength: float) -> float:
        """Return a strength as a rating."""
        if self.anchor is None or self.settings.anchor is None:
            return strength * ELO_SCALE + INITIAL
        return (strength - float(self.fit.strengths[self.anchor])) * ELO_SCALE + self.settings.anchor[1]

    def ends(self, model: int) -> tuple[float, float] | None:
        """Return the interval of a rating; None for the anchor and where no error can be told."""
        if model == self.anchor or self.errors.stderr(model, self.anchor) is None:
            return None
        strength = float(self.fit.strengths[model])
        if self.replicates is None:
            found = self.errors.interval(strength, model, self.anchor, self.settings.confidence)
            return None if found is None else (self.points(found.low), self.points(found.high))
        moved = self.replicates[:, model]
        if self.anchor is not None:  # the anchor stays where it is in every draw
            moved = moved - self.replicates[:, self.anchor] + self.fit.strengths[self.anchor]
        low, high = np.quantile(moved, self.tails())
        return self.points(float(low)), self.points(float(high))

    def tails(self) -> tuple[float, float]:
        """Return the two probabilities outside an interval's ends."""
        tail = (1.0 - self.settings.confidence) / 2.0
        return tail, 1.0 - tail

    def ratings(self) -> tuple[Rating, ...]:
        """Return every model's rating, the highest first."""
        battles, models = self.votes.battles, self.votes.models
        ends = [self.ends(model) for model in range(len(models))]
        sets = rating_rank_sets(self.fit, self.errors, self.settings.confidence)
        upper = self.upper_ranks(ends)
        expected, seen = expected_win_rates(self.fit.strengths), average_win_rates(battles.wins())
        votes, ties, elo = battles.votes(), battles.ties().sum(axis=1), online_elo(battles)

        def one(ranks: RankSet) -> Rating:
            place = ranks.index
            low, high = ends[place] or (None, None)
            return Rating(
                models[place], self.points(ranks.value), low, high, int(votes[place]), int(ties[place]),
                int(self.errors.n_clusters_of[place]), ranks.best, ranks.worst, upper[place], float(expected[place]),
                float(seen[place]), float(elo[place]),
            )  # fmt: skip

        return tuple(one(ranks) for ranks in sets)

    def effects(self, names: Sequence[str]) -> tuple[Effect, ...]:
        """Return what each covariate is worth."""
        found: list[Effect] = []
        for place, name in enumerate(names):
            value = float(self.fit.effects[place])
            interval = self.errors.effect_interval(self.fit, place, self.settings.confidence)
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            if self.replicates is not None and interval is not None:
                low, high = np.quantile(self.replicates[:, len(self.votes.models) + place], self.tails()).tolist()
            points = [None if end is None else end * ELO_SCALE for end in (low, high)]
            found.append(Effect(name, value * ELO_SCALE, points[0], points[1], value))
        return tuple(found)

    def upper_ranks(self, ends: Sequence[tuple[float, float] | None]) -> list[int | None]:
        """Return the boards' ranks; None without an interval. The anchor's is a point, as the boards had it."""
        unknown = (np.nan, np.nan)  # nobody lies surely above or below it
        shown = [end or unknown for end in ends]
        if self.anchor is not None and self.settings.anchor is not None:
            shown[self.anchor] = (self.settings.anchor[1],) * 2
        table = np.array(shown)
        ranks = ranks_by_upper_bound(table[:, 0], table[:, 1]).tolist()
        return [None if np.isnan(low) else rank for rank, low in zip(ranks, table[:, 0], strict=True)]

    def apart(self, votes: Votes, group: Ints, clusters: Labels) -> tuple[ApartModel, ...]:
        """Return the models that are not rated, those with most votes first, each with what is known of it."""
        standings = standing_of(votes.battles.wins(), group)
        found = [self._apart(votes, group, clusters, place, one) for place, one in enumerate(standings) if one]
        return tuple(sorted(found, key=lambda one: (-one.n_votes, one.model)))

    def _apart(self, votes: Votes, group: Ints, clusters: Labels, model: int, standing: Standing) -> ApartModel:
        battles = votes.battles
        strengths = np.full(len(votes.models), np.nan)
        strengths[group] = self.fit.strengths
        own = (battles.first == model) | (battles.second == model)
        met = strengths[np.where(battles.first == model, battles.second, battles.first)]
        against = own & ~np.isnan(met)
        bound = None
        if standing != "unjoined":
            bound = one_sided_bound(
                met[against], clusters[against], won_all=standing == "above", confidence=self.settings.confidence
            )
        points = None if bound is None else self.points(bound)
        return ApartModel(votes.models[model], standing, int(own.sum()), int(against.sum()), points)

    def median_width(self, errors: RatingErrors) -> float | None:
        """Return the median width of intervals that rest on other clusters."""
        confidence = self.settings.confidence
        found = [errors.interval(0.0, place, self.anchor, confidence) for place in range(len(self.votes.models))]
        widths = [ELO_SCALE * (one.high - one.low) for place, one in enumerate(found) if one and place != self.anchor]
        return float(np.median(widths)) if widths else None
