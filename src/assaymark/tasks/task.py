"""The records of tasks, groups and selections: frozen, complete, and independent of the file format.

Functions named in task files stay names here (`FunctionRef`), so that listing, planning and hashing import no code.

Check the optional packages that a task's scoring needs, before a model is loaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypedDict

from assaymark.datasets import DatasetSpec
from assaymark.errors import MissingExtra
from assaymark.prompts.prompt_styles import PromptStyle
from assaymark.records import JsonValue, QueryKind
from assaymark.scoring.metric import Scale
from assaymark.scoring.metrics import find_metric
from assaymark.tasks.suites import ChosenSuite

OutputType = Literal["loglikelihood", "loglikelihood_rolling", "multiple_choice", "generate_until"]
KIND_OF_OUTPUT_TYPE: Mapping[str, QueryKind] = {
    "multiple_choice": QueryKind.LOGLIKELIHOOD,
    "loglikelihood": QueryKind.LOGLIKELIHOOD,
    "loglikelihood_rolling": QueryKind.ROLLING,
    "generate_until": QueryKind.GENERATE,
}
Origin = Literal["assaymark", "lm-eval", "user"]
Kind = Literal["task", "group", "tag", "suite"]


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function that a task file names, not yet imported."""

    path: str  # as written: `utils.process_docs` or `lm_eval.tasks.hellaswag.utils.process_docs`
    file: Path | None  # the .py file beside the YAML that names it; None: a dotted module
    declared_as: str | None = field(default=None, repr=False)  # the name under which a user's file declares it

    @property
    def name(self) -> str:
        """The function's own name."""
        return self.path.rpartition(".")[2]

    @property
    def module(self) -> str:
        """The module's name or path, before the function's name."""
        return self.path.rpartition(".")[0]


Field = str | int | float | bool | list[object] | dict[str, object] | FunctionRef | None  # a prompt part as written


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric of a task: how a sample is scored and how scores are aggregated."""

    name: str  # the key of its scores; for a function its name
    aggregation: str | FunctionRef
    higher_is_better: bool = True
    kwargs: Mapping[str, JsonValue] = field(default_factory=dict)
    function: FunctionRef | None = None  # for a metric that is itself a function of the task file
    filters: tuple[str, ...] = ("none",)  # the filters under which it is computed
    scale: Scale | None = None  # of a sample's score, where it is declared; None: by the table of metrics
    is_neutral: bool = False  # neither higher nor lower is better
    formula: str | None = None  # where a user's file declares it


@dataclass(frozen=True, slots=True)
class FilterStep:
    """One step of a filter pipeline."""

    function: str | FunctionRef
    kwargs: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilterSpec:
    """A named pipeline from raw outputs to extracted answers."""

    name: str
    steps: tuple[FilterStep, ...]


@dataclass(frozen=True, slots=True)
class PromptSpec:
    """How one row is formatted as a prompt."""

    text: Field = None
    turns: Field = None  # the user's messages, for a sample with several turns; then there is no text
    tools: Field = None  # the functions that the model may call
    tools_in: str = "template"  # prompt: a system prompt lists them; template: the model's own, or its server, does
    simulator: str | None = None  # carries out calls, whose results follow; then a sample is a conversation
    messages: Field = None  # role and text of each message; then there is no text
    target: Field = None
    target_is_text: bool = False  # one text, even where it looks like a list of references
    choice: Field = None
    image: Field = None  # the images that the question shows
    critique: Mapping[str, JsonValue] | None = None  # templates of a critique and a revision; see `self_critique`
    gen_prefix: Field = None
    target_delimiter: str = " "
    fewshot_delimiter: str = "\n\n"

    @property
    def is_chat(self) -> bool:
        """Whether it is a conversation under the model's template, whatever the run's options say."""
        if self.tools is not None:
            return self.tools_in == "template" or self.simulator is not None
        return self.turns is not None or self.messages is not None


@dataclass(frozen=True, slots=True)
class FewshotSpec:
    """Where shots are drawn from and how they are formatted."""

    prompt: PromptSpec
    sampler: str | FunctionRef = "default"
    split: str | None = None
    samples: tuple[Mapping[str, JsonValue], ...] | FunctionRef | None = None
    process_docs: FunctionRef | None = None


@dataclass(frozen=True, slots=True)
class SplitNames:
    """The data set's splits by purpose."""

    training: str | None = None
    validation: str | None = None
    test: str | None = None

    @property
    def evaluated(self) -> str | None:
        """The split to evaluate: test if the task has one, else validation."""
        return self.test if self.test is not None else self.validation


