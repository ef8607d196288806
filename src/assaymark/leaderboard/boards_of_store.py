"""The boards of a store for which no file was written: one for each suite that was run, and one of all other tasks."""

from collections.abc import Sequence
from dataclasses import replace

from assaymark.documents.numbers import counted
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.board_files import board_of_suite, library_suites
from assaymark.leaderboard.own_rows import (
    holds_member,
    is_score,
    rows_of_runs,
    with_present_names,
)
from assaymark.leaderboard.stored import StoredRun
from assaymark.tasks.suites import Member, Suite, suite_from


def boards_of_store(runs: Sequence[StoredRun]) -> list[Board]:
    """Return one board for each suite of which the runs have scores, and one of all other tasks if there are any.

    Suites are those for which runs were made, and those that come with the package if a model has most of their tasks,
    since a table of dashes is useless.
    """
    runs = [run for run in runs if not run.is_upload]  # a visitor's file adds no board and no column to one
    suites: dict[str, Suite] = {}
    for run in runs:
        for fact in run.row.extra.get("suites", ()):
            suite = suite_from(fact["spec"])
            suites.setdefault(suite.name, suite)
    boards = [board for suite in suites.values() if rows_of_runs(board := board_of_suite(suite), runs)]
    for suite in library_suites().values():
        if suite.name not in suites and _has_most(board := board_of_suite(suite), suite.members, runs):
            suites[suite.name] = suite
            boards.append(board)
    rest = _other_tasks(runs, [board.suite for board in boards if board.suite is not None])
    return [*boards, *([rest] if rest is not None else [])]


def _has_most(board: Board, members: Sequence[Member], runs: Sequence[StoredRun]) -> bool:
    """Return whether some row of a board has a value, and more than half of its tasks."""
    for row in rows_of_runs(board, runs):
        of_row = [with_present_names(run) for run in runs if run.run_id in row.run_ids]
        n_held = sum(any(holds_member(member, run) for run in of_row) for member in members)
        if row.cells and 2 * n_held > len(members):
            return True
    return False


def _other_tasks(runs: Sequence[StoredRun], suites: Sequence[Suite]) -> Board | None:
    """Return a board of the results that no suite's board shows, among them other shots of a suite's tasks.

    Its columns are the outermost groups with a number of their own, and the tasks that are in none. If a suite has the
    task too, or the task was evaluated with several numbers of shots, each number of shots is a column.
    """
    titles: dict[str, str] = {}
    shots: dict[str, set[int]] = {}
    of_suites: set[str] = set()
    for run in map(with_present_names, runs):
        groups = {
            estimate.task
            for estimate in run.estimates
            if estimate.details.get("kind") == "group" and estimate.value is not None
        }
        covered = {member for suite in suites for member in suite.members if holds_member(member, run)}
        for estimate in run.estimates:
            path = estimate.details.get("path", ())
            named = {*path, estimate.task}
            is_task = (
                estimate.details.get("kind", "task") == "task"
                and estimate.details.get("primary")
                and is_score(estimate)
            )
            is_task = is_task and "copy_of" not in estimate.details  # a perturbed copy is not a benchmark of its own
            if is_task and not any(member.task in named for member in covered):
                name = next((group for group in path if group in groups), estimate.task)
                titles.setdefault(name, _without_prefix(name, path))
                if (n := estimate.details.get("n_shots")) is not None:
                    shots.setdefault(name, set()).add(n)
                if any(member.task in named for suite in suites for member in suite.members):
                    of_suites.add(name)
    members: list[dict[str, object]] = []
    for name, title in titles.items():
        seen = sorted(shots.get(name, ()))
        if len(seen) > 1 or (seen and name in of_suites):
            members += [
                {"task": name, "metric": [""], "shots": n, "column": f"{title}, {counted(n, 'shot')}"} for n in seen
            ]
        else:
            members.append({"task": name, "metric": [""], "column": title})
    if not members:
        return None
    suite = suite_from({"name": "all-tasks", "title": "All tasks in the store", "members": members, "reproduced": True})
    introduction = "Every task of the store's runs that no suite's board shows." if suites else ""
    if len(members) > 1:
        introduction += " Averages are comparable only between rows with the same tasks, which stand together."
    return replace(board_of_suite(suite), introduction=introduction.strip())


def _without_prefix(name: str, path: Sequence[str]) -> str:
    """Return a task's name without that of the group around it: demo_facts of demo is facts."""
    prefix = next((f"{group}_" for group in path if name.startswith(f"{group}_")), "")
    return name.removeprefix(prefix)
