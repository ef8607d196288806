"""The stored plan carried out again, from nothing, and what came out otherwise.

The copy gets a store of its own, so no earlier answer is taken for a new one. What differs is listed in the order in
which one thing causes the next: plan, environment, prompts, tokens, answers, scores. Answers within the noise of the
arithmetic (|Δ| <= 1e-4 + eps |log-likelihood| nats, eps by dtype) are the same answers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack, cast

from evalstone.api.evaluate import evaluate
from evalstone.api.run import Run
from evalstone.drafts import draft_folder
from evalstone.errors import UsageError
from evalstone.options.plans import options_of
from evalstone.records import JsonValue, Output, RunPlan
from evalstone.runner.evaluate_options import EvaluateOptions
from evalstone.runner.prepare import prepare_run
from evalstone.store import SampleRecord
from evalstone.tasks.catalog import Catalog

NOISE_NATS = 1e-4
SENSITIVITY = 4.0  # how far a score may move per nat: a Brier score's slope is below 2 for each of two choices
RELATIVE_NOISE = {"float32": 1e-6, "float16": 2.0**-11, "bfloat16": 2.0**-8}


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A run beside its repetition."""

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

    @property
    def is_reproduced(self) -> bool:
        """Whether everything that was answered came out the same, within noise."""
        return not (self.n_missing or self.n_prompts or self.n_tokens or self.n_answers or self.n_scores)

    @property
    def verdict(self) -> str:
        """What came of it, in one sentence."""
        if self.is_reproduced and not self.n_within_noise:
            return f"reproduced: all {self.n_samples:,} samples are identical"
        if self.is_reproduced:
            return (
                f"reproduced within numerical noise: {self.n_within_noise:,} answer(s) differ by at most "
                f"{self.largest_nats:.2g} nats, no score changed over {self.n_samples:,} samples"
            )
        return f"not reproduced: {self.n_scores:,} score(s) differ over {self.n_samples:,} samples"


def reproduce(run: Run, tasks: Sequence[str] = (), **options: Unpack[EvaluateOptions]) -> Reproduction:
    """Carry out a stored run's plan again and compare.

    Args:
        run: the stored run.
        tasks: the run's tasks, where their names do not lead to them: files that have moved since.
        options: what is this machine's business and no part of a plan: data_dir, include_path, workers, cluster,
            observe.

    Raises: UsageError for an imported run, which has no model here, or one without results; whatever `evaluate` raises.
    """
    plan = run.row.plan
    if plan.model.kind == "imported":
        raise UsageError(f"run {run.short_id} was imported: its model is not known here; run the tasks yourself")
    run.refuse_without_results()
    names = list(tasks) or _names(run, options.get("include_path") or ())
    given = cast("EvaluateOptions", {**options_of(plan), **options})
    given["num_fewshot"] = _shots(plan, names, given)
    with draft_folder() as folder:
        given["store"] = f"{folder}/run.sqlite"
        again = evaluate(plan.model.kind, names, **given)
        try:
            return compare_with_copy(run, again)
        finally:
            again.store.close()


def _names(run: Run, include_path: Sequence[str | Path]) -> list[str]:
    """Return what leads to the run's tasks: the file of a task that came from one, else its name.

    Raises: UsageError for a task whose file is not there and whose name nothing has.
    """
    files = _task_files(run)
    catalog = Catalog.open([Path(folder).expanduser() for folder in include_path])
    origins = {entry.name: entry.origin for entry in catalog.entries()}
    found = []
    for name in run.row.tasks:
        file = files.get(name)
        if origins.get(name) == "user" or (file is None and name in origins):
            found.append(name)
        elif file is not None and Path(file).is_file():
            found.append(file)
        else:
            where = f" {file}, which is not there" if file else ", and where that lies was not stored"
            raise UsageError(
                f"task '{name}' came from a file{where}; pass it with --tasks FILE or --include_path FOLDER"
            )
    return list(dict.fromkeys(found))


def _task_files(run: Run) -> Mapping[str, str]:
    """Return where the user's own tasks lay when the run was made."""
    found: dict[str, str] = {}
    for attempt in run.attempts():
        facts: Any = attempt["facts"]
        for one in (facts, *(copied["facts"] for copied in facts.get("copied") or ())):
            found |= one.get("task_files") or {}
    return found


def _shots(plan: RunPlan, names: list[str], options: EvaluateOptions) -> int | None:
    """Return which --num_fewshot gives each task the shots it had; tasks that say 0 themselves keep 0.

    Raises: UsageError where none does: the tasks were asked at shots of their own, as a suite's are.
    """
    wanted = [task.num_fewshot for task in plan.tasks]
    for count in (None, *sorted(set(wanted))):
        _, prepared = prepare_run(plan.model.kind, names, {**options, "num_fewshot": count})
        if [task.num_fewshot for task in prepared.plan.tasks] == wanted:
            return count
    shown = ", ".join(f"{task.name} {task.num_fewshot}" for task in plan.tasks[:5])
    raise UsageError(f"the tasks of this run were asked at different shots ({shown}); run the suite again instead")


