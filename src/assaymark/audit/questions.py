"""The questions of a task over all models of the store: how hard each is, and which better models miss."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assaymark.errors import UnknownName, UsageError
from assaymark.records import Estimate, JsonValue, ScoreStatus
from assaymark.registry import nearest
from assaymark.results.evidence.from_store import find_estimate
from assaymark.results.numbers import counted, is_proportion, short_model_name
from assaymark.runs.stored import existing_store
from assaymark.statistics.item_analysis import FEWEST_MODELS, ItemStatistics, item_statistics
from assaymark.store import RunRow, Store
from assaymark.store.sample_facts import question_of, snippet_of

if TYPE_CHECKING:
    from rich.console import RenderableType as Renderable

__all__ = ["Question", "Questions", "questions_of"]

MOST_MODELS = 60  # the best ones; more take long and say little more
MOST_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Question:
    """One question with its statistics."""

    index: int  # of the sample in the best model's run
    text: str  # its beginning
    statistics: ItemStatistics
    missed_by: tuple[str, ...]  # models, the best first


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one task that all models answered."""

    task: str
    models: tuple[str, ...]  # the best first
    questions: tuple[Question, ...]  # in the order of the task

    @property
    def suspicious(self) -> list[Question]:
        """Questions that better models miss and weaker ones get right, the clearest first."""
        chosen = [question for question in self.questions if question.statistics.is_suspicious]
        return sorted(chosen, key=lambda question: question.statistics.p or 0.0)

    @property
    def hardest(self) -> list[Question]:
        """All questions, those that the fewest models get right first."""
        return sorted(self.questions, key=lambda question: (question.statistics.right, question.index))

    def to_json(self) -> dict[str, JsonValue]:
        """Return models and questions with stable names."""
        return {
            "task": self.task,
            "models": list(self.models),
            "questions": [
                {
                    "index": each.index, "question": each.text, "share_right": each.statistics.right,
                    "correlation": each.statistics.correlation, "p": each.statistics.p,
                    "is_suspicious": each.statistics.is_suspicious, "missed_by": list(each.missed_by),
                }
                for each in self.questions
            ],
        }  # fmt: skip

    def table(self) -> "Renderable":
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

        answered = f"{counted(len(self.questions), 'question')} that {len(self.models)} models answered"
        suspicious = self.suspicious
        parts: list[RenderableType] = [
            Padding(Text(f"{self.task}: {answered}, the best of them {self.models[0]}"), (0, 1))
        ]
        if suspicious:
            title = f"{counted(len(suspicious), 'question')} that better models miss and weaker ones get right"
            parts.append(rows(f"{title} (read question and key)", suspicious))
        else:
            parts.append(Padding(Text("no question that better models miss and weaker ones get right"), (0, 1, 1, 1)))
        return Group(*parts, rows("the hardest", self.hardest))


def questions_of(store: str | None, task: str) -> Questions:
    """Return a task's questions over the best stored run of each model.

    Questions are matched by the hash of their rows; those that a model did not answer are left out.

    Args:
        store: the database.
        task: a task of stored runs.

    Raises: UnknownName for a task of no stored run; UsageError for fewer than five models with questions in common, or
        a task whose scores do not say whether an answer is right.
    """
    opened = existing_store(store)
    rows = [row for row in opened.runs() if row.status == "finished"]
    names = {name for row in rows for name in row.tasks}
    if task not in names:
        raise UnknownName("task of a stored run", task, nearest(task, names))
    best = _best_runs(opened, [row for row in rows if task in row.tasks], task)
    if len(best) < FEWEST_MODELS:
        raise UsageError(
            f"the store has whole runs of {counted(len(best), 'model')} on {task}; how a question goes with the rest "
            f"needs {FEWEST_MODELS} or more"
        )
    wrong = [_wrong_by_hash(opened, row, estimate) for row, estimate in best]
    common = set.intersection(*(set(each) for each in wrong))
    if len(common) < 2:
        raise UsageError(f"the models have {len(common)} questions of {task} in common; expected the same data")
    first = {}
    for record in opened.samples(best[0][0].run_id, task):
        request = record.request
        if request.turn == 0 and request.sample_sha256 in common and request.sample_sha256 not in first:
            text = (question_of(record.sample.row) if record.sample is not None else None) or request.prompt[-200:]
            first[request.sample_sha256] = request.sample_index, snippet_of(text)
    hashes = sorted(first, key=lambda each: first[each][0])
    models = tuple(short_model_name(row.model) for row, _ in best)
    right = np.array([[not of_model[each] for each in hashes] for of_model in wrong], dtype=np.float64)
    statistics = item_statistics(right)
    questions = []
    for place, (sha, known) in enumerate(zip(hashes, statistics, strict=True)):
        missed = tuple(name for name, is_right in zip(models, right[:, place], strict=True) if not is_right)
        questions.append(Question(*first[sha], known, missed))
    return Questions(task, models, tuple(questions))


def _best_runs(store: Store, rows: Sequence[RunRow], task: str) -> list[tuple[RunRow, Estimate]]:
    """Return the best run of each model with the task's estimate, the best model first."""
    best: dict[str, tuple[RunRow, Estimate]] = {}
    for row in rows:
        own = [estimate for estimate in store.estimates(row.run_id) if estimate.task == task]
        estimate = find_estimate(own, task) if own else None
        if estimate is None or estimate.value is None or row.plan.limit is not None:
            continue
        if not is_proportion(estimate):
            raise UsageError(f"{estimate.metric} of {task} does not say whether an answer is right; name another task")
        name = row.plan.model.content_hash or row.plan.model.name
        if name not in best or estimate.value > (best[name][1].value or 0.0):
            best[name] = row, estimate
    return sorted(best.values(), key=lambda pair: -(pair[1].value or 0.0))[:MOST_MODELS]


def _wrong_by_hash(store: Store, row: RunRow, estimate: Estimate) -> dict[str, bool]:
    """Return whether each answered sample is wrong by the task's primary metric, by the hash of its row."""
    hashes = store.sample_hashes(row.run_id, estimate.task)
    return {
        hashes[score.sample_index, score.turn]: score.value is None or score.value < 0.5
        for score in store.scores(row.run_id, estimate.task, details=False)
        if (score.metric, score.filter, score.turn) == (estimate.metric, estimate.filter, 0)
        and score.status is not ScoreStatus.FAILED
    }
