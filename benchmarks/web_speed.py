"""Print how long the leaderboard takes: filters at 7,169 and 100,000 simulated rows, pages cold and cached.

    python benchmarks/web_speed.py [--rows 7169,100000] [--repeats 20]

Times are processor time of this process, so that other work on the machine does not count; the median is printed.
Targets: a filter 10 ms at 7,169 rows and 40 ms at 100,000; a page 40 ms cold; its first bytes below 100 kB compressed.
"""

import argparse
import gzip
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from evalstone.leaderboard.board import Board
from evalstone.leaderboard.columns import MODEL_TYPES
from evalstone.leaderboard.query import SearchKeys, parse_query, search_keys
from evalstone.leaderboard.rows import Average, Cell, Number, Row, ScoreColumn
from evalstone.leaderboard.shown import show_table
from evalstone.leaderboard.table import Table
from evalstone.leaderboard.view import View
from evalstone.web.pages.board import board_page
from evalstone.web.render import _environment

TITLES = ("ARC", "HellaSwag", "MMLU", "TruthfulQA", "Winogrande", "GSM8K")
QUERIES = ("llama; mistral license:apache-2.0 params:<8 -merged:true", "arc:>60 type:chat", "-flagged:true date:>2024")


def simulated(n: int) -> Table:
    """Return a table of n rows like those of the published boards."""
    generator = np.random.default_rng(n)
    scores = generator.uniform(0.2, 0.9, (n, len(TITLES)))
    columns = tuple(ScoreColumn(title.lower(), title) for title in TITLES)
    rows = []
    for at in range(n):
        numbers = [Number(v, v - 0.02, v + 0.02, 0.01) for v in scores[at].tolist()]
        mean = float(scores[at].mean())
        facts: dict[str, str | float | bool | None] = {
            "type": MODEL_TYPES[at % 7].key, "params": float(at % 70 + 1), "precision": ("bfloat16", "float16")[at % 2],
            "licence": ("apache-2.0", "mit", "llama3", "")[at % 4], "merged": at % 3 == 0, "flagged": at % 60 == 0,
            "date": f"202{3 + at % 2}-0{1 + at % 9}-15",
        }  # fmt: skip
        name = f"{('llama', 'mistral', 'qwen', 'phi')[at % 4]}-org/model-{at}"
        cells = {column.key: Cell(number) for column, number in zip(columns, numbers, strict=True)}
        average = Average(Number(mean, mean - 0.01, mean + 0.01, 0.005), len(TITLES))
        rows.append(Row(str(at), name, "published", cells, average, facts))
    return Table(columns, tuple(rows), rank_apart=False, version=str(n))


class _Site:
    """A site of one simulated table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def board(self, name: str) -> Board:
        """Return the board."""
        return Board(name, "Simulated")

    def table(self, board: Board) -> Table:  # noqa: ARG002 - as the real one
        """Return the table."""
        return self._table


def median_ms(repeats: int, work: Callable[[], object]) -> float:
    """Return the median processor time of `work`. Units: milliseconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return statistics.median(times)


def _filter(table: Table, keys: SearchKeys, query: str) -> object:
    return table.index.matching(parse_query(query, keys))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="7169,100000")
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    for n in map(int, given.rows.split(",")):
        table = simulated(n)
        start = time.process_time()
        show_table(table, View(), ())
        print(f"{n:,} rows: first page, index and ranks {1000 * (time.process_time() - start):.1f} ms")
        keys = search_keys({column.key: column.title for column in table.columns})
        for query in QUERIES:
            took = median_ms(given.repeats, partial(_filter, table, keys, query))
            print(f"  filter {took:6.2f} ms  {query}")
        site = _Site(table)
        pages: list[str] = []

        def draw(query: str, site: _Site = site, pages: list[str] = pages) -> None:
            page = board_page(site, "simulated", [("q", query)])  # type: ignore[arg-type]
            template = _environment().get_template("board.html")
            pages.append(template.render(page=page, theme="auto", here="/", path="/", version="0"))

        draw("")
        for query in ("", QUERIES[0]):
            took = median_ms(given.repeats, partial(draw, query))
            size = len(gzip.compress(pages[-1].encode()))
            print(f"  page   {took:6.2f} ms  {size / 1000:.1f} kB compressed  {query or '(no search)'}")


if __name__ == "__main__":
    main()
