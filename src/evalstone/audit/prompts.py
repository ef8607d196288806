"""Does the wording decide? The same samples under many forms, system prompts and option orders.

Everything is paired: each form is asked of the same samples, so what differs is the form. The spread between forms
stands beside the spread that the same answers would show if forms made no difference.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np

from evalstone.audit.forms import FORMS, Form, put
from evalstone.audit.items import Item, items_of, with_shots
from evalstone.audit.likelihoods import Likelihoods
from evalstone.audit.option_orders import OptionOrders, option_orders, rotated
from evalstone.errors import DataError
from evalstone.records import LoglikelihoodQuery, Render, Request
from evalstone.scoring.choices import score_choices
from evalstone.scoring.metrics import accuracies_over_choices
from evalstone.statistics.arrays import Floats
from evalstone.statistics.intervals import wilson
from evalstone.statistics.prompt_spread import PromptSpread, RankAgreement, prompt_spread, rank_agreement
from evalstone.tasks.bound import BoundTask

__all__ = ["FormScore", "PromptAudit", "PromptVariant", "askable_items", "audit_prompts", "rank_changes"]

OWN = "as the task has it"
ORDERS = "option orders"
BETWEEN_SHOTS = "\n\n"
FEWEST = 2
ROTATED_FORM = next(form for form in FORMS if form.name == "letters: A.")
TOLD_BY_TEXTS = accuracies_over_choices(without=("unconditional", "token counts"))


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
    metric: str  # one of TOLD_BY_TEXTS


@dataclass(frozen=True, slots=True)
class PromptAudit:
    """One model on one task under many prompts."""

    model: str
    task: str
    n: int  # samples asked under every form
    n_left_out: int  # samples of which question or options could not be told from the prompt, or that failed
    num_fewshot: int
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
    asked: Likelihoods,
    bound: BoundTask,
    systems: Sequence[PromptVariant] = (),
    *,
    told: Callable[[str], None] = lambda _: None,
) -> PromptAudit:
    """Ask a multiple choice task under every form, system prompt and cyclic option order.

    Args:
        asked: the model, asked for log-likelihoods only.
        bound: the task, with the shots that every form has in its own wording.
        systems: the same task under system prompts, in its own form; at least two to be compared.
        told: called with a line before each form.

    Raises: DataError where the task has no choices, or its questions cannot be told from its prompts; PlanError for
        shots that are not known.
    """
    items, usable = askable_items(bound)
    own = {each.name for each in bound.metrics}
    metric = next((name for name in TOLD_BY_TEXTS if name in own), "acc")
    asking = _Asked(asked, usable, metric, told)
    columns = {OWN: asking.own({item.index: item.request for item in usable})}
    columns |= {form.name: column for form in FORMS if (column := asking.form(form)) is not None}
    by_system = {one.name: asking.own(_requests(one, usable), f"system prompt: {one.name}") for one in systems}
    orders = asking.orders()
    names, table = _common(columns)
    return PromptAudit(
        model=asked.model.identity.name,
        task=bound.plan.name,
        n=len(table),
        n_left_out=len(items) - len(table),
        num_fewshot=bound.plan.num_fewshot,
        forms=_scores(names, table, metric),
        spread=prompt_spread(table, name=(bound.plan.name, "forms")),
        letter_spread=_part(names, table, lettered=True),
        cloze_spread=_part(names, table, lettered=False),
        orders=orders,
        **_of_systems(by_system, metric, bound.plan.name),
    )


class _Systems(TypedDict):
    systems: tuple[FormScore, ...]
    system_spread: PromptSpread | None


def _of_systems(columns: Mapping[str, Mapping[int, float]], metric: str, task: str) -> _Systems:
    if not columns:
        return {"systems": (), "system_spread": None}
    names, table = _common(columns)
    spread = prompt_spread(table, name=(task, "systems")) if len(names) > 1 else None
    return {"systems": _scores(names, table, metric), "system_spread": spread}


def askable_items(bound: BoundTask) -> tuple[list[Item], list[Item]]:
    """Return a task's items, and those that can be put in every form; asks nothing.

    Raises: DataError if there are too few; PlanError for shots that are not known.
    """
    items = with_shots(bound, items_of(bound))
    usable = [item for item in items if item.has_options]
    if len(usable) < FEWEST:
        raise DataError(
            f"task {bound.plan.name}: question and options can be told apart in {len(usable)} of {len(items)} samples; "
            "audit prompts takes multiple choice tasks whose rows hold the question"
        )
    return items, usable


class _Asked:
    """Asks one model the same items in several ways; each way gives item index -> credit."""

    def __init__(self, asked: Likelihoods, items: Sequence[Item], metric: str, told: Callable[[str], None]) -> None:
        self.asked, self.items, self.metric, self.told = asked, items, metric, told

    def own(self, requests: Mapping[int, Request], said: str = OWN) -> dict[int, float]:
        """Return credits under the task's own wording; `said` is the line that tells of it."""
        self.told(said)
        nats = self.asked.of_choices(list(requests.values()))
        by_index = {item.index: item for item in self.items}
        found = {}
        for index, request in requests.items():
            known = nats.get(request.id)
            if known is not None:
                texts = [
                    query.continuation.strip() for query in request.queries if isinstance(query, LoglikelihoodQuery)
                ]
                found[index] = _credit(known, texts[: len(known)], by_index[index].gold, self.metric)
        return found

    def form(self, form: Form) -> dict[int, float] | None:
        """Return credits under a form; None where it does not fit all samples, or is the task's own."""
        made = {item.index: _put(form, item, item.options) for item in self.items}
        whole = {index: request for index, request in made.items() if request is not None}
        if len(whole) < len(made) or all(_is_same(whole[item.index], item.request) for item in self.items):
            return None
        self.told(form.name)
        nats = self.asked.of_choices(list(whole.values()))
        metric = "acc" if form.is_lettered else self.metric
        return {
            item.index: _credit(known, item.options, item.gold, metric)
            for item in self.items
            if (known := nats.get(whole[item.index].id)) is not None
        }

    def orders(self) -> OptionOrders | None:
        """Return what comes of listing the options in every cyclic order, by letters."""
        self.told(ORDERS)
        requests: list[Request] = []
        ids: dict[int, list[str]] = {}
        for item in self.items:
            for shift in range(len(item.options)):
                request = _put(ROTATED_FORM, item, rotated(item.options, shift), ORDERS, shift)
                if request is not None:
                    requests.append(request)
                    ids.setdefault(item.index, []).append(request.id)
        nats = self.asked.of_choices(requests)
        picks, golds = [], []
        for item in self.items:
            found = [nats.get(each) for each in ids.get(item.index, ())]
            known = [values for values in found if values is not None]
            if known and len(known) == len(item.options):
                picks.append([int(np.argmax(values)) for values in known])
                golds.append(item.gold)
        return option_orders(picks, golds) if picks else None


