"""The trie path on random tries of every shape, against one forward pass per sequence."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine import attention  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.spans import SpanBatch, SpanScore  # noqa: E402
from tests.engine.test_architectures import OLD_SHAPE, SHAPE, SLIDING, score_sequence, tiny_model  # noqa: E402

# Three tokens make deep sharing likely; lengths from 2 reach spans with a single token of context.
SEQUENCES = st.lists(st.lists(st.integers(3, 5), min_size=2, max_size=40), min_size=1, max_size=10)


@cache
def model_of(kind: str) -> Any:
    """Return one tiny model of each kind tested here."""
    shapes: dict[str, dict[str, Any]] = {
        "llama": SHAPE,
        "mistral": SHAPE | SLIDING,
        "gemma2": SHAPE | SLIDING | {"head_dim": 8, "query_pre_attn_scalar": 8},
        "gpt2": OLD_SHAPE | {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 128},
    }
    return tiny_model(kind, shapes[kind])


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2", "gpt2"])
@given(SEQUENCES, st.sampled_from([1, 2, 8, 64]), st.sampled_from([1, 4, 64]), st.integers(0, 3))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_trie_scores_like_each_sequence_alone(
    kind: str, sequences: list[list[int]], window: int, block: int, seed: int
) -> None:
    """Whatever is shared, and however it is split into windows and blocks, a score equals the sequence's alone."""
    generator = np.random.default_rng(seed)
    spans = SpanBatch.from_lists(sequences, [int(generator.integers(1, len(s))) for s in sequences])
    model = model_of(kind)
    engine = Engine.load(model, settings=EngineSettings(attention="trie", window_tokens=window))
    before = attention.BLOCK_QUERIES
    attention.BLOCK_QUERIES = block
    try:
        results = {r.index: r for r in engine.score(spans)}
    finally:
        attention.BLOCK_QUERIES = before
        engine.close()
    for i in range(len(spans)):
        total, is_greedy = score_sequence(model, spans.sequence(i), int(spans.n_scored[i]))
        result = results[i]
        assert isinstance(result, SpanScore)
        assert result.total_nats == pytest.approx(total, abs=1e-4, rel=1e-6)
        assert result.is_greedy == is_greedy


def test_the_last_layer_is_computed_for_target_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second window on, the last layer attends for the rows with targets and for no others."""
    queries: list[int] = []
    real = attention.attend_block

    def counting(query: Any, *rest: Any) -> Any:
        queries.append(query.shape[1])
        return real(query, *rest)

    monkeypatch.setattr(attention, "attend_block", counting)
    model = model_of("llama")
    engine = Engine.load(model, settings=EngineSettings(attention="trie", window_tokens=16))
    sequence = np.random.default_rng(0).integers(3, 101, 33).tolist()
    spans = SpanBatch.from_lists([sequence], [2])
    (result,) = engine.score(spans)
    assert queries == [32, 32, 32, 32, 32, 4]  # two windows of 16 rows, three layers, two query heads per key head
    queries.clear()
    assert [r.index for r in engine.score(spans)] == [0]
    assert queries == [32, 32, 32, 32, 4]  # the first window has no targets
    engine.close()
    assert isinstance(result, SpanScore)
    assert result.total_nats == pytest.approx(score_sequence(model, np.asarray(sequence), 2)[0], abs=1e-4)


def test_order_and_batch_do_not_matter() -> None:
    """A span alone, among others, or in another order scores the same."""
    generator = np.random.default_rng(0)
    sequences = [generator.integers(3, 6, generator.integers(2, 40)).tolist() for _ in range(12)]
    spans = SpanBatch.from_lists(sequences, [1] * 12)
    engine = Engine.load(model_of("llama"), settings=EngineSettings(window_tokens=16))
    together = {r.index: r.total_nats for r in engine.score(spans) if isinstance(r, SpanScore)}
    backwards = spans.subset(list(range(12))[::-1])
    reverse = {11 - r.index: r.total_nats for r in engine.score(backwards) if isinstance(r, SpanScore)}
    for i in range(12):
        (alone,) = engine.score(spans.subset([i]))
        assert isinstance(alone, SpanScore)
        assert alone.total_nats == pytest.approx(together[i], abs=1e-4)
        assert reverse[i] == pytest.approx(together[i], abs=1e-4)


def test_no_spans_give_no_results() -> None:
    """An empty batch is scored at once."""
    engine = Engine.load(model_of("llama"), settings=EngineSettings(attention="trie"))
    assert list(engine.score(SpanBatch.from_lists([], []))) == []
    assert engine.plan(SpanBatch.from_lists([], [])).n_windows == 0


def test_many_target_rows_are_projected_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rolling scores, with a target at every row, are the same in pieces of a few rows."""
    from assaymark.engine import head

    tokens = np.random.default_rng(0).integers(3, 101, 60).tolist()
    spans = SpanBatch.from_lists([tokens, tokens[:30]], [59, 29])
    engine = Engine.load(model_of("gemma2"), settings=EngineSettings(attention="trie"))
    whole = list(engine.score(spans))
    monkeypatch.setattr(head, "LOGITS_AT_ONCE", 101 * 7)
    monkeypatch.setattr(head, "ROWS_AT_LEAST", 1)
    pieces = list(engine.score(spans))
    assert [r.total_nats for r in pieces if isinstance(r, SpanScore)] == pytest.approx(
        [r.total_nats for r in whole if isinstance(r, SpanScore)], abs=1e-4
    )


def test_the_first_of_equal_best_logits_is_greedy() -> None:
    """If two tokens tie for the best, only the first of them is the argmax, as in the reference."""
    from assaymark.engine.head import score_rows

    logits = torch.tensor([[0.0, 2.0, 2.0, 1.0]])
    rows = torch.zeros(3, dtype=torch.long)
    logprobs, is_best = score_rows(logits.clone(), rows, torch.tensor([1, 2, 3]))
    assert is_best.tolist() == [True, False, False]
    assert logprobs.tolist() == pytest.approx(torch.log_softmax(logits, -1)[0, 1:].tolist(), abs=1e-6)
