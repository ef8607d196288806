"""Tables that others published become boards: the Open LLM Leaderboard's two final tables, and plain CSV files.

(`published_records` has folders of records.)

Averages are recomputed by the table's own rule; rows whose numbers disagree with the rule are listed, and shown with
the recomputed average. The files hold no intervals. These are computed from the published share and the benchmark's
number of questions (Wilson's), and so cover the variation of questions only.

The format of a table without a board's file is recognised by its headings.
"""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from assaymark.errors import DataError, UsageError
from assaymark.leaderboard import published_facts
from assaymark.leaderboard.averages import average_of
from assaymark.leaderboard.board import RECORDS, Board, TableSource, column_keys, slug
from assaymark.leaderboard.board_files import library_suites
from assaymark.leaderboard.board_init import is_in_per_cent, number_headings, table_format
from assaymark.leaderboard.columns import price_facts
from assaymark.leaderboard.published_records import read_record_table
from assaymark.leaderboard.rows import Average, BoardRow, Fact, IntervalValue, Issue, RowScore, ScoreColumn
from assaymark.leaderboard.table import BoardTable, row_id
from assaymark.leaderboard.users_files import number_in
from assaymark.statistics.distributions import two_sided_z
from assaymark.statistics.intervals import wilson


def board_of_table(path: Path) -> Board:
    """Return the board of a CSV file, or of a folder of records, its title the file's name.

    Raises: UsageError where the file does not exist; DataError for one that is not a table of models.
    """
    if path.is_dir():
        return Board(name=slug(path.name), title=path.name, table=TableSource(path.resolve(), RECORDS))
    if not path.is_file():
        raise UsageError(f"file not found: {path}; expected a CSV file with a row for each model")
    form = table_format(path)
    columns = {name: name for name in number_headings(path)} if form == "csv" else {}
    per_cent = form != "csv" or is_in_per_cent(path, list(columns))
    source = TableSource(path.resolve(), form, columns, per_cent=per_cent)
    return Board(name=slug(path.stem), title=path.stem, table=source)


LARGEST_FILE = 200 << 20
MOST_ROWS = 500_000
CONFIDENCE = 0.95
ROUNDING = 1e-9  # of a share that was computed in floating point
METHOD = "wilson, from the published share and the number of questions"


@dataclass(frozen=True, slots=True)
class _Source:
    """One score column of a published table."""

    title: str
    value: str  # heading of what counts on the board
    raw: str | None = None  # heading of the value before normalisation, a share
    chance: float | None = None  # the rule: value = 100 max(0, raw - chance) / (1 - chance); None: it takes subtasks
    size: int | None = None  # questions, as an unweighted mean of subtasks counts them
    slope: float = 1.0  # change of the value with the raw one


def _v1_sources() -> tuple[_Source, ...]:
    # MMLU is the unweighted mean of 57 subjects: its error is that of 57² / Σ 1/n = 9,528 questions
    sizes = {"ARC": 1172, "HellaSwag": 10042, "MMLU": 9528, "TruthfulQA": 817, "Winogrande": 1267, "GSM8K": 1319}
    return tuple(_Source(title, title.lower(), size=size) for title, size in sizes.items())


def _v2_sources() -> tuple[_Source, ...]:
    # BBH is the unweighted mean of 24 sets of 146 to 250 questions: 24² / Σ 1/n = 5,657
    sizes = {"IFEval": 541, "BBH": 5657, "MATH Lvl 5": 1324, "GPQA": 1192, "MuSR": 756, "MMLU-PRO": 12032}
    names = dict(zip(sizes, ("ifeval", "bbh", "math", "gpqa", "musr", "mmlu_pro"), strict=True))
    suite = library_suites()["open-llm-v2"]
    sources = []
    for title, size in sizes.items():
        chances = [m.chance for m in suite.members if m.column == title and isinstance(m.chance, float)]
        prefix = f"evaluations_{names[title]}"
        sources.append(
            _Source(
                title,
                f"{prefix}_normalized_score",
                f"{prefix}_value",
                chances[0] if len(chances) == 1 else None,
                size,
                sum(1.0 / (1.0 - chance) for chance in chances) / len(chances),
            )
        )
    return tuple(sources)