def _requests(variant: PromptVariant, items: Sequence[Item]) -> dict[int, Request]:
    """Return the items' requests under a system prompt, named after it: the audit's other requests are of the task."""
    wanted = {item.index for item in items}
    name = f"{variant.bound.plan.name}: system prompt {variant.name}"
    return {
        sample.index: replace(variant.bound.request(sample, variant.render), task=name)
        for sample in variant.bound.samples()
        if sample.index in wanted
    }


def _put(form: Form, item: Item, options: Sequence[str], name: str = "", turn: int = 0) -> Request | None:
    """Return an item's request in a form, its shots in the same; None where the form has too few markers for one.

    `name` tells it from others of the item in this form, and `turn` those apart.
    """
    made = put(form, item.question or "", options)
    solved = [_solved(form, shot) for shot in item.shots]
    whole = [text for text in solved if text is not None]
    if made is None or len(whole) < len(solved):
        return None
    prompt, answers = made
    segments = (*([form.lead] if form.lead else []), *whole, prompt)
    queries = tuple(LoglikelihoodQuery(index, answer) for index, answer in enumerate(answers))
    task = f"{item.request.task}: {name or form.name}"
    return Request(task, item.index, item.request.sample_sha256, segments, queries, turn=turn, n_shots=len(whole))


def _solved(form: Form, shot: Item) -> str | None:
    made = put(form, shot.question or "", shot.options)
    return None if made is None else f"{made[0]}{made[1][min(shot.gold)]}{BETWEEN_SHOTS}"


def _is_same(first: Request, second: Request) -> bool:
    asked = [
        (one.prompt, [query.continuation for query in one.queries if isinstance(query, LoglikelihoodQuery)])
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
