"""The rules of a host, given to the server and to workers alike."""

from collections.abc import Sequence
from pathlib import Path

from assaymark.errors import UsageError
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.board_files import board_of_suite, library_suites, read_board


def boards_of(paths: Sequence[str]) -> dict[str, Board]:
    """Return the boards for which models are evaluated: those of files, or without files the package's suites.

    Raises: DataError or UsageError for a file; UsageError if none of them takes submissions.
    """
    if not paths:
        return {suite.name: board_of_suite(suite) for suite in library_suites().values()}
    boards = {board.name: board for board in map(read_board, paths) if board.suite is not None}
    if not boards:
        raise UsageError("none of these boards takes submissions: they show published tables")
    return boards


def folders_of(names: Sequence[str]) -> list[Path]:
    """Return the folders that a host allows. Raises: UsageError for one that does not exist."""
    folders = [Path(name).expanduser().absolute() for name in names]
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(
                f"--allow_folder {folder} is not a directory; expected one that contains folders of models"
            )
    return folders
