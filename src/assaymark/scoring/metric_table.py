"""The table of all metrics known by name.

A task's own function may return scores of any name. A metric without a row is as its task file describes it, else a
mean where higher is better. The rows are in lm-evaluation-harness's order, as in its results files.

To add a metric, add its row here and, where `output_types` has any, its computation in the file of `scoring` for that
output type. `tests/scoring/test_metrics.py` finds a metric without a row and a row without a computation.
"""

import math
from dataclasses import replace

from assaymark.scoring.metric import (
    ANY_CALL,
    BRIER,
    CALL_MATCH,
    CONFIDENCE,
    GENERATE,
    LOGLIKELIHOOD,
    MULTIPLE_CHOICE,
    ROLLING,
    TIES,
    TOOL_CALLS,
    Metric,
)

__all__ = ["METRICS"]

_FROM_ZERO = (0.0, math.inf)
_PER_CENT = (0.0, 100.0)

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
        bounds=_FROM_ZERO,
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
        bounds=_PER_CENT if higher_is_better else _FROM_ZERO,  # an edit rate may exceed 100
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
        bounds=_FROM_ZERO,
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
        bounds=_PER_CENT,  # lm-eval's squadv2
        preference=5,
    ),
    Metric(
        name="mcc",
        formula="Matthews correlation of picked and gold choices over all samples",
        output_types=(MULTIPLE_CHOICE,),
        aggregation="matthews_corrcoef",
        scale="number",
        bounds=(-1.0, 1.0),
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
        bounds=(0.0, 2.0),
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

# ------------------------------------------------------------------------- of the calls of an application


def _of_calls(name: str, formula: str) -> Metric:
    return Metric(name=name, formula=formula, higher_is_better=False, scale="number", is_of_call=True, in_lm_eval=False)


_OF_CALLS = (
    _of_calls("latency_s", "seconds from the call of an application to its answer; of repeats the mean"),
    _of_calls("cost", "what an application says that a call cost, as it says it; of repeats the mean"),
    _of_calls("n_tokens", "tokens of prompts and answers that an application says a call took; of repeats the mean"),
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
        replace(number, name=f"{kind}_max", formula=highest, bounds=_PER_CENT),
        replace(number, name=f"{kind}_diff", formula=f"the best {kind} {lead}, in per cent", bounds=(-100.0, 100.0)),
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
    *(
        replace(row, bounds=_PER_CENT)  # in lm-eval's files; shares where they were computed here
        for row in (
            _binary("exact", "1 if the answer equals a reference after SQuAD's normalisation, else 0"),
            _binary("HasAns_exact", "exact, of the questions that have an answer"),
            _share("HasAns_f1", "overlap in words with the best reference, of the questions that have an answer"),
            _binary("NoAns_exact", "exact, of the questions that have no answer"),
            _share("NoAns_f1", "overlap in words with the best reference, of the questions that have no answer"),
            _share("best_exact", "exact at the best threshold on the probability of no answer"),
            _share("best_f1", "f1 at the best threshold on the probability of no answer"),
        )
    ),
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

METRICS: tuple[Metric, ...] = (*_COMPUTED, *_BESIDE, *_OF_ROTATIONS, *_OF_TASKS, *_OF_OTHER_TOOLS, *_OF_CALLS)
