"""Score generated answers against references: exact match with lm-eval's options, and the pairs for corpus metrics.

The text after a filter pipeline (`filters`) is compared. An answer from which nothing could be extracted is not the
same as a wrong answer: `is_unparsed` detects it, and the runner counts it.
"""

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assaymark.errors import MalformedSample, UnknownName
from assaymark.limits.regexes import sub
from assaymark.registry import nearest
from assaymark.scoring.metrics import GENERATE, find_metric, names_for
from assaymark.scoring.values import ScoreValue

MetricFunction = Callable[..., Any]

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


@dataclass(frozen=True, slots=True)
class ExactMatchOptions:
    """What exact match ignores; applied to prediction and reference, in this order."""

    regexes_to_ignore: tuple[str, ...] = ()
    ignore_case: bool = False
    ignore_punctuation: bool = False
    ignore_numbers: bool = False

    @classmethod
    def from_mapping(cls, options: Mapping[str, Any]) -> "ExactMatchOptions":
        """Return the options in a task file's keys. Raises: UnknownName for an unknown key."""
        known = tuple(cls.__dataclass_fields__)
        for key in options:
            if key not in known:
                raise UnknownName("option of exact_match", key, nearest(key, known))
        regexes = options.get("regexes_to_ignore") or ()
        return cls(
            regexes_to_ignore=(regexes,) if isinstance(regexes, str) else tuple(regexes),
            ignore_case=bool(options.get("ignore_case", False)),
            ignore_punctuation=bool(options.get("ignore_punctuation", False)),
            ignore_numbers=bool(options.get("ignore_numbers", False)),
        )


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
    rules = options or ExactMatchOptions()
    return float(normalise(prediction, rules) == normalise(reference, rules))


def score_generation(
    prediction: Any,
    gold: Any,
    metrics: Mapping[str, Mapping[str, Any]],
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
    gold = _cast_gold(gold, prediction, multiple_targets=multiple_targets, bypass="bypass" in metrics)
    result: dict[str, ScoreValue] = {}
    for metric, options in metrics.items():
        function = (functions or {}).get(metric)
        if function is not None:
            result |= _own_metric(metric, function, prediction, gold, options, multiple_targets=multiple_targets)
        elif metric == "exact_match":
            rules = ExactMatchOptions.from_mapping(options)
            golds = gold if multiple_targets else [gold]
            result[metric] = ScoreValue(_any_match(prediction, golds, rules), detail={"extracted": prediction})
        elif (row := find_metric(metric)) is not None and row.collects_texts:
            result[metric] = ScoreValue(None, parts=(gold, prediction))
        elif metric == "bypass":
            result[metric] = ScoreValue(None)
        else:
            raise UnknownName("generation metric", metric, nearest(metric, names_for(GENERATE)))
    return result


def is_unparsed(prediction: Any, fallbacks: Sequence[str] = ("[invalid]",)) -> bool:
    """Return whether the filters extracted nothing: the answer is empty or a filter's fallback."""
    if isinstance(prediction, (list, tuple)):
        return all(is_unparsed(part, fallbacks) for part in prediction)
    if prediction is None:
        return True
    return isinstance(prediction, str) and (not prediction.strip() or prediction in fallbacks)


def _cast_gold(gold: Any, prediction: Any, *, multiple_targets: bool, bypass: bool) -> Any:
    """Convert the reference to the prediction's type, as lm-eval does: 42 becomes the text "42"."""
    if multiple_targets:
        return list(gold) if isinstance(gold, (list, tuple)) else [gold]
    if type(gold) is type(prediction) or bypass or isinstance(prediction, list):
        return gold
    try:
        return type(prediction)(gold)
    except (TypeError, ValueError) as error:
        raise MalformedSample(
            f"reference {gold!r} cannot be converted to {type(prediction).__name__}, the type of answer {prediction!r}"
        ) from error


def _any_match(prediction: Any, golds: Sequence[Any], rules: ExactMatchOptions) -> float:
    if isinstance(prediction, str):
        return float(any(exact_match(prediction, str(gold), rules) for gold in golds))
    return float(any(prediction == gold for gold in golds))


def _call(function: MetricFunction, gold: Any, prediction: Any, options: Mapping[str, Any]) -> Any:
    """Call a metric in either way that lm-eval uses: by keyword, else with one [gold, prediction] list."""
    try:
        return function(references=[gold], predictions=[prediction], **options)
    except TypeError:
        return function([gold, prediction])


def _own_metric(
    metric: str,
    function: MetricFunction,
    prediction: Any,
    gold: Any,
    options: Mapping[str, Any],
    *,
    multiple_targets: bool,
) -> dict[str, ScoreValue]:
    if not multiple_targets:
        value = _call(function, gold, prediction, options)
        values = dict(value) if isinstance(value, Mapping) else {metric: value}
        return {name: _as_score(item) for name, item in values.items()}
    is_match = False
    for option in gold:
        value = _call(function, option, prediction, options)
        is_match = is_match or bool(value[metric] if isinstance(value, Mapping) else value)
    return {metric: ScoreValue(1.0 if is_match else 0.0)}


def _as_score(value: Any) -> ScoreValue:
    if value is None:
        return ScoreValue(None)
    if isinstance(value, (list, tuple)):
        return ScoreValue(None, parts=tuple(value))
    return ScoreValue(float(value))