@dataclass(frozen=True, slots=True)
class _Format:
    """How one kind of file is read."""

    sources: tuple[_Source, ...]
    model: str  # headings
    average: str | None
    facts: Callable[[Mapping[str, str]], dict[str, Fact]]
    tolerance: float  # of the average, in points: what the rounding of the file allows
    key: tuple[str, ...]  # headings that tell rows apart
    scale: float = 100.0  # factor from a share to the file's numbers


def _format_of(source: TableSource) -> _Format:
    if source.format == "open-llm-v1":
        # seven numbers rounded to 0.01: the mean of six moves by 0.005 at most, the average by another 0.005
        return _Format(_v1_sources(), "fullname", "average", published_facts.facts_v1, 0.01 + 1e-9,
                       ("fullname", "precision"))  # fmt: skip
    if source.format == "open-llm-v2":
        return _Format(_v2_sources(), "model_name", "model_average_score", published_facts.facts_v2, 1e-9, ("id",))
    sources = tuple(_Source(title, heading, size=source.sizes.get(title)) for title, heading in source.columns.items())
    return _Format(sources, "model", None, published_facts.facts_of_csv, math.inf, (),
                   scale=100.0 if source.per_cent else 1.0)  # fmt: skip


def read_published(board: Board, source: TableSource) -> BoardTable:
    """Return the table of a published file, or of a folder of records.

    Raises: DataError, in one line that names file, line and heading, for a violation of the format.
    """
    if source.format == RECORDS:
        return read_record_table(board, source)
    form = _format_of(source)
    keys = column_keys(column.title for column in form.sources)
    columns = tuple(
        ScoreColumn(
            key=keys[column.title],
            title=column.title,
            category=board.category_of(column.title),
            normalised=column.raw is not None,
            n=source.sizes.get(column.title, column.size),
        )
        for column in form.sources
    )
    rows: list[BoardRow] = []
    issues: list[Issue] = []
    seen: dict[str, int] = {}
    for line, record in _records(source.file, form):
        row, what = _row(source.file, line, record, form, columns)
        again = seen[row.id] = seen.get(row.id, 0) + 1
        row = row if again == 1 else replace(row, id=f"{row.id}-{again}")
        if "price" not in row.facts:
            row = replace(row, facts={**row.facts, **price_facts(board.prices.get(row.model), is_billed=False)})
        rows.append(row)
        issues += [Issue(row.id, row.model, text) for text in what]
    digest = sha256(source.file.read_bytes()).hexdigest()
    dates = [str(row.facts["date"]) for row in rows if row.facts.get("date")]
    return BoardTable(columns, tuple(rows), rank_apart=False, issues=tuple(issues), version=digest[:16],
                 updated_at=max(dates, default=""))  # fmt: skip


