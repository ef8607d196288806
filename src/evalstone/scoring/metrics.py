"""The table of all metrics known by name; all other code reads the properties of a metric here.

A task's own function may return scores of any name. A metric without a row is as its task file describes it, else a
mean where higher is better. The rows are in lm-evaluation-harness's order, as in its results files.

To add a metric, add its row here and, where `output_types` has any, its computation in the file of `scoring` for that
output type. `tests/scoring/test_metrics.py` finds a metric without a row and a row without a computation.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

__all__ = [
    "ANY_CALL", "BRIER", "CALIBRATION", "CALL_MATCH", "CONFIDENCE", "GENERATE", "LOGLIKELIHOOD", "METRICS",
    "MULTIPLE_CHOICE", "ROLLING", "TIES", "TOOL_CALLS", "Metric", "accuracies_over_choices", "aggregation_of",
    "defaults_for", "find_metric", "formula_of", "is_auxiliary", "is_higher_better", "is_number", "is_right_or_wrong",
    "may_be_share", "metric_item", "names_for", "needs_unconditional", "preferred_names",
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
    in_lm_eval: bool = True  # whether lm-evaluation-harness has it under this name
    per_cent_in: tuple[str, ...] = ()  # tools whose files report it in per cent

    @property
    def is_share(self) -> bool:
        """Whether values are in [0, 1] and shown as per cent."""
        return self.scale != "number"


# ------------------------------------------------------------------------- computed by `scoring` itself


def _per_unit(name: str, formula: str, aggregation: str, preference: int | None = None) -> Metric:
    """Return the row of a metric of whole texts' log-likelihoods per word or byte."""
    return Metric(
        name=name,
        formula=formula,
        output_types=(ROLLING,),
        default_for=(ROLLING,),
        aggregation=aggregation,
        higher_is_better=False,
        scale="number",
        preference=preference,
        measures_text=True,
    )


def _of_corpus(name: str, formula: str, *, higher_is_better: bool = True) -> Metric:
    """Return the row of a corpus metric of sacrebleu."""
    return Metric(
        name=name,
        formula=formula,
        output_types=(GENERATE,),
        aggregation=name,
        higher_is_better=higher_is_better,
        scale="number",
        collects_texts=True,
        packages=("sacrebleu",),
    )


_OVER_CHOICES = Metric(name="", formula="", output_types=(MULTIPLE_CHOICE,), scale="right or wrong", picks_choice=True)

