"""Ratings as a terminal table, CSV, Markdown and JSON, with notes on how intervals and ranks are computed.

Parts, pairs and influential votes of ratings, as tables for the terminal and Markdown.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding

from assaymark.arena.rating_details import Pair, RatingMatrices, TopVotes
from assaymark.arena.ratings import ApartModel, ArenaRatings, Effect, Rating
from assaymark.arena.votes import Votes
from assaymark.results.console import Text
from assaymark.results.documents.blocks import Block, Bullets, Cell, Heading, Table, TableRow
from assaymark.results.documents.markdown import markdown_text
from assaymark.results.numbers import NOTHING, counted
from assaymark.results.plain_text import csv_row
from assaymark.results.views.cells import Sized, plain_table

__all__ = [
    "details_blocks",
    "details_table",
    "ratings_csv",
    "ratings_json",
    "ratings_markdown",
    "ratings_table",
    "shown_share",
]


SHOWN_PAIRS = 10
SHOWN_MODELS = 10  # of the matrix in the terminal; Markdown and JSON have all
SHARES = "Share of the battles without ties that the row's model won (battles with ties)."
PAIR_HEADERS = ("model", "against", "battles", "observed", "predicted", "z", "p")


def details_table(found: ArenaRatings) -> list[RenderableType]:
    """Return the requested details, one renderable for each paragraph or table."""
    shown: list[RenderableType] = []
    if found.parts:
        parts = found.parts
        shown.append(_table(("model", *(part.name for part in parts)), _part_rows(found)))
        shown += [Text(line) for line in _part_notes(found)]
    if found.matrices is not None:
        names = found.matrices.models[:SHOWN_MODELS]
        headers = ("won by", *(str(place) for place in range(1, len(names) + 1)))
        shown.append(_table(headers, _share_rows(found.matrices, len(names), with_counts=False)))
        shown += [Text("Share of the battles without ties that the row's model won; --json has all models and counts.")]
        shown.append(_table(PAIR_HEADERS, _pair_rows(found.matrices)))
        shown += [Text(_fit_note(found.matrices))]
    if found.top_votes is not None:
        shown += [Text(line) for line in _top_lines(found.top_votes)]
    return shown


def details_blocks(found: ArenaRatings) -> list[Block]:
    """Return the requested details for a document."""
    blocks: list[Block] = []
    if found.parts:
        blocks += [Heading(f"By {found.settings.over}"),
                   _block(("model", *(part.name for part in found.parts)), _part_rows(found))]  # fmt: skip
        blocks += [Bullets(notes)] if (notes := tuple(_part_notes(found))) else []
    if found.matrices is not None:
        n = len(found.matrices.models)
        headers = ("won by", *(str(place) for place in range(1, n + 1)))
        blocks += [Heading("Pairs"), _block(headers, _share_rows(found.matrices, n)),
                   _block(PAIR_HEADERS, _pair_rows(found.matrices)),
                   Bullets((SHARES, _fit_note(found.matrices)))]  # fmt: skip
    if found.top_votes is not None:
        blocks += [Heading("Influence"), Bullets(tuple(_top_lines(found.top_votes)))]
    return blocks


def shown_share(value: float | None, digits: int = 1) -> str:
    """Return a share as per cent; a dash if it is undefined."""
    return NOTHING if value is None else f"{100 * value:.{digits}f}%"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> RenderableType:
    table = plain_table()
    for index, header in enumerate(headers):
        is_name = index == 0 or header == "against"
        table.add_column(header, justify="left" if is_name else "right", overflow="fold", no_wrap=not is_name)
    for row in rows:
        table.add_row(*row)
    return table


def _block(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table(tuple(headers), tuple(TableRow(tuple(map(Cell, row))) for row in rows))


def _part_rows(found: ArenaRatings) -> list[list[str]]:
    """Return each model's rating and half the width of its interval in each part."""
    by_part = [{rating.model: rating for rating in part.ratings} for part in found.parts]
    rows = [["votes", *(f"{part.n_votes:,}" for part in found.parts)]]
    for rated in found.ratings:
        cells = []
        for models in by_part:
            one = models.get(rated.model)
            width = None if one is None or one.low is None or one.high is None else (one.high - one.low) / 2.0
            cells.append(NOTHING if one is None else f"{one.rating:,.0f}{'' if width is None else f' ±{width:,.0f}'}")
        rows.append([rated.model, *cells])
    return rows


