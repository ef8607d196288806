"""A table as JSON, CSV and Parquet, and the rows that a search finds as a document; files have unrounded numbers."""

import json
from collections.abc import Mapping, Sequence

from assaymark.documents.blocks import Column, table
from assaymark.documents.document import Document, document
from assaymark.documents.plain_text import csv_lines
from assaymark.errors import UsageError
from assaymark.leaderboard.columns import FACTS
from assaymark.leaderboard.rows import IntervalValue, ScoreColumn, averaged
from assaymark.leaderboard.shown import ShownRow, all_rows, show_table
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.view import parse_view
from assaymark.records import JsonValue


def flat_row(shown_row: ShownRow, columns: Sequence[ScoreColumn]) -> dict[str, JsonValue]:
    """Return a row as one flat mapping with the same keys for every row; shares are in [0, 1], undefined is None."""
    row = shown_row.row
    average = shown_row.average
    flat: dict[str, JsonValue] = {
        "rank": shown_row.rank,
        "rank_best": shown_row.best,
        "rank_worst": shown_row.worst,
        "model": row.model,
        **_ends("average", None if average is None else average.number),
        "n_columns": None if average is None else average.n_columns,
    }
    for column in columns:
        cell = shown_row.cells.get(column.key)
        flat |= _ends(column.key, None if cell is None else cell.number)
        if column.normalised:
            flat[f"{column.key}_raw"] = None if cell is None or cell.raw is None else cell.raw.value
        flat[f"{column.key}_claimed"] = None if cell is None or cell.claim is None else cell.claim.value
        flat[f"{column.key}_n"] = None if cell is None else cell.n
        flat[f"{column.key}_n_failed"] = None if cell is None else cell.n_failed
    flat |= {fact.key: row.facts.get(fact.key) for fact in FACTS}
    stopped = row.stopped
    flat |= {
        "stopped_early": stopped is not None,
        "stopped_n_asked": None if stopped is None else stopped.n_asked,
        "stopped_n_questions": None if stopped is None else stopped.n,
    }
    return {**flat, "runs": " ".join(row.run_ids), "id": row.id, "notes": "; ".join(row.notes), "url": row.url}


def _ends(key: str, number: IntervalValue | None) -> dict[str, JsonValue]:
    if number is None:
        return {key: None, f"{key}_low": None, f"{key}_high": None}
    return {key: number.value, f"{key}_low": number.low, f"{key}_high": number.high}


def shown_json(shown_row: ShownRow, columns: Sequence[ScoreColumn]) -> JsonValue:
    """Return a row as nested JSON."""
    row = shown_row.row
    average = shown_row.average
    return {
        "id": row.id,
        "model": row.model,
        "origin": row.origin,
        "rank": shown_row.rank,
        "rank_set": None if shown_row.best is None else [shown_row.best, shown_row.worst],
        "average": None if average is None else {**_json(average.number), "n_columns": average.n_columns,
                                                 "stated": average.stated},
        "scores": {
            column.key: {**_json(cell.number), "raw": None if cell.raw is None else _json(cell.raw), "n": cell.n,
                         "n_failed": cell.n_failed, "run": cell.run_id,
                         "reported": cell.reported or None,
                         "claimed": None if cell.claim is None else {"value": cell.claim.value,
                                                                     "source": cell.claim.source,
                                                                     "outside_interval": cell.claim.is_outside}}
            for column in columns if (cell := shown_row.cells.get(column.key)) is not None
        },
        "facts": dict(row.facts),
        "runs": list(row.run_ids),
        "stopped_early": None if row.stopped is None else {"n_asked": row.stopped.n_asked, "n": row.stopped.n},
        "notes": list(row.notes),
        "n_open_reports": row.n_reports,
        "citation": row.citation or None,
        "url": row.url or None,
    }  # fmt: skip


def _json(number: IntervalValue) -> dict[str, JsonValue]:
    return {"value": number.value, "low": number.low, "high": number.high, "method": number.method or None}


