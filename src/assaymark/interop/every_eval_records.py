"""Aggregate records of Every Eval Ever, read and checked: whoever publishes them, nothing in them is believed.

Records of schema 0.2 and 0.3 are read alike. A fault is one line with file, key and what was expected. A record's
samples are only ever sought beside it, whatever path it states, and a link is followed only within the folder that was
named (or a Hub cache's own, whose files are links).

Source: the schemas of every-eval-ever 0.3.0 and the records of its data store.
"""

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assaymark.errors import DataError
from assaymark.interop.reported import StatedInterval
from assaymark.limits.characters import is_storable
from assaymark.limits.nesting import MAX_DEPTH, parse_json
from assaymark.limits.regular_files import content_of, is_within, link_folders, open_regular
from assaymark.records import JsonValue
from assaymark.scoring.metrics import find_metric

LARGEST_RECORD = 32 << 20  # bytes; those of the data store have 24,000 on average
LONGEST_NAME = 1000  # characters
SNIFFED = 4096
NAME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
SAMPLES = "_samples.jsonl"
_BOUNDS = {"Infinity": math.inf, "-Infinity": -math.inf}
_VERSIONS = ("0.2", "0.3")
_SHARES = frozenset({"accuracy", "pass_rate", "f1"})  # kinds of metrics whose values are shares


CONFIDENCE = 0.95  # of the intervals that tables show


@dataclass(frozen=True, slots=True)
class RecordResult:
    """One result of a record. Values are shares where the record states that it gives a share in per cent."""

    id: str | None
    name: str  # evaluation_name: the task
    metric: str
    filter: str
    value: float | None  # None: of an unknown level
    higher_is_better: bool
    bounds: tuple[float, float] | None  # as for the value
    stderr: float | None
    interval: StatedInterval | None
    n: int  # 0: not stated
    scale: float  # by which the record's own numbers were divided
    n_total: int | None
    num_fewshot: int | None
    details: Mapping[str, str]  # of the metric
    has_unknown_level: bool
    notes: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """Task, metric and filter."""
        return self.name, self.metric, self.filter


@dataclass(frozen=True, slots=True)
class StatedSamples:
    """What a record says of its samples."""

    file: Path
    checksum: str | None
    algorithm: str | None
    total_rows: int | None


@dataclass(frozen=True, slots=True)
class EvalRecord:
    """One record."""

    file: Path
    id: str
    model: str
    date: float  # seconds
    library: str
    library_version: str | None
    organization: str
    source: str
    details: Mapping[str, str]  # of the model
    results: tuple[RecordResult, ...]
    samples: StatedSamples | None


