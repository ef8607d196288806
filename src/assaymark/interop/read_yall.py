"""Reader of the Markdown summaries that LLM AutoEval writes into gists, as YALL's leaderboard reads them.

A first table has the model and its four averages; for each benchmark follows a section with a table of lm-eval: task,
version, metric, value, standard error. Values are percentages or shares, the same
throughout a file. A task that names several metrics has its name in the first of their lines only.
Source: mlabonne/llm-autoeval, llm_autoeval/table.py; https://huggingface.co/spaces/mlabonne/Yet_Another_LLM_Leaderboard
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, Importer
from assaymark.interop.log_files import open_text
from assaymark.interop.reported import ReportedValue
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import is_higher_better

LARGEST_FILE = 1 << 20
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]*)\)")
_AVERAGES = "agieval"  # a column of the first table, in any case
_TRUTHFULQA = "truthfulqa_mc"  # its two metrics are two tasks here
_RESULT = ("task", "version", "metric", "value")


def is_yall(path: Path) -> bool:
    """Return whether a file is such a summary."""
    if path.suffix.lower() not in {".md", ".markdown"} or not path.is_file() or path.stat().st_size > LARGEST_FILE:
        return False
    return any(tuple(cell.lower() for cell in cells[:4]) == _RESULT for cells in _lines(path))


def read_yall(path: Path) -> ForeignRun:
    """Return the run in a summary.

    Raises: DataError if it names no model, or a value is not a number.
    """
    lines = list(_lines(path))
    reported = _scaled(list(_reported(path, lines)))
    names = dict.fromkeys(value.task for value in reported)
    versions = {name: version for name, version in _versions(lines) if name in names}
    return ForeignRun(
        tool="llm-autoeval",
        model=_model(path, lines),
        date=None,
        tasks=tuple(
            TaskSummaryInput(
                name=name,
                metrics=tuple(
                    MetricInput(value.metric, higher_is_better=is_higher_better(value.metric))
                    for value in reported
                    if value.task == name
                ),
                output_type="unknown",
                version=versions.get(name, ""),
            )
            for name in names
        ),
        samples=(),
        reported=tuple(reported),
        files=(path,),
        shots_known=False,
    )


def _lines(path: Path) -> Iterator[list[str]]:
    """Yield the cells of each line of a table, without rulers."""
    with open_text(path, "utf-8-sig", "replace") as opened:
        text_of_file = opened.read()
    for line in text_of_file.splitlines():
        text = line.strip()
        if text.startswith("|") and not re.fullmatch(r"[|:\-\s]+", text):
            yield [cell.strip() for cell in text[1:].removesuffix("|").split("|")]


def _model(path: Path, lines: Sequence[Sequence[str]]) -> str:
    """Return the model that the first table names, as a link or bare."""
    for at, cells in enumerate(lines[:-1]):
        titles = [cell.lower() for cell in cells]
        if "model" in titles and len(lines[at + 1]) == len(cells):
            cell = lines[at + 1][titles.index("model")]
            match = _LINK.search(cell)
            return _id_of(match[1], match[2]) if match else cell
    raise DataError(f"{path} names no model; expected a table with the columns Model, AGIEval, GPT4All, ...")


def _reported(path: Path, lines: Sequence[Sequence[str]]) -> Iterator[ReportedValue]:
    """Yield the values of all benchmarks' tables; the rows under another heading are left out."""
    inside = False
    task = ""
    for cells in lines:
        if tuple(cell.lower() for cell in cells[:4]) == _RESULT:
            inside, task = True, ""
        elif _AVERAGES in [cell.lower() for cell in cells] or len(cells) < len(_RESULT):
            inside = False
        elif inside:
            task = cells[0] or task
            name, metric = _renamed(task, cells[2])
            yield ReportedValue(name, metric, _number(path, task, cells[3]), _error(path, task, cells))


def _renamed(task: str, metric: str) -> tuple[str, str]:
    """Return this package's names of lm-eval's old task and metric."""
    if task == _TRUTHFULQA:
        return f"truthfulqa_{metric}{'_2023' if metric.endswith('2') else ''}", "acc"
    return (f"nous_{task}" if task.startswith("bigbench_") else task), metric


def _id_of(text: str, link: str) -> str:
    """Return a model's id on the Hub, which its link names in full."""
    match = re.fullmatch(r"https://huggingface\.co/([\w.-]+/[\w.-]+?)/?", link, re.ASCII)
    return match[1] if match else text.strip()


def _versions(lines: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    for cells in lines:
        if len(cells) >= len(_RESULT) and cells[0] and cells[1]:
            yield _renamed(cells[0], cells[2])[0], cells[1]


def _number(path: Path, task: str, text: str) -> float | None:
    if text.strip() in {"", "-", "N/A", "nan"}:
        return None
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{path}: {task} is {text!r:.40}; expected a number") from None


def _error(path: Path, task: str, cells: Sequence[str]) -> float | None:
    """Return the standard error: the last cell of a line that has a plus-minus sign, or a garbled one."""
    return _number(path, task, cells[-1]) if cells[4:5] in (["±"], ["_"]) else None


def _scaled(values: Sequence[ReportedValue]) -> list[ReportedValue]:
    """Return values as shares: of a file where any exceeds one, all are percentages."""
    is_per_cent = any(value.value is not None and value.value > 1 for value in values)
    if not is_per_cent:
        return list(values)
    return [
        ReportedValue(value.task, value.metric, None if value.value is None else value.value / 100,
                      None if value.stderr is None else value.stderr / 100)
        for value in values
    ]  # fmt: skip


IMPORTER = Importer(is_yall, read_yall, "LLM AutoEval's Markdown, as YALL's gists hold it")
