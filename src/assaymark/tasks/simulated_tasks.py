"""Tasks whose calls a simulator carries out (`simulator: bfcl`), bound to their rows."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from assaymark.errors import MalformedSample
from assaymark.records import Output, Render, Request, Sample, Score, TaskPlan, content_hash
from assaymark.scoring.run_code import Sandbox, choose_sandbox
from assaymark.scoring.simulated_calls import find_machines
from assaymark.tasks.simulated_conversations import SimulatedScoring
from assaymark.tasks.yaml_tasks import BoundYamlTask


class BoundSimulatedTask(BoundYamlTask):
    """A `BoundTask` of conversations whose calls are carried out; one score per conversation."""

    @property
    def is_conversation(self) -> bool:
        """Whether further turns may follow an answer: always."""
        return True

    @property
    def plan(self) -> TaskPlan:
        """The part of the run's plan; the simulator's content is part of the data set's hash.

        Raises: PlanError where the simulator is not installed.
        """
        own = super().plan
        both = content_hash({"rows": own.dataset_hash, "simulator": find_machines().content_hash})
        return replace(own, dataset_hash=both)

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox in which calls are carried out.

        Raises: PlanError where there is no sandbox and the run does not allow running without one.
        """
        return choose_sandbox(f"task {self.task.name}", unsafe=self.options.confirm_unsafe_code)

    @cached_property
    def _conversations(self) -> SimulatedScoring:
        return SimulatedScoring(self.task, self.sandbox)

    def next(
        self, request: Request, sample: Sample, outputs: Sequence[Output], render: Render | None = None
    ) -> Request | None:
        """Return the request after an answer: with the results of its calls, or the user's next message.

        Raises: MalformedSample for a row that lacks a column, naming task and sample; PlanError.
        """
        try:
            return self._conversations.next(request, sample, outputs, self.options.renderer(render))
        except KeyError as error:
            where = f"task {self.task.name} ({self.task.source}), sample {sample.index}"
            raise MalformedSample(f"{where}: the row has no {error}") from error

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return the scores of a conversation's last answer; none for an earlier one."""
        return self._conversations.score(request, sample, outputs)
