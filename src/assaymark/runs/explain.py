"""Explanation of a task: its card, one prompt with its token boundaries, and how an output is scored."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from assaymark.documents.blocks import Block, Example, ExampleChoice, Paragraph, Piece
from assaymark.documents.document import Document, document
from assaymark.errors import DataError, MissingExtra, PlanError, UsageError
from assaymark.models.create import create_model
from assaymark.records import JsonValue, LoglikelihoodQuery, Output, Request
from assaymark.runs.prepare import split_names
from assaymark.scoring.metrics import find_metric
from assaymark.settings import data_folder
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.describe import WorkedSample, outline_task, work_sample
from assaymark.tasks.python_tasks import bind

SHOWN_TOKENS = 160  # at the end of the prompt
SHOWN_CHARACTERS = 1500
SHOWN_END = 300  # characters of an answer's beginning, and of its end
CARD_KEYS = (
    "title", "measures", "domain", "dataset", "split", "chance", "human", "licence", "known_faults", "citation",
)  # fmt: skip


class MetricExplanation(TypedDict):
    """The explanation of a metric."""

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


class TaskExplanation(_SampleFacts):
    """The explanation of a task, with one of its samples; the sample's values are None if it cannot be shown."""

    task: str
    version: str
    card: Mapping[str, object]
    request_type: str
    filters: Sequence[ExplainedFilter]
    metrics: Sequence[ExplainedMetric]
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


def metric_document(explanation: MetricExplanation) -> Document:
    """Return the explanation of a metric."""
    better = "higher" if explanation["higher_is_better"] else "lower"
    lines = [
        ("formula", explanation["formula"]),
        *((f"for {kind}", formula) for kind, formula in explanation["other_formulas"].items()),
        ("over samples", f"{explanation['aggregation']}, {better} is better"),
        (
            "computed for",
            ", ".join(explanation["output_types"]) or "tasks that name it, or whose own function returns it",
        ),
        *([("packages", ", ".join(explanation["packages"]))] if explanation["packages"] else []),
    ]
    note = f"a metric of one sample ({explanation['scale']})"
    return document(Example(explanation["metric"], lines=tuple(lines), note=note))


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
    outline = outline_task(task)
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
        **_sample_json(worked, model_args),
        "no_sample": why,
        "members": members[1:] and members,
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
    asked = query.continuation if isinstance(query, LoglikelihoodQuery) else None
    ends = {each.continuation for each in request.queries if isinstance(each, LoglikelihoodQuery)}
    if isinstance(query, LoglikelihoodQuery) and len(ends) == 1 < len(request.queries):  # contexts differ (WinoGrande)
        asked = "".join(query.segments or ()) + query.continuation
    return {"asked": asked, "total_nats": output.total_nats, "text": output.text}


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


def explanation_document(explanation: TaskExplanation) -> Document:
    """Return the description of a task, one of its prompts, and how an output is scored."""
    samples = "" if explanation["n_samples"] is None else f", {explanation['n_samples']:,} samples"
    members = explanation["members"]
    lines = [(key.replace("_", " "), _card_text(value)) for key, value in explanation["card"].items()]
    if members:
        lines.insert(0, ("group", f"{len(members)} tasks: {', '.join(members[:6])} ...; the first is shown"))
    without = [] if explanation["card"] else [Paragraph("no card: this task is not in Assaymark's library", "facts")]
    task = Example(explanation["task"], lines=tuple(lines), note=f"version {explanation['version']}{samples}")
    no_sample = explanation["no_sample"]
    prompt = Example("No sample can be shown", note=no_sample) if no_sample else _prompt(explanation)
    return document(task, without, prompt, _scoring(explanation))


def _both_ends(text: str) -> str:
    """Return a long text without its middle, since the answer of a solution is at its end."""
    return text if len(text) <= 2 * SHOWN_END else f"{text[:SHOWN_END]} ... {text[-SHOWN_END:]}"


def _card_text(value: JsonValue) -> str:
    if isinstance(value, list):
        return "; ".join(str(each).rstrip(".") for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{each}" for each in value.values() if each is not None)
    return str(value)


def _prompt(explanation: TaskExplanation) -> Example:
    hidden = f", and {explanation['hidden_shots']} in the prompt template itself" if explanation["hidden_shots"] else ""
    title = f"Prompt: {explanation['n_shots']} shots{hidden}"
    prompt, tokens = str(explanation["prompt"]), explanation["tokens"]
    if tokens is None:
        is_cut = len(prompt) > SHOWN_CHARACTERS
        note = f"its last {SHOWN_CHARACTERS:,} of {len(prompt):,} characters" if is_cut else ""
        how = ("token boundaries", "--model_args pretrained=DIR shows those of a model")
        return Example(title, (Piece(prompt[-SHOWN_CHARACTERS:]),), lines=(how,), note=note)
    texts, scored = tokens["texts"], tokens["scored_from"]
    note = f"its last {SHOWN_TOKENS} of {tokens['n']:,} tokens" if tokens["n"] > len(texts) else ""
    pieces = [
        piece
        for at, token in enumerate(texts)
        for piece in (Piece("|"), Piece(token, "changed" if at >= scored else ""))
    ]
    lines = (("token boundaries", f"| of {tokens['model']}"), ("scored", repr("".join(texts[scored:]))))
    return Example(title, (*pieces, Piece("|")), lines=lines, note=note)


def _scoring(explanation: TaskExplanation) -> list[Block]:
    lines = [("request", explanation["request_type"])]
    lines += [("filter", f"{each['name']}: {', then '.join(each['steps'])}") for each in explanation["filters"]]
    for metric in explanation["metrics"]:
        better = "higher" if metric["higher_is_better"] else "lower"
        lines.append(("metric", f"{metric['name']}: {metric['formula']}; {metric['aggregation']}, {better} is better"))
    if not explanation["metrics"]:
        lines.append(("metric", "no metric: outputs are stored, to be compared by a judge"))
    scoring = Example("Scoring", lines=tuple(lines))
    worked = explanation["worked"]
    if worked is None:
        return [scoring]
    choices = [
        ExampleChoice(
            _both_ends((answer["asked"] or answer["text"] or "").strip()),
            "" if answer["total_nats"] is None else f"{answer['total_nats']:.2f}",
            is_picked=False,
            is_gold=False,
        )
        for answer in worked["answers"]
    ]
    results = [("reference", worked["target"])]
    results += [("cannot be scored", worked["failure"])] if worked["failure"] else []
    for name, value in worked["scores"].items():
        results.append((name, "undefined for one sample" if value is None else f"{value:.4g}"))
    title = "Example on this sample, with made-up outputs"
    return [scoring, Example(title, choices=tuple(choices), lines=tuple(results))]
