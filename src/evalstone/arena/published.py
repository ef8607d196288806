"""What the ratings page shows: a pure function of the votes up to the last published batch."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from evalstone.arena.anomalies import Flag, flagged_voters
from evalstone.arena.prompt_clusters import near_duplicates
from evalstone.arena.quality import Quality, quality_of
from evalstone.arena.rating_tables import basis, warnings
from evalstone.arena.ratings import ArenaRatings, Rating, RatingSettings, rate
from evalstone.arena.vote_files import votes_in
from evalstone.arena.vote_rows import published_row
from evalstone.datasets.rows import Rows
from evalstone.errors import EvalstoneError
from evalstone.store import Store
from evalstone.store.arena_rows import Batch, ModelRow, VoteRow

__all__ = ["Matrix", "Published", "RatedModel", "Ratings", "publish_ratings", "tier_ends"]

PROMPT_CAP = 0.01
"""Votes on one prompt and its near-duplicates weigh together at most this share of all, or three times the mean."""
PRELIMINARY = 100
"""A model with fewer votes is marked as preliminary."""


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
class Published:
    """The board of one batch; all counts are of its votes."""

    batch: Batch | None
    settings: RatingSettings
    category: str | None
    categories: Mapping[str, int]  # category -> votes, of all votes of the batch
    models: tuple[RatedModel, ...]
    found: ArenaRatings | None
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
    quality: Quality | None
    basis: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(eq=False)
class Ratings:
    """The boards of a store's log, computed once for each batch."""

    store: Store
    preliminary: int = PRELIMINARY
    _made: dict[tuple[int, bool, str | None, bool], Published] = field(default_factory=dict)

    def board(self, *, style: bool = False, category: str | None = None, acceptable: bool = False) -> Published:
        """Return the board of the last batch, optionally of one category, or of battles of two acceptable answers."""
        batch = self.store.arena.last_batch()
        models = self.store.arena.models()
        key = (batch.sequence if batch else 0, style, category, acceptable)
        if key not in self._made:
            votes = list(self.store.arena.votes(until=key[0])) if batch else []
            every = self.store.arena.answer_texts() if votes else {}
            texts = every if style else None
            chosen = [vote for vote in votes if not acceptable or {vote.mark_a, vote.mark_b} == {"acceptable"}]
            made = publish_ratings(chosen, models, style=style, category=category, texts=texts, least=self.preliminary,
                                   clusters=near_duplicates(votes, every))  # fmt: skip
            self._made = {old: value for old, value in self._made.items() if old[0] == key[0]}
            self._made[key] = replace(made, batch=batch)
        made, withdrawn = self._made[key], {one.name: one.withdrawn_at for one in models}
        rows = tuple(replace(row, withdrawn_at=withdrawn.get(row.model)) for row in made.models)
        return replace(made, models=rows)


def publish_ratings(
    votes: Sequence[VoteRow],
    models: Sequence[ModelRow],
    *,
    style: bool = False,
    category: str | None = None,
    texts: Mapping[str, str] | None = None,
    least: int = PRELIMINARY,
    clusters: Mapping[str, str] | None = None,
) -> Published:
    """Return the board of these votes. Votes of the named mode, and of flagged voters, do not count.

    Args:
        votes: of one batch, in order.
        models: all registered ones; those without votes are listed too.
        style: control for the style of the answers, which needs `texts`.
        category: use only votes on prompts of this category.
        texts: by commitment.
        least: votes below which a model is marked as preliminary.
        clusters: by prompt id: the first one of its near-duplicates; those without one stand for themselves.
    """
    counted = [vote for vote in votes if vote.is_counted]
    flagged = flagged_voters(counted)
    honest = [vote for vote in counted if vote.voter not in flagged]
    used = [vote for vote in honest if category in {None, vote.category}]
    settings = RatingSettings(side=True, style=style, prompt_cap=PROMPT_CAP)
    n_prompts = len({vote.prompt_id for vote in used})
    same = clusters or {}
    used = [replace(vote, prompt_id=same.get(vote.prompt_id, vote.prompt_id)) for vote in used]
    found, why = None, None
    lines: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    if used:
        try:
            read = votes_in(Rows.of([published_row(vote, texts) for vote in used]), style=style)
            found = rate(read, settings)
            described = [line for line in basis(found, read) if not line.startswith("Read: ")]
            lines = (tuple(described), tuple(warnings(found, read)))
        except EvalstoneError as error:
            why = str(error)
    else:
        why = "no votes are published yet"
    rows = _rows(used, models, found, least)
    by_voter, by_group = Counter(vote.voter for vote in used), Counter(vote.prompt_id for vote in used)
    return Published(
        batch=None, settings=settings, category=category,
        categories=dict(Counter(vote.category for vote in honest if vote.category).most_common()),
        models=rows, found=found, why_none=why, n_votes=len(used),
        n_ties=sum(vote.choice == "tie" for vote in used), n_both_bad=sum(vote.choice == "both_bad" for vote in used),
        n_voters=len(by_voter), n_prompts=n_prompts,
        n_prompt_groups=len(by_group), largest_prompt_group=max(by_group.values(), default=0),
        largest_voter=max(by_voter.values(), default=0), flagged=tuple(flagged.values()),
        n_flagged_votes=len(counted) - len(honest), matrix=_matrix(used, [row.model for row in rows]),
        quality=quality_of(used), basis=lines[0], warnings=lines[1],
    )  # fmt: skip


def _rows(
    votes: Sequence[VoteRow], models: Sequence[ModelRow], found: ArenaRatings | None, least: int
) -> tuple[RatedModel, ...]:
    n_votes = Counter(name for vote in votes for name in (vote.model_a, vote.model_b))
    rated = list(found.ratings) if found else []
    ends = tier_ends([(one.best_rank, one.worst_rank) for one in rated])
    rows = [
        RatedModel(one.model, one, n_votes[one.model], n_votes[one.model] < least, None, end)
        for one, end in zip(rated, ends, strict=True)
    ]
    apart = {one.model: one.standing for one in found.apart} if found else {}
    words = {"above": "won all battles with rated models", "below": "lost all battles with rated models"}
    rest = [one.name for one in models if one.name not in {row.model for row in rows}]
    for name in sorted(rest, key=lambda name: -n_votes[name]):
        standing = words.get(
            apart.get(name, ""), "not connected with the rated models" if n_votes[name] else "no votes"
        )
        rows.append(RatedModel(name, None, n_votes[name], True, None, False, standing))
    return tuple(rows)


def tier_ends(ranks: Sequence[tuple[int, int]]) -> list[bool]:
    """Return after which positions a tier ends: nobody above can be as low as anybody below.

    Args:
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

    def share(one: str, other: str) -> float | None:
        n = wins[one, other] + wins[other, one]
        return wins[one, other] / n if n else None

    return Matrix(
        tuple(models),
        tuple(tuple(battles[one, other] + battles[other, one] for other in models) for one in models),
        tuple(tuple(share(one, other) for other in models) for one in models),
    )
