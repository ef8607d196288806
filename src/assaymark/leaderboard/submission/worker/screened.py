"""Evaluating a screened submission, and checking that it stopped where its board's rule says.

A submission's process answers the questions in the order that all models share, and stops when its rank set is settled.
It is not trusted: `settled_after` decides again from the stored scores, in a process without the model.
"""

from collections.abc import Callable, Sequence

import numpy as np

from assaymark.errors import DataError
from assaymark.leaderboard.screening import Rivals
from assaymark.leaderboard.submission.worker.job_steps import ScreeningSpec
from assaymark.results.comparison.stopped_runs import ALPHA
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.opening import no_notice
from assaymark.runs.plan import PreparedRun
from assaymark.runs.prepare import open_store, prepare_run
from assaymark.runs.race_sides import FIRST_BLOCK, GROWTH, Answering, Place, main_metrics, places_of, stored_values
from assaymark.runs.run import Run
from assaymark.statistics.sequential import SequentialMean
from assaymark.store import Store


class _Screen:
    """Bounds on a submission's rank set while its questions are counted in their order."""

    def __init__(self, screening: ScreeningSpec, prepared: PreparedRun) -> None:
        self._rivals = Rivals.from_spec(screening["rivals"])
        weights = screening["weights"]
        sizes = {bound.plan.name: bound.plan.n_samples for bound in prepared.bound}
        if set(sizes) != set(weights):
            tasks = ", ".join(sorted(set(sizes) ^ set(weights)))
            raise DataError(f"the board screens by {', '.join(sorted(weights))}; the tasks differ in {tasks}")
        share = ALPHA / 2 / len(sizes)
        self._means = {task: SequentialMean(n, share) for task, n in sizes.items()}
        self._weights = [weights[task] for task in self._means]
        self._at_least = screening["at_least"]
        self.n_seen = 0

    def add(self, places: Sequence[Place], scores: Sequence[float]) -> bool:
        """Count a block's scores; return whether the rank set is settled after it."""
        for task, mean in self._means.items():
            own = [score for place, score in zip(places, scores, strict=True) if place[0] == task]
            if own:
                mean.add(np.array(own))
        self.n_seen += len(places)
        states = [mean.state() for mean in self._means.values()]
        has_all = all(state.n_seen for state in states) and self.n_seen >= self._at_least
        return has_all and self._rivals.is_settled(states, self._weights)


def _blocks(places: Sequence[Place]) -> Sequence[Sequence[Place]]:
    """Return the questions block by block; process and check both decide after each block."""
    blocks, start = [], 0
    while start < len(places):
        end = start + max(FIRST_BLOCK, int(GROWTH * start))
        blocks.append(places[start:end])
        start = end
    return blocks


def evaluate_screened(
    tasks: Sequence[str], screening: ScreeningSpec, observe: Callable[[str, int, int], None], options: EvaluateOptions
) -> tuple[str | None, bool]:
    """Evaluate until the rank set is settled or the benchmark ends, resuming what is stored.

    Args:
        observe: called after each block with a task, how many questions count and how many there are.
        options: of `evaluate`.

    Returns: why a limit stopped it, and whether nothing was answered.
    """
    store = open_store(options)
    model, prepared = prepare_run("hf", tasks, options)
    metrics, places = main_metrics(prepared, "screening"), places_of(prepared, screening["seed"])
    screen = _Screen(screening, prepared)
    with Answering(model, prepared, store, metrics, "worker", no_notice, "the board's screening") as answering:
        stored = stored_values(store, answering.run_id, metrics)
        n_stored = max((at for at, place in enumerate(places, start=1) if place in stored), default=0)
        n_failed, is_settled = 0, False
        for block in _blocks(places):
            # the answers of an earlier attempt count too: it may have come further, with other rows on the board
            if is_settled and screen.n_seen >= n_stored:
                break
            scores = answering.values(block)
            n_failed += sum(scores[place] is None for place in block)
            observe(block[0][0], screen.n_seen + len(block), len(places))
            if n_failed:  # a failed question is no evidence: the evaluation goes on to the end
                screen.n_seen += len(block)
            else:
                is_settled = screen.add(block, [scores[place] or 0.0 for place in block]) or is_settled
        stop_reason = answering.stop_reason
    Run(store, answering.run_id).summarise(prepared)
    store.close()
    return stop_reason, n_failed == screen.n_seen


def settled_after(store: Store, run_id: str, prepared: PreparedRun, screening: ScreeningSpec) -> int:
    """Return the number of questions of a stored run, after checking that their scores settled its rank set.

    Raises: DataError if its questions are not the beginning of the order, or its rank set was not settled.
    """
    metrics, places = main_metrics(prepared, "screening"), places_of(prepared, screening["seed"])
    values, screen = stored_values(store, run_id, metrics), _Screen(screening, prepared)
    is_settled = False
    for block in _blocks(places):
        scores = [values.get(place) for place in block]
        if any(score is None for score in scores):
            break
        is_settled = screen.add(block, [score or 0.0 for score in scores]) or is_settled
    if len(values) != screen.n_seen:
        first = f"the first {screen.n_seen:,} of the order"
        raise DataError(f"{len(values):,} questions have scores, and only {first} are the beginning of it")
    if not is_settled:
        n = f"{screen.n_seen:,} of {len(places):,} questions"
        raise DataError(f"the evaluation stopped after {n}, where its rank set was not settled")
    return screen.n_seen


def mark_screened(run: Run, n_seen: int, n: int, screening: ScreeningSpec) -> None:
    """Record with a run that its board's rule stopped it."""
    facts = {
        "n_seen": n_seen, "n": n, "seed": screening["seed"], "at_least": screening["at_least"],
        "alpha": ALPHA, "n_rivals": len(screening["rivals"]["values"]), "rule": "rank set settled",
    }  # fmt: skip
    run.store.save_estimates(run.id, run.estimates, {**run.row.extra, "screening": facts})
