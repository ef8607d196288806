"""The content of `assaymark explain TASK` as data: the card, one rendered prompt, and how an answer is scored.

The worked sample uses made-up answers (the same every time) and the task's real scoring code.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import getdoc
from pathlib import Path

from assaymark.errors import AssaymarkError, DataError
from assaymark.records import GenerateQuery, LoglikelihoodQuery, Output, Request, RollingQuery, Sample, Score
from assaymark.scoring.metrics import find_metric, formula_of
from assaymark.tasks.bound import BoundTask
from assaymark.tasks.catalog import LIBRARY
from assaymark.tasks.functions import load_function
from assaymark.tasks.task import FilterSpec, FunctionRef, Task
from assaymark.tasks.yaml_files import read_card

REQUEST_TYPES: dict[str, str] = {
    "multiple_choice": "one log-likelihood per choice, given the same context (or one context per choice)",
    "loglikelihood": "the log-likelihood of one given continuation, and whether greedy decoding would generate it",
    "loglikelihood_rolling": "the log-likelihood of a whole text, without a context",
    "generate_until": "a generated answer, up to a stop text or a number of tokens",
}

A_CONVERSATION = "a conversation: a generated answer to each turn, followed by the next turn"
_ANSWERED = re.compile(r"^(?:A|Answer|Solution|Output|Response)[ \t]*:[ \t]*\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FilterText:
    """One filter pipeline in words."""

    name: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetricText:
    """One metric in words."""

    name: str
    formula: str
    aggregation: str
    higher_is_better: bool
    options: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class TaskOutline:
    """A description of a task from its files and card; needs neither data nor scoring packages."""

    task: Task
    card: Mapping[str, object] | None
    request_type: str
    filters: tuple[FilterText, ...]
    metrics: tuple[MetricText, ...]


@dataclass(frozen=True, slots=True)
class WorkedSample:
    """One of a task's samples, its prompt, made-up answers and their scores."""

    n_samples: int  # of the task
    n_shots: int
    sample: Sample
    request: Request
    hidden_shots: int  # answered examples inside the question's own text
    outputs: tuple[Output, ...]  # made up
    scores: tuple[Score, ...]  # of the made-up outputs, by the real scoring code
    failure: str | None = None  # why the sample could not be scored


def outline_task(task: Task) -> TaskOutline:
    """Return a task's outline, without reading its data.

    Raises: DataError for a card that is not a mapping.
    """
    prompt = task.prompt
    is_conversation = (prompt.turns, prompt.simulator, prompt.critique) != (None, None, None)
    return TaskOutline(
        task=task,
        card=find_card(task),
        request_type=A_CONVERSATION if is_conversation else REQUEST_TYPES.get(task.output_type, task.output_type),
        filters=tuple(_filter_text(pipeline) for pipeline in task.filters),
        metrics=tuple(_metric_texts(task)),
    )


def work_sample(bound: BoundTask, position: int = 0) -> WorkedSample:
    """Return the sample at `position` as an example of how the task is prompted and scored.

    Raises: DataError if the task has no such sample.
    """
    samples = bound.samples()
    if not 0 <= position < len(samples):
        raise DataError(f"task {bound.task.name} has {len(samples)} samples; there is no sample {position}")
    sample = samples[position]
    request = bound.request(sample)
    outputs = made_up_outputs(request)
    failure: str | None = None
    scores: tuple[Score, ...] = ()
    try:
        scores = bound.score(request, sample, outputs)
    except AssaymarkError as error:
        failure = str(error)
    return WorkedSample(
        n_samples=bound.n_original,
        n_shots=request.n_shots,
        sample=sample,
        request=request,
        hidden_shots=count_hidden_shots(bound, request, find_card(bound.task)),
        outputs=outputs,
        scores=scores,
        failure=failure,
    )


def find_card(task: Task) -> Mapping[str, object] | None:
    """Return the task's card: its own, a group's, or that of a prefix of its name; None if there is none.

    Raises: DataError for a card that is not a mapping.
    """
    return find_card_named(task.name, [*reversed(task.groups), *task.tags], task.source.parent)