def _part_notes(found: ArenaRatings) -> list[str]:
    lines = [f"{part.name}: {part.why_none}" for part in found.parts if part.why_none]
    scale = "" if found.settings.anchor else " The mean of a part is that of the same models' ratings by all votes."
    return [f"By {found.settings.over}: each part is rated from its own votes.{scale}", *lines]


def _share_rows(matrix: RatingMatrices, n: int, *, with_counts: bool = True) -> list[list[str]]:
    """Return the share of decisive battles that the row's model won, and the number of battles in brackets."""
    counts = matrix.n_battles
    return [
        [
            f"{row + 1} {matrix.models[row]}",
            *(_share_cell(matrix.win_fraction[row][column], counts[row][column], with_counts) for column in range(n)),
        ]
        for row in range(n)
    ]


def _share_cell(share: float | None, n: int, with_count: bool) -> str:
    return "" if n == 0 else f"{shown_share(share, 0)}{f' ({n:,})' if with_count else ''}"


def _pair_rows(matrix: RatingMatrices) -> list[list[str]]:
    pairs = [pair for pair in matrix.pairs() if pair.residual is not None][:SHOWN_PAIRS]
    return [_pair_row(pair) for pair in pairs]


def _pair_row(one: Pair) -> list[str]:
    z = NOTHING if one.residual is None else f"{one.residual:+.1f}"
    p = NOTHING if one.significance is None else f"{one.significance:.3f}"
    return [one.model, one.other, f"{one.n_battles:,}", shown_share(one.observed), shown_share(one.predicted), z, p]


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
BESIDE_STRIP = 55  # columns for numbers
STRIP_WIDTHS = (10, 40)
FEW_CLUSTERS = 20
TIE_MODELS = {"davidson": "Davidson's", "rao-kupper": "Rao and Kupper's"}


def ratings_table(found: ArenaRatings, votes: Votes) -> RenderableType:
    """Return the ratings, the highest first, the models without a rating, and notes on the method."""
    parts: list[RenderableType] = [Padding(_ratings(found), (0, 1))]
    if found.apart:
        parts.append(Padding(_unrated(found), (1, 1, 0, 1)))
    parts += [Padding(Text(line), (1 if index == 0 else 0, 1, 0, 1)) for index, line in enumerate(_effects(found))]
    parts += [Padding(part, (1, 1, 0, 1)) for part in details_table(found)]
    lines = [Text(line, style="yellow") for line in warnings(found, votes)]
    lines += [Text(line, style="dim") for line in basis(found, votes)]
    return Group(*parts, *(Padding(line, (0 if index else 1, 1, 0, 1)) for index, line in enumerate(lines)))


def ratings_json(found: ArenaRatings, votes: Votes) -> dict[str, Any]:
    """Return all results with stable names; undefined is null."""
    return {
        **asdict(found),
        "warnings": warnings(found, votes),
        "basis": basis(found, votes),
        "file": {
            "columns": asdict(votes.columns),
            "n_rows": votes.n_rows,
            "n_repeated": votes.n_repeated,
            "left_out": dict(votes.left_out),
        },
    }


def ratings_csv(found: ArenaRatings) -> str:
    """Return the rated models as CSV with a header, not rounded; undefined is empty.

    With matrices the rows are pairs of models; with parts they are the models of each part.
    """
    out = io.StringIO()
    rows = [asdict(rating) for rating in found.ratings]
    names = [field.name for field in fields(Rating)]
    if found.matrices is not None:
        rows, names = [asdict(pair) for pair in found.matrices.pairs()], [field.name for field in fields(Pair)]
    elif found.settings.over is not None:
        names = [found.settings.over, *names]
        rows = [{found.settings.over: part.name, **asdict(rating)} for part in found.parts for rating in part.ratings]
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(csv_row(row) for row in rows)
    return out.getvalue()


def ratings_markdown(found: ArenaRatings, votes: Votes) -> str:
    """Return the table and its notes as Markdown."""
    rows = tuple(TableRow(tuple(map(Cell, _cells(rating, found)))) for rating in found.ratings)
    unrated = tuple(f"{model.model}: {_standing(model, found)}" for model in found.apart)
    notes = (*unrated, *_effects(found), *warnings(found, votes))
    blocks: list[Block] = [Table(_headers(found), rows), *([Bullets(notes)] if notes else []), *details_blocks(found)]
    return markdown_text(blocks, " ".join(basis(found, votes)), "")


