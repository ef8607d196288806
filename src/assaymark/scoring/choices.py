"""Multiple choice: find the most probable choice and score it.

There are two tie rules. lm-eval takes the first of equally probable choices, which favours "A". Ours gives the
expected credit of a fair draw: 1 over the number of tied best choices if one of them is gold. So a model that finds all
choices equally probable scores exactly chance, whatever the order of the gold answers.

In CircularEval a question counts as right only if it is answered correctly in every rotation of its options. The
original rule stops at the first wrong rotation; here all of them are asked, so that the accuracy over rotations is
known as well.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import MalformedSample, NonFiniteLogits, UnknownName
from assaymark.records import JsonValue, Score
from assaymark.registry import nearest
from assaymark.scoring.metric import (
    BESIDE_CHOICES,
    CALIBRATED,
    MULTIPLE_CHOICE,
    ROTATIONS,
    TIES,
    Need,
    RareFacts,
    ScoreValue,
    metric,
)
from assaymark.scoring.metrics import computations, defaults_for, needs_every_choice

Gold = int | str | Sequence[int]

OUT_OF_RANGE = -100  # lm-eval's label for a gold answer that is none of the choices: always scored as wrong


@dataclass(frozen=True)
class ChoiceAnswer:
    """How probable a model finds the choices of one sample, and which are right.

    Units: nats. Shapes: nats, greedy, unconditional and n_tokens have one value for each choice.
    """

    nats: NDArray[np.float64]  # log-likelihood of each choice, summed over its tokens
    greedy: tuple[bool, ...]  # whether greedy decoding would generate it
    unconditional: NDArray[np.float64] | None  # log-likelihood after an empty context; None: not requested
    choices: tuple[str, ...]
    gold: int | tuple[int, ...]  # the right choice, or those any of which is right; -100 for none
    probabilities: NDArray[np.float64]  # of the choices, which sum to 1
    n_tokens: tuple[int, ...] | None = None

    @property
    def gold_set(self) -> frozenset[int]:
        """All gold indices."""
        return frozenset(self.gold) if isinstance(self.gold, tuple) else frozenset((self.gold,))

    @property
    def gold_label(self) -> int | list[int]:
        """The gold index, or the list of them, as corpus metrics take it."""
        return list(self.gold) if isinstance(self.gold, tuple) else self.gold

    @cached_property
    def plain_accuracy(self) -> ScoreValue:
        """The accuracy of the most probable choice, which several metrics need."""
        return _accuracy(self, self.nats, np.ones(len(self.choices)))


OfChoices = Callable[[ChoiceAnswer], ScoreValue]


def score_choices(
    nats: Sequence[float],
    greedy: Sequence[bool],
    unconditional: Sequence[float] | None,
    choices: Sequence[str],
    gold: Gold,
    metrics: Iterable[str] | None = None,
    n_tokens: Sequence[int] | None = None,
    functions: Mapping[str, OfChoices] | None = None,
) -> dict[str, ScoreValue]:
    """Score one multiple-choice sample.

    Besides the requested metrics, the result always has `acc_ties` (expected accuracy under fair tie breaking),
    `brier`, `confidence` (parts: confidence, credit; for calibration) and `n_tied` (tied best choices; 1: no tie).
    Every accuracy's detail has `picked` (lm-eval's index), `n_tied`, `n_near`, `credit` and `n_choices`, and
    `gold_is_absent` where the gold answer is none of the choices: as in lm-eval that is always scored as wrong.

    Args:
        nats: log-likelihood of each choice, summed over its tokens.
        greedy: whether greedy decoding would generate each choice.
        unconditional: log-likelihood of each choice after an empty context; needed for acc_mutual_info only.
        choices: the texts, without the delimiter before them; their lengths are in characters and UTF-8 bytes.
        gold: index, text, or a list of indices any of which is correct.
        metrics: those of multiple choice; None: the default ones.
        n_tokens: of each choice, as the model counts them; needed for acc_tokens only.
        functions: other metrics, by name.

    Units: nats. Raises: NonFiniteLogits for a log-likelihood that is not finite; MalformedSample where counts differ;
        UnknownName for a metric that is neither of this package nor in `functions`.
    Source: lm-evaluation-harness 0.4.13, `ConfigurableTask.process_results`; ties after HELM (1/#tied).
    """
    answer = replace(
        _checked(nats, greedy, unconditional, choices, gold), n_tokens=None if n_tokens is None else tuple(n_tokens)
    )
    known = {**computations(MULTIPLE_CHOICE), **(functions or {})}
    result: dict[str, ScoreValue] = {}
    for name in defaults_for(MULTIPLE_CHOICE) if metrics is None else metrics:
        if name not in known:
            raise UnknownName("multiple-choice metric", name, nearest(name, known))
        result[name] = known[name](answer)
    return result | {name: compute(answer) for name, compute in computations(BESIDE_CHOICES).items()}


def of_first_tokens(scores: Sequence[Score], n_outside: int) -> list[Score]:
    """Return the scores of a sample whose choices were scored by the first generated token.

    Every accuracy's detail has `first_token` and `n_outside`, the number of choices that are only known to be less
    probable than the best one. Where there is any, scores that need all probabilities are undefined.
    """
    adjusted: list[Score] = []
    for score in scores:
        if n_outside and needs_every_choice(score.metric):
            adjusted.append(replace(score, value=None, parts=None, detail=None))
        elif isinstance(score.detail, dict):
            adjusted.append(replace(score, detail={**score.detail, "first_token": True, "n_outside": n_outside}))
        else:
            adjusted.append(score)
    return adjusted


def softmax(nats: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities proportional to exp(nats), shifted by the maximum so that nothing overflows."""
    values = np.asarray(nats, dtype=np.float64)
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())


