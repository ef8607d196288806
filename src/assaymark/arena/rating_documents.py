"""Ratings as a document, CSV and JSON, with notes on how intervals and ranks are computed."""

from collections.abc import Container, Sequence
from dataclasses import asdict, fields

from assaymark.arena.rating_details import HeadToHead, RatingMatrices, TopVotes
from assaymark.arena.ratings import ApartModel, ArenaRatings, Effect, RatedPart, Rating
from assaymark.arena.votes import Votes
from assaymark.documents.blocks import Block, Bullets, Cell, Cells, Column, Drawn, Heading, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted
from assaymark.documents.plain_text import csv_lines

SHOWN_PAIRS = 10
SHOWN_MODELS = 20  # of the matrix
SHARES = "Share of the battles without ties that the row's model won (battles with ties)."
PAIR_HEADERS = ("model", "against", "battles", "observed", "predicted", "z", "p")


def _details(ratings: ArenaRatings) -> list[Block]:
    """Return the requested details: parts, pairs, influential votes."""
    blocks: list[Block] = []
    if ratings.parts:
        headers = ("model", *(part.name for part in ratings.parts))
        blocks += [Heading(f"By {ratings.settings.over}"), table(headers, _part_rows(ratings))]
        blocks += [Bullets(notes)] if (notes := tuple(_part_notes(ratings))) else []
    if ratings.matrices is not None:
        n = min(SHOWN_MODELS, len(ratings.matrices.models))
        shares = SHARES + (f" The first {n} models; --json has all." if n < len(ratings.matrices.models) else "")
        headers = ("won by", *(str(place) for place in range(1, n + 1)))
        blocks += [Heading("Pairs"), table(headers, _share_rows(ratings.matrices, n)),
                   table(PAIR_HEADERS, _pair_rows(ratings.matrices), n_text=2),
                   Bullets((shares, _fit_note(ratings.matrices)))]  # fmt: skip
    if ratings.top_votes is not None:
        blocks += [Heading("Influence"), Bullets(tuple(_top_lines(ratings.top_votes)))]
    return blocks


def shown_share(value: float | None, digits: int = 1) -> str:
    """Return a share as per cent; a dash if it is undefined."""
    return NOTHING if value is None else f"{100 * value:.{digits}f}%"


def _part_rows(ratings: ArenaRatings) -> list[list[str]]:
    """Return each model's rating and half the width of its interval in each part."""
    by_part = [{rating.model: rating for rating in part.ratings} for part in ratings.parts]
    rows = [["votes", *(f"{part.n_votes:,}" for part in ratings.parts)]]
    for rated in ratings.ratings:
        cells = []
        for models in by_part:
            part_rating = models.get(rated.model)
            width = (
                None
                if part_rating is None or part_rating.low is None or part_rating.high is None
                else (part_rating.high - part_rating.low) / 2.0
            )
            cells.append(
                NOTHING
                if part_rating is None
                else f"{part_rating.rating:,.0f}{'' if width is None else f' ±{width:,.0f}'}"
            )
        rows.append([rated.model, *cells])
    return rows


def rank_blocks(parts: Sequence[RatedPart], whole: Sequence[Rating], shown: Container[str]) -> tuple[Block, ...]:
    """Return a table of the shown models' ranks and ratings, by all votes and by each part; nothing without parts."""
    if not parts:
        return ()
    columns = [Column("model", "text"), Column("all votes", is_main=True)]
    columns += [Column(shown_name(part.name), help=f"{part.n_votes:,} votes") for part in parts]
    rated = (whole, *(part.ratings for part in parts))
    by_part = [{each.model: Cell(_ranks(each), f"{each.rating:,.0f}") for each in ratings} for ratings in rated]
    rows = [(each.model, *(of.get(each.model, NOTHING) for of in by_part)) for each in whole if each.model in shown]
    return (table(columns, rows),)


def shown_name(category: str) -> str:
    """Return a category's name as people read it: words, the first one with a capital."""
    words = category.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def _ranks(rating: Rating) -> str:
    ends = (rating.best_rank, rating.worst_rank)
    return f"{ends[0]}–{ends[1]}" if ends[0] != ends[1] else f"{ends[0]}"