def warnings(found: ArenaRatings, votes: Votes) -> list[str]:
    """Return the warnings that limit how far the numbers can be trusted."""
    lines = [f"excluded: {counted(count, 'row')} {reason}" for reason, count in votes.left_out.items()]
    if found.n_without_style:
        lines.append(f"excluded: {counted(found.n_without_style, 'vote')} without all of the styles")
    lines += [f"no two answers differ in '{name}', so it is not controlled for" for name in found.same_styles]
    if votes.n_repeated:
        advice = "" if found.by == "prompt" else "; intervals count them as independent votes, --by prompt does not"
        lines.append(f"{counted(votes.n_repeated, 'row')} equal an earlier one in every column{advice}")
    if found.by != "vote" and found.n_clusters < FEW_CLUSTERS:
        tail = "; use the sandwich: the bootstrap is too narrow" if found.settings.interval == "bootstrap" else ""
        lines.append(f"only {counted(found.n_clusters, found.by)}: intervals are wide{tail}")
    if found.n_without_part:
        lines.append(
            f"excluded from the parts: {counted(found.n_without_part, 'vote')} without a known {found.settings.over}"
        )
    lines += _changes(found)
    unknown = [rating.model for rating in found.ratings if rating.low is None and not _is_anchor(rating, found)]
    if unknown:
        few = f"{', '.join(unknown[:3])}{' and others' if len(unknown) > 3 else ''}"
        lines.append(f"no interval, since there are too few {found.by}s to estimate the variation of votes: {few}")
    return lines


def _changes(found: ArenaRatings) -> list[str]:
    """Return a line on the models whose rating differs between the parts; empty if none does."""
    changed = [change for change in found.changes if change.significance < 1.0 - found.settings.confidence]
    if not changed:
        return []
    is_time = found.settings.over == "time"
    points = [f" by {change.points:+.0f} points" if is_time else "" for change in changed]
    listed = [f"{change.model}{by} (p = {change.significance:.2g})" for change, by in zip(changed, points, strict=True)]
    shown = "; ".join(listed[:5])
    more = f" and {len(changed) - 5} others" if len(changed) > 5 else ""
    return [
        f"ratings differ over {found.settings.over}, so those of all votes are averages: {shown}{more}; p after Holm"
    ]


def basis(found: ArenaRatings, votes: Votes) -> list[str]:
    """Return the definitions of ratings, intervals, ranks and win rates."""
    confidence = f"{100 * found.settings.confidence:g}%"
    method = {
        "sandwich": f"sandwich clustered by {found.by}, Student's t with the model's number of {found.by}s minus 1",
        "bootstrap": f"1,000 random weightings of the {found.by}s, percentiles",
    }[found.settings.interval]
    anchor = found.settings.anchor
    scale = f"{anchor[0]} has {anchor[1]:g}" if anchor else "the mean of all is 1,000"
    versus = f"minus that of {anchor[0]}" if anchor else "minus the mean of all"
    n_models = len(found.ratings)
    widths = ", ".join(f"by {name} {width:,.0f}" for name, width in found.median_widths.items())
    lines = [
        f"{_model(found)}; {scale}, 400 points are odds of ten to one{'' if found.ties is None else ' without ties'}.",
        (
            f"Intervals: {confidence}, of a rating {versus}; {method} ({counted(found.n_clusters, found.by)})."
            f"{f' Median width {widths}.' if widths else ''}"
        ),
        (
            f"Ranks: possible ranks, simultaneous with {confidence} confidence: Holm over "
            f"{counted(n_models * (n_models - 1) // 2, 'pair')}. Win rate: expected against all others equally often."
        ),
    ]
    if any(rating.p_best is not None for rating in found.ratings):
        lines[-1] += " Best: probability to have the highest rating."
    columns = votes.columns.describe()
    return [*lines, *([f"Read: {columns}."] if columns else [])]


def _model(found: ArenaRatings) -> str:
    """Return the model of the votes, as the start of a sentence."""
    votes = counted(found.n_votes, "vote")
    if found.ties is None:
        weighted = ", each by 1 / max(votes of its pair, 50)" if found.settings.reweight else ""
        if (cap := found.settings.prompt_cap) is not None:
            weighted += f", those on one prompt together at most {100 * cap:g}% of all or 3 times the mean prompt"
        return f"Bradley-Terry on {votes} ({counted(found.n_ties, 'tie')}, half a win each){weighted}"
    ties = found.ties
    ends = "" if ties.low is None or ties.high is None else f" ({ties.low:.3f} to {ties.high:.3f})"
    return (
        f"{TIE_MODELS[ties.model]} model on {votes} ({counted(found.n_ties, 'tie')}), {ties.name} = "
        f"{ties.value:.3f}{ends}: equal models tie with probability {ties.tie_of_equals:.2f}, log-likelihood "
        f"{ties.log_likelihood:,.1f}"
    )


