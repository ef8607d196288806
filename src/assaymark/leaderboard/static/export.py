"""A leaderboard as static files, for any host or CDN: the server's pages, rendered by the same functions and templates.

Boards are exported with all pages of their default order, and of the order by each column where the table is short.
Other filters are applied in the browser, by one script of ours to one compact JSON. A task's samples are in files of
500, named after their content. Only runs that a board shows are exported.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from markupsafe import Markup

from assaymark.errors import UnknownName
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.exports import rows_csv, rows_jsonl, rows_parquet
from assaymark.leaderboard.pages.board import about_page, board_page, boards_page
from assaymark.leaderboard.pages.charts import correlations_page
from assaymark.leaderboard.pages.model import model_page
from assaymark.leaderboard.pages.run import SamplesPage, run_page, samples_page
from assaymark.leaderboard.pages.sample import sample_page
from assaymark.leaderboard.pages.task import task_page
from assaymark.leaderboard.routes.boards import DRAWING, LINKS
from assaymark.leaderboard.shown import all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.static.folder import Exported, SiteFolder, open_folder
from assaymark.leaderboard.static.links import Paths, relative, rewritten
from assaymark.leaderboard.static.rows import compact_rows
from assaymark.leaderboard.stored import SampleLine, StoredRun, StoredRuns
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View
from assaymark.store import Store
from assaymark.web.app import TYPES
from assaymark.web.render import STATIC, add_drawing, model_path, respond
from assaymark.web.security import CSP

__all__ = ["CHUNK", "export_site", "published_runs"]

PAGE = 10_000  # samples read at once, the most that the store gives
CHUNK = 500  # samples in one file
LARGEST_CHUNK = 8 << 20  # characters after which a file of samples ends earlier
MOST_SORTED = 3  # pages of a table up to which its order by each column is exported as pages too
SCRIPT = "static_rows.js"
_SAMPLE = re.compile(r"(/run/[^/?#]+/samples/[^/?#]+)/\d+")
_MAIN = re.compile(r"<main\b[^>]*>(.*)</main>", re.DOTALL)
_BESIDE = re.compile(r'<p class="crumbs">.*?</p>|<nav class="pager".*?</nav>', re.DOTALL)
_SEARCH_FORM = re.compile(r'<form class="filters" method="get".*?</form>', re.DOTALL)
_COMPARE_FORM = re.compile(r'<form method="get" action="/compare">(.*?)</form>', re.DOTALL)
_CHOICE = re.compile(r'<th scope="col">Compare</th>|<td><input type="checkbox"[^>]*></td>|<p><button.*?</button></p>')


def published_runs(boards: Sequence[Board], store: Store, *, show_gated: bool) -> StoredRuns:
    """Return the runs that have a row on one of the boards."""
    site = Site(boards, StoredRuns(store))
    ids = {run_id for board in boards for row in site.table(board).rows for run_id in row.run_ids}
    return StoredRuns(store, show_gated=show_gated, shows=lambda run: run.run_id in ids)


def export_site(boards: Sequence[Board], store: Store | None, root: Path, *, show_gated: bool = False) -> Exported:
    """Write boards as a static site.

    Args:
        boards: at least one.
        store: the runs' store, open; None for published tables.
        root: a new or empty folder, or one with an earlier export, which is brought up to date.
        show_gated: whether texts of gated data sets are written too.

    Raises: UsageError for a folder that holds something else.
    """
    site = Site(boards, None if store is None else published_runs(boards, store, show_gated=show_gated))
    add_drawing(DRAWING)
    with open_folder(root) as folder:
        _Export(site, folder).write()
        return folder.finish()


@dataclass(frozen=True)
class Article:
    """One sample in a file of many; the inner part of its own page."""

    index: int
    html: Markup


@dataclass(frozen=True)
class ChunkLink:
    """One file of samples."""

    first: int
    last: int
    url: str


@dataclass(frozen=True)
class StaticSamples(SamplesPage):
    """A task's samples in a run, with links to all of them or with the samples themselves."""

    chunks: tuple[ChunkLink, ...] = ()
    articles: tuple[Article, ...] = ()


