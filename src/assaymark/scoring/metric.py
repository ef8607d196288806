"""Facts about metrics, and the decorators that declare metrics and steps of filters.

Every metric that is computed here is one function with its facts beside it, declared with `metric`: those of this
package (found by `metrics`), of installed packages and of a user's own files. An installed package names its function
in an entry point:

    [project.entry-points."assaymark.metrics"]
    first_word_match = "my_package.metrics:first_word_match"

A task file then names it as it names ours: `metric: first_word_match`. The bytes of the module count into the hash of
the tasks that use it, so that an edited metric is another scoring.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, TypeVar, Unpack, get_args

MULTIPLE_CHOICE: Literal["multiple_choice"] = "multiple_choice"
LOGLIKELIHOOD: Literal["loglikelihood"] = "loglikelihood"
ROLLING: Literal["loglikelihood_rolling"] = "loglikelihood_rolling"
GENERATE: Literal["generate_until"] = "generate_until"
TOOL_CALLS: Literal["tool_calls"] = "tool_calls"  # generate_until with function calls
SIMULATED: Literal["simulated conversation"] = "simulated conversation"  # whose calls a simulator carries out
BESIDE_CHOICES: Literal["beside choices"] = "beside choices"  # of every multiple-choice answer, unasked
ROTATIONS: Literal["rotations"] = "rotations"  # of a question asked in every rotation of its options
APPLICATION_CALL: Literal["application call"] = "application call"  # known of each call of an application

OUTPUT_TYPES = (MULTIPLE_CHOICE, LOGLIKELIHOOD, ROLLING, GENERATE, TOOL_CALLS, SIMULATED)
PASSED_ON = ("acc", "f1", "mcc")  # of written answers lm-eval hands these to an aggregation of the task's own file
CALL_MATCH, ANY_CALL = "call_match", "any_call"
BRIER, CONFIDENCE, TIES = "brier", "confidence", "acc_ties"
CALIBRATED = "acc_calibrated"
CALIBRATION = (BRIER, CONFIDENCE)

Scale = Literal["right or wrong", "share", "number"]
Answered = Literal[
    "multiple_choice", "loglikelihood", "loglikelihood_rolling", "generate_until", "tool_calls",
    "simulated conversation", "beside choices", "rotations", "application call",
]  # fmt: skip
Need = Literal["unconditional", "token counts", "every choice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: the meaning of a sample's score, and how scores are aggregated."""

    name: str  # the facts of `pass@k` are those of pass@1, pass@10 and so on
    formula: str  # of one sample's score, or of the aggregate where it is not a mean
    formulas: tuple[tuple[str, str], ...] = ()  # (kind of answer, formula) where that differs
    of: tuple[Answered, ...] = ()  # kinds of answers of which `scoring` computes it
    default_for: tuple[Answered, ...] = ()  # output types whose tasks have it if their file lists no metrics
    aggregation: str = "mean"  # a name of `statistics.aggregate.AGGREGATIONS`; a task file may name another
    higher_is_better: bool = True
    scale: Scale = "share"  # of a sample's score: 0 or 1; within [0, 1], shown as per cent; or any number
    preference: int | None = None  # the primary metric of a task whose card names none has the smallest
    picks_choice: bool = False  # whether it scores if the best choice, by some measure, is gold
    length: Literal["characters", "bytes", "tokens"] | None = None  # unit of length that divides log-likelihoods
    needs: tuple[Need, ...] = ()  # besides the choices' log-likelihoods
    collects_texts: bool = False  # a sample contributes (reference, prediction); only the corpus has a value
    compares_nothing: bool = False  # there may be any reference, or none that an answer could be compared with
    measures_text: bool = False  # whether it measures the probability of a given text
    packages: tuple[str, ...] = ()  # optional packages without which it cannot be computed
    bounds: tuple[float, float] | None = None  # of the aggregate, where they are not those of the scale
    in_lm_eval: bool = False  # whether lm-evaluation-harness has it under this name
    logged_as: Literal["whole number", "array"] | None = None  # by lm-eval, where that is neither a float nor a list
    per_cent_in: tuple[str, ...] = ()  # tools whose files report it in per cent

    @property
    def output_types(self) -> tuple[str, ...]:
        """The output types for which `scoring` computes it; none: a task's function or another tool does."""
        return tuple(kind for kind in OUTPUT_TYPES if kind in self.of)

    @property
    def is_auxiliary(self) -> bool:
        """Whether it is computed for the details of others; then it has no row of its own in tables."""
        return BESIDE_CHOICES in self.of

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


