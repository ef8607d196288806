"""The effect of training, apart from shots, precision and template: `tune-report BASE TUNED...`.

A tuned model is often evaluated in another set-up than its base. The difference of the two runs is then the effect of
training and set-up together. Runs of the base in the tuned model's set-up, if stored, separate the two effects:
tuned - base = (tuned - base in its set-up) + (base in its set-up - base), each a paired comparison.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from assaymark.documents.blocks import Block, Heading, Paragraph, table
from assaymark.documents.document import Document, document
from assaymark.errors import UsageError
from assaymark.options.of_plans import positions
from assaymark.records import JsonValue, RunPlan
from assaymark.results.comparison.records import Difference, PairComparison
from assaymark.results.evidence.from_store import precision_shown
from assaymark.results.model_names import short_model_name
from assaymark.runs.comparison import compare_runs
from assaymark.runs.run import Run
from assaymark.runs.stored import existing_store, run_in

TRAINING = "training"
TOGETHER = "training and set-up together"


@dataclass(frozen=True, slots=True)
class TuningEffect:
    """The effect of one cause: the comparison of two runs that differ in nothing else."""

    cause: str  # training; shots, precision, template, or several of them; all together
    pair: PairComparison

    @property
    def lines(self) -> tuple[Difference, ...]:
        """The difference of each task, and of all where there are several."""
        overall = () if self.pair.overall is None or len(self.pair.tasks) < 2 else (self.pair.overall,)
        return (*self.pair.tasks, *overall)


@dataclass(frozen=True, slots=True)
class TunedModel:
    """One tuned model beside its base. effects: the steps from base to tuned; the whole first, where there are more."""

    run_id: str
    model: str
    changed: Mapping[str, tuple[str, str]]  # shots, precision or template -> of the base's run and of this one
    effects: tuple[TuningEffect, ...]
    missing: str = ""  # the run that would separate training and set-up
    note: str = ""  # what else a reader should know

    def to_json(self) -> dict[str, JsonValue]:
        """Return the effects with stable names; differences are shares."""
        return {
            "run": self.run_id, "model": self.model,
            "changed": {name: {"base": base, "tuned": tuned} for name, (base, tuned) in self.changed.items()},
            "effects": [{"cause": each.cause, "runs": list(each.pair.run_ids),
                         "differences": [{**asdict(line), "gain": line.gain} for line in each.lines]}
                        for each in self.effects],
            "missing": self.missing or None, "note": self.note or None,
        }  # fmt: skip


def tune_report(store: str | None, base: str, tuned: Sequence[str]) -> list[TunedModel]:
    """Return the effect of training on each tuned model, separated from the set-up if the store's runs allow it.

    Raises: UsageError where two runs have no question in common; UnknownName for an unknown run.
    """
    opened = existing_store(store)
    first = run_in(opened, base)
    return [_tuned_model(first, run_in(opened, name)) for name in tuned]


def _tuned_model(base: Run, tuned: Run) -> TunedModel:
    before, after = _set_up(base.row.plan), _set_up(tuned.row.plan)
    changed = {name: (_words(before[name]), _words(after[name])) for name in before if before[name] != after[name]}
    model = short_model_name(tuned.row.model)
    if not changed:
        return TunedModel(tuned.id, model, {}, (TuningEffect(TRAINING, _pair(base, tuned)),))
    steps, reached = [], base
    waiting: list[str] = []
    wanted = dict(before)
    for name in changed:
        wanted[name] = after[name]
        waiting.append(name)
        if (run := _of_base(base, wanted)) is not None:
            steps.append(TuningEffect(" and ".join(waiting), _pair(reached, run)))
            reached, waiting = run, []
    if reached.id == tuned.id:  # the base's run in this set-up is the one that was named
        whole = TuningEffect(" and ".join(changed), _pair(base, tuned))
        note = (
            f"both runs are of {short_model_name(base.row.model)} with the same weights, so nothing is due to training"
        )
        return TunedModel(tuned.id, model, changed, (whole, *steps) if len(steps) > 1 else (whole,), note=note)
    whole = TuningEffect(TOGETHER, _pair(base, tuned))
    if waiting:
        lacking = ", ".join(f"{name} {changed[name][1]}" for name in changed)
        missing = (
            f"training cannot be told from {' and '.join(changed)}: the store has no run of "
            f"{short_model_name(base.row.model)} on these tasks with {lacking}; evaluate it so, and repeat this report"
        )
        return TunedModel(tuned.id, model, changed, (whole,), missing)
    return TunedModel(tuned.id, model, changed, (whole, *steps, TuningEffect(TRAINING, _pair(reached, tuned))))


def _pair(first: Run, second: Run) -> PairComparison:
    return compare_runs([first, second]).pairs[0]


def _set_up(plan: RunPlan) -> dict[str, Mapping[str, int] | tuple[object, ...]]:
    """Return the settings of an evaluation besides the model's weights."""
    quantised = dict(plan.model.options).get("quantization_config")
    preset = None if plan.prompt_preset is None else plan.prompt_preset.name
    return {
        "shots": {task.name: task.num_fewshot for task in plan.tasks},
        "precision": (precision_shown(plan.model), quantised),
        "template": (bool(plan.apply_chat_template), preset, plan.system_instruction, plan.fewshot_as_multiturn,
                     plan.prompt_style),
    }  # fmt: skip


