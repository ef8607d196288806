"""Folders of Every Eval Ever's records become boards: a column for each result of a benchmark, a row for each model.

Several records of a model are one row as far as no column has two values; what is left makes further rows, the latest
first, so that no value is lost. A value is as its record states it, its interval too if its confidence is 95%; else it
is computed from the standard error or the number of samples. Results with other bounds are other columns.

A record that cannot be read is left out, with a line that names file and key.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.every_eval_records import EvalRecord, RecordResult, read_record, record_files
from assaymark.leaderboard.averages import average_of
from assaymark.leaderboard.board import Board, TableSource, column_keys
from assaymark.leaderboard.published_facts import facts_of_csv, hub_url
from assaymark.leaderboard.rows import BoardRow, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.table import BoardTable, row_id
from assaymark.leaderboard.users_files import state_of
from assaymark.scoring.metrics import is_right_or_wrong
from assaymark.statistics.reported import estimate_reported

CONFIDENCE = 0.95
MOST_COLUMNS = 40  # of a board whose file names none


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a folder. unread: a line for each file that is none, or a link that is not followed."""

    records: tuple[EvalRecord, ...]
    unread: tuple[str, ...]


def read_records(folder: Path) -> Records:
    """Return the records in a folder and below.

    Raises: DataError where there is none that can be read.
    """
    files, left_out = record_files(folder)
    records: list[EvalRecord] = []
    for file in files:
        try:
            records.append(read_record(file))
        except DataError as error:
            left_out.append(str(error))
    if not records:
        why = f": {left_out[0]}" if left_out else ""
        raise DataError(f"{folder} has no record of Every Eval Ever that can be read{why}")
    return Records(tuple(records), tuple(left_out))


def folder_state(folder: Path) -> str:
    """Return a text that changes with the records of a folder; it is looked at every half minute at most."""
    return state_of(folder, _files_in)


def _files_in(folder: Path) -> list[Path]:
    return record_files(folder)[0]


def result_names(records: Iterable[EvalRecord]) -> dict[str, str]:
    """Return the names of the columns that records can have, those of most models first, with their evaluations'."""
    models: dict[str, set[str]] = {}
    evaluations: dict[str, str] = {}
    for record in records:
        for result in record.results:
            name = _name(result)
            models.setdefault(name, set()).add(record.model)
            evaluations[name] = result.name
    return {name: evaluations[name] for name in sorted(models, key=lambda name: -len(models[name]))}


def _name(result: RecordResult) -> str:
    """Return what a column shows: the evaluation, its metric, and bounds that are not those of a share."""
    by = "" if result.filter == "none" else f" ({result.filter})"
    bounds = result.bounds
    of = "" if bounds == (0.0, 1.0) else ", without bounds" if bounds is None else f", {bounds[0]:g} to {bounds[1]:g}"
    return f"{result.name}, {result.metric}{by}{of}{'' if result.higher_is_better else ', lower is better'}"


def read_record_table(board: Board, source: TableSource) -> BoardTable:
    """Return the table of a folder of records.

    Raises: DataError where no record can be read, or none has a column of the board.
    """
    found = read_records(source.file)
    known = result_names(found.records)
    titles = {name: title for title, name in (source.columns or titled_names(found.records)[0]).items()}
    if lacking := [name for name in titles if name not in known]:
        raise DataError(
            f"{source.file}: no record has a result '{lacking[0]:.200}'; expected one of {', '.join(known):.300}"
        )
    keys = column_keys(titles.values())
    shown = {name: keys[title] for name, title in titles.items()}
    results = {_name(result): result for record in found.records for result in record.results}
    columns = tuple(
        ScoreColumn(
            key=keys[title],
            title=title,
            category=board.category_of(title),
            metrics=(results[name].metric,),
            is_share=results[name].bounds == (0.0, 1.0),
            higher_is_better=results[name].higher_is_better,
        )
        for name, title in titles.items()
    )
    of_models: dict[tuple[str, str], list[EvalRecord]] = {}
    for record in sorted(found.records, key=lambda each: (-each.date, each.file)):
        precision = str(facts_of_csv(record.details).get("precision") or "")
        of_models.setdefault((record.model, precision), []).append(record)
    rows = [
        row
        for (model, _), records in of_models.items()
        for row in _rows(model, records, columns, shown)
    ]  # fmt: skip
    rows = _with_own_ids(rows)
    return BoardTable(
        columns, tuple(rows), rank_apart=False, version=folder_state(source.file)[:16],
        updated_at=max(str(row.facts["date"]) for row in rows) if rows else "",
        unread=tuple(each.replace(f"{source.file}/", "") for each in found.unread),
    )  # fmt: skip


def titled_names(records: Sequence[EvalRecord]) -> tuple[dict[str, str], int]:
    """Return title and name of the columns of a new board, and how many others there are.

    A title is the evaluation's name where only one of the columns has it, else the whole name.
    """
    names = result_names(records)
    shown = list(names)[:MOST_COLUMNS]
    counts = Counter(names[name] for name in shown)
    return {names[name] if counts[names[name]] == 1 else name: name for name in shown}, len(names) - len(shown)


def _rows(
    model: str, records: Sequence[EvalRecord], columns: Sequence[ScoreColumn], shown: Mapping[str, str]
) -> list[BoardRow]:
    """Return the rows of a model: records together as long as no column has two values."""
    made: list[tuple[list[EvalRecord], dict[str, RowScore]]] = []
    for record in records:
        of_board = ((shown.get(_name(result)), _cell(result)) for result in record.results)
        known = {key: cell for key, cell in of_board if key is not None and cell is not None}
        if not known:
            continue
        place = next((each for each in made if not each[1].keys() & known.keys()), None)
        if place is None:
            made.append(([record], known))
        else:
            place[0].append(record)
            place[1].update(known)
    rows = []
    for own, cells in made:
        facts = facts_of_csv(own[0].details)
        facts |= {"date": datetime.fromtimestamp(own[0].date, UTC).date().isoformat(), "origin": "published"}
        by = dict.fromkeys(f"{record.organization} ({record.source})" for record in own)
        rows.append(
            BoardRow(
                id=row_id({"model": model, "of": [[record.id, record.file.stem] for record in own]}),
                model=model, origin="published", cells=cells, average=average_of(columns, cells, "mean"),
                facts=facts, notes=tuple(f"published by {each}" for each in by), url=hub_url(model),
            )
        )  # fmt: skip
    return rows


def _with_own_ids(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """Return rows with distinct ids: equal ones, of copies of a record, are numbered."""
    seen: Counter[str] = Counter()
    made = []
    for row in rows:
        seen[row.id] += 1
        made.append(row if seen[row.id] == 1 else replace(row, id=f"{row.id}-{seen[row.id]}"))
    return made


def _cell(result: RecordResult) -> RowScore | None:
    if result.value is None:
        return None
    is_share = result.bounds == (0.0, 1.0)
    stated = result.interval
    if stated is not None and stated.confidence == CONFIDENCE:
        number = IntervalValue(result.value, stated.low, stated.high, result.stderr, stated.method)
    else:
        made = estimate_reported(
            result.value, result.stderr, result.n, is_proportion=is_share, is_binary=is_right_or_wrong(result.metric)
        )
        method = "" if made.low is None else made.method
        number = IntervalValue(result.value, made.low, made.high, made.stderr, method)
    return RowScore(number, n=result.n or None, is_share=is_share, higher_is_better=result.higher_is_better)