def find_card_named(task: str, holders: Sequence[str], beside: Path) -> Mapping[str, object] | None:
    """Return a task's card by its name, for tasks of stored runs.

    holders: groups and tags it belongs to, the innermost first. beside: the folder of its file; it need not exist.

    Raises: DataError for a card that is not a mapping.
    """
    names = [task, *holders]
    stem = task
    while "_" in stem:
        stem = stem.rpartition("_")[0]
        names.append(stem)
    for name in names:
        for path in _card_paths(name, beside):
            return read_card(path)
    return None


def _card_paths(name: str, beside: Path) -> list[Path]:
    own = beside / f"{name}.card.yaml"
    if own.is_file():
        return [own]
    path = library_cards().get(name)
    return [] if path is None else [path]


@cache
def library_cards() -> Mapping[str, Path]:
    """Return the library's cards by the name of what they describe. Names of others' tasks are looked up in it."""
    ending = ".card.yaml"
    return {path.name.removesuffix(ending): path for path in sorted(LIBRARY.rglob(f"*{ending}"), reverse=True)}


def count_hidden_shots(bound: BoundTask, request: Request, card: Mapping[str, object] | None) -> int:
    """Return how many answered examples the question itself contains: the card's number, else as counted."""
    stated = (card or {}).get("hidden_shots")
    if isinstance(stated, int):
        return stated
    if bound.task.output_type == "loglikelihood_rolling":
        return 0
    question = request.segments[-1] if request.segments else request.prompt
    body, _, _ = question.rstrip().rpartition("\n")
    return len(_ANSWERED.findall(body))


def made_up_outputs(request: Request) -> tuple[Output, ...]:
    """Return made-up outputs: one nat per four characters, the first choice a little more probable."""
    outputs = []
    for query in request.queries:
        if isinstance(query, GenerateQuery):
            text = request.target.strip("[]'\"")
            outputs += [
                Output(request.id, query.index, repeat, text=text, finish_reason="stop")
                for repeat in range(query.settings.repeats)
            ]
        else:
            text = query.text if isinstance(query, RollingQuery) else query.continuation
            nats = -len(text) / 4.0 - 0.5 * query.index
            greedy = query.index == 0 if isinstance(query, LoglikelihoodQuery) else None
            n_tokens = max(1, len(text) // 4)
            outputs.append(Output(request.id, query.index, total_nats=nats, is_greedy=greedy, n_tokens=n_tokens))
    return tuple(outputs)


def _filter_text(pipeline: FilterSpec) -> FilterText:
    steps = []
    for step in pipeline.steps:
        name = f"!function {step.function.path}" if isinstance(step.function, FunctionRef) else step.function
        options = ", ".join(f"{key}={_option_text(value)}" for key, value in step.kwargs.items())
        steps.append(f"{name}({options})" if options else name)
    return FilterText(pipeline.name, tuple(steps))


def _option_text(value: object) -> str:
    return f"!function {value.path}" if isinstance(value, FunctionRef) else repr(value)


def _own_formula(task: Task, metric: str, function: FunctionRef) -> str:
    """Describe what a task's own function computes: by the metric's row, else by the function's docstring.

    Code is read only of our own library; other functions are named.
    """
    row = find_metric(metric)
    if row is not None and not row.output_types:
        return row.formula
    by = f"computed by the task's function {function.path}"
    summary = _summary(task, function)
    return f"{summary} ({by})" if summary else by


def _summary(task: Task, function: FunctionRef) -> str:
    """Describe what a function of our own library computes, as its docstring says it; empty for other code, unread."""
    if task.origin != "assaymark":
        return ""
    paragraph = (getdoc(load_function(function, task.trusted)) or "").partition("\n\n")[0]
    sentence = " ".join(paragraph.split()).rstrip(".").removeprefix("Return ")
    entry = re.fullmatch(r"\{\s*['\"]\w+['\"]: (.*)\}", sentence)  # of a function that returns one score by its name
    return entry[1] if entry else sentence


def _metric_texts(task: Task) -> Sequence[MetricText]:
    texts = []
    for metric in task.metrics:
        formula = formula_of(metric.name, task.output_type) or "see the task's own function"
        if task.process_results is not None:
            formula = _own_formula(task, metric.name, task.process_results)
        elif metric.function is not None:
            formula = metric.formula or f"computed by the task's function {metric.function.path}"
        how = metric.aggregation
        if isinstance(how, FunctionRef):
            how = _summary(task, how) or f"aggregated by the task's function {how.path}"
        texts.append(MetricText(metric.name, formula, how, metric.higher_is_better, metric.kwargs))
    return texts
