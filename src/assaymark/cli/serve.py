"""`assaymark serve [BOARD.yaml ...]`: show leaderboards of stored runs in the browser."""

import threading
from typing import Any

import click

from assaymark.cli.output import echo, store_option
from assaymark.cli.serve_queue import queue_options, queue_parts
from assaymark.errors import MissingExtra

gated_option = click.option(
    "--show_gated", is_flag=True, help="Show questions and answers of gated data sets, such as GPQA, too."
)
all_runs_option = click.option(
    "--all_runs", is_flag=True, help="Show every run of the store, not only those of the BOARD.yaml files."
)
EXTRA = ("fastapi", "uvicorn", "nh3", "markdown_it")  # what the extra `web` installs


@click.command()
@click.argument("boards", nargs=-1, metavar="[BOARD.yaml ...]")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port",
    default=7500,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0: any free port.",
)
@click.option("--allow_host", multiple=True, metavar="NAME", help="Host name that browsers may use; repeatable.")
@click.option("--endpoint", multiple=True, metavar="NAME=URL", help="Model that visitors may chat with; repeatable.")
@click.option("--endpoint_key", multiple=True, metavar="NAME=@FILE", help="Key of an endpoint; repeatable.")
@gated_option
@all_runs_option
@queue_options
@store_option
def serve(
    boards: tuple[str, ...], host: str, port: int, allow_host: tuple[str, ...], store: str | None, **given: Any
) -> None:
    """Show leaderboards in the browser: those of BOARD.yaml files, or one for each suite with stored runs.

    With BOARD.yaml files, pages of runs, models, comparisons and recommendations show the runs of these boards, as
    their `runs:` choose them; --all_runs shows every run of the store. Without a file every run is shown.
    Without --host, only this machine can connect. With --submissions it also takes models to evaluate, which
    `assaymark worker` does; `assaymark board token` makes the tokens of those who submit.
    """
    need_extra("assaymark serve")
    from assaymark.web.app import create_app
    from assaymark.web.serve import hosts_for, listen
    from assaymark.web.serve import serve as serve_app

    hosts = hosts_for(host, allow_host)
    parts = [*queue_parts(boards, store, given), *_chat_parts(given["endpoint"], given["endpoint_key"])]
    site = open_site(boards, store, show_gated=given["show_gated"], all_runs=given["all_runs"])
    app = create_app(site, hosts, parts, given["proxy"])
    with listen(host, port) as listening:
        if site.runs is not None:
            fill_facts_beside(store)
        serve_app(app, listening, lambda url: echo(f"{_shown(site)} at {url}  (stop with Ctrl-C)"))


def _chat_parts(endpoint: tuple[str, ...], endpoint_key: tuple[str, ...]) -> list[Any]:
    """Return the part that chats with endpoints, if any are given. Raises: UsageError."""
    from assaymark.web.endpoints import read_endpoints
    from assaymark.web.routes.chat import chat_part

    found = read_endpoints(endpoint, endpoint_key)
    return [chat_part(found)] if found else []


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


def has_extra() -> bool:
    """Return whether the extra `web` is installed."""
    from importlib.util import find_spec

    return all(find_spec(name) is not None for name in EXTRA)


def need_extra(command: str) -> None:
    """Raise MissingExtra where what pages need is not installed."""
    if not has_extra():
        raise MissingExtra(command, "web")


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
