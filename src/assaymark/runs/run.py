"""A stored run: its estimates, tables, samples and files."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.documents import ShownAsDocument
from assaymark.documents.numbers import counted
from assaymark.errors import UsageError, few
from assaymark.records import Estimate, JsonValue
from assaymark.records.json_values import json_fields
from assaymark.runs.execute import RunResult
from assaymark.runs.plan import PreparedRun
from assaymark.store import AttemptRow, Problem, RunRow, SampleRecord, Store

if TYPE_CHECKING:
    from altair import LayerChart, VConcatChart

    from assaymark.documents.document import Document
    from assaymark.results.evidence.generated_texts import TurnAnswers

_UNREMOVED = {  # key of an attempt's summary, with counts by mark -> what is said
    "unremoved_reasoning": "the reasoning before it was scored as part of the answer; remove it with "
    "think_end_token={} in --model_args",
    "unremoved_end": "the end of a turn was scored as part of the answer, with all that follows it; end answers there "
    "with --gen_kwargs 'until={}'",
}


class Run(ShownAsDocument):
    """A stored run. Printing it prints its table."""

    def __init__(self, store: Store, run_id: str, result: RunResult | None = None, notes: tuple[str, ...] = ()) -> None:
        self.store = store
        self.id = run_id
        self.result = result
        self.notes = notes  # on values that were guessed or replaced when the tasks were selected

    # --------------------------------------------------------------------------------------- identity

    @property
    def row(self) -> RunRow:
        """The run's current row in the store."""
        return self.store.run(self.id)

    @property
    def short_id(self) -> str:
        """The shortest beginning of the id that identifies the run."""
        return self.row.short_id

    def configuration(self) -> dict[str, JsonValue]:
        """Return the plan: everything that decides this run's responses."""
        return self.row.plan.content

    def log_to_wandb(
        self, init_args: Mapping[str, object] | None = None, config_args: Mapping[str, object] | None = None
    ) -> str | None:
        """Log the estimates and the configuration to Weights & Biases; return the URL of the W&B run, if it has one.

        Raises: UsageError if wandb is not installed, or W&B refuses them.
        """
        from assaymark.interop.wandb_log import log_to_wandb

        return log_to_wandb(self.estimates, self.configuration(), init_args or {}, config_args or {})

    def attempts(self) -> list[dict[str, JsonValue]]:
        """Return the attempts: when, where and with which versions the run was worked on, and how each ended."""
        return [asdict(attempt) for attempt in self.store.attempts(self.id)]

    # ---------------------------------------------------------------------------------------- results

    def summarise(self, prepared: PreparedRun) -> None:
        """Compute the estimates from the stored scores and store them, unless the run was finished before.

        A finished run is summarised again if a suite was selected now that it was stored without.
        """
        from assaymark.results.evidence.composites import holds_suites
        from assaymark.results.evidence.from_store import SUMMARY_DUE, save_summary

        is_due = self.row.extra.get(SUMMARY_DUE)
        known = self.result is not None and self.result.was_stored and self.estimates and not is_due
        if not known or not holds_suites(self.row.extra, prepared.selection):
            save_summary(self.store, self.id, prepared.selection, prepared.bound)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """The estimates, one for each task or group, metric and filter."""
        from assaymark.results.evidence.task_facts import with_declared_chance

        return with_declared_chance(self.store.estimates(self.id), self.row.extra)

    def estimate(self, task: str, metric: str | None = None) -> Estimate:
        """Return one estimate; without a metric, that of the task's primary metric.

        Raises: UnknownName for a task or metric this run does not have.
        """
        from assaymark.results.evidence.from_store import find_estimate

        return find_estimate(self.estimates, task, metric)

    def subjects(self, task: str) -> tuple[Estimate, ...]:
        """Return the estimates of a task's subjects: of an own task whose rows name any, or of the tasks of a group.

        They are those of the primary metric, in the order of the run. Empty where there are none.
        """
        return tuple(
            estimate
            for estimate in self.estimates
            if estimate.details.get("primary")
            and estimate.details.get("kind") in {"task", "subject"}
            and task in estimate.details.get("path", ())
        )

    def samples(self, task: str) -> list[SampleRecord]:
        """Return a task's stored samples: row, prompt, outputs, scores."""
        return list(self.store.samples(self.id, task))

    @property
    def answers(self) -> "list[TurnAnswers]":
        """Lengths and finish reasons of the generated texts, by task and turn."""
        from assaymark.results.evidence.generated_texts import answers_by_turn

        return answers_by_turn(self.store.generated(self.id))

    @property
    def nothing_answered(self) -> bool:
        """Whether requests were sent and all of them failed."""
        row = self.row
        return 0 < row.n_outputs == row.n_failed

    @property
    def unanswered_tasks(self) -> dict[str, str]:
        """Tasks of which no sample has a score because all their requests failed, each with the first reason."""
        main = [
            estimate
            for estimate in self.estimates
            if estimate.details.get("kind") == "task" and estimate.details.get("primary")
        ]
        return {
            estimate.task: str(estimate.details.get("first_error") or "")
            for estimate in main
            if estimate.n_failed and not estimate.n and not estimate.details.get("n_failed_in_scoring")
        }

    @property
    def unscored(self) -> dict[str, str]:
        """Scores of which no answer has one though there are answers, as `TASK METRIC`, each with the first reason."""
        return {
            f"{estimate.task} {estimate.metric}": str(estimate.details.get("first_error") or "it returned no score")
            for estimate in self.estimates
            if estimate.details.get("kind") == "task"
            and not estimate.n
            and (estimate.details.get("n_failed_in_scoring") or estimate.details.get("n_unscored"))
        }

    @property
    def stop_reason(self) -> str | None:
        """Why this attempt stopped before all requests were sent, and how to continue; None if it did not."""
        return None if self.result is None else self.result.stop_reason

    @property
    def cost(self) -> Mapping[str, JsonValue] | None:
        """The cost of the run, over all attempts, and its price; None if no price was known."""
        for attempt in reversed(self.store.attempts(self.id)):
            if isinstance(cost := attempt.summary.get("cost"), Mapping):
                return cost
        return None

    def verify(self) -> list[Problem]:
        """Compute every stored hash again and return the mismatches."""
        return self.store.verify(self.id)

    # ---------------------------------------------------------------------------------------- display

    def document(self, *, by_subject: bool = False, details: bool = False) -> "Document":
        """Return the run's values with their intervals, and what limits them.

        by_subject: all tasks, sorted by value. details: with calibration, baselines and minimum detectable effect.
        """
        from assaymark.results.evidence.from_store import run_view
        from assaymark.results.views.run_document import run_document
        from assaymark.results.views.subjects import subject_document

        view = run_view(self.store, self.id)
        return subject_document(view) if by_subject else run_document([view], details=details)

    def lm_eval_table(self) -> str:
        """Return the Markdown table that lm-eval prints, with its values and standard errors."""
        from assaymark.interop.lm_eval_files import results_table

        return results_table(self.store, self.id)

    def as_others_see_it(self) -> "Run":
        """Return the run without the texts of sealed tasks, as files and pages for others show it."""
        from assaymark.store.public_store import public_store

        return Run(public_store(self.store), self.id, self.result)

    def write_report(self, path: str | Path, *, with_sealed: bool = False) -> Path:
        """Write a report of this run, as .html, .md or .pdf (for several runs: `api.reporting`).

        Its examples have no rows of sealed tasks, unless `with_sealed`.

        Raises: UsageError for another suffix, or a PDF without a browser; StoreError if it cannot be written.
        """
        from assaymark.results.report.contents import report_contents
        from assaymark.results.report.document import write_document

        self.refuse_without_results()
        run = self if with_sealed else self.as_others_see_it()
        return write_document(path, report_contents(run.store, [run.id]))

    def refuse_without_results(self) -> None:
        """Raise UsageError for an unfinished run without estimates: its outputs are no random part of the samples."""
        row = self.row
        if row.status != "finished" and not self.estimates:
            raise UsageError(
                f"run {row.short_id} has no results yet (it is {row.status}, with {row.n_outputs:,} outputs); finish "
                "it by running it again"
            )

    def remarks(self, *, details: bool = False) -> list[str]:
        """Return lines to print below the table: failures, rescoring, generated texts, warnings, where it is stored.

        details: also the attention path if it is the usual one, and the counts of an imported log.
        """
        from assaymark.models.cost.bill import cost_line
        from assaymark.results.evidence.rescoring import rescored_lines
        from assaymark.results.evidence.task_facts import tasks_from

        row = self.row  # read once, since each read counts the outputs of an unfinished run
        unanswered = not row.n_outputs and row.status != "finished"
        lines = [self.why_nothing_is_shown()] if unanswered else rescored_lines(row.extra)
        marks = (*row.extra.get("beside_people", ()), *row.extra.get("contaminated", ()))
        lines += [str(mark["line"]) for mark in marks]
        if row.n_outputs and row.status != "finished" and not self.estimates:
            lines.append(
                f"{row.n_outputs:,} outputs are stored; the same command continues the run and shows the scores"
            )
        attempts = self.store.attempts(self.id)
        lines += self._lines_on_texts(row, attempts)
        if not row.has_answers:
            lines += self._lines_on_reports()
        if self.result is not None and self.result.n_failed:
            lines.append(
                f"{counted(self.result.n_failed, 'output')} failed: missing, not wrong; "
                f"see: assaymark show {row.short_id} --samples {self._task_with_failures()} --wrong"
            )
            has_reason = any("first_error" in estimate.details for estimate in self.estimates)
            if not has_reason and (why := self.store.first_error(self.id)):
                lines.append(f"first failure: {why}")
        if {metric.name for task in tasks_from(row.extra) for metric in task.metrics} == {"latency_s"}:
            lines.append("no scorer judged the answers; name one, as --scorers exact: no call is made again")
        lines += _how_run(attempts, details=details)
        for task, numbers in (self._statistics() if details else {}).items():
            shown = ", ".join(f"{name} {value:.6g}" for name, value in numbers.items())
            lines.append(f"{task}, as the log counts: {shown}")
        if (cost := self.cost) is not None:
            lines.append(cost_line(cost))
        if self.result is not None and self.result.was_stored:
            lines.append("the run was already in the store; no request was sent")
            if row.plan.model.kind == "application":
                lines[-1] += "; if it changed where its source does not show it: --target_version NAME"
        lines.append(f"run {row.short_id} in {location_of(self.store)}")
        return lines

    def lines_on_texts(self) -> list[str]:
        """Return lines on how generated texts ended, and on reasoning and ends of turns that are still part of them."""
        return self._lines_on_texts(self.row, self.store.attempts(self.id))

    def _lines_on_texts(self, row: RunRow, attempts: Sequence[AttemptRow]) -> list[str]:
        from assaymark.results.evidence.generated_texts import generated_lines

        scored = frozenset(estimate.task for estimate in self.estimates)
        lines = generated_lines(self.answers, scored, is_finished=row.status == "finished")
        is_application = row.plan.model.kind == "application"
        for kind, how in _UNREMOVED.items():
            unremoved: Counter[str] = Counter()
            for attempt in attempts:
                by_mark = attempt.summary.get(kind)
                if isinstance(by_mark, Mapping):
                    unremoved.update({mark: n for mark, n in by_mark.items() if isinstance(n, int)})
            said = f"{how.partition(';')[0]}; remove it in the target" if is_application else how
            lines += [f"{counted(n, 'answer')} with {mark}: {said.format(mark)}" for mark, n in unremoved.items()]
        return lines

    def _lines_on_reports(self) -> list[str]:
        """Return who reported the values of a run without answers, when and where, with their tasks."""
        from assaymark.results.estimate_texts import reported_words

        by_words: dict[str, list[str]] = {}
        for estimate in self.estimates:
            if words := reported_words(estimate):
                by_words.setdefault(words, []).append(estimate.task)
        return [f"{words}: {few(tasks, 4)}" for words, tasks in by_words.items()]

    def check_tasks(self, tasks: Sequence[str]) -> None:
        """Raise UnknownName, with the nearest, for a task that this run does not have."""
        from assaymark.errors import UnknownName
        from assaymark.registry import nearest

        names = self.row.tasks
        for task in tasks:
            if task not in names:
                raise UnknownName("task in this run", task, nearest(task, names), f"it has: {', '.join(names[:10])}")

    def _task_with_failures(self) -> str:
        return next(
            (estimate.task for estimate in self.estimates if estimate.n_failed and estimate.task in self.row.tasks),
            self.row.tasks[0],
        )

    def _statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Return an imported log's numbers that are no scores, by task."""
        imported = self.row.extra.get("imported")
        return {} if imported is None else imported.get("statistics", {})

    def why_nothing_is_shown(self) -> str:
        """Return why there is no sample to show: none matches, or the run has no output, with the last error."""
        row = self.row
        if row.n_outputs or row.status == "finished":
            return "no stored sample matches"
        error = self.store.attempts(self.id)[-1].summary.get("error")
        if row.status == "failed":
            return f"run {row.short_id} failed before its first response" + (f": {error}" if error else "")
        return f"run {row.short_id} has no response yet: it is {row.status}"

    def to_json(self) -> dict[str, JsonValue]:
        """Return estimates and plan with stable names."""
        from assaymark.results.estimate_texts import reported_count

        row = self.row
        return {
            "run_id": self.id,
            "run_key": row.plan.key,
            "status": row.status,
            "model": row.model,
            "plan": row.plan.content,
            "estimates": [{**asdict(estimate), "n": reported_count(estimate)} for estimate in self.estimates],
            "rescored": list(row.extra.get("rescored", ())),
            **({"perturbed": row.extra["perturbed"]} if "perturbed" in row.extra else {}),
            "beside_people": list(row.extra.get("beside_people", ())),
            "contaminated": list(row.extra.get("contaminated", ())),
            "answers": [json_fields(each, "mean_tokens") for each in self.answers],
            **({"statistics": self._statistics()} if self._statistics() else {}),
            **({} if self.cost is None else {"cost": dict(self.cost)}),
        }

    def plot(self) -> "LayerChart | VConcatChart":
        """Return a chart (`altair.Chart`) of the values with 95% intervals; a bar marks chance.

        Raises: UsageError where no value is a proportion with an interval; MissingExtra without the extra `charts`.
        """
        from assaymark.documents.notebook import notebook_chart

        return notebook_chart(self.document().blocks, "this run has no proportion with an interval")

    def __repr__(self) -> str:
        """Return id, model and tasks in one line."""
        return f"Run({self.id!r}, model={self.row.model!r}, tasks={list(self.row.tasks)!r})"

    # --------------------------------------------------------------------------------------- samples

    def sample_records(
        self,
        task: str,
        *,
        only_wrong: bool = False,
        only_broken: bool = False,
        limit: int | None = None,
        search: str | None = None,
    ) -> list[SampleRecord]:
        """Return a task's samples; a sample has a record for each turn.

        Args:
            task: of the run; the end of its name, as tables show it (`anatomy`), where only one ends so.
            only_wrong: only those answered wrongly or not at all.
            only_broken: only perturbed copies whose score is lower than that of the sample as it is.
            limit: how many samples at most.
            search: only those in which all these words and "quoted phrases" occur (`Store.sample_list`).

        Raises: UnknownName for a task this run does not have; UsageError for `only_broken` where it has no copies.
        """
        from assaymark.registry import meant
        from assaymark.results.evidence.from_store import is_wrong, wrong_samples
        from assaymark.results.views.samples import broken_samples

        if (name := meant(task, self.row.tasks)) not in self.row.tasks:
            self.check_tasks([task])
        task = name
        if only_broken:
            broken = broken_samples(self.store, self.row, task)
            return list(islice((record for record in broken if not only_wrong or is_wrong(record)), limit))
        matching: list[SampleRecord] = []
        indices: set[int] = set()
        records = wrong_samples(self.store, self.id, task) if only_wrong else self.store.samples(self.id, task)
        if search is not None:
            records = (record for record in self._matching_samples(task, search) if not only_wrong or is_wrong(record))
        for record in records:
            if limit is not None and len(indices | {record.request.sample_index}) > limit:
                break
            matching.append(record)
            indices.add(record.request.sample_index)
        return matching

    def _matching_samples(self, task: str, search: str) -> Iterator[SampleRecord]:
        """Yield the samples that a search finds."""
        at_once, offset = 500, 0
        while (page := self.store.sample_list(self.id, task, query=search, offset=offset, limit=at_once)).samples:
            places = {(sample.sample_index, sample.turn) for sample in page.samples}
            for record in self.store.samples(self.id, task, indices=[index for index, _ in places]):
                if (record.request.sample_index, record.request.turn) in places:
                    yield record
            offset += at_once

    def index_samples(self) -> int:
        """Make the run's full-text index, so that a search looks through whole texts. Returns how many requests it has.

        Raises: RunBusy while the run is being written; StoreError.
        """
        return self.store.index_samples(self.id)

    def samples_document(self, records: Sequence[SampleRecord]) -> "Document":
        """Return each sample: end of the prompt, choices with log-likelihoods, gold; or the dialogue."""
        from assaymark.documents.document import document
        from assaymark.results.views.samples import conversations, original_of, sample_example

        plan = self.row.plan
        return document(
            sample_example(turns, original_of(self.store, self.id, plan, turns[0])) for turns in conversations(records)
        )

    def samples_to_json(self, records: Sequence[SampleRecord]) -> list[Mapping[str, JsonValue]]:
        """Return samples with stable names."""
        from assaymark.results.views.samples import original_of, sample_to_json

        plan = self.row.plan
        return [sample_to_json(record, original_of(self.store, self.id, plan, record)) for record in records]

    # ----------------------------------------------------------------------------------------- files

    def write_lm_eval_files(
        self, folder: str | Path, *, log_samples: bool = False, with_sealed: bool = False, with_scores: bool = True
    ) -> list[Path]:
        """Write lm-eval's results JSON, and with `log_samples` its samples JSONL, under the names that lm-eval uses.

        Sealed tasks have results and no samples, unless `with_sealed`. Without `with_scores` there are outputs alone.
        """
        from assaymark.interop.lm_eval_files import write_lm_eval_files

        run = self if with_sealed else self.as_others_see_it()
        return write_lm_eval_files(run.store, run.id, Path(folder), log_samples=log_samples, with_scores=with_scores)


def _is_unusual(attention: str, why: str) -> bool:
    """Return whether the attention path is not the usual one: the plain path, or one that the user selected."""
    return attention == "plain" or (attention == "trie" and not why.startswith("self-check"))


def location_of(store: Store) -> str:
    """Return the path of a store's file, or the URL of its database."""
    return store.url.removeprefix("sqlite:///")


def _how_run(attempts: Sequence[AttemptRow], *, details: bool) -> Iterator[str]:
    """Yield the warning of the engine or server, and the attention path with the reason if it is not the usual one."""
    for attempt in reversed(attempts):
        facts = attempt.summary.get("model")
        if isinstance(facts, Mapping) and ((facts.get("attention") and facts.get("why")) or facts.get("note")):
            if facts.get("attention") and (details or _is_unusual(facts["attention"], facts["why"])):
                yield f"attention: {facts['attention']} path ({facts['why']})"
            if facts.get("note"):
                yield f"warning: {facts['note']}"
            return
