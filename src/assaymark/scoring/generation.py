"""Score generated answers against references: exact match with lm-eval's options, and the pairs for corpus metrics.

The text after a filter pipeline (`filters`) is compared. An answer from which nothing could be extracted is not the
same as a wrong answer: `is_unparsed` detects it, and the runner counts it.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import SupportsFloat, cast

from assaymark.errors import DataError, MalformedSample, UnknownName
from assaymark.limits.regexes import sub
from assaymark.records import JsonValue
from assaymark.registry import nearest
from assaymark.scoring.filters import INVALID
from assaymark.scoring.metric import GENERATE, PASSED_ON, ScoreValue, facts_of, metric
from assaymark.scoring.metrics import computations, split_reduced
from assaymark.scoring.typography import EqualBy, equal_by, near_miss

MetricFunction = Callable[..., object]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


@dataclass(frozen=True, slots=True)
class ExactMatchOptions:
    """The differences that exact match ignores; applied to prediction and reference, in this order."""

    regexes_to_ignore: tuple[str, ...] = ()
    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_numbers: bool = False
    ignore_typography: bool = False  # ours: see `typography`; numbers are compared as numbers

    @classmethod
    def from_mapping(cls, options: Mapping[str, JsonValue]) -> "ExactMatchOptions":
        """Return the options in a task file's keys. Raises: UnknownName for an unknown key."""
        known = tuple(cls.__dataclass_fields__)
        for key in options:
            if key not in known:
                raise UnknownName("option of exact_match", key, nearest(key, known))
        for key in known[1:]:
            if not isinstance(options.get(key, False), bool):
                raise DataError(f"{key} of exact_match is {options[key]!r:.80}; expected true or false")
        regexes = options.get("regexes_to_ignore") or ()
        listed = [regexes] if isinstance(regexes, str) else regexes
        if not isinstance(listed, list | tuple) or not all(isinstance(each, str) for each in listed):
            raise DataError(f"regexes_to_ignore of exact_match is {regexes!r:.80}; expected a list of patterns")
        return cls(tuple(listed), **{key: bool(options.get(key, False)) for key in known[1:]})


def normalise(text: str, options: ExactMatchOptions) -> str:
    """Return the text as exact match compares it. As in lm-eval, white space is not stripped."""
    for pattern in options.regexes_to_ignore:
        text = sub(pattern, "", text)
    if options.ignore_case:
        text = text.lower()
    if options.ignore_punctuation:
        text = text.translate(_NO_PUNCTUATION)
    if options.ignore_numbers:
        text = text.translate(_NO_DIGITS)
    return text


def exact_match(prediction: str, reference: str, options: ExactMatchOptions | None = None) -> float:
    """Return 1.0 if prediction and reference are equal after normalisation, else 0.0.

    Source: lm-evaluation-harness 0.4.13 `exact_match_hf_evaluate`, after Hugging Face evaluate's exact_match.
    """
    return float(_equal_by(prediction, reference, options or ExactMatchOptions()) is not None)


def _equal_by(prediction: str, reference: str, rules: ExactMatchOptions) -> EqualBy | None:
    if not rules.ignore_typography:
        return "text" if normalise(prediction, rules) == normalise(reference, rules) else None
    others = replace(rules, ignore_case=False)  # which has to be told from typography
    return equal_by(normalise(prediction, others), normalise(reference, others), ignore_case=rules.ignore_case)


def score_generation(
    prediction: object,
    gold: object,
    metrics: Mapping[str, Mapping[str, object]],
    *,
    multiple_targets: bool = False,
    functions: Mapping[str, MetricFunction] | None = None,
) -> dict[str, ScoreValue]:
    """Score one generated answer, after filtering.

    Args:
        prediction: the answer after the filter pipeline: a text, or a list where the pipeline returns several.
        gold: the reference; with `multiple_targets` a list any of which is correct.
        metrics: name -> its options in the task file (`{"exact_match": {"ignore_case": True}}`).
        multiple_targets: whether the task has several references per sample.
        functions: metrics of the task's own (`!function`), called as lm-eval calls them.

    Raises: UnknownName for a metric that is neither ours nor in `functions`.
    Source: lm-evaluation-harness 0.4.13, `ConfigurableTask.process_results`, output type generate_until.
    """
    known = {**dict.fromkeys(PASSED_ON, _passed_on), **computations(GENERATE), **(functions or {})}
    parts = {name: (name, None) if name in known else split_reduced(name) for name in metrics}
    unknown = next((name for name, (base, _) in parts.items() if base not in known), None)
    if unknown is not None:
        raise UnknownName("generation metric", unknown, nearest(unknown, computations(GENERATE)))
    if prediction is None and not functions:  # as of the filter `map`; lm-eval stops
        prediction = INVALID
    is_compared = not any((facts := facts_of(known[base])) and facts.compares_nothing for base, _ in parts.values())
    gold = _cast_gold(gold, prediction, multiple_targets=multiple_targets, is_compared=is_compared)
    result: dict[str, ScoreValue] = {}
    for name, own in metrics.items():
        base, reducer = parts[name]
        options = own if reducer is None else {**own, "reducer": reducer}
        result |= _scored(name, known[base], prediction, gold, options, multiple_targets=multiple_targets)
    return result


def is_unparsed(prediction: object, fallbacks: Sequence[str] = ("[invalid]",)) -> bool:
    """Return whether the filters extracted nothing: the answer is empty or a filter's fallback."""
    if isinstance(prediction, (list, tuple)):
        return all(is_unparsed(part, fallbacks) for part in prediction)
    if prediction is None:
        return True
    return isinstance(prediction, str) and (not prediction.strip() or prediction in fallbacks)


