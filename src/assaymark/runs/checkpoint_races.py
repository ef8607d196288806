"""A callback that races each checkpoint against the last one during training.

The last checkpoint's weights are gone, but its answers are stored. The new one answers the same questions in the same
order until the rule of a race decides, or the last one's answers end. Each checkpoint answers a minimum of questions,
so that the next one can be compared with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from assaymark.errors import UsageError
from assaymark.models.lending import lent
from assaymark.models.training import TrainingCallback
from assaymark.results.model_names import short_model_name
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import no_notice
from assaymark.runs.prepare import open_store, prepare_run
from assaymark.runs.race import Race, RaceOptions, begin_race, race, record_race
from assaymark.runs.race_sides import FIRST_BLOCK, Answering, Place, main_metrics, places_of, stored_side, stored_values
from assaymark.runs.run import Run
from assaymark.runs.trainer_callback import options_at
from assaymark.store import RunRow, Store

_DEFAULTS = RaceOptions()
_VERDICTS = {"first": 1.0, "equivalent": 0.0, "second": -1.0}


@dataclass(frozen=True, slots=True)
class CheckpointRace:
    """A checkpoint's results, and their comparison with an earlier one's."""

    run: Run
    n_asked: int  # questions that it has answered, of the race and beyond
    race: Race | None  # None: there is no earlier checkpoint

    @property
    def sentence(self) -> str:
        """The result in a line."""
        if self.race is None:
            return f"{self.run.row.model}: the first checkpoint, {self.n_asked:,} questions answered."
        remarks = " ".join(self.race.remarks)
        return f"{self.race.verdict}{' ' + remarks if remarks else ''}"

    def to_log(self) -> dict[str, float]:
        """Return the numbers of a Trainer's log; without a verdict `eval_race_verdict` is missing.

        Units: points; `eval_race_verdict` is 1 for better, -1 for worse, 0 for surely closer than the margin.
        """
        if self.race is None:
            return {}
        state = self.race.state
        numbers = {
            "eval_race_points": 100 * state.difference,
            "eval_race_points_low": 100 * state.low,
            "eval_race_points_high": 100 * state.high,
            "eval_race_questions": float(state.n_seen),
        }
        if state.verdict in _VERDICTS:
            numbers["eval_race_verdict"] = _VERDICTS[state.verdict]
        return numbers


class RaceCallback(TrainingCallback):
    """Tests at intervals whether the model is better than at the last evaluation; results are in `races`.

    Args:
        tasks: as for `evaluate`; all questions count the same.
        every: optimisation steps between evaluations; None evaluates at the end of each epoch.
        rule: when it is decided. `most` bounds the questions of a checkpoint. Each verdict has the whole `alpha`.
        at_least: questions that each checkpoint answers, also after its verdict; the next one is compared on those that
            its predecessor answered, and no more.
        options: as for `evaluate` (num_fewshot, store, ...), without limit and samples; without `tokenizer`, the
            Trainer's `processing_class` is used.

    Metrics are logged as by `EvaluationCallback`: eval_race_points (how much better), eval_race_points_low, _high (an
    interval that is valid at any time), eval_race_questions and, once it is decided, eval_race_verdict (1, 0 or -1).
    Answers are stored under the checkpoint's name: a training that is resumed continues with them.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        every: int | None = None,
        rule: RaceOptions = _DEFAULTS,
        at_least: int = 200,
        **options: Unpack[EvaluateOptions],
    ) -> None:
        super().__init__(every)
        if isinstance(at_least, bool) or not isinstance(at_least, int) or at_least < 1:
            raise UsageError(f"at_least={at_least!r}; expected a whole number of questions from 1")
        if rule.most is not None and rule.most < at_least:
            raise UsageError(
                f"at_least={at_least} is more than the rule's most={rule.most}; lower one or raise the other"
            )
        if rule.margin is not None and not 0 < rule.margin <= 1:
            raise UsageError(f"margin={rule.margin}; expected a share above 0 and up to 1, such as 0.05 for 5 points")
        self.tasks, self.rule, self.at_least, self.options = tasks, rule, at_least, options
        self.races: list[CheckpointRace] = []

    def measure(self, model: object, tokenizer: object, checkpoint: str) -> Mapping[str, float]:
        """Race the model against the last checkpoint and return the numbers to log.

        Raises: as `evaluate`; UsageError if neither this callback nor the Trainer has a tokenizer.
        """
        options = options_at(checkpoint, self.options, tokenizer)
        last = self.races[-1].run.id if self.races else None
        with lent(model):
            result = _race_last(model, self.tasks, options, self.rule, self.at_least, last)
        self.races.append(result)
        (self.options.get("notify") or no_notice)(result.sentence)
        return result.to_log()


