"""`diagnose`: the causes of a stored run's wrong answers, found by asking its model again.

The diagnosis is stored like an audit: a second call continues an interrupted one and sends nothing that is stored.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Unpack

import numpy as np

from assaymark.audit.diagnosis import (
    MORE_SHOTS,
    REASONING,
    CauseCount,
    Diagnosis,
    OtherModel,
    Variants,
    WrongAnswer,
    counts_of,
    diagnose_answers,
    score_by,
)
from assaymark.audit.likelihoods import Likelihoods
from assaymark.audit.notebook import Diagnoses
from assaymark.audit.prompts import variants_hash
from assaymark.audit.stored import StoredAudit, ask_again, audit_plan, stored_audit, stored_parts
from assaymark.errors import DataError, PlanError, UsageError
from assaymark.models.lending import gives_back
from assaymark.models.model import Model
from assaymark.records import Estimate, JsonValue, QueryKind, ScoreStatus
from assaymark.records.json_values import json_of
from assaymark.results.estimate_texts import is_proportion
from assaymark.results.evidence.from_store import choice_queries, find_estimate, wrong_samples
from assaymark.results.model_names import short_model_name
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import RunOpener
from assaymark.runs.plan import PreparedRun, render_of
from assaymark.runs.prepare import prepare_run
from assaymark.runs.run import Run
from assaymark.runs.stored import AuditKind, stored_line
from assaymark.store import RunRow, SampleRecord, Store
from assaymark.tasks.bound import BoundTask

if TYPE_CHECKING:
    from assaymark.documents.document import Document

DIAGNOSIS = "diagnosis"
MOST_MODELS = 20  # of the store, the best ones
Announce = Callable[[str], None]


def _stored_diagnosis(_store: Store, row: RunRow) -> "tuple[JsonValue, Document]":
    from assaymark.audit.documents import diagnosis_document

    diagnoses: list[Diagnosis] = stored_parts(row, Diagnosis)
    return json_of(diagnoses), diagnosis_document(diagnoses)


diagnosis_kind = AuditKind(_stored_diagnosis, "diagnosis")


@gives_back
def diagnose(
    run: Run,
    tasks: Sequence[str] = (),
    *,
    model: object = None,
    at_most: int | None = 200,
    more_shots: int = 5,
    reasoning: bool = False,
    announce: Announce = lambda _: None,
    **options: Unpack[EvaluateOptions],
) -> Diagnoses:
    """Return why answers of a stored run are wrong, for each of its tasks.

    Each wrong answer is asked again by the run's model in other ways, and has one cause (`audit.diagnosis`).

    Args:
        run: a stored run with results.
        tasks: some of its tasks; without any, all of them.
        model: the run's model, loaded, where its name does not load it.
        at_most: wrong answers to diagnose of each task, drawn by the hash of their rows; None: all.
        more_shots: shots beyond the run's; 0: none are added.
        reasoning: whether multiple-choice questions are also answered after a chain of thought, which takes long.
        announce: called with a line before each way of asking, and at the end with the id of the stored diagnosis.
        options: those that are not part of a plan: data_dir, include_path, workers.

    Raises: UsageError for an imported run, one of an application, one without results, or another model than the
        run's; UnknownName for a task that it does not have.
    """
    again = ask_again(run, tasks, options, model, "assaymark.diagnose")
    settings: dict[str, JsonValue] = {
        "run": run.id, "at_most": at_most, "more_shots": more_shots, "reasoning": reasoning, "forms": variants_hash(),
    }  # fmt: skip
    plan = audit_plan(again.prepared.plan, DIAGNOSIS, settings)
    asker = _Asker(run, again.model, again.tasks, again.options, at_most, more_shots, reasoning, announce)
    opener = RunOpener(run.store, plan, options.get("wait", True), announce, bound=again.prepared.bound)
    with stored_audit(opener, again.model, options.get("command")) as audit:
        diagnoses = Diagnoses(
            audit.part(bound.plan.name, Diagnosis, partial(asker.diagnosis, audit, again.prepared, position))
            for position, bound in enumerate(again.prepared.bound)
            if not tasks or bound.plan.name in tasks
        )
    announce(stored_line(run.store, audit.run_id, "diagnosis"))
    return diagnoses


class _Asker:
    """Diagnoses the tasks of one run."""

    def __init__(
        self, run: Run, model: Model, tasks: Sequence[str], call: EvaluateOptions, at_most: int | None, more_shots: int,
        reasoning: bool, announce: Announce,
    ) -> None:  # fmt: skip
        self.run, self.model, self.tasks, self.call = run, model, tasks, call
        self.at_most, self.more_shots, self.reasoning, self.announce = at_most, more_shots, reasoning, announce

    def diagnosis(self, audit: StoredAudit, prepared: PreparedRun, position: int) -> Diagnosis:
        """Return the diagnosis of the task at a position of the selection."""
        bound = prepared.bound[position]
        task = bound.plan.name
        estimate = find_estimate(self.run.estimates, task)
        wrong, n_failed = self._wrong(estimate)
        chosen = sorted(wrong, key=lambda record: (record.request.sample_sha256, record.request.sample_index))
        records = chosen if self.at_most is None else chosen[: self.at_most]
        others = self._better_models(task, estimate.value) if records else []
        answers: tuple[WrongAnswer, ...] = ()
        tried: tuple[str, ...] = ()
        if records:
            answers, tried = diagnose_answers(
                bound, records, (estimate.metric, estimate.filter), audit.answer,
                Likelihoods(self.model, audit.answer), self._variants(position), others,
                notify=lambda name: self.announce(f"{task}: {name}"),
            )  # fmt: skip
        causes: tuple[CauseCount, ...] = counts_of(answers)
        return Diagnosis(
            model=self.model.identity.name, task=task, n=estimate.n, n_wrong=len(wrong), n_failed=n_failed,
            n_diagnosed=len(records), n_better_models=len(others), tried=tried, causes=causes,
            answers=tuple(sorted(answers, key=lambda answer: answer.index)),
        )  # fmt: skip

    def _wrong(self, estimate: Estimate) -> tuple[list[SampleRecord], int]:
        """Return the first turns that a task's primary metric scores as wrong, and how many samples have no answer.

        If scores do not decide whether an answer is right, none is wrong.
        """
        if not is_proportion(estimate):
            return [], estimate.n_failed
        metric = (estimate.metric, estimate.filter)
        wrong: list[SampleRecord] = []
        n_failed = 0
        for record in self.run.store.samples_not_right(self.run.id, estimate.task, (estimate.filter, estimate.metric)):
            score = score_by(record, metric)
            if score is None and record.outputs and not any(output.error for output in record.outputs):
                continue  # an earlier answer of a conversation that is scored as a whole
            if score is None or score.status is ScoreStatus.FAILED or not record.outputs:
                n_failed += 1
            elif record.request.turn == 0 and record.sample is not None and (score.value is None or score.value < 0.5):
                wrong.append(record)
        return wrong, n_failed

    def _variants(self, position: int) -> Variants:
        """Return the task with more shots and with a chain of thought, as far as it can be bound so."""
        bound: dict[str, BoundTask] = {}
        own = self._bound(self.call, position)
        n_own = 0 if own is None else own.plan.num_fewshot
        if self.more_shots:
            more = self._bound({**self.call, "num_fewshot": n_own + self.more_shots}, position)
            if more is not None and more.plan.num_fewshot > n_own:  # a task may fix its shots
                bound[MORE_SHOTS] = more
        if self.reasoning and QueryKind.GENERATE in self.model.answers:
            reasoned = self._bound({**self.call, "prompt_style": "cot"}, position)
            if reasoned is not None:
                bound[REASONING] = reasoned
        rotated = self._bound({**self.call, "circular": True}, position)
        circular = None if rotated is None or rotated.not_circular else rotated
        render = render_of(self.model) if self.call.get("apply_chat_template") else None
        return Variants(bound, circular, render)

    def _bound(self, call: EvaluateOptions, position: int) -> BoundTask | None:
        """Return one task of the run under other options; None if they do not suit the task."""
        names = self.tasks
        if len(names) == len(self.run.row.tasks):  # each selects one task, and the others need not be read again
            names, position = [names[position]], 0
        with suppress(DataError, PlanError, UsageError):
            return prepare_run(self.model, names, call)[1].bound[position]
        return None

    def _better_models(self, task: str, value: float | None) -> list[OtherModel]:
        """Return the best runs of other models on a task, with their wrong picks."""
        store = self.run.store
        better: dict[str, tuple[float, RunRow]] = {}
        for row in store.runs():
            if task not in row.tasks or row.status != "finished" or row.plan.model == self.run.row.plan.model:
                continue
            estimates = [each for each in store.estimates(row.run_id) if each.task == task]
            own = find_estimate(estimates, task).value if estimates else None
            if own is not None and value is not None and own > value:
                name = row.plan.model.name
                if name not in better or own > better[name][0]:
                    better[name] = own, row
        best = sorted(better.values(), key=lambda pair: -pair[0])[:MOST_MODELS]
        return [_other_model(store, row, task) for _, row in best]


def _other_model(store: Store, row: RunRow, task: str) -> OtherModel:
    wrong = {
        record.request.sample_sha256: _pick(record)
        for record in wrong_samples(store, row.run_id, task)
        if record.request.turn == 0 and not any(output.error for output in record.outputs)
    }
    known = frozenset(store.sample_hashes(row.run_id, task).values())
    return OtherModel(short_model_name(row.model), wrong, known)


def _pick(record: SampleRecord) -> str | None:
    """Return the text that a choice adds, or the position of the choice where texts are letters; None without."""
    places = [query.index for query in choice_queries(record)]
    nats = {output.ask_index: output.total_nats for output in record.outputs}
    known = [nats.get(place) for place in places]
    if not known or any(value is None for value in known):
        return None
    return str(int(np.argmax([value for value in known if value is not None])))
