"""What is known of a metric, and the names that other code mentions."""

import math
from dataclasses import dataclass
from typing import Literal

__all__ = [
    "ANY_CALL", "BRIER", "CALIBRATION", "CALL_MATCH", "CONFIDENCE", "GENERATE", "LOGLIKELIHOOD", "MULTIPLE_CHOICE",
    "ROLLING", "TIES", "TOOL_CALLS", "Metric",
]  # fmt: skip

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