class _Export:
    """One export: first the addresses of all pages, then the pages."""

    def __init__(self, site: Site, folder: SiteFolder) -> None:
        self._site, self._folder = site, folder
        self._paths = Paths()
        self._tables: dict[str, tuple[Board, BoardTable]] = {
            board.name: (board, site.table(board)) for board in site.boards.values()
        }
        self._runs = {run.run_id: run for run in site.stored_runs()}
        self._models = sorted(
            {row.model for _, table in self._tables.values() for row in table.rows if not row.is_baseline}
            | {run.model for run in self._runs.values()}
        )
        self._tasks = self._known_tasks()

    def write(self) -> None:
        """Render every page."""
        self._add_files()
        self._name_pages()
        for run in self._runs.values():
            for task in run.row.tasks:
                self._write_samples(run, task)
        for board, table in self._tables.values():
            self._write_board(board, table)
        if len(self._tables) > 1:
            self._page("/boards", "boards.html", boards_page(self._site))
        for name in self._models:
            address = model_path(name)
            self._page(address, "model.html", model_page(self._site, name))
        for run_id in self._runs:
            self._page(f"/run/{_in_path(run_id)}", "run.html", run_page(self._site, run_id))
        for task in self._tasks:
            self._page(f"/task/{_in_path(task)}", "task.html", task_page(self._site, task))

    # ------------------------------------------------------------------------------------- addresses

    def _known_tasks(self) -> list[str]:
        names = {task for run in self._runs.values() for task in run.row.tasks}
        names |= {m.task for board, _ in self._tables.values() if board.suite for m in board.suite.members}
        names |= {
            column
            for _, table in self._tables.values()
            for score_column in table.columns
            for column in score_column.tasks
        }
        tasks = []
        for name in sorted(names):
            try:
                task_page(self._site, name)
            except UnknownName:
                continue
            tasks.append(name)
        return tasks

    def _add_files(self) -> None:
        """Add our own static files, named after their content; addresses with a version lead to them as well."""
        for path in sorted(STATIC.iterdir()):
            if path.suffix not in TYPES or path.name == "htmx.min.js":
                continue
            body = path.read_bytes()
            file = f"static/{path.stem}-{sha256(body).hexdigest()[:10]}{path.suffix}"
            self._folder.add(self._paths.add(f"/static/{path.name}", path.suffix, file=file), body)

    def _name_pages(self) -> None:
        first = next(iter(self._tables))
        home = f"/board/{_in_path(first)}" if len(self._tables) == 1 else "/boards"
        self._paths.add(home, file="index.html")
        for again in ("/", "/boards"):
            self._paths.alias(again, "index.html")
        for name, (board, table) in self._tables.items():
            self._name_board(f"/board/{_in_path(name)}", board, table)
        for name in self._models:
            self._paths.add(model_path(name))
        for run_id, run in self._runs.items():
            self._paths.add(f"/run/{_in_path(run_id)}")
            for task in run.row.tasks:
                self._paths.add(f"/run/{_in_path(run_id)}/samples/{_in_path(task)}")
        for task in self._tasks:
            self._paths.add(f"/task/{_in_path(task)}")

    def _name_board(self, address: str, board: Board, table: BoardTable) -> None:
        self._paths.add(address)
        folder = self._paths.add(f"{address}/x").rpartition("/")[0]
        self._paths.add(f"{address}/about")
        if board.ratings:
            self._paths.add(f"{address}/correlations")
        for kind in ("csv", "jsonl", "parquet"):
            self._paths.add(f"{address}.{kind}", f".{kind}", file=f"{folder}/rows.{kind}")
        if board.logo is not None:
            self._paths.add(f"{address}/logo", board.logo.suffix, file=f"{folder}/logo{board.logo.suffix.lower()}")
        for query, stem in _views(table):
            self._paths.add(f"{address}{query}", file=f"{folder}/{stem}.html")

    # ----------------------------------------------------------------------------------------- pages

    def _page(self, address: str, template: str, page: Any, head: Mapping[str, str] | None = None) -> None:
        file = self._paths.add(address)
        html = self._html(address, template, page, self._head(file, head))
        self._folder.add(file, self._linked(file, html).encode("utf-8", "backslashreplace"))

    def _html(self, address: str, template: str, page: Any, head: Markup) -> str:
        path, _, query = address.partition("?")
        context = {"live": False, "static_head": head, "links": LINKS, "home": "/boards"}
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": [],
                 "server": ("static", 80), "root_path": "", "state": {"context": context}}  # fmt: skip
        html = bytes(respond(Request(scope), template, page).body).decode("utf-8")
        html = _SEARCH_FORM.sub("", html)
        return _COMPARE_FORM.sub(lambda form: _CHOICE.sub("", form[1]), html)

    def _linked(self, file: str, html: str) -> str:
        return rewritten(html, lambda target: self._paths.link(file, target))

    def _head(self, file: str, data: Mapping[str, str] | None) -> Markup:
        """Return what stands in the head of a static page: the policy that a server sends, and a board's script."""
        policy = re.sub(r" frame-ancestors [^;]*;?", "", CSP).rstrip("; ")
        head = Markup('<meta http-equiv="Content-Security-Policy" content="{}">').format(policy)
        if data is None:
            return head
        root = relative(file, "index.html").removesuffix("index.html") or "./"
        attributes = {**data, "root": root, "icons": f"{root}{self._paths.add('/static/icons.svg')}"}
        parts = Markup("").join(Markup(' data-{}="{}"').format(key, value) for key, value in attributes.items())
        return head + Markup('<script src="/static/{}" defer{}></script>').format(SCRIPT, parts)

    def _file_of(self, address: str) -> str | None:
        return self._paths.link("index.html", address)

    def _write_board(self, board: Board, table: BoardTable) -> None:
        address = f"/board/{_in_path(board.name)}"
        folder = self._paths.add(f"{address}/x").rpartition("/")[0]
        body = compact_rows(board, table, self._file_of, model_path)
        rows = f"{folder}/rows-{sha256(body).hexdigest()[:16]}.json"
        self._folder.add(rows, body)
        for query in ["", *(query for query, _ in _views(table))]:
            pairs = [(key, value) for key, _, value in (part.partition("=") for part in query[1:].split("&") if part)]
            page = board_page(self._site, board.name, pairs)
            file = self._paths.add(f"{address}{query}")
            self._page(f"{address}{query}", "board.html", page, {"rows": relative(file, rows)})
        self._page(f"{address}/about", "about.html", about_page(self._site, board.name))
        if board.ratings:
            self._page(f"{address}/correlations", "correlations.html", correlations_page(self._site, board.name))
        listed = all_rows(table, View(), board.shown_columns)
        self._folder.add(self._paths.add(f"{address}.csv"), rows_csv(listed, table.columns).encode())
        lines = rows_jsonl(listed, table.columns).encode("utf-8", "backslashreplace")
        self._folder.add(self._paths.add(f"{address}.jsonl"), lines)
        self._folder.add(self._paths.add(f"{address}.parquet"), rows_parquet(listed, table.columns))
        if board.logo is not None and board.logo.is_file():
            self._folder.add(self._paths.add(f"{address}/logo"), board.logo.read_bytes())

    # --------------------------------------------------------------------------------------- samples

    def _write_samples(self, run: StoredRun, task: str) -> None:
        """Write a task's samples in files of 500, then the page that leads to them."""
        address = f"/run/{_in_path(run.run_id)}/samples/{_in_path(task)}"
        page = samples_page(self._site, run.run_id, task, ())
        lines = tuple(self._lines(run, task))
        links = []
        chunks = () if self._site.runs is None or self._site.runs.is_withheld(task) else self._chunks(run, task, lines)
        for group, articles in chunks:
            file = self._write_chunk(address, page, group, articles)
            links.append(ChunkLink(group[0].index, group[-1].index, f"/{file}"))
            self._paths.alias(f"/{file}", file)
            for line in group:
                self._paths.alias(f"{address}/{line.index}", f"{file}#s{line.index}")
        self._page(address, "samples_static.html", _static(page, page.samples.lines, tuple(links), ()))

    def _lines(self, run: StoredRun, task: str) -> Iterator[SampleLine]:
        """Yield all samples of a task, a page of the store at a time."""
        offset = 0
        while self._site.runs is not None:
            lines = self._site.runs.sample_page(run.row, task, offset=offset, limit=PAGE).lines
            yield from lines
            offset += PAGE
            if len(lines) < PAGE:
                return

    def _chunks(
        self, run: StoredRun, task: str, lines: Sequence[SampleLine]
    ) -> Iterator[tuple[list[SampleLine], list[Article]]]:
        """Yield the samples in groups, in order; turns of one sample stay together."""
        group: list[SampleLine] = []
        articles: list[Article] = []
        size = 0
        for line in lines:
            is_new = not articles or articles[-1].index != line.index
            if is_new and (len(articles) == CHUNK or size > LARGEST_CHUNK):
                yield group, articles
                group, articles, size = [], [], 0
            group.append(line)
            if is_new:
                articles.append(self._article(run, task, line.index))
                size += len(articles[-1].html)
        if group:
            yield group, articles

    def _article(self, run: StoredRun, task: str, index: int) -> Article:
        page = sample_page(self._site, run.run_id, task, index)
        html = self._html(f"/run/{run.run_id}/samples/{_in_path(task)}/{index}", "sample.html", page, Markup(""))
        main = _MAIN.search(html)
        inner = _BESIDE.sub("", main[1] if main else "")
        inner = re.sub(r"<(/?)h([12])>", lambda tag: f"<{tag[1]}h{int(tag[2]) + 1}>", inner)
        return Article(index, Markup(inner))  # noqa: S704 - rendered by the page's template, which escapes

    def _write_chunk(self, address: str, page: SamplesPage, group: list[SampleLine], articles: list[Article]) -> str:
        """Write one file of samples; its name holds the hash of its content, so it may be cached for ever."""
        folder = self._paths.add(address).removesuffix(".html")
        draft = f"{folder}/x.html"  # links depend on the folder only
        html = self._html(address, "samples_static.html", _static(page, tuple(group), (), tuple(articles)),
                          self._head(draft, None))  # fmt: skip
        own = {f"{address}/{line.index}": f"#s{line.index}" for line in group}

        def link(target: str) -> str | None:
            # a file named after its content cannot name another such file: the task's page leads on from there
            return own.get(target) or self._paths.link(draft, _SAMPLE.sub(r"\1", target))

        body = rewritten(html, link).encode("utf-8", "backslashreplace")
        file = f"{folder}/{group[0].index}-{group[-1].index}-{sha256(body).hexdigest()[:16]}.html"
        self._folder.add(file, body)
        return file


def _static(
    page: SamplesPage, lines: Sequence[SampleLine], chunks: tuple[ChunkLink, ...], articles: tuple[Article, ...]
) -> StaticSamples:
    samples = replace(page.samples, lines=tuple(lines), n_matching=len(lines))
    return StaticSamples(page.run, page.task, page.estimates, page.card, samples, "", False, "", 1, 1, (),
                         chunks=chunks, articles=articles)  # fmt: skip


def _views(table: BoardTable) -> list[tuple[str, str]]:
    """Return the query strings of a board's further pages, and the stems of their files."""
    n_pages = max(1, -(-len(table.rows) // View().per))
    views = [(View(page=page).query(page=page), f"page-{page}") for page in range(2, n_pages + 1)]
    if n_pages > MOST_SORTED:
        return views
    for column in table.columns:
        view = View(sort=f"-{column.key}" if column.higher_is_better else column.key)
        views += [(view.query(page=page), f"by-{column.key}-{page}") for page in range(1, n_pages + 1)]
    return views


def _in_path(text: str) -> str:
    return quote(text, safe="")
