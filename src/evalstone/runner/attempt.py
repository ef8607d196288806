"""One attempt at a plan: what is not stored is answered, every answer is stored as it comes, and the attempt is closed.

Runs and audits both go this way, so both are resumed by the same command and give up nothing that was answered.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from evalstone import stopping
from evalstone.errors import LeaseLost, Retryable, names_under
from evalstone.models.model import Model
from evalstone.records import JsonValue, Output, Progress, Request, Sample
from evalstone.store import OpenRun, Store

__all__ = ["Attempt"]

RETRIED_KINDS = names_under(Retryable) | {"ModelError"}


class Attempt:
    """An attempt under way: which model answers, where the answers go, and how many came.

    As a context manager it closes the attempt at the end, as finished or incomplete, or with what ended it early.
    """

    def __init__(self, store: Store, model: Model, opened: OpenRun) -> None:
        self.store, self.model = store, model
        self.run_id, self.attempt_id = opened.run_id, opened.attempt_id
        self.n_answered = self.n_failed = self.n_to_retry = 0
        self.stop_reason: str | None = None  # why the model sent no more requests, and how to go on

    @property
    def status(self) -> str:
        """How an attempt ends that nothing ended early."""
        return "incomplete" if self.n_to_retry else "finished"

    def unanswered(self, requests: Sequence[Request], samples: Sequence[Sample] = ()) -> list[Request]:
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

    def stored(self, request_ids: Sequence[str]) -> Mapping[str, Sequence[Output]]:
        """Return the outputs that are stored of requests, by id; those of earlier attempts too."""
        return self.store.outputs_of(self.run_id, list(request_ids))

    def answer(self, pending: Sequence[Request], observe: Callable[[Progress], None] | None = None) -> Iterator[Output]:
        """Yield the model's outputs, each stored before the next; without a request the model is not called.

        Raises: what the model raises; what a signal requested, once the model's outputs under way are stored.
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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, LeaseLost):  # another writer has the run: its attempt is not ours to end
            self.store.abandon_run(self.run_id)
        elif error is not None:
            status = "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed"
            self._close(status, {"error": f"{type(error).__name__}: {error}"})
        else:
            described = dict(self.model.describe())
            self.stop_reason = str(described["given_up"]) if described.get("given_up") else None
            self._close(self.status, {"model": described})

    def _close(self, status: str, summary: Mapping[str, JsonValue]) -> None:
        """Write what is gathered and end the attempt; where that fails the run is left for others to take over."""
        try:
            self.store.close_run(self.run_id, self.attempt_id, status, summary)
        except BaseException:
            self.store.abandon_run(self.run_id)
            raise
