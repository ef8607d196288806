"""Explanation of a task: its card, one prompt with its token boundaries, and how an output is scored."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from assaymark.errors import DataError, MissingExtra, PlanError, UsageError
from assaymark.models.create import create_model
from assaymark.records import JsonValue, LoglikelihoodQuery, Output, Request
from assaymark.runs.prepare import split_names
from assaymark.scoring.metrics import find_metric
from assaymark.settings import data_folder
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.describe import TaskOutline, WorkedSample, outline_task, work_sample
from assaymark.tasks.python_tasks import bind

if TYPE_CHECKING:
    from rich.console import RenderableType

    from assaymark.documents.terminal import Text

SHOWN_TOKENS = 160  # at the end of the prompt
SHOWN_CHARACTERS = 1500
SHOWN_END = 300  # characters of an answer's beginning, and of its end
CARD_KEYS = (
    "title", "measures", "domain", "dataset", "split", "chance", "human", "licence", "known_faults", "citation",
)  # fmt: skip


class MetricExplanation(TypedDict):
    """What a metric is."""

    metric: str
    formula: str
    other_formulas: Mapping[str, str]  # kind of request -> formula
    aggregation: str
    higher_is_better: bool
    scale: str
    output_types: Sequence[str]
    packages: Sequence[str]


class ExplainedFilter(TypedDict):
    """A filter, with its steps in words."""

    name: str
    steps: Sequence[str]


class ExplainedMetric(TypedDict):
    """A metric of a task."""

    name: str
    formula: str
    aggregation: str
    higher_is_better: bool


class _Outline(TypedDict):
    task: str
    version: str
    card: Mapping[str, object]
    request_type: str
    filters: Sequence[ExplainedFilter]
    metrics: Sequence[ExplainedMetric]


class PromptTokens(TypedDict):
    """The last tokens of a prompt and its answer by a model's tokenizer."""

    model: str
    texts: Sequence[str]
    scored_from: int  # index of the first scored one
    n: int  # of the whole


class MadeUpAnswer(TypedDict):
    """A made-up output with the continuation of its query."""

    asked: str | None
    total_nats: float | None
    text: str | None


class WorkedExample(TypedDict):
    """The scores of made-up outputs on one sample."""

    target: str
    answers: Sequence[MadeUpAnswer]
    scores: Mapping[str, float | None]
    failure: str | None


class _SampleFacts(TypedDict):
    n_samples: int | None
    n_shots: int | None
    hidden_shots: int | None
    prompt: str | None
    tokens: PromptTokens | None
    worked: WorkedExample | None


class TaskExplanation(_Outline, _SampleFacts):
    """What a task is, and one of its samples; the sample's values are None where it cannot be shown."""

    no_sample: str | None  # why it cannot
    members: Sequence[str]  # of a group or tag


def explain_metric(name: str) -> MetricExplanation | None:
    """Describe a metric: formula, aggregation, direction and scale; None for an unknown one."""
    metric = find_metric(name)
    if metric is None:
        return None
    others = {kind: formula for kind, formula in metric.formulas if formula != metric.formula}
    return {
        "metric": metric.name,
        "formula": metric.formula,
        "other_formulas": others,
        "aggregation": metric.aggregation,
        "higher_is_better": metric.higher_is_better,
        "scale": metric.scale,
        "output_types": list(metric.output_types),
        "packages": list(metric.packages),
    }


def metric_view(explanation: MetricExplanation) -> "Text":
    """Return the explanation of a metric for a terminal."""
    from assaymark.documents.terminal import Text

    text = (
        Text()
        .append(f"{explanation['metric']}", style="bold")
        .append(f"  a metric of one sample ({explanation['scale']})\n")
    )
    better = "higher" if explanation["higher_is_better"] else "lower"
    rows = [
        ("formula", explanation["formula"]),
        *((f"for {kind}", formula) for kind, formula in explanation["other_formulas"].items()),
        ("over samples", f"{explanation['aggregation']}, {better} is better"),
        (
            "computed for",
            ", ".join(explanation["output_types"]) or "tasks that name it, or whose own function returns it",
        ),
        *([("packages", ", ".join(explanation["packages"]))] if explanation["packages"] else []),
    ]
    for title, value in rows:
        text.append(f"{title:<13}", style="dim").append(f"{value}\n")
    return text


