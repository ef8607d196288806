"""One attempt at a plan: what is not stored is asked, every answer is written as it comes, and the end is told.

Runs and audits both go this way, so both are resumed by the same command and give up nothing that was answered.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from evalstone import stopping
from evalstone.errors import LeaseLost, Retryable, names_under
from evalstone.models.model import Model
from evalstone.records import JsonValue, Output, Progress, Request, Sample
from evalstone.store import OpenRun, Store

__all__ = ["Asking", "attempted"]

RETRIED_KINDS = names_under(Retryable) | {"ModelError"}


class Asking:
    """One attempt under way: who is asked, where the answers go, and how many came."""

    def __init__(self, store: Store, model: Model, opened: OpenRun) -> None:
        self.store, self.model = store, model
        self.run_id, self.attempt_id = opened.run_id, opened.attempt_id
        self.n_answered = self.n_failed = self.n_to_retry = 0
        self.stop_reason: str | None = None  # why the model sent no more requests, and how to go on

    @property
    def status(self) -> str:
        """How an attempt ends that nothing ended early."""
        return "incomplete" if self.n_to_retry else "finished"

    def put(self, requests: Sequence[Request], samples: Sequence[Sample] = ()) -> list[Request]:
        """Store the requests that lack answers, and return them without the asks that have some.

        `samples` are the requests' own, in the same order; without them the rows are not kept.
        """
        pending = self.store.unanswered(self.run_id, requests)
        waiting = {request.id for request in pending}
        places = [place for place, request in enumerate(requests) if request.id in waiting]
        self.store.add_requests(
            self.run_id, [requests[place] for place in places], [samples[place] for place in places if samples]
        )
        return pending

    def ask(self, pending: Sequence[Request], observe: Callable[[Progress], None] | None = None) -> Iterator[Output]:
        """Yield the model's answers, each written before the next; none is asked where nothing is pending.

        Raises: what the model raises; what a signal asked for, once the model's answers under way are written.
        """
        if not pending:
            return
        for output in self.model.answer(pending, cache=self.store, observe=observe):
            self.n_answered += 1
            if output.error is not None:
                self.n_failed += 1
                self.n_to_retry += output.error_kind in RETRIED_KINDS
            self.store.add(self.run_id, self.attempt_id, [output])
            yield output
        stopping.raise_if_requested()


@contextmanager
def attempted(asking: Asking) -> Iterator[None]:
    """Close the attempt at the end, as finished or incomplete, or with what ended it early.

    Raises: what the attempt raised; answers received until then are kept.
    """
    try:
        yield
    except LeaseLost:  # another writer has the run: nothing of it may be written, and its attempt is not ours to end
        asking.store.abandon_run(asking.run_id)
        raise
    except BaseException as error:
        status = "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed"
        _close(asking, status, {"error": f"{type(error).__name__}: {error}"})
        raise
    described = dict(asking.model.describe())
    asking.stop_reason = str(described["given_up"]) if described.get("given_up") else None
    _close(asking, asking.status, {"model": described})


def _close(asking: Asking, status: str, summary: Mapping[str, JsonValue]) -> None:
    """Write what is gathered and end the attempt; where that fails the run is left for others to take over."""
    try:
        asking.store.close_run(asking.run_id, asking.attempt_id, status, summary)
    except BaseException:
        asking.store.abandon_run(asking.run_id)
        raise