_COMPUTED = (
    Metric(
        name="perplexity",
        formula="exp of minus the mean log-likelihood of the continuations, per sample",
        output_types=(LOGLIKELIHOOD,),
        default_for=(LOGLIKELIHOOD,),
        aggregation="perplexity",
        higher_is_better=False,
        scale="number",
        measures_text=True,
    ),
    Metric(
        name="acc",
        formula="1 if the choice with the highest log-likelihood (the first of equal ones) is gold, else 0",
        formulas=((LOGLIKELIHOOD, "1 if every token of the continuation is the model's first choice, else 0"),),
        output_types=(MULTIPLE_CHOICE, LOGLIKELIHOOD),
        default_for=(MULTIPLE_CHOICE, LOGLIKELIHOOD),
        scale="right or wrong",
        preference=3,
        picks_choice=True,
        per_cent_in=("opencompass",),
    ),
    Metric(
        name="f1",
        formula="harmonic mean of precision and recall over all samples",
        output_types=(MULTIPLE_CHOICE,),
        aggregation="f1",
        preference=5,
    ),
    Metric(
        name="mcc",
        formula="Matthews correlation of picked and gold choices over all samples",
        output_types=(MULTIPLE_CHOICE,),
        aggregation="matthews_corrcoef",
        scale="number",
    ),
    replace(
        _OVER_CHOICES,
        name="acc_norm",
        formula="as acc, each log-likelihood divided by the number of characters of its choice",
        default_for=(MULTIPLE_CHOICE,),
        preference=1,
        length="characters",
    ),
    replace(
        _OVER_CHOICES,
        name="acc_bytes",
        formula="as acc, each log-likelihood divided by the number of UTF-8 bytes of its choice",
        length="bytes",
    ),
    Metric(
        name="exact_match",
        formula="1 if the answer after the filters equals a reference after the same normalisation, else 0",
        formulas=((MULTIPLE_CHOICE, "1 if every token of a gold choice is the model's first choice, else 0"),),
        output_types=(MULTIPLE_CHOICE, GENERATE),
        default_for=(GENERATE,),
        scale="right or wrong",
        preference=2,
        per_cent_in=("opencompass",),
    ),
    Metric(
        name="brier_score",
        formula="sum over choices of (softmax of the log-likelihoods - 1 if gold)^2",
        output_types=(MULTIPLE_CHOICE,),
        aggregation="brier_score",
        higher_is_better=False,
        scale="number",
    ),
    Metric(
        name="likelihood",
        formula="the log-likelihood of every choice, stored and not aggregated",
        output_types=(MULTIPLE_CHOICE,),
        scale="number",
    ),
    replace(
        _OVER_CHOICES,
        name="acc_mutual_info",
        formula="as acc, after subtracting each choice's log-likelihood after an empty context",
        needs=("unconditional",),
    ),
    replace(
        _OVER_CHOICES,
        name="acc_tokens",
        formula="as acc, each log-likelihood divided by the number of tokens of its choice",
        length="tokens",
        needs=("token counts",),
        in_lm_eval=False,
    ),
    _per_unit("word_perplexity", "exp(-sum of log-likelihoods / sum of words)", "weighted_perplexity", 7),
    _per_unit("byte_perplexity", "exp(-sum of log-likelihoods / sum of UTF-8 bytes)", "weighted_perplexity"),
    _per_unit("bits_per_byte", "-sum of log-likelihoods / sum of UTF-8 bytes / ln 2", "bits_per_byte", 6),
    _of_corpus("bleu", "corpus BLEU of all answers and references"),
    _of_corpus("chrf", "corpus chrF of all answers and references"),
    _of_corpus("chrf++", "corpus chrF++ of all answers and references: chrF with word bigrams"),
    _of_corpus("ter", "translation edit rate of all answers and references", higher_is_better=False),
    Metric(
        name="bypass",
        formula="none: answers are stored, nothing is measured",
        output_types=(MULTIPLE_CHOICE, LOGLIKELIHOOD, ROLLING, GENERATE),
        aggregation="bypass",
        scale="number",
    ),
)

# --------------------------------------------------------------------- beside every multiple choice

_AUXILIARY = Metric(name="", formula="", scale="number", is_auxiliary=True, in_lm_eval=False)

_BESIDE = (
    replace(
        _AUXILIARY,
        name=TIES,
        formula="as acc, equally probable best choices sharing the credit",
        scale="share",
        picks_choice=True,
    ),
    replace(
        _AUXILIARY, name=BRIER, formula="as brier_score, gold answers sharing the truth equally", higher_is_better=False
    ),
    replace(
        _AUXILIARY, name=CONFIDENCE, formula="the share of the choices' probability on the best one", scale="share"
    ),
    replace(_AUXILIARY, name="n_tied", formula="the number of equally probable best choices", higher_is_better=False),
)

# ------------------------------------------------------- computed by functions of task files and by other tools


def _binary(name: str, formula: str, *packages: str) -> Metric:
    return Metric(name=name, formula=formula, scale="right or wrong", packages=packages, in_lm_eval=False)


def _share(name: str, formula: str, *packages: str) -> Metric:
    return Metric(name=name, formula=formula, packages=packages, in_lm_eval=False)


