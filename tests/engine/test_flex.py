"""The GPU's attention, run uncompiled on the CPU on the same windows, and on a GPU if there is one."""

import os
import shutil
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine import forward  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.forward import FlexWindowAttention, padded_size  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.spans import SpanScore  # noqa: E402
from tests.engine.test_architectures import (  # noqa: E402
    BY_TRIE,
    SHAPE,
    assert_equal_to_reference,
    branching,
    tiny_model,
)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("kind", "window"),
    [
        *((kind, 32) for kind in ("llama", "mistral", "gemma2", "gpt_oss", "llama4_text", "deepseek_v3")),
        ("gemma2", 256),
    ],
)
@pytest.mark.slow
def test_block_masks_give_the_references_scores(kind: str, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ancestry, sliding and chunked windows, grouped heads, soft cap and sinks also work through FlexAttention."""
    monkeypatch.setattr(forward, "attention_for", lambda _device: FlexWindowAttention)
    model = tiny_model(kind, SHAPE | BY_TRIE[kind])
    engine = Engine.load(model, settings=EngineSettings(window_tokens=window))
    assert engine.info.attention == "trie", engine.info.why
    assert_equal_to_reference(engine, model, branching())


HAS_COMPILER = shutil.which(os.environ.get("CXX", "g++")) is not None


@pytest.mark.slow
@pytest.mark.skipif(not HAS_COMPILER, reason="no C++ compiler here: install g++, or name one with CXX")
@pytest.mark.filterwarnings("ignore")
def test_the_compiled_kernel_gives_the_references_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block mask, sliding windows, grouped heads and soft cap hold in the kernel that inductor writes and compiles.

    That takes half a minute: a kernel is compiled for each size and each kind of layer, of which Gemma 2 has two.
    """
    from torch._inductor import metrics

    monkeypatch.setattr(forward, "attention_for", lambda _device: FlexWindowAttention)
    monkeypatch.setattr(forward, "flex_attention", forward._compiled())
    torch._dynamo.reset()
    metrics.reset()
    model = tiny_model("gemma2", SHAPE | BY_TRIE["gemma2"])
    engine = Engine.load(model, settings=EngineSettings(window_tokens=256, attention="trie"))
    assert_equal_to_reference(engine, model, branching())
    assert metrics.generated_kernel_count > 0


def test_sizes_are_few() -> None:
    """Every size up to a window's is padded to a power of two from 128 on, and nothing stays nothing."""
    assert [padded_size(n) for n in (0, 1, 128, 129, 1000, 1024)] == [0, 128, 128, 256, 1024, 1024]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_gpu_scores_like_the_cpu(dtype: Any) -> None:
    """On a GPU, compiled, a model scores within its dtype's rounding of the CPU's float32."""
    options = SHAPE | {"hidden_size": 128, "initializer_range": 0.05}
    spans = branching()
    reference = {r.index: r for r in Engine.load(tiny_model("llama", options)).score(spans)}
    model = tiny_model("llama", options).to("cuda", getattr(torch, dtype))
    engine = Engine.load(model)
    assert engine.info.attention == "trie", engine.info.why
    for result in engine.score(spans):
        expected = reference[result.index]
        assert isinstance(result, SpanScore)
        assert isinstance(expected, SpanScore)
        allowed = 1e-3 if dtype == "float32" else 0.05
        assert np.isclose(result.total_nats, expected.total_nats, rtol=allowed, atol=0.05)