class Part:
    """An object inside a record, whose faults name its keys."""

    def __init__(self, where: str, content: Mapping[str, JsonValue], path: str = "") -> None:
        self.where, self.content, self.path = where, content, path

    def fault(self, key: str, expected: str) -> DataError:
        """Return the error for the value at a key, or for a key that is missing."""
        name = f"{self.path}{key}"
        if key not in self.content:
            return DataError(f"{self.where}: has no {name}; expected {expected}")
        return DataError(f"{self.where}: {name} is {self.content[key]!r:.60}; expected {expected}")

    def part(self, key: str, *, needed: bool = False) -> "Part":
        """Return the object at a key; an empty one where there is none, unless it is needed."""
        value = self.content.get(key)
        if value is None and not needed:
            value = {}
        if not isinstance(value, dict):
            raise self.fault(key, "an object")
        return Part(self.where, value, f"{self.path}{key}.")

    def parts(self, key: str) -> "list[Part]":
        """Return the list of objects at a key."""
        value = self.content.get(key)
        if not isinstance(value, list):
            raise self.fault(key, "a list")
        made: list[Part] = []
        for position, each in enumerate(value):
            if not isinstance(each, dict):
                raise DataError(f"{self.where}: {self.path}{key}[{position}] is {each!r:.60}; expected an object")
            made.append(Part(self.where, each, f"{self.path}{key}[{position}]."))
        return made

    def text(self, key: str) -> str:
        """Return the text at a key, without spaces around it: a name or an id, which is no longer than such are."""
        value = self.content.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.fault(key, "a text")
        if len(value) > LONGEST_NAME:
            raise self.fault(key, f"a text of at most {LONGEST_NAME:,} characters")
        if not is_storable(value):
            raise self.fault(key, "a text without NUL and half surrogate pairs")
        return value.strip()

    def text_or(self, key: str) -> str | None:
        """Return the text at a key; None where there is none."""
        return None if self.content.get(key) is None else self.text(key)

    def texts(self, key: str) -> dict[str, str]:
        """Return the texts of the object at a key, by name."""
        return {name: value for name, value in self.part(key).content.items() if isinstance(value, str)}

    def number(self, key: str, low: float = -math.inf, high: float = math.inf) -> float:
        """Return the finite number at a key."""
        value = self.content.get(key)
        expected = "a finite number" if (low, high) == (-math.inf, math.inf) else f"a number from {low:g} to {high:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault(key, expected)
        try:
            number = float(value)
        except OverflowError:
            raise self.fault(key, "a number below 1e308") from None
        if not math.isfinite(number) or not low <= number <= high:
            raise self.fault(key, expected)
        return number

    def number_or(self, key: str, low: float = -math.inf, high: float = math.inf) -> float | None:
        """Return the number at a key; None where there is none."""
        return None if self.content.get(key) is None else self.number(key, low, high)

    def count(self, key: str) -> int | None:
        """Return the number of samples at a key; None where there is none."""
        value = self.content.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10**12:
            raise self.fault(key, "a number of samples")
        return value

    def flag(self, key: str) -> bool:
        """Return the truth value at a key."""
        value = self.content.get(key)
        if not isinstance(value, bool):
            raise self.fault(key, "true or false")
        return value

    def bound(self, key: str) -> float | None:
        """Return the number at a key, of which infinity is written as text; None where there is none."""
        value = self.content.get(key)
        if isinstance(value, str):
            if value not in _BOUNDS:
                raise self.fault(key, 'a number, "Infinity" or "-Infinity"')
            return _BOUNDS[value]
        return self.number_or(key)

    def seconds(self, key: str) -> float | None:
        """Return the seconds at a key, which are written as text; None for a time in another form."""
        value = self.content.get(key)
        try:
            number = float(value) if isinstance(value, str | int | float) else math.nan
        except (ValueError, OverflowError):
            return None
        return number if 0 <= number < 1e11 else None


def is_record(file: Path) -> bool:
    """Return whether a file is a record or its samples, by its name or its beginning."""
    if file.name.endswith(SAMPLES) and NAME.fullmatch(file.name.removesuffix(SAMPLES)):
        return file.is_file()
    if file.suffix != ".json" or not file.is_file():
        return False
    try:
        with open_regular(file) as opened:
            start = opened.read(SNIFFED)
    except DataError:
        return False
    return b'"evaluation_id"' in start and b'"schema_version"' in start


