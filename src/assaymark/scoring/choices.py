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
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assaymark.errors import MalformedSample, NonFiniteLogits, UnknownName
from assaymark.records import Score
from assaymark.registry import nearest
from assaymark.scoring.metrics import BRIER, CONFIDENCE, MULTIPLE_CHOICE, TIES, defaults_for
from assaymark.scoring.values import ScoreValue

Gold = int | str | Sequence[int]

OF_PROBABILITIES = frozenset({BRIER, CONFIDENCE, "brier_score", "likelihood"})
OUT_OF_RANGE = -100  # lm-eval's label for a gold answer that is none of the choices: always scored as wrong


@dataclass(frozen=True, slots=True)
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


def score_choices(
    nats: Sequence[float],
    greedy: Sequence[bool],
    unconditional: Sequence[float] | None,
    choices: Sequence[str],
    gold: Gold,
    metrics: Iterable[str] = defaults_for(MULTIPLE_CHOICE),
    n_tokens: Sequence[int] | None = None,
    functions: Mapping[str, Callable[[ChoiceAnswer], ScoreValue]] | None = None,
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
        metrics: those of `metrics.METRICS` for multiple choice.
        n_tokens: of each choice, as the model counts them; needed for acc_tokens only.
        functions: other metrics, by name.

    Units: nats. Raises: NonFiniteLogits for a log-likelihood that is not finite; MalformedSample where counts differ;
        UnknownName for a metric that is neither of this package nor in `functions`.
    Source: lm-evaluation-harness 0.4.13, `ConfigurableTask.process_results`; ties after HELM (1/#tied).
    """
    answer = replace(
        _checked(nats, greedy, unconditional, choices, gold), n_tokens=None if n_tokens is None else tuple(n_tokens)
    )
    computations = {**_COMPUTED, **(functions or {})}
    result: dict[str, ScoreValue] = {}
    for metric in metrics:
        if metric not in computations:
            raise UnknownName("multiple-choice metric", metric, nearest(metric, computations))
        result[metric] = computations[metric](answer)
    is_own = "acc" in result and "acc" not in (functions or {})  # a task's own metric may have that name
    return result | _beside(answer, result["acc"] if is_own else _acc(answer))


def of_first_tokens(scores: Sequence[Score], n_outside: int) -> list[Score]:
    """Return the scores of a sample whose choices were scored by the first generated token.

    Every accuracy's detail has `first_token` and `n_outside`, the number of choices that are only known to be less
    probable than the best one. Where there is any, scores that need all probabilities are undefined.
    """
    adjusted: list[Score] = []
    for score in scores:
        if n_outside and score.metric in OF_PROBABILITIES:
            adjusted.append(replace(score, value=None, parts=None, detail=None))
        elif isinstance(score.detail, dict):
            adjusted.append(replace(score, detail={**score.detail, "first_token": True, "n_outside": n_outside}))
        else:
            adjusted.append(score)
    return adjusted


def _beside(answer: ChoiceAnswer, plain: ScoreValue) -> dict[str, ScoreValue]:
    """Return the scores of every multiple-choice sample besides the requested metrics; plain: its `acc`."""
    credit = float(plain.detail["credit"])
    best = float(answer.probabilities.max())
    return {
        TIES: ScoreValue(credit, detail=plain.detail),
        BRIER: ScoreValue(_brier(answer)),
        CONFIDENCE: ScoreValue(best, parts=(best, credit)),
        "n_tied": ScoreValue(float(plain.detail["n_tied"])),
    }


def softmax(nats: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return probabilities proportional to exp(nats), shifted by the maximum so that nothing overflows."""
    values = np.asarray(nats, dtype=np.float64)
    powers = np.exp(values - values.max())
    return np.asarray(powers / powers.sum())


def mass_on_true(nats: Sequence[float], labels: Sequence[int]) -> float:
    """Return the share of the choices' probability on those labelled 1 (TruthfulQA's mc2).

    Shifted by the maximum: where every exp(nats) underflows, lm-eval's own computation gives 0/0 and this does not.
    Raises: NonFiniteLogits; MalformedSample where counts differ.
    Source: Lin et al. 2022 (TruthfulQA), section 3.2; lm-evaluation-harness `process_results_mc2`.
    """
    if len(nats) != len(labels) or not labels:
        raise MalformedSample(f"{len(nats)} log-likelihoods for {len(labels)} labels; expected as many, at least one")
    values = _finite(nats, "choice")
    return float(softmax(values)[np.asarray(labels) == 1].sum())


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


_Computation = Callable[[ChoiceAnswer], ScoreValue]
_COMPUTED: dict[str, _Computation] = {}


def _computes(*names: str) -> Callable[[_Computation], _Computation]:
    """Register what computes the metrics of these names; `metric_table` has their rows."""

    def register(function: _Computation) -> _Computation:
        _COMPUTED.update(dict.fromkeys(names, function))
        return function

    return register


@_computes("acc")
def _acc(answer: ChoiceAnswer) -> ScoreValue:
    return _accuracy(answer, answer.nats, np.ones(len(answer.choices)))


def _acc_per_length(answer: ChoiceAnswer, lengths: Iterable[int]) -> ScoreValue:
    divisors = np.array([float(length) for length in lengths])
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty choice: -inf, never picked, as in lm-eval
        return _accuracy(answer, answer.nats / divisors, divisors)


@_computes("acc_norm")
def _acc_per_character(answer: ChoiceAnswer) -> ScoreValue:
    return _acc_per_length(answer, map(len, answer.choices))


@_computes("acc_bytes")
def _acc_per_byte(answer: ChoiceAnswer) -> ScoreValue:
    return _acc_per_length(answer, (len(choice.encode()) for choice in answer.choices))


@_computes("acc_tokens")
def _acc_per_token(answer: ChoiceAnswer) -> ScoreValue:
    if answer.n_tokens is None or len(answer.n_tokens) != len(answer.choices) or min(answer.n_tokens) < 1:
        raise MalformedSample(
            f"acc_tokens divides by the number of tokens of each choice; the model reported {answer.n_tokens} "
            f"for {len(answer.choices)} choices"
        )
    return _acc_per_length(answer, answer.n_tokens)


@_computes("acc_mutual_info")
def _acc_mutual_information(answer: ChoiceAnswer) -> ScoreValue:
    if answer.unconditional is None:
        raise MalformedSample(
            "acc_mutual_info needs each choice's log-likelihood after an empty context; none was requested"
        )
    return _accuracy(answer, answer.nats - answer.unconditional, np.ones(len(answer.choices)))


@_computes("f1", "mcc")
def _label_pair(answer: ChoiceAnswer) -> ScoreValue:
    return ScoreValue(None, parts=(answer.gold_label, int(np.argmax(answer.nats))))


@_computes("brier_score")
def _brier_score(answer: ChoiceAnswer) -> ScoreValue:
    return ScoreValue(_brier(answer), parts=(answer.gold_label, tuple(answer.probabilities.tolist())))


@_computes("exact_match")
def _greedy_match(answer: ChoiceAnswer) -> ScoreValue:
    n = len(answer.greedy)  # as in lm-eval, -1 (the label of rows without an answer) is the last choice
    return ScoreValue(float(any(answer.greedy[index] for index in answer.gold_set if -n <= index < n)))


@_computes("likelihood")
def _likelihood(answer: ChoiceAnswer) -> ScoreValue:
    return ScoreValue(None, parts=(answer.gold_label, tuple(answer.nats.tolist())))


@_computes("bypass")
def _bypass(_answer: ChoiceAnswer) -> ScoreValue:
    return ScoreValue(None)


def _brier(answer: ChoiceAnswer) -> float | None:
    """Return the sum of squared differences from the truth (Brier 1950); gold answers share the truth equally."""
    probabilities, gold = answer.probabilities, answer.gold_set
    valid = [index for index in gold if 0 <= index < len(probabilities)]
    if not valid or len(valid) != len(gold):
        return None
    truth = np.zeros(len(probabilities))
    truth[valid] = 1.0 / len(valid)
    return float(np.sum((probabilities - truth) ** 2))


def chance_of(choices: Mapping[str, Any] | Sequence[str], gold: Gold) -> float:
    """Return the accuracy of random guessing on this sample: number of gold answers over number of choices."""
    right = resolve_gold(gold, list(choices))
    indices = set(right) if isinstance(right, tuple) else {right}
    return len(indices - {OUT_OF_RANGE}) / len(choices)


__all__ = ["CIRCULAR", "OVER_ROTATIONS", "score_rotations"]

CIRCULAR = "circular_acc"
OVER_ROTATIONS = "acc_rotations"


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
    shares = [float(value.detail["credit"]) for value in values]
    n_right = sum(value.value == 1.0 for value in values)
    detail = {
        "picked_by_rotation": [(value.detail["picked"] - shift) % n for shift, value in enumerate(values)],
        "n_right": n_right,
        "n_tied": max(value.detail["n_tied"] for value in values),
        "n_choices": n,
    }
    return {
        CIRCULAR: ScoreValue(
            float(n_right == len(values)), detail={**detail, "credit": prod(shares), "chance": float(n) ** -n}
        ),
        OVER_ROTATIONS: ScoreValue(n_right / len(values), detail={**detail, "credit": sum(shares) / len(shares)}),
    }
