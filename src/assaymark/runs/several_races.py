"""A race of three or more models: every pair is decided, with one error for all verdicts together.

All models answer the same questions in the same order, so each answer counts for all its pairs. A model whose pairs are
all decided is asked nothing more. Each pair has its share of alpha (Bonferroni), or alpha is the expected share of
wrong verdicts (e-BH): then the capitals of the bets are compared with thresholds that fall with each verdict, and those
of a pair stay what they were when it was decided.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from assaymark.errors import UsageError
from assaymark.models.model import Model
from assaymark.records import JsonValue
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import no_notice
from assaymark.runs.plan import PreparedRun
from assaymark.runs.prepare import open_store
from assaymark.runs.race import (
    Answering,
    Place,
    Race,
    RacedTasks,
    RaceOptions,
    Side,
    begin_race,
    block_size,
    main_metrics,
    places_of,
    record_race,
    score_difference,
    stored_side,
    weighting_notes,
)
from assaymark.runs.run import Run
from assaymark.statistics.multiplicity import e_bh
from assaymark.statistics.sequential import RaceState, Verdict

Pair = tuple[int, int]
_DEFAULTS = RaceOptions()


@dataclass(frozen=True, slots=True)
class SeveralRaces:
    """The pairs of a race of several models, in the order in which the models were named."""

    pairs: tuple[Race, ...]
    alpha: float  # of all verdicts together
    n_failed: int
    fdr: bool = False  # alpha is the expected share of wrong ones among the verdicts

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
        if self.fdr:
            lines.append(
                f"Of the verdicts, at most {self.alpha:.0%} are expected to be wrong about this benchmark; each "
                "interval alone misses at most as often. Which is better on new questions of this kind is another "
                "question (assaymark compare)."
            )
            return lines
        lines.append(
            f"The chance that any of the {len(self.pairs)} verdicts is wrong about this benchmark is at most "
            f"{self.alpha:.0%}. Which is better on new questions of this kind is another question (assaymark compare)."
        )
        return lines

    def to_json(self) -> dict[str, JsonValue]:
        """Return it with stable names."""
        return {
            "pairs": [pair.to_json() for pair in self.pairs], "alpha": self.alpha, "n_failed": self.n_failed,
            "is_decided": self.is_decided, "fdr": self.fdr,
        }  # fmt: skip


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
        options: when it ends; `alpha` is that of all pairs together. Forecasts are not used.
        observe: called after each block with the state of each pair, by the models' names.
        evaluation: other options of `evaluate`, for all models.

    Raises: UsageError for fewer than two models, or one named twice; as `race_models`.
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
        states, n_failed = _ask(sides, places, metrics, options, observe)
    for at, side in enumerate(sides):
        if side.run_id in prepared_runs:
            furthest = max((states[pair] for pair in states if at in pair), key=lambda state: state.n_seen)
            record_race(Run(store, side.run_id), prepared_runs[side.run_id], furthest, options)
    remarks = (f"{n_failed} questions could not be answered; the same command asks them again",) if n_failed else ()
    main = ", ".join(sorted({metric for metric, _ in metrics.values()}))
    of_pair = options if options.fdr else replace(options, alpha=options.alpha / len(states))
    pairs = []
    for (first, second), state in states.items():
        names, run_ids = (sides[first].name, sides[second].name), (sides[first].run_id, sides[second].run_id)
        pairs.append(Race(names, run_ids, tuple(metrics), main, state, of_pair, n_failed, remarks))
    return SeveralRaces(tuple(pairs), options.alpha, n_failed, options.fdr)


def _ask(
    sides: Sequence[Side],
    places: Sequence[Place],
    metrics: Mapping[str, tuple[str, str]],
    options: RaceOptions,
    observe: Callable[[Mapping[tuple[str, str], RaceState]], None] | None,
) -> tuple[dict[Pair, RaceState], int]:
    """Ask block by block; return each pair's last state, and how many questions failed, at which it stops."""
    pairs = list(combinations(range(len(sides)), 2))
    of_pair = options if options.fdr else replace(options, alpha=options.alpha / len(pairs))
    paired = {pair: begin_race(places, of_pair) for pair in pairs}
    states = {pair: paired[pair].state() for pair in pairs}
    claims = {pair: paired[pair].log_e_values() for pair in pairs}
    most, n_seen = len(places) if options.most is None else min(options.most, len(places)), 0
    while n_seen < most:
        undecided = [pair for pair in pairs if not states[pair].is_decided]
        if not undecided:
            break
        n_more = min(states[pair].n_more or 0 for pair in undecided)
        block = places[n_seen : min(n_seen + block_size(n_seen, n_more), most)]
        asked = sorted({at for pair in undecided for at in pair})
        values = {at: sides[at].values(block) for at in asked}
        # evidence counts in the order alone, so that what follows a failed question has to wait
        failed = [place for place in block if any(values[at][place] is None for at in asked)]
        answered = block[: block.index(failed[0])] if failed else block
        for pair in undecided if answered else ():
            first, second = (values[at] for at in pair)
            differences = [score_difference(metrics, place, first[place], second[place]) for place in answered]
            states[pair] = paired[pair].add(np.array(differences))
            claims[pair] = paired[pair].log_e_values()
        if options.fdr:
            states |= _verdicts_of_e_bh({pair: states[pair] for pair in pairs}, claims, options)
        if observe is not None:
            observe({(sides[first].name, sides[second].name): states[first, second] for first, second in pairs})
        if failed:
            return states, len(failed)
        n_seen += len(block)
    return states, 0


CLAIMS: tuple[Verdict, ...] = ("first", "second", "equivalent")


def _verdicts_of_e_bh(
    states: Mapping[Pair, RaceState], claims: Mapping[Pair, tuple[float, float, float]], options: RaceOptions
) -> dict[Pair, RaceState]:
    """Return the states with the verdicts that e-BH gives all pairs together.

    What the questions that are left cannot change is certain, and counts as a rejection with an infinite e-value.
    """
    kinds = CLAIMS if options.margin is not None else CLAIMS[:2]
    log_e_values = [
        math.inf if states[pair].is_certain and states[pair].verdict == kind else claims[pair][at]
        for pair in states
        for at, kind in enumerate(kinds)
    ]
    rejected = e_bh(log_e_values, options.alpha).reshape(len(states), len(kinds))
    decided: dict[Pair, RaceState] = {}
    for (pair, state), own in zip(states.items(), rejected, strict=True):
        established = [kind for kind, is_made in zip(kinds, own, strict=True) if is_made]
        verdict: Verdict = state.verdict if state.is_certain else established[0] if established else "undecided"
        decided[pair] = replace(state, verdict=verdict)
    return decided
