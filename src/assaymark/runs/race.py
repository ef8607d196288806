"""A race: models answer a benchmark's questions in one random order until the better one of each pair is decided.

The order follows from the benchmark's hash and a seed, so all races have the same one, and evidence counts only in this
order. Answers are stored as incomplete runs of the whole benchmark: the same command continues after a kill, a race
with other settings begins with the stored answers, and `assaymark run` evaluates the rest. With three or more models,
each answer counts for all pairs, each pair has its share of alpha (Bonferroni), and a model whose pairs are all decided
is asked nothing more.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import combinations

import numpy as np

from assaymark.errors import UsageError
from assaymark.models.cost.bill import cost_line
from assaymark.models.model import Model
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields
from assaymark.results.model_names import labels_apart, short_model_name
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import no_notice
from assaymark.runs.plan import PreparedRun
from assaymark.runs.prepare import open_store
from assaymark.runs.race_sides import (
    Answering,
    Metrics,
    Place,
    RacedTasks,
    Side,
    block_size,
    main_metrics,
    places_of,
    stored_side,
    weighting_notes,
)
from assaymark.runs.run import Run
from assaymark.statistics.sequential import PairedRace, RaceState
from assaymark.store import Store
from assaymark.tasks.question_order import macro_weights

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RaceOptions:
    """When a race ends.

    Attributes:
        margin: smallest difference of interest, as a share (0.05 is 5 points): models that are surely closer are
            equivalent. None: any difference counts, until it is certain.
        alpha: how often any of the verdicts may be wrong about the benchmark.
        seed: of the order of the questions.
        most: questions at which to stop undecided; None: all.
        macro: whether each task counts the same, so that the difference is one of means over tasks.
    """

    margin: float | None = None
    alpha: float = 0.05
    seed: int = 0
    most: int | None = None
    macro: bool = False


_DEFAULTS = RaceOptions()


@dataclass(frozen=True, slots=True)
class Race:
    """A race that ended, or was stopped."""

    names: tuple[str, str]
    run_ids: tuple[str, str]
    tasks: tuple[str, ...]
    metric: str
    state: RaceState
    options: RaceOptions
    n_failed: int = 0  # questions that a model could not answer: the race stops until they are answered
    remarks: tuple[str, ...] = ()

    json_keys = (
        "models=names runs=run_ids tasks metric verdict=state.verdict sentence=verdict about state rule n_failed "
        "remarks"
    )

    @property
    def verdict(self) -> str:
        """The result in one sentence; it is about this benchmark."""
        state, (first, second) = self.state, self.names
        mean = " of the tasks' mean" if self.options.macro else ""
        over = f"points{mean} over {state.n_seen:,} of {state.n:,} questions"
        points = f"{first} minus {second} {100 * state.difference:+.1f} {over}"
        if state.verdict == "equivalent":
            margin = 100 * (self.options.margin or 0)
            return f"{first} and {second} are surely closer than {margin:g} points on this benchmark ({points})."
        if state.verdict != "undecided":
            better, worse = (first, second) if state.verdict == "first" else (second, first)
            ahead = state.difference if state.verdict == "first" else -state.difference
            return f"{better} is better than {worse} on this benchmark ({100 * ahead:+.1f} {over})."
        if state.n_seen == state.n:
            return f"{first} and {second} have the same score on this benchmark ({100 * state.difference:+.1f} {over})."
        more = f"; about {state.n_more:,} more would decide at this rate" if state.n_more else ""
        return f"Not decided ({points}{more})."

    @property
    def rule(self) -> dict[str, JsonValue]:
        """What decided."""
        return {"name": rule_of(self.options), **json_fields(self.options)}

    @property
    def about(self) -> str:
        """An explanation of what the result does and does not say."""
        if self.state.n_seen == self.state.n:
            certainty = "All questions were asked, so this is certain of this benchmark. "
        elif self.state.is_certain:
            certainty = "The questions that are left cannot change it. "
        else:
            certainty = f"At most {self.options.alpha:.0%} of such verdicts are wrong about this benchmark. "
        return (
            f"{certainty}Whether one is better on new questions of this kind is another question: evaluate all of them "
            "(assaymark run) and use assaymark compare."
        )


def rule_of(options: RaceOptions) -> str:
    """Return the name of the rule that decides."""
    if options.margin is None:
        return "betting, a portfolio of bets"
    return f"betting, planned for differences of {100 * options.margin:g} points"


@dataclass(frozen=True, slots=True)
class SeveralRaces:
    """The pairs of a race of several models, in the order in which the models were named."""

    pairs: tuple[Race, ...]
    alpha: float  # of all verdicts together
    n_failed: int

    json_keys = "pairs alpha n_failed is_decided"

    @property
    def is_decided(self) -> bool:
        """Whether every pair is."""
        return all(pair.state.is_decided for pair in self.pairs)

    def lines(self) -> list[str]:
        """Return a line for each pair, and what they are about."""
        lines = []
        for pair in self.pairs:
            state = pair.state
            interval = f"{100 * state.low:+.1f} to {100 * state.high:+.1f}"
            lines.append(f"{pair.verdict} Interval at any time {interval}.")
        lines.append(
            f"The chance that any of the {len(self.pairs)} verdicts is wrong about this benchmark is at most "
            f"{self.alpha:.0%}. Which is better on new questions of this kind is another question (assaymark compare)."
        )
        return lines


def race_models(
    first: object,
    second: object,
    tasks: str | Sequence[str],
    options: RaceOptions = _DEFAULTS,
    *,
    observe: Callable[[Mapping[tuple[str, str], RaceState]], None] | None = None,
    first_args: str | Mapping[str, object] = "",
    second_args: str | Mapping[str, object] = "",
    **evaluation: object,
) -> Race:
    """Let two models answer questions until it is decided which is better: `race_several` of two."""
    models = [(first, first_args), (second, second_args)]
    return race_several(models, tasks, options, observe=observe, **evaluation).pairs[0]


def race_several(
    models: Sequence[tuple[object, str | Mapping[str, object]]],
    tasks: str | Sequence[str],
    options: RaceOptions = _DEFAULTS,
    *,
    observe: Callable[[Mapping[tuple[str, str], RaceState]], None] | None = None,
    **evaluation: object,
) -> SeveralRaces:
    """Let models answer questions until every pair of them is decided.

    Args:
        models: model and `model_args` of each, as `evaluate` takes them; from the second on a model may be the id of a
            stored run of all questions, of which nothing is asked again.
        tasks: as `evaluate` takes them.
        options: when it ends; `alpha` is that of all pairs together.
        observe: called after each block with the state of each pair, by the models' names.
        evaluation: other options of `evaluate`, for all models.

    Raises: UsageError for fewer than two models, for one named twice, and for metrics that are no shares; PlanError for
        a stored run that lacks questions; as `evaluate`.
    """
    if len(models) < 2:
        raise UsageError(f"a race needs two models or more; {len(models)} was named")
    shared: EvaluateOptions = {**evaluation}  # type: ignore[typeddict-item]
    store, notify = open_store(shared), shared.get("notify") or no_notice
    raced = RacedTasks(tasks, shared)
    opened, prepared = raced.prepare(*models[0])
    if prepared.plan.limit is not None or prepared.options.samples:
        raise UsageError("a race draws its questions from the whole benchmark; omit limit and samples")
    metrics, places = main_metrics(prepared), places_of(prepared, options.seed, macro=options.macro)
    for line in weighting_notes(prepared, macro=options.macro):
        notify(line)
    ready: list[Side | tuple[Model, PreparedRun]] = [(opened, prepared)]
    for model, arguments in models[1:]:
        ready.append(stored_side(store, model, prepared, metrics) or raced.prepare(model, arguments))
    keys = [each[1].plan.key for each in ready if isinstance(each, tuple)]
    if len(set(keys)) < len(keys):
        raise UsageError("two of the models are the same; name models that differ")
    with ExitStack() as stack:  # no run is opened before all models are known to be usable
        sides: list[Side] = []
        prepared_runs: dict[str, PreparedRun] = {}
        for each in ready:
            if isinstance(each, tuple):
                answering = Answering(*each, store, metrics, shared.get("command"), notify)
                prepared_runs[answering.run_id] = each[1]
                sides.append(stack.enter_context(answering))
            else:
                sides.append(each)
        rows = [store.run(side.run_id) for side in sides]
        names = labels_apart([(short_model_name(row.model), row.plan.model.dtype, row.short_id) for row in rows])
        states, n_failed = race(sides, places, metrics, options, observe and _by_name(observe, names))
    for at, side in enumerate(sides):
        if side.run_id in prepared_runs:
            furthest = max((states[pair] for pair in states if at in pair), key=lambda state: state.n_seen)
            record_race(Run(store, side.run_id), prepared_runs[side.run_id], furthest, options)
    failed = [f"{n_failed} questions could not be answered; the same command asks them again"] if n_failed else []
    main = ", ".join(sorted({each.metric for each in metrics.values()}))
    of_pair = replace(options, alpha=options.alpha / len(states))
    pairs = []
    for (first, second), state in states.items():
        run_ids = (sides[first].run_id, sides[second].run_id)
        remarks = (*failed, *_cost_lines(store, [run_id for run_id in run_ids if run_id in prepared_runs]))
        pairs.append(
            Race((names[first], names[second]), run_ids, tuple(metrics), main, state, of_pair, n_failed, remarks)
        )
    return SeveralRaces(tuple(pairs), options.alpha, n_failed)


def _by_name(
    observe: Callable[[Mapping[tuple[str, str], RaceState]], None], names: Sequence[str]
) -> Callable[[Mapping[Pair, RaceState]], None]:
    return lambda states: observe({(names[one], names[other]): state for (one, other), state in states.items()})


def _cost_lines(store: Store, run_ids: Sequence[str]) -> list[str]:
    """Return the cost of each run so far, for those with a known price."""
    runs = [Run(store, run_id) for run_id in run_ids]
    return [f"{short_model_name(run.row.model)}: {cost_line(run.cost)}" for run in runs if run.cost is not None]


def begin_race(places: Sequence[Place], options: RaceOptions) -> PairedRace:
    """Return a race without evidence."""
    weights = np.array(macro_weights(places)) if options.macro else None
    return PairedRace(len(places), options.alpha, options.margin, weights=weights)


def race(
    sides: Sequence[Side],
    places: Sequence[Place],
    metrics: Metrics,
    options: RaceOptions,
    observe: Callable[[Mapping[Pair, RaceState]], None] | None = None,
) -> tuple[dict[Pair, RaceState], int]:
    """Ask block by block; return each pair's last state, and how many questions failed, at which it stops."""
    pairs = list(combinations(range(len(sides)), 2))
    of_pair = replace(options, alpha=options.alpha / len(pairs))
    paired = {pair: begin_race(places, of_pair) for pair in pairs}
    states = {pair: paired[pair].state() for pair in pairs}
    most, n_seen = len(places) if options.most is None else min(options.most, len(places)), 0
    while n_seen < most:
        undecided = [pair for pair in pairs if not states[pair].is_decided]
        if not undecided:
            break
        n_more = min(states[pair].n_more or 0 for pair in undecided)
        block = places[n_seen : min(n_seen + block_size(n_seen, n_more), most)]
        asked = sorted({at for pair in undecided for at in pair})
        values = {at: sides[at].values(block) for at in asked}
        # evidence counts only in the order, so the questions after a failed one have to wait
        failed = [place for place in block if any(values[at][place] is None for at in asked)]
        answered = block[: block.index(failed[0])] if failed else block
        for pair in undecided if answered else ():
            first, second = (values[at] for at in pair)
            differences = [_score_difference(metrics, place, first[place], second[place]) for place in answered]
            states[pair] = paired[pair].add(np.array(differences))
        if observe is not None:
            observe(states)
        if failed:
            return states, len(failed)
        n_seen += len(block)
    return states, 0


def _score_difference(metrics: Metrics, place: Place, first: float | None, second: float | None) -> float:
    """Return by how much the first of two scores is better; neither is None."""
    sign = 1.0 if metrics[place[0]].higher_is_better else -1.0
    return sign * ((first or 0.0) - (second or 0.0))


def record_race(run: Run, prepared: PreparedRun, state: RaceState, options: RaceOptions) -> None:
    """Compute the run's estimates from its stored scores, and record that a rule stopped it."""
    run.summarise(prepared)
    facts: dict[str, JsonValue] = {"n_seen": state.n_seen, "n": state.n, "rule": rule_of(options), **asdict(options)}
    run.store.save_estimates(run.id, run.estimates, {**run.row.extra, "race": facts})
