"""The ratings page's contents: a pure function of the votes up to the last published batch.

Also whether the answers were good enough: a vote says which one is better, its marks whether each is acceptable.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assaymark.arena.arena_rows import Batch, ModelRow, VoteRow
from assaymark.arena.dishonest_voters import Flag, flagged_voters
from assaymark.arena.rating_documents import FEW_VOTES, basis, warnings
from assaymark.arena.ratings import ArenaRatings, RatedPart, Rating, RatingSettings, rate, rated_part
from assaymark.arena.vote_files import votes_in
from assaymark.arena.votes import Votes, published_row
from assaymark.datasets.rows import Rows
from assaymark.documents.numbers import counted
from assaymark.errors import AssaymarkError
from assaymark.statistics.bradley_terry import ENOUGH_VOTES, TooFewVotes
from assaymark.statistics.intervals import Interval, wilson


@dataclass(frozen=True, slots=True)
class ModelQuality:
    """How often a model's answers were marked acceptable, with its 95% interval."""

    model: str
    n_marked: int
    acceptable: Interval


@dataclass(frozen=True, slots=True)
class VoteQuality:
    """Shares among the battles with both answers marked, and wins of an acceptable answer over a poor one."""

    n_battles: int
    poor_poor: float
    acceptable_poor: float
    acceptable_acceptable: float
    n_decided: int  # of the acceptable-poor battles, those with a winner
    good_wins: float | None  # share of these that the acceptable answer won
    models: tuple[ModelQuality, ...]


def quality_of(votes: Sequence[VoteRow]) -> VoteQuality | None:
    """Summarise the marks; None without a battle with both answers marked."""
    both = [vote for vote in votes if vote.mark_a and vote.mark_b]
    if not both:
        return None
    kinds = Counter(sum(mark == "acceptable" for mark in (vote.mark_a, vote.mark_b)) for vote in both)
    decided = [vote for vote in both if vote.mark_a != vote.mark_b and vote.choice in {"a", "b"}]
    good = sum((vote.mark_a if vote.choice == "a" else vote.mark_b) == "acceptable" for vote in decided)
    marked: dict[str, list[bool]] = {}
    for vote in votes:
        for model, mark in ((vote.model_a, vote.mark_a), (vote.model_b, vote.mark_b)):
            if mark:
                marked.setdefault(model, []).append(mark == "acceptable")
    return VoteQuality(
        len(both),
        poor_poor=kinds[0] / len(both),
        acceptable_poor=kinds[1] / len(both),
        acceptable_acceptable=kinds[2] / len(both),
        n_decided=len(decided),
        good_wins=good / len(decided) if decided else None,
        models=tuple(
            ModelQuality(model, len(marks), wilson(sum(marks), len(marks)))
            for model, marks in sorted(marked.items(), key=lambda item: -sum(item[1]) / len(item[1]))
        ),
    )


PROMPT_CAP = 0.01
"""Votes on one prompt and its near-duplicates together weigh at most this share of all, or three times the mean."""
PRELIMINARY = 100
"""A model with fewer votes is marked as preliminary."""
MOST_MOMENTS = 12
"""Moments in the history of ratings, each of which is one more fit."""
FEWEST_VOTES = 20
"""Votes between two moments of the history."""


@dataclass(frozen=True, slots=True)
class RatedModel:
    """A model on the board. `rating` is None without one: see `standing`."""

    model: str
    rating: Rating | None
    n_votes: int
    is_preliminary: bool
    withdrawn_at: str | None
    ends_tier: bool  # whether a line is drawn below: all above are better than all below
    standing: str = ""  # of a model without a rating


@dataclass(frozen=True, slots=True)
class Matrix:
    """Battles of each two models, in the order of the board. Shapes: [models][models]."""

    models: tuple[str, ...]
    n_battles: tuple[tuple[int, ...], ...]
    win_fraction: tuple[tuple[float | None, ...], ...]  # of the row's model, without ties; None: no decisive battle


