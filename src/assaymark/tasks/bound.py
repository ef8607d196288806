"""A task bound to its rows and to the options of a run: it makes requests and scores outputs.

`yaml_tasks` implements it for tasks described by a YAML file, `python_tasks` for classes of lm-evaluation-harness;
`bind.bind` chooses.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from assaymark.errors import PlanError
from assaymark.prompts.few_shot import DrawRules, Shots, order_of_samples
from assaymark.prompts.presets import PromptPreset
from assaymark.records import JsonValue, Output, Render, Request, Sample, Score, Skipped, TaskPlan
from assaymark.scoring.run_code import Sandbox
from assaymark.tasks.profiles import DEFAULT_PROFILE, Profile
from assaymark.tasks.task import MetricSpec, Task


@dataclass(frozen=True, slots=True)
class BindOptions:
    """The options of a run that apply to every task."""

    num_fewshot: int | None = None  # None: the task's own, else 0; a task that sets 0 itself keeps 0
    limit: float | None = None  # below 1: a fraction of the samples, rounded up
    sample_indices: tuple[int, ...] | None = None
    at_most: int | None = None  # of a suite: more samples than these are drawn from, where no others are chosen
    seed: int | None = None  # of the few-shot draw; None: the profile's
    data_dir: Path | None = None
    profile: Profile = DEFAULT_PROFILE
    system_instruction: str | None = None
    apply_chat_template: bool = False  # prompts are conversations, which the model or `preset` renders as text
    preset: PromptPreset | None = None  # in place of the model's own template
    fewshot_as_multiturn: bool = False
    gen_kwargs: Mapping[str, JsonValue] = field(default_factory=dict)
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    circular: bool = False  # ask each question in every rotation of its options, where its prompt lists them
    skip_bad_rows: bool = False  # leave out rows that cannot be read, and count them; else they are an error
    confirm_unsafe_code: bool = False  # without it, tasks whose own functions run generated code are refused

    def renderer(self, render: Render | None) -> Render | None:
        """Return the function that renders a conversation as text: the preset's, else the model's."""
        return render if self.preset is None else self.preset.render


class BoundTask(Protocol):
    """One task of a run, with its rows loaded and its options fixed."""

    @property
    def task(self) -> Task:
        """The task, with its filters."""

    @property
    def metrics(self) -> tuple[MetricSpec, ...]:
        """The metrics of its scores."""

    @property
    def n_original(self) -> int:
        """The number of rows in the evaluated split, whatever the limit, without those that were left out."""

    @property
    def plan(self) -> TaskPlan:
        """The part of the run's plan, and so of the run key, for this task."""

    @property
    def is_conversation(self) -> bool:
        """Whether further turns may follow an answer; see `next`."""

    @property
    def skipped(self) -> Skipped:
        """The rows of the evaluated split that were left out because they cannot be read."""

    @property
    def dataset_revision(self) -> str | None:
        """The commit or branch of the data set on the Hub; None for rows from elsewhere."""

    @property
    def not_circular(self) -> str | None:
        """Why the options are not rotated though the run asked for it; None where they are, or it did not ask."""

    @property
    def sandbox(self) -> Sandbox | None:
        """The sandbox in which generated programs are run; None for a task whose scoring runs none.

        Raises: PlanError where there is no sandbox and the run does not allow running without one.
        """

    @property
    def indices(self) -> Sequence[int]:
        """The indices of the samples in the split, in the order of `samples`; no row is read for them."""

    def samples(self) -> Sequence[Sample]:
        """Return the samples of the run, in the order in which their shots are drawn."""

    def requests(self, render: Render | None = None) -> Iterator[Request]:
        """Yield one request per sample, in the order of `samples`; for a conversation, its first turn.

        `render` renders a conversation with the model's chat template, where the run or the task requires one. Without
        it such requests have messages and no text, for models that apply a template themselves.

        Raises: MalformedSample naming the sample, if a row lacks what the prompt needs.
        """

    def request(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of one sample, equal to the one that `requests` yields."""

    def next(
        self, request: Request, sample: Sample, outputs: Sequence[Output], render: Render | None = None
    ) -> Request | None:
        """Return the next turn of a conversation, given a request and the outputs that answer it; None at the end.

        Raises: MalformedSample for a row whose turns are not a list of texts.
        """

    def shots_of(self, sample: Sample) -> Shots:
        """Return the indices, in the pool of shots, of a sample's shots.

        Raises: PlanError for a Python class with shots, which draws them itself.
        """

    def shot(self, place: int) -> Sample:
        """Return the row at an index of the pool of shots as a sample with that index."""

    def alone(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of any row with the task's columns, without shots.

        Raises: MalformedSample if the row lacks what the prompt needs.
        """

    def gold_is_absent(self, sample: Sample) -> bool:
        """Return whether the sample's gold answer is none of its choices: a fault of the row, scored as wrong."""

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return the sample's scores, one per filter and metric, from the outputs of all of the request's queries."""


class BoundSamples(ABC):
    """What holds of most tasks of one turn: no row of their samples is left out, and no gold is known to be absent."""

    is_conversation = False
    skipped = Skipped()
    not_circular: str | None = None

    @property
    @abstractmethod
    def _samples(self) -> Sequence[Sample]: ...

    def samples(self) -> Sequence[Sample]:
        """Return the samples of the run, in order."""
        return self._samples

    def requests(self, render: Render | None = None) -> Iterator[Request]:
        """Yield one request per sample."""
        for sample in self._samples:
            yield self.request(sample, render)

    @abstractmethod
    def request(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of one sample."""

    def next(  # noqa: B027 - it is the rule
        self, request: Request, sample: Sample, outputs: Sequence[Output], render: Render | None = None
    ) -> Request | None:
        """Return None: there is one turn."""

    def gold_is_absent(self, sample: Sample) -> bool:  # noqa: ARG002 - of `BoundTask`
        """Return False: no choices are known."""
        return False


def n_shots_of(task: Task, options: BindOptions) -> int:
    """Return the number of shots: the run's option, unless the task sets 0 itself, else the task's."""
    if options.num_fewshot is not None and options.num_fewshot < 0:
        raise PlanError(f"num_fewshot is {options.num_fewshot}; expected 0 or more")
    if options.num_fewshot is None or task.num_fewshot == 0:
        return task.num_fewshot or 0
    return options.num_fewshot


def drawn_indices(n_rows: int, options: BindOptions) -> tuple[int, ...] | None:
    """Return the positions that HELM draws, in their order; None where nothing is drawn.

    Source: HELM 63754d05, benchmark/runner.py, `downsample_eval_instances`: `np.random.choice` without replacement
        after `np.random.seed(0)`, which is the beginning of a permutation.
    """
    n = options.at_most
    if n is None or n_rows <= n or options.limit is not None or options.sample_indices is not None:
        return None
    generator = np.random.RandomState(0)
    return tuple(sorted(generator.permutation(n_rows)[:n].tolist()))


def chosen_indices(n_rows: int, rules: DrawRules, options: BindOptions, name: str) -> tuple[int, ...]:
    """Return the positions of the samples of the run, in the order in which shots are drawn."""
    order = order_of_samples(n_rows, rules)
    if options.sample_indices is not None:
        if options.limit is not None:
            raise PlanError("limit and sample indices exclude each other; give one of them")
        wanted = set(options.sample_indices)
        beyond = sorted(index for index in wanted if not 0 <= index < n_rows)
        if beyond:
            raise PlanError(f"task {name} has samples 0 to {n_rows - 1}; sample {beyond[0]} was requested")
        return tuple(index for index in order if index in wanted)
    if options.limit is None:
        drawn = drawn_indices(n_rows, options)
        return tuple(order) if drawn is None else tuple(index for index in order if index in {*drawn})
    if options.limit <= 0:
        raise PlanError(f"limit is {options.limit}; expected a number above 0, below 1 for a fraction")
    n_chosen = math.ceil(n_rows * options.limit) if options.limit < 1 else int(options.limit)
    return tuple(order[:n_chosen])
