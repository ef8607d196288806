"""The rows of two compared runs side by side: both answers and all scores, those that got worse first, and by part.

Rows are paired as the comparison pairs them, by the sample's content. A part is a tag, a split, or a value of the
rows' metadata; each part and scorer is a difference with its own interval, and p is corrected over all of them.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assaymark.documents.blocks import Block, Cell, Cells, Heading, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.documents.numbers import NOTHING, counted
from assaymark.errors import UsageError, clipped
from assaymark.records import JsonValue
from assaymark.registry import nearest
from assaymark.results.comparison.document import shown_cells
from assaymark.results.comparison.pairing import occurrences
from assaymark.results.comparison.records import Difference, PairComparison
from assaymark.statistics.multiplicity import holm
from assaymark.statistics.paired import compare_paired
from assaymark.store import SampleRecord, Store

MOST_ROWS = 20  # that are printed
LONGEST_CELL = 300  # characters of an answer
MOST_PARTS = 100  # of one name, such as different tags
LONGEST_TEXT = 2000  # characters that are kept of a text


@dataclass(frozen=True, slots=True)
class PairedScore:
    """One score of a row in both runs. gain: positive if the second is better; None where one is missing or neutral."""

    metric: str
    first: float | None
    second: float | None
    gain: float | None
    is_share: bool  # in [0, 1], so that gains of several scorers can be added


@dataclass(frozen=True, slots=True)
class RowPair:
    """One row with both answers. gain: the sum of the gains of scores that are shares."""

    task: str
    first_index: int
    second_index: int
    row: str  # the row's id
    inputs: str
    expected: str
    first_answer: str | None  # None: the call failed
    second_answer: str | None
    first_error: str | None
    second_error: str | None
    scores: tuple[PairedScore, ...]
    gain: float
    parts: Mapping[str, tuple[str, ...]]  # tag, split and names in the metadata -> values

    @property
    def is_new_failure(self) -> bool:
        """Whether only the second run's call failed."""
        return self.second_error is not None and self.first_error is None


@dataclass(frozen=True, slots=True)
class PartDifference:
    """The difference of one score on the rows of one part."""

    part: str
    line: Difference


def row_pairs(first: tuple[Store, str], second: tuple[Store, str], pair: PairComparison) -> list[RowPair]:
    """Return the rows of two runs, those that got worse first: new failures, then by the sum of gains.

    Args:
        first: store and id of the first run.
        second: those of the second run.
        pair: their comparison, whose lines say which scores there are and which direction is better.
    """
    pairs: list[RowPair] = []
    for task in pair.tasks:
        lines = [task, *(line for line in pair.scorers if line.name == f"{task.name}/{line.metric}")]
        theirs = _by_content(*second, task.name)
        for key, record in _by_content(*first, task.name).items():
            if (other := theirs.get(key)) is not None and not record.is_withheld:
                pairs.append(_pair(task.name, record, other, lines))
    return sorted(pairs, key=lambda each: (not each.is_new_failure, each.gain))


def _by_content(store: Store, run_id: str, task: str) -> dict[tuple[str, int], SampleRecord]:
    """Return a task's samples by their content; of equal ones each in its order. The last turn of a sample counts."""
    last: dict[int, SampleRecord] = {}
    for record in store.samples(run_id, task):
        last[record.request.sample_index] = record
    records = [last[index] for index in sorted(last)]
    return dict(zip(occurrences(record.request.sample_sha256 for record in records), records, strict=True))


def _pair(task: str, first: SampleRecord, second: SampleRecord, lines: Sequence[Difference]) -> RowPair:
    row = first.sample.row if first.sample is not None else {}
    scores = tuple(_scores(first, second, lines))
    return RowPair(
        task=task,
        first_index=first.request.sample_index,
        second_index=second.request.sample_index,
        row=str(row.get("id", first.request.sample_index)),
        inputs=_text(row["inputs"]) if "inputs" in row else first.request.prompt[-LONGEST_TEXT:],
        expected=_text(row["expected"]) if row.get("expected") is not None else first.request.target[:LONGEST_TEXT],
        first_answer=_answer(first),
        second_answer=_answer(second),
        first_error=_error(first),
        second_error=_error(second),
        scores=scores,
        gain=sum(score.gain for score in scores if score.gain is not None and score.is_share),
        parts=_parts(row),
    )


def _scores(first: SampleRecord, second: SampleRecord, lines: Sequence[Difference]) -> Iterator[PairedScore]:
    for line in lines:
        value, other = (_value(each, line) for each in (first, second))
        gain = None
        if value is not None and other is not None and not line.is_neutral:
            gain = (other - value) if line.higher_is_better else (value - other)
        if value is not None or other is not None:
            yield PairedScore(line.metric, value, other, gain, line.scale == "proportion")


def _value(record: SampleRecord, line: Difference) -> float | None:
    own = (score.value for score in record.scores if (score.metric, score.filter) == (line.metric, line.filter))
    return next(own, None)


def _text(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:LONGEST_TEXT]


def _answer(record: SampleRecord) -> str | None:
    texts = [output.text for output in record.outputs if output.text is not None]
    return "\n---\n".join(texts)[:LONGEST_TEXT] if texts else None


def _error(record: SampleRecord) -> str | None:
    return next((output.error for output in record.outputs if output.error is not None), None)


