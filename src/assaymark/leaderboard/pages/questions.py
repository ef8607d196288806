"""A task's questions over all models: how hard each is, whether it goes with the rest, and which are suspicious."""

from dataclasses import dataclass

from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.pages.task import task_page
from assaymark.leaderboard.site import Site
from assaymark.records import JsonValue
from assaymark.results.evidence.questions import Question, Questions

__all__ = ["QuestionsPage", "questions_page"]

MOST_SHOWN = 100  # of each list; the JSON twin has all


@dataclass(frozen=True)
class QuestionsPage:
    """The questions of one task; `problem` says why there is nothing to show."""

    task: str
    answered: Questions | None
    problem: str = ""

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

    def to_json(self) -> JsonValue:
        """Return all questions."""
        return {"task": self.task, "problem": self.problem, **(self.answered.to_json() if self.answered else {})}


def questions_page(site: Site, name: str) -> QuestionsPage:
    """Return a task's questions. Raises: UnknownName for a task without card, run or board."""
    task_page(site, name)  # the same names
    if site.runs is None:
        return QuestionsPage(name, None, "this site shows no stored runs")
    try:
        return QuestionsPage(name, site.runs.questions(name))
    except (UnknownName, UsageError) as error:
        return QuestionsPage(name, None, str(error))
