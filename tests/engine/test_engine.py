"""The engine on small real models, against the reference."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from pathlib import Path  # noqa: E402

from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.spans import SpanBatch, SpanFailure, SpanScore, WindowReport  # noqa: E402
from assaymark.errors import ModelUnavailable, PlanError, PromptTooLong  # noqa: E402
from tests.engine.test_architectures import score_sequence  # noqa: E402

MODELS = [("stories260K", "trie"), ("bitllama-1.2m", "trie"), ("craftgpt-5m", "trie"), ("rwkv4-660k", "plain")]


def branching(vocab: int, n: int = 24, seed: int = 0, longest: int = 60) -> SpanBatch:
    """Return sequences that share prefixes of all lengths."""
    generator = np.random.default_rng(seed)
    trunk = generator.integers(0, vocab, longest).tolist()
    sequences = []
    for _ in range(n):
        fork = int(generator.integers(1, longest - 1))
        tail = int(generator.integers(1, longest - fork + 1))
        sequences.append(trunk[:fork] + generator.integers(0, vocab, tail).tolist())
    sequences.append(sequences[0][:])
    return SpanBatch.from_lists(sequences, [int(generator.integers(1, len(s))) for s in sequences])


@pytest.mark.parametrize(("name", "path"), MODELS)
def test_scores_equal_the_reference(shared_dir: Path, name: str, path: str) -> None:
    """Every span's score is that of one plain forward pass, whichever path the self-check chose."""
    engine = Engine.load(shared_dir / "models" / name, settings=EngineSettings(dtype="float32"))
    assert engine.info.attention == path, engine.info.why
    spans = branching(engine.info.vocab_size)
    results = {result.index: result for result in engine.score(spans)}
    assert sorted(results) == list(range(len(spans)))
    for i, result in results.items():
        total, is_greedy = score_sequence(engine._open().inner, spans.sequence(i), int(spans.n_scored[i]))
        assert isinstance(result, SpanScore)
        assert result.total_nats == pytest.approx(total, abs=1e-4, rel=1e-6)
        assert result.is_greedy == is_greedy


def test_windows_do_not_change_scores(shared_dir: Path) -> None:
    """Windows smaller than a branch give the same scores as one window for all."""
    path = shared_dir / "models" / "stories260K"
    spans = branching(512)
    totals = []
    for window in (4, 32, 4096):
        settings = EngineSettings(dtype="float32", window_tokens=window, attention="trie")
        engine = Engine.load(path, settings=settings)
        results = {r.index: r.total_nats for r in engine.score(spans) if isinstance(r, SpanScore)}
        totals.append([results[i] for i in range(len(spans))])
    assert totals[0] == pytest.approx(totals[2], abs=1e-4)
    assert totals[1] == pytest.approx(totals[2], abs=1e-4)


def test_the_same_plan_gives_the_same_bits(shared_dir: Path) -> None:
    """Scoring twice gives identical floats, not only close ones."""
    engine = Engine.load(shared_dir / "models" / "stories260K", settings=EngineSettings(dtype="float32"))
    spans = branching(512)
    assert list(engine.score(spans)) == list(engine.score(spans))


def test_scores_stream_and_are_reported(shared_dir: Path) -> None:
    """Results arrive while windows remain, and the last report states that everything is done."""
    settings = EngineSettings(dtype="float32", window_tokens=32)
    engine = Engine.load(shared_dir / "models" / "stories260K", settings=settings)
    spans = branching(512)
    reports: list[WindowReport] = []
    first = next(stream := engine.score(spans, reports.append))
    assert isinstance(first, SpanScore)
    assert len(reports) < engine.plan(spans).n_windows
    assert len(list(stream)) == len(spans) - 1
    plan = engine.plan(spans)
    assert len(reports) == plan.n_windows
    assert (reports[-1].n_distinct_done, reports[-1].n_tokens_done) == (plan.n_distinct, plan.n_tokens)


def test_a_span_that_is_too_long_fails_alone(shared_dir: Path) -> None:
    """A sequence longer than the model's positions fails; the others are scored."""
    engine = Engine.load(shared_dir / "models" / "craftgpt-5m", settings=EngineSettings(dtype="float32"))
    spans = SpanBatch.from_lists([[1] * 65, [1] * 66, [1, 2]], [1, 1, 1])
    results = {r.index: r for r in engine.score(spans)}
    assert isinstance(results[0], SpanScore)
    assert isinstance(results[2], SpanScore)
    assert isinstance(results[1], SpanFailure)
    assert results[1].kind is PromptTooLong
    assert results[1].reason.startswith("65 input tokens; the model has 64 positions")


def test_token_ids_outside_the_vocabulary_are_refused(shared_dir: Path) -> None:
    """A token id outside the vocabulary is reported with its span."""
    engine = Engine.load(shared_dir / "models" / "stories260K", settings=EngineSettings(dtype="float32"))
    with pytest.raises(PlanError, match="span 1 contains token id 512"):
        list(engine.score(SpanBatch.from_lists([[1, 2], [1, 512]], [1, 1])))


def test_a_missing_model_is_one_clear_line(tmp_path: Path) -> None:
    """A missing model is reported with what was expected."""
    with pytest.raises(ModelUnavailable, match=r"cannot be loaded.*expected a folder") as caught:
        Engine.load(str(tmp_path / "nothing"))
    assert "\n" not in str(caught.value)


def test_a_closed_engine_raises(shared_dir: Path) -> None:
    """After close, scoring raises."""
    engine = Engine.load(shared_dir / "models" / "stories260K", settings=EngineSettings(dtype="float32"))
    engine.close()
    with pytest.raises(ModelUnavailable, match="closed"):
        list(engine.score(SpanBatch.from_lists([[1, 2]], [1])))
