"""Open a run that another process may be writing; its progress is followed until it ends or dies.

The same plan is the same run, and a run has one writer. So a second equal command sends no request: it waits until
the first has finished and then finds everything stored, or continues the run where the first one was stopped.

Tasks that their files call private are sealed in the store before their first row is stored.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from assaymark.errors import RunBusy
from assaymark.records import JsonValue, Progress, RunPlan
from assaymark.store import OpenRun, Store
from assaymark.store.rows import RunWriter
from assaymark.store.sealed_tasks import SealedTask
from assaymark.tasks.bound import BoundTask

LOOK_EVERY_SECONDS = 1.0
SHARE_OF_TIME = 0.05  # at most this share of the waiting time is spent counting a large run's rows


def no_notice(line: str) -> None:
    """Discard a notice."""


@dataclass(slots=True)
class RunOpener:
    """Opens one plan's run, or follows the process that is writing it.

    wait: whether to wait while another process is writing the run; False raises RunBusy instead.
    notify: called with one line when another process is found writing.
    observe: called with the stored share of the run while it is followed.
    bound: the tasks whose rows it will store.
    """

    store: Store
    plan: RunPlan
    wait: bool = True
    notify: Callable[[str], None] = no_notice
    observe: Callable[[Progress], None] | None = None
    bound: Sequence[BoundTask] = ()
    _followed: RunWriter | None = field(default=None, init=False)

    def until_free(self) -> None:
        """Wait until no other process is writing the run.

        Raises: RunBusy where one is, and `wait` is False.
        """
        began = time.monotonic()
        while (writer := self.store.writer(self.plan)) is not None:
            if not self.wait:
                raise RunBusy(f"this run is being written by {writer}; without --no_wait its progress is followed")
            if writer != self._followed:
                self._followed = writer
                self.notify(f"this run is being written by {writer}; following its progress (--no_wait refuses)")
            time.sleep(self._report(time.monotonic() - began))

    def open(self, *, facts: Mapping[str, JsonValue], command: str | None) -> OpenRun:
        """Open and return the run, once no other process is writing it.

        Raises: RunBusy where one is, and `wait` is False; StoreError if the store cannot be written.
        """
        while True:
            self.until_free()
            self._seal_private()
            try:
                return self.store.open_run(self.plan, facts=facts, command=command)
            except RunBusy:  # another process opened it first
                if not self.wait:
                    raise

    def _seal_private(self) -> None:
        """Seal the data sets of private tasks, and learn which rows this run must be compared with.

        Seals of `task seal` and revealed ones are not changed.
        """
        for each in self.bound:
            if (declared := each.task.sealing) is not None:
                seal = SealedTask(
                    each.plan.name,
                    each.plan.dataset_hash,
                    public_fraction=declared.public_fraction,
                    version=each.plan.version,
                    valid_until=declared.valid_until,
                    sealed_at=datetime.now(UTC).isoformat(timespec="seconds"),
                )
                self.store.seals.put_missing(seal)
                self.store.seals.learn_rows(seal.dataset_hash, each.samples())
        self.store.seals.learn_missing()

    def _report(self, seconds: float) -> float:
        """Report how much is stored, and return how many seconds to wait before the next check."""
        began = time.monotonic()
        stored = self.store.stored_progress(self.plan)
        if self.observe is not None:
            self.observe(Progress(stored.n_outputs, stored.n_expected, 0, 0, 0, note=f"followed for {seconds:.0f} s"))
        return max(LOOK_EVERY_SECONDS, (time.monotonic() - began) / SHARE_OF_TIME)
