"""Assignment of comparisons to raters: balanced over pairs of models, sides and raters, in a random order for each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from assaymark.arena.answer_files import ArenaPrompt, StoredAnswers, answers_of_files
from assaymark.arena.studies.drafts import accepted_of, read_drafts
from assaymark.arena.studies.study_file import PlannedItem, StudyFile, StudyPlan
from assaymark.arena.studies.study_log import NewAssignment
from assaymark.errors import DataError, UnknownName
from assaymark.randomness import generator_for
from assaymark.registry import nearest

ANY = "generic"  # category of prompts without one
CHECKED = "attention check"


@dataclass(frozen=True, slots=True)
class AnswerPair:
    """Two models' answers to one prompt: `item` is the prompt's index in the plan."""

    item: int
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Design:
    """The plan that the store keeps, and each rater's assignments in order."""

    plan: StudyPlan
    assignments: Mapping[str, tuple[NewAssignment, ...]]
    n_comparisons: int
    notes: tuple[str, ...] = ()  # on answers and prompts that are left out


def design_study(study: StudyFile) -> Design:
    """Return the design of a study; the same file gives the same design.

    Raises: DataError if the raters' caps or the answers do not suffice, or if no drafted prompt is accepted;
        UnknownName for a model.
    """
    source, left_out = answers_of_files(study.answers)
    prompts, notes = _accepted(study, source)
    models = _models(study, source)
    items: list[PlannedItem] = []
    comparisons = _comparisons(study, source, models, prompts, items)
    n_places, n_needed = len(study.raters) * study.cap, len(comparisons) * study.ratings
    if study.ratings > len(study.raters):
        raise DataError(
            f"{study.study}: {study.ratings} ratings of each comparison by {len(study.raters)} raters; add raters"
        )
    if n_places < n_needed:
        more = -(-(n_needed - n_places) // study.cap)
        raise DataError(
            f"{study.study}: {len(comparisons)} comparisons with {study.ratings} ratings each need {n_needed} places, "
            f"and {len(study.raters)} raters with `cap: {study.cap}` have {n_places}; add {more} raters, raise `cap`, "
            "or lower `quotas`"
        )
    items += [
        {"prompt": check.prompt, "category": CHECKED, "answers": {"right": check.right, "wrong": check.wrong}}
        for check in study.checks
    ]
    dealt = _deal(study, comparisons)
    plan: StudyPlan = {
        "study": study.study, "title": study.title, "consent": study.consent, "models": list(models), "items": items,
        "questions": study.questions, "ratings": study.ratings, "cap": study.cap,
        "demographics": study.demographics, "seed": study.seed,
        "n_comparisons": len(comparisons),
    }  # fmt: skip
    if study.scales:
        plan["scales"] = study.scales
    if study.groups:
        plan["groups"] = list(study.groups)
    if study.group_quotas:
        plan["group_quotas"] = study.group_quotas
    ordered = {name: _ordered(study, name, own, len(items)) for name, own in dealt.items()}
    return Design(plan, ordered, len(comparisons), left_out + notes)


def _accepted(study: StudyFile, source: StoredAnswers) -> tuple[Sequence[ArenaPrompt], tuple[str, ...]]:
    """Return the prompts to compare, and lines on drafted ones that are not accepted or have no answers."""
    if study.prompts is None:
        return source.prompts, ()
    drafted = read_drafts(study.prompts)
    accepted = {candidate.prompt: candidate.category for candidate in accepted_of(study.prompts, drafted)}
    prompts = [replace(prompt, category=accepted[prompt.text]) for prompt in source.prompts if prompt.text in accepted]
    notes = []
    if n_left := len(drafted) - len(accepted):
        notes.append(f"{study.prompts.name}: {n_left} of {len(drafted)} prompts are not accepted, and left out")
    if n_open := len(accepted) - len(prompts):
        notes.append(f"{study.prompts.name}: {n_open} accepted prompts have no answers yet: `assaymark study ask`")
    if not prompts:
        raise DataError(
            f"{study.study}: no accepted prompt of {study.prompts.name} has answers in `answers`; ask models with "
            "`assaymark study ask`"
        )
    return prompts, tuple(notes)


def _models(study: StudyFile, source: StoredAnswers) -> tuple[str, ...]:
    for name in study.models:
        if name not in source.models:
            raise UnknownName("model with answers", name, nearest(name, source.models), ", ".join(source.models))
    return study.models or source.models


def _comparisons(
    study: StudyFile,
    source: StoredAnswers,
    models: Sequence[str],
    prompts: Sequence[ArenaPrompt],
    items: list[PlannedItem],
) -> list[AnswerPair]:
    """Return the comparisons of each category, and add their prompts to `items`."""
    generator = generator_for("study", study.study, "comparisons", study.seed)
    pairs = list(combinations(models, 2))
    by_category: dict[str, list[ArenaPrompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category or ANY, []).append(prompt)
    quotas = study.quotas or dict.fromkeys(by_category, len(pairs))
    for name in quotas:
        if name not in by_category:
            raise UnknownName("category of the answers", name, nearest(name, by_category), ", ".join(by_category))
    places: dict[str, int] = {}
    comparisons: list[AnswerPair] = []
    met: Counter[tuple[str, str]] = Counter()
    for category, quota in quotas.items():
        possible = [(prompt, pair) for prompt in by_category[category] for pair in pairs
                    if prompt.id in source.shared(*pair)]  # fmt: skip
        if len(possible) < quota:
            raise DataError(f"{study.study}: `quotas` asks for {quota} comparisons of '{category}'; the answers have "
                            f"{len(possible)}")  # fmt: skip
        used: Counter[str] = Counter()
        shuffled = [possible[int(index)] for index in generator.permutation(len(possible))]
        for _ in range(quota):
            prompt, pair = min(shuffled, key=lambda candidate: (met[candidate[1]], used[candidate[0].id]))
            shuffled.remove((prompt, pair))
            met[pair] += 1
            used[prompt.id] += 1
            if prompt.id not in places:
                places[prompt.id] = len(items)
                answers = {model: text for model in models if (text := source.answer(model, prompt.id)) is not None}
                items.append({"prompt": prompt.text, "category": category, "answers": answers})
            comparisons.append(AnswerPair(places[prompt.id], *pair))
    return comparisons


def _deal(study: StudyFile, comparisons: Sequence[AnswerPair]) -> dict[str, list[NewAssignment]]:
    """Give each comparison to as many raters as it needs: to those with the fewest, and each side first in turn."""
    generator = generator_for("study", study.study, "raters", study.seed)
    dealt: dict[str, list[NewAssignment]] = {name: [] for name in study.raters}
    shown_first: Counter[tuple[str, str]] = Counter()  # (pair as first, second): times that the first was on side A
    for comparison in comparisons:
        order = [study.raters[int(index)] for index in generator.permutation(len(study.raters))]
        chosen = sorted(order, key=lambda name: len(dealt[name]))[: study.ratings]
        for name in chosen:
            first, other = comparison.first, comparison.second
            ahead = shown_first[first, other] - shown_first[other, first]
            swap = ahead > 0 or (ahead == 0 and bool(generator.integers(2)))
            a, b = (other, first) if swap else (first, other)
            shown_first[a, b] += 1
            dealt[name].append(NewAssignment(comparison.item, a, b, None))
    return dealt


def _ordered(study: StudyFile, rater: str, own: Sequence[NewAssignment], n_items: int) -> tuple[NewAssignment, ...]:
    """Return a rater's assignments in a random order, with one attention check among them."""
    generator: np.random.Generator = generator_for("study", study.study, "order", rater, study.seed)
    order = [own[int(index)] for index in generator.permutation(len(own))]
    if study.checks and own:
        item = n_items - len(study.checks) + int(generator.integers(len(study.checks)))
        a, b = ("right", "wrong") if generator.integers(2) else ("wrong", "right")
        check = NewAssignment(item, a, b, "a" if a == "right" else "b")
        order.insert(int(generator.integers(len(order) + 1)), check)
    return tuple(order)
