"""Does the wording decide? The same samples under many forms, system prompts and option orders.

Everything is paired: each form is asked of the same samples, so what differs is the form. The spread between forms
stands beside the spread that the same answers would show if forms made no difference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalstone.audit.forms import FORMS, Form, put
from evalstone.audit.items import Item, items_of
from evalstone.audit.option_orders import OptionOrders, option_orders, rotated
from evalstone.errors import DataError
from evalstone.models.model import Model
from evalstone.prompts.prompter import Render
from evalstone.records import LoglikelihoodAsk, Output, Request
from evalstone.scoring.choices import score_choices
from evalstone.statistics.intervals import wilson
from evalstone.statistics.prompt_spread import PromptSpread, RankAgreement, prompt_spread, rank_agreement
from evalstone.tasks.bound import BoundTask

__all__ = ["FormScore", "PromptAudit", "PromptVariant", "askable_items", "audit_prompts", "rank_changes"]

OWN = "as the task has it"
FEWEST = 2
ROTATED_FORM = next(form for form in FORMS if form.name == "letters: A.")
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PromptVariant:
    """The task bound to another system prompt."""

    name: str
    bound: BoundTask
    render: Render | None = None


@dataclass(frozen=True, slots=True)
class FormScore:
    """One form's accuracy."""

    name: str
    value: float
    low: float
    high: float
    metric: str  # acc or acc_norm


@dataclass(frozen=True, slots=True)
class PromptAudit:
    """One model on one task under many prompts."""

    model: str
    task: str
    n: int  # samples asked under every form
    n_left_out: int  # samples of which question or options could not be told from the prompt, or that failed
    forms: tuple[FormScore, ...]
    spread: PromptSpread
    letter_spread: PromptSpread | None  # among the forms that list options by letter or number
    cloze_spread: PromptSpread | None
    systems: tuple[FormScore, ...]
    system_spread: PromptSpread | None
    orders: OptionOrders | None  # None where options have no order to speak of


@dataclass(frozen=True, slots=True)
class RankChange:
    """Models' order on one task, form by form."""

    task: str
    models: tuple[str, ...]
    agreement: RankAgreement


def audit_prompts(
    model: Model,
    bound: BoundTask,
    systems: Sequence[PromptVariant] = (),
    *,
    told: Callable[[str], None] = lambda _: None,
) -> PromptAudit:
    """Ask a multiple choice task under every form, system prompt and cyclic option order.

    Args:
        model: asked for log-likelihoods only.
        bound: the task, without shots.
        systems: the same task under system prompts, in its own form; at least two to be compared.
        told: called with a line before each form.

    Raises: DataError where the task has no choices, or its questions cannot be told from its prompts.
    """
    items, usable = askable_items(bound)
    metric = "acc_norm" if any(each.name == "acc_norm" for each in bound.metrics) else "acc"
    asked = _Asked(model, usable, metric, told)
    columns = {OWN: asked.own({item.index: item.request for item in usable})}
    columns |= {form.name: column for form in FORMS if (column := asked.form(form)) is not None}
    by_system = {variant.name: asked.own(_requests(variant, usable)) for variant in systems}
    orders = asked.orders()
    names, table = _common(columns)
    spread = prompt_spread(table, name=(bound.plan.name, "forms"))
    system_names, system_table = _common(by_system) if by_system else ([], np.zeros((0, 0)))
    return PromptAudit(
        model=model.identity.name,
        task=bound.plan.name,
        n=len(table),
        n_left_out=len(items) - len(table),
        forms=_scores(names, table, metric),
        spread=spread,
        letter_spread=_part(names, table, lettered=True),
        cloze_spread=_part(names, table, lettered=False),
        systems=_scores(system_names, system_table, metric),
        system_spread=prompt_spread(system_table, name=(bound.plan.name, "systems")) if len(system_names) > 1 else None,
        orders=orders,
    )


def askable_items(bound: BoundTask) -> tuple[list[Item], list[Item]]:
    """Return a task's items, and those that can be put in every form; asks nothing.

    Raises: DataError if there are too few.
    """
    items = items_of(bound)
    usable = [item for item in items if item.has_options]
    if len(usable) < FEWEST:
        raise DataError(
            f"task {bound.plan.name}: question and options can be told apart in {len(usable)} of {len(items)} samples; "
            "audit prompts takes multiple choice tasks whose rows hold the question"
        )
    return items, usable


