"""Half precision, rounding rules, overflow, and too little memory."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine import forward, plain  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowReport  # noqa: E402
from assaymark.errors import NonFiniteLogits  # noqa: E402
from tests.engine.test_architectures import OLD_SHAPE, PLAINLY, SHAPE, branching, score_sequence, tiny_model  # noqa: E402


def totals_of(engine: Engine, spans: SpanBatch) -> list[float]:
    """Return the scores in the spans' order; every span must have one."""
    results = {r.index: r.total_nats for r in engine.score(spans) if isinstance(r, SpanScore)}
    return [results[i] for i in range(len(spans))]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_weights_are_scored_in_float32(dtype: Any) -> None:
    """With half weights the trie path stays close to the same weights in float32, and sums are not rounded to half."""
    half = tiny_model("llama", SHAPE | {"initializer_range": 0.05}).to(dtype)
    exact = tiny_model("llama", SHAPE | {"initializer_range": 0.05}).to(dtype).float()
    spans = branching()
    engine = Engine.load(half, settings=EngineSettings(attention="trie"))
    assert engine.info.dtype == str(dtype).removeprefix("torch.")
    totals = totals_of(engine, spans)
    reference = [score_sequence(exact, spans.sequence(i), int(spans.n_scored[i]))[0] for i in range(len(spans))]
    assert totals == pytest.approx(reference, rel=3e-3, abs=0.02)
    assert any(float(torch.tensor(total).to(dtype)) != total for total in totals)


def test_the_self_check_accepts_bfloat16() -> None:
    """In bfloat16 the plain path varies by itself, and the trie path stays within that variation."""
    engine = Engine.load(tiny_model("llama", SHAPE | {"initializer_range": 0.05}).bfloat16())
    assert engine.info.attention == "trie", engine.info.why


@pytest.mark.parametrize("attention", ["plain", "trie"])
def test_model_dtype_rounds_like_lm_eval(attention: Any) -> None:
    """With numerics=model-dtype softmax, gather and sum happen in bfloat16."""
    model = tiny_model("llama", SHAPE | {"initializer_range": 0.05}).bfloat16()
    engine = Engine.load(model, settings=EngineSettings(numerics="model-dtype", attention=attention))
    tokens = branching().sequence(0)
    (result,) = engine.score(SpanBatch.from_lists([tokens], [5]))
    ids = torch.as_tensor(tokens.astype(np.int64))
    with torch.inference_mode():
        logits = torch.log_softmax(model(input_ids=ids[None, :-1]).logits[0, -5:], dim=-1)
        expected = float(logits.gather(1, ids[-5:, None])[:, 0].sum())
    assert isinstance(result, SpanScore)
    assert float(torch.tensor(result.total_nats).bfloat16()) == result.total_nats
    assert result.total_nats == pytest.approx(expected, rel=0.02 if attention == "trie" else 0)


def test_overflow_is_reported_with_span_and_remedy() -> None:
    """A model that overflows in float16 gives a failure with dtype and remedy; bfloat16 gives a score."""
    model = tiny_model("llama", SHAPE)
    for layer in model.model.layers:
        layer.mlp.down_proj.weight.data *= 1e6
    spans = branching(n=3)
    bfloat = Engine.load(model.bfloat16())
    assert all(isinstance(r, SpanScore) for r in bfloat.score(spans))
    bfloat.close()
    half = Engine.load(model.half())
    failures = {r.index: r for r in half.score(spans)}
    assert sorted(failures) == [0, 1, 2]
    for failure in failures.values():
        assert isinstance(failure, SpanFailure)
        assert failure.kind is NonFiniteLogits
        assert failure.reason.startswith("logits are not finite in float16; run with dtype=bfloat16")


@pytest.mark.parametrize("attention", ["plain", "trie"])
def test_a_span_that_is_not_finite_fails_alone(attention: Any) -> None:
    """A token whose embedding is infinite fails its spans; the others in the same window keep their scores."""
    model = tiny_model("llama", SHAPE)
    spans = branching()
    settings = EngineSettings(attention=attention)
    before = totals_of(Engine.load(model, settings=settings), spans)
    bad_token = int(spans.sequence(3)[-2])
    model.model.embed_tokens.weight.data[bad_token] = float("inf")
    results = {r.index: r for r in Engine.load(model, settings=settings).score(spans)}
    assert sorted(results) == list(range(len(spans)))
    failed = {i for i, r in results.items() if isinstance(r, SpanFailure)}
    assert failed == {i for i in range(len(spans)) if bad_token in spans.sequence(i)[:-1]}
    assert 3 in failed
    assert len(failed) < len(spans)
    for i, result in results.items():
        if isinstance(result, SpanScore):
            assert result.total_nats == pytest.approx(before[i], abs=1e-4)


def test_too_little_memory_halves_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a window does not fit it is halved, the run continues, reports it, and gives the same scores."""
    engine = Engine.load(tiny_model("llama", SHAPE), settings=EngineSettings(window_tokens=256))
    spans = branching()
    whole = totals_of(engine, spans)
    real = forward._score_window

    def tight(head: Any, trie: Any, window: Any, *rest: Any) -> Any:
        if len(window) > 64:
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
            )
        return real(head, trie, window, *rest)

    monkeypatch.setattr(forward, "_score_window", tight)
    reports: list[WindowReport] = []
    results = {r.index: r for r in engine.score(spans, reports.append)}
    assert [results[i].index for i in sorted(results)] == list(range(len(spans)))
    assert [r.total_nats for _, r in sorted(results.items()) if isinstance(r, SpanScore)] == pytest.approx(
        whole, abs=1e-4
    )
    assert any("halved to 64" in (report.note or "") for report in reports)


def test_too_little_memory_halves_a_plain_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain path also continues with smaller batches."""
    engine = Engine.load(tiny_model("bloom", OLD_SHAPE | PLAINLY["bloom"]))
    spans = branching()
    whole = totals_of(engine, spans)
    real = plain._score_batch
    sizes: list[int] = []

    def tight(model: Any, batch: Any, groups: Any, *rest: Any) -> Any:
        sizes.append(len(groups))
        if len(groups) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return real(model, batch, groups, *rest)

    monkeypatch.setattr(plain, "_score_batch", tight)
    assert totals_of(engine, spans) == pytest.approx(whole, abs=1e-4)
    assert max(sizes) > 2


def test_other_runtime_errors_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a lack of memory is retried."""
    engine = Engine.load(tiny_model("llama", SHAPE))

    def broken(*_: Any) -> Any:
        raise RuntimeError("a shape does not fit")

    monkeypatch.setattr(forward, "_score_window", broken)
    with pytest.raises(RuntimeError, match="a shape does not fit"):
        list(engine.score(branching()))