@dataclass(frozen=True, slots=True)
class Sealing:
    """The sealing of a private task's rows, as its file states it."""

    public_fraction: float = 0.0  # a preview that is shown
    valid_until: str = ""  # a date, YYYY-MM-DD; "": no end


class GenerationBy(TypedDict):
    """Generation settings that differ by the value of a column."""

    column: str
    values: Mapping[str, Mapping[str, JsonValue]]  # value of the column -> overrides of the task's own


@dataclass(frozen=True, slots=True)
class Task:
    """One benchmark task, as read from its file."""

    name: str
    version: str
    output_type: OutputType
    dataset: DatasetSpec
    splits: SplitNames
    prompt: PromptSpec
    fewshot: FewshotSpec
    spec: Mapping[str, object]  # the file after includes; functions as FunctionRef
    spec_hash: str  # of `spec` and the bytes of the .py files it names, but of no path
    source: Path
    origin: Origin
    metrics: tuple[MetricSpec, ...]
    filters: tuple[FilterSpec, ...]
    alias: str | None = None
    description: Field = ""
    num_fewshot: int | None = None
    repeats: int = 1
    generation_kwargs: Mapping[str, JsonValue] | None = None
    generation_by: GenerationBy | None = None
    also_loglikelihood: str | None = None  # a continuation whose log-likelihood is queried besides the generation
    process_docs: FunctionRef | None = None
    process_results: FunctionRef | None = None
    custom_dataset: FunctionRef | None = None
    python_class: FunctionRef | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # groups through which it was selected, outermost first
    trusted: tuple[Path, ...] = ()  # folders whose code this task may import
    prompt_style: PromptStyle | None = None  # None: its file's own
    sealing: Sealing | None = None  # None: its rows may be shown


@dataclass(frozen=True, slots=True)
class GroupMetric:
    """How a group summarises one metric of its tasks."""

    metric: str
    aggregation: str | FunctionRef = "mean"
    weight_by_size: bool = True
    filters: tuple[str, ...] | None = None  # None: all that its tasks have


@dataclass(frozen=True, slots=True)
class Group:
    """A named set of tasks and groups, with summary metrics where it declares any."""

    name: str
    alias: str
    children: tuple[str, ...]  # names of tasks or groups
    metrics: tuple[GroupMetric, ...] = ()
    version: str = ""
    source: Path | None = None
    origin: Origin = "user"


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a list of names, each once, with their groups and suites."""

    tasks: tuple[Task, ...]
    groups: tuple[Group, ...] = ()
    names: tuple[str, ...] = ()  # the names that were given, with old ones replaced
    notes: tuple[str, ...] = ()  # to be shown to the user, e.g. guessed columns
    suites: tuple[ChosenSuite, ...] = ()
    shots: tuple[tuple[str, int], ...] = ()  # task -> shots, where a suite or an old name fixes them


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One line of `assaymark ls tasks`."""

    name: str
    kind: Kind
    origin: Origin
    runnable_here: bool = True
    reason: str | None = None  # why it cannot run here, with the remedy
    tags: tuple[str, ...] = ()
    n_tasks: int = 1  # of a group or tag: its members


def refuse_missing_packages(task: Task) -> None:
    """Raise MissingExtra, with the install command, where a package that the task's scoring needs is absent."""
    missing = [package for package in _packages_of(task) if find_spec(package) is None]
    if missing:
        raise MissingExtra(f"scoring task {task.name} (with {', '.join(missing)})", "metrics")


def _packages_of(task: Task) -> tuple[str, ...]:
    """Return the packages that the task's metrics need; functions of users' own files are not checked.

    An aggregation over texts has the name of its metric, whatever the metric's name in the file.
    """
    names = [metric.aggregation for metric in task.metrics if isinstance(metric.aggregation, str)]
    if task.origin == "assaymark":
        names += [metric.name for metric in task.metrics]
    rows = [row for name in names if (row := find_metric(name)) is not None]
    return tuple(dict.fromkeys(package for row in rows for package in row.packages))
