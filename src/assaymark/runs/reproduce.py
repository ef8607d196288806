"""Reproduction of a stored run: its plan is run again and the results are compared.

The new run has a store of its own, so that no stored response is used. Differences are listed in causal order: plan,
environment, prompts, tokens, outputs, scores. Outputs that differ by no more than the noise of the arithmetic
(|Δ| <= 1e-4 + eps |log-likelihood| nats, eps by dtype) count as equal.
"""

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Unpack, cast

from assaymark.drafts import draft_folder
from assaymark.errors import UsageError
from assaymark.options.shared import options_of
from assaymark.records import JsonValue, Output, RunPlan
from assaymark.runs.evaluate import evaluate
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.prepare import choose_tasks, prepare_run
from assaymark.runs.run import Run
from assaymark.runs.targets import refuse_target
from assaymark.store import SampleRecord
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.eval_yaml import PREFIX
from assaymark.tasks.own_rows import dataset_name
from assaymark.tasks.task import Selection

NOISE_NATS = 1e-4
SENSITIVITY = 4.0  # largest change of a score per nat: a Brier score's slope is below 2 for each of two choices
RELATIVE_NOISE = {"float32": 1e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The comparison of a run with its repetition."""

    run_id: str
    plan: tuple[str, ...]  # one line per difference
    environment: tuple[str, ...]
    n_samples: int  # in both
    n_missing: int  # in one only
    n_prompts: int  # that differ
    n_tokens: int  # outputs whose token counts differ
    n_answers: int  # outputs that differ by more than noise
    n_within_noise: int  # outputs that differ, by no more than noise
    largest_nats: float  # largest |difference| of a log-likelihood
    n_scores: int  # that differ
    n_failed: int = 0  # samples that were answered neither before nor now

    @property
    def is_reproduced(self) -> bool:
        """Whether all samples, outputs and scores are equal within noise, and there are any."""
        differ = self.n_missing or self.n_prompts or self.n_tokens or self.n_answers or self.n_scores
        return not differ and self.n_failed < self.n_samples

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        failed = f"; {self.n_failed:,} were not answered, before or now" if self.n_failed else ""
        n_answered = self.n_samples - self.n_failed
        if self.is_reproduced and not self.n_within_noise:
            return f"reproduced: all {n_answered:,} samples are identical{failed}"
        if self.is_reproduced:
            return (
                f"reproduced within numerical noise: {self.n_within_noise:,} output(s) differ by at most "
                f"{self.largest_nats:.2g} nats, no score changed over {n_answered:,} samples{failed}"
            )
        if not n_answered:
            return f"not reproduced: no sample was answered before and now ({self.n_samples:,} failed)"
        return f"not reproduced: {self.n_scores:,} score(s) differ over {self.n_samples:,} samples"


def reproduce(run: Run, tasks: Sequence[str] = (), **options: Unpack[EvaluateOptions]) -> Reproduction:
    """Run a stored plan again and compare the results.

    Args:
        run: the stored run.
        tasks: the files of the run's tasks, if they have moved.
        options: those that are no part of a plan: data_dir, include_path, workers, cluster, observe.

    Raises: UsageError for an imported run, which has no model here, or one without results; as `evaluate`.
    """
    model, names, rerun_options = stored_call(run, tasks, options, "reproduced from its stored plan")
    with draft_folder() as folder:
        rerun_options["store"] = f"{folder}/run.sqlite"
        again = evaluate(model, names, **rerun_options)
        try:
            return compare_with_copy(run, again)
        finally:
            again.store.close()


def stored_call(
    run: Run, tasks: Sequence[str], options: EvaluateOptions, what: str, model: object = None
) -> tuple[object, list[str], EvaluateOptions]:
    """Return the model, tasks and options of `evaluate` that gave a stored run.

    Args:
        tasks: the files of the run's tasks, if they have moved.
        options: those that are no part of a plan.
        what: what cannot be done with a run whose model is not known, for messages.
        model: the run's model, loaded; None: its kind, to be loaded with the stored arguments.

    Raises: UsageError for an imported run, one of an application, or one without results.
    """
    refuse_target(run.row, what)
    plan = run.row.plan
    if plan.model.kind == "imported":
        raise UsageError(
            f"run {run.short_id} was imported, so its model is not known here; evaluate the tasks yourself"
            + ("" if run.row.has_answers else f", or: assaymark reproduce {run.short_id}")
        )
    run.refuse_without_results()
    names = list(tasks) or _names(run, options.get("include_path") or ())
    named = {name: value for name, value in options.items() if value is not None}
    rerun_options = cast("EvaluateOptions", {**options_of(plan), **_typed_data_dir(run.row.command), **named})
    if model is not None:
        rerun_options.pop("model_args", None)
    answering = plan.model.kind if model is None else model
    rerun_options["num_fewshot"] = _shots(answering, plan, names, rerun_options)
    return answering, names, rerun_options


def stored_tasks(run: Run, tasks: Sequence[str], options: EvaluateOptions) -> tuple[Selection, EvaluateOptions]:
    """Return the tasks of a stored run as they are in their files now, and the options that they are read with.

    Args:
        run: the stored run; its model is not loaded.
        tasks: the files of the run's tasks, if they have moved.
        options: those that are no part of a plan: data_dir, include_path.

    Raises: UsageError for a task whose file is missing; as `choose_tasks`.
    """
    names = list(tasks) or _names(run, options.get("include_path") or ())
    named = {name: value for name, value in options.items() if value is not None}
    stored = {**options_of(run.row.plan), **_typed_data_dir(run.row.command), **named}
    selection, settled = choose_tasks(names, cast("EvaluateOptions", stored))
    return replace(selection, tasks=tuple(task for task in selection.tasks if task.name in run.row.tasks)), settled


def _typed_data_dir(command: str | None) -> dict[str, str]:
    """Return the folder of local data that a run's command named, if it is still there: it is not part of a plan."""
    try:
        words = shlex.split(command or "")
    except ValueError:  # typed with a quotation mark that nothing closes
        return {}
    folder = next((word for option, word in pairwise(words) if option.replace("-", "_") == "__data_dir"), None)
    return {"data_dir": folder} if folder is not None and Path(folder).expanduser().is_dir() else {}


def _names(run: Run, include_path: Sequence[str | Path]) -> list[str]:
    """Return names or files that select the run's tasks: the file of a task that was read from one, else its name.

    Raises: UsageError for a task whose file is missing and whose name is unknown.
    """
    files = _task_files(run)
    catalog = Catalog.open([Path(folder).expanduser() for folder in include_path])
    origins = {entry.name: entry.origin for entry in catalog.entries()}
    selectors = []
    for name in (task.name for task in run.row.plan.tasks if task.perturbed is None):
        file = files.get(name)
        if origins.get(name) == "user" or (file is None and name in origins):
            selectors.append(name)
        elif file is not None and (file.startswith(PREFIX) or Path(file).is_file() or dataset_name(file) is not None):
            selectors.append(file)
        else:
            where = f" {file}, which does not exist" if file else " whose location was not stored"
            raise UsageError(
                f"task '{name}' was read from a file{where}; give it with --tasks FILE or --include_path FOLDER"
            )
    return list(dict.fromkeys(selectors))


def _task_files(run: Run) -> Mapping[str, str]:
    """Return the files of the user's own tasks at the time of the run, by task."""
    files: dict[str, str] = {}
    for attempt in run.store.attempts(run.id):
        for facts in (attempt.facts, *_copied(attempt.facts)):
            own = facts.get("task_files")
            files |= own if isinstance(own, Mapping) else {}
    return files


def _copied(facts: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    """Return the facts of the attempts in the store from which the run was copied."""
    copied = facts.get("copied")
    return [attempt["facts"] for attempt in copied] if isinstance(copied, list) else []


def _shots(model: object, plan: RunPlan, names: list[str], options: EvaluateOptions) -> int | None:
    """Return the num_fewshot that gives each task the shots it had; tasks that fix 0 shots keep 0.

    Raises: UsageError if there is none: the tasks were evaluated at different shots, as those of a suite are.
    """
    wanted = [task.num_fewshot for task in plan.tasks]
    for count in (None, *sorted(set(wanted))):
        _, prepared = prepare_run(model, names, {**options, "num_fewshot": count})
        if [task.num_fewshot for task in prepared.plan.tasks] == wanted:
            return count
    shots = ", ".join(f"{task.name} {task.num_fewshot}" for task in plan.tasks[:5])
    raise UsageError(f"the tasks of this run have different numbers of shots ({shots}); run the suite again instead")


def compare_with_copy(run: Run, again: Run) -> Reproduction:
    """Compare a run with its repetition, sample by sample."""
    noise = RELATIVE_NOISE.get(run.row.plan.model.dtype, RELATIVE_NOISE["float32"])
    first, second = dict(_records(run)), dict(_records(again))
    tally = _DifferenceTally(noise)
    for request_id in first.keys() & second.keys():
        tally.add(first[request_id], second[request_id])
    return Reproduction(
        run_id=run.id,
        plan=tuple(_differences("", run.row.plan.content, again.row.plan.content)),
        environment=tuple(_differences("", _facts(run), _facts(again))),
        n_samples=len(first.keys() & second.keys()),
        n_missing=len(first.keys() ^ second.keys()),
        n_prompts=tally.n_prompts,
        n_tokens=tally.n_tokens,
        n_answers=tally.n_answers,
        n_within_noise=tally.n_within_noise,
        largest_nats=tally.largest_nats,
        n_scores=tally.n_scores,
        n_failed=tally.n_failed,
    )


class _DifferenceTally:
    """Counts the differences between pairs of samples."""

    def __init__(self, relative_noise: float) -> None:
        self.relative_noise = relative_noise
        self.n_prompts = self.n_tokens = self.n_answers = self.n_within_noise = self.n_scores = 0
        self.n_failed = 0
        self.largest_nats = 0.0

    def add(self, first: SampleRecord, second: SampleRecord) -> None:
        """Count one pair's differences."""
        self.n_prompts += first.request != second.request
        self.n_failed += all(any(each.error is not None for each in record.outputs) for record in (first, second))
        outputs = {(output.ask_index, output.repeat): output for output in second.outputs}
        noise = 0.0
        for output in first.outputs:
            noise = max(noise, self._output(output, outputs.pop((output.ask_index, output.repeat), None)))
        self.n_answers += len(outputs)
        scores = {(second_score.metric, second_score.filter): second_score for second_score in second.scores}
        for score in first.scores:
            other = scores.get((score.metric, score.filter))
            if other is None or (score.status, score.value is None) != (other.status, other.value is None):
                self.n_scores += 1
            elif score.value is not None and other.value is not None:
                # A probability or its square changes by no more than the log-likelihoods do, a perplexity in
                # proportion to them.
                relative, absolute = self.relative_noise + SENSITIVITY * noise, 1e-9 + SENSITIVITY * noise
                self.n_scores += not math.isclose(score.value, other.value, rel_tol=relative, abs_tol=absolute)

    def _output(self, first: Output, second: Output | None) -> float:
        """Count one pair of outputs; return their difference in nats if it is within noise, else 0."""
        if second is None:
            self.n_answers += 1
            return 0.0
        counts = [(output.n_context_tokens, output.n_tokens, output.n_cut_tokens) for output in (first, second)]
        self.n_tokens += counts[0] != counts[1]
        if first.total_nats is None or second.total_nats is None:
            self.n_answers += (first.total_nats, first.text) != (second.total_nats, second.text)
            return 0.0
        difference = abs(first.total_nats - second.total_nats)
        self.largest_nats = max(self.largest_nats, difference)
        if difference > NOISE_NATS + self.relative_noise * abs(first.total_nats):
            self.n_answers += 1
            return 0.0
        self.n_within_noise += difference > 0
        return difference


def _records(run: Run) -> Iterator[tuple[str, SampleRecord]]:
    for task in run.row.tasks:
        for record in run.samples(task):
            yield record.request.id, record


def _facts(run: Run) -> Mapping[str, JsonValue]:
    """Return the facts on machine and versions of the first attempt that sent requests."""
    attempts = run.store.attempts(run.id)
    facts = attempts[0].facts if attempts else {}
    first, *_ = (*_copied(facts), facts)
    return {name: fact for name, fact in first.items() if name != "task_files"}  # contents are in the plan


def _differences(path: str, first: object, second: object) -> Iterator[str]:
    """Yield one line for each leaf that differs between two JSON values."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in dict.fromkeys([*first, *second]):
            yield from _differences(f"{path}.{name}" if path else str(name), first.get(name), second.get(name))
    elif isinstance(first, tuple | list) and isinstance(second, tuple | list) and len(first) == len(second):
        for index, (element, other) in enumerate(zip(first, second, strict=True)):
            name = element.get("name", index) if isinstance(element, Mapping) else index
            yield from _differences(f"{path}[{name}]", element, other)
    elif first != second:
        yield f"{path}: {first} before, {second} now"


def lines_of(reproduction: Reproduction) -> list[str]:
    """Return the differences in causal order, and the verdict."""
    lines = [f"plan: {line}" for line in reproduction.plan] + [
        f"environment: {line}" for line in reproduction.environment
    ]
    for count, text in (
        (reproduction.n_missing, "sample(s) are in one run only"),
        (reproduction.n_prompts, "prompt(s) differ"),
        (reproduction.n_tokens, "output(s) have different numbers of tokens"),
        (
            reproduction.n_answers,
            f"output(s) differ by more than numerical noise, at most {reproduction.largest_nats:.3g} nats",
        ),
        (reproduction.n_scores, "score(s) differ"),
    ):
        if count:
            lines.append(f"{count:,} {text}")
    return [*lines, reproduction.verdict]