def _part_notes(ratings: ArenaRatings) -> list[str]:
    lines = [f"{part.name}: {part.why_none}" for part in ratings.parts if part.why_none]
    scale = "" if ratings.settings.anchor else " The mean of a part is that of the same models' ratings by all votes."
    return [f"By {ratings.settings.over}: each part is rated from its own votes.{scale}", *lines]


def _share_rows(matrix: RatingMatrices, n: int) -> list[list[str]]:
    """Return the share of decisive battles that the row's model won, and the number of battles in brackets."""
    counts = matrix.n_battles
    return [
        [
            f"{row + 1} {matrix.models[row]}",
            *(_share_cell(matrix.win_fraction[row][column], counts[row][column]) for column in range(n)),
        ]
        for row in range(n)
    ]


def _share_cell(share: float | None, n: int) -> str:
    return "" if n == 0 else f"{shown_share(share, 0)} ({n:,})"


def _pair_rows(matrix: RatingMatrices) -> list[list[str]]:
    pairs = [pair for pair in matrix.pairs() if pair.residual is not None][:SHOWN_PAIRS]
    return [_pair_row(pair) for pair in pairs]


def _pair_row(pair: HeadToHead) -> list[str]:
    z = NOTHING if pair.residual is None else f"{pair.residual:+.1f}"
    p = NOTHING if pair.significance is None else f"{pair.significance:.3f}"
    return [
        pair.model,
        pair.other,
        f"{pair.n_battles:,}",
        shown_share(pair.observed),
        shown_share(pair.predicted),
        z,
        p,
    ]


def _fit_note(matrix: RatingMatrices) -> str:
    p = NOTHING if matrix.p_of_fit is None else f"{matrix.p_of_fit:.2g}"
    return (
        "Pairs whose outcomes differ most from the ratings' prediction, ties half: z in standard errors of independent "
        f"votes, p after Holm's correction. All pairs on one scale: chi-square {matrix.chi_square:,.1f} on "
        f"{counted(matrix.degrees_of_freedom, 'degree')} of freedom, dispersion {matrix.dispersion:.2f}, p = {p}."
    )


def _top_lines(top: TopVotes) -> list[str]:
    if top.second is None:
        return [f"Influence: no set of at most half of the votes was found whose removal displaces {top.first}."]
    pairs = "; ".join(f"{winner} over {loser} {count:,}" for winner, loser, count in top.pairs[:3])
    rows = f"{', '.join(map(str, top.rows[:5]))}{' and others' if top.n_votes > 5 else ''}"
    share = f"{100 * top.share:.2g}% of all"
    return [
        (
            f"Influence: without {counted(top.n_votes, 'vote')} ({share}) {top.second} is first instead of "
            f"{top.first}, verified by a refit; the smallest set found, not proven to be the smallest."
        ),
        f"They are {pairs}{' and others' if len(top.pairs) > 3 else ''}; rows {rows}.",
    ]


HEADERS = ("model", "rating", "95% interval", "ranks", "best", "votes", "win rate")
FEW_CLUSTERS = 20
FEW_VOTES = 500  # of a part or language: with fewer most ranks stay open
TIE_MODELS = {"davidson": "Davidson's", "rao-kupper": "Rao and Kupper's"}


def ratings_document(ratings: ArenaRatings, votes: Votes) -> Document:
    """Return the ratings, the highest first, the models without a rating, and notes on the method."""
    unrated = [(model.model, f"{model.n_votes:,}", _standing(model, ratings)) for model in ratings.apart]
    notes = tuple(warnings(ratings, votes))
    return document(
        _ratings(ratings),
        [table(("not rated", "votes", Column("why", "text")), unrated)] if unrated else [],
        [Bullets(tuple(map(_effect, ratings.effects)))] if ratings.effects else [],
        _details(ratings),
        [Bullets(notes, "warning")] if notes else [],
        [Paragraph(line, "facts") for line in basis(ratings, votes)],
    )