def _race_last(
    model: object,
    tasks: str | Sequence[str],
    options: EvaluateOptions,
    rule: RaceOptions,
    at_least: int,
    last: str | None,
) -> CheckpointRace:
    """Race a model against the run `last`, else against the checkpoint before it in the store.

    Raises: UsageError for a limit, samples, and metrics that are no shares; as `evaluate`.
    """
    store, notify = open_store(options), options.get("notify") or no_notice
    opened, prepared = prepare_run(model, tasks, options)
    if prepared.plan.limit is not None or prepared.options.samples:
        raise UsageError("a race draws its questions from the whole benchmark; omit limit and samples")
    metrics, places = main_metrics(prepared), places_of(prepared, rule.seed, macro=rule.macro)
    n_most = len(places) if rule.most is None else min(rule.most, len(places))
    with Answering(
        opened, prepared, store, metrics, options.get("command"), notify, "the rule of a race of checkpoints"
    ) as own:
        row = _earlier(store, store.run(own.run_id), last)
        earlier = None if row is None else stored_side(store, Run(store, row.run_id), prepared, metrics)
        state, n_failed, n_known = begin_race(places, rule).state(), 0, 0
        if row is not None and earlier is not None:
            n_known = _n_answered(stored_values(store, row.run_id, metrics), places)
            limited = replace(rule, most=min(n_most, n_known))
            states, n_failed = race([own, earlier], places, metrics, limited)
            state = states[0, 1]
        # for the next checkpoint's comparison, in blocks: a kill loses no more than one
        n_asked = state.n_seen
        while not n_failed and n_asked < min(at_least, n_most):
            block = places[n_asked : min(n_asked + FIRST_BLOCK, at_least, n_most)]
            scores = own.values(block)
            n_failed = sum(scores[place] is None for place in block)
            n_asked += len(block) if not n_failed else next(i for i, place in enumerate(block) if scores[place] is None)
    run = Run(store, own.run_id)
    record_race(run, prepared, replace(state, n_seen=n_asked), rule)
    run = Run(store, run.id)
    if row is None or earlier is None:
        return CheckpointRace(run, n_asked, None)
    remarks, before = [], short_model_name(row.model)
    if n_failed:
        remarks.append(f"{n_failed} questions could not be answered; the same step again asks them again.")
    elif not state.is_decided and n_known < n_most:
        remarks.append(f"{before} answered {n_known:,} questions; a larger at_least lets the next race go on.")
    names, run_ids = (short_model_name(run.row.model), before), (run.id, row.run_id)
    main = ", ".join(sorted({each.metric for each in metrics.values()}))
    return CheckpointRace(
        run, n_asked, Race(names, run_ids, tuple(metrics), main, state, rule, n_failed, tuple(remarks))
    )


def _earlier(store: Store, own: RunRow, last: str | None) -> RunRow | None:
    """Return the run to race against: `last`, else the stored one of the same training with the largest earlier step.

    The latter is for a training that was resumed in another process.
    """
    if last is not None and last != own.run_id:
        return store.run(last)
    training, _, step = own.model.rpartition("/checkpoint-")
    if not training or not step.isdigit():
        return None
    earlier: dict[int, RunRow] = {}
    for row in store.runs():  # the latest first
        theirs, _, number = row.model.rpartition("/checkpoint-")
        is_before = theirs == training and number.isdigit() and int(number) < int(step)
        if is_before and replace(row.plan, model=own.plan.model).key == own.plan.key:
            earlier.setdefault(int(number), row)
    return earlier[max(earlier)] if earlier else None


def _n_answered(values: Mapping[Place, float | None], places: Sequence[Place]) -> int:
    """Return the number of questions before the first one in the order without a score."""
    return next((at for at, place in enumerate(places) if values.get(place) is None), len(places))
