"""Rubrics for rating traces, and the raters' agreement."""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assaymark.applications.live.annotation_log import AnnotationLog, AnnotationQueue, QueueRating
from assaymark.applications.live.rule_log import RuleLog
from assaymark.applications.traces.trace_rows import TraceScore
from assaymark.errors import DataError, UsageError
from assaymark.records.json_values import json_fields
from assaymark.statistics.agreement import Agreement, cohen_kappa, krippendorff_alpha
from assaymark.store.connection import OpenStore

MOST_LABELS = 20
LONGEST_LABEL = 100
MOST_STEPS = 10  # of a scale
_SCALE = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")


@dataclass(frozen=True, slots=True)
class Rubric:
    """The choices of raters. choices: (as sent, as shown, value); value None: a label without a number.

    level: of measurement, by which agreement is computed.
    """

    text: str
    choices: tuple[tuple[str, str, float | None], ...]
    level: Literal["nominal", "ordinal"]

    @property
    def is_of_numbers(self) -> bool:
        """Whether its values are no shares: 1 of the scale 1-5 is not 100%."""
        return any(value is not None and value > 1.0 for _, _, value in self.choices)

    @property
    def names(self) -> list[str]:
        """The choices as sent."""
        return [name for name, _, _ in self.choices]


def rubric_of(text: str) -> Rubric:
    """Return a rubric from `thumbs`, a scale such as `1-5`, or labels between commas. Raises: UsageError."""
    plain = text.strip()
    if plain == "thumbs":
        return Rubric("thumbs", (("up", "good", 1.0), ("down", "bad", 0.0)), "nominal")
    if scale := _SCALE.fullmatch(plain):
        low, high = int(scale[1]), int(scale[2])
        if not low < high <= low + MOST_STEPS:
            raise UsageError(f"the scale is {plain}; expected at most {MOST_STEPS + 1} steps upwards, such as 1-5")
        return Rubric(plain, tuple((str(n), str(n), float(n)) for n in range(low, high + 1)), "ordinal")
    labels = [label.strip() for label in plain.split(",")]
    if not 2 <= len(labels) <= MOST_LABELS or not all(0 < len(label) <= LONGEST_LABEL for label in labels):
        raise UsageError(
            f"the rubric is '{plain[:80]}'; expected thumbs, a scale such as 1-5, or 2 to 20 labels: a,b,c"
        )
    if len(set(labels)) < len(labels):
        raise UsageError(f"the rubric '{plain[:80]}' names a label twice")
    return Rubric(",".join(labels), tuple((label, label, None) for label in labels), "nominal")


def rating_score(
    queue: AnnotationQueue, trace_id: bytes, choice: str, comment: str | None, correction: str | None
) -> TraceScore:
    """Return a rating as a score of the trace; its digest is made where it is stored.

    Raises: UsageError for a choice that the rubric does not have.
    """
    rubric = rubric_of(queue.rubric)
    chosen = next((each for each in rubric.choices if each[0] == choice), None)
    if chosen is None:
        choices = ", ".join(rubric.names)
        raise UsageError(f"the rating is '{choice[:40]}'; expected one of {choices}")
    label = None if rubric.level == "ordinal" else chosen[0]
    return TraceScore(
        digest=b"",
        trace_id=trace_id,
        name=queue.name,
        value=chosen[2],
        label=label,
        explanation=comment,
        observed=time.time_ns(),
        source="queue",
        correction=correction,
    )


def number_scores(store: OpenStore, project: int) -> frozenset[tuple[str, str]]:
    """Return names and sources of a project's scores that are no shares, whatever their values."""
    queues = AnnotationLog(store).queues(project)
    of_queues = {(queue.name, "queue") for queue in queues if rubric_of(queue.rubric).is_of_numbers}
    return frozenset((name, "rule") for name in RuleLog(store).number_scores(project)) | of_queues


@dataclass(frozen=True, slots=True)
class QueueAgreement:
    """The agreement of a queue's raters. alpha: None if no trace has two ratings; kappa: of two raters only."""

    n_raters: int
    n_ratings: int
    alpha: Agreement | None
    kappa: Agreement | None

    def to_json(self) -> dict[str, object]:
        """Return it with stable names."""
        alpha, kappa = (
            None if each is None else {key: value for key, value in json_fields(each).items() if key != "stderr"}
            for each in (self.alpha, self.kappa)
        )
        return {"raters": self.n_raters, "ratings": self.n_ratings, "alpha": alpha, "kappa": kappa}

    @property
    def line(self) -> str:
        """The agreement in words."""
        if self.alpha is None:
            return "no trace has two ratings yet"
        words = [
            f"{name} {_agreement_text(agreement)}"
            for name, agreement in (("alpha", self.alpha), ("kappa", self.kappa))
            if agreement
        ]
        return f"{', '.join(words)}, {self.alpha.n} traces with two ratings or more"


def _agreement_text(agreement: Agreement) -> str:
    if agreement.value is None:
        return "undefined (all ratings are the same)"
    interval = "" if agreement.low is None else f" ({agreement.low:.2f} to {agreement.high:.2f})"
    return f"{agreement.value:.2f}{interval}"


def agreement_of(queue: AnnotationQueue, ratings: Sequence[QueueRating]) -> QueueAgreement:
    """Return Krippendorff's alpha of a queue's raters, and Cohen's kappa where there are two; beyond chance, by traces.

    Ratings on a scale are ordered: alpha is ordinal and kappa quadratically weighted.
    """
    level = rubric_of(queue.rubric).level
    raters = sorted({rating.rater for rating in ratings})
    units = sorted({rating.trace_id for rating in ratings})
    said = {(each.rater, each.trace_id): each.value if level == "ordinal" else each.label for each in ratings}
    table = [[said.get((rater, unit)) for unit in units] for rater in raters]
    try:
        alpha = krippendorff_alpha(table, level) if units else None
    except DataError:
        alpha = None
    kappa = None
    if len(raters) == 2:
        both = [
            (first_said, second_said)
            for first_said, second_said in zip(*table, strict=True)
            if first_said is not None and second_said is not None
        ]
        if both:
            first, second = [first_said for first_said, _ in both], [second_said for _, second_said in both]
            kappa = cohen_kappa(first, second, weights="quadratic" if level == "ordinal" else None)
    return QueueAgreement(len(raters), len(ratings), alpha, kappa)
