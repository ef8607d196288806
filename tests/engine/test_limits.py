"""Architectures that attend otherwise beyond some length: every score is the plain reference's, on either path.

Each case was silently wrong, or crashed, before its limit was known. Models are tiny, with weights ten times the usual.
"""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine import attention, self_check  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.generation import GeneratedSequence, GenerationPrompt  # noqa: E402
from assaymark.engine.limits import LengthLimits, limits_of  # noqa: E402
from assaymark.engine.memory import bytes_per_token, cache_bytes  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.spans import SpanFailure  # noqa: E402
from tests.engine.test_architectures import (  # noqa: E402
    BY_TRIE,
    GPT,
    OLD_SHAPE,
    SHAPE,
    assert_equal_to_reference,
    branching,
    tiny_model,
)

INDEXER = {"index_n_heads": 2, "index_head_dim": 16}
MINIMAX_M3: dict[str, Any] = {
    "head_dim": 8,
    "rotary_dim": 8,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "dense_intermediate_size": 48,
    "shared_intermediate_size": 24,
    "index_n_heads": 2,
    "index_head_dim": 8,
    "layer_types": ["minimax_m3_sparse"] * 3,
}
LLAMA_4 = BY_TRIE["llama4_text"] | {"attn_temperature_tuning": True, "attn_scale": 0.5, "num_hidden_layers": 4}
GEMMA: dict[str, Any] = {"head_dim": 8, "sliding_window": 9, "hidden_size_per_layer_input": 8}
GEMMA |= {
    "vocab_size_per_layer_input": 101,
    "num_kv_shared_layers": 0,
    "layer_types": ["sliding_attention", "full_attention", "full_attention"],
}
GEMMA_3N = GEMMA | {"laurel_rank": 4, "altup_num_inputs": 2, "activation_sparsity_pattern": [0.0] * 3}


def longrope(original: int) -> dict[str, Any]:
    """Return a phi3 whose rotary embeddings change for inputs longer than `original`."""
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [4.0] * 4, "rope_theta": 10000.0}
    rope |= {"original_max_position_embeddings": original, "factor": 4.0}
    return {"max_position_embeddings": 160, "original_max_position_embeddings": original, "rope_parameters": rope}


DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
CASES: dict[str, tuple[str, dict[str, Any], EngineSettings]] = {
    "llama 4, windows longer than its floor": ("llama4_text", LLAMA_4 | {"floor_scale": 100}, EngineSettings()),
    "llama 4, a floor below the probe": ("llama4_text", LLAMA_4 | {"floor_scale": 40}, EngineSettings()),
    "llama 4, plainly": ("llama4_text", LLAMA_4 | {"floor_scale": 40}, EngineSettings(attention="plain")),
    "longrope": ("phi3", longrope(60), EngineSettings()),
    "longrope, plainly": ("phi3", longrope(60), EngineSettings(attention="plain")),
    "longrope beyond the probe, plainly": ("phi3", longrope(100), EngineSettings(attention="plain")),
    "dynamic rope": (
        "llama",
        {"max_position_embeddings": 50, "rope_parameters": DYNAMIC},
        EngineSettings(max_length=128),
    ),
    "dynamic rope, plainly": (
        "llama",
        {"max_position_embeddings": 50, "rope_parameters": DYNAMIC},
        EngineSettings(max_length=128, attention="plain"),
    ),
    "glm moe dsa": ("glm_moe_dsa", BY_TRIE["deepseek_v3"] | INDEXER | {"index_topk": 70}, EngineSettings()),
    "deepseek v3.2": ("deepseek_v32", BY_TRIE["deepseek_v3"] | INDEXER | {"index_topk": 70}, EngineSettings()),
    "minimax m3": (
        "minimax_m3_vl_text",
        MINIMAX_M3 | {"index_block_size": 30, "index_topk_blocks": 3},
        EngineSettings(),
    ),
    "gemma 3n": ("gemma3n_text", GEMMA_3N | {"intermediate_size": [48, 48, 48]}, EngineSettings()),
    "gemma 4": ("gemma4_text", GEMMA | {"global_head_dim": 16}, EngineSettings()),
    "llama above its positions": ("llama", {"max_position_embeddings": 64}, EngineSettings(max_length=128)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_scores_equal_the_references_on_both_sides_of_a_limit(case: str) -> None:
    """Inputs below and above the model's own limit, scored together, are scored like each alone."""
    kind, shape, settings = CASES[case]
    model = tiny_model(kind, SHAPE | shape)
    assert_equal_to_reference(Engine.load(model, settings=settings), model, branching(24, 120))


@pytest.mark.parametrize(
    "case", ["llama 4, a floor below the probe", "longrope", "dynamic rope", "gemma 3n", "gemma 4"]
)
def test_texts_equal_transformers_own_beyond_a_limit(case: str) -> None:
    """Greedy texts for prompts below and above the limit equal those of transformers' generate for each alone."""
    kind, shape, settings = CASES[case]
    model = tiny_model(kind, SHAPE | shape)
    engine = Engine.load(model, settings=settings)
    tokens = [np.arange(3, 3 + n, dtype=np.int32) for n in (4, 30, 38, 55, 70)]
    prompts = [GenerationPrompt(each, max_new_tokens=8, eos_ids=frozenset()) for each in tokens]
    results = {item.index: item for item in engine.generate(prompts)}
    for index, each in enumerate(tokens):
        if engine.info.max_length is not None and each.size + 8 > engine.info.max_length:
            continue
        fresh = tiny_model(kind, SHAPE | shape)
        ids = torch.as_tensor(each.astype(np.int64))[None]
        expected = fresh.generate(ids, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)[
            0, each.size :
        ]
        result = results[index]
        assert isinstance(result, GeneratedSequence)
        assert list(result.tokens) == expected.tolist()


def test_an_unknown_option_is_refused_and_named() -> None:
    """Block selection, unsupported by the trie path, sends a model to the plain path, and the record states why."""
    kind, shape, settings = CASES["minimax m3"]
    info = Engine.load(tiny_model(kind, SHAPE | shape), settings=settings).info
    assert info.attention == "plain"
    assert "block_indices" in info.why
    with pytest.raises(attention.UnsupportedAttention, match="drops out"):
        attention._refuse_unknown({"dropout": 0.1})
    attention._refuse_unknown({"dropout": 0.0, "sliding_window": 9, "indices": None, "position_ids": torch.arange(3)})


def test_more_positions_than_the_model_has_are_a_warning_or_a_failure() -> None:
    """Rotary positions continue, with a warning in the record; a table of positions ends, and longer spans fail."""
    spans = branching(6, 120)
    llama = Engine.load(
        tiny_model("llama", SHAPE | {"max_position_embeddings": 64}), settings=EngineSettings(max_length=128)
    )
    assert llama.info.note is not None
    assert "max_length=128 is above the model's 64 positions" in llama.info.note
    gpt2 = Engine.load(
        tiny_model("gpt2", OLD_SHAPE | GPT | {"n_positions": 64}), settings=EngineSettings(max_length=128)
    )
    assert gpt2.info.note is None
    failed = {result.index for result in gpt2.score(spans) if isinstance(result, SpanFailure)}
    assert failed == set(np.flatnonzero(np.diff(spans.offsets) - 1 > 64).tolist())
    assert failed


def test_an_error_beyond_the_models_window_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention that is wrong only for more keys than the first probe has is detected by the long probe."""
    real = attention.attend_block

    def faulty(query: Any, key: Any, value: Any, bias: Any, options: attention.AttentionOptions) -> Any:
        is_long = key.shape[1] > 100
        return real(
            query, key, value, bias, {**options, "scaling": (1.3 if is_long else 1.0) * (options["scaling"] or 1.0)}
        )

    monkeypatch.setattr(attention, "attend_block", faulty)
    shape = SHAPE | {"max_position_embeddings": 512, "sliding_window": 120}
    engine = Engine.load(tiny_model("mistral", shape))
    assert engine.info.attention == "plain"
    assert "differs from the plain path" in engine.info.why


def test_a_long_probe_is_made_only_if_affordable() -> None:
    """The longest affordable window is probed; none of a large model on a CPU, nor beyond its positions."""
    config = tiny_model("llama", SHAPE).config
    limits, cpu = LengthLimits(max_length=8192, windows=(128, 1024)), torch.device("cpu")
    assert self_check.long_probe_length(limits, config, 100, cpu) == 1024 + self_check.BEYOND
    assert self_check.long_probe_length(limits, config, 1_000_000, cpu) == 128 + self_check.BEYOND
    assert self_check.long_probe_length(limits, config, 7_000_000_000, cpu) is None
    assert self_check.long_probe_length(LengthLimits(max_length=128, windows=(128,)), config, 10_000, cpu) is None
    assert self_check.long_probe_length(LengthLimits(max_length=8192), config, 10_000, cpu) is None


def test_limits_are_read_from_the_configuration() -> None:
    """Windows, chunks, selections and rotary limits are found under transformers' names for them."""
    kind, shape, _ = CASES["deepseek v3.2"]
    assert limits_of(tiny_model(kind, SHAPE | shape)) == LengthLimits(max_length=128, batch=70, windows=(70,))
    assert limits_of(tiny_model("phi3", SHAPE | longrope(60) | {"sliding_window": 9})) == LengthLimits(
        160, 60, 60, None, (9,)
    )
    llama_4 = limits_of(tiny_model("llama4_text", SHAPE | LLAMA_4 | {"floor_scale": 40}))
    assert (llama_4.trie, llama_4.packed, llama_4.batch, llama_4.windows) == (39, 39, None, (16,))


def test_the_largest_of_all_layers_sizes_counts() -> None:
    """If a configuration has a size per layer, memory is computed with the largest."""
    config = tiny_model("gemma3n_text", SHAPE | GEMMA_3N | {"intermediate_size": [48, 96, 48]}).config
    assert bytes_per_token(config, 4) == (12 * 32 + 4 * 96) * 4
    assert cache_bytes(config, 10, 4) == 2 * 3 * 2 * 8 * 10 * 4


def test_a_window_that_was_not_probed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a probe beyond the model's window costs too much, the reason states it."""
    model = tiny_model("mistral", SHAPE | {"max_position_embeddings": 512, "sliding_window": 120})
    assert "not checked" not in Engine.load(model).info.why
    monkeypatch.setattr(self_check, "OPERATIONS_CPU", 0)
    assert Engine.load(model).info.why.endswith("not checked beyond its window of 120 tokens")
