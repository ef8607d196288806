"""Ratings from votes: one scale for all connected models, with intervals and ranks, and the models without a rating.

Covariates of a rating: the side of an answer, and the difference in style between the two answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assaymark.arena.rating_details import (
    RatingFit,
    RatingMatrices,
    TieParameter,
    Ties,
    TopVotes,
    fit_votes,
    matrices_of,
    top_votes,
    vote_weights,
)
from assaymark.arena.votes import ORDER, By, Over, Votes
from assaymark.errors import AssaymarkError, UnknownName, UsageError
from assaymark.registry import meant, nearest
from assaymark.statistics.arrays import Floats, Ints
from assaymark.statistics.battles import Battles, Standing, average_win_rates, connected_groups, standing_of
from assaymark.statistics.bradley_terry import ELO_SCALE, BradleyTerry, TooFewVotes, expected_win_rates, online_elo
from assaymark.statistics.distributions import chi_square_sf, two_sided_z
from assaymark.statistics.multiplicity import RankSet, holm
from assaymark.statistics.rating_errors import RatingErrors, bootstrap_strengths, one_sided_bound
from assaymark.statistics.rating_ranks import chances_of_best, ranks_by_upper_bound, rating_rank_sets


@dataclass(frozen=True, slots=True, eq=False)
class Covariates:
    """Columns for `fit_bradley_terry`. Shapes: columns [votes, names]; None without any."""

    names: tuple[str, ...]
    columns: Floats | None
    constant: tuple[str, ...]  # styles in which no two answers differ, which have no column


def covariates_of(votes: Votes, *, style: bool, side: bool) -> Covariates:
    """Return the differences (a - b) / (a + b + 1) of each style in standard deviations, and ones for side A.

    They are not centred: swapping the sides of a battle changes the sign of all its covariates, so that ratings do not
    depend on the assignment of sides.

    Source: style control of Chatbot Arena 2024 (FastChat's normalisation, which also centres).
    """
    columns: dict[str, Floats] = {"side A": np.ones(len(votes.battles))} if side else {}
    constant: list[str] = []
    for name, values in votes.styles.items() if style else ():
        difference = (values[:, 0] - values[:, 1]) / (values.sum(axis=1) + 1.0)
        spread = float(np.sqrt((difference**2).mean()))
        if spread > 0:
            columns[name] = difference / spread
        else:
            constant.append(name)
    table = np.column_stack(list(columns.values())) if columns else None
    return Covariates(tuple(columns), table, tuple(constant))


Labels = NDArray[np.generic]

INITIAL = 1000.0
"""The mean rating of the rated models if there is no anchor."""


@dataclass(frozen=True, slots=True)
class RatingSettings:
    """How ratings are computed from votes."""

    by: By | None = None  # clusters of dependent votes; None: by prompt, else judge, else vote, as the file has them
    style: bool = False
    side: bool = False
    anchor: tuple[str, float] | None = None  # a model and its rating
    interval: Literal["sandwich", "bootstrap"] = "sandwich"
    confidence: float = 0.95
    ties: Ties = "half"
    reweight: bool = False  # each vote by 1 / max(votes of its pair, 50)
    prompt_cap: float | None = None  # largest share of the votes that those on one prompt weigh; None: no limit
    over: Over | None = None  # also rate each part of the votes
    matrix: bool = False
    influence: bool = False


@dataclass(frozen=True, slots=True)
class Rating:
    """One model's rating. Units: rating, low, high in points (400 are odds of ten to one); win rates in [0, 1]."""

    model: str
    rating: float
    low: float | None  # of the rating minus the mean of all, or minus the anchor's; None: too few clusters, or anchor
    high: float | None
    n_votes: int
    n_ties: int
    n_clusters: int  # prompts (judges, ...) of its votes
    best_rank: int
    worst_rank: int
    rank_by_upper_bound: int | None  # the published leaderboards' rank
    expected_win_rate: float  # against all other rated models equally often, ties half
    average_win_rate: float  # observed, against the opponents that it met
    online_elo: float  # in the file's order
    p_best: float | None = None  # probability to have the highest rating; None with fewer than two clusters


@dataclass(frozen=True, slots=True)
class ApartModel:
    """A model without a rating, because chains of wins and ties do not connect it with the rated ones both ways."""

    model: str
    standing: Standing
    n_votes: int
    n_against_rated: int  # all won if `standing` is "above", all lost if "below"
    bound: float | None  # lower (upper) bound in points, given the rated models' strengths, without style and side


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one standard deviation of a style, or of side A, on the rating."""

    name: str
    points: float
    low: float | None
    high: float | None
    logits: float


@dataclass(frozen=True, slots=True)
class RatedPart:
    """The ratings of one category, language or month, shifted to the scale of the ratings of all votes."""

    name: str
    n_votes: int
    ratings: tuple[Rating, ...]  # empty if no models can be rated
    apart: tuple[str, ...]  # models with votes in it and without a rating
    why_none: str | None = None


@dataclass(frozen=True, slots=True)
class RatingChange:
    """One model's ratings in several parts. points: the rating in the last one minus that in the first."""

    model: str
    first: str  # part
    last: str
    points: float
    p: float  # that all parts have the same rating
    significance: float  # p after Holm's correction over all models


@dataclass(frozen=True, slots=True)
class ArenaRatings:
    """All ratings of a file of votes, the highest first, with counts and settings."""

    ratings: tuple[Rating, ...]
    apart: tuple[ApartModel, ...]
    effects: tuple[Effect, ...]
    settings: RatingSettings
    by: By
    n_clusters: int
    n_votes: int  # between rated models
    n_ties: int
    n_without_style: int  # votes excluded from a style-controlled rating
    same_styles: tuple[str, ...]  # styles in which no two answers differ
    median_widths: Mapping[str, float]  # of the sandwich intervals, for each possible clustering
    ties: TieParameter | None = None  # of a model of ties
    matrices: RatingMatrices | None = None  # if requested, as are the following
    top_votes: TopVotes | None = None
    parts: tuple[RatedPart, ...] = ()
    changes: tuple[RatingChange, ...] = ()  # of each model between the parts, the clearest first
    n_without_part: int = 0  # votes whose category, language or time is not known


def rate(votes: Votes, settings: RatingSettings) -> ArenaRatings:
    """Return the ratings of the largest connected group of models, and the models outside of it.

    Raises: DataError if no two models are connected; UnknownName for an anchor that is not rated; UsageError for
    labels or styles that the file does not have.
    """
    by = _chosen_by(votes, settings)
    _check(votes, settings)
    usable = votes.with_style() if settings.style else votes
    rated, group = _rated(usable)
    if settings.anchor is not None:
        settings = replace(settings, anchor=(meant(settings.anchor[0], rated.models), settings.anchor[1]))
    covariates = covariates_of(rated, style=settings.style, side=settings.side)
    groupings = rated.groupings()
    prompts = groupings.get("prompt")
    weights = vote_weights(rated.battles, prompts, by_pair=settings.reweight, prompt_cap=settings.prompt_cap)
    fitted = fit_votes(rated.battles, covariates.columns, settings.ties, weights)
    errors = {name: fitted.errors(own) for name, own in groupings.items()}
    replicates = None
    if settings.interval == "bootstrap":
        replicates = bootstrap_strengths(
            rated.battles, fitted.fit, groupings[by], covariates.columns, weights=fitted.weights
        )
    scaled = _Scaled(rated, fitted, errors[by], settings, _anchor_index(rated, settings), replicates)
    order = np.argsort(-fitted.fit.strengths, kind="stable")
    ratings = ArenaRatings(
        ratings=scaled.ratings(),
        apart=scaled.unrated(usable, group, usable.groupings()[by]),
        effects=scaled.effects(covariates.names),
        settings=settings,
        by=by,
        n_clusters=errors[by].n_clusters,
        n_votes=len(rated.battles),
        n_ties=int((rated.battles.outcome == 0.5).sum()),
        n_without_style=len(votes.battles) - len(usable.battles),
        same_styles=covariates.constant,
        median_widths={name: width for name, own in errors.items() if (width := scaled.median_width(own)) is not None},
        ties=fitted.parameter(errors[by], settings.confidence),
        matrices=matrices_of(fitted, rated.models, order) if settings.matrix else None,
        top_votes=top_votes(fitted, rated.models, rated.rows) if settings.influence else None,
    )
    return ratings if settings.over is None else _with_parts(usable, settings.over, ratings)


def _check(votes: Votes, settings: RatingSettings) -> None:
    """Raise UsageError for settings that exclude each other, or that the file does not allow."""
    if settings.interval == "bootstrap" and settings.ties != "half":
        raise UsageError(f"the bootstrap is for ties as half wins; for {settings.ties} use the sandwich")
    if settings.over is not None and settings.over not in votes.parts:
        known = ", ".join(votes.parts) or "none of category, language and time"
        raise UsageError(f"the file has no column for '{settings.over}'; votes can be divided by {known}")


def _with_parts(votes: Votes, over: Over, ratings: ArenaRatings) -> ArenaRatings:
    """Return the ratings with those of each part, the largest part first, months in their order."""
    labels = votes.parts[over]
    names, counts = np.unique(labels[labels != ""].astype(str), return_counts=True)
    order = range(len(names)) if over == "time" else np.argsort(-counts, kind="stable").tolist()
    parts = tuple(rated_part(votes, str(names[index]), labels == names[index], ratings) for index in order)
    plain = [
        (part.name, [(rating.model, rating.rating, rating.low, rating.high) for rating in part.ratings])
        for part in parts
    ]
    changes = changes_between(plain, ratings.settings.confidence)
    return replace(ratings, parts=parts, changes=changes, n_without_part=int((labels == "").sum()))


def rated_part(votes: Votes, name: str, used: NDArray[np.bool_], whole: ArenaRatings) -> RatedPart:
    """Return the ratings of some votes. Their mean is that of the same models' ratings by all votes."""
    battles = votes.battles
    some = Battles(battles.first[used], battles.second[used], battles.outcome[used], battles.n_models)
    settings = replace(whole.settings, over=None, matrix=False, influence=False)
    seen = {votes.models[index] for index in np.unique(np.concatenate([some.first, some.second])).tolist()}
    try:
        rated = rate(votes.chosen(used, some, votes.models), settings)
    except AssaymarkError as error:
        return RatedPart(name, len(some), (), tuple(sorted(seen)), str(error))
    overall = {rating.model: rating.rating for rating in whole.ratings}
    both = [overall[rating.model] - rating.rating for rating in rated.ratings if rating.model in overall]
    shift = float(np.mean(both)) if both and settings.anchor is None else 0.0
    ratings = tuple(_shifted(rating, shift) for rating in rated.ratings)
    return RatedPart(name, len(some), ratings, tuple(sorted(seen - {rating.model for rating in ratings})))


def _shifted(rating: Rating, shift: float) -> Rating:
    low, high = (None if end is None else end + shift for end in (rating.low, rating.high))
    return replace(rating, rating=rating.rating + shift, low=low, high=high)


def _chosen_by(votes: Votes, settings: RatingSettings) -> By:
    known = votes.groupings()
    if settings.by is None:
        return next(name for name in ORDER if name in known)
    if settings.by not in known:
        raise UsageError(f"the file has no column for '{settings.by}'; votes can be clustered by {', '.join(known)}")
    return settings.by


def _rated(votes: Votes) -> tuple[Votes, Ints]:
    """Return the votes within the largest group that can be rated, and its models' indices among all."""
    group = connected_groups(votes.battles.wins())[0]
    if len(group) < 2:
        raise TooFewVotes(
            f"no two of {len(votes.models)} models are connected both ways by wins and ties in {len(votes.battles)} "
            "votes, so no model can be rated; each model needs a win or tie, and a loss or tie: collect more votes"
        )
    battles, used = votes.battles.among(group)
    return votes.chosen(used, battles, [votes.models[index] for index in group]), group


def _anchor_index(rated: Votes, settings: RatingSettings) -> int | None:
    if settings.anchor is None:
        return None
    name = settings.anchor[0]
    if name not in rated.models:
        raise UnknownName("rated model", name, nearest(name, rated.models) or rated.models[:5])
    return rated.models.index(name)


@dataclass(frozen=True, slots=True, eq=False)
class _Scaled:
    """A fit on the scale of the published leaderboards."""

    votes: Votes
    fitted: RatingFit
    errors: RatingErrors
    settings: RatingSettings
    anchor: int | None
    replicates: Floats | None

    @property
    def fit(self) -> BradleyTerry:
        """Strengths and effects."""
        return self.fitted.fit

    def points(self, strength: float) -> float:
        """Return a strength as a rating."""
        if self.anchor is None or self.settings.anchor is None:
            return strength * ELO_SCALE + INITIAL
        return (strength - float(self.fit.strengths[self.anchor])) * ELO_SCALE + self.settings.anchor[1]

    def ends(self, model: int) -> tuple[float, float] | None:
        """Return the interval of a rating; None for the anchor and if no error can be estimated."""
        if model == self.anchor or self.errors.stderr(model, self.anchor) is None:
            return None
        strength = float(self.fit.strengths[model])
        if self.replicates is None:
            interval = self.errors.interval(strength, model, self.anchor, self.settings.confidence)
            return None if interval is None else (self.points(interval.low), self.points(interval.high))
        moved = self.replicates[:, model]
        if self.anchor is not None:  # the anchor is fixed in every draw
            moved = moved - self.replicates[:, self.anchor] + self.fit.strengths[self.anchor]
        low, high = np.quantile(moved, self.tails())
        return self.points(float(low)), self.points(float(high))

    def tails(self) -> tuple[float, float]:
        """Return the probabilities of the interval's two ends."""
        tail = (1.0 - self.settings.confidence) / 2.0
        return tail, 1.0 - tail

    def ratings(self) -> tuple[Rating, ...]:
        """Return every model's rating, the highest first."""
        battles, models = self.votes.battles, self.votes.models
        ends = [self.ends(model) for model in range(len(models))]
        sets = rating_rank_sets(self.fit, self.errors, self.settings.confidence)
        upper = self.upper_ranks(ends)
        expected, seen = expected_win_rates(self.fitted.expected()), average_win_rates(battles.wins())
        best = chances_of_best(self.fit, self.errors, self.replicates)
        votes, ties, elo = battles.votes(), battles.ties().sum(axis=1), online_elo(battles)

        def rating_of(ranks: RankSet) -> Rating:
            index = ranks.index
            low, high = ends[index] or (None, None)
            return Rating(
                models[index], self.points(ranks.value), low, high, int(votes[index]), int(ties[index]),
                int(self.errors.n_clusters_of[index]), ranks.best, ranks.worst, upper[index], float(expected[index]),
                float(seen[index]), float(elo[index]), None if best is None else float(best[index]),
            )  # fmt: skip

        return tuple(map(rating_of, sets))

    def effects(self, names: Sequence[str]) -> tuple[Effect, ...]:
        """Return the effect of each covariate."""
        effects: list[Effect] = []
        for index, name in enumerate(names):
            value = float(self.fit.effects[index])
            interval = self.errors.effect_interval(self.fit, index, self.settings.confidence)
            low, high = (None, None) if interval is None else (interval.low, interval.high)
            if self.replicates is not None and interval is not None:
                low, high = np.quantile(self.replicates[:, len(self.votes.models) + index], self.tails()).tolist()
            points = [None if end is None else end * ELO_SCALE for end in (low, high)]
            effects.append(Effect(name, value * ELO_SCALE, points[0], points[1], value))
        return tuple(effects)

    def upper_ranks(self, ends: Sequence[tuple[float, float] | None]) -> list[int | None]:
        """Return the leaderboards' ranks; None without an interval. The anchor's interval is a point, as there."""
        unknown = (np.nan, np.nan)  # compares as neither above nor below any other
        intervals = [end or unknown for end in ends]
        if self.anchor is not None and self.settings.anchor is not None:
            intervals[self.anchor] = (self.settings.anchor[1],) * 2
        table = np.array(intervals)
        ranks = ranks_by_upper_bound(table[:, 0], table[:, 1]).tolist()
        return [None if np.isnan(low) else rank for rank, low in zip(ranks, table[:, 0], strict=True)]

    def unrated(self, votes: Votes, group: Ints, clusters: Labels) -> tuple[ApartModel, ...]:
        """Return the models that are not rated, those with most votes first, each with its bound."""
        standings = standing_of(votes.battles.wins(), group)
        models = [
            self._unrated(votes, group, clusters, index, standing)
            for index, standing in enumerate(standings)
            if standing
        ]
        return tuple(sorted(models, key=lambda model: (-model.n_votes, model.model)))

    def _unrated(self, votes: Votes, group: Ints, clusters: Labels, model: int, standing: Standing) -> ApartModel:
        battles = votes.battles
        strengths = np.full(len(votes.models), np.nan)
        strengths[group] = self.fit.strengths
        own = (battles.first == model) | (battles.second == model)
        met = strengths[np.where(battles.first == model, battles.second, battles.first)]
        against = own & ~np.isnan(met)
        bound = None
        if standing != "unjoined":
            bound = one_sided_bound(
                met[against], clusters[against], won_all=standing == "above", confidence=self.settings.confidence,
                log_chance=self.fitted.log_chance(),
            )  # fmt: skip
        points = None if bound is None else self.points(bound)
        return ApartModel(votes.models[model], standing, int(own.sum()), int(against.sum()), points)

    def median_width(self, errors: RatingErrors) -> float | None:
        """Return the median width in points of intervals with these errors; None without intervals."""
        confidence = self.settings.confidence
        intervals = [errors.interval(0.0, index, self.anchor, confidence) for index in range(len(self.votes.models))]
        widths = [
            ELO_SCALE * (interval.high - interval.low)
            for index, interval in enumerate(intervals)
            if interval and index != self.anchor
        ]
        return float(np.median(widths)) if widths else None


PartRatings = tuple[str, Sequence[tuple[str, float, float | None, float | None]]]  # part; model, rating, low, high


def changes_between(parts: Sequence[PartRatings], confidence: float) -> tuple[RatingChange, ...]:
    """Test for each model whether its ratings in all parts are equal: Σ (r - mean)² / error² is χ² on parts - 1.

    The mean is weighted by 1 / error². Errors are taken from the intervals as normal ones, so they are a little too
    large where few clusters widen an interval; votes of different parts count as independent. Ratings are relative to
    the mean of the models: one that changes by D shifts each of the n - 1 others by D / n the other way.

    Source: Cochran 1937 (homogeneity of several measurements); Holm 1979.
    """
    z = two_sided_z(confidence)
    known: dict[str, list[tuple[str, float, float]]] = {}
    for part, ratings in parts:
        for model, rating, low, high in ratings:
            if low is not None and high is not None and high > low:
                known.setdefault(model, []).append((part, rating, (high - low) / (2.0 * z)))
    tested = [(model, estimates, _p_of_equal(estimates)) for model, estimates in known.items() if len(estimates) > 1]
    adjusted = holm([p for *_, p in tested]) if tested else ()
    changes = [
        RatingChange(model, estimates[0][0], estimates[-1][0], estimates[-1][1] - estimates[0][1], p, float(after))
        for (model, estimates, p), after in zip(tested, adjusted, strict=True)
    ]
    return tuple(sorted(changes, key=lambda change: change.p))


def _p_of_equal(estimates: Sequence[tuple[str, float, float]]) -> float:
    weights = [1.0 / error**2 for *_, error in estimates]
    mean = sum(weight * rating for weight, (_, rating, _) in zip(weights, estimates, strict=True)) / sum(weights)
    spread = sum(weight * (rating - mean) ** 2 for weight, (_, rating, _) in zip(weights, estimates, strict=True))
    return chi_square_sf(spread, len(estimates) - 1)
