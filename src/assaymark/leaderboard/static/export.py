"""A leaderboard as static files, for any host or CDN or to open from a disk, made by visiting the application's pages.

The export follows the links from the first page within a boundary: tables with all pages of their default order, and of
the order by each column if they are short; charts of each column; models, runs, tasks and series; recommendations for
each capability; comparisons of two runs. Other filters of a table are applied in the browser: one script filters the
rows that another one holds: a variable set to a JSON document, since a page that is opened from a disk may load scripts
beside it, but not fetch files. A task's samples are in files of 500 (`samples`). Templates know that they are exported
and leave out parts that need the server. Only runs that a board shows are visited.
"""

import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from urllib.parse import parse_qsl, quote, urlsplit

from assaymark.documents.plain_text import printable
from assaymark.errors import write_errors
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.columns import FACTS, FROM_FILES, MODEL_TYPES, FactColumn
from assaymark.leaderboard.guide import capabilities
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.rows import IntervalValue
from assaymark.leaderboard.shown import ShownRow, all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.static.folder import Exported, SiteFolder, open_folder
from assaymark.leaderboard.static.links import PageReader, Paths, addresses, canonical, file_name, rewritten, visiting
from assaymark.leaderboard.static.samples import SAMPLES, SampleFiles
from assaymark.leaderboard.stored import StoredRuns
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.render import model_path, shown_fact

VARIABLE = "assaymarkRows"  # that the script sets; `static_rows.js` reads it
Link = Callable[[str], str | None]
OWN = {"type", "params", "precision", "origin"}  # facts that filters need, shown or not
MOST_SORTED = 3  # pages of a table up to which its order by each column is exported as pages too
MOST_COMPARISONS = 400  # of two runs, but for those that pages of models and series name
SUFFIXES = {
    "text/css": ".css",
    "text/javascript": ".js",
    "image/svg+xml": ".svg",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "text/csv": ".csv",
    "application/x-ndjson": ".jsonl",
    "application/vnd.apache.parquet": ".parquet",
}
ICONS = "/static/icons.svg"
_PLAIN_PAGES = re.compile(
    r"/boards|/guide|/recommend|/compare|/static/[^/]+|/(model|task|series)/.+|/run/[^/]+|/board/[^/]+(/about"
    rf"|/correlations|/win-rates|/charts|/logo|\.csv|\.jsonl|\.parquet)?|{SAMPLES.pattern}"
)
_SYMBOL = re.compile(r'<symbol id="([a-z-]+)".*?</symbol>', re.DOTALL)
_BOARD = re.compile(r"/board/[^/]+")


def published_runs(boards: Sequence[Board], store: Store, *, show_gated: bool) -> StoredRuns:
    """Return the runs that have a row on one of the boards."""
    site = Site(boards, StoredRuns(store))
    ids = {run_id for board in boards for row in site.table(board).rows for run_id in row.run_ids}
    private = frozenset[str]().union(*(board.private for board in boards))
    return StoredRuns(store, show_gated=show_gated, private=private, shows=lambda run: run.run_id in ids)


def export_site(boards: Sequence[Board], store: Store | None, root: Path, *, show_gated: bool = False) -> Exported:
    """Write boards as a static site.

    Args:
        boards: at least one.
        store: the runs' store, open; None for published tables.
        root: a new or empty folder, or one with an earlier export, which is brought up to date.
        show_gated: whether texts of gated data sets are written too.

    Raises: UsageError for a folder that holds something else; DataError for a page that cannot be made; StoreError
        where the site cannot be written.
    """
    runs = None if store is None else published_runs(boards, store, show_gated=show_gated)
    if runs is not None:
        runs.hold()
    site = Site(boards, runs)
    tables = {f"/board/{quote(board.name, safe='')}": (board, site.table(board)) for board in site.boards.values()}
    app = create_app([board_feature(site)])
    remedy = "what is there is whole: make room, or name another folder with -o, and export again"
    with write_errors(f"the site in {root}", remedy), open_folder(root) as folder, visiting(app) as visitor:
        _Export(tables, visitor, folder).write()
        return folder.finish()


class _Boundary:
    """Decides which addresses belong to a site: every page without a query, and some with one."""

    def __init__(self, tables: dict[str, tuple[Board, BoardTable]]) -> None:
        views = (f"{address}{query}" for address, (_, table) in tables.items() for query in _views(table))
        self._views = frozenset(map(canonical, views))
        self._n_comparisons = 0

    def holds(self, address: str, source: str) -> bool:
        """Return whether to visit an address that a page (`source`) is the first to name."""
        path, _, query = address.partition("?")
        if not query:
            return _PLAIN_PAGES.fullmatch(path) is not None and path != ICONS
        pairs = parse_qsl(query)
        if address in self._views:
            return True
        if len(pairs) != 1:
            return False
        key, value = pairs[0]
        if path == "/recommend":
            return key == "for" and value in capabilities()
        if path == "/compare" and key == "runs" and value.count(",") <= 1:
            is_pair = "," in value
            is_counted = is_pair and source.startswith("/compare")
            self._n_comparisons += is_counted
            return not is_counted or self._n_comparisons <= MOST_COMPARISONS
        return path.endswith("/charts") and _BOARD.match(path) is not None and key in {"column", "against"}


