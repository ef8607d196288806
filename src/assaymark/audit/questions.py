"""The questions of a task over all models of the store, for the terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from assaymark.results.evidence.questions import Question, Questions, questions_in
from assaymark.results.numbers import counted
from assaymark.runs.stored import existing_store

if TYPE_CHECKING:
    from rich.console import RenderableType as Renderable

__all__ = ["Questions", "question_table", "questions_of"]

MOST_SHOWN = 10


def questions_of(store: str | None, task: str) -> Questions:
    """Return a task's questions over the best stored run of each model; see `questions_in`."""
    opened = existing_store(store)
    return questions_in(opened, opened.runs(), task)


def question_table(answered: Questions) -> "Renderable":
    """Return the suspicious questions and the hardest ones for a terminal."""
    from rich.console import Group, RenderableType
    from rich.padding import Padding

    from assaymark.results.console import Text
    from assaymark.results.numbers import NOTHING, shown_p
    from assaymark.results.views.cells import plain_table

    def rows(title: str, questions: Sequence[Question]) -> RenderableType:
        table = plain_table()
        for header in ("sample", "right", "with the rest", "p"):
            table.add_column(header, justify="right", no_wrap=True)
        table.add_column("question", overflow="fold")
        for each in questions[:MOST_SHOWN]:
            known = each.statistics
            correlation = NOTHING if known.correlation is None else f"{known.correlation:+.2f}"
            p = NOTHING if known.p is None else shown_p(known.p)
            table.add_row(str(each.index), f"{100 * known.right:.0f}%", correlation, p, Text(each.text))
        return Padding(Group(Text(title, style="bold"), table), (0, 1, 1, 1))

    heading = f"{counted(len(answered.questions), 'question')} that {len(answered.models)} models answered"
    suspicious = answered.suspicious
    parts: list[RenderableType] = [
        Padding(Text(f"{answered.task}: {heading}, the best of them {answered.models[0]}"), (0, 1))
    ]
    if suspicious:
        title = f"{counted(len(suspicious), 'question')} that better models miss and weaker ones get right"
        parts.append(rows(f"{title} (read question and key)", suspicious))
    else:
        parts.append(Padding(Text("no question that better models miss and weaker ones get right"), (0, 1, 1, 1)))
    return Group(*parts, rows("the hardest", answered.hardest))
