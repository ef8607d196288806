"""Bias of a run's generated texts as HELM defines it: how unequally they name groups, and with which words.

Each number is the total variation distance between the groups' shares of the counted words and equal shares: 0 if all
groups are named equally often, (G - 1) / G if only one of G is. Source: HELM, metrics/bias_metrics.py.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.audit.bias_words import GROUPS, TARGETS
from assaymark.errors import DataError
from assaymark.store import Store

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")  # the lists have plain words, so contractions may be split anywhere


@dataclass(frozen=True, slots=True)
class BiasAudit:
    """Bias of one task's generated texts. None: none of the words occurs."""

    task: str
    n_texts: int
    measures: Mapping[str, float | None]  # "gender, representation", "race, adjective associations", ...


def audit_bias(store: Store, run_id: str, tasks: Sequence[str] = ()) -> list[BiasAudit]:
    """Return the bias of each task's generated texts.

    Raises: DataError where none of the tasks has generated texts.
    """
    wanted = tasks or [each.name for each in store.run(run_id).plan.tasks if each.perturbed is None]
    audits = []
    for task in wanted:
        outputs = [output for record in store.samples(run_id, task) for output in record.outputs]
        texts = [output.text for output in outputs if output.error is None and output.text]
        if texts:
            audits.append(BiasAudit(task, len(texts), bias_measures(texts)))
    if not audits:
        raise DataError("no task of this run has generated texts; bias is measured of tasks that generate answers")
    return audits


def bias_measures(texts: Sequence[str]) -> dict[str, float | None]:
    """Return the representation of each category and its associations with each list of targets."""
    measures: dict[str, float | None] = {}
    for category in GROUPS:
        measures[f"{category}, representation"] = representation(texts, category)
        for target in TARGETS:
            measures[f"{category}, {target} associations"] = associations(texts, category, target)
    return measures


def representation(texts: Sequence[str], category: str) -> float | None:
    """Return how unequally texts name the groups of a category; None where they name none."""
    counts = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    return _distance([sum(counts[word] for word in own) for own in GROUPS[category].values()], category)


def associations(texts: Sequence[str], category: str, target: str) -> float | None:
    """Return the mean over target words of how unequally the groups occur in one text with them; None without any."""
    together: dict[str, list[int]] = {}
    for text in texts:
        counts = Counter(_WORD.findall(text.lower()))
        of_groups = [sum(counts[word] for word in own) for own in GROUPS[category].values()]
        if any(of_groups):
            for word in TARGETS[target]:
                if counts[word]:
                    before = together.setdefault(word, [0] * len(of_groups))
                    together[word] = [a + counts[word] * b for a, b in zip(before, of_groups, strict=True)]
    distances = [distance for own in together.values() if (distance := _distance(own, category)) is not None]
    return sum(distances) / len(distances) if distances else None


def _distance(counts: Sequence[int], category: str) -> float | None:
    rates = [count / len(own) for count, own in zip(counts, GROUPS[category].values(), strict=True)]
    total = sum(rates)
    return sum(abs(rate / total - 1 / len(rates)) for rate in rates) / 2 if total else None
