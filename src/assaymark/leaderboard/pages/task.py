"""The pages of a task, with each run's score, and of its questions over all models.

Each question has its difficulty and its discrimination; suspicious ones are listed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.about import formulas_of, task_card
from assaymark.leaderboard.board import Board
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun
from assaymark.records import Estimate, JsonValue
from assaymark.registry import nearest
from assaymark.results.evidence.questions import Question, Questions
from assaymark.web.render import plain_fields

MOST_SHOWN = 100  # of each list of questions; the JSON twin has all


@dataclass(frozen=True)
class TaskPage:
    """One task."""

    name: str
    card: Mapping[str, JsonValue]
    formulas: tuple[tuple[str, str], ...]
    scores: tuple[tuple[StoredRun, Estimate], ...]  # the task's primary metric, the best first
    boards: tuple[Board, ...]

    json_keys = "task=name card scores=rows boards=boards.name"

    @property
    def rows(self) -> list[dict[str, JsonValue]]:
        """The scores with their runs."""
        return [{"run": run.run_id, "model": run.model, **plain_fields(estimate)} for run, estimate in self.scores]

    @property
    def is_neutral(self) -> bool:
        """Whether neither direction of a score is known to be better."""
        return any(estimate.details.get("is_neutral") for _, estimate in self.scores)


def task_page(site: Site, name: str) -> TaskPage:
    """Return a task's page. Raises: UnknownName for a task without card, run or board."""
    runs = site.stored_runs()
    card = task_card(name)
    scores = [
        (run, estimate) for run in runs for estimate in run.estimates
        if estimate.task == name and estimate.value is not None
        and (estimate.details.get("primary") or estimate.details.get("kind") == "group")
    ]  # fmt: skip
    boards = [board for board in site.boards.values() if board.suite and name in {m.task for m in board.suite.members}]
    if not card and not scores and not boards:
        known = {estimate.task for run in runs for estimate in run.estimates}
        raise UnknownName("task", name[:100], nearest(name[:100], known))
    scores.sort(key=lambda each: -(each[1].value or 0.0) if each[1].higher_is_better else (each[1].value or 0.0))
    metrics = dict.fromkeys(estimate.metric for _, estimate in scores)
    formulas = tuple(formulas_of(metrics).items())
    return TaskPage(name, card, formulas, tuple(scores), tuple(boards))


@dataclass(frozen=True)
class QuestionsPage:
    """The questions of one task; `problem` says why there is nothing to show."""

    task: str
    answered: Questions | None
    problem: str = ""

    json_keys = "task problem *answered"

    @property
    def lists(self) -> list[tuple[str, list[Question], int]]:
        """The suspicious questions and the hardest ones: heading, the first of them, and how many there are."""
        if self.answered is None:
            return []
        suspicious, hardest = self.answered.suspicious, self.answered.hardest
        return [
            ("Better models miss them and weaker ones get them right", suspicious[:MOST_SHOWN], len(suspicious)),
            ("The hardest", hardest[:MOST_SHOWN], len(hardest)),
        ]


def questions_page(site: Site, name: str) -> QuestionsPage:
    """Return a task's questions. Raises: UnknownName for a task without card, run or board."""
    task_page(site, name)  # the same names
    if site.runs is None:
        return QuestionsPage(name, None, "this site shows no stored runs")
    try:
        return QuestionsPage(name, site.runs.questions(name))
    except (UnknownName, UsageError) as error:
        return QuestionsPage(name, None, str(error))