def resolve_gold(gold: Gold, choices: Sequence[str]) -> int | tuple[int, ...]:
    """Return the gold answer as lm-eval interprets it: an index, or several; -100 where it is none of the choices.

    Raises: MalformedSample for a value that is neither an index nor a text nor a list of indices.
    """
    if isinstance(gold, str):
        return list(choices).index(gold) if gold in choices else OUT_OF_RANGE
    try:
        if isinstance(gold, Sequence):
            return tuple(int(index) if int(index) < len(choices) else OUT_OF_RANGE for index in gold)
        return int(gold) if int(gold) < len(choices) else OUT_OF_RANGE
    except (TypeError, ValueError):
        raise MalformedSample(
            f"the gold answer is {gold!r:.80}; expected the position of a choice, its text, or a list of positions"
        ) from None


def gold_is_absent(gold: Gold, choices: Sequence[str]) -> bool:
    """Return whether a row's gold answer, or one of several, is none of its choices: a fault of the row."""
    right = resolve_gold(gold, choices)
    indices = right if isinstance(right, tuple) else (right,)
    return not indices or not all(0 <= index < len(choices) for index in indices)


def _checked(
    nats: Sequence[float],
    greedy: Sequence[bool],
    unconditional: Sequence[float] | None,
    choices: Sequence[str],
    gold: Gold,
) -> ChoiceAnswer:
    if not choices or len(nats) != len(choices) or len(greedy) != len(choices):
        raise MalformedSample(
            f"{len(nats)} log-likelihoods and {len(greedy)} greedy flags for {len(choices)} choices; "
            "expected one of each per choice, and at least one choice"
        )
    if unconditional is not None and len(unconditional) != len(choices):
        raise MalformedSample(
            f"{len(unconditional)} unconditional log-likelihoods for {len(choices)} choices; expected one per choice"
        )
    finite = _finite(nats, "choice")
    return ChoiceAnswer(
        nats=finite,
        probabilities=softmax(finite),
        greedy=tuple(bool(flag) for flag in greedy),
        unconditional=None if unconditional is None else _finite(unconditional, "unconditional choice"),
        choices=tuple(choices),
        gold=resolve_gold(gold, choices),
    )


def _finite(nats: Sequence[float], what: str) -> NDArray[np.float64]:
    values = np.asarray(nats, dtype=np.float64)
    if not np.isfinite(values).all():
        index = int(np.flatnonzero(~np.isfinite(values))[0])
        raise NonFiniteLogits(
            f"log-likelihood of {what} {index} is {values[index]}; expected a finite number; "
            "a model that overflows in float16 often works with dtype=bfloat16 or float32"
        )
    return values


def _accuracy(answer: ChoiceAnswer, scores: NDArray[np.float64], lengths: NDArray[np.float64]) -> ScoreValue:
    """Return the accuracy of the argmax of `scores` (nats over lengths); both tie rules' results are in the detail."""
    picked = int(np.argmax(scores))  # first of equals; NaN (an empty choice of probability one) wins, as in lm-eval
    best = scores[picked]
    tied = frozenset(np.flatnonzero(scores == best).tolist()) or frozenset((picked,))
    detail = {
        "picked": picked,
        "n_tied": len(tied),
        "n_near": _near_ties(answer.nats, scores, lengths, picked),
        "credit": len(tied & answer.gold_set) / len(tied),
        "n_choices": len(answer.choices),
        **({"gold_is_absent": True} if gold_is_absent(answer.gold, answer.choices) else {}),
    }
    return ScoreValue(1.0 if picked in answer.gold_set else 0.0, detail=detail)