class _Export:
    """One export: first all pages are visited, then the existing ones are written with links to each other."""

    def __init__(self, tables: dict[str, tuple[Board, BoardTable]], visitor: PageReader, folder: SiteFolder) -> None:
        self._tables, self._visitor, self._folder = tables, visitor, folder
        self._paths = Paths()
        self._pages: dict[str, bytes] = {}  # compressed, by address
        self._policy = ""  # what a browser may load, as the server says it
        symbols = _SYMBOL.finditer(visitor.get(ICONS).text)
        self._symbols = {symbol[1]: symbol[0].replace('id="', 'id="icon-', 1) for symbol in symbols}

    def write(self) -> None:
        """Visit every page and write it."""
        home = self._visitor.final("/")
        if home == "/":
            home = "/boards"
        self._paths.add(home, file="index.html")
        self._visit_from(home)
        for again in ("/", "/boards"):
            self._paths.alias(again, "index.html")
        samples = SampleFiles(self._visitor, self._paths, self._folder, self._finished, _suffix)
        for address, (board, table) in self._tables.items():
            self._write_rows(address, board, table)
        for address, body in self._pages.items():
            html = zlib.decompress(body).decode()
            if SAMPLES.fullmatch(address) and '<table class="samples">' in html:
                samples.write(address, html)
                continue
            file = self._paths.add(address)
            self._folder.add(file, self._finished(html, partial(self._paths.link, file)))

    def _visit_from(self, home: str) -> None:
        """Visit all pages that can be reached from the home page; other files are written at once."""
        boundary = _Boundary(self._tables)
        seen = {home, "/"} | ({"/boards"} if home != "/boards" else set())
        queue = deque([home])
        moved: dict[str, str] = {}
        while queue:
            address = queue.popleft()
            response = self._visitor.get(address)
            if response.is_redirect:  # a model that has another name now
                moved[address] = canonical(response.headers["location"])
                targets = [moved[address]]
            elif not response.is_success:  # such as a task without a file, or a withdrawn run
                continue
            elif (suffix := _suffix(response.headers["content-type"])) != ".html":
                self._folder.add(self._paths.add(address, suffix, file=_name(address, suffix, response.content)),
                                 response.content)  # fmt: skip
                continue
            else:
                self._paths.add(address)
                self._pages[address] = zlib.compress(response.content)
                self._policy = response.headers["content-security-policy"]
                targets = [
                    canonical(target)
                    for target in addresses(response.text)
                    if target.startswith("/") and not target.startswith("//")
                ]
            for target in targets:
                if target not in seen and boundary.holds(target, address):
                    seen.add(target)
                    queue.append(target)
        for address, target in moved.items():
            if target in self._pages:
                self._paths.alias(address, self._paths.add(target))

    def _write_rows(self, address: str, board: Board, table: BoardTable) -> None:
        folder = file_name(address)
        body = rows_script(board, table, lambda target: self._paths.link(f"{folder}/x.js", target), model_path)
        rows = f"{folder}/rows-{sha256(body).hexdigest()[:16]}.js"
        self._folder.add(rows, body)
        self._paths.alias(f"{address}/rows.js", rows)

    def _finished(self, html: str, link: Callable[[str], str | None]) -> bytes:
        """Return a page with links rewritten by `link`, inlined icons, and the security policy that a server sends."""
        icons: dict[str, str] = {}

        def link_or_icon(target: str) -> str | None:
            if canonical(target) != ICONS:
                return link(target)
            name = urlsplit(target).fragment
            icons[name] = self._symbols.get(name, "")
            return f"#icon-{name}"

        html = rewritten(html, link_or_icon)
        if "data-rows=" in html:  # its script may show rows with any icon
            icons = self._symbols
        policy = re.sub(r" frame-ancestors [^;]*;?", "", self._policy).rstrip("; ")
        meta = f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
        sprite = f'<body>\n<svg width="0" height="0" display="none" aria-hidden="true">{"".join(icons.values())}</svg>'
        html = html.replace('<meta charset="utf-8">', meta, 1).replace("<body>", sprite, 1)
        return html.encode("utf-8", "backslashreplace")


def _suffix(content_type: str) -> str:
    """Return the ending of files of a content type."""
    return SUFFIXES.get(content_type.partition(";")[0], ".html")


def _name(address: str, suffix: str, body: bytes) -> str | None:
    """Return the file of an address that is not a page; None if the address itself gives the name."""
    path = PurePosixPath(address)
    if address.startswith("/static/"):  # named after its content, so it may be cached for ever
        return f"static/{path.stem}-{sha256(body).hexdigest()[:10]}{suffix}"
    if suffix in {".csv", ".jsonl", ".parquet"}:
        return f"{file_name(address.removesuffix(suffix))}/rows{suffix}"
    return None


