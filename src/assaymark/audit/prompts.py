"""Prompt sensitivity: the same samples under many prompt variants, system prompts and option orders.

All comparisons are paired: each variant is evaluated on the same samples, so only the prompt differs. The spread
between variants is reported with the spread that the same answers would show if the wording had no effect.

Prompt variants are the wordings of a multiple-choice question, as data. There are two kinds, which differ most
according to the literature: the answer is the option's text after the question alone (cloze), or the letter or number
of an option that the prompt lists.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypedDict

import numpy as np

from assaymark.audit.items import AuditItem, items_of, with_shots
from assaymark.audit.likelihoods import Likelihoods
from assaymark.audit.option_orders import OptionOrders, option_orders
from assaymark.errors import DataError
from assaymark.prompts.rotations import rotated
from assaymark.records import LoglikelihoodQuery, Render, Request, content_hash
from assaymark.scoring.choices import score_choices
from assaymark.scoring.metrics import accuracies_over_choices
from assaymark.statistics.arrays import Floats
from assaymark.statistics.intervals import wilson
from assaymark.statistics.prompt_spread import PromptSpread, RankAgreement, prompt_spread, rank_agreement
from assaymark.tasks.bound import BoundTask


@dataclass(frozen=True, slots=True)
class Variant:
    """One wording. `{q}` is replaced by the question and `{o}` by the listed options; an option line has `{m}`, `{o}`.

    Field names and values are hashed (`variants_hash`): changing one makes stored audits different audits.
    """

    name: str
    prompt: str
    markers: str = ""  # numbers the options; empty: the answer is the option's text
    line: str = ""  # one listed option; empty: options are not shown
    answer: str = " {a}"  # `{a}` is replaced by the marker or the option
    lead: str = ""  # occurs once, before shots and question

    @property
    def is_lettered(self) -> bool:
        """Whether the answer is a marker, not the option's text."""
        return bool(self.markers)


LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NUMBERS = "123456789"

VARIANTS: tuple[Variant, ...] = (
    Variant("cloze: bare", "{q}"),
    Variant("cloze: Answer", "{q}\nAnswer:"),
    Variant("cloze: Question, Answer", "Question: {q}\nAnswer:"),
    Variant("cloze: Q, A", "Q: {q}\nA:"),
    Variant("cloze: the answer is", "{q}\nThe answer is"),
    Variant("cloze: capitals", "QUESTION: {q}\nANSWER:"),
    Variant("listed: options, then text", "Question: {q}\nOptions:{o}\nAnswer:", line="\n- {o}"),
    Variant("letters: A.", "{q}{o}\nAnswer:", LETTERS, "\n{m}. {o}"),
    Variant("letters: (A)", "Question: {q}{o}\nAnswer:", LETTERS, "\n({m}) {o}", " ({a})"),
    Variant(
        "letters: A) instructed",
        "{q}{o}\nThe right answer is",
        LETTERS,
        "\n{m}) {o}",
        lead="Choose the right answer.\n\n",
    ),
    Variant("letters: lower case", "Question: {q}{o}\nAnswer:", LETTERS.lower(), "\n{m}. {o}"),
    Variant("numbers: 1.", "Question: {q}{o}\nAnswer:", NUMBERS, "\n{m}. {o}"),
)


def variants_hash() -> str:
    """Return the hash of all variants' wording: other variants make another audit."""
    return content_hash([asdict(variant) for variant in VARIANTS])