def _near_ties(
    nats: NDArray[np.float64], scores: NDArray[np.float64], lengths: NDArray[np.float64], picked: int
) -> int:
    """Count the choices (the best included) that numerical noise of 1e-4 + 1e-6 |nats| could make the best."""
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = (1e-4 + 1e-6 * np.abs(nats)) / lengths
        near = scores[picked] - scores <= np.maximum(noise, noise[picked])
    near[picked] = True
    return int(near.sum())


# ------------------------------------------------------------- the metrics, in the order of lm-eval's results files


def _over_choices(
    formula: str, *, needs: tuple[Need, ...] = (), **rare: Unpack[RareFacts]
) -> Callable[[OfChoices], OfChoices]:
    """Declare an accuracy: whether the best choice, by some measure, is gold."""
    return metric(of=MULTIPLE_CHOICE, formula=formula, scale="right or wrong", needs=needs, picks_choice=True, **rare)


@metric(
    of=MULTIPLE_CHOICE,
    formula="1 if the choice with the highest log-likelihood (the first of equal ones) is gold, else 0",
    scale="right or wrong",
    is_default=True,
    preference=3,
    picks_choice=True,
    in_lm_eval=True,
    per_cent_in=("opencompass",),
)
def acc(answer: ChoiceAnswer) -> ScoreValue:
    """Return whether the most probable choice is gold."""
    return answer.plain_accuracy


@metric(
    of=MULTIPLE_CHOICE,
    formula="harmonic mean of precision and recall over all samples",
    aggregation="f1",
    bounds=(0.0, 100.0),  # lm-eval's squadv2
    preference=5,
    in_lm_eval=True,
)
def f1(answer: ChoiceAnswer) -> ScoreValue:
    """Return the gold and the picked label."""
    return _label_pair(answer)


@metric(
    of=MULTIPLE_CHOICE,
    formula="Matthews correlation of picked and gold choices over all samples",
    aggregation="matthews_corrcoef",
    scale="number",
    bounds=(-1.0, 1.0),
    in_lm_eval=True,
)
def mcc(answer: ChoiceAnswer) -> ScoreValue:
    """Return the gold and the picked label."""
    return _label_pair(answer)


def _label_pair(answer: ChoiceAnswer) -> ScoreValue:
    gold = answer.gold_label
    return ScoreValue(
        None, parts=(gold[0] if isinstance(gold, list) and len(gold) == 1 else gold, int(np.argmax(answer.nats)))
    )


def _acc_per_length(answer: ChoiceAnswer, lengths: Iterable[int]) -> ScoreValue:
    divisors = np.array([float(length) for length in lengths])
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty choice: -inf, never picked, as in lm-eval
        return _accuracy(answer, answer.nats / divisors, divisors)


@metric(
    of=MULTIPLE_CHOICE,
    formula="as acc, each log-likelihood divided by the number of characters of its choice",
    scale="right or wrong",
    is_default=True,
    preference=1,
    picks_choice=True,
    length="characters",
    in_lm_eval=True,
)
def acc_norm(answer: ChoiceAnswer) -> ScoreValue:
    """Return whether the choice that is most probable per character is gold."""
    return _acc_per_length(answer, map(len, answer.choices))


@_over_choices(
    "as acc, each log-likelihood divided by the number of UTF-8 bytes of its choice", length="bytes", in_lm_eval=True
)
def acc_bytes(answer: ChoiceAnswer) -> ScoreValue:
    """Return whether the choice that is most probable per byte is gold."""
    return _acc_per_length(answer, (len(choice.encode()) for choice in answer.choices))


@metric(
    of=MULTIPLE_CHOICE,
    formula="1 if every token of a gold choice is the model's first choice, else 0",
    scale="right or wrong",
    in_lm_eval=True,
    logged_as="whole number",
)
def exact_match(answer: ChoiceAnswer) -> ScoreValue:
    """Return whether greedy decoding would generate a gold choice."""
    n = len(answer.greedy)  # as in lm-eval, -1 (the label of rows without an answer) is the last choice
    return ScoreValue(float(any(answer.greedy[index] for index in answer.gold_set if -n <= index < n)))


