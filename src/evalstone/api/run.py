"""A stored run: its estimates, tables, samples and files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalstone.errors import UsageError
from evalstone.records import Estimate, JsonValue
from evalstone.runner.execute import RunResult
from evalstone.runner.plan import PreparedRun
from evalstone.store import Problem, RunRow, SampleRecord, Store

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evalstone.report.evidence.generated_texts import TurnAnswers


class Run:
    """One run in a store. Printing it prints its table."""

    def __init__(self, store: Store, run_id: str, result: RunResult | None = None, notes: tuple[str, ...] = ()) -> None:
        self.store = store
        self.id = run_id
        self.result = result
        self.notes = notes  # what was guessed or replaced in what was asked for

    # ------------------------------------------------------------------------------------- what it is

    @property
    def row(self) -> RunRow:
        """The run as the store knows it now."""
        return self.store.run(self.id)

    @property
    def short_id(self) -> str:
        """The shortest beginning of the id that no other run shares."""
        return self.row.short_id

    def configuration(self) -> dict[str, JsonValue]:
        """Return the plan: everything that decides this run's answers."""
        return self.row.plan.content

    def log_to_wandb(
        self, init_args: Mapping[str, Any] | None = None, config_args: Mapping[str, Any] | None = None
    ) -> str | None:
        """Log the estimates and the configuration to Weights & Biases; return the address that it gives them.

        Raises: UsageError where wandb is not installed, or W&B does not take them.
        """
        from evalstone.interop.wandb_log import log_to_wandb

        return log_to_wandb(self.estimates, self.configuration(), init_args or {}, config_args or {})

    def attempts(self) -> list[dict[str, JsonValue]]:
        """Return each time it was worked on: when, where, with which versions, and how it ended."""
        return [asdict(attempt) for attempt in self.store.attempts(self.id)]

    # ---------------------------------------------------------------------------------- what came out

    def summarise(self, prepared: PreparedRun) -> None:
        """Compute the estimates from the stored scores and keep them, unless the run was finished before.

        A run that was stored without a suite that is asked for now is summarised again: its answers are the same.
        """
        from evalstone.report.evidence.composites import holds_suites
        from evalstone.report.evidence.from_store import SUMMARY_DUE, save_summary

        is_due = self.row.extra.get(SUMMARY_DUE)
        known = self.result is not None and self.result.was_stored and self.estimates and not is_due
        if not known or not holds_suites(self.row.extra, prepared.selection):
            save_summary(self.store, self.id, prepared.selection, prepared.bound)

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        """One estimate per task or group, metric and filter."""
        return tuple(self.store.estimates(self.id))

    def estimate(self, task: str, metric: str | None = None) -> Estimate:
        """Return one estimate; without a metric, the one that stands for the task.

        Raises: UnknownName for a task or metric this run does not have.
        """
        from evalstone.report.evidence.from_store import find_estimate

        return find_estimate(self.estimates, task, metric)

    def samples(self, task: str) -> list[SampleRecord]:
        """Return everything stored about a task's samples: row, prompt, outputs, scores."""
        return list(self.store.samples(self.id, task))

    @property
    def answers(self) -> "list[TurnAnswers]":
        """How the written answers of each task and turn ended, and how long they are."""
        from evalstone.report.evidence.generated_texts import answers_by_turn

        return answers_by_turn(self.store.written(self.id))

    @property
    def nothing_answered(self) -> bool:
        """Whether requests were put and every one of them failed, in this attempt or an earlier one."""
        row = self.row
        return 0 < row.n_outputs == row.n_failed

    @property
    def stop_reason(self) -> str | None:
        """Why this attempt stopped before every request was sent, and how to go on; None where it did not."""
        return None if self.result is None else self.result.stop_reason

    def verify(self) -> list[Problem]:
        """Derive every stored hash again and return what does not fit."""
        return self.store.verify(self.id)

    # --------------------------------------------------------------------------------------- to read

    def table(self, *, by_subject: bool = False, details: bool = False) -> "RenderableType":
        """Return the run's table for a terminal (a rich renderable).

        by_subject: every task sorted by its value. details: calibration, baselines and detectable difference as well.
        """
        from evalstone.report.evidence.from_store import run_view
        from evalstone.report.views.subjects import subject_table
        from evalstone.report.views.tables import run_table

        view = run_view(self.store, self.id)
        return subject_table(view) if by_subject else run_table([view], details=details)

    def lm_eval_table(self) -> str:
        """Return the Markdown table that lm-eval prints, with its values and standard errors."""
        from evalstone.interop.lm_eval_files import results_table

        return results_table(self.store, self.id)

    def write_report(self, path: str | Path) -> Path:
        """Write a report of this run, .html, .md or .pdf as the name ends (several runs: `api.reporting`).

        Raises: UsageError for another ending, or a PDF without a browser; StoreError if it cannot be written.
        """
        from evalstone.report.documents.contents import report_contents
        from evalstone.report.documents.document import write_document

        self.refuse_without_results()
        return write_document(path, report_contents(self.store, [self.id]))

    def refuse_without_results(self) -> None:
        """Raise UsageError for a run that was not finished: answers come sorted, so some of them stand for none."""
        row = self.row
        if row.status != "finished" and not self.estimates:
            raise UsageError(
                f"run {row.short_id} has no results yet (it is {row.status}, with {row.n_outputs:,} answers); finish "
                "it by running it again"
            )

    def remarks(self, *, details: bool = False) -> list[str]:
        """Return what the table does not say: failures, what was scored again, where it is, and what to type next.

        details: how the model was run as well, where that is as usual.
        """
        from evalstone.report.evidence.generated_texts import generated_lines
        from evalstone.report.evidence.rescoring import rescored_lines

        row = self.row  # read once: of a run that is not finished its rows are counted each time
        unanswered = not row.n_outputs and row.status != "finished"
        lines = [self.why_nothing_is_shown()] if unanswered else rescored_lines(row.extra)
        if row.n_outputs and row.status != "finished" and not self.estimates:
            lines.append(
                f"{row.n_outputs:,} answers are stored; the same command again goes on, and shows their scores"
            )
        lines += generated_lines(self.answers, frozenset(estimate.task for estimate in self.estimates))
        if self.result is not None and self.result.n_failed:
            lines.append(
                f"{self.result.n_failed} answer(s) failed and count as missing, not as wrong; "
                f"see: evalstone show {row.short_id} --samples TASK --wrong"
            )
            shown = any("first_error" in estimate.details for estimate in self.estimates)
            if not shown and (why := self.store.first_error(self.id)):
                lines.append(f"the first that failed: {why}")
        lines += self._how_run(details=details)
        if self.result is not None and self.result.was_stored:
            lines.append("everything was in the store already; nothing was asked")
        lines.append(f"run {row.short_id} in {place_of(self.store)}")
        return lines

    def _how_run(self, *, details: bool) -> Iterator[str]:
        """Yield the engine's warning, and its attention path with the reason where it is not the usual one."""
        for attempt in reversed(self.store.attempts(self.id)):
            facts = attempt.summary.get("model")
            if isinstance(facts, Mapping) and facts.get("attention") and facts.get("why"):
                if details or _is_unusual(facts["attention"], facts["why"]):
                    yield f"attention: {facts['attention']} path ({facts['why']})"
                if facts.get("note"):
                    yield f"warning: {facts['note']}"
                return

    def why_nothing_is_shown(self) -> str:
        """Return why there is no sample to show: none fits, or no answer came and what ended the last attempt."""
        row = self.row
        if row.n_outputs or row.status == "finished":
            return "no stored sample is of this kind"
        error = self.store.attempts(self.id)[-1].summary.get("error")
        if row.status == "failed":
            return f"run {row.short_id} failed before any answer" + (f": {error}" if error else "")
        return f"run {row.short_id} has no answer yet: it is {row.status}"

    def to_json(self) -> dict[str, JsonValue]:
        """Return estimates and plan with stable names."""
        from evalstone.report.evidence.generated_texts import answers_to_json
        from evalstone.report.numbers import reported_count

        row = self.row
        return {
            "run_id": self.id,
            "run_key": row.plan.key,
            "status": row.status,
            "model": row.model,
            "plan": row.plan.content,
            "estimates": [{**asdict(estimate), "n": reported_count(estimate)} for estimate in self.estimates],
            "rescored": list(row.extra.get("rescored", ())),
            "answers": answers_to_json(self.answers),
        }

    def __str__(self) -> str:
        """Return the table as text."""
        from evalstone.report.console import as_text

        return as_text(self.table())

    def __repr__(self) -> str:
        """Return what and where, in one line."""
        return f"Run({self.id!r}, model={self.row.model!r}, tasks={list(self.row.tasks)!r})"

    # --------------------------------------------------------------------------------------- samples

    def sample_records(
        self, task: str, *, only_wrong: bool = False, limit: int | None = None, search: str | None = None
    ) -> list[SampleRecord]:
        """Return a task's samples; a sample has a record for each turn.

        Args:
            task: of the run.
            only_wrong: only those answered wrongly or not at all.
            limit: how many samples at most.
            search: only those in which all these words and "quoted phrases" occur (`Store.search_samples`).

        Raises: UnknownName for a task this run does not have.
        """
        from evalstone.report.evidence.stored_samples import is_wrong, wrong_samples

        self._check_task(task)
        found: list[SampleRecord] = []
        indices: set[int] = set()
        records = wrong_samples(self.store, self.id, task) if only_wrong else self.store.samples(self.id, task)
        if search is not None:
            records = (record for record in self._found(task, search) if not only_wrong or is_wrong(record))
        for record in records:
            if limit is not None and len(indices | {record.request.sample_index}) > limit:
                break
            found.append(record)
            indices.add(record.request.sample_index)
        return found

    def _found(self, task: str, search: str) -> Iterator[SampleRecord]:
        """Yield the samples that a search finds."""
        at_once, offset = 500, 0
        while (page := self.store.search_samples(self.id, search, task=task, offset=offset, limit=at_once)).samples:
            places = {(one.sample_index, one.turn) for one in page.samples}
            for record in self.store.samples(self.id, task, indices=[index for index, _ in places]):
                if (record.request.sample_index, record.request.turn) in places:
                    yield record
            offset += at_once

    def index_samples(self) -> int:
        """Make the run's full-text index, so that a search looks through whole texts. Returns how many requests it has.

        Raises: RunBusy while the run is being written; StoreError.
        """
        return self.store.index_samples(self.id)

    def sample_views(self, records: Sequence[SampleRecord]) -> "list[RenderableType]":
        """Return one panel per sample: its prompt's end, choices with log-likelihoods, picked, gold; or a dialogue."""
        from evalstone.report.views.dialogue import conversations, dialogue_view

        return [dialogue_view(turns) for turns in conversations(records)]

    def samples_to_json(self, records: Sequence[SampleRecord]) -> list[Mapping[str, JsonValue]]:
        """Return samples with stable names."""
        from evalstone.report.views.samples import sample_to_json

        return [sample_to_json(record) for record in records]

    def _check_task(self, task: str) -> None:
        from evalstone.errors import UnknownName
        from evalstone.registry import nearest

        names = self.row.tasks
        if task not in names:
            raise UnknownName("task in this run", task, nearest(task, names), f"it has: {', '.join(names[:10])}")

    # ----------------------------------------------------------------------------------------- files

    def write_lm_eval_files(self, folder: str | Path, *, log_samples: bool = False) -> list[Path]:
        """Write lm-eval's results JSON, and its samples JSONL too, as that tool names and fills them."""
        from evalstone.interop.lm_eval_files import write_lm_eval_files

        return write_lm_eval_files(self.store, self.id, Path(folder), log_samples=log_samples)


def _is_unusual(attention: str, why: str) -> bool:
    """Return whether a model ran otherwise than most do: by the plain path, or by one that the user insisted on."""
    return attention == "plain" or (attention == "trie" and not why.startswith("self-check"))


def place_of(store: Store) -> str:
    """Return where a store lies: the file's path, or the database's URL."""
    return store.url.removeprefix("sqlite:///")
