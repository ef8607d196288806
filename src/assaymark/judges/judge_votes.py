"""Votes on pairs of answers, from files of votes and from stored judgings, as agreement needs them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsFloat

from assaymark.datasets.csv_files import delimiter_of
from assaymark.datasets.files import read_files
from assaymark.datasets.rows import Rows
from assaymark.datasets.vote_columns import find_columns, one_vote_a_row, outcome_of, verdicts_in
from assaymark.errors import DataError, UsageError
from assaymark.judges.agreement import PairVote
from assaymark.judges.judging import JUDGING
from assaymark.judges.pairwise import JudgedPair
from assaymark.judges.results import judged_models, read_results
from assaymark.records import JsonValue
from assaymark.results.model_names import short_model_name
from assaymark.runs.stored import existing_store
from assaymark.store import RunRow, Store

TASK = "task"
PARTS = ("turn", TASK)  # columns that separate the votes on one question
LENGTHS = (("length_{}", "ab"), ("len_{}", "ab"), ("tokens_{}", "ab"), ("len{}", "12"), ("len_{}", "12"),
           ("response_{}", "ab"), ("response{}", "12"), ("output_{}", "12"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class FoundVotes:
    """Votes on pairs of answers, and the number of rows or judgements without a verdict."""

    votes: list[PairVote]
    n_without_verdict: int


def votes_in_file(
    path: Path, columns: Mapping[str, str] | None = None, missing: Sequence[str] = (), *, for_judging: bool = False
) -> FoundVotes:
    """Return the votes of a file that `assaymark arena rate` reads; rows without a verdict are counted.

    `missing` are verdicts that stand for none, such as PandaLM's `garbage`. `for_judging`: a task is part of the
    question's name, as `question_names` has it.

    Votes are matched by question, turn and models, so the file must name the question of each.

    Raises: DataError if it lacks columns or holds an unknown verdict; UnknownName for a column that it lacks.
    """
    is_csv = path.suffix in {".csv", ".tsv"} and path.is_file() and path.stat().st_size > 0
    rows = read_files([path], {"delimiter": delimiter_of(path)} if is_csv else None)
    rows = rows if columns else one_vote_a_row(rows)
    vote_columns = find_columns(rows.column_names, columns)
    if vote_columns.prompt is None:
        raise DataError(
            f"{path.name} has no column that names the question (question_id, prompt, idx, ...), so its votes cannot "
            "be matched; name it with --columns prompt=COLUMN"
        )
    named = _names(rows, vote_columns.prompt, for_judging=for_judging)
    votes, n_without = [], 0
    for number, (row, verdict) in enumerate(zip(rows, verdicts_in(rows, vote_columns), strict=True), start=1):
        first, second = str(row[vote_columns.first]).strip(), str(row[vote_columns.second]).strip()
        value = outcome_of(verdict, first, second)
        if isinstance(value, str) and value not in missing:
            raise DataError(
                f"{path.name}, row {number}: the verdict is '{value}'; expected model_a, model_b, tie, {first} or "
                f"{second}; if it stands for no verdict, add --missing '{value}'"
            )
        if not first or not second or first == second:
            continue
        if value is None or isinstance(value, str):
            n_without += 1
            continue
        rater = str(row[vote_columns.judge]) if vote_columns.judge else ""
        votes.append(PairVote(*named(row), first, second, value, rater, _lengths(rows, row)))
    if not votes:
        raise DataError(f"{path.name} has {len(rows):,} rows, and none is a vote")
    return FoundVotes(votes, n_without)


def _names(rows: Rows, prompt: str, *, for_judging: bool) -> Callable[[Mapping[str, object]], tuple[str, str]]:
    """Return the function for a row's question, and its part such as the turn."""
    parts = [name for name in PARTS if name in rows.column_names and name != prompt]
    is_named_by_task = for_judging and TASK in parts
    apart = [name for name in parts if not (is_named_by_task and name == TASK)]

    def question_and_part(row: Mapping[str, object]) -> tuple[str, str]:
        question = in_task(row[TASK], row[prompt]) if is_named_by_task else str(row[prompt])
        return question, "/".join(str(row[name]) for name in apart)

    return question_and_part


def _lengths(rows: Rows, row: Mapping[str, JsonValue]) -> tuple[float, float] | None:
    """Return the lengths of both answers: counts in columns, or characters of their texts."""
    for pattern, sides in LENGTHS:
        names = [pattern.format(side) for side in sides]
        if all(name in rows.column_names for name in names):
            first, second = (_length(row[name]) for name in names)
            return None if math.isnan(first) or math.isnan(second) else (first, second)
    return None


def _length(value: JsonValue) -> float:
    try:
        if isinstance(value, str | int | float | SupportsFloat):
            return float(value)
    except ValueError:
        pass
    return math.nan if value is None else float(len(str(value)))


def judging_named(store: str | None, name: str) -> RunRow | None:
    """Return a stored judging of pairs by its id; None if `name` is a file.

    Raises: UsageError for a run that is no such judging; UnknownName.
    """
    if Path(name).is_file():
        return None
    row = existing_store(store).run(name)
    if row.plan.audit != JUDGING:
        raise UsageError(f"{row.short_id} is not a judging; name one (see `assaymark ls runs`), or a file of votes")
    if len(judged_models(row)) != 2:
        raise UsageError(f"{row.short_id} grades single answers; agreement of verdicts is of a judging of two runs")
    return row


def votes_of_judging(store: Store, row: RunRow, *, by_task: bool) -> FoundVotes:
    """Return a vote for each judged pair, its question named as `question_names` does."""
    first, second = map(short_model_name, judged_models(row))
    questions = question_names(store, row, by_task=by_task)
    votes, n_without = [], 0
    for pair in read_results(store, row):
        if not isinstance(pair, JudgedPair) or pair.value is None:
            n_without += 1
        else:
            question = questions[pair.task, pair.sample_index]
            side = 1.0 if pair.value > 0.5 else 0.0 if pair.value < 0.5 else 0.5
            part = str(pair.turn + 1)
            votes.append(PairVote(question, part, first, second, side, row.model, pair.lengths))
    return FoundVotes(votes, n_without)


def question_names(store: Store, row: RunRow, *, by_task: bool) -> dict[tuple[str, int], str]:
    """Return the name of each question by task and sample: the data set's own id, or else the sample's index.

    by_task: whether the other side has a column `task`; each name then begins with the question's task.

    Raises: DataError if questions of two tasks have one name, and only a column `task` could tell them apart.
    """
    names: dict[tuple[str, int], str] = {}
    tasks_of: dict[str, str] = {}
    for task in row.tasks:
        for record in store.samples(row.run_id, task):
            if record.sample is None:
                continue
            key = next((key for key in ("question_id", "prompt_id", "id") if key in record.sample.row), None)
            name = str(record.sample.index if key is None else record.sample.row[key])
            names[task, record.sample.index] = in_task(task, name) if by_task else name
            if tasks_of.setdefault(name, task) != task and not by_task:
                raise DataError(
                    f"question {name} is in {tasks_of[name]} and in {task} of {row.short_id}; add a column 'task' to "
                    "the file of people's verdicts"
                )
    return names


def in_task(task: object, question: object) -> str:
    """Return a question's name within its task."""
    return f"{task}/{question}"


def has_task_column(path: Path) -> bool:
    """Return whether a file of votes or grades names the task of each."""
    is_csv = path.suffix in {".csv", ".tsv"} and path.stat().st_size > 0
    return TASK in read_files([path], {"delimiter": delimiter_of(path)} if is_csv else None).column_names