def _similarity(kind: str, package: str) -> tuple[Metric, ...]:
    """Return TruthfulQA's three metrics for one measure of similarity to a reference."""
    highest, lead = f"the best {kind} with a true answer, in per cent", "with a true answer minus that with a false one"
    number = Metric(name="", formula="", scale="number", packages=(package,), in_lm_eval=False)
    return (
        replace(number, name=f"{kind}_max", formula=highest),
        replace(number, name=f"{kind}_diff", formula=f"the best {kind} {lead}, in per cent"),
        _binary(f"{kind}_acc", f"1 if the best {kind} {lead} is positive, else 0", package),
    )


_OF_TASKS = (
    replace(_binary(CALL_MATCH, "1 if the function calls are the expected ones, else 0"), output_types=(TOOL_CALLS,)),
    replace(_binary(ANY_CALL, "1 if the answer has any function call, else 0"), output_types=(TOOL_CALLS,)),
    replace(_share("pass@k", "the chance that one of k programs passes the tests"), per_cent_in=("opencompass",)),
    _share("pass_at_1", "the share of programs that pass the tests"),
    replace(
        _share("acc_all", "the share of questions all of whose answers are judged correctly"), aggregation="acc_all"
    ),
    _share("acc_or_drawn", "1 if the extracted letter is gold, else 0; without a letter 1 over the number of options"),
    _share("multiple_choice_grade", "the grade that the task's authors give to the most probable choice"),
    _binary("prefix_match", "1 if the answer begins with the reference, both in normal form, else 0"),
    _binary("math_verify", "1 if math-verify finds answer and solution equal, else 0", "math_verify"),
    _binary("exact_match_original", "1 if the final answer equals the reference in normal form, else 0", "math_verify"),
    _binary("em", "1 if the answer has the spans of a reference after DROP's normalisation, else 0"),
    _binary("exact", "1 if the answer equals a reference after SQuAD's normalisation, else 0"),
    _binary("HasAns_exact", "exact, of the questions that have an answer"),
    _share("HasAns_f1", "overlap in words with the best reference, of the questions that have an answer"),
    _binary("NoAns_exact", "exact, of the questions that have no answer"),
    _share("NoAns_f1", "overlap in words with the best reference, of the questions that have no answer"),
    _share("best_exact", "exact at the best threshold on the probability of no answer"),
    _share("best_f1", "f1 at the best threshold on the probability of no answer"),
    *(
        row
        for kind in ("strict", "loose")
        for row in (
            _binary(f"prompt_level_{kind}_acc", f"1 if every instruction is followed ({kind}), else 0", "langdetect"),
            _share(f"inst_level_{kind}_acc", f"the share of instructions that are followed ({kind})", "langdetect"),
        )
    ),
    *_similarity("bleu", "sacrebleu"),
    *_similarity("rouge1", "rouge_score"),
    *_similarity("rouge2", "rouge_score"),
    *_similarity("rougeL", "rouge_score"),
)

_OF_ROTATIONS = (  # with --circular
    _binary("circular_acc", "1 if acc is 1 in every rotation of the options (CircularEval), else 0"),
    _share("acc_rotations", "the share of the rotations of the options in which acc is 1"),
)

_OF_OTHER_TOOLS = (
    replace(_binary("accuracy", "the share of right answers"), per_cent_in=("opencompass",)),
    _binary("mc1", "1 if the most probable answer is the true one (TruthfulQA), else 0"),
    replace(_share("mc2", "the share of the answers' probability on true ones (TruthfulQA)"), preference=4),
    replace(_share("humaneval_pass@1", "pass@1 of HumanEval"), per_cent_in=("opencompass",)),
    replace(_share("extract_rate", "the share of answers that could be read"), per_cent_in=("opencompass",)),
    Metric(
        name="logprob_per_byte",
        formula="sum of log-likelihoods / sum of UTF-8 bytes",
        scale="number",
        measures_text=True,
        in_lm_eval=False,
    ),
)

METRICS: tuple[Metric, ...] = (*_COMPUTED, *_BESIDE, *_OF_ROTATIONS, *_OF_TASKS, *_OF_OTHER_TOOLS)
_BY_NAME = {metric.name: metric for metric in METRICS}
_PASS_AT = re.compile(r"pass@\d+")

