"""Parts, pairs and influential votes of ratings, as tables for the terminal and Markdown."""

from collections.abc import Sequence

from rich.console import RenderableType

from assaymark.arena.rating_details import Pair, RatingMatrices, TopVotes
from assaymark.arena.ratings import ArenaRatings
from assaymark.report.console import Text
from assaymark.report.documents.blocks import Block, Bullets, Cell, Heading, Table, TableRow
from assaymark.report.numbers import NOTHING, counted
from assaymark.report.views.cells import plain_table

__all__ = ["details_blocks", "details_table", "shown_share"]

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
    by_part = [{one.model: one for one in part.ratings} for part in found.parts]
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
    pairs = [one for one in matrix.pairs() if one.residual is not None][:SHOWN_PAIRS]
    return [_pair_row(one) for one in pairs]


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