def _records(path: Path, form: _Format) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield line number and record; the headings that the format needs are there."""
    if not path.is_file() or path.stat().st_size > LARGEST_FILE:
        raise DataError(f"{path}: expected a CSV file of at most {LARGEST_FILE >> 20} MiB")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            needed = [
                form.model,
                *(source.value for source in form.sources),
                *form.key,
                *([form.average] if form.average else []),
            ]
            lacking = [name for name in needed if name not in (reader.fieldnames or ())]
            if lacking:
                wanted = ", ".join(dict.fromkeys(needed))
                raise DataError(f"{path}: has no column '{lacking[0]:.60}'; expected a first line with {wanted:.300}")
            if twice := next((name for name in needed if (reader.fieldnames or []).count(name) > 1), None):
                raise DataError(f"{path}: has two columns '{twice:.60}'; expected one heading for each column")
            for count, record in enumerate(reader, start=1):
                if count > MOST_ROWS:
                    raise DataError(f"{path}: has more than {MOST_ROWS:,} rows")
                if None in record:
                    raise DataError(f"{path}, line {reader.line_num}: has more cells than the first line has headings")
                yield reader.line_num, {key: value or "" for key, value in record.items() if isinstance(key, str)}
    except (csv.Error, UnicodeDecodeError, OSError) as error:
        raise DataError(f"{path}: is not a CSV file in UTF-8: {error}") from error


def _row(
    path: Path, line: int, record: Mapping[str, str], form: _Format, columns: Sequence[ScoreColumn]
) -> tuple[BoardRow, list[str]]:
    """Return a row, and its disagreements with the table's rule."""
    cells: dict[str, RowScore] = {}
    what: list[str] = []
    for column, source in zip(columns, form.sources, strict=True):
        value = _share(path, line, record, source.value, form.scale)
        if value is None:
            continue
        raw = None if source.raw is None else _share(path, line, record, source.raw, 1.0)
        cells[column.key] = _cell(value, raw, source, column.n)
        if raw is not None and source.chance is not None:
            due = 100.0 * max(0.0, raw - source.chance) / (1.0 - source.chance)
            if abs(due - 100.0 * value) > 1e-9:
                what.append(
                    f"{source.title} is {100 * value:.6g}; its rule gives {due:.6g} for the raw value {raw:.6g}"
                )
    average = average_of(columns, cells, "mean")
    stated = _scaled(number_in(path, line, record, form.average), form.scale) if form.average else None
    if average is not None and stated is not None:
        average = Average(average.number, average.n_columns, stated)
        if abs(stated - average.number.value) * 100.0 > form.tolerance:
            what.append(f"average is {100 * stated:.6g}; the mean of its columns is {100 * average.number.value:.6g}")
    facts = form.facts(record)
    model = record[form.model].strip() or "(no name)"
    parts = {"model": model, "of": [record[key] for key in form.key]} if form.key else dict(record)
    return BoardRow(
        id=row_id(parts), model=model, origin="published", cells=cells, average=average,
        facts={**facts, "origin": "published"}, notes=tuple(what), url=_url(model, record),
    ), what  # fmt: skip


def _cell(value: float, raw: float | None, column: _Source, size: int | None) -> RowScore:
    if size is None:
        return RowScore(IntervalValue(value), None if raw is None else IntervalValue(raw))
    share = value if raw is None else raw
    if not 0.0 <= share <= 1.0:
        return RowScore(IntervalValue(value), None if raw is None else IntervalValue(raw), n=size)
    ends = wilson(share * size, size, CONFIDENCE)
    stderr = (ends.high - ends.low) / (2.0 * two_sided_z(CONFIDENCE))  # not 0 at 0% and 100%
    plain = IntervalValue(share, ends.low, ends.high, stderr, METHOD)
    if raw is None:
        return RowScore(plain, n=size)
    low, high = value - column.slope * (share - ends.low), value + column.slope * (ends.high - share)
    return RowScore(
        IntervalValue(value, max(low, 0.0), high, column.slope * stderr, f"{METHOD}, rescaled"), plain, n=size
    )


def _share(path: Path, line: int, record: Mapping[str, str], heading: str, scale: float) -> float | None:
    """Return a score in [0, 1]; every score of a published table is a share."""
    value = _scaled(number_in(path, line, record, heading), scale)
    if value is not None and not -ROUNDING <= value <= 1.0 + ROUNDING:
        raise DataError(
            f"{path}, line {line}: {heading} is {record[heading].strip()[:40]}; expected a share from 0 to {scale:g}"
            + ("" if scale == 100.0 else " (of numbers up to 100: per_cent: true)")
        )
    return value


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _url(model: str, record: Mapping[str, str]) -> str:
    """Return a model's URL on the Hub; other addresses are ignored, since the file is not trusted."""
    stated = record.get("url", "")
    if stated.startswith("https://huggingface.co/"):
        return stated
    return published_facts.hub_url(model)
