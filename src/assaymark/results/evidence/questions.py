"""The questions of a task over all models of a store: how hard each is, and which better models miss."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.documents.numbers import counted
from assaymark.errors import UnknownName, UsageError
from assaymark.options.of_plans import part_shown
from assaymark.records import Estimate, ScoreStatus
from assaymark.registry import nearest
from assaymark.results.estimate_texts import is_proportion
from assaymark.results.evidence.from_store import find_estimate
from assaymark.results.model_names import short_model_name
from assaymark.statistics.item_analysis import FEWEST_MODELS, ItemStatistics, item_statistics
from assaymark.store import RunRow, Store
from assaymark.store.sample_facts import question_of, snippet_of

MOST_MODELS = 60  # the best ones; more take long and say little more


@dataclass(frozen=True, slots=True)
class Question:
    """One question with its statistics."""

    index: int  # of the sample in the best model's run
    text: str  # its beginning
    statistics: ItemStatistics
    missed_by: tuple[str, ...]  # models, the best first

    json_keys = (
        "index question=text share_right=statistics.right correlation=statistics.correlation p=statistics.p "
        "is_suspicious=statistics.is_suspicious missed_by"
    )


@dataclass(frozen=True, slots=True)
class Questions:
    """The questions of one task that all models answered."""

    task: str
    models: tuple[str, ...]  # the best first
    questions: tuple[Question, ...]  # in the order of the task
    best_run: str  # of the best model: samples are numbered as in it

    json_keys = "task models run=best_run questions"

    @property
    def suspicious(self) -> list[Question]:
        """Questions that better models miss and weaker ones get right, the clearest first."""
        chosen = [question for question in self.questions if question.statistics.is_suspicious]
        return sorted(chosen, key=lambda question: question.statistics.p or 0.0)

    @property
    def hardest(self) -> list[Question]:
        """All questions, those that the fewest models get right first."""
        return sorted(self.questions, key=lambda question: (question.statistics.right, question.index))


def questions_in(store: Store, rows: Sequence[RunRow], task: str) -> Questions:
    """Return a task's questions over the best whole run of each model.

    Questions are matched by the hash of their rows; those that a model did not answer are left out, and withheld ones
    have no text.

    Raises: UnknownName for a task of no finished run; UsageError for fewer than five models with questions in common,
        or a task whose scores do not say whether an answer is right.
    """
    rows = [row for row in rows if row.status == "finished"]
    names = {name for row in rows for name in row.tasks}
    if task not in names:
        raise UnknownName("task of a stored run", task, nearest(task, names))
    best = _best_runs(store, [row for row in rows if task in row.tasks], task)
    if len(best) < FEWEST_MODELS:
        raise UsageError(
            f"the store has whole runs of {counted(len(best), 'model')} on {task}; how a question goes with the rest "
            f"needs {FEWEST_MODELS} or more"
        )
    wrong = [_wrong_by_hash(store, row, estimate) for row, estimate in best]
    common = set.intersection(*(set(each) for each in wrong))
    if len(common) < 2:
        raise UsageError(f"the models have {len(common)} questions of {task} in common; expected the same data")
    first = {}
    for record in store.samples(best[0][0].run_id, task):
        request = record.request
        if request.turn == 0 and request.sample_sha256 in common and request.sample_sha256 not in first:
            row = record.sample.row if record.sample is not None else None
            text = (question_of(row) if row is not None else None) or request.prompt[-200:]
            snippet = "" if record.is_withheld else snippet_of(text)
            first[request.sample_sha256] = request.sample_index, snippet
    hashes = sorted(first, key=lambda each: first[each][0])
    models = tuple(short_model_name(row.model) for row, _ in best)
    right = np.array([[not of_model[each] for each in hashes] for of_model in wrong], dtype=np.float64)
    statistics = item_statistics(right)
    questions = []
    for place, (sha, known) in enumerate(zip(hashes, statistics, strict=True)):
        missed = tuple(name for name, is_right in zip(models, right[:, place], strict=True) if not is_right)
        questions.append(Question(*first[sha], known, missed))
    return Questions(task, models, tuple(questions), best[0][0].run_id)


def _best_runs(store: Store, rows: Sequence[RunRow], task: str) -> list[tuple[RunRow, Estimate]]:
    """Return the best run of each model with the task's estimate, the best model first."""
    best: dict[str, tuple[RunRow, Estimate]] = {}
    for row in rows:
        own = [estimate for estimate in store.estimates(row.run_id) if estimate.task == task]
        estimate = find_estimate(own, task) if own else None
        if estimate is None or estimate.value is None or part_shown(row.plan) is not None:
            continue
        if not is_proportion(estimate):
            raise UsageError(f"{estimate.metric} of {task} does not say whether an answer is right; name another task")
        name = row.plan.model.content_hash or row.plan.model.name
        if name not in best or estimate.value > (best[name][1].value or 0.0):
            best[name] = row, estimate
    return sorted(best.values(), key=lambda pair: -(pair[1].value or 0.0))[:MOST_MODELS]


def _wrong_by_hash(store: Store, row: RunRow, estimate: Estimate) -> dict[str, bool]:
    """Return whether each answered sample is wrong by the task's primary metric, by the hash of its row.

    Of a conversation the first turn with a score counts, which is the last where it is scored as a whole.
    """
    hashes = store.sample_hashes(row.run_id, estimate.task)
    wrong: dict[str, bool] = {}
    for score in store.scores(row.run_id, estimate.task, details=False):
        is_own = (score.metric, score.filter) == (estimate.metric, estimate.filter)
        if is_own and score.status is not ScoreStatus.FAILED:
            wrong.setdefault(hashes[score.sample_index, score.turn], score.value is None or score.value < 0.5)
    return wrong