def record_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the files that should be records in a folder and below, and a line for each link left out."""
    files: list[Path] = []
    left_out: list[str] = []
    within = link_folders(folder)
    for place, folders, names in os.walk(folder):
        folders.sort()
        links = (path for name in folders if (path := Path(place, name)).is_symlink())
        left_out += [f"{path} is a link to a folder, which is not followed; copy what it names" for path in links]
        for name in sorted(names):
            if not name.endswith(".json"):
                continue
            path = Path(place, name)
            if path.is_symlink() and not is_within(path, within):
                left_out.append(f"{path} is a link that leaves {folder}; copy the file that it names")
            elif NAME.fullmatch(path.stem) or is_record(path):  # one by its name may be damaged, which is said
                files.append(path)
    return files, left_out


def has_records(folder: Path) -> bool:
    """Return whether there is a record in a folder or below."""
    paths = (Path(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(".json"))
    return any(NAME.fullmatch(path.stem) is not None and is_record(path) for path in paths)


def read_record(file: Path) -> EvalRecord:
    """Return a record.

    Raises: DataError, in one line that names file, key and what was expected.
    """
    try:
        loaded = parse_json(content_of(file, LARGEST_RECORD).decode("utf-8"), unique=True)
    except DataError as error:
        raise DataError(f"{file}: {error}") from error
    except ValueError as error:  # no JSON, no UTF-8
        raise DataError(f"{file}: is not JSON that a record may have: {error}") from error
    if not isinstance(loaded, dict):
        raise DataError(f"{file}: is no object; expected a record of Every Eval Ever")
    return _record(file, Part(str(file), loaded))


def _record(file: Path, record: Part) -> EvalRecord:
    version = record.text("schema_version")
    if not version.startswith(_VERSIONS):
        raise record.fault("schema_version", "0.2 or 0.3; update assaymark for a later one")
    library, model, source = (
        record.part(key, needed=True) for key in ("eval_library", "model_info", "source_metadata")
    )
    name = library.text("name")
    results = [_result(part) for part in record.parts("evaluation_results")]
    if not results:
        raise record.fault("evaluation_results", "at least one result")
    date = record.seconds("evaluation_timestamp") or record.seconds("retrieved_timestamp")
    if date is None:
        raise record.fault("retrieved_timestamp", "seconds since 1970, as text")
    known_version = library.text_or("version")
    return EvalRecord(
        file=file,
        id=record.text("evaluation_id"),
        model=model.text("id"),
        date=date,
        library=name,
        library_version=None if known_version in {None, "unknown"} else known_version,
        organization=source.text("source_organization_name"),
        source=source.text_or("source_name") or name,
        details=model.texts("additional_details"),
        results=_apart(results),
        samples=_samples(file, record),
    )


def _apart(results: Sequence[RecordResult]) -> tuple[RecordResult, ...]:
    """Return results with distinct keys: of equal ones the metric gets the result's id, else its position."""
    keys = [each.key for each in results]
    made = []
    for position, each in enumerate(results):
        is_alone = keys.count(each.key) == 1 if len(keys) < 1000 else each.key not in keys[:position]
        made.append(each if is_alone else replace(each, metric=f"{each.metric} [{each.id or position}]"))
    return tuple(made)


def _result(part: Part) -> RecordResult:
    config, details = part.part("metric_config", needed=True), part.part("score_details", needed=True)
    part.part("source_data", needed=True)
    name = part.text("evaluation_name")
    metric = _metric_name(name, config)
    more = config.texts("additional_details")
    named_filter = more.get("filter")
    if named_filter and name.endswith(f"/{named_filter}"):
        name = name.removesuffix(f"/{named_filter}")
    bounds = _bounds(config)
    scale = _scale(metric, config, bounds)
    has_unknown = config.content.get("has_unknown_level") is True
    score: float | None = details.number("score")
    if (
        score is not None
        and bounds is not None
        and not bounds[0] - 1e-6 <= score <= bounds[1] + 1e-6
        and not has_unknown
    ):
        raise details.fault("score", f"a number from {bounds[0]:g} to {bounds[1]:g}, its metric's bounds")
    if has_unknown and score == -1.0:
        score = None
    uncertainty = details.part("uncertainty")
    stderr = uncertainty.part("standard_error").number_or("value", 0.0)
    interval, notes = _interval(uncertainty, scale, score, bounds)
    shots = part.part("generation_config").texts("additional_details").get("num_fewshot", "")
    return RecordResult(
        id=part.text_or("evaluation_result_id"),
        name=name,
        metric=metric,
        filter=named_filter or "none",
        value=None if score is None else score / scale,
        higher_is_better=not config.flag("lower_is_better"),
        bounds=None if bounds is None else (bounds[0] / scale, bounds[1] / scale),
        stderr=None if stderr is None else stderr / scale,
        interval=interval,
        n=uncertainty.count("num_samples") or 0,
        scale=scale,
        n_total=part.part("source_data").count("samples_number"),
        num_fewshot=int(shots) if shots.isascii() and shots.isdigit() and len(shots) < 6 else None,
        details=more,
        has_unknown_level=has_unknown,
        notes=tuple(notes),
    )


def _metric_name(evaluation: str, config: Part) -> str:
    """Return what a result measures: the metric's name unless that is the evaluation's, else its kind or its id."""
    names = [config.text_or(key) for key in ("metric_name", "metric_kind", "metric_id")]
    parameters = config.part("metric_parameters").content
    chosen = next((name for name in names if name is not None and name != evaluation), names[0] or "score")
    known = ", ".join(
        f"{key}={value}"
        for key, value in parameters.items()
        if isinstance(value, str | int | float) and is_storable(str(value))
    )
    return f"{chosen} ({known:.60})" if known and "@" not in chosen else chosen


