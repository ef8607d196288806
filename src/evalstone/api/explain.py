"""A task told to people: its card, one prompt with its token boundaries, and how an answer becomes a score."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evalstone.errors import DataError, MissingExtra, PlanError, UsageError
from evalstone.models.create import create_model
from evalstone.records import JsonValue, LoglikelihoodQuery, Output, Request
from evalstone.runner.prepare import split_names
from evalstone.settings import data_folder
from evalstone.tasks.bind import bind
from evalstone.tasks.bound import BindOptions
from evalstone.tasks.catalog import Catalog
from evalstone.tasks.describe import TaskOutline, WorkedSample, outline_task, work_sample

if TYPE_CHECKING:
    from rich.console import RenderableType

    from evalstone.report.console import Text

SHOWN_TOKENS = 160  # of the prompt's end
SHOWN_CHARACTERS = 1500
CARD_KEYS = (
    "title", "measures", "domain", "dataset", "split", "chance", "human", "licence", "known_faults", "citation",
)  # fmt: skip


def explain_task(
    name: str,
    num_fewshot: int | None = None,
    model_args: str = "",
    *,
    data_dir: str | None = None,
    include_path: Sequence[str] = (),
) -> dict[str, JsonValue]:
    """Return what there is to say about a task; of a group or tag, its members and its first task.

    Card, filters and metrics need no data; where the rows cannot be had, `no_sample` says why and the sample is null.
    Raises: UnknownName for a task nobody knows; UsageError for several names.
    """
    names = split_names(name)
    if len(names) != 1:
        raise UsageError(f"explain takes one task; {len(names)} were named")
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


def _outline_json(outline: TaskOutline) -> dict[str, JsonValue]:
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


def _sample_json(worked: WorkedSample | None, model_args: str) -> dict[str, JsonValue]:
    if worked is None:
        return dict.fromkeys(("n_samples", "n_shots", "hidden_shots", "prompt", "tokens", "worked"))
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


def _answer(request: Request, output: Output) -> dict[str, JsonValue]:
    """Return a made-up output beside what it answers."""
    query = request.queries[output.ask_index]
    asked = query.continuation if isinstance(query, LoglikelihoodQuery) else None
    return {"asked": asked, "total_nats": output.total_nats, "text": output.text}


def _tokens(request: Request, model_args: str) -> dict[str, JsonValue] | None:
    """Return the prompt's last tokens and where the scored ones begin, under the tokenizer of the model named.

    Raises: as `create_model`.
    """
    query = next((a for a in request.queries if isinstance(a, LoglikelihoodQuery)), None)
    if query is None or not model_args:
        return None
    model = create_model("hf", model_args)
    split = model.split_tokens("".join(query.segments or request.segments), query.continuation)
    if split is None:
        return None
    texts, boundary = split
    begin = max(0, boundary - SHOWN_TOKENS)
    return {"model": model.identity.name, "texts": texts[begin:], "scored_from": boundary - begin, "n": len(texts)}


def explanation_view(found: Mapping[str, JsonValue]) -> "list[RenderableType]":
    """Return the explanation for a terminal."""
    from evalstone.report.console import Text

    head = Text()
    head.append(f"{found['task']}", style="bold")
    samples = "" if found["n_samples"] is None else f", {found['n_samples']:,} samples"
    head.append(f"  version {found['version']}{samples}\n")
    if found["members"]:
        shown = ", ".join(found["members"][:6])
        head.append(f"a group of {len(found['members'])} tasks: {shown} ...; shown is the first\n")
    for key, value in found["card"].items():
        head.append(f"{key.replace('_', ' '):<13}", style="dim")
        head.append(_card_text(value) + "\n")
    if not found["card"]:
        head.append("no card: this task is not of our library\n", style="dim")
    if found["no_sample"]:
        without = Text("No sample can be shown\n", style="bold").append(f"{found['no_sample']}\n")
        return [head, without, _score_view(found)]
    return [head, _prompt_view(found), _score_view(found)]


def _card_text(value: JsonValue) -> str:
    if isinstance(value, list):
        return "; ".join(str(each) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{each}" for each in value.values() if each is not None)
    return str(value)


def _prompt_view(found: Mapping[str, JsonValue]) -> "Text":
    from evalstone.report.console import Text

    text = Text()
    hidden = f", and {found['hidden_shots']} hidden in the prompt itself" if found["hidden_shots"] else ""
    text.append(f"How it is asked: {found['n_shots']} shots{hidden}\n", style="bold")
    prompt, tokens = str(found["prompt"]), found["tokens"]
    if tokens is None:
        if len(prompt) > SHOWN_CHARACTERS:
            text.append(f"(its last {SHOWN_CHARACTERS:,} of {len(prompt):,} characters)\n", style="dim")
        text.append(prompt[-SHOWN_CHARACTERS:] + "\n")
        text.append("(--model_args pretrained=DIR shows it in a model's tokens)\n", style="dim")
        return text
    if tokens["n"] > len(tokens["texts"]):
        text.append(f"(its last {SHOWN_TOKENS} of {tokens['n']:,} tokens)\n", style="dim")
    for at, token in enumerate(tokens["texts"]):
        text.append("|", style="dim")
        text.append(token, style="bold reverse" if at >= tokens["scored_from"] else "")
    text.append("|\n\n")
    text.append(f"(| is a token boundary of {tokens['model']}; the scored tokens come after the prompt:", style="dim")
    text.append(f" {''.join(tokens['texts'][tokens['scored_from'] :])!r})\n", style="dim")
    return text


def _score_view(found: Mapping[str, JsonValue]) -> "Text":
    from evalstone.report.console import Text

    text = Text()
    text.append("How an answer becomes a score\n", style="bold")
    text.append(f"asked      {found['request_type']}\n")
    for pipeline in found["filters"]:
        text.append(f"filter     {pipeline['name']}: {', then '.join(pipeline['steps'])}\n")
    for metric in found["metrics"]:
        better = "higher" if metric["higher_is_better"] else "lower"
        text.append(f"metric     {metric['name']}: {metric['formula']}; {metric['aggregation']}, {better} is better\n")
    if not found["metrics"]:
        return text.append("no metric: answers are stored, and what they are worth is for a judge to say\n")
    worked = found["worked"]
    if worked is None:
        return text
    text.append("Worked on this sample, with made-up answers\n", style="bold")
    for answer in worked["answers"]:
        nats = "" if answer["total_nats"] is None else f"{answer['total_nats']:9.2f}"
        text.append(f"{nats}  {(answer['asked'] or answer['text'] or '').strip()[:100]}\n")
    text.append(f"reference  {worked['target']}\n")
    if worked["failure"]:
        text.append(f"cannot be scored: {worked['failure']}\n")
    for name, value in worked["scores"].items():
        text.append(f"{name} = {'undefined for one sample' if value is None else f'{value:.4g}'}\n")
    return text