def _ratings(found: ArenaRatings) -> RenderableType:
    def laid_out(width: int) -> RenderableType:
        names = max(len(name) for name in (HEADERS[0], *(rating.model for rating in found.ratings)))
        free = width - BESIDE_STRIP - min(names, 40)
        strip = min(STRIP_WIDTHS[1], free) if free >= STRIP_WIDTHS[0] else 0
        table = plain_table()
        for index, header in enumerate(_headers(found)):
            table.add_column(header, justify="right" if index else "left", no_wrap=index > 0, overflow="fold")
        ends = [end for rating in found.ratings for end in (rating.low, rating.high, rating.rating) if end is not None]
        low, high = min(ends), max(ends)
        if strip:
            table.add_column(f"{low:,.0f}{f'{high:,.0f}':>{strip - len(f'{low:,.0f}')}}", no_wrap=True)
        for rating in found.ratings:
            table.add_row(*_cells(rating, found), *([_strip(rating, low, high, strip)] if strip else []))
        return table

    return Sized(laid_out)


def _headers(found: ArenaRatings) -> tuple[str, ...]:
    return tuple(name.replace("95%", f"{100 * found.settings.confidence:g}%") for name in HEADERS)


def _cells(one: Rating, found: ArenaRatings) -> list[str]:
    interval = "anchor" if _is_anchor(one, found) else NOTHING
    if one.low is not None and one.high is not None:
        interval = f"{_points(one.low)}–{_points(one.high)}"
    ranks = str(one.best_rank) if one.best_rank == one.worst_rank else f"{one.best_rank}–{one.worst_rank}"
    best = NOTHING if one.p_best is None else shown_share(one.p_best, digits=0)
    win_rate = shown_share(one.expected_win_rate)
    return [one.model, _points(one.rating), interval, ranks, best, f"{one.n_votes:,}", win_rate]


def _is_anchor(one: Rating, found: ArenaRatings) -> bool:
    return found.settings.anchor is not None and one.model == found.settings.anchor[0]


def _strip(one: Rating, low: float, high: float, cells: int) -> str:
    """Draw an interval and its rating on the scale of all intervals."""

    def at(value: float) -> int:
        return min(cells - 1, int((value - low) / (high - low) * cells)) if high > low else 0

    first, last = (at(one.rating if end is None else end) for end in (one.low, one.high))
    marks = ["━" if first <= cell <= last else "·" for cell in range(cells)]
    marks[at(one.rating)] = "●"
    return "".join(marks)


def _unrated(found: ArenaRatings) -> RenderableType:
    table = plain_table()
    table.add_column("not rated", overflow="fold")
    table.add_column("votes", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for model in found.apart:
        table.add_row(model.model, f"{model.n_votes:,}", _standing(model, found))
    return table


def _standing(one: ApartModel, found: ArenaRatings) -> str:
    """Return the reason why a model has no rating, and the bound on it."""
    if one.standing == "unjoined":
        return "no chain of wins and ties connects it with the rated models"
    won = one.standing == "above"
    word, side, end = ("won", "above", "upper") if won else ("lost", "below", "lower")
    if one.bound is None:
        return f"met no rated model; {word} against some that are {side} all of them"
    record = f"{word} {'its one vote' if one.n_against_rated == 1 else f'all {one.n_against_rated:,} votes'}"
    confidence = f"{100 * found.settings.confidence:g}%"
    return f"{record} against rated models: {side} {_points(one.bound)} ({confidence}), no {end} bound"


def _effects(found: ArenaRatings) -> list[str]:
    return [_effect(effect) for effect in found.effects]


def _effect(one: Effect) -> str:
    interval = "" if one.low is None or one.high is None else f" ({one.low:+.1f} to {one.high:+.1f})"
    what = "side A" if one.name == "side A" else f"one standard deviation more {one.name}"
    return f"effect of {what}: {one.points:+.1f} points{interval}"


def _points(value: float) -> str:
    return f"{value:,.0f}"