class _Asked:
    """Asks one model the same items in several ways; each way gives item index -> credit."""

    def __init__(self, model: Model, items: Sequence[Item], metric: str, told: Callable[[str], None]) -> None:
        self.model, self.items, self.metric, self.told = model, items, metric, told

    def own(self, requests: Mapping[int, Request]) -> dict[int, float]:
        """Return credits under the task's own wording."""
        self.told(OWN)
        nats = self._answer(list(requests.values()))
        by_index = {item.index: item for item in self.items}
        found = {}
        for index, request in requests.items():
            known = nats.get(request.id)
            if known is not None:
                texts = [ask.continuation.strip() for ask in request.asks if isinstance(ask, LoglikelihoodAsk)]
                found[index] = _credit(known, texts[: len(known)], by_index[index].gold, self.metric)
        return found

    def form(self, form: Form) -> dict[int, float] | None:
        """Return credits under a form; None where it does not fit all samples, or is the task's own."""
        made = {item.index: _put(form, item, item.options) for item in self.items}
        whole = {index: request for index, request in made.items() if request is not None}
        if len(whole) < len(made) or all(_is_same(whole[item.index], item.request) for item in self.items):
            return None
        self.told(form.name)
        nats = self._answer(list(whole.values()))
        metric = "acc" if form.is_lettered else self.metric
        return {
            item.index: _credit(known, item.options, item.gold, metric)
            for item in self.items
            if (known := nats.get(whole[item.index].id)) is not None
        }

    def orders(self) -> OptionOrders | None:
        """Return what comes of listing the options in every cyclic order, by letters."""
        self.told("option orders")
        requests: list[Request] = []
        ids: dict[int, list[str]] = {}
        for item in self.items:
            for shift in range(len(item.options)):
                request = _put(ROTATED_FORM, item, rotated(item.options, shift), turn=shift)
                if request is not None:
                    requests.append(request)
                    ids.setdefault(item.index, []).append(request.id)
        nats = self._answer(requests)
        picks, golds = [], []
        for item in self.items:
            found = [nats.get(each) for each in ids.get(item.index, ())]
            known = [values for values in found if values is not None]
            if known and len(known) == len(item.options):
                picks.append([int(np.argmax(values)) for values in known])
                golds.append(item.gold)
        return option_orders(picks, golds) if picks else None

    def _answer(self, requests: Sequence[Request]) -> dict[str, tuple[float, ...]]:
        """Return the choices' log-likelihoods of each request of which all were answered."""
        outputs: dict[str, dict[int, Output]] = {}
        for output in self.model.answer(requests):
            outputs.setdefault(output.request_id, {})[output.ask_index] = output
        found = {}
        for request in requests:
            choices = [ask for ask in request.asks if isinstance(ask, LoglikelihoodAsk) and ask.role == "choice"]
            values = [outputs[request.id][ask.index].total_nats for ask in choices]
            known = tuple(value for value in values if value is not None)
            if len(known) == len(choices):
                found[request.id] = known
        return found


def _requests(variant: PromptVariant, items: Sequence[Item]) -> dict[int, Request]:
    wanted = {item.index for item in items}
    return {
        sample.index: variant.bound.request(sample, variant.render)
        for sample in variant.bound.samples()
        if sample.index in wanted
    }


def _put(form: Form, item: Item, options: Sequence[str], turn: int = 0) -> Request | None:
    made = put(form, item.question or "", options)
    if made is None:
        return None
    prompt, answers = made
    asks = tuple(LoglikelihoodAsk(index, answer) for index, answer in enumerate(answers))
    return Request(item.request.task, item.index, item.request.sample_sha256, (prompt,), asks, turn=turn)


def _is_same(first: Request, second: Request) -> bool:
    asked = [
        (one.prompt, [ask.continuation for ask in one.asks if isinstance(ask, LoglikelihoodAsk)])
        for one in (first, second)
    ]
    return asked[0] == asked[1]


def _credit(nats: Sequence[float], texts: Sequence[str], gold: frozenset[int], metric: str) -> float:
    """Return what the pick is worth, ties sharing."""
    scores = score_choices(nats, [False] * len(nats), None, texts, sorted(gold), (metric,))
    return float(scores[metric].detail["credit"])


def _common(columns: Mapping[str, Mapping[int, float]]) -> tuple[list[str], Floats]:
    """Return the columns' names and the table [samples, columns] of the samples that every column has."""
    kept = sorted(set.intersection(*(set(column) for column in columns.values())))
    if len(kept) < FEWEST:
        raise DataError(f"{len(kept)} samples were answered under every form; a spread needs at least {FEWEST}")
    table = np.array([[column[index] for column in columns.values()] for index in kept])
    return list(columns), table


def _scores(names: Sequence[str], table: Floats, metric: str) -> tuple[FormScore, ...]:
    lettered = {form.name for form in FORMS if form.is_lettered}
    scores = []
    for name, column in zip(names, table.T, strict=True):
        interval = wilson(float(column.sum()), len(column))
        of_form = "acc" if name in lettered else metric
        scores.append(FormScore(name, float(column.mean()), interval.low, interval.high, of_form))
    return tuple(scores)


def _part(names: Sequence[str], table: Floats, *, lettered: bool) -> PromptSpread | None:
    """Return the spread among forms of one kind."""
    kinds = {form.name: form.is_lettered for form in FORMS}
    places = [place for place, name in enumerate(names) if kinds.get(name) is lettered]
    return prompt_spread(table[:, places], name=("kind", lettered)) if len(places) > 1 else None


def rank_changes(audits: Sequence[PromptAudit]) -> list[RankChange]:
    """Return, of each task that several models were asked, how their order changes from form to form."""
    changes = []
    for task in dict.fromkeys(audit.task for audit in audits):
        own = [audit for audit in audits if audit.task == task]
        if len(own) < 2:
            continue
        names = [form.name for form in own[0].forms if all(form.name in {f.name for f in a.forms} for a in own)]
        means = np.array([[next(f.value for f in audit.forms if f.name == name) for name in names] for audit in own])
        changes.append(RankChange(task, tuple(audit.model for audit in own), rank_agreement(means)))
    return changes