def ratings_csv(ratings: ArenaRatings) -> str:
    """Return the rated models as CSV with a header, not rounded; undefined is empty.

    With matrices the rows are pairs of models; with parts they are the models of each part.
    """
    rows = [asdict(rating) for rating in ratings.ratings]
    names = [field.name for field in fields(Rating)]
    if ratings.matrices is not None:
        rows, names = [asdict(pair) for pair in ratings.matrices.pairs()], [field.name for field in fields(HeadToHead)]
    elif ratings.settings.over is not None:
        names = [ratings.settings.over, *names]
        rows = [
            {ratings.settings.over: part.name, **asdict(rating)} for part in ratings.parts for rating in part.ratings
        ]
    return "".join(csv_lines(names, rows))


def warnings(ratings: ArenaRatings, votes: Votes) -> list[str]:
    """Return the warnings that limit how far the numbers can be trusted."""
    lines = [f"excluded: {counted(count, 'row')} {reason}" for reason, count in votes.left_out.items()]
    if ratings.n_without_style:
        lines.append(f"excluded: {counted(ratings.n_without_style, 'vote')} without all of the styles")
    lines += [f"no two answers differ in '{name}', so it is not controlled for" for name in ratings.same_styles]
    if votes.n_repeated:
        advice = "" if ratings.by == "prompt" else "; intervals count them as independent votes, --by prompt does not"
        lines.append(f"{counted(votes.n_repeated, 'row')} equal an earlier one in every column{advice}")
    if ratings.by != "vote" and ratings.n_clusters < FEW_CLUSTERS:
        tail = "; use the sandwich: the bootstrap is too narrow" if ratings.settings.interval == "bootstrap" else ""
        lines.append(f"only {counted(ratings.n_clusters, ratings.by)}: intervals are wide{tail}")
    if ratings.n_without_part:
        lines.append(
            f"excluded from the parts: {counted(ratings.n_without_part, 'vote')} without a known "
            f"{ratings.settings.over}"
        )
    if small := [part.name for part in ratings.parts if part.n_votes < FEW_VOTES]:
        names = f"{', '.join(small[:5])}{' and others' if len(small) > 5 else ''}"
        lines.append(f"fewer than {FEW_VOTES} votes, so that most ranks stay open: {names}")
    lines += _changes(ratings)
    unknown = [rating.model for rating in ratings.ratings if rating.low is None and not _is_anchor(rating, ratings)]
    if unknown:
        few = f"{', '.join(unknown[:3])}{' and others' if len(unknown) > 3 else ''}"
        lines.append(f"no interval, since the votes of too few {ratings.by}s differ to estimate their variation: {few}")
    return lines


def _changes(ratings: ArenaRatings) -> list[str]:
    """Return a line on the models whose rating differs between the parts; empty if none does."""
    changed = [change for change in ratings.changes if change.significance < 1.0 - ratings.settings.confidence]
    if not changed:
        return []
    is_time = ratings.settings.over == "time"
    points = [f" by {change.points:+.0f} points" if is_time else "" for change in changed]
    listed = [f"{change.model}{by} (p = {change.significance:.2g})" for change, by in zip(changed, points, strict=True)]
    first_changes = "; ".join(listed[:5])
    more = f" and {len(changed) - 5} others" if len(changed) > 5 else ""
    return [
        (
            f"ratings differ over {ratings.settings.over}, so those of all votes are averages: {first_changes}{more}; "
            "p after Holm"
        )
    ]


def basis(ratings: ArenaRatings, votes: Votes) -> list[str]:
    """Return the definitions of ratings, intervals, ranks and win rates."""
    confidence = f"{100 * ratings.settings.confidence:g}%"
    method = {
        "sandwich": f"sandwich clustered by {ratings.by}, Student's t with the model's number of {ratings.by}s minus 1",
        "bootstrap": f"1,000 random weightings of the {ratings.by}s, percentiles",
    }[ratings.settings.interval]
    anchor = ratings.settings.anchor
    scale = f"{anchor[0]} has {anchor[1]:g}" if anchor else "the mean of all is 1,000"
    versus = f"minus that of {anchor[0]}" if anchor else "minus the mean of all"
    n_models = len(ratings.ratings)
    widths = ", ".join(f"by {name} {width:,.0f}" for name, width in ratings.median_widths.items())
    lines = [
        (
            f"{_model(ratings)}; {scale}, 400 points are odds of ten to one"
            f"{'' if ratings.ties is None else ' without ties'}."
        ),
        (
            f"Intervals: {confidence}, of a rating {versus}; {method} ({counted(ratings.n_clusters, ratings.by)})."
            f"{f' Median width {widths}.' if widths else ''}"
        ),
        (
            f"Ranks: possible ranks, simultaneous with {confidence} confidence: Holm over "
            f"{counted(n_models * (n_models - 1) // 2, 'pair')}. Win rate: expected against all others equally often."
        ),
    ]
    if any(rating.p_best is not None for rating in ratings.ratings):
        lines[-1] += " Best: probability to have the highest rating."
    columns = votes.columns.describe()
    return [*lines, *([f"Read: {columns}."] if columns else [])]


