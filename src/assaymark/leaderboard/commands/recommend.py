"""`assaymark recommend --for maths,instructions`: models for a purpose, by the available evidence."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.cli.help import Command, examples
from assaymark.cli.output import echo, json_option, print_json, print_rich, store_option

if TYPE_CHECKING:
    from assaymark.leaderboard.site import Site


@click.command(cls=Command, epilog=examples("recommend --for 'coding in python' --max_params 8"))
@click.option("--for", "wanted", required=True, metavar="NAME,...", help="Capabilities or benchmarks, such as maths.")
@click.option("--max-params", "--max_params", type=click.FloatRange(0, min_open=True), metavar="B",
              help="Most parameters, in billions.")  # fmt: skip
@click.option("--license", "--licence", "licence", default="", metavar="NAME", help="Licence, or how it begins.")
@click.option("--where", default="", metavar="QUERY", help="More conditions, as in `board query`: 'type:chat'.")
@click.option("--board", "boards", multiple=True, metavar="FILE.yaml", help="Look in this board's table; repeatable.")
@click.option("--table", "tables", multiple=True, metavar="FILE.csv", help="Look in this published table; repeatable.")
@click.option("--top", "-n", type=click.IntRange(1, 1000), default=10, show_default=True, help="Models to list.")
@store_option
@json_option
def recommend(
    wanted: str, store: str | None, as_json: bool, *, max_params: float | None, licence: str, where: str,
    boards: tuple[str, ...], tables: tuple[str, ...], top: int,
) -> None:  # fmt: skip
    """Rank models by the benchmarks that measure what is requested, with the reason for each.

    The evidence is that of the store's runs, of the published tables that are named, and of the store's arena: votes on
    prompts of a category that belongs to what is requested. Each table is ranked by itself, since values of different
    tables were measured differently. Where there is no evidence, the answer is what to evaluate; models that nothing
    rates are named.
    """
    from assaymark.leaderboard.evidence import sources_of, votes_of
    from assaymark.leaderboard.recommend import Requested
    from assaymark.leaderboard.recommend import recommend as find
    from assaymark.leaderboard.recommendation_views import (
        advice_line,
        missing_line,
        recommendation_document,
        unmeasured_line,
    )

    names = tuple(name.strip() for name in wanted.split(",") if name.strip())
    site = _site(boards, tables, store)
    sources = sources_of(site)
    requested = Requested(names, max_params, licence.strip(), where, top)
    recommendation = find(sources, requested, votes_of(site))
    if as_json:
        print_json(recommendation)
        return
    print_rich(recommendation_document(recommendation))
    for missing in recommendation.no_evidence:
        echo(missing_line(missing))
        echo(advice_line(missing))
    echo(*(unmeasured_line(unmeasured) for unmeasured in recommendation.unmeasured))
    if not sources:
        echo("there was nothing to look in: the store has no results; name a table with --table FILE.csv", err=True)
    if recommendation.rankings:
        echo(
            "Values: mean over the capabilities, 95% intervals. P: probability from the standard errors that the model "
            "is better than the next one, and that the first is better than it.",
            err=True,
        )


def _site(boards: tuple[str, ...], tables: tuple[str, ...], store: str | None) -> "Site":
    """Return the named tables, and the store's runs if there is a store."""
    from assaymark.leaderboard.board_files import read_board
    from assaymark.leaderboard.published import board_of_table
    from assaymark.leaderboard.site import Site
    from assaymark.leaderboard.stored import StoredRuns
    from assaymark.store import Store

    read = [*(read_board(path) for path in boards), *(board_of_table(Path(path)) for path in tables)]
    has_store = store is not None or not read or Store.exists(None)
    return Site(read, StoredRuns(Store.open_to_read(store)) if has_store else None)