def _words(value: Mapping[str, int] | tuple[object, ...]) -> str:
    if isinstance(value, Mapping):
        return "/".join(str(count) for count in sorted(set(value.values())))
    parts = ["chat template" if part is True else str(part) for part in value if part not in (None, False, "")]
    return ", ".join(parts) or "none"


def _of_base(base: Run, wanted: Mapping[str, object]) -> Run | None:
    """Return the latest finished run of the base's weights in a set-up; None where the store has none."""
    own = base.row.plan
    for row in base.store.runs():
        plan = row.plan
        is_same = (
            plan.model.content_hash == own.model.content_hash if own.model.content_hash is not None
            else plan.model.name == own.model.name
        )  # fmt: skip
        if is_same and row.status == "finished" and plan.audit is None and _samples(plan) == _samples(own):
            set_up = _set_up(plan)
            if all(set_up[name] == wanted[name] for name in wanted):
                return Run(base.store, row.run_id)
    return None


def _samples(plan: RunPlan) -> tuple[object, object]:
    return plan.limit, positions(plan)


def tune_document(models: Sequence[TunedModel]) -> Document:
    """Return the effects: gains in points with 95% intervals."""
    parts: list[Block] = []
    for model in models:
        parts.append(Heading(f"{model.model} (run {model.run_id[:8]})", 3))
        for name, (before, after) in model.changed.items():
            parts.append(Paragraph(f"{name}: {before} for the base, {after} here", "facts"))
        rows = []
        for effect in model.effects:
            for at, line in enumerate(effect.lines):
                factor = 100 if line.scale == "proportion" else 1
                ends = _gained(line)
                interval = "–" if ends is None else f"{factor * ends[0]:+.1f} to {factor * ends[1]:+.1f}"
                gain = f"{factor * line.gain:+.1f}" + (" *" if line.is_significant else "")
                rows.append(("" if at else effect.cause, line.name, gain, interval, f"{line.n:,}"))
        parts.append(table(("cause", "task", "gain", "95% interval", "n"), rows, n_text=2))
        parts += [Paragraph(remark) for remark in (model.missing, model.note) if remark]
    return document(parts)


def _gained(line: Difference) -> tuple[float, float] | None:
    """Return the ends of a difference's interval in the direction of better; None without an interval."""
    if line.low is None or line.high is None:
        return None
    return (line.low, line.high) if line.higher_is_better else (-line.high, -line.low)


def refuse_few(runs: Sequence[str]) -> None:
    """Raise UsageError without a base and a tuned run, or for a run named twice."""
    if len(runs) < 2:
        raise UsageError("a report of training needs a base and a tuned run: assaymark tune-report BASE TUNED")
    if len(set(runs)) < len(runs):
        raise UsageError("the same run was named twice; name different runs")
