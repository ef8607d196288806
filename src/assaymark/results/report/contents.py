"""The contents of a report about stored runs, read from the store before it is rendered.

The samples that a report shows: a run's most confident errors, and a later run's new errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from assaymark.documents.blocks import Example, Piece
from assaymark.errors import UsageError
from assaymark.records import Estimate, JsonValue, ScoreStatus
from assaymark.results.comparison.compare import compare_runs, distinct_labels
from assaymark.results.comparison.document import tasks_by_change
from assaymark.results.comparison.records import Comparison, Flip, PairComparison
from assaymark.results.comparison.stored_runs import matched_evidence
from assaymark.results.estimate_texts import is_proportion
from assaymark.results.evidence.from_store import choice_queries, deciding_score, run_evidence, run_view, wrong_samples
from assaymark.results.evidence.records import RunView, score_number
from assaymark.results.views.cells import leaf_estimates, table_rows
from assaymark.results.views.samples import example_choices, shortened
from assaymark.scoring.metric import CONFIDENCE
from assaymark.statistics.calibration import CalibrationError, calibration_error
from assaymark.store import RunRow, SampleRecord, Store
from assaymark.tasks.catalog import LIBRARY
from assaymark.tasks.describe import find_card_named

N_TASKS = 3
PER_TASK = 2
OF_PAIRS = 6  # in all
PROMPT_END = 500  # characters
LONGEST_CHOICE = 160
LONGEST_ANSWER = 600


def above_chance(estimate: Estimate) -> float:
    """Return a value rescaled so that chance is 0 and a perfect score is 1."""
    chance = estimate.chance or 0.0
    return ((estimate.value or 0.0) - chance) / (1.0 - chance) if chance < 1.0 else 0.0


def failure_examples(store: Store, run_id: str, leaves: Sequence[Estimate]) -> list[Example]:
    """Return wrongly answered samples of the weakest tasks, the most confident errors first."""
    shares = [estimate for estimate in leaves if is_proportion(estimate) and estimate.value is not None]
    examples: list[Example] = []
    n_tasks = 0
    for estimate in sorted(shares, key=above_chance):
        wrong = [record for record in wrong_samples(store, run_id, estimate.task) if not record.is_withheld]
        wrong.sort(key=lambda record: -(_confidence(record) or 0.0))
        examples += [_example(record) for record in wrong[:PER_TASK]]
        n_tasks += bool(wrong)
        if n_tasks == N_TASKS:
            break
    return examples


def regression_examples(store: Store, run_id: str, pair: PairComparison, n_pairs: int = 1) -> list[Example]:
    """Return samples that the first run of a pair answered correctly and the second, `run_id`, did not.

    With more pairs in the report each gets fewer examples.
    """
    most = max(1, OF_PAIRS // n_pairs)
    examples: list[Example] = []
    for task in tasks_by_change(pair):
        lost = {flip.second_index: flip for flip in pair.flips if flip.task == task and not flip.is_better}
        if not lost:
            continue
        records = [
            record
            for record in store.samples(run_id, task, indices=list(lost))
            if record.request.turn == 0 and not record.is_withheld
        ]
        records.sort(key=lambda record: -(_confidence(record) or 0.0))
        examples += [_example(record, lost[record.request.sample_index], pair.labels) for record in records[:PER_TASK]]
        if len(examples) >= most:
            break
    return examples[:most]


def _example(record: SampleRecord, flip: Flip | None = None, labels: tuple[str, str] = ("", "")) -> Example:
    request = record.request
    confidence = _confidence(record)
    confidence_note = "" if confidence is None else f", confidence {confidence:.0%}"
    failed = [output.error for output in record.outputs if output.error]
    lines = [("failed", failed[0])] if failed else []
    if not failed and not choice_queries(record):
        lines += [
            ("answer", shortened(output.text, LONGEST_ANSWER))
            for output in record.outputs[:1]
            if output.text is not None
        ]
        lines += [("reference", shortened(request.target, LONGEST_ANSWER))] if request.target else []
    score = deciding_score(record)
    if score is not None and score.status is ScoreStatus.UNPARSED:
        lines.append(("score", "no answer could be parsed from it"))
    if flip is not None and flip.first_answer is not None:
        lines.append((f"{labels[0]} answered", flip.first_answer))
    return Example(
        title=f"{request.task}, sample {request.sample_index}{confidence_note}",
        prompt=(Piece(_question(record)),),
        choices=example_choices(record, LONGEST_CHOICE) if not failed and len(choice_queries(record)) > 1 else (),
        lines=tuple(lines),
    )


def _question(record: SampleRecord) -> str:
    """Return the end of the prompt without its shots."""
    segments = record.request.segments
    text = segments[-1] if segments and segments[-1].strip() else record.request.prompt
    text = text.strip()
    return text if len(text) <= PROMPT_END else "… " + text[-PROMPT_END:].lstrip()


def _confidence(record: SampleRecord) -> float | None:
    parts = next((score.parts for score in record.scores if score.metric == CONFIDENCE), None)
    return score_number(parts[0]) if parts else None


FEWEST_CALIBRATED = 100  # answers; a curve of fewer is mostly noise


@dataclass(frozen=True, slots=True)
class CalibrationCurve:
    """A run's accuracy by confidence, over all its multiple-choice tasks."""

    label: str
    n_tasks: int
    error: CalibrationError


