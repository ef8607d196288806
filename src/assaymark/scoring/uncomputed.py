"""Facts of metrics that `scoring` does not compute: of task files' functions and of other tools, and `bypass`.

The functions of the library's task files are in hashes of runs, so that nothing can be written beside them.
"""

from dataclasses import replace

from assaymark.scoring.metric import GENERATE, LOGLIKELIHOOD, MULTIPLE_CHOICE, ROLLING, Metric, ScoreValue, metric

_PER_CENT = (0.0, 100.0)


@metric(
    of=(MULTIPLE_CHOICE, LOGLIKELIHOOD, ROLLING, GENERATE),
    formula="none: answers are stored, nothing is measured",
    aggregation="bypass",
    scale="number",
    compares_nothing=True,
    in_lm_eval=True,
)
def bypass(*_answer: object, **_options: object) -> ScoreValue:
    """Return no score. Source: lm-evaluation-harness 0.4.13, `bypass`."""
    return ScoreValue(None)


def _binary(name: str, formula: str, *packages: str) -> Metric:
    return Metric(name=name, formula=formula, scale="right or wrong", packages=packages)


def _share(name: str, formula: str, *packages: str) -> Metric:
    return Metric(name=name, formula=formula, packages=packages)


def _similarity(kind: str, package: str) -> tuple[Metric, ...]:
    """Return TruthfulQA's three metrics for one measure of similarity to a reference."""
    highest, lead = f"the best {kind} with a true answer, in per cent", "with a true answer minus that with a false one"
    number = Metric(name="", formula="", scale="number", packages=(package,))
    return (
        replace(number, name=f"{kind}_max", formula=highest, bounds=_PER_CENT),
        replace(number, name=f"{kind}_diff", formula=f"the best {kind} {lead}, in per cent", bounds=(-100.0, 100.0)),
        _binary(f"{kind}_acc", f"1 if the best {kind} {lead} is positive, else 0", package),
    )


_OF_TASKS = (
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
    _share("strict_share", "the share of a prompt's instructions that its answer follows (HELM)", "langdetect"),
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
    ),
)

UNCOMPUTED: tuple[Metric, ...] = (*_OF_TASKS, *_OF_OTHER_TOOLS)