def apply_variant(variant: Variant, question: str, options: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the prompt without its lead, and one continuation per option; None if there are too few markers.

    The options' text is not changed.
    """
    if variant.is_lettered and len(options) > len(variant.markers):
        return None
    markers = variant.markers or " " * len(options)
    listed = "".join(variant.line.format(m=mark, o=text) for mark, text in zip(markers, options, strict=False))
    prompt = variant.prompt.replace("{o}", listed, 1).replace("{q}", question, 1)
    answers = markers[: len(options)] if variant.is_lettered else options
    return prompt, tuple(variant.answer.replace("{a}", text) for text in answers)


OWN = "as the task has it"
ORDERS = "option orders"
BETWEEN_SHOTS = "\n\n"
FEWEST = 2
ROTATED_VARIANT = next(variant for variant in VARIANTS if variant.name == "letters: A.")
KNOWN_BY_TEXTS = accuracies_over_choices(without=("unconditional", "token counts"))


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """The task bound with another system prompt."""

    name: str
    bound: BoundTask
    render: Render | None = None


@dataclass(frozen=True, slots=True)
class VariantScore:
    """Accuracy under one prompt variant or system prompt."""

    name: str
    value: float
    low: float
    high: float
    metric: str  # one of TOLD_BY_TEXTS


@dataclass(frozen=True, slots=True)
class PromptAudit:
    """Results of one model on one task under many prompts. Field names are stored with the audit."""

    model: str
    task: str
    n: int  # samples evaluated under every prompt variant
    n_left_out: int  # samples excluded: question or options could not be separated from the prompt, or a query failed
    num_fewshot: int
    forms: tuple[VariantScore, ...]
    spread: PromptSpread
    letter_spread: PromptSpread | None  # among the variants that list options by letter or number
    cloze_spread: PromptSpread | None
    systems: tuple[VariantScore, ...]
    system_spread: PromptSpread | None
    orders: OptionOrders | None  # None if no sample was answered in all orders


@dataclass(frozen=True, slots=True)
class RankChange:
    """How the models' ranks on one task change between prompt variants."""

    task: str
    models: tuple[str, ...]
    agreement: RankAgreement


def audit_prompts(
    likelihoods: Likelihoods,
    bound: BoundTask,
    systems: Sequence[SystemPrompt] = (),
    *,
    notify: Callable[[str], None] = lambda _: None,
) -> PromptAudit:
    """Evaluate a multiple-choice task under every prompt variant, system prompt and cyclic option order.

    Args:
        likelihoods: the model, queried for log-likelihoods only.
        bound: the task, with the shots that every variant words in its own way.
        systems: the same task under system prompts, in its own wording; at least two to be compared.
        notify: called with a line before each variant.

    Raises: DataError if the task has no choices, or its questions cannot be separated from its prompts; PlanError for
        shots that are not known.
    """
    items, usable = eligible_items(bound)
    own = {each.name for each in bound.metrics}
    metric = next((name for name in KNOWN_BY_TEXTS if name in own), "acc")
    evaluator = _Evaluator(likelihoods, usable, metric, notify)
    columns = {OWN: evaluator.own({item.index: item.request for item in usable})}
    columns |= {variant.name: column for variant in VARIANTS if (column := evaluator.variant(variant)) is not None}
    by_system = {
        prompt.name: evaluator.own(_requests(prompt, usable), f"system prompt: {prompt.name}") for prompt in systems
    }
    orders = evaluator.orders()
    names, table = _common(columns)
    return PromptAudit(
        model=likelihoods.model.identity.name,
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
    systems: tuple[VariantScore, ...]
    system_spread: PromptSpread | None


def _of_systems(columns: Mapping[str, Mapping[int, float]], metric: str, task: str) -> _Systems:
    if not columns:
        return {"systems": (), "system_spread": None}
    names, table = _common(columns)
    spread = prompt_spread(table, name=(task, "systems")) if len(names) > 1 else None
    return {"systems": _scores(names, table, metric), "system_spread": spread}


def eligible_items(bound: BoundTask) -> tuple[list[AuditItem], list[AuditItem]]:
    """Return a task's items, and those that every prompt variant can word; without a query to the model.

    Raises: DataError if there are too few; PlanError for shots that are not known.
    """
    items = with_shots(bound, items_of(bound))
    usable = [item for item in items if item.has_options]
    if len(usable) < FEWEST:
        raise DataError(
            f"task {bound.plan.name}: question and options can be separated in {len(usable)} of {len(items)} samples; "
            "audit prompts needs multiple-choice tasks whose rows contain the question"
        )
    return items, usable


class _Evaluator:
    """Evaluates one model on the same items under several prompts; each method returns item index -> credit."""

    def __init__(
        self, likelihoods: Likelihoods, items: Sequence[AuditItem], metric: str, notify: Callable[[str], None]
    ) -> None:
        self.likelihoods, self.items, self.metric, self.notify = likelihoods, items, metric, notify

    def own(self, requests: Mapping[int, Request], line: str = OWN) -> dict[int, float]:
        """Return credits under the task's own wording; `line` is reported before the model is queried."""
        self.notify(line)
        nats = self.likelihoods.of_choices(list(requests.values()))
        by_index = {item.index: item for item in self.items}
        by_sample = {}
        for index, request in requests.items():
            known = nats.get(request.id)
            if known is not None:
                texts = [
                    query.continuation.strip() for query in request.queries if isinstance(query, LoglikelihoodQuery)
                ]
                by_sample[index] = _credit(known, texts[: len(known)], by_index[index].gold, self.metric)
        return by_sample

    def variant(self, variant: Variant) -> dict[int, float] | None:
        """Return credits under a prompt variant; None if it does not fit all samples, or is the task's own wording."""
        made = {item.index: worded(variant, item, item.options) for item in self.items}
        whole = {index: request for index, request in made.items() if request is not None}
        if len(whole) < len(made) or all(_is_same(whole[item.index], item.request) for item in self.items):
            return None
        self.notify(variant.name)
        nats = self.likelihoods.of_choices(list(whole.values()))
        metric = "acc" if variant.is_lettered else self.metric
        return {
            item.index: _credit(known, item.options, item.gold, metric)
            for item in self.items
            if (known := nats.get(whole[item.index].id)) is not None
        }

    def orders(self) -> OptionOrders | None:
        """Return the results with the options listed by letter in every cyclic order."""
        self.notify(ORDERS)
        requests: list[Request] = []
        ids: dict[int, list[str]] = {}
        for item in self.items:
            for shift in range(len(item.options)):
                request = worded(ROTATED_VARIANT, item, rotated(item.options, shift), ORDERS, shift)
                if request is not None:
                    requests.append(request)
                    ids.setdefault(item.index, []).append(request.id)
        nats = self.likelihoods.of_choices(requests)
        picks, golds = [], []
        for item in self.items:
            of_orders = [nats.get(each) for each in ids.get(item.index, ())]
            known = [values for values in of_orders if values is not None]
            if known and len(known) == len(item.options):
                picks.append([int(np.argmax(values)) for values in known])
                golds.append(item.gold)
        return option_orders(picks, golds) if picks else None


def _requests(variant: SystemPrompt, items: Sequence[AuditItem]) -> dict[int, Request]:
    """Return the items' requests under a system prompt, named after it to distinguish them from the audit's others."""
    wanted = {item.index for item in items}
    name = f"{variant.bound.plan.name}: system prompt {variant.name}"
    return {
        sample.index: replace(variant.bound.request(sample, variant.render), task=name)
        for sample in variant.bound.samples()
        if sample.index in wanted
    }


def worded(variant: Variant, item: AuditItem, options: Sequence[str], name: str = "", turn: int = 0) -> Request | None:
    """Return an item's request in a variant's wording, shots included; None if a question has too many options.

    `name` and `turn` distinguish several requests of one item in the same variant.
    """
    made = apply_variant(variant, item.question or "", options)
    solved = [_solved(variant, shot) for shot in item.shots]
    whole = [text for text in solved if text is not None]
    if made is None or len(whole) < len(solved):
        return None
    prompt, answers = made
    segments = (*([variant.lead] if variant.lead else []), *whole, prompt)
    queries = tuple(LoglikelihoodQuery(index, answer) for index, answer in enumerate(answers))
    task = f"{item.request.task}: {name or variant.name}"
    return Request(task, item.index, item.request.sample_sha256, segments, queries, turn=turn, n_shots=len(whole))


def _solved(variant: Variant, shot: AuditItem) -> str | None:
    made = apply_variant(variant, shot.question or "", shot.options)
    return None if made is None else f"{made[0]}{made[1][min(shot.gold)]}{BETWEEN_SHOTS}"


def _is_same(first: Request, second: Request) -> bool:
    contents = [
        (request.prompt, [query.continuation for query in request.queries if isinstance(query, LoglikelihoodQuery)])
        for request in (first, second)
    ]
    return contents[0] == contents[1]


def _credit(nats: Sequence[float], texts: Sequence[str], gold: frozenset[int], metric: str) -> float:
    """Return the credit of the model's pick; tied choices share it."""
    scores = score_choices(nats, [False] * len(nats), None, texts, sorted(gold), (metric,))
    return float(scores[metric].detail["credit"])


def _common(columns: Mapping[str, Mapping[int, float]]) -> tuple[list[str], Floats]:
    """Return the columns' names and the table [samples, columns] of the samples that all columns have."""
    common = sorted(set.intersection(*(set(column) for column in columns.values())))
    if len(common) < FEWEST:
        raise DataError(
            f"{len(common)} samples were answered under every prompt variant; a spread needs at least {FEWEST}"
        )
    table = np.array([[column[index] for column in columns.values()] for index in common])
    return list(columns), table


def _scores(names: Sequence[str], table: Floats, metric: str) -> tuple[VariantScore, ...]:
    lettered = {variant.name for variant in VARIANTS if variant.is_lettered}
    scores = []
    for name, column in zip(names, table.T, strict=True):
        interval = wilson(float(column.sum()), len(column))
        of_variant = "acc" if name in lettered else metric
        scores.append(VariantScore(name, float(column.mean()), interval.low, interval.high, of_variant))
    return tuple(scores)


def _part(names: Sequence[str], table: Floats, *, lettered: bool) -> PromptSpread | None:
    """Return the spread among prompt variants of one kind."""
    kinds = {variant.name: variant.is_lettered for variant in VARIANTS}
    chosen = [index for index, name in enumerate(names) if kinds.get(name) is lettered]
    return prompt_spread(table[:, chosen], name=("kind", lettered)) if len(chosen) > 1 else None


def rank_changes(audits: Sequence[PromptAudit]) -> list[RankChange]:
    """Return the change of ranks between prompt variants, for each task on which several models were evaluated."""
    changes = []
    for task in dict.fromkeys(audit.task for audit in audits):
        own = [audit for audit in audits if audit.task == task]
        if len(own) < 2:
            continue
        names = [score.name for score in own[0].forms if all(score.name in {f.name for f in a.forms} for a in own)]
        means = np.array([[next(f.value for f in audit.forms if f.name == name) for name in names] for audit in own])
        changes.append(RankChange(task, tuple(audit.model for audit in own), rank_agreement(means)))
    return changes