def rows_csv(rows: Sequence[ShownRow], columns: Sequence[ScoreColumn]) -> str:
    """Return CSV with a heading; no text in it is a formula to a spreadsheet."""
    flat = [flat_row(row, columns) for row in rows]
    names = list(flat[0]) if flat else ["rank", "model", "average"]
    return "".join(csv_lines(names, flat))


def rows_jsonl(rows: Sequence[ShownRow], columns: Sequence[ScoreColumn]) -> str:
    """Return one JSON object for each row, in lines, with the same keys as the CSV's columns."""
    return "".join(json.dumps(flat_row(row, columns), ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def rows_parquet(rows: Sequence[ShownRow], columns: Sequence[ScoreColumn]) -> bytes:
    """Return a Parquet file with the same columns as the CSV."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = [flat_row(row, columns) for row in rows]
    names = list(flat[0]) if flat else ["rank", "model", "average"]
    kinds: Mapping[str, object] = {fact.key: _KINDS[fact.kind] for fact in FACTS}
    texts = {"model", "runs", "id", "notes", "url"}
    fields = []
    for name in names:
        whole = name in {"rank", "rank_best", "rank_worst", "n_columns"} or name.endswith(("_n", "_n_failed"))
        whole = whole or name in {"stopped_n_asked", "stopped_n_questions"}
        plain = "string" if name in texts else "int64" if whole else "bool" if name == "stopped_early" else "double"
        fields.append(pa.field(name, pa.type_for_alias(kinds.get(name, plain))))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(flat, schema=pa.schema(fields)), sink)
    return bytes(sink.getvalue().to_pybytes())


_KINDS = {"text": "string", "choice": "string", "date": "string", "number": "double", "flag": "bool"}


def found_rows(
    site: Site, query: str, sort: str, hide: Sequence[str] = ()
) -> tuple[Sequence[ScoreColumn], list[ShownRow], int]:
    """Return a board's columns, the rows that a search finds, in order, and how many rows there are.

    Args:
        site: of one board.
        query: in the search language.
        sort: a column, with `-` for descending.
        hide: what is left out besides baselines, as keys of `view.HIDDEN_BY`.

    Raises: UsageError for a search or an order that cannot be read.
    """
    board = next(iter(site.boards.values()))
    whole = site.table(board)
    pairs = [("q", query), ("sort", sort), ("hide", ",".join({*hide, "baselines"}))]
    view = parse_view(pairs, [column.key for column in whole.columns])
    visible = show_table(whole, view, board.shown_columns)
    if visible.problems:
        raise UsageError(visible.problems[0])
    return whole.columns, all_rows(whole, view, board.shown_columns), visible.n_models


def rows_document(columns: Sequence[ScoreColumn], rows: Sequence[ShownRow]) -> Document:
    """Return rows as a table; an average of some columns says of how many."""
    n_averaged = len(averaged(columns))
    body = []
    for row in rows:
        rank = "" if row.rank is None else f"{row.rank} ({row.best}–{row.worst})"
        average = _number_text(row.average.number if row.average else None, is_share=True)
        if row.average is not None and row.average.n_columns < n_averaged:
            average += f" ({row.average.n_columns} of {n_averaged})"
        cells = [row.cells.get(column.key) for column in columns]
        numbers = [
            _number_text(cell.number if cell else None, is_share=column.is_share, interval=False)
            for cell, column in zip(cells, columns, strict=True)
        ]
        body.append((rank, row.row.model + row.row.mark, average, *numbers))
    titles: list[str | Column] = ["rank", Column("model", "text"), "average", *(column.title for column in columns)]
    return document(table(titles, body, n_text=0))


def _number_text(number: IntervalValue | None, *, is_share: bool, interval: bool = True) -> str:
    if number is None:
        return "–"
    scale = 100.0 if is_share else 1.0
    ends = (
        ""
        if not interval or number.low is None or number.high is None
        else f" ±{scale * (number.high - number.low) / 2:.1f}"
    )
    return f"{scale * number.value:.1f}{ends}"
