"""The spread of a model's scores over wordings of the prompts, from stored audits of prompts, as a column.

`assaymark audit prompts` evaluates the same samples under a dozen wordings and stores the results like a run. The
spread of a task is its largest minus its smallest score over the wordings.
"""

from collections.abc import Mapping

from assaymark.records import AUDIT, RunPlan
from assaymark.store import RunRow, Store

KIND = "prompts"  # of the audit
ModelKey = tuple[str, str, str]  # name, content hash, type of the numbers


def model_key(plan: RunPlan) -> ModelKey:
    """Return the identity that an audit and a run must share for the audit to be of the run's model."""
    return plan.model.name, plan.model.content_hash or "", plan.model.dtype


class PromptSpreads:
    """The spreads of a store's audits; audits that did not change since the last call are not read again."""

    def __init__(self) -> None:
        self._state: tuple[tuple[str, str], ...] = ()
        self._spreads: dict[ModelKey, dict[str, float]] = {}

    def read(self, store: Store) -> Mapping[ModelKey, Mapping[str, float]]:
        """Return each audited model's spreads by task, in points; of several audits of a task the latest counts."""
        state = tuple(store.audit_states(KIND))
        if state != self._state:
            spreads: dict[ModelKey, dict[str, float]] = {}
            for run_id, _ in state:  # the latest last
                row = store.run(run_id)
                spreads.setdefault(model_key(row.plan), {}).update(_spreads(row))
            self._spreads, self._state = spreads, state
        return self._spreads


def _spreads(row: RunRow) -> dict[str, float]:
    results = row.extra.get(AUDIT)
    parts = {} if results is None else results.get("parts") or {}
    spreads: dict[str, float] = {}
    for part in parts.values():
        spread: object = part.get("spread")
        if isinstance(spread, Mapping) and isinstance(spread.get("spread"), float):
            spreads[str(part.get("task"))] = 100 * spread["spread"]
    return spreads