def compare_with_copy(run: Run, again: Run) -> Reproduction:
    """Compare a run with its repetition, sample by sample."""
    noise = RELATIVE_NOISE.get(run.row.plan.model.dtype, RELATIVE_NOISE["float32"])
    first, second = dict(_records(run)), dict(_records(again))
    tally = _Tally(noise)
    for place in first.keys() & second.keys():
        tally.add(first[place], second[place])
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
    )


class _Tally:
    """Counts what differs between pairs of samples."""

    def __init__(self, relative_noise: float) -> None:
        self.relative_noise = relative_noise
        self.n_prompts = self.n_tokens = self.n_answers = self.n_within_noise = self.n_scores = 0
        self.largest_nats = 0.0

    def add(self, first: SampleRecord, second: SampleRecord) -> None:
        """Count one pair's differences."""
        self.n_prompts += first.request != second.request
        answers = {(one.ask_index, one.repeat): one for one in second.outputs}
        apart = 0.0
        for one in first.outputs:
            apart = max(apart, self._answer(one, answers.pop((one.ask_index, one.repeat), None)))
        self.n_answers += len(answers)
        scores = {(one.metric, one.filter): one for one in second.scores}
        for score in first.scores:
            other = scores.get((score.metric, score.filter))
            if other is None or (score.status, score.value is None) != (other.status, other.value is None):
                self.n_scores += 1
            elif score.value is not None and other.value is not None:
                # A probability or its square moves by no more than the log-likelihoods do, a perplexity in proportion.
                relative, absolute = self.relative_noise + SENSITIVITY * apart, 1e-9 + SENSITIVITY * apart
                self.n_scores += not math.isclose(score.value, other.value, rel_tol=relative, abs_tol=absolute)

    def _answer(self, first: Output, second: Output | None) -> float:
        """Count one pair of answers; return how far apart they are as far as that is noise, in nats."""
        if second is None:
            self.n_answers += 1
            return 0.0
        counts = [(one.n_context_tokens, one.n_tokens, one.n_cut_tokens) for one in (first, second)]
        self.n_tokens += counts[0] != counts[1]
        if first.total_nats is None or second.total_nats is None:
            self.n_answers += (first.total_nats, first.text) != (second.total_nats, second.text)
            return 0.0
        apart = abs(first.total_nats - second.total_nats)
        self.largest_nats = max(self.largest_nats, apart)
        if apart > NOISE_NATS + self.relative_noise * abs(first.total_nats):
            self.n_answers += 1
            return 0.0
        self.n_within_noise += apart > 0
        return apart


def _records(run: Run) -> Iterator[tuple[str, SampleRecord]]:
    for task in run.row.tasks:
        for record in run.samples(task):
            yield record.request.id, record


def _facts(run: Run) -> Mapping[str, JsonValue]:
    """Return what the first attempt that asked something said of its machine and versions."""
    attempts = run.attempts()
    facts: Any = attempts[0]["facts"] if attempts else {}
    copied = facts.get("copied")
    found: Mapping[str, Any] = copied[0]["facts"] if copied else facts
    return {name: fact for name, fact in found.items() if name != "task_files"}  # contents are in the plan


def _differences(path: str, first: Any, second: Any) -> Iterator[str]:
    """Yield one line for each leaf in which two JSON values differ."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for name in dict.fromkeys([*first, *second]):
            yield from _differences(f"{path}.{name}" if path else str(name), first.get(name), second.get(name))
    elif isinstance(first, tuple | list) and isinstance(second, tuple | list) and len(first) == len(second):
        for index, (one, other) in enumerate(zip(first, second, strict=True)):
            name = one.get("name", index) if isinstance(one, Mapping) else index
            yield from _differences(f"{path}[{name}]", one, other)
    elif first != second:
        yield f"{path}: {first} before, {second} now"


def lines_of(found: Reproduction) -> list[str]:
    """Return what differs, in the order in which one thing causes the next, and the verdict."""
    lines = [f"plan: {line}" for line in found.plan] + [f"environment: {line}" for line in found.environment]
    for count, what in (
        (found.n_missing, "sample(s) are in one run only"),
        (found.n_prompts, "prompt(s) differ"),
        (found.n_tokens, "answer(s) have other numbers of tokens"),
        (found.n_answers, f"answer(s) differ by more than numerical noise, at most {found.largest_nats:.3g} nats"),
        (found.n_scores, "score(s) differ"),
    ):
        if count:
            lines.append(f"{count:,} {what}")
    return [*lines, found.verdict]


def to_json(found: Reproduction) -> JsonValue:
    """Return the result with stable names."""
    return {**asdict(found), "is_reproduced": found.is_reproduced, "verdict": found.verdict}