@metric(
    of=MULTIPLE_CHOICE,
    formula="sum over choices of (softmax of the log-likelihoods - 1 if gold)^2",
    aggregation="brier_score",
    higher_is_better=False,
    scale="number",
    bounds=(0.0, 2.0),
    needs=("every choice",),
    in_lm_eval=True,
    logged_as="array",
)
def brier_score(answer: ChoiceAnswer) -> ScoreValue:
    """Return the Brier score, with the gold label and all probabilities for lm-eval's aggregation."""
    return ScoreValue(_brier(answer), parts=(answer.gold_label, tuple(answer.probabilities.tolist())))


@metric(
    of=MULTIPLE_CHOICE,
    formula="the log-likelihood of every choice, stored and not aggregated",
    scale="number",
    needs=("every choice",),
    in_lm_eval=True,
)
def likelihood(answer: ChoiceAnswer) -> ScoreValue:
    """Return the gold label and the log-likelihood of every choice."""
    return ScoreValue(None, parts=(answer.gold_label, tuple(answer.nats.tolist())))


@_over_choices(
    "as acc, after subtracting each choice's log-likelihood after an empty context",
    needs=("unconditional",),
    in_lm_eval=True,
)
def acc_mutual_info(answer: ChoiceAnswer) -> ScoreValue:
    """Return whether the choice that the context makes more probable than the others is gold."""
    if answer.unconditional is None:
        raise MalformedSample(
            "acc_mutual_info needs each choice's log-likelihood after an empty context; none was requested"
        )
    return _accuracy(answer, answer.nats - answer.unconditional, np.ones(len(answer.choices)))


@_over_choices(
    "as acc, each log-likelihood divided by the number of tokens of its choice",
    needs=("token counts",),
    length="tokens",
)
def acc_tokens(answer: ChoiceAnswer) -> ScoreValue:
    """Return whether the choice that is most probable per token is gold."""
    if answer.n_tokens is None or len(answer.n_tokens) != len(answer.choices) or min(answer.n_tokens) < 1:
        raise MalformedSample(
            f"acc_tokens divides by the number of tokens of each choice; the model reported {answer.n_tokens} "
            f"for {len(answer.choices)} choices"
        )
    return _acc_per_length(answer, answer.n_tokens)


@metric(
    of=MULTIPLE_CHOICE,
    formula="as acc_tokens, equally probable best choices sharing the credit",
    needs=("token counts",),
    picks_choice=True,
    length="tokens",
)
def acc_tokens_ties(answer: ChoiceAnswer) -> ScoreValue:
    """Return the credit of the choices that are most probable per token.

    Source: HELM 63754d05, benchmark/metrics/basic_metrics.py, `BasicReferenceMetric` of separate_original.
    """
    return _credit_of(acc_tokens(answer))


@metric(
    of=MULTIPLE_CHOICE,
    name=CALIBRATED,
    formula="as acc_ties, after subtracting each choice's log-likelihood after `Answer:`",
    needs=("unconditional",),
    picks_choice=True,
)
def acc_calibrated(answer: ChoiceAnswer) -> ScoreValue:
    """Return the credit of the choices that the question makes more probable than the others.

    Source: HELM 63754d05, benchmark/metrics/basic_metrics.py, `BasicReferenceMetric` of separate_calibrated.
    """
    if answer.unconditional is None:
        raise MalformedSample(f"{CALIBRATED} needs each choice's log-likelihood after 'Answer:'; none was requested")
    return _credit_of(_accuracy(answer, answer.nats - answer.unconditional, np.ones(len(answer.choices))))


def _credit_of(accuracy: ScoreValue) -> ScoreValue:
    return replace(accuracy, value=float(accuracy.detail["credit"]))


@metric(
    of=BESIDE_CHOICES, name=TIES, formula="as acc, equally probable best choices sharing the credit", picks_choice=True
)
def acc_ties(answer: ChoiceAnswer) -> ScoreValue:
    """Return the expected accuracy where ties are broken by a fair draw."""
    return ScoreValue(float(answer.plain_accuracy.detail["credit"]), detail=answer.plain_accuracy.detail)


@metric(
    of=BESIDE_CHOICES,
    formula="as brier_score, gold answers sharing the truth equally",
    higher_is_better=False,
    scale="number",
    needs=("every choice",),
)
def brier(answer: ChoiceAnswer) -> ScoreValue:
    """Return the Brier score."""
    return ScoreValue(_brier(answer))


