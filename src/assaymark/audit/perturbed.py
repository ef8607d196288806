"""Test of whether a sample is likelier as published than in a perturbed twin that poses the same task.

Two kinds of twin need no paraphraser: the options in another order, and the question's numbers replaced by others of
the same length. The order of options is arbitrary, so a model that has not seen them prefers none. True numbers may be
likelier than invented ones to any model, so those differences are meaningful only relative to a control.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.audit.items import AuditItem
from assaymark.audit.likelihoods import Likelihoods
from assaymark.errors import DataError
from assaymark.randomness import generator_for
from assaymark.statistics.paired import LocationTest, mean_above_zero, sign_test_above_zero

N_ORDERS = 3  # other orders per sample: they share the question, so each costs only its options
FEWEST_ITEMS = 10
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Twins:
    """One sample: the context that all versions share, the published text, and its perturbed versions."""

    index: int
    context: str
    published: str
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TwinTest:
    """Whether published texts are likelier than their twins, over samples."""

    t_test: LocationTest
    sign_test: LocationTest
    differences: tuple[tuple[int, float], ...]  # (sample index, nats)


def option_twins(items: Sequence[AuditItem], name: str, seed: int = 0) -> list[Twins]:
    """Return the samples that have options, listed in the file's order and in other orders."""
    twins = []
    for item in _distinct(items):
        if not item.has_options or item.question is None:
            continue
        generator = generator_for("option twins", name, item.index, seed)
        orders = _other_orders(len(item.options), generator)
        texts = [_lettered([item.options[i] for i in order]) for order in orders]
        own = _lettered(item.options)
        others = tuple(dict.fromkeys(text for text in texts if text != own))
        if others:
            twins.append(Twins(item.index, item.question, own, others))
    return twins


def number_twins(items: Sequence[AuditItem], name: str, seed: int = 0) -> list[Twins]:
    """Return the samples that contain numbers, with versions of other numbers; equal numbers stay equal."""
    twins = []
    for item in _distinct(items):
        first = _NUMBER.search(item.text)
        if first is None:
            continue
        generator = generator_for("number twins", name, item.index, seed)
        other = _with_other_numbers(item.text, generator)
        context = item.text[: first.start()].rstrip()  # what precedes the first number is the same in both
        if other != item.text and context:
            twins.append(Twins(item.index, context, item.text[len(context) :], (other[len(context) :],)))
    return twins


def _distinct(items: Sequence[AuditItem]) -> list[AuditItem]:
    """Return the samples without copies of earlier ones, which are no further evidence."""
    first: dict[tuple[str, tuple[str, ...]], AuditItem] = {}
    for item in items:
        first.setdefault((item.text, item.options), item)
    return list(first.values())


def compare_twins(likelihoods: Likelihoods, twins: Sequence[Twins], name: str = "twins") -> TwinTest:
    """Test whether the published texts are likelier: d_i = log p(published) - mean of log p(others).

    `name` distinguishes these twins from others of the same audit.

    Raises: DataError for fewer than ten answered samples.
    Source: the exchangeability argument of Oren et al. 2023, within samples.
    """
    pairs = [(twin.context, text) for twin in twins for text in (twin.published, *twin.others)]
    answers = iter(likelihoods.of_continuations(pairs, name))
    differences: list[tuple[int, float]] = []
    for twin in twins:
        values = [next(answers) for _ in range(1 + len(twin.others))]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            differences.append((twin.index, known[0] - float(np.mean(known[1:]))))
    return twin_test(differences)


def twin_test(differences: Sequence[tuple[int, float]]) -> TwinTest:
    """Test differences (sample index, nats), whose mean is zero if nothing was seen.

    Raises: DataError for fewer than ten.
    """
    if len(differences) < FEWEST_ITEMS:
        raise DataError(
            f"{len(differences)} samples have a twin (options to reorder, numbers to replace); the test "
            f"needs at least {FEWEST_ITEMS}"
        )
    values = [value for _, value in differences]
    return TwinTest(mean_above_zero(values), sign_test_above_zero(values), tuple(differences))


def _lettered(options: Sequence[str]) -> str:
    return "".join(f"\n{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False))


def _other_orders(n: int, generator: np.random.Generator) -> list[list[int]]:
    """Return up to three orders other than the file's."""
    own = list(range(n))
    if n == 2:
        return [[1, 0]]
    drawn = [generator.permutation(n).tolist() for _ in range(4 * N_ORDERS)]
    unlike = [order for order in drawn if order != own]
    return [list(order) for order in dict.fromkeys(map(tuple, unlike))][:N_ORDERS]


def _with_other_numbers(text: str, generator: np.random.Generator) -> str:
    """Replace each number by another with as many digits; equal numbers get the same replacement."""
    known: dict[str, str] = {}

    def other(match: re.Match[str]) -> str:
        number = match.group()
        if number not in known:
            known[number] = _other_number(number, generator)
        return known[number]

    return _NUMBER.sub(other, text)


def _other_number(number: str, generator: np.random.Generator) -> str:
    for _ in range(20):
        digits = [str(generator.integers(0, 10)) for _ in number]
        if number[0] != "0":
            digits[0] = str(generator.integers(1, 10))
        if "".join(digits) != number:
            return "".join(digits)
    return number
