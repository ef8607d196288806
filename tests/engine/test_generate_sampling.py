"""Sampling of a token: transformers' filters, and frequencies that follow the probabilities."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from assaymark.engine.generation import Sampling, uniform  # noqa: E402
from assaymark.engine.sampling import choose, draw  # noqa: E402
from assaymark.errors import PlanError  # noqa: E402


def filtered(logits: Any, sampling: Sampling) -> Any:
    """Return the probabilities that transformers samples from."""
    from transformers.generation import logits_process

    scores = logits_process.TemperatureLogitsWarper(float(sampling.temperature))(None, logits)
    if sampling.top_k is not None:
        scores = logits_process.TopKLogitsWarper(sampling.top_k)(None, scores)
    if sampling.top_p is not None:
        scores = logits_process.TopPLogitsWarper(sampling.top_p)(None, scores)
    if sampling.min_p is not None:
        scores = logits_process.MinPLogitsWarper(sampling.min_p)(None, scores)
    return scores.softmax(dim=-1)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0),
        Sampling(0.6),
        Sampling(1.0, top_k=7),
        Sampling(1.3, top_p=0.8),
        Sampling(0.9, top_k=40, top_p=0.7),
        Sampling(1.0, min_p=0.2),
        Sampling(1.5, top_k=30, top_p=0.95, min_p=0.05),
        Sampling(5.0, top_p=0.99),
    ],
)
def test_draws_follow_transformers_distribution(sampling: Sampling) -> None:
    """Evenly spread numbers hit each token as often as its probability under transformers' filters."""
    logits = torch.randn(1, 1500, generator=torch.Generator().manual_seed(3)) * 3
    expected = filtered(logits, sampling)[0].double()
    n = 20_000
    numbers = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    tokens = torch.cat([draw(logits.expand(2000, -1), sampling, part) for part in numbers.split(2000)])
    counts = torch.bincount(tokens, minlength=1500).double() / n
    assert float((counts - expected).abs().max()) <= 1.5 / n + 1e-5
    assert not (counts[expected == 0] > 0).any()


def test_the_last_number_gives_a_possible_token() -> None:
    """A number just below 1 never selects a token of probability 0."""
    logits = torch.full((1, 50), -torch.inf)
    logits[0, [3, 20]] = 0.0
    assert draw(logits, Sampling(1.0), torch.tensor([1 - 2**-53], dtype=torch.float64)).tolist() == [20]


@pytest.mark.parametrize("temperature", [1e-38, 5e-324])
def test_a_temperature_next_to_0_is_greedy(temperature: float) -> None:
    """No score overflows, which made every probability undefined and drew the last token."""
    logits = torch.tensor([[-400.0, 300.0, 20.0, -torch.inf]])
    for sampling in (Sampling(temperature), Sampling(temperature, top_k=2, top_p=0.9, min_p=0.1)):
        assert draw(logits, sampling, torch.tensor([0.99], dtype=torch.float64)).tolist() == [1]


def test_greedy_and_sampled_rows_are_chosen_together() -> None:
    """Rows with different settings are chosen in one call; a row that is not finite is reported."""
    logits = torch.zeros(3, 5)
    logits[0, 4], logits[1, 2], logits[2, 1] = 1.0, 50.0, float("nan")
    tokens, finite = choose(logits, [None, Sampling(1.0), None], [0.0, 0.5, 0.0])
    assert tokens[:2] == [4, 2]
    assert finite == [True, True, False]


def test_numbers_depend_on_their_names() -> None:
    """A number depends on each of its four names, is in [0, 1), and is spread evenly."""
    base = uniform(1, "a", 0, 0)
    assert base == uniform(1, "a", 0, 0)
    assert len({base, uniform(2, "a", 0, 0), uniform(1, "b", 0, 0), uniform(1, "a", 1, 0), uniform(1, "a", 0, 1)}) == 5
    many = [uniform(0, "k", 0, step) for step in range(4000)]
    assert min(many) >= 0
    assert max(many) < 1
    assert abs(sum(many) / 4000 - 0.5) < 0.02


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"top_k": 0}, {"top_p": 1.5}, {"min_p": -0.1}])
def test_invalid_settings_are_refused(wrong: dict[str, Any]) -> None:
    """Settings outside their range are refused by name."""
    with pytest.raises(PlanError, match=next(iter(wrong))):
        Sampling(**wrong)