def _model(ratings: ArenaRatings) -> str:
    """Return the model of the votes, as the start of a sentence."""
    votes = counted(ratings.n_votes, "vote")
    if ratings.ties is None:
        weighted = ", each by 1 / max(votes of its pair, 50)" if ratings.settings.reweight else ""
        if (cap := ratings.settings.prompt_cap) is not None:
            weighted += f", those on one prompt together at most {100 * cap:g}% of all or 3 times the mean prompt"
        return f"Bradley-Terry on {votes} ({counted(ratings.n_ties, 'tie')}, half a win each){weighted}"
    ties = ratings.ties
    ends = "" if ties.low is None or ties.high is None else f" ({ties.low:.3f} to {ties.high:.3f})"
    return (
        f"{TIE_MODELS[ties.model]} model on {votes} ({counted(ratings.n_ties, 'tie')}), {ties.name} = "
        f"{ties.value:.3f}{ends}: equal models tie with probability {ties.tie_of_equals:.2f}, log-likelihood "
        f"{ties.log_likelihood:,.1f}"
    )


def _ratings(ratings: ArenaRatings) -> Block:
    known = ratings.ratings
    ends = [end for each in known for end in (each.low, each.high, each.rating) if end is not None]
    low, high = min(ends), max(ends)
    rows: list[Cells] = [
        (*_cells(each, ratings), Cell("", drawn=Drawn(each.rating, each.low, each.high))) for each in known
    ]
    return table(
        (
            *(name.replace("95%", f"{100 * ratings.settings.confidence:g}%") for name in HEADERS),
            Column("", "drawn", scale=(low, high, f"{low:,.0f}", f"{high:,.0f}")),
        ),
        rows,
    )


def _cells(rating: Rating, ratings: ArenaRatings) -> list[str]:
    interval = "anchor" if _is_anchor(rating, ratings) else NOTHING
    if rating.low is not None and rating.high is not None:
        interval = f"{_points(rating.low)}–{_points(rating.high)}"
    ranks = _ranks(rating)
    best = NOTHING if rating.p_best is None else shown_share(rating.p_best, digits=0)
    win_rate = shown_share(rating.expected_win_rate)
    return [rating.model, _points(rating.rating), interval, ranks, best, f"{rating.n_votes:,}", win_rate]


def _is_anchor(rating: Rating, ratings: ArenaRatings) -> bool:
    return ratings.settings.anchor is not None and rating.model == ratings.settings.anchor[0]


def _standing(model: ApartModel, ratings: ArenaRatings) -> str:
    """Return the reason why a model has no rating, and the bound on it."""
    if model.standing == "unjoined":
        return "no chain of wins and ties connects it with the rated models"
    won = model.standing == "above"
    word, side, end = ("won", "above", "upper") if won else ("lost", "below", "lower")
    if model.bound is None:
        return f"met no rated model; {word} against some that are {side} all of them"
    record = f"{word} {'its one vote' if model.n_against_rated == 1 else f'all {model.n_against_rated:,} votes'}"
    confidence = f"{100 * ratings.settings.confidence:g}%"
    return f"{record} against rated models: {side} {_points(model.bound)} ({confidence}), no {end} bound"


def _effect(effect: Effect) -> str:
    interval = "" if effect.low is None or effect.high is None else f" ({effect.low:+.1f} to {effect.high:+.1f})"
    what = "side A" if effect.name == "side A" else f"one standard deviation more {effect.name}"
    return f"effect of {what}: {effect.points:+.1f} points{interval}"


def _points(value: float) -> str:
    return f"{value:,.0f}"
