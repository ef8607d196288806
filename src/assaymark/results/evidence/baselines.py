"""Baselines of multiple-choice tasks: random choice, the majority class, and the model without the question.

A score is informative above the highest of the three. The random baseline ("chance") is the mean of one over the number
of choices. The majority-class baseline always picks the position that is correct most often (yes-or-no questions are
rarely balanced); a model can follow it where all samples have the same choices (letters, yes and no), elsewhere only
through ties. The question-blind baseline is the same model evaluated without the questions, where that was requested.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from assaymark.records import BlindScore, CalibrationDetails, Estimate
from assaymark.results.evidence.groups import GroupCell
from assaymark.results.evidence.records import ScoreRow
from assaymark.scoring.choices import CIRCULAR, OVER_ROTATIONS

CONSTANT: Final = "best_constant"  # keys of an estimate's details
CONSTANT_CHOICE: Final = "best_constant_choice"
ONLY_CHOICE: Final = "only_choice"
CONSTANT_TEXT: Final = "best_constant_text"
BLIND: Final = "question_blind"
FEWEST_IN_MEMBER = 20  # samples: with fewer, a task's majority class is mostly chance, and so is a group's mean of them
MOST_OF_ONE = 0.75  # of the right choices at one position: with more, a model may well pick it alone


@dataclass(slots=True)
class ConstantAnswers:
    """Collects the gold choices while scores are read, and which ones the model picked."""

    _golds: dict[str, dict[int, tuple[int, ...]]] = field(default_factory=dict)  # task -> sample -> gold choices
    _texts: dict[str, tuple[str, ...] | None] = field(default_factory=dict)  # of a task's choices; None: they vary
    _picks: dict[tuple[str, str, str], Counter[int]] = field(default_factory=dict)  # task, metric, filter -> positions

    def watch(self, rows: Iterable[ScoreRow]) -> Iterator[ScoreRow]:
        """Yield the rows unchanged."""
        for row in rows:
            if row.gold:
                self._golds.setdefault(row.task, {})[row.sample_index] = row.gold
                self._texts[row.task] = _in_common(self._texts.get(row.task, row.choices), row.choices)
                if isinstance(row.detail, Mapping) and isinstance(picked := row.detail.get("picked"), int):
                    self._picks.setdefault((row.task, row.metric, row.filter), Counter())[picked] += 1
            yield row

    def text(self, task: str, position: int) -> str | None:
        """Return the choice's text at a position if all samples share it; None if they differ or there is only one."""
        texts = self._texts.get(task)
        is_known = texts is not None and position < len(texts) and len(self._golds[task]) > 1
        return " ".join(texts[position].split()) if texts is not None and is_known else None

    def only(self, estimate: Estimate) -> int | None:
        """Return the position of every choice that the model picked, where the right ones are at several."""
        picks, best = self._picks.get((estimate.task, estimate.metric, estimate.filter)), self.best(estimate.task)
        if picks is None or best is None or len(picks) > 1 or best[0] > MOST_OF_ONE:
            return None
        ((position, n),) = picks.items()
        return position if n >= FEWEST_IN_MEMBER else None

    def best(self, task: str) -> tuple[float, int] | None:
        """Return the score of always picking the best position, and that position; None without choices."""
        golds = self._golds.get(task)
        if not golds:
            return None
        counts: dict[int, int] = {}
        for gold in golds.values():
            for position in set(gold):
                counts[position] = counts.get(position, 0) + 1
        best = min(counts, key=lambda each: (-counts[each], each))
        return counts[best] / len(golds), best


def _in_common(known: tuple[str, ...] | None, choices: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the longer of two lists of choices if it begins with the other."""
    if known is None:
        return None
    short, long = sorted((known, choices), key=len)
    return long if short and long[: len(short)] == short else None


def with_baselines(
    estimates: Sequence[Estimate], constant: ConstantAnswers, blind: Mapping[str, Mapping[str, BlindScore]]
) -> tuple[Estimate, ...]:
    """Return the estimates with baselines in their details; a group's is its tasks' mean, weighted as its value.

    Args:
        estimates: of tasks, and groups before them.
        constant: what was collected from their scores.
        blind: task -> metric -> value, low, high and n, as in a run's fact `question_blind`.
    """
    extended: list[Estimate] = []
    for estimate in estimates:
        own: CalibrationDetails = {}
        if estimate.details.get("kind") == "task":
            own = _of_task(estimate, constant, blind)
        extended.append(replace(estimate, details={**estimate.details, **own}) if own else estimate)
    return tuple(_with_group_baselines(estimate, extended) for estimate in extended)


def _of_task(
    estimate: Estimate, constant: ConstantAnswers, blind: Mapping[str, Mapping[str, BlindScore]]
) -> CalibrationDetails:
    if estimate.chance is None or estimate.metric in {CIRCULAR, OVER_ROTATIONS}:  # no choice is right in all rotations
        return {}
    details: CalibrationDetails = {}
    best = constant.best(estimate.task)
    if best is not None:
        details = {CONSTANT: best[0], CONSTANT_CHOICE: best[1], CONSTANT_TEXT: constant.text(estimate.task, best[1])}
    if (only := constant.only(estimate)) is not None:
        details[ONLY_CHOICE] = only
    own_blind = blind.get(estimate.task, {}).get(estimate.metric)
    if own_blind is not None:
        details[BLIND] = own_blind
    return details


def _with_group_baselines(group: Estimate, estimates: Sequence[Estimate]) -> Estimate:
    if group.details.get("kind") != "group" or group.chance is None:
        return group
    leaves = [
        estimate
        for estimate in estimates
        if estimate.details.get("kind") == "task"
        and group.task in estimate.details.get("path", ())
        and (estimate.metric, estimate.filter) == (group.metric, group.filter)
    ]
    known = [leaf for leaf in leaves if leaf.details.get(CONSTANT) is not None]
    if not leaves or len(known) < len(leaves) or min(leaf.n for leaf in leaves) < FEWEST_IN_MEMBER:
        return group
    cell = GroupCell(group.metric, group.filter, (), group.details.get("weighting") == "micro")
    weights = cell.weights([leaf.n for leaf in known])
    mean = sum(weight * float(leaf.details[CONSTANT]) for weight, leaf in zip(weights, known, strict=True))
    return replace(group, details={**group.details, CONSTANT: mean})


def highest_baseline(estimate: Estimate) -> tuple[str, float] | None:
    """Return name and value of the highest baseline that a model can reach; None for a task without choices."""
    details = estimate.details
    blind, text = details.get(BLIND), details.get(CONSTANT_TEXT)
    baselines = {
        "chance": estimate.chance,
        f"always answering {text!r}": details.get(CONSTANT) if text is not None else None,
        "the question-blind model": blind["value"] if blind else None,
    }
    known = {name: value for name, value in baselines.items() if value is not None}
    return max(known.items(), key=lambda item: item[1]) if known else None
