"""`assaymark serve [BOARD.yaml ...]`: show leaderboards of stored runs in the browser.

The options of `assaymark serve` that make it take submissions.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import click

from assaymark.cli.extras import need_web, served_features, served_options, serving_options
from assaymark.cli.output import echo, store_option
from assaymark.errors import UsageError

__all__ = ["queue_features", "queue_options"]

_OPTIONS = (
    click.option("--submissions", is_flag=True, help="Take submissions: pages for submitting, queue and reports."),
    click.option(
        "--allow_folder",
        multiple=True,
        metavar="DIR",
        help="Folder whose models may be submitted by name; give it to the workers too. Repeatable.",
    ),
    click.option("--no_hub", is_flag=True, help="Take no models of the Hub."),
    click.option("--user_header", default="", metavar="NAME", help="Header in which that proxy tells who signed in."),
    click.option(
        "--moderator", multiple=True, metavar="NAME", help="One of those signed in, who moderates. Repeatable."
    ),
)


def queue_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command; they arrive as keywords."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def queue_features(boards: Sequence[str], store: str | None, options: dict[str, Any]) -> list[Any]:
    """Return the parts of the application that the options ask for.

    Raises: UsageError for options that need others, a folder that does not exist, or boards without tasks.
    """
    if not options["submissions"]:
        needing = [name for name in ("allow_folder", "no_hub", "user_header", "moderator") if options[name]]
        if needing:
            raise UsageError(f"--{needing[0]} is for submissions; add --submissions")
        return []
    if options["user_header"] and not options["proxy"]:
        raise UsageError("--user_header is believed from a reverse proxy only; name its address with --proxy")
    from assaymark.leaderboard.routes.queue import queue_feature
    from assaymark.leaderboard.submission.checks import Policy
    from assaymark.leaderboard.submission.host import boards_of, folders_of
    from assaymark.leaderboard.submission.sources import FolderModels, ModelSource
    from assaymark.store import Store

    folders = folders_of(options["allow_folder"])
    sources: list[ModelSource] = [FolderModels(folders)] if folders else []
    if not options["no_hub"]:
        from assaymark.leaderboard.submission.hub_models import HubModels

        sources.append(HubModels())
    if not sources:
        raise UsageError("there is no place that models may come from; name one with --allow_folder, or omit --no_hub")
    part = queue_feature(
        Store.open(store),
        boards_of(boards),
        sources,
        Policy(),
        user_header=options["user_header"],
        proxies=options["proxy"],
        moderators=options["moderator"],
    )
    return [part]


gated_option = click.option(
    "--show_gated", is_flag=True, help="Show questions and answers of gated data sets, such as GPQA, too."
)
all_runs_option = click.option(
    "--all_runs", is_flag=True, help="Show every run of the store, not only those of the BOARD.yaml files."
)


@click.command()
@click.argument("boards", nargs=-1, metavar="[BOARD.yaml ...]")
@serving_options(port=7500)
@click.option("--endpoint", multiple=True, metavar="NAME=URL", help="Model that visitors may chat with; repeatable.")
@click.option("--endpoint_key", multiple=True, metavar="NAME=@FILE", help="Key of an endpoint; repeatable.")
@gated_option
@all_runs_option
@queue_options
@served_options
@store_option
def serve(boards: tuple[str, ...], store: str | None, **options: Any) -> None:
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
    features = [*queue_features(boards, store, options), *_chat_features(options["endpoint"], options["endpoint_key"])]
    features += served_features(options, store)
    site = open_site(boards, store, show_gated=options["show_gated"], all_runs=options["all_runs"])
    serve_features(
        [board_feature(site), *features, *_registered_pages(store)],
        where,
        lambda url: echo(f"{_shown(site)} at {url}  (stop with Ctrl-C)"),
        lambda: None if site.runs is None else fill_facts_beside(store),
    )


def _registered_pages(store: str | None) -> list[Any]:
    """Return the pages that installed packages add; each is a function of the open store that returns a feature."""
    from assaymark.registry import Registry
    from assaymark.store import Store

    pages: Registry[Any] = Registry("pages", "page")
    return [pages.load(name)(Store.open_to_read(store)) for name in pages] if Store.exists(store) else []


def _chat_features(endpoint: tuple[str, ...], endpoint_key: tuple[str, ...]) -> list[Any]:
    """Return the part that chats with endpoints, if any are given. Raises: UsageError."""
    from assaymark.hosting.chat_routes import chat_feature
    from assaymark.hosting.endpoints import read_endpoints

    endpoints = read_endpoints(endpoint, endpoint_key)
    return [chat_feature(endpoints)] if endpoints else []


def fill_facts_beside(store: str | None) -> threading.Thread:
    """Store what lists of samples show for runs that lack it, in a thread of its own; return the thread.

    Pages are shown meanwhile and without it, only slower; so a failure, such as a store that may not be written,
    prints one line.
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


def open_site(boards: tuple[str, ...], store: str | None, *, show_gated: bool = False, all_runs: bool = False) -> Any:
    """Return the leaderboards of files, with the runs of the store; with files, the default store need not exist.

    Args:
        boards: files; none: a board for each suite with stored runs.
        store: where the runs are.
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
    return Site(read, StoredRuns(Store.open_to_read(store), show_gated=show_gated, shows=shows))


def read_boards(paths: tuple[str, ...]) -> list[Any]:
    """Return the boards of files. Raises: DataError or UsageError for a file; UsageError for two of one name."""
    from assaymark.leaderboard.board_files import read_board

    read = [read_board(path) for path in paths]
    names = [board.name for board in read]
    if twice := next((name for name in names if names.count(name) > 1), None):
        from assaymark.errors import UsageError

        raise UsageError(f"two boards are called '{twice}'; give one of them another `name:`")
    return read


def _shown(site: Any) -> str:
    boards = list(site.boards.values())
    return boards[0].title if len(boards) == 1 else f"{len(boards)} leaderboards"
