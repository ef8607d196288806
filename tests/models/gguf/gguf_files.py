"""Write a Hugging Face folder of a Llama as a GGUF file, as llama.cpp's conversion script does."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.models.checkpoint import trainers_files as write

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "model.layers": "blk",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def write_gguf(folder: Path, target: Path, *, is_spm: bool = False) -> Path:
    """Write a model in float32, with its vocabulary: byte-level BPE as GPT-2's, or SentencePiece's."""
    import gguf

    state, config = write.weights_of(folder)
    writer: Any = gguf.GGUFWriter(str(target), "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["hidden_size"] // config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(write.rope_theta(config))
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(0)
    _write_vocabulary(writer, folder, is_spm)
    own = write.renamed(state, config, NAMES)
    for name, tensor in own.items():
        writer.add_tensor(name, np.ascontiguousarray(tensor.float().numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _write_vocabulary(writer: Any, folder: Path, is_spm: bool) -> None:
    described = json.loads((folder / "tokenizer.json").read_text())
    model = described["model"]
    special = {each["id"] for each in described["added_tokens"]}
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in model["merges"]]
    kinds = [3 if at in special else 6 if is_spm and text.startswith("<0x") else 1 for at, text in enumerate(tokens)]
    if is_spm:
        ranks: dict[str, int] = {}
        for rank, pair in enumerate(merges):
            ranks.setdefault(pair.replace(" ", ""), rank)
        kinds[0] = 2
        writer.add_tokenizer_model("llama")
        writer.add_token_scores(
            [-float(ranks.get(text, 1_000_000 if at > 258 else 0)) for at, text in enumerate(tokens)]
        )
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
    else:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_merges(merges)
        writer.add_bos_token_id(0)
        writer.add_eos_token_id(1)
        writer.add_chat_template((folder / "chat_template.jinja").read_text())
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_add_bos_token(True)
