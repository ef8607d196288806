"""All rows of a board as one script, column by column, for the filters of a static site.

The script sets one variable to a JSON document, since a page that is opened from a disk may load scripts beside it, but
not fetch files. Ends of intervals have six significant digits; texts of facts are codes into their
distinct values.
"""

import json
from collections.abc import Callable, Sequence
from urllib.parse import quote

from assaymark.documents.plain_text import printable
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.columns import FACTS, FROM_FILES, MODEL_TYPES, FactColumn
from assaymark.leaderboard.rows import IntervalValue
from assaymark.leaderboard.shown import ShownRow, all_rows
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View
from assaymark.web.render import shown_fact

VARIABLE = "assaymarkRows"  # that the script sets; `static_rows.js` reads it

Link = Callable[[str], str | None]
OWN = {"type", "params", "precision", "origin"}  # facts that filters need, shown or not


def rows_script(board: Board, table: BoardTable, file_of: Link, model_address: Callable[[str], str]) -> bytes:
    """Return the script of a board's rows, in the order of its default view.

    Args:
        board: names the columns that are shown at first.
        table: its rows.
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
