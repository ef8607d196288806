"""`assaymark board`: a leaderboard's file, its rows, correlations with ratings, its static site and accounts."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assaymark.cli.extras import need_web
from assaymark.cli.output import Group, echo, examples, json_option, print_json, print_result, print_rich, store_option
from assaymark.errors import UsageError
from assaymark.leaderboard.commands.serve import gated_option

if TYPE_CHECKING:
    from assaymark.leaderboard.site import Site

EXAMPLES = examples(
    "board init board.yaml --tasks history.csv,geography.csv",
    'board query board.yaml "llama; qwen license:apache-2.0 params:<8"',
    "board export board.yaml -o site/",
)


@click.group(cls=Group, epilog=EXAMPLES)
def board() -> None:
    """Create a leaderboard's file, check it, and search its rows."""


@board.command(epilog=examples("board init --suite open-llm-leaderboard-v2", "board init --table results.csv"))
@click.argument("path", default="board.yaml", metavar="[FILE]")
@click.option("--suite", metavar="NAME", help="Show a suite, such as open-llm-v1.")
@click.option("--tasks", metavar="FILE|TASK,...", help="Show your own task sets: CSV files, YAML files, task names.")
@click.option(
    "--table", metavar="FILE.csv|DIR", help="Show an existing table, or a folder of Every Eval Ever's records."
)
@click.option("--title", metavar="TEXT", help="Title of the leaderboard.")
def init(path: str, suite: str | None, tasks: str | None, table: str | None, title: str | None) -> None:
    """Create a leaderboard's file from a suite, from your own task sets, or from a table."""
    from assaymark.leaderboard.board_init import write_board

    names = [name.strip() for name in (tasks or "").split(",") if name.strip()]
    if (suite is not None) + bool(names) + (table is not None) > 1:
        raise UsageError("--suite, --tasks and --table exclude each other; choose one")
    file = Path(path)
    for line in write_board(file, suite=suite, tasks=names, table=table, title=title):
        echo(f"note: not read: {line}", err=True)
    echo(f"wrote {file}; show it with: assaymark serve {file}")


@board.command(epilog=examples("board check board.yaml"))
@click.argument("path", metavar="BOARD.yaml")
def check(path: str) -> None:
    """Check a leaderboard's file, its table and its results files: report an error in them, or list its columns."""
    from assaymark.leaderboard.baselines import PEOPLE
    from assaymark.leaderboard.board_files import read_board
    from assaymark.leaderboard.site import Site
    from assaymark.registry import nearest
    from assaymark.tasks.catalog import Catalog

    parsed = read_board(path)
    table = Site([parsed]).table(parsed)
    columns = table.columns
    if parsed.has_card_baselines and not any(row.is_baseline and row.model == PEOPLE for row in table.rows):
        echo("note: `baselines: cards` adds no row: no card of the board's tasks cites a score of people", err=True)
    echo(*(f"note: not read: {line}" for line in table.unread), err=True)
    echo(f"{parsed.title}: columns {', '.join(column.title for column in columns)}")
    known = {entry.name for entry in Catalog.open([]).entries()} | {
        file.name.split(".")[0] for file in parsed.task_files
    }
    for member in parsed.suite.members if parsed.suite else ():
        if member.task.partition(":")[0] not in known:
            near = ", ".join(nearest(member.task, known))
            where = f" (nearest: {near})" if near else ""
            echo(
                f"note: no known task is named {member.task}{where}; its column is empty until a run has one", err=True
            )


@board.command(epilog=examples("board exposure board.yaml"))
@click.argument("path", metavar="BOARD.yaml|SUITE")
@store_option
@json_option
def exposure(path: str, store: str | None, *, as_json: bool) -> int:
    """Compare each model's scores on the previews of sealed tasks with those on their sealed rows.

    A model that does significantly better on the public rows may have been trained on them. The test is one-sided and
    exact for right and wrong, p is corrected over all models and tasks (Holm). Exit code 3 if there is an alarm.
    """
    from assaymark.leaderboard.exposure import exposure_document, exposures

    site = _site(path, store)
    rows = exposures(site.table(next(iter(site.boards.values()))), site.runs)
    print_result(rows, lambda: exposure_document(rows), as_json=as_json)
    return 3 if any(each.is_alarm for each in rows) else 0


@board.command(epilog=examples("board query board.yaml 'llama params:<8'"))
@click.argument("path", metavar="BOARD.yaml|SUITE")
@click.argument("words", nargs=-1, metavar="QUERY")
@click.option(
    "--sort", default="-average", show_default=True, metavar="[-]COLUMN", help="Column to sort by; - for descending."
)
@click.option(
    "--hide", multiple=True, type=click.Choice(["merged", "moe", "flagged", "unavailable", "partial"]),
    help="Rows to leave out, as on the page; repeatable.",
)  # fmt: skip
@click.option("--limit", "-L", type=click.IntRange(1), default=20, show_default=True, help="Number of rows to print.")
@click.option("--csv", "as_csv", is_flag=True, help="Print every matching row as CSV, not rounded.")
@store_option
@json_option
def query(
    path: str, words: tuple[str, ...], store: str | None, as_json: bool, *, sort: str, hide: tuple[str, ...],
    limit: int, as_csv: bool,
) -> None:  # fmt: skip
    """Search a leaderboard: `assaymark board query open-llm-v1 "llama; mistral license:apache-2.0 params:<8"`."""
    from assaymark.leaderboard.exports import found_rows, rows_csv, rows_document, shown_json

    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other; choose one")
    columns, rows, n_models = found_rows(_site(path, store), " ".join(words), sort, hide)
    if as_json:
        print_json([shown_json(row, columns) for row in rows])
    elif as_csv:
        echo(rows_csv(rows, columns), nl=False)
    else:
        print_rich(rows_document(columns, rows[:limit]))
        echo(f"{len(rows):,} of {n_models:,} rows", err=True)