@dataclass(frozen=True, slots=True)
class ClaimedValue:
    """Another source's figure for a model that was not measured here."""

    model: str
    task: str
    value: float  # a share in [0, 1]
    source: str


@dataclass(frozen=True, slots=True)
class ReportContents:
    """One or more runs, and their comparison."""

    views: tuple[RunView, ...]
    rows: tuple[RunRow, ...]
    comparison: Comparison | None = None
    not_compared: str = ""  # why there is no comparison of several runs
    curves: tuple[CalibrationCurve, ...] = ()
    examples: tuple[tuple[str, tuple[Example, ...]], ...] = ()  # (heading, examples)
    cards: Mapping[str, Mapping[str, JsonValue]] = field(default_factory=dict)  # benchmark cards by task or group
    claims: tuple[ClaimedValue, ...] = ()


def report_contents(store: Store, run_ids: Sequence[str], claims: Sequence[ClaimedValue] = ()) -> ReportContents:
    """Return the contents of a report of these runs; with two or more, the later ones are compared with the first.

    Raises: UsageError for a run named twice, and for a claim of a task that no run has a share for.
    """
    if len(set(run_ids)) < len(run_ids):
        raise UsageError("the same run was named twice; name each run once")
    evidence = [run_evidence(store, run_id) for run_id in run_ids]
    labels = distinct_labels(evidence)
    views = [replace(run_view(store, run_id), label=label) for run_id, label in zip(run_ids, labels, strict=True)]
    rows = tuple(store.run(run_id) for run_id in run_ids)
    known = [row.any_cell.task for row in table_rows(views, primary_only=True)
             if row.metric and row.any_cell is not None and is_proportion(row.any_cell)]  # fmt: skip
    if unknown := [claim for claim in claims if claim.task not in known]:
        raise UsageError(
            f"{unknown[0].model} is claimed to have a value of '{unknown[0].task:.60}', for which these runs have no "
            f"share; they have {', '.join(known[:10])}"
        )
    comparison, why = None, ""
    if len(run_ids) > 1:
        try:
            comparison = compare_runs(matched_evidence(evidence, [(store, run_id) for run_id in run_ids]))
        except UsageError as error:
            why = str(error)
    curves = [_curve(store, row, label) for row, label in zip(rows, labels, strict=True)]
    return ReportContents(
        views=tuple(views),
        rows=rows,
        comparison=comparison,
        not_compared=why,
        curves=tuple(curve for curve in curves if curve is not None),
        examples=tuple(_examples(store, rows, views, comparison)),
        cards=_cards(rows, views),
        claims=tuple(claims),
    )


def _examples(
    store: Store, rows: Sequence[RunRow], views: Sequence[RunView], comparison: Comparison | None
) -> list[tuple[str, tuple[Example, ...]]]:
    """Return the failures of a single run, or each later run's failures on samples that the first one got right."""
    if len(rows) == 1 or comparison is None:
        sections = [
            (f"{view.label}: answered wrongly" if len(views) > 1 else "Answered wrongly",
             tuple(failure_examples(store, row.run_id, leaf_estimates(view))))
            for row, view in zip(rows, views, strict=True)
        ]  # fmt: skip
    else:
        sections = [
            (f"Right in {pair.labels[0]}, wrong in {pair.labels[1]}",
             tuple(regression_examples(store, row.run_id, pair, len(comparison.pairs))))
            for row, pair in zip(rows[1:], comparison.pairs, strict=True)
        ]  # fmt: skip
    return [(heading, examples) for heading, examples in sections if examples]


def _curve(store: Store, row: RunRow, label: str) -> CalibrationCurve | None:
    """Return the curve over all multiple-choice answers; None if there are too few."""
    pairs: list[tuple[float, float]] = []
    n_tasks = 0
    for task in row.tasks:
        own = [score.parts for score in store.scores(row.run_id, task) if score.metric == CONFIDENCE and score.parts]
        pairs += [(score_number(parts[0]), score_number(parts[1])) for parts in own]
        n_tasks += bool(own)
    if len(pairs) < FEWEST_CALIBRATED:
        return None
    return CalibrationCurve(label, n_tasks, calibration_error([p[0] for p in pairs], [p[1] for p in pairs]))


def _cards(rows: Sequence[RunRow], views: Sequence[RunView]) -> dict[str, Mapping[str, object]]:
    """Return the cards of the tasks and groups at the top of the table, by name."""
    cards: dict[str, Mapping[str, object]] = {}
    for line in table_rows(views, primary_only=True):
        if not line.is_top or not line.metric:
            continue
        facts = [row.extra.get("tasks", {}).get(line.name) for row in rows]
        sources = [source for fact in facts if fact is not None and (source := fact.get("source"))]
        folder = Path(sources[0]).parent if sources else LIBRARY
        if card := find_card_named(line.name, (), folder):
            cards[line.name] = card
    return cards