def _bounds(config: Part) -> tuple[float, float] | None:
    low, high = config.bound("min_score"), config.bound("max_score")
    if config.content.get("score_type") == "binary" and low is None and high is None:
        return 0.0, 1.0
    if low is None or high is None:
        return None
    if low > high:
        raise config.fault("min_score", f"at most max_score, {high:g}")
    return low, high


def _scale(metric: str, config: Part, bounds: tuple[float, float] | None) -> float:
    """Return 100 for a share whose record says that it is in per cent, else 1: no number's unit is guessed."""
    facts = find_metric(metric)
    is_known = facts is not None and facts.value_range == (0.0, 1.0)
    is_named = config.content.get("metric_kind") in _SHARES and config.content.get("metric_unit") == "percent"
    return 100.0 if bounds == (0.0, 100.0) and (is_known or is_named) else 1.0


def _interval(
    uncertainty: Part, scale: float, score: float | None, bounds: tuple[float, float] | None
) -> tuple[StatedInterval | None, list[str]]:
    """Return the stated interval, or why it is not shown: tables' intervals are of 95%, and hold their value."""
    stated = uncertainty.part("confidence_interval")
    if not stated.content:
        return None, []
    low, high = stated.number("lower"), stated.number("upper")
    if low > high:
        raise stated.fault("lower", f"at most upper, {high:g}")
    level = stated.number_or("confidence_level", 0.0, 1.0)
    if level is None or level in {0.0, 1.0}:
        return None, [f"an interval from {low:g} to {high:g} without a confidence level is not shown"]
    slack = 1e-6 * max(1.0, abs(low), abs(high))  # of rounded figures
    if score is not None and not low - slack <= score <= high + slack:
        return None, [f"an interval from {low:g} to {high:g} does not hold the value {score:g}, and is not shown"]
    if bounds is not None and high - low > 2 * (bounds[1] - bounds[0]):
        return None, [f"an interval from {low:g} to {high:g} is wider than its metric's bounds, and is not shown"]
    if abs(level - CONFIDENCE) > 1e-9:
        return None, [f"an interval of {100 * level:g}% from {low:g} to {high:g} is not shown among those of 95%"]
    method = stated.text_or("method")
    method = f"{method} (as the file states it)" if method else "as the file states it"
    return StatedInterval(low / scale, high / scale, level, method), []


def _samples(file: Path, record: Part) -> StatedSamples | None:
    """Return what a record says of its samples, whose file is beside it and has its name."""
    if record.content.get("detailed_evaluation_results") is None:
        return None
    stated = record.part("detailed_evaluation_results", needed=True)
    beside = file.with_name(f"{file.stem}{SAMPLES}")
    path = stated.text("file_path")
    if path.rpartition("/")[2] != beside.name or ".." in path.split("/") or path.startswith("/") or "\\" in path:
        raise stated.fault(
            "file_path", f"a path from data/ on that ends in {beside.name}, which lies beside the record"
        )
    algorithm = stated.text_or("hash_algorithm")
    if algorithm not in {None, "sha256", "md5"}:
        raise stated.fault("hash_algorithm", "sha256 or md5")
    return StatedSamples(beside, stated.text_or("checksum"), algorithm, stated.count("total_rows"))


LONGEST_ROW = 32 << 20  # bytes


def sample_parts(samples: StatedSamples, folder: Path) -> Iterator[tuple[Part, bytes]]:
    """Yield the rows of a record's samples, each with its bytes.

    Raises: DataError for a link that leaves the folder, and for a line that is no row.
    """
    try:
        opened = open_regular(samples.file, link_folders(folder))
    except DataError as error:
        raise DataError(f"{samples.file}: {error}") from error
    with opened:
        number = 0
        while line := opened.readline(LONGEST_ROW + 1):
            number += 1
            where = f"{samples.file}, line {number}"
            if len(line) > LONGEST_ROW:
                raise DataError(f"{where}: is longer than {LONGEST_ROW:,} bytes; expected a row of a sample")
            if not line.strip():
                yield Part(where, {}), line
                continue
            try:
                row = parse_json(line.decode("utf-8"), MAX_DEPTH)
            except ValueError as error:
                raise DataError(f"{where}: is not JSON that a row may have: {error}") from error
            if not isinstance(row, dict):
                raise DataError(f"{where}: is no object; expected a row of a sample")
            yield Part(where, row), line