@board.command(epilog=examples("board correlations board.yaml"))
@click.argument("path", metavar="BOARD.yaml")
@store_option
@json_option
def correlations(path: str, store: str | None, *, as_json: bool) -> None:
    """Print the correlation of each benchmark with the board's ratings, over models.

    The board's file names them: `ratings: {file: ratings.csv, column: Arena}`, a CSV file with the columns model and
    rating (and low, high), or a file of votes. Intervals are percentiles of a bootstrap over models.
    """
    from assaymark.leaderboard.correlations import board_correlations

    site = _site(path, store)
    found = board_correlations(site.table(next(iter(site.boards.values()))))
    print_json(found.to_json()) if as_json else print_rich(found.document())


@board.command("win-rates", epilog=examples("board win-rates board.yaml"))
@click.argument("path", metavar="BOARD.yaml")
@store_option
@json_option
def win_rates(path: str, store: str | None, *, as_json: bool) -> None:
    """Print the mean win rate of a board's models by HELM's rule, and their mean score over the columns.

    A win rate depends on who else is listed; a line says for how many pairs of models the order does. Intervals of both
    are of resampled samples, where the samples of all values are stored.
    """
    from assaymark.leaderboard.win_rates import board_win_rates

    site = _site(path, store)
    rates = board_win_rates(site.table(next(iter(site.boards.values()))), site.runs)
    print_json(rates.to_json()) if as_json else print_rich(rates.document())


@board.command(epilog=examples("board datasets board.yaml -o datasets"))
@click.argument("path", metavar="BOARD.yaml|SUITE")
@click.option("--output", "-o", required=True, metavar="FOLDER", help="Folder to write to.")
@gated_option
@store_option
def datasets(path: str, output: str, show_gated: bool, store: str | None) -> None:
    """Write requests, results and details of the stored runs, as the Open LLM Leaderboard's data sets had them.

    A board's file reads them with `results: FOLDER/results` and `requests: FOLDER/requests`; `assaymark import` reads
    a model's folder in FOLDER/details.
    """
    from assaymark.leaderboard.request_files import write_old_layout
    from assaymark.store import Store
    from assaymark.store.public_store import public_store

    site = _site(path, store)
    (only_board,) = site.boards.values()
    source = public_store(Store.open_to_read(store), private=only_board.private)
    paths = list(write_old_layout(site.table(only_board), source, Path(output), show_gated=show_gated))
    if not paths:
        raise UsageError(
            f"{only_board.title} has no row of a stored run; expected a board whose models were evaluated here"
        )
    echo(f"{output}: {len(paths):,} files")


@board.command(epilog=examples("board export board.yaml -o site"))
@click.argument("boards", nargs=-1, required=True, metavar="BOARD.yaml ...")
@click.option("--output", "-o", required=True, metavar="FOLDER", help="New, empty, or with an earlier export.")
@gated_option
@store_option
def export(boards: tuple[str, ...], output: str, show_gated: bool, store: str | None) -> None:
    """Write boards as a static site, for any web host: `assaymark board export board.yaml -o site/`.

    The site opens from a disk too (site/index.html). A later export into the same folder writes what changed and
    deletes what is no longer shown.
    """
    from assaymark.leaderboard.commands.serve import read_boards
    from assaymark.store import Store

    need_web("assaymark board export")
    from assaymark.leaderboard.static.export import export_site

    read = read_boards(boards)
    is_needed = store is not None or Store.exists(None)
    opened = Store.open_to_read(store) if is_needed else None
    done = export_site(read, opened, Path(output), show_gated=show_gated)
    echo(f"{output}: {done.n_files:,} files, {done.n_bytes / 1e6:,.1f} MB; {done.n_written:,} written, "
         f"{done.n_deleted:,} deleted")  # fmt: skip


@board.command(epilog=examples("board token NAME --role submitter"))
@click.argument("name")
@click.option("--role", type=click.Choice(["submitter", "moderator"]), default="submitter", show_default=True)
@click.option("--days", type=float, default=180.0, show_default=True, help="How long the token is valid.")
@json_option
def token(name: str, role: str, days: float, as_json: bool) -> None:
    """Print a token with which NAME submits, votes or moderates; nothing is stored.

    It is signed with the server's secret (ASSAYMARK_SECRET, or the file in the data folder): run this where the server
    runs, as the user it runs as. A moderator revokes it on the page /moderation by its id.
    """
    need_web("assaymark board token")
    from assaymark.web.accounts import AccountTokens
    from assaymark.web.secret import server_secret

    tokens = AccountTokens(server_secret())
    token = tokens.make(name, role, days)
    account = tokens.read(token)
    token_id = "" if account is None else account.token
    if as_json:
        print_json({"token": token, "id": token_id, "name": name, "role": role, "days": days})
    else:
        echo(token)
        echo(f"id {token_id}: {role} {name}, for {days:g} days", err=True)


def _site(path: str, store: str | None) -> "Site":
    from assaymark.leaderboard.board_files import board_of_suite, library_suites
    from assaymark.leaderboard.commands.serve import open_site
    from assaymark.leaderboard.site import Site
    from assaymark.leaderboard.stored import StoredRuns
    from assaymark.store import Store

    suites = library_suites()
    if path in suites and not Path(path).is_file():
        return Site([board_of_suite(suites[path])], StoredRuns(Store.open_to_read(store)))
    return open_site((path,), store)
