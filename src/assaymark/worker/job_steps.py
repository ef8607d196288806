"""The steps of a job for the processes that do them: typed values of the submission and of the host, nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from assaymark.errors import UsageError
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.submission.choices import CHAT_TEMPLATE
from assaymark.store.queue_rows import SubmissionRow
from assaymark.tasks.catalog import LIBRARY
from assaymark.worker.messages import Fetched

__all__ = ["Parts", "check_step", "evaluate_step", "fetch_step", "parts_of"]

Parts = list[tuple[list[str], int | None]]  # what is evaluated at which number of shots; None: each task's own


def parts_of(board: Board) -> Parts:
    """Return what a board evaluates: its suite as one, its own tasks by their number of shots.

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


def _options(board: Board, row: SubmissionRow, samples: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if board.suite is not None and board.suite.source is None:
        options["profile"] = board.suite.profile
    if samples is not None:
        options["limit"] = samples
    if row.new.preset == CHAT_TEMPLATE:
        options["apply_chat_template"] = True
    elif row.new.preset:
        options["prompt_preset"] = row.new.preset
    return options


def fetch_step(board: Board, row: SubmissionRow, folders: Sequence[Path], into: Path) -> dict[str, Any]:
    """Return the step that has the network; models are copied or downloaded into a folder of the job."""
    new = row.new
    return {
        "step": "fetch",
        "source": new.source,
        "model": new.model,
        "revision": new.revision,
        "base": new.base,
        "base_revision": new.base_revision,
        "folders": [str(folder) for folder in folders],
        "into": str(into),
        "parts": parts_of(board),
        "options": _options(board, row, None),
    }


def evaluate_step(
    board: Board, row: SubmissionRow, fetched: Fetched, store: Path, samples: int | None
) -> dict[str, Any]:
    """Return the step that reads the model. Its arguments are a mapping, so no text is parsed into them."""
    arguments: dict[str, Any] = {"pretrained": str(fetched.model), "dtype": row.new.precision}
    if row.new.weights == "adapter":
        arguments = {"pretrained": str(fetched.base), "peft": str(fetched.model), "dtype": row.new.precision}
    return {
        "step": "evaluate",
        "model_args": {**arguments, "trust_remote_code": False, "local_files_only": True},
        "parts": parts_of(board),
        "options": _options(board, row, samples),
        "store": str(store),
    }


def check_step(evaluate: Mapping[str, Any], results: Path, store: Path) -> dict[str, Any]:
    """Return the step that copies what an evaluation was for from its results into a new store."""
    return {**evaluate, "step": "check", "results": str(results), "store": str(store)}
