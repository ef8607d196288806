"""Requests of a judging: one for each answer, or two for each pair of answers, one in each order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from assaymark.errors import UsageError
from assaymark.judges.judge_prompts import JudgePrompt, mark_for
from assaymark.judges.material import Item
from assaymark.models.model import Model
from assaymark.records import GenerateQuery, GenerationSettings, Message, QueryKind, Request, Sample

__all__ = ["SWAPPED", "Asked", "PromptWriter", "ask", "requests_of", "task_in_order"]

SWAPPED = ", swapped"  # of the tasks whose requests show the second run's answer first


@dataclass(frozen=True, slots=True)
class Asked:
    """An item with the requests about it: one, or one for each order of two answers."""

    item: Item
    requests: tuple[Request, ...]
    samples: tuple[Sample, ...]  # of the requests


def task_in_order(task: str, order: int) -> str:
    """Return the task name of requests in an order: 0 is the order of the runs, 1 the other one."""
    return task + SWAPPED if order else task


def requests_of(items: Sequence[Item], prompt: JudgePrompt, model: Model, *, seed: int, max_tokens: int) -> list[Asked]:
    """Return the requests about each item, for a model.

    Raises: UsageError if the model generates no text, or a prompt with a reference has an item without one.
    """
    if QueryKind.GENERATE not in model.answers:
        raise UsageError(f"{model.identity.name} generates no text, so it cannot be a judge")
    if prompt.reference and (lacking := next((one for one in items if one.reference is None), None)):
        raise UsageError(
            f"prompt '{prompt.name}' shows a reference answer, and {'/'.join(map(str, lacking.key))} has none; name "
            "its column with --reference, or use a prompt without reference"
        )
    settings = GenerationSettings(max_tokens=max_tokens)
    render = PromptWriter(model)
    return [_asked(item, prompt, render, settings, seed) for item in items]


def _asked(item: Item, prompt: JudgePrompt, render: "PromptWriter", settings: GenerationSettings, seed: int) -> Asked:
    requests, samples = [], []
    for order in range(2 if prompt.is_paired else 1):
        sample = replace(item.sample, task=task_in_order(item.sample.task, order))
        shown = tuple(reversed(item.shown)) if order else item.shown
        mark = mark_for(seed, order, *item.key, *(one.answers for one in shown))
        request = ask(prompt.messages(shown, mark, item.reference), render, settings, sample)
        requests.append(replace(request, turn=item.turn, target=item.reference or ""))
        samples.append(sample)
    return Asked(item, tuple(requests), tuple(samples))


def ask(messages: tuple[Message, ...], render: "PromptWriter", settings: GenerationSettings, sample: Sample) -> Request:
    """Return one request of a judge about a sample."""
    text = render(messages)
    segments = () if text is None else (text,)
    queries = (GenerateQuery(0, settings),)
    return Request(sample.task, sample.index, sample.sha256, segments, queries, messages)


class PromptWriter:
    """Writes messages as a model reads them: not at all for a server, else by its template, else as plain text."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._has_template = True

    def __call__(self, messages: Sequence[Message]) -> str | None:
        """Return the text to be continued; None where a server writes it from the messages."""
        if self._model.takes_messages:
            return None
        if self._has_template:
            try:
                return self._model.render(messages)
            except UsageError:  # a base model: it has no template
                self._has_template = False
        return "\n\n".join([*(message.text for message in messages), "Judgement:"])