# words in the names of metrics without a row, which decide what values between 0 and 1 mean
_NUMBER_WORDS = frozenset({
    "perplexity", "ppl", "bits", "loss", "nll", "logprob", "logprobs", "tokens", "latency", "time", "seconds", "cost",
    "mse", "rmse", "mae", "std", "stdev", "var", "variance", "corr", "correlation", "corrcoef", "pearson", "spearman",
    "kendall", "matthews", "mcc", "brier", "ece", "calibration", "bleu", "chrf", "ter",
})  # fmt: skip
_SHARE_WORDS = frozenset({"acc", "accuracy"})  # these win: `bleu_acc` is a share


@cache
def find_metric(name: str) -> Metric | None:
    """Return the row of a metric; None where there is none."""
    found = _BY_NAME.get(name)
    if found is None and _PASS_AT.fullmatch(name):
        return replace(_BY_NAME["pass@k"], name=name)
    return found


@cache
def names_for(output_type: str) -> tuple[str, ...]:
    """Return the metrics that `scoring` computes for an output type, in lm-eval's order."""
    return tuple(metric.name for metric in METRICS if output_type in metric.output_types)


@cache
def defaults_for(output_type: str) -> tuple[str, ...]:
    """Return the default metrics of an output type, as in lm-eval 0.4.13."""
    return tuple(metric.name for metric in METRICS if output_type in metric.default_for)


@cache
def accuracies_over_choices(*, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the metrics that pick one choice, by preference, except those with a need in `without`."""
    picking = [m for m in METRICS if m.picks_choice and not m.is_auxiliary and not set(m.needs) & set(without)]
    return tuple(m.name for m in sorted(picking, key=lambda metric: metric.preference or len(METRICS)))


@cache
def preferred_names() -> tuple[str, ...]:
    """Return the candidates for the primary metric of a task whose card names none, by preference."""
    ranked = [(metric.preference, metric.name) for metric in METRICS if metric.preference is not None]
    return tuple(name for _, name in sorted(ranked))


def aggregation_of(name: str) -> str:
    """Return a metric's aggregation where its task file names none; the mean for unknown metrics."""
    found = find_metric(name)
    return "mean" if found is None else found.aggregation


def is_higher_better(name: str) -> bool:
    """Return a metric's direction where its task file gives none; True for unknown metrics."""
    found = find_metric(name)
    return found is None or found.higher_is_better


def is_auxiliary(name: str) -> bool:
    """Return whether a metric is only computed for the details of others, without a row of its own in tables."""
    found = find_metric(name)
    return found is not None and found.is_auxiliary


def is_number(name: str) -> bool:
    """Return whether a metric is known not to be a share, even where all its values are in [0, 1]."""
    found = find_metric(name)
    return found is not None and not found.is_share


def is_right_or_wrong(name: str) -> bool:
    """Return whether a sample's score is 0 or 1 for a wrong or right answer, comparable between runs."""
    found = find_metric(name)
    return found is not None and found.scale == "right or wrong"


def needs_unconditional(name: str) -> bool:
    """Return whether a metric needs each choice's log-likelihood after an empty context too."""
    found = find_metric(name)
    return found is not None and "unconditional" in found.needs


def may_be_share(name: str) -> bool:
    """Return whether values between 0 and 1 are shares: by the metric's row, else by the words in its name."""
    found = find_metric(name)
    if found is not None:
        return found.is_share
    words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
    return not words & _NUMBER_WORDS or bool(words & _SHARE_WORDS)


def formula_of(name: str, output_type: str) -> str | None:
    """Return a metric's formula for an output type; None for a metric without a row."""
    found = find_metric(name)
    return None if found is None else dict(found.formulas).get(output_type, found.formula)


def metric_item(name: str) -> dict[str, str | bool]:
    """Return a metric as an item of a task file's `metric_list`. Raises: KeyError for a name without a row."""
    found = _BY_NAME[name]
    return {"metric": name, "aggregation": found.aggregation, "higher_is_better": found.higher_is_better}