@metric(of=BESIDE_CHOICES, formula="the share of the choices' probability on the best one", needs=("every choice",))
def confidence(answer: ChoiceAnswer) -> ScoreValue:
    """Return the best choice's probability, with the credit that it earned."""
    best = float(answer.probabilities.max())
    return ScoreValue(best, parts=(best, float(answer.plain_accuracy.detail["credit"])))


@metric(
    of=BESIDE_CHOICES, formula="the number of equally probable best choices", higher_is_better=False, scale="number"
)
def n_tied(answer: ChoiceAnswer) -> ScoreValue:
    """Return how many choices are the best one."""
    return ScoreValue(float(answer.plain_accuracy.detail["n_tied"]))


def _brier(answer: ChoiceAnswer) -> float | None:
    """Return the sum of squared differences from the truth (Brier 1950); gold answers share the truth equally."""
    probabilities, gold = answer.probabilities, answer.gold_set
    valid = [index for index in gold if 0 <= index < len(probabilities)]
    if not valid or len(valid) != len(gold):
        return None
    truth = np.zeros(len(probabilities))
    truth[valid] = 1.0 / len(valid)
    return float(np.sum((probabilities - truth) ** 2))


CIRCULAR = "circular_acc"
OVER_ROTATIONS = "acc_rotations"


@dataclass(frozen=True, slots=True)
class RotatedAnswer:
    """How a model answered one question in every rotation of its options."""

    credits: tuple[float, ...]  # by rotation, tied best choices sharing it
    n_right: int
    n_choices: int
    detail: Mapping[str, JsonValue]


@metric(
    of=ROTATIONS,
    name=CIRCULAR,
    formula="1 if acc is 1 in every rotation of the options (CircularEval), else 0",
    scale="right or wrong",
)
def circular_acc(answer: RotatedAnswer) -> ScoreValue:
    """Return whether every rotation was answered correctly."""
    chance = float(answer.n_choices) ** -answer.n_choices
    detail = {**answer.detail, "credit": prod(answer.credits), "chance": chance}
    return ScoreValue(float(answer.n_right == len(answer.credits)), detail=detail)


@metric(of=ROTATIONS, name=OVER_ROTATIONS, formula="the share of the rotations of the options in which acc is 1")
def acc_rotations(answer: RotatedAnswer) -> ScoreValue:
    """Return the share of rotations that were answered correctly."""
    n = len(answer.credits)
    return ScoreValue(answer.n_right / n, detail={**answer.detail, "credit": sum(answer.credits) / n})


def score_rotations(nats: Sequence[Sequence[float]], choices: Sequence[str], gold: Gold) -> dict[str, ScoreValue]:
    """Score one question that was asked in every rotation of its options.

    `circular_acc` is 1 if the best choice is gold in every rotation, else 0; `acc_rotations` is the share of rotations
    in which it is. Tied best choices share the credit within a rotation; the credit of `circular_acc` is the product.
    Details: `picked_by_rotation` (positions in the row's order), `n_right`, `n_tied` (the most in a rotation),
    `credit`, `n_choices`, and for `circular_acc` the `chance` of independent guesses, n_choices ** -n_choices.

    Args:
        nats: log-likelihoods [rotation, position shown]; in rotation s, position p shows option (p - s) mod n.
        choices: the letters.
        gold: index, letter, or a list of indices any of which is correct, in the row's order.

    Units: nats. Raises: NonFiniteLogits, MalformedSample as `score_choices`.
    Source: Liu et al. 2023 (MMBench, arXiv 2307.06281), section 4.2.
    """
    n = len(choices)
    right = resolve_gold(gold, choices)
    golds = right if isinstance(right, tuple) else (right,)
    values = [
        score_choices(
            row, [False] * n, None, choices, [(each + shift) % n if 0 <= each < n else each for each in golds], ["acc"]
        )["acc"]
        for shift, row in enumerate(nats)
    ]
    n_right = sum(value.value == 1.0 for value in values)
    answer = RotatedAnswer(
        credits=tuple(float(value.detail["credit"]) for value in values),
        n_right=n_right,
        n_choices=n,
        detail={
            "picked_by_rotation": [(value.detail["picked"] - shift) % n for shift, value in enumerate(values)],
            "n_right": n_right,
            "n_tied": max(value.detail["n_tied"] for value in values),
            "n_choices": n,
        },
    )
    return {name: compute(answer) for name, compute in computations(ROTATIONS).items()}