def _cast_gold(gold: object, prediction: object, *, multiple_targets: bool, is_compared: bool) -> object:
    """Convert the reference to the prediction's type, as lm-eval does: 42 becomes the text "42"."""
    if multiple_targets:
        return list(gold) if isinstance(gold, (list, tuple)) else [gold]
    if type(gold) is type(prediction) or not is_compared or isinstance(prediction, list):
        return gold
    try:
        return cast("Callable[[object], object]", type(prediction))(gold)
    except (TypeError, ValueError) as error:
        raise MalformedSample(
            f"reference {gold!r} cannot be converted to {type(prediction).__name__}, the type of answer {prediction!r}"
        ) from error


def _call(function: MetricFunction, gold: object, prediction: object, options: Mapping[str, object]) -> object:
    """Call a metric by keyword; one that was not declared, else, with one [gold, prediction] list, as lm-eval does."""
    try:
        return function(references=[gold], predictions=[prediction], **options)
    except TypeError:
        if facts_of(function) is not None:
            raise
        return function([gold, prediction])


def _scored(
    name: str,
    function: MetricFunction,
    prediction: object,
    gold: object,
    options: Mapping[str, object],
    *,
    multiple_targets: bool,
) -> dict[str, ScoreValue]:
    """Return the scores of one metric; of several references one match is enough."""
    facts = facts_of(function)
    takes_all = facts is not None and (facts.collects_texts or facts.compares_nothing)
    if takes_all or not multiple_targets:
        value = _call(function, gold, prediction, options)
        if not isinstance(value, Mapping):
            return {name: _as_score(value)}
        scores = {str(key): _as_score(item) for key, item in value.items()}
        if facts is None:  # a task's own: all that it gives is aggregated as the file says of it
            scores = {key: replace(each, detail=each.detail or {"part_of": name}) for key, each in scores.items()}
        return scores
    is_match = False
    detail: Mapping[str, JsonValue] | None = None
    for option in cast("list[object]", gold):  # as `_cast_gold` makes them
        value = _call(function, option, prediction, options)
        item = value[name] if isinstance(value, Mapping) else value
        if isinstance(item, ScoreValue) and not is_match and (item.value or len(detail or {}) < 2):
            detail = item.detail
        is_match = is_match or bool(item.value if isinstance(item, ScoreValue) else item)
    return {name: ScoreValue(1.0 if is_match else 0.0, detail=detail)}


def _as_score(value: object) -> ScoreValue:
    if isinstance(value, ScoreValue):
        return value
    if value is None:
        return ScoreValue(None)
    if isinstance(value, (list, tuple)):
        return ScoreValue(None, parts=tuple(value))
    return ScoreValue(float(cast("SupportsFloat", value)))


# ------------------------------------------------------------- the metrics, in the order of lm-eval's results files


@metric(
    name="exact_match",
    formula="1 if the answer after the filters equals a reference after the same normalisation, else 0",
    scale="right or wrong",
    is_default=True,
    preference=2,
    in_lm_eval=True,
    per_cent_in=("opencompass",),
)
def matches_reference(references: Sequence[object], predictions: Sequence[object], **options: object) -> ScoreValue:
    """Return whether the answer equals the reference; one that is not a text is compared as it is."""
    (gold,), (prediction,) = references, predictions
    rules = ExactMatchOptions.from_mapping(options)
    if not isinstance(prediction, str):
        is_in_list = isinstance(prediction, list | tuple) and prediction != gold
        return ScoreValue(
            float(prediction == gold), detail={"extracted": prediction, **({"near_miss": "list"} if is_in_list else {})}
        )
    by = _equal_by(prediction, str(gold), rules)
    detail: dict[str, JsonValue] = {"extracted": prediction}
    if by is not None and by != "text":
        detail["equal_by"] = by
    elif (
        by is None
        and rules.ignore_typography
        and (miss := near_miss(prediction, str(gold), ignore_case=rules.ignore_case)) is not None
    ):
        detail |= {"among_words": True} if miss == "among words" else {"near_miss": miss}
    return ScoreValue(float(by is not None), detail=detail)


def _of_corpus(name: str, formula: str, *, higher_is_better: bool = True) -> Callable[..., ScoreValue]:
    """Return a corpus metric of sacrebleu, whose aggregation has its name; a sample gives its references and answer."""

    @metric(
        name=name,
        formula=formula,
        aggregation=name,
        higher_is_better=higher_is_better,
        scale="number",
        bounds=(0.0, 100.0 if higher_is_better else inf),  # an edit rate may exceed 100
        packages=("sacrebleu",),
        collects_texts=True,
        in_lm_eval=True,
    )
    def pair(references: Sequence[object], predictions: Sequence[object], **_options: object) -> ScoreValue:
        return ScoreValue(None, parts=(references[0], predictions[0]))

    return pair


bleu = _of_corpus("bleu", "corpus BLEU of all answers and references")
chrf = _of_corpus("chrf", "corpus chrF of all answers and references")
chrf_with_words = _of_corpus("chrf++", "corpus chrF++ of all answers and references: chrF with word bigrams")
ter = _of_corpus("ter", "translation edit rate of all answers and references", higher_is_better=False)


def _passed_on(references: Sequence[object], predictions: Sequence[object], **_options: object) -> list[object]:
    """Return the reference and the answer, which an aggregation of the task's own file scores."""
    return [references[0], predictions[0]]
