"""Reader of AlpacaEval's `annotations.json` (comparisons with the reference model) and `leaderboard.csv`.

An annotation prefers output 1, the reference (1), or output 2, the model (2); weighted annotators give values between,
and a draw is 1.5, or 0 in early files. Win rates are percentages in the leaderboard, and in [0, 1] here.
Source: alpaca_eval 0.6, README and metrics/winrate.py
"""

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.imported import ForeignRun, ForeignSample, Importer
from assaymark.interop.log_files import one_model, open_log, open_text, parse_json
from assaymark.interop.reported import ReportedValue
from assaymark.records import JsonValue
from assaymark.records.json_values import float_of
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput

ANNOTATIONS, LEADERBOARD = "annotations.json", "leaderboard.csv"
TASK, WIN_RATE = "alpaca_eval", "win_rate"
RATES = {WIN_RATE: "standard_error", "length_controlled_winrate": "lc_standard_error", "discrete_win_rate": None}
SNIFFED = 65536  # bytes
DRAWS = {0: 0.5, 1.5: 0.5}


def is_alpaca_eval(path: Path) -> bool:
    """Return whether a path is AlpacaEval's annotations or leaderboard, or a folder with either."""
    if path.is_dir():
        return any(is_alpaca_eval(path / name) for name in (ANNOTATIONS, LEADERBOARD))
    if not path.is_file() or path.suffix not in {".json", ".csv"}:
        return False
    with open_log(path) as opened:
        start = opened.read(SNIFFED)
    wanted = (b'"preference"', b'"generator_2"') if path.suffix == ".json" else (b"win_rate", b"standard_error")
    return all(word in start for word in wanted)


def read_alpaca_eval(path: Path) -> ForeignRun:
    """Return the comparisons of one model, with its values in the leaderboard next to them.

    Raises: DataError if the files are of several models, or not in AlpacaEval's format.
    """
    folder = path if path.is_dir() else path.parent
    annotations, leaderboard = folder / ANNOTATIONS, folder / LEADERBOARD
    if path.is_file():
        annotations, leaderboard = (path, leaderboard) if path.suffix == ".json" else (folder / "", path)
    comparisons = _annotations(annotations) if annotations.is_file() else []
    rows = _rows(leaderboard) if leaderboard.is_file() else {}
    model = one_model([str(comparison["generator_2"]) for comparison in comparisons] or list(rows), path)
    return ForeignRun(
        tool="alpaca_eval",
        model=model,
        tasks=(TaskSummaryInput(TASK, (MetricInput(WIN_RATE),), "generate_until", primary_metric=WIN_RATE),),
        samples=tuple(_sample(index, comparison) for index, comparison in enumerate(comparisons)),
        reported=tuple(_reported(rows.get(model, {}))),
        files=tuple(file for file, used in ((annotations, comparisons), (leaderboard, rows.get(model))) if used),
        config={"reference": sorted({str(comparison.get("generator_1")) for comparison in comparisons}),
                "annotator": sorted({str(comparison.get("annotator")) for comparison in comparisons})},
    )  # fmt: skip


def _annotations(file: Path) -> list[dict[str, object]]:
    with open_text(file) as opened:
        loaded = parse_json(opened.read(), str(file))
    if not isinstance(loaded, list) or not all(
        isinstance(annotation, dict) and "preference" in annotation for annotation in loaded
    ):
        raise DataError(f"{file} is not a list of annotations with preferences; expected AlpacaEval's {ANNOTATIONS}")
    return loaded


def _rows(file: Path) -> dict[str, dict[str, str]]:
    """Return the leaderboard's rows by model (the column without a name)."""
    with open_text(file, "utf-8-sig", newline="") as opened:
        rows = list(csv.reader(opened))
    if not rows:
        return {}
    header, *lines = rows
    return {line[0]: dict(zip(header[1:], line[1:], strict=False)) for line in lines if line}


def _reported(row: Mapping[str, str]) -> Iterator[ReportedValue]:
    for name, error in RATES.items():
        value, stderr = _number(row.get(name)), _number(row.get(error or ""))
        if value is not None:
            n = int(_number(row.get("n_total")) or 0)
            yield ReportedValue(TASK, name, value / 100, None if stderr is None else stderr / 100, n)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _sample(index: int, annotation: Mapping[str, JsonValue]) -> ForeignSample:
    preference = annotation["preference"]
    preferred = None if preference is None else float_of(preference, "preference")
    if preferred is not None and not (1.0 <= preferred <= 2.0 or preferred in DRAWS or math.isnan(preferred)):
        raise DataError(f"annotation {index} has preference {preferred:g}; expected 1 to 2, 0 for a draw, or null")
    preferred = None if preferred is None or math.isnan(preferred) else preferred
    won = None if preferred is None else DRAWS.get(preferred, preferred - 1.0)
    return ForeignSample(
        task=TASK,
        index=index,
        row={"instruction": annotation["instruction"], "dataset": annotation.get("dataset")},
        prompt=str(annotation["instruction"]),
        target=str(annotation.get("output_1") or ""),
        scores={WIN_RATE: won},
        answers=(str(annotation.get("output_2") or ""),),
        error="the annotator gave no preference" if won is None else None,
    )


IMPORTER = Importer(is_alpaca_eval, read_alpaca_eval, "AlpacaEval's annotations.json or leaderboard.csv")