def _parts(row: Mapping[str, JsonValue]) -> dict[str, tuple[str, ...]]:
    """Return the parts to which a row belongs: tags, splits, and short values of its metadata."""
    parts: dict[str, tuple[str, ...]] = {}
    tags, split, metadata = row.get("tags"), row.get("split"), row.get("metadata")
    if isinstance(tags, list | tuple) and tags:
        parts["tag"] = tuple(dict.fromkeys(map(str, tags)))
    if isinstance(split, str):
        parts["split"] = tuple(dict.fromkeys(split.split(",")))
    for name, value in metadata.items() if isinstance(metadata, Mapping) else ():
        if isinstance(value, str | int | float | bool) and len(str(value)) <= 100:
            parts.setdefault(str(name), (str(value),))
    return parts


def differences_by(name: str, rows: Sequence[RowPair], pair: PairComparison) -> list[PartDifference]:
    """Return the difference of each score on each part of the rows, p corrected over all of them (Holm).

    name: "tag", "split", or a name in the rows' metadata; a row with several tags counts in each. rows: of `row_pairs`.

    Raises: UsageError where no row has that name, or there are more than 100 parts.
    """
    by_part: dict[str, list[RowPair]] = defaultdict(list)
    for row in rows:
        for value in row.parts.get(name, ()):
            by_part[value].append(row)
    if not by_part:
        known = sorted({each for row in rows for each in row.parts})
        near = f"; did you mean '{close[0]}'?" if (close := nearest(name, known, 1)) else ""
        expected = (
            f"expected one of {', '.join(known[:20])}" if known else "these rows have no tags, splits or metadata"
        )
        raise UsageError(f"no row has a {name}{near or ';'} {expected}")
    if len(by_part) > MOST_PARTS:
        raise UsageError(f"{name} has {len(by_part):,} values; at most {MOST_PARTS} parts are compared")
    lines = {(line.name.partition("/")[0] if line.kind == "scorer" else line.name, line.metric): line
             for line in (*pair.tasks, *pair.scorers)}  # fmt: skip
    differences = [
        of_part
        for part, own in sorted(by_part.items())
        for (task, metric), line in lines.items()
        if (of_part := _difference(part, task, metric, line, own)) is not None
    ]
    adjusted = holm([difference.line.p for difference in differences]) if differences else ()
    return [
        replace(difference, line=replace(difference.line, p_adjusted=float(p)))
        for difference, p in zip(differences, adjusted, strict=True)
    ]


def _difference(part: str, task: str, metric: str, line: Difference, rows: Sequence[RowPair]) -> PartDifference | None:
    values = [
        (score.first, score.second)
        for row in rows
        if row.task == task
        for score in row.scores
        if score.metric == metric and score.first is not None and score.second is not None
    ]
    if not values:
        return None
    ours, theirs = (np.asarray(side, dtype=np.float64) for side in zip(*values, strict=True))
    comparison = compare_paired(ours, theirs, is_share=line.scale == "proportion")
    better, worse = (
        (comparison.b_only, comparison.a_only) if line.higher_is_better else (comparison.a_only, comparison.b_only)
    )
    own = replace(
        line, first=float(ours.mean()), second=float(theirs.mean()), difference=comparison.difference,
        low=comparison.low, high=comparison.high, p=comparison.p,
        n=comparison.n, n_better=better, n_worse=worse, method=comparison.method,
        confidence=comparison.confidence, stderr=comparison.stderr, one_sided=(None, None), n_missing=0,
        n_mostly_cut=(0, 0), n_gained=None, n_lost=None,
    )  # fmt: skip
    return PartDifference(part, own)


def rows_blocks(rows: Sequence[RowPair], pair: PairComparison) -> list[Block]:
    """Return the rows, those that got worse first."""
    body: list[Cells] = []
    for row in rows[:MOST_ROWS]:
        asked = Cell(f"{row.row}: {_cut(row.inputs)}", f"expected {_cut(row.expected)}" if row.expected else "")
        sides = ((row.first_answer, row.first_error), (row.second_answer, row.second_error))
        scores = [f"{score.metric} {_number(score.first)} → {_number(score.second)}" for score in row.scores]
        body.append((asked, *(_answer_cell(*each) for each in sides), "\n".join(scores)))
    if not body:
        return []
    heading = Heading(f"{counted(len(rows), 'row')}, those that got worse first", 4)
    more = [Paragraph(f"and {len(rows) - MOST_ROWS:,} more (--json)", "facts")] if len(rows) > MOST_ROWS else []
    return [heading, table(("row", *pair.labels, "scores"), body, n_text=len(pair.labels) + 2), *more]


def _answer_cell(answer: str | None, error: str | None) -> str:
    return f"failed: {_cut(error)}" if error is not None else NOTHING if answer is None else _cut(answer)


def _cut(text: str) -> str:
    return clipped(text, LONGEST_CELL)


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3g}"


def parts_document(name: str, parts: Sequence[PartDifference], pair: PairComparison) -> Document:
    """Return the differences by part."""
    heading = Heading(f"Differences by {name}; p after Holm's correction over all of them", 4)
    body = [(part.part, part.line.metric, *shown_cells(part.line)[1:7]) for part in parts]
    return document(heading, table((name, "score", *pair.labels, "difference", "interval", "p", "n"), body, n_text=2))
