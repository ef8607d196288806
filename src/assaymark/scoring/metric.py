"""What is known of a metric, the decorators by which other packages add metrics and steps of filters, and names.

    [project.entry-points."assaymark.metrics"]
    first_word_match = "my_package.metrics:first_word_match"

A task file then names them as it names ours: `metric: first_word_match`. The bytes of the module count into the hash of
the tasks that use them, so that an edited metric is another scoring.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

__all__ = [
    "ANY_CALL",
    "BRIER",
    "CALIBRATION",
    "CALL_MATCH",
    "CONFIDENCE",
    "GENERATE",
    "LOGLIKELIHOOD",
    "MULTIPLE_CHOICE",
    "ROLLING",
    "TIES",
    "TOOL_CALLS",
    "Metric",
    "facts_of",
    "filter_step",
    "metric",
]


MULTIPLE_CHOICE = "multiple_choice"
LOGLIKELIHOOD, ROLLING = "loglikelihood", "loglikelihood_rolling"
GENERATE = "generate_until"
TOOL_CALLS, CALL_MATCH, ANY_CALL = "tool_calls", "call_match", "any_call"  # generate_until with function calls
BRIER, CONFIDENCE, TIES = "brier", "confidence", "acc_ties"
CALIBRATION = (BRIER, CONFIDENCE)

Scale = Literal["right or wrong", "share", "number"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: the meaning of a sample's score, and how scores are aggregated."""

    name: str  # the row `pass@k` is for pass@1, pass@10 and so on
    formula: str  # of one sample's score, or of the aggregate where it is not a mean
    formulas: tuple[tuple[str, str], ...] = ()  # (output type, formula) where that differs
    output_types: tuple[str, ...] = ()  # those for which `scoring` computes it; none: a task's function or another tool
    default_for: tuple[str, ...] = ()  # output types whose tasks have it if their file lists no metrics
    aggregation: str = "mean"  # a name of `statistics.aggregate.AGGREGATIONS`; a task file may name another
    higher_is_better: bool = True
    scale: Scale = "share"  # of a sample's score: 0 or 1; within [0, 1], shown as per cent; or any number
    preference: int | None = None  # the primary metric of a task whose card names none has the smallest
    is_auxiliary: bool = False  # computed for the details of others; has no row of its own in tables
    picks_choice: bool = False  # whether it scores if the best choice, by some measure, is gold
    length: Literal["characters", "bytes", "tokens"] | None = None  # unit of length that divides log-likelihoods
    needs: tuple[Literal["unconditional", "token counts"], ...] = ()  # besides the choices' log-likelihoods
    collects_texts: bool = False  # a sample contributes (reference, prediction); only the corpus has a value
    measures_text: bool = False  # whether it measures the probability of a given text
    is_of_call: bool = False  # known of each call of an application, as the field of that name
    packages: tuple[str, ...] = ()  # optional packages without which it cannot be computed
    bounds: tuple[float, float] | None = None  # of the aggregate, where they are not those of the scale
    in_lm_eval: bool = True  # whether lm-evaluation-harness has it under this name
    per_cent_in: tuple[str, ...] = ()  # tools whose files report it in per cent

    @property
    def is_share(self) -> bool:
        """Whether values are in [0, 1] and shown as per cent."""
        return self.scale != "number"

    @property
    def value_range(self) -> tuple[float, float]:
        """The least and the largest value that the aggregate can have."""
        if self.bounds is not None:
            return self.bounds
        return (0.0, 1.0) if self.is_share else (-math.inf, math.inf)


F = TypeVar("F", bound=Callable[..., Any])
_FACTS = "__assaymark_metric__"


def metric(
    *,
    formula: str,
    name: str | None = None,
    of: Literal["generate_until", "multiple_choice"] = "generate_until",
    higher_is_better: bool = True,
    scale: Scale = "share",
    bounds: tuple[float, float] | None = None,
    aggregation: str = "mean",
    needs: tuple[Literal["unconditional", "token counts"], ...] = (),
    packages: tuple[str, ...] = (),
) -> Callable[[F], F]:
    """Declare a function as a metric, with all that is known of it.

    A metric of generated answers is called as lm-eval calls its own: `function(references=[reference],
    predictions=[answer], **options)` with the options of the task file. A metric of multiple choice is called with a
    `scoring.choices.ChoiceAnswer` and those options. Both return a number, None for an answer without a score, or a
    tuple that the aggregation takes.

    Args:
        formula: of one answer's score, in words; shown by `explain` and on pages.
        name: in task files; default: the function's.
        of: the output type of the tasks that can have it.
        higher_is_better: the direction.
        scale: "right or wrong" for 0 and 1, "share" for values in [0, 1], "number" for any others.
        bounds: the least and the largest value of the aggregate, where they are not those of the scale.
        aggregation: the name of an aggregation, of this package or a registered one.
        needs: of multiple choice, besides the choices' log-likelihoods: "unconditional" (those after an empty
            context), "token counts".
        packages: packages without which it cannot be computed.

    Raises: TypeError for needs of a metric that is not of multiple choice.
    """
    if needs and of != MULTIPLE_CHOICE:
        raise TypeError(f"needs={needs!r} are of choices; expected of='{MULTIPLE_CHOICE}'")

    def declare(function: F) -> F:
        facts = Metric(
            name=name or function.__name__,
            formula=formula,
            output_types=(of,),
            aggregation=aggregation,
            higher_is_better=higher_is_better,
            scale=scale,
            bounds=bounds,
            needs=needs,
            packages=packages,
            in_lm_eval=False,
        )
        setattr(function, _FACTS, facts)
        return function

    return declare


def facts_of(function: object) -> Metric | None:
    """Return what was declared of a metric's function; None for a function that was not declared."""
    facts = getattr(function, _FACTS, None)
    return facts if isinstance(facts, Metric) else None


def filter_step(cls: type) -> type:
    """Declare a class as a step of filters.

    Its arguments are the options of the task file's step, and it has lm-eval's `apply(resps, docs)`: all responses of
    each sample in, one entry per sample out.

    Raises: TypeError for a class without `apply`.
    """
    if not callable(getattr(cls, "apply", None)):
        raise TypeError(f"{cls.__name__} has no method apply(resps, docs), which a step of filters needs")
    return cls
