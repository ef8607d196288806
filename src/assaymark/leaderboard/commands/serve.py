"""`assaymark serve [BOARD.yaml ...]`: show leaderboards of stored runs in the browser.

Submissions, chats, traces and pages of installed packages are registered by the features that have them.
"""

import threading
from typing import TYPE_CHECKING, cast

import click

from assaymark.cli.extras import need_web, served_features, served_options, serving_options
from assaymark.cli.output import Command, echo, examples, store_option

if TYPE_CHECKING:
    from collections.abc import Callable

    from assaymark.leaderboard.board import Board
    from assaymark.leaderboard.site import Site
    from assaymark.web.app import Feature

gated_option = click.option(
    "--show_gated", is_flag=True, help="Show questions and answers of gated data sets, such as GPQA, too."
)
all_runs_option = click.option(
    "--all_runs", is_flag=True, help="Show every run of the store, not only those of the BOARD.yaml files."
)


@click.command(cls=Command, epilog=examples("serve", "serve board.yaml --port 8000"))
@click.argument("boards", nargs=-1, metavar="[BOARD.yaml ...]")
@serving_options(port=7500)
@gated_option
@all_runs_option
@served_options()
@store_option
def serve(boards: tuple[str, ...], store: str | None, *, show_gated: bool, all_runs: bool, **options: object) -> None:
    """Show leaderboards in the browser: those of BOARD.yaml files, or one for each suite with stored runs.

    With BOARD.yaml files, pages of runs, models, comparisons and recommendations show the runs of these boards, as
    their `runs:` choose them; --all_runs shows every run of the store. Without a file every run is shown.
    Without --host, only this machine can connect. With --submissions it also takes models to evaluate, which
    `assaymark worker` does; `assaymark board token` makes the tokens of those who submit.
    """
    need_web("assaymark serve")
    from assaymark.leaderboard.routes.boards import board_feature
    from assaymark.web.serve import Where, serve_features

    where = Where.of(options)
    features = cast("list[Feature]", served_features({**options, "boards": boards}, store))
    site = open_site(boards, store, show_gated=show_gated, all_runs=all_runs)
    serve_features(
        [board_feature(site), *features, *_registered_pages(store, site)],
        where,
        lambda url: echo(f"{_served_boards(site)} at {url}  (stop with Ctrl-C)"),
        lambda: None if site.runs is None else fill_facts_beside(store),
    )


def _registered_pages(store: str | None, site: "Site") -> "list[Feature]":
    """Return the pages that installed packages add; each is a function of the open store that returns a feature.

    The store is that of the leaderboards: it has no texts of sealed tasks.
    """
    from assaymark.registry import Registry
    from assaymark.store import Store
    from assaymark.store.public_store import public_store

    pages: Registry[Callable[[Store], Feature]] = Registry("pages", "page")
    if not Store.exists(store) or not list(pages):
        return []
    private = frozenset().union(*(board.private for board in site.boards.values()))
    return [pages.load(name)(public_store(Store.open_to_read(store), private=private)) for name in pages]


def fill_facts_beside(store: str | None) -> threading.Thread:
    """Store the facts of samples for runs that lack them, in a thread; return the thread.

    Pages work without these facts, only more slowly, so a failure, such as a read-only store, prints just one line.
    """
    from assaymark.errors import AssaymarkError
    from assaymark.store import Store

    def fill() -> None:
        try:
            with Store.open_to_read(store) as opened:
                opened.fill_facts()
        except AssaymarkError as error:
            echo(f"sample lists of older runs stay slow: {error}", err=True)

    thread = threading.Thread(target=fill, name="fill-facts", daemon=True)
    thread.start()
    return thread


def open_site(
    boards: tuple[str, ...], store: str | None, *, show_gated: bool = False, all_runs: bool = False
) -> "Site":
    """Return the leaderboards of files, with the runs of the store; with files, the default store need not exist.

    Args:
        boards: files; none: a board for each suite with stored runs.
        show_gated: whether texts of gated data sets are shown.
        all_runs: whether runs that are on none of the files' boards are shown too.

    Raises: DataError or UsageError for a leaderboard's file; StoreError for a store that cannot be read.
    """
    from assaymark.leaderboard.own_rows import is_of_board
    from assaymark.leaderboard.site import Site
    from assaymark.leaderboard.stored import StoredRuns
    from assaymark.store import Store

    read = read_boards(boards)
    if boards and store is None and not Store.exists(None):
        return Site(read)
    is_limited = bool(read) and not all_runs
    shows = (lambda run: any(is_of_board(board, run) for board in read)) if is_limited else None
    private = frozenset().union(*(board.private for board in read))
    return Site(read, StoredRuns(Store.open_to_read(store), show_gated=show_gated, private=private, shows=shows))


def read_boards(paths: tuple[str, ...]) -> "list[Board]":
    """Return the boards of files. Raises: DataError or UsageError for a file; UsageError for two of one name."""
    from assaymark.leaderboard.board_files import read_board

    read = [read_board(path) for path in paths]
    names = [board.name for board in read]
    if twice := next((name for name in names if names.count(name) > 1), None):
        from assaymark.errors import UsageError

        raise UsageError(f"two boards are called '{twice}'; give one of them another `name:`")
    return read


def _served_boards(site: "Site") -> str:
    boards = list(site.boards.values())
    return boards[0].title if len(boards) == 1 else f"{len(boards)} leaderboards"