F = TypeVar("F", bound=Callable[..., object])
_FACTS = "__assaymark_metric__"


class RareFacts(TypedDict, total=False):
    """Facts that only metrics of this package have; `Metric` describes them."""

    preference: int | None
    length: Literal["characters", "bytes", "tokens"]
    collects_texts: bool
    compares_nothing: bool
    measures_text: bool
    in_lm_eval: bool
    logged_as: Literal["whole number", "array"]
    per_cent_in: tuple[str, ...]


def metric(
    *misplaced: object,
    formula: str = "",
    name: str | None = None,
    of: Answered | tuple[Answered, ...] = GENERATE,
    higher_is_better: bool = True,
    scale: Scale = "share",
    bounds: tuple[float, float] | None = None,
    aggregation: str = "mean",
    needs: tuple[Need, ...] = (),
    packages: tuple[str, ...] = (),
    is_default: bool = False,
    picks_choice: bool = False,
    **rare: Unpack[RareFacts],
) -> Callable[[F], F]:
    """Declare a function as a metric, with all that is known of it.

    A metric of generated answers is called as lm-eval calls its own: `function(references=[reference],
    predictions=[answer], **options)` with the options of the task file. A metric of multiple choice is called with a
    `scoring.choices.ChoiceAnswer` and those options. Both return a number, None for an answer without a score, a
    tuple that the aggregation takes, or a `scoring.metric.ScoreValue`.

    Args:
        misplaced: nothing; a function is here where the decorator is written without parentheses.
        formula: of one answer's score, in words; shown by `explain` and on pages.
        name: in task files; default: the function's.
        of: the output type of the tasks that can have it. Packages and users' files have "generate_until" and
            "multiple_choice"; the others are computed of answers that only this package makes.
        higher_is_better: the direction.
        scale: "right or wrong" for 0 and 1, "share" for values in [0, 1], "number" for any others.
        bounds: the least and the largest value of the aggregate, where they are not those of the scale.
        aggregation: the name of an aggregation, of this package or a registered one.
        needs: of multiple choice, besides the choices' log-likelihoods: "unconditional" (those after an
            empty context, or for acc_calibrated after "Answer:"), "token counts", "every choice" (it has no value
            where a server reports only some of them).
        packages: packages without which it cannot be computed.
        is_default: whether a task has it whose file lists no metrics.
        picks_choice: whether it scores if the best choice, by some measure, is gold.
        rare: facts that only metrics of this package have.

    Raises: TypeError without a formula, as where the parentheses are missing; for needs of a metric that is not of
        choices, and for an unknown kind of answer.
    """
    if misplaced or not formula:
        raise TypeError("a metric says what it is: write @assaymark.metric(formula='what the score of one answer is')")
    kinds: tuple[Answered, ...] = (of,) if isinstance(of, str) else of
    if strange := sorted(set(kinds) - set(get_args(Answered))):
        raise TypeError(f"of={strange[0]!r} is not a kind of answer; expected one of {', '.join(get_args(Answered))}")
    if needs and not {MULTIPLE_CHOICE, BESIDE_CHOICES} & set(kinds):
        raise TypeError(f"needs={needs!r} are of choices; expected of='{MULTIPLE_CHOICE}'")

    def declare(function: F) -> F:
        facts = Metric(
            name=name or function.__name__,
            formula=formula,
            of=kinds,
            default_for=kinds if is_default else (),
            aggregation=aggregation,
            higher_is_better=higher_is_better,
            scale=scale,
            bounds=bounds,
            needs=needs,
            packages=packages,
            picks_choice=picks_choice,
            **rare,
        )
        setattr(function, _FACTS, facts)
        return function

    return declare


def facts_of(function: object) -> Metric | None:
    """Return the declaration of a metric's function; None for a function that was not declared."""
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


@dataclass(frozen=True, slots=True)
class ScoreValue:
    """One metric of one answer."""

    value: float | None  # None: defined only over many samples (then `parts` is aggregated), or undefined
    parts: tuple[Any, ...] | None = None  # what a corpus metric aggregates, e.g. (gold, predicted) or (nats, weight)
    detail: Any = None  # for display: picked choice, ties, extracted answer

    def __post_init__(self) -> None:
        """Take NaN, as tasks of lm-eval with `nanmean` return it, as undefined."""
        if self.value is not None and math.isnan(self.value):
            object.__setattr__(self, "value", None)
