"""Families of models against the plain reference, made tiny with random weights.

Initialisation is ten times the usual: at the default size faults hide (a soft cap that is ignored moves nothing).
Sliding windows and chunks are shorter than the sequences, and engine windows cut through branches.
"""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.self_check import token_logprobs  # noqa: E402
from assaymark.engine.spans import SpanBatch, SpanScore  # noqa: E402

SHAPE: dict[str, Any] = {
    "vocab_size": 101,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.2,
}
OLD_SHAPE: dict[str, Any] = {"vocab_size": 101, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
OLD_SHAPE |= {"initializer_range": 0.2}
SLIDING: dict[str, Any] = {"sliding_window": 9}
GPT: dict[str, Any] = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 128}
GPTJ: dict[str, Any] = {**GPT, "rotary_dim": 8}
# transformers 5.24 is the first whose GPT-J calls the attention that its configuration names
GPTJ_ATTENDS_BY_INTERFACE = tuple(int(n) for n in transformers.__version__.split(".")[:2]) >= (5, 24)

BY_TRIE: dict[str, dict[str, Any]] = {
    "llama": {},
    "gpt2": GPT,
    **({"gptj": GPTJ} if GPTJ_ATTENDS_BY_INTERFACE else {}),
    "gpt_neox": {},
    "qwen2": {"use_sliding_window": True, "max_window_layers": 1, **SLIDING},
    "qwen3": {"head_dim": 8},
    "mistral": SLIDING,
    "gemma2": {"head_dim": 8, "query_pre_attn_scalar": 8, **SLIDING},
    "gemma3_text": {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window_pattern": 2, **SLIDING},
    "phi3": SLIDING,
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 16},
    "olmo2": {},
    "granite": {"logits_scaling": 3.0, "attention_multiplier": 0.3, "embedding_multiplier": 2.0},
    "cohere": {},
    "stablelm": {},
    "llama4_text": {"head_dim": 8, "num_local_experts": 2, "intermediate_size_mlp": 48, "attention_chunk_size": 16},
    "gpt_oss": {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, **SLIDING},
    "qwen3_moe": {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24},
    "deepseek_v3": {
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "kv_lora_rank": 8,
        "q_lora_rank": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "qk_nope_head_dim": 8,
        "moe_intermediate_size": 16,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
    },
}
PLAINLY: dict[str, dict[str, Any]] = {
    **({} if GPTJ_ATTENDS_BY_INTERFACE else {"gptj": GPTJ}),
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
    "falcon": {**SHAPE, "alibi": True},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2},
    "mamba": {"hidden_size": 32, "state_size": 8, "num_hidden_layers": 2},
    "lfm2": {**SHAPE, "layer_types": ["conv", "full_attention", "conv"]},
}


def score_sequence(model: Any, tokens: Any, n_scored: int) -> tuple[float, bool]:
    """Return the sum of a sequence's plain log-probabilities, and whether every scored token was the argmax."""
    logprobs, is_best = token_logprobs(model, tokens, n_scored)
    return float(logprobs.sum()), bool(is_best.all())


def tiny_model(kind: str, options: dict[str, Any]) -> Any:
    """Return a random float32 model of this kind."""
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **options)
    return transformers.AutoModelForCausalLM.from_config(config).float().eval()


def branching(n: int = 14, longest: int = 70) -> SpanBatch:
    """Return sequences that share prefixes of all lengths."""
    generator = np.random.default_rng(0)
    trunk = generator.integers(3, 101, longest).tolist()
    sequences = []
    for _ in range(n):
        fork = int(generator.integers(1, longest - 1))
        tail = int(generator.integers(1, longest - fork + 1))
        sequences.append(trunk[:fork] + generator.integers(3, 101, tail).tolist())
    return SpanBatch.from_lists(sequences, [int(generator.integers(1, len(s))) for s in sequences])


def tails(spans: SpanBatch) -> SpanBatch:
    """Return the same sequences with one scored token each, so that few rows have targets."""
    return SpanBatch(spans.tokens, spans.offsets, np.ones_like(spans.n_scored))


def assert_equal_to_reference(engine: Engine, model: Any, spans: SpanBatch) -> None:
    """Check every span against its own plain forward pass."""
    reference = [score_sequence(model, spans.sequence(i), int(spans.n_scored[i])) for i in range(len(spans))]
    results = {result.index: result for result in engine.score(spans)}
    assert sorted(results) == list(range(len(spans)))
    for i, (total, is_greedy) in enumerate(reference):
        result = results[i]
        assert isinstance(result, SpanScore)
        assert result.total_nats == pytest.approx(total, abs=1e-4, rel=1e-6)
        assert result.is_greedy == is_greedy


@pytest.mark.parametrize("kind", BY_TRIE)
def test_the_trie_path_is_correct(kind: str) -> None:
    """The trie path is chosen and gives the reference's scores, also where windows of 32 tokens split branches."""
    base = OLD_SHAPE if kind in {"gpt2", "gptj"} else SHAPE
    model = tiny_model(kind, base | BY_TRIE[kind])
    engine = Engine.load(model, settings=EngineSettings(window_tokens=32))
    assert engine.info.attention == "trie", engine.info.why
    assert_equal_to_reference(engine, model, branching())
    assert_equal_to_reference(engine, model, tails(branching()))


@pytest.mark.parametrize("kind", PLAINLY)
def test_the_plain_path_is_chosen_and_correct(kind: str) -> None:
    """Models that the trie path does not support are detected at load, reported, and scored on the plain path."""
    model = tiny_model(kind, OLD_SHAPE | PLAINLY[kind])
    engine = Engine.load(model)
    assert engine.info.attention == "plain"
    assert engine.info.why
    assert_equal_to_reference(engine, model, branching())


def test_long_inputs_under_dynamic_rope_use_the_plain_path() -> None:
    """Beyond the original length, where rotary embeddings depend on the batch, each sequence runs alone."""
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    model = tiny_model("llama", SHAPE | {"max_position_embeddings": 40, "rope_parameters": rope})
    model.config.max_position_embeddings = 160  # the length after scaling, which begins at 40
    model.config.rope_parameters["original_max_position_embeddings"] = 40
    engine = Engine.load(model, settings=EngineSettings(window_tokens=32))
    assert engine.info.attention == "trie"
    assert_equal_to_reference(engine, model, branching())


def test_a_models_own_attention_is_restored() -> None:
    """A borrowed model is unchanged while results are pending and after close."""
    model = tiny_model("llama", SHAPE)
    before = model.config._attn_implementation
    engine = Engine.load(model)
    list(engine.score(branching()))
    assert model.config._attn_implementation == before
    engine.close()
    assert all("forward" not in module.__dict__ for module in model.modules())