def _views(table: BoardTable) -> list[str]:
    """Return the query strings of a board's further pages."""
    n_pages = max(1, -(-len(table.rows) // View().per))
    views = [View(page=page).query(page=page) for page in range(2, n_pages + 1)]
    if n_pages > MOST_SORTED:
        return views
    for column in table.columns:
        view = View(sort=f"-{column.key}" if column.higher_is_better else column.key)
        views += [view.query(page=page) for page in range(1, n_pages + 1)]
    return views


def rows_script(board: Board, table: BoardTable, file_of: Link, model_address: Callable[[str], str]) -> bytes:
    """Return the script of a board's rows, in the order of its default view.

    Args:
        board: names the columns that are shown at first.
        file_of: the file of an address, relative to the script; None where the site has none.
        model_address: the address of a model's page.
    """
    rows = all_rows(table, View(), board.shown_columns)
    known = table.index.known_facts
    scores = ["average", *(column.key for column in table.columns)]
    document = {
        "columns": [[column.key, printable(column.title), column.is_share, column.higher_is_better]
                    for column in table.columns],
        "keys": [[fact.key, fact.kind, [fact.key, *fact.aliases]] for fact in FACTS],  # of searches
        "shown": list(board.shown_columns),
        "n_averaged": table.n_averaged,
        "types": [[model_type.key, model_type.title, list(model_type.aliases)] for model_type in MODEL_TYPES],
        "id": [row.row.id for row in rows],
        "model": [printable(row.row.model) for row in rows],
        "page": [None if row.row.is_baseline else file_of(model_address(row.row.model)) for row in rows],
        "baseline": [int(row.row.is_baseline) for row in rows],
        "complete": [int(row.average is not None and row.average.n_columns == table.n_averaged) for row in rows],
        "group": table.index.average_groups[[table.places[row.row.id] for row in rows]].tolist(),  # ordered one by one
        "n_columns": [0 if row.average is None else row.average.n_columns for row in rows],
        "rank": [[row.rank or 0, row.best or 0, row.worst or 0] for row in rows],
        "badges": _badges(rows),
        "scores": {key: [_number(_score(row, key)) for row in rows] for key in scores},
        "links": {column.key: [_cell_file(row, column.key, file_of) for row in rows] for column in table.columns},
        "facts": {fact.key: _fact(fact, rows) for fact in FACTS if fact.key in known or fact.key in OWN},
    }  # fmt: skip
    for key, links in list(document["links"].items()):
        if not any(links):
            del document["links"][key]
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    literal = json.dumps(text, ensure_ascii=False)  # parsed as data: no name in it is code
    return f"globalThis.{VARIABLE} = JSON.parse({literal});\n".encode("utf-8", "backslashreplace")


def _score(row: ShownRow, key: str) -> IntervalValue | None:
    if key == "average":
        return None if row.average is None else row.average.number
    cell = row.cells.get(key)
    return None if cell is None else cell.number


def _number(number: IntervalValue | None) -> list[float] | None:
    if number is None:
        return None
    ends = [] if number.low is None or number.high is None else [number.low, number.high]
    return [number.value, *(float(f"{end:.6g}") for end in ends)]  # rounded values would tie in another order


def _cell_file(row: ShownRow, key: str, file_of: Link) -> str | None:
    cell = row.cells.get(key)
    if cell is None or cell.run_id is None:
        return None
    run = f"/run/{quote(cell.run_id, safe='')}"
    return (file_of(f"{run}/samples/{quote(cell.task, safe='')}") if cell.task else None) or file_of(run)


def _badges(rows: Sequence[ShownRow]) -> dict[str, list[str]]:
    """Return the small marks of rows that have any, by their position."""
    badges = {}
    for at, shown_row in enumerate(rows):
        row = shown_row.row
        marks = [mark for mark, is_set in (("flagged", row.facts.get("flagged")),
                                           (row.origin, row.origin in FROM_FILES)) if is_set]  # fmt: skip
        if marks:
            badges[str(at)] = marks
    return badges


def _fact(fact: FactColumn, rows: Sequence[ShownRow]) -> dict[str, object]:
    """Return a column of facts: numbers and flags as they are, texts as codes, -1 where nothing is known."""
    values = [row.row.facts.get(fact.key) for row in rows]
    head = {"title": fact.title, "kind": fact.kind}
    if fact.kind in {"number", "flag"}:
        return {**head, "values": [None if value is None else int(value) if isinstance(value, bool) else value
                                   for value in values]}  # fmt: skip
    texts = ["" if value is None else str(value) for value in values]
    if fact.key == "sha":
        texts = [shown_fact(text, "sha") if text else "" for text in texts]
    distinct = list(dict.fromkeys(printable(text) for text in texts if text))
    position = {text: at for at, text in enumerate(distinct)}
    return {**head, "texts": distinct, "codes": [position[printable(text)] if text else -1 for text in texts]}
