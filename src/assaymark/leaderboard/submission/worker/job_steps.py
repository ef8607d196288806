"""The job of a step's process: one JSON object, which the worker writes and `worker.child` reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

from assaymark.errors import UsageError
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.screening import RivalsSpec
from assaymark.leaderboard.submission.choices import CHAT_TEMPLATE
from assaymark.leaderboard.submission.queue_rows import SubmissionRow
from assaymark.leaderboard.submission.worker.messages import Fetched
from assaymark.models.checkpoint.quantisation import loading_arguments
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.tasks.catalog import LIBRARY

Parts = list[tuple[list[str], int | None]]  # tasks with their number of shots; None: each task's own


class ScreeningSpec(TypedDict):
    """The condition on which an evaluation may stop: the other rows of the board, and its rule."""

    rivals: RivalsSpec
    weights: dict[str, float]  # of each task in the board's average
    at_least: int  # questions
    seed: int  # of the order of the questions


class FetchStep(TypedDict):
    """The step that has the network; models are copied or downloaded into a folder of the job."""

    step: Literal["fetch"]
    source: str  # hub | folder
    model: str
    revision: str
    base: str | None  # of an adapter
    base_revision: str
    folders: list[str]  # of the host, with models that may be submitted
    into: str
    parts: Parts
    options: EvaluateOptions


class EvaluateStep(TypedDict):
    """The step that reads the model."""

    step: Literal["evaluate"]
    model_args: dict[str, object]  # a mapping, so no text is parsed into them
    parts: Parts
    options: EvaluateOptions
    store: str
    screening: ScreeningSpec | None  # None: the evaluation is complete


class CheckStep(TypedDict):
    """The step that copies the job's runs from an evaluation's results into a new store."""

    step: Literal["check"]
    model_args: dict[str, object]
    parts: Parts
    options: EvaluateOptions
    results: str
    store: str
    screening: ScreeningSpec | None


JobStep = FetchStep | EvaluateStep | CheckStep


def parts_of(board: Board) -> Parts:
    """Return the evaluations of a board: its suite as one, its own tasks by their number of shots.

    Raises: UsageError for a board of a published table.
    """
    if board.suite is None:
        raise UsageError(f"board '{board.name}' shows a published table, so nothing can be evaluated for it")
    if board.suite.source is not None:
        is_ours = board.suite.source.is_relative_to(LIBRARY)
        return [([f"suite:{board.suite.name}" if is_ours else str(board.suite.source)], None)]
    files = {path.name.split(".")[0]: str(path) for path in board.task_files}
    by_shots: dict[int | None, list[str]] = {}
    for member in board.suite.members:
        by_shots.setdefault(member.shots, []).append(files.get(member.task, member.task))
    return [(list(dict.fromkeys(names)), shots) for shots, names in by_shots.items()]


def _options(board: Board, row: SubmissionRow, samples: int | None) -> EvaluateOptions:
    options: EvaluateOptions = {}
    if board.suite is not None and board.suite.source is None:
        options["profile"] = board.suite.profile
    if samples is not None:
        options["limit"] = samples
    if row.new.preset == CHAT_TEMPLATE:
        options["apply_chat_template"] = True
    elif row.new.preset:
        options["prompt_preset"] = row.new.preset
    return options


def fetch_step(board: Board, row: SubmissionRow, folders: Sequence[Path], into: Path) -> FetchStep:
    """Return the step that fetches a submission's model, and the data sets of its board."""
    new = row.new
    return {
        "step": "fetch",
        "source": new.source,
        "model": new.model,
        "revision": new.revision,
        "base": new.base,
        "base_revision": new.base_revision or "",
        "folders": [str(folder) for folder in folders],
        "into": str(into),
        "parts": parts_of(board),
        "options": _options(board, row, None),
    }


def evaluate_step(
    board: Board, row: SubmissionRow, fetched: Fetched, store: Path, samples: int | None,
    screening: ScreeningSpec | None = None,
) -> EvaluateStep:  # fmt: skip
    """Return the step that evaluates a fetched model.

    screening: where it may stop; None: the evaluation is complete.
    """
    arguments: dict[str, object] = {"pretrained": str(fetched.model)}
    if row.new.weights == "adapter":
        arguments = {"pretrained": str(fetched.base), "peft": str(fetched.model)}
    arguments |= loading_arguments(row.new.precision, is_quantised=bool(row.new.facts.get("is_quantised")))
    return {
        "step": "evaluate",
        "model_args": {**arguments, "trust_remote_code": False, "local_files_only": True},
        "parts": parts_of(board),
        "options": _options(board, row, samples),
        "store": str(store),
        "screening": screening,
    }