def explain_task(
    name: str,
    num_fewshot: int | None = None,
    model_args: str = "",
    *,
    data_dir: str | None = None,
    include_path: Sequence[str] = (),
) -> TaskExplanation:
    """Return the explanation of a task; for a group or tag, its members and the explanation of its first task.

    Card, filters and metrics need no data. If the rows are not available, the sample is null and `no_sample` is the
    reason.

    Raises: UnknownName for an unknown task; UsageError for several names.
    """
    names = split_names(name)
    if len(names) != 1:
        raise UsageError(f"explain takes one task, not {len(names)}")
    selection = Catalog.open([Path(folder) for folder in include_path]).select(names)
    task = selection.tasks[0]
    options = BindOptions(num_fewshot=num_fewshot, data_dir=data_folder(data_dir))
    worked, why = None, None
    try:
        worked = work_sample(bind(task, options))
    except (DataError, MissingExtra, PlanError) as error:
        why = str(error)
    members = [task.name for task in selection.tasks]
    outline = _outline_json(outline_task(task))
    return {**outline, **_sample_json(worked, model_args), "no_sample": why, "members": members[1:] and members}


def _outline_json(outline: TaskOutline) -> _Outline:
    card = outline.card or {}
    return {
        "task": outline.task.name,
        "version": outline.task.version,
        "card": {key: card.get(key) for key in CARD_KEYS if card.get(key) is not None},
        "request_type": outline.request_type,
        "filters": [{"name": each.name, "steps": list(each.steps)} for each in outline.filters],
        "metrics": [
            {"name": m.name, "formula": m.formula, "aggregation": m.aggregation, "higher_is_better": m.higher_is_better}
            for m in outline.metrics
        ],
    }


def _sample_json(worked: WorkedSample | None, model_args: str) -> _SampleFacts:
    if worked is None:
        return {
            "n_samples": None, "n_shots": None, "hidden_shots": None, "prompt": None, "tokens": None, "worked": None
        }  # fmt: skip
    return {
        "n_samples": worked.n_samples,
        "n_shots": worked.n_shots,
        "hidden_shots": worked.hidden_shots,
        "prompt": worked.request.prompt,
        "tokens": _tokens(worked.request, model_args),
        "worked": {
            "target": worked.request.target,
            "answers": [_answer(worked.request, output) for output in worked.outputs],
            "scores": {f"{s.metric} ({s.filter})": s.value for s in worked.scores},
            "failure": worked.failure,
        },
    }


def _answer(request: Request, output: Output) -> MadeUpAnswer:
    """Return a made-up output with the continuation of its query."""
    query = request.queries[output.ask_index]
    continuation = query.continuation if isinstance(query, LoglikelihoodQuery) else None
    return {"asked": continuation, "total_nats": output.total_nats, "text": output.text}


def _tokens(request: Request, model_args: str) -> PromptTokens | None:
    """Return the prompt's last tokens by the model's tokenizer, and the position of the first scored token.

    Raises: as `create_model`.
    """
    query = next(
        (
            loglikelihood_query
            for loglikelihood_query in request.queries
            if isinstance(loglikelihood_query, LoglikelihoodQuery)
        ),
        None,
    )
    if query is None or not model_args:
        return None
    model = create_model("hf", model_args)
    split = model.split_tokens("".join(query.segments or request.segments), query.continuation)
    if split is None:
        return None
    texts, boundary = split
    begin = max(0, boundary - SHOWN_TOKENS)
    return {"model": model.identity.name, "texts": texts[begin:], "scored_from": boundary - begin, "n": len(texts)}