@dataclass(frozen=True, slots=True)
class MomentRating:
    """One model's rating and its interval, in points; None: too few clusters."""

    model: str
    rating: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RatedMoment:
    """The ratings of the votes up to a moment. Units: at in seconds since 1970, of the last of these votes."""

    at: float
    n_votes: int
    ratings: tuple[MomentRating, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The board of one batch; all counts are of its votes."""

    batch: Batch | None
    settings: RatingSettings
    category: str | None
    categories: Mapping[str, int]  # category -> votes, of all votes of the batch
    language: str | None
    languages: Mapping[str, int]  # language of the prompt -> votes, of all votes of the batch where it is known
    models: tuple[RatedModel, ...]
    fitted: ArenaRatings | None
    why_none: str | None  # why there are no ratings
    n_votes: int
    n_ties: int
    n_both_bad: int
    n_voters: int
    n_prompts: int
    n_prompt_groups: int  # near-duplicates are one
    largest_prompt_group: int  # votes
    largest_voter: int  # votes of the voter with most votes
    flagged: tuple[Flag, ...]
    n_flagged_votes: int
    matrix: Matrix
    quality: VoteQuality | None
    n_skipped: int = 0  # battles that their voters left for another one
    basis: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    history: tuple[RatedMoment, ...] = ()  # by time; empty with fewer than 20 votes
    parts: tuple[RatedPart, ...] = ()  # categories, then languages, of two or more with `least` votes
    least: int = PRELIMINARY

    def offered(self, n_votes: Mapping[str, int]) -> dict[str, int]:
        """Return the categories or languages with enough votes to be rated."""
        return {name: n for name, n in n_votes.items() if n >= self.least}


def publish_ratings(
    votes: Sequence[VoteRow],
    models: Sequence[ModelRow],
    *,
    style: bool = False,
    category: str | None = None,
    language: str | None = None,
    languages: Mapping[str, str] | None = None,
    texts: Mapping[str, str] | None = None,
    least: int = PRELIMINARY,
    clusters: Mapping[str, str] | None = None,
) -> Published:
    """Return the board of these votes. Votes of the named mode, and of flagged voters, do not count.

    Args:
        models: all registered ones; those without votes are listed too.
        style: control for the style of the answers, which needs `texts`.
        category: use only votes on prompts of this category.
        language: use only votes on prompts in this language.
        languages: of the prompts, by commitment; those without one are in no language's board.
        least: votes below which a model is marked as preliminary, and a category or language is not offered.
        clusters: by prompt id: the first one of its near-duplicates; those without one stand for themselves.
    """
    unnamed = [vote for vote in votes if vote.is_counted]
    flagged = flagged_voters(unnamed)
    honest = [vote for vote in unnamed if vote.voter not in flagged]
    known = languages or {}
    used = [
        vote
        for vote in honest
        if category in {None, vote.category} and language in {None, known.get(vote.prompt_commitment)}
    ]
    same = clusters or {}
    grouped = [replace(vote, prompt_id=same.get(vote.prompt_id, vote.prompt_id)) for vote in used]
    settings = RatingSettings(side=True, style=style, prompt_cap=PROMPT_CAP)
    labels = [[vote.category, known.get(vote.prompt_commitment)] for vote in grouped]
    fitted = _fitted(grouped, settings, texts, () if category or language else list(zip(*labels, strict=True)), least)
    rows = _rows(grouped, models, fitted.ratings, least)
    by_voter, by_group = Counter(vote.voter for vote in used), Counter(vote.prompt_id for vote in grouped)
    why_none = fitted.why_none
    if language is not None and honest and not used:
        why_none = f"no published vote is on a prompt in {language}"
    few = f"{len(used):,} votes are on prompts in {language}: with fewer than {FEW_VOTES} most ranks stay open"
    few_lines = (few,) if language is not None and 0 < len(used) < FEW_VOTES else ()
    return Published(
        batch=None, settings=settings, category=category, language=language,
        languages=dict(
            Counter(known[key] for vote in honest if (key := vote.prompt_commitment) in known).most_common()
        ),
        categories=dict(Counter(vote.category for vote in honest if vote.category).most_common()),
        models=rows, fitted=fitted.ratings, why_none=why_none, n_votes=len(used),
        n_ties=sum(vote.choice == "tie" for vote in used), n_both_bad=sum(vote.choice == "both_bad" for vote in used),
        n_voters=len(by_voter), n_prompts=len({vote.prompt_id for vote in used}),
        n_prompt_groups=len(by_group), largest_prompt_group=max(by_group.values(), default=0),
        largest_voter=max(by_voter.values(), default=0), flagged=tuple(flagged.values()),
        n_flagged_votes=len(unnamed) - len(honest), matrix=_matrix(used, [row.model for row in rows]),
        quality=quality_of(used), basis=fitted.basis, warnings=(*few_lines, *fitted.warnings),
        history=fitted.history, parts=fitted.parts, least=least,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Fitted:
    ratings: ArenaRatings | None
    why_none: str | None
    basis: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    history: tuple[RatedMoment, ...] = ()
    parts: tuple[RatedPart, ...] = ()


def _fitted(
    votes: Sequence[VoteRow],
    settings: RatingSettings,
    texts: Mapping[str, str] | None,
    divisions: Sequence[Sequence[str | None]],
    least: int,
) -> _Fitted:
    """Return the ratings of votes, and of each of their parts with `least` votes; `divisions`: ways to divide them."""
    if not votes:
        return _Fitted(None, "no votes are published yet")
    try:
        read = votes_in(Rows.of([published_row(vote, texts) for vote in votes]), style=settings.style)
        ratings = rate(read, settings)
        described = tuple(line for line in basis(ratings, read) if not line.startswith("Read: "))
        history = _rating_history(read, [vote.cast_at for vote in votes], ratings)
        parts: list[RatedPart] = []
        for names in divisions:
            named = np.array([names[row - 1] or "" for row in read.rows.tolist()], dtype=object)
            large = [name for name, n in Counter(named.tolist()).most_common() if name and n >= least]
            parts += [rated_part(read, name, named == name, ratings) for name in large if len(large) > 1]
        return _Fitted(ratings, None, described, tuple(warnings(ratings, read)), history, tuple(parts))
    except TooFewVotes as error:
        enough = ENOUGH_VOTES * len({model for vote in votes for model in (vote.model_a, vote.model_b)})
        said = f"{counted(len(votes), 'vote')} {'is' if len(votes) == 1 else 'are'} too few to rate these models"
        why = f"{said}; about {enough} are usually enough" if len(votes) < enough else said
        return _Fitted(None, why, warnings=(str(error),))
    except AssaymarkError as error:
        return _Fitted(None, str(error))


def _rating_history(votes: Votes, times: Sequence[float], ratings: ArenaRatings) -> tuple[RatedMoment, ...]:
    """Return the ratings after each twelfth of the votes, or fewer moments with at least 20 votes between two.

    Only differences of ratings are known: those of each moment are shifted so that their mean is that of the same
    models' present ratings. A moment at which no two models were connected is left out.

    Args:
        votes: in the order in which they were cast.
        times: of each row that the votes were read from, in seconds since 1970. Shape: [rows].
        ratings: of all these votes.
    """
    n = len(votes.battles)
    n_moments = min(MOST_MOMENTS, n // FEWEST_VOTES)
    moments = []
    for moment in range(1, n_moments + 1):
        until = n * moment // n_moments
        part = rated_part(votes, "", np.arange(n) < until, ratings)
        if part.ratings:
            values = tuple(MomentRating(each.model, each.rating, each.low, each.high) for each in part.ratings)
            moments.append(RatedMoment(times[int(votes.rows[until - 1]) - 1], until, values))
    return tuple(moments)


def _rows(
    votes: Sequence[VoteRow], models: Sequence[ModelRow], ratings: ArenaRatings | None, least: int
) -> tuple[RatedModel, ...]:
    n_votes = Counter(name for vote in votes for name in (vote.model_a, vote.model_b))
    rated = list(ratings.ratings) if ratings else []
    ends = tier_ends([(rating.best_rank, rating.worst_rank) for rating in rated])
    rows = [
        RatedModel(rating.model, rating, n_votes[rating.model], n_votes[rating.model] < least, None, end)
        for rating, end in zip(rated, ends, strict=True)
    ]
    apart = {apart_model.model: apart_model.standing for apart_model in ratings.apart} if ratings else {}
    words = {"above": "won all battles with rated models", "below": "lost all battles with rated models"}
    without = "not connected with the rated models" if ratings else "too few votes"
    rest = [model.name for model in models if model.name not in {row.model for row in rows}]
    for name in sorted(rest, key=lambda name: -n_votes[name]):
        standing = words.get(apart.get(name, ""), without if n_votes[name] else "no votes")
        rows.append(RatedModel(name, None, n_votes[name], True, None, False, standing))
    return tuple(rows)


def tier_ends(ranks: Sequence[tuple[int, int]]) -> list[bool]:
    """Return after which positions a tier ends: nobody above can be as low as anybody below.

    ranks: possible best and worst rank of each model, the highest rating first.
    """
    return [
        bool(ranks[position + 1 :])
        and max(worst for _, worst in ranks[: position + 1]) <= position + 1
        and min(best for best, _ in ranks[position + 1 :]) > position + 1
        for position in range(len(ranks))
    ]


def _matrix(votes: Sequence[VoteRow], models: Sequence[str]) -> Matrix:
    battles = Counter((vote.model_a, vote.model_b) for vote in votes)
    wins = Counter((vote.model_a, vote.model_b) for vote in votes if vote.choice == "a")
    wins += Counter((vote.model_b, vote.model_a) for vote in votes if vote.choice == "b")

    def share(model: str, other: str) -> float | None:
        n = wins[model, other] + wins[other, model]
        return wins[model, other] / n if n else None

    return Matrix(
        tuple(models),
        tuple(tuple(battles[model, other] + battles[other, model] for other in models) for model in models),
        tuple(tuple(share(model, other) for other in models) for model in models),
    )
