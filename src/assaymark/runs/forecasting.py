"""Which stored models forecast the scores of a run that a rule may stop: chosen before its first question, then fixed.

A forecast is valid if it does not depend on the draw that it is for. So the runs are chosen once, while the new run has
no output, and are recorded with it; what continues it uses the same ones, also after a kill.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import PlanError, UnknownName
from assaymark.records import ScoreStatus
from assaymark.runs.plan import PreparedRun
from assaymark.statistics.arrays import Floats
from assaymark.store import RunRow, Store

FORECASTS = "forecasts"  # in a run's facts: ids of the runs that forecast it
MOST_FORECASTS = 30  # runs, the latest: each costs reading all its scores
Place = tuple[str, int]
Metrics = Mapping[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The runs whose scores forecast those of another run."""

    store: Store
    runs: tuple[RunRow, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The models."""
        return tuple(row.model for row in self.runs)

    def values(self, places: Sequence[Place], metrics: Metrics) -> Floats | None:
        """Return their scores at these places by these metrics; None where no run has them all. Shape: [runs, places].

        A request that failed counts as 0 here: a forecast may be wrong.
        """
        rows = []
        for row in self.runs:
            scores = stored_values(self.store, row.run_id, metrics)
            if all(place in scores for place in places):
                rows.append([scores[place] or 0.0 for place in places])
        values = np.array(rows, dtype=np.float64)
        return values if rows and np.isfinite(values).all() else None


def fixed_forecasts(store: Store, run_id: str, prepared: PreparedRun, *, wanted: bool = True) -> Forecasts:
    """Return the runs that forecast this one: those recorded, else those stored now, if it has no output yet.

    Args:
        store: has both.
        run_id: of the run that is forecast.
        prepared: its tasks.
        wanted: whether to choose any, where nothing is recorded.

    Raises: PlanError where a recorded run is no longer stored, and where an earlier version began the run in an order
        of its own and questions of it are left.
    """
    own = store.run(run_id)
    if own.extra.get("draws") == "active" and own.status != "finished":
        raise PlanError(
            f"run {own.short_id} began with --draws active, which this version does not have, so its interval cannot "
            "be continued; evaluate the rest: assaymark run without --until"
        )
    recorded = own.extra.get(FORECASTS)
    if isinstance(recorded, list):
        runs = []
        for name in recorded:
            try:
                runs.append(store.run(str(name)))
            except UnknownName as error:
                raise PlanError(
                    f"run {own.short_id} began with forecasts from run {str(name)[:8]}, which is no longer stored; "
                    f"its interval cannot be continued: evaluate the rest (assaymark run without --until), or begin "
                    f"again after assaymark rm {own.short_id}"
                ) from error
        return Forecasts(store, tuple(runs))
    chosen = _candidates(store, own, prepared) if wanted and not own.n_outputs else []
    facts = {**own.extra, FORECASTS: [row.run_id for row in chosen]}
    store.save_estimates(run_id, store.estimates(run_id), facts)
    return Forecasts(store, tuple(chosen))


def _candidates(store: Store, own: RunRow, prepared: PreparedRun) -> list[RunRow]:
    """Return finished runs of the same questions, the latest of each model first, `MOST_FORECASTS` at most."""
    data = {task.name: task.dataset_hash for task in prepared.plan.tasks}
    chosen: dict[str, RunRow] = {}
    for row in store.runs():
        theirs = {task.name: task.dataset_hash for task in row.plan.tasks}
        is_whole = row.status == "finished" and row.plan.limit is None
        if row.run_id != own.run_id and is_whole and all(theirs.get(task) == data[task] for task in data):
            chosen.setdefault(row.plan.model.content_hash or row.model, row)
        if len(chosen) == MOST_FORECASTS:
            break
    return list(chosen.values())


def stored_values(
    store: Store, run_id: str, metrics: Metrics, indices: Mapping[str, Sequence[int]] | None = None
) -> dict[Place, float | None]:
    """Return the stored scores of each task by the metric named for it; None for a request that failed.

    indices: of the samples of each task; None: all that are stored.
    """
    values: dict[Place, float | None] = {}
    for task, wanted in metrics.items():
        for score in store.scores(run_id, task, details=False, indices=None if indices is None else indices[task]):
            if (score.metric, score.filter) == wanted:
                failed = score.status is ScoreStatus.FAILED
                values[task, score.sample_index] = None if failed else float(score.value or 0.0)
    return values