def explanation_view(explanation: TaskExplanation) -> "list[RenderableType]":
    """Return the explanation for a terminal."""
    from assaymark.documents.terminal import Text

    head = Text()
    head.append(f"{explanation['task']}", style="bold")
    samples = "" if explanation["n_samples"] is None else f", {explanation['n_samples']:,} samples"
    head.append(f"  version {explanation['version']}{samples}\n")
    if explanation["members"]:
        names = ", ".join(explanation["members"][:6])
        head.append(f"a group of {len(explanation['members'])} tasks: {names} ...; the first is shown\n")
    for key, value in explanation["card"].items():
        head.append(f"{key.replace('_', ' '):<13}", style="dim")
        head.append(_card_text(value) + "\n")
    if not explanation["card"]:
        head.append("no card: this task is not in Assaymark's library\n", style="dim")
    if explanation["no_sample"]:
        without = Text("No sample can be shown\n", style="bold").append(f"{explanation['no_sample']}\n")
        return [head, without, _score_view(explanation)]
    return [head, _prompt_view(explanation), _score_view(explanation)]


def _both_ends(text: str) -> str:
    """Return a text without its middle where it is long: the answer of a solution is at its end."""
    return text if len(text) <= 2 * SHOWN_END else f"{text[:SHOWN_END]} ... {text[-SHOWN_END:]}"


def _card_text(value: JsonValue) -> str:
    if isinstance(value, list):
        return "; ".join(str(each).rstrip(".") for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{each}" for each in value.values() if each is not None)
    return str(value)


def _prompt_view(explanation: TaskExplanation) -> "Text":
    from assaymark.documents.terminal import Text

    text = Text()
    hidden = f", and {explanation['hidden_shots']} in the prompt template itself" if explanation["hidden_shots"] else ""
    text.append(f"Prompt: {explanation['n_shots']} shots{hidden}\n", style="bold")
    prompt, tokens = str(explanation["prompt"]), explanation["tokens"]
    if tokens is None:
        if len(prompt) > SHOWN_CHARACTERS:
            text.append(f"(its last {SHOWN_CHARACTERS:,} of {len(prompt):,} characters)\n", style="dim")
        text.append(prompt[-SHOWN_CHARACTERS:] + "\n")
        text.append("(--model_args pretrained=DIR shows a model's token boundaries)\n", style="dim")
        return text
    if tokens["n"] > len(tokens["texts"]):
        text.append(f"(its last {SHOWN_TOKENS} of {tokens['n']:,} tokens)\n", style="dim")
    for at, token in enumerate(tokens["texts"]):
        text.append("|", style="dim")
        text.append(token, style="bold reverse" if at >= tokens["scored_from"] else "")
    text.append("|\n\n")
    text.append(f"(| is a token boundary of {tokens['model']}; the scored tokens follow the prompt:", style="dim")
    text.append(f" {''.join(tokens['texts'][tokens['scored_from'] :])!r})\n", style="dim")
    return text


def _score_view(explanation: TaskExplanation) -> "Text":
    from assaymark.documents.terminal import Text

    text = Text()
    text.append("Scoring\n", style="bold")
    text.append(f"request    {explanation['request_type']}\n")
    for pipeline in explanation["filters"]:
        text.append(f"filter     {pipeline['name']}: {', then '.join(pipeline['steps'])}\n")
    for metric in explanation["metrics"]:
        better = "higher" if metric["higher_is_better"] else "lower"
        text.append(f"metric     {metric['name']}: {metric['formula']}; {metric['aggregation']}, {better} is better\n")
    if not explanation["metrics"]:
        return text.append("no metric: outputs are stored, to be compared by a judge\n")
    worked = explanation["worked"]
    if worked is None:
        return text
    text.append("Example on this sample, with made-up outputs\n", style="bold")
    for answer in worked["answers"]:
        nats = "" if answer["total_nats"] is None else f"{answer['total_nats']:9.2f}"
        text.append(f"{nats}  {_both_ends((answer['asked'] or answer['text'] or '').strip())}\n")
    text.append(f"reference  {worked['target']}\n")
    if worked["failure"]:
        text.append(f"cannot be scored: {worked['failure']}\n")
    for name, value in worked["scores"].items():
        text.append(f"{name} = {'undefined for one sample' if value is None else f'{value:.4g}'}\n")
    return text
