"""Writing a board's file that works as it is, with further options as comments."""

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path

from assaymark.drafts import write_whole
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.leaderboard.board import RECORDS, TableFormat
from assaymark.leaderboard.board_files import library_suites
from assaymark.leaderboard.columns import FACTS
from assaymark.leaderboard.published_records import read_records, titled_names
from assaymark.platforms import relative_path
from assaymark.registry import nearest

_PUBLISHED: dict[TableFormat, frozenset[str]] = {  # headings by which a table is recognised
    "open-llm-v1": frozenset({"fullname", "average", "arc", "hellaswag"}),
    "open-llm-v2": frozenset({"model_name", "model_average_score", "evaluations_ifeval_value"}),
}

_REST = """
# Everything below is optional, and nothing of it is shown until you write it.

# introduction: |
#   What this leaderboard is about, in a few sentences of Markdown.
# about: |
#   Who runs it, how models are chosen, what the numbers can and cannot say.
# policy: |
#   How a model is added, flagged or removed.
# faq:
#   - question: How do I add my model?
#     answer: Run the command on the About page.
# logo: logo.svg
{more}"""
_OF_RUNS = """
# columns: [params, precision, licence, date]    # beside the scores; readers can choose others
# models:                                         # what the runs do not record
#   org/name: {type: chat, licence: apache-2.0}
# baselines:                                      # random and majority class are computed from the data
#   - name: Human
#     source: "who measured it, and where it was published"   # `baselines: cards`: people, as the task cards cite them
#     scores: {COLUMN: 90.0}
# claims:                                         # what others state, shown under the measured score
#   - {model: org/name, source: "where it is stated", scores: {COLUMN: 90.0}}
# runs: {only: [], exclude: []}                   # words that a run must hold; ids that are left out
"""
_FILES = {".csv", ".jsonl", ".tsv", ".parquet", ".json", ".yaml", ".yml"}


def write_board(
    path: Path, *, suite: str | None, tasks: Sequence[str], table: str | None, title: str | None
) -> tuple[str, ...]:
    """Write a board's file; without suite, tasks and table it shows the suite open-llm-v1.

    A table's layout is recognised by its headings; a folder is one of Every Eval Ever's records. Returns a line for
    each record that could not be read.

    Raises: UsageError where the file is there already; UnknownName for a suite; DataError for a table without columns.
    """
    if path.exists():
        raise UsageError(f"{path} is there already; name another file")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a directory; make it first")
    unread: tuple[str, ...] = ()
    if table is not None and Path(table).is_dir():
        text, unread = _records(path, Path(table), title)
    elif table is not None:
        text = _table(path, Path(table), title)
    elif tasks:
        text = _tasks(path, tasks, title)
    else:
        name = suite or "open-llm-v1"
        suites = library_suites()
        if name not in suites:
            raise UnknownName("suite", name, nearest(name, suites), f"known: {', '.join(sorted(suites))}")
        text = _head(title or suites[name].title) + f"suite: {name}\n" + _REST.format(more=_OF_RUNS)
    write_whole(path, text)
    return unread


def _head(title: str) -> str:
    return f"title: {_yaml_text(title)}\n"


def _tasks(path: Path, names: Sequence[str], title: str | None) -> str:
    lines = [_head(title or "Our leaderboard"), "tasks:\n"]
    for name in names:
        place = Path(name).expanduser()
        is_file = place.is_file()
        if not is_file and ("/" in name or place.suffix in _FILES):
            raise UsageError(
                f"file not found: {name}; expected a file of questions or a task's name (the leaderboard's own file "
                "is named before --tasks)"
            )
        key = "file" if is_file else "task"
        target = relative_path(place, path.parent) if is_file else name
        column = place.name.split(".")[0] if is_file else name
        lines.append(f"  - {key}: {_yaml_text(target)}\n    column: {_yaml_text(column.replace('_', ' '))}\n")
        lines.append("    # category: General\n")
    rules = "\n# aggregate: mean        # or weighted (with column_weights), geometric\n"
    rules += "# normalise: chance      # guessing becomes 0\n"
    return "".join(lines) + rules + _REST.format(more=_OF_RUNS)


