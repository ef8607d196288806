"""Tasks that their files call private are sealed in a store before the first of their rows is in it."""

from collections.abc import Sequence
from datetime import UTC, datetime

from assaymark.store import Store
from assaymark.store.sealed_tasks import SealedTask
from assaymark.tasks.bound import BoundTask

__all__ = ["register_private"]


def register_private(store: Store, bound: Sequence[BoundTask]) -> None:
    """Seal the data sets of private tasks in a store, before the first row of a run is in it.

    A seal that is there already stays: what `sealing.seal_task` wrote, and what was revealed.
    """
    for each in bound:
        if (declared := each.task.sealing) is not None:
            seal = SealedTask(
                each.plan.name,
                each.plan.dataset_hash,
                public_fraction=declared.public_fraction,
                version=each.plan.version,
                valid_until=declared.valid_until,
                sealed_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            store.seals.put_missing(seal)