def _table(path: Path, table: Path, title: str | None) -> str:
    if not table.is_file():
        raise UsageError(f"file not found: {table}; expected a CSV file, or a folder of Every Eval Ever's records")
    form, quoted = table_format(table), _yaml_text(relative_path(table, path.parent))
    lines = [_head(title or table.stem.replace("_", " ")), "table:\n", f"  file: {quoted}\n",
             f"  format: {form}\n"]  # fmt: skip
    if form == "csv":
        lines.append("  columns:                  # title: heading in the file\n")
        headings = number_headings(table)
        lines += [f"    {_yaml_text(name)}: {_yaml_text(name)}\n" for name in headings]
        lines.append("  # sizes: {COLUMN: 1000}   # numbers of questions; intervals and ranks come from them\n")
        sign = "# " if is_in_per_cent(table, headings) else ""
        lines.append(f"  {sign}per_cent: false         # 0.63 stands for 63%\n")
    return "".join(lines) + _REST.format(more="# columns: [params, precision, licence, date]\n")


def _records(path: Path, folder: Path, title: str | None) -> tuple[str, tuple[str, ...]]:
    found = read_records(folder)
    named, n_more = titled_names(found.records)
    quoted = _yaml_text(relative_path(folder, path.parent))
    lines = [_head(title or folder.name.replace("_", " ")), "table:\n", f"  file: {quoted}\n",
             f"  format: {RECORDS}\n", "  columns:                  # title: evaluation, metric\n"]  # fmt: skip
    lines += [f"    {_yaml_text(one)}: {_yaml_text(name)}\n" for one, name in named.items()]
    if n_more:
        lines.append(f"    # of the columns that the records have, {n_more:,} that fewer models have are left out\n")
    return "".join(lines) + _REST.format(more="# columns: [params, precision, licence, date]\n"), found.unread


def _yaml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def table_format(table: Path) -> TableFormat:
    """Return the format of a CSV file, by its headings. Raises: DataError where it is no CSV file."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            headings = set(next(csv.reader(file), ()))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{table}: is not a CSV file in UTF-8: {error}") from error
    return next((form for form, needed in _PUBLISHED.items() if needed <= headings), "csv")


def number_headings(table: Path) -> list[str]:
    """Return the headings of a CSV file's columns of shares, in per cent or in [0, 1], except facts of the model."""
    facts = {name for column in FACTS for name in (column.key, *column.aliases)}
    headings, rows = _beginning(table)
    if "model" not in headings:
        found = ", ".join(f"'{name:.40}'" for name in headings[:20])
        raise DataError(f"{table}: has no column 'model' (only {found}); expected one, and commas between columns")
    skipped = facts | {"model", "average", "rank", "id"}
    number_columns = [
        name for name in headings if name.strip().lower() not in skipped and _holds_shares([r[name] for r in rows])
    ]
    if not number_columns:
        raise DataError(f"{table}: has no column of numbers from 0 to 100; expected one for each benchmark")
    return number_columns


def is_in_per_cent(table: Path, headings: Sequence[str]) -> bool:
    """Return whether a CSV file's shares are in per cent: one is above 1, or has the sign."""
    values = [value.strip() for row in _beginning(table)[1] for name in headings if (value := row[name])]
    return any(value.endswith("%") or _float(value) > 1 for value in values)


def _beginning(table: Path) -> tuple[list[str], list[dict[str, str | None]]]:
    """Return a CSV file's headings and its first rows. Raises: DataError."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            rows: list[dict[str, str | None]] = [dict(row) for row, _ in zip(reader, range(50), strict=False)]
            return list(reader.fieldnames or ()), rows
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{table}: is not a CSV file in UTF-8: {error}") from error


def _holds_shares(values: Sequence[str | None]) -> bool:
    """Return whether all values are numbers and not all of them too large for a share, as ratings and years are."""
    known = [value.strip().rstrip("%") for value in values if value and value.strip()]
    are_numbers = all(value.replace(".", "", 1).replace("-", "", 1).isdecimal() for value in known)
    return bool(known) and are_numbers and any(0.0 <= _float(value) <= 100.0 for value in known)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # `3-4`
        return math.nan
