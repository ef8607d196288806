"""Translate between the tensor names and layouts of trainers and those of transformers.

Four ways of naming are known: transformers' own, Meta's (also Mistral's and torchtitan's), torchtune's and litgpt's.
They differ in more than names. Meta and torchtune rotate neighbouring pairs of a head's channels, transformers rotates
its halves, so the rows of queries and keys are in another order; litgpt stores queries, keys and values as one matrix.

Source: torchtune's `models/convert_weights.py` (hf_to_tune, tune_to_meta), litgpt's `scripts/convert_lit_checkpoint.py`
    and, for `attn.attn`, its `convert_hf_checkpoint.py` before version 0.5, transformers' conversion script of Llama.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch

from assaymark.errors import ModelUnavailable

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

Naming = Literal["hf", "meta", "torchtune", "litgpt"]
LORA_PARTS = (".lora_a.", ".lora_b.")  # in torchtune's names, before `weight`
# Tensors that no model needs: tables that transformers computes itself, and a trainer's own state.
_EXTRAS = re.compile(
    r"(rope\.freqs|inv_freq|masked_bias|attn\.bias|freqs_cis|\.kv_cache\.\w+|mask_cache|(^|\.)(cos|sin))$"
)
_TRAINER_STATE = re.compile(r"(optim|optimizers?|(lr_)?schedulers?|train_state|dataloader|rng|scaler|iter_num)(\.|_|$)")

_LAYER = "model.layers.{}."
_META = {
    "model.embed_tokens": "tok_embeddings",
    "model.norm": "norm",
    "lm_head": "output",
    _LAYER + "self_attn.q_proj": "layers.{}.attention.wq",
    _LAYER + "self_attn.k_proj": "layers.{}.attention.wk",
    _LAYER + "self_attn.v_proj": "layers.{}.attention.wv",
    _LAYER + "self_attn.o_proj": "layers.{}.attention.wo",
    _LAYER + "input_layernorm": "layers.{}.attention_norm",
    _LAYER + "post_attention_layernorm": "layers.{}.ffn_norm",
    _LAYER + "mlp.gate_proj": "layers.{}.feed_forward.w1",
    _LAYER + "mlp.down_proj": "layers.{}.feed_forward.w2",
    _LAYER + "mlp.up_proj": "layers.{}.feed_forward.w3",
}
_TORCHTUNE = {
    "model.embed_tokens": "tok_embeddings",
    "model.norm": "norm",
    "lm_head": "output",
    _LAYER + "self_attn.q_proj": "layers.{}.attn.q_proj",
    _LAYER + "self_attn.k_proj": "layers.{}.attn.k_proj",
    _LAYER + "self_attn.v_proj": "layers.{}.attn.v_proj",
    _LAYER + "self_attn.o_proj": "layers.{}.attn.output_proj",
    _LAYER + "self_attn.q_norm": "layers.{}.attn.q_norm",
    _LAYER + "self_attn.k_norm": "layers.{}.attn.k_norm",
    _LAYER + "input_layernorm": "layers.{}.sa_norm",
    _LAYER + "post_attention_layernorm": "layers.{}.mlp_norm",
    _LAYER + "mlp.gate_proj": "layers.{}.mlp.w1",
    _LAYER + "mlp.down_proj": "layers.{}.mlp.w2",
    _LAYER + "mlp.up_proj": "layers.{}.mlp.w3",
}
_LITGPT_LLAMA = {
    "model.embed_tokens": "transformer.wte",
    "model.norm": "transformer.ln_f",
    "lm_head": "lm_head",
    _LAYER + "self_attn.q_proj": "transformer.h.{}.attn.qkv",
    _LAYER + "self_attn.k_proj": "transformer.h.{}.attn.qkv",
    _LAYER + "self_attn.v_proj": "transformer.h.{}.attn.qkv",
    _LAYER + "self_attn.o_proj": "transformer.h.{}.attn.proj",
    _LAYER + "self_attn.q_norm": "transformer.h.{}.attn.norm_q",
    _LAYER + "self_attn.k_norm": "transformer.h.{}.attn.norm_k",
    _LAYER + "input_layernorm": "transformer.h.{}.norm_1",
    _LAYER + "post_attention_layernorm": "transformer.h.{}.norm_2",
    _LAYER + "mlp.gate_proj": "transformer.h.{}.mlp.fc_1",
    _LAYER + "mlp.up_proj": "transformer.h.{}.mlp.fc_2",
    _LAYER + "mlp.down_proj": "transformer.h.{}.mlp.proj",
}
_NEOX = "gpt_neox.layers.{}."
_LITGPT_NEOX = {
    "gpt_neox.embed_in": "transformer.wte",
    "gpt_neox.final_layer_norm": "transformer.ln_f",
    "embed_out": "lm_head",
    "lm_head": "lm_head",
    _NEOX + "input_layernorm": "transformer.h.{}.norm_1",
    _NEOX + "post_attention_layernorm": "transformer.h.{}.norm_2",
    _NEOX + "attention.query_key_value": "transformer.h.{}.attn.qkv",
    _NEOX + "attention.dense": "transformer.h.{}.attn.proj",
    _NEOX + "mlp.dense_h_to_4h": "transformer.h.{}.mlp.fc",
    _NEOX + "mlp.dense_4h_to_h": "transformer.h.{}.mlp.proj",
}
_LLAMAS = ("llama", "mistral")
_QWENS = ("qwen2", "qwen3")
# The model types that each way of naming is understood for.
_TABLES: Mapping[Naming, Mapping[str, Mapping[str, str]]] = {
    "meta": dict.fromkeys(_LLAMAS, _META),
    "torchtune": dict.fromkeys((*_LLAMAS, *_QWENS), _TORCHTUNE),
    "litgpt": {**dict.fromkeys((*_LLAMAS, *_QWENS), _LITGPT_LLAMA), "gpt_neox": _LITGPT_NEOX},
}


@dataclass(frozen=True, slots=True)
class Names:
    """How the tensors of a checkpoint are named. prefix: what precedes each of the model's names."""

    naming: Naming
    prefix: str = ""
    joined: str = "qkv"  # litgpt's name of the joined matrix; "attn" before version 0.5, in another order of rows


@dataclass(frozen=True, slots=True)
class TensorSource:
    """Where one tensor of transformers' model is in a checkpoint.

    name: with its prefix. shape: the expected one there. convert: turns it into transformers' layout.
    """

    name: str
    shape: tuple[int, ...]
    convert: Callable[[torch.Tensor], torch.Tensor] | None = None


def is_extra(name: str) -> bool:
    """Return whether a model needs no tensor of this name: computed tables and a trainer's own state."""
    return bool(_EXTRAS.search(name) or _TRAINER_STATE.match(name))


def find_names(stored: Collection[str], where: str) -> Names:
    """Return how these tensors are named; `hf` with no prefix if in none of the trainers' ways.

    Raises: ModelUnavailable if they are of several models.
    """
    for naming, sign in (("meta", "attention.wq."), ("torchtune", "attn.q_proj."), ("torchtune", "mlp.w1.")):
        own = [name for name in stored if re.search(rf"(^|\.)layers\.\d+\.{re.escape(sign)}", name)]
        if own and not any("self_attn" in name for name in own):
            prefixes = {re.split(rf"(?:^|(?<=\.))layers\.\d+\.{re.escape(sign)}", name)[0] for name in own}
            return Names(naming, prefix_of(prefixes, where))  # type: ignore[arg-type]
    for joined in ("qkv", "attn"):
        own = [name for name in stored if re.search(rf"(^|\.)transformer\.h\.\d+\.attn\.{joined}\.", name)]
        if own:
            prefixes = {re.split(r"(?:^|(?<=\.))transformer\.h\.\d+\.attn\.", name)[0] for name in own}
            return Names("litgpt", prefix_of(prefixes, where), joined)
    return Names("hf")


def prefix_of(prefixes: set[str], where: str) -> str:
    """Return the only prefix, or among several the one of the model itself and not of a copy such as EMA weights.

    Raises: ModelUnavailable.
    """
    own = [prefix for prefix in prefixes if not _TRAINER_STATE.match(prefix)]
    for prefix in ("", "model.", "module."):
        if prefix in own:
            return prefix
    if len(own) != 1:
        listed = ", ".join(f"'{prefix}'" for prefix in sorted(own))
        raise ModelUnavailable(f"{where} contains several models, named {listed}; save the one to evaluate alone")
    return own[0]


def source_of(target: str, shape: tuple[int, ...], names: Names, config: "PreTrainedConfig") -> TensorSource | None:
    """Return where the tensor that transformers names `target` is; None if this way of naming has none like it.

    Shapes: `shape` is that of the target.
    Raises: ModelUnavailable if the way of naming is not understood for this type of model.
    """
    if names.naming == "hf":
        return TensorSource(names.prefix + target, shape)
    tables = _TABLES[names.naming]
    if config.model_type not in tables:
        raise ModelUnavailable(
            f"{names.naming}'s tensor names are understood for {', '.join(tables)}, not for model_type "
            f"{config.model_type}; export the checkpoint in Hugging Face's format"
        )
    module, _, leaf = target.rpartition(".")
    number = re.search(r"\.(\d+)\.", module)
    own = tables[config.model_type].get(re.sub(r"\.\d+\.", ".{}.", module, count=1))
    if own is None:
        return None
    own = own.format(number[1] if number else "")
    part = module.rpartition(".")[2]
    if names.naming == "litgpt":
        return _litgpt_source(names, f"{own}.{leaf}", part, shape, config)
    leaf = "scale" if names.naming == "torchtune" and own.endswith("norm") else leaf
    is_rotated = part in {"q_proj", "k_proj"} and config.model_type in _LLAMAS
    convert = partial(_to_halves, n_heads=_heads(config)[part == "k_proj"]) if is_rotated else None
    return TensorSource(f"{names.prefix}{own}.{leaf}", shape, convert)


def _heads(config: "PreTrainedConfig") -> tuple[int, int, int]:
    """Return the number of query heads, of key and value heads, and the channels of each."""
    n_heads = int(config.num_attention_heads)
    n_groups = int(getattr(config, "num_key_value_heads", None) or n_heads)
    return n_heads, n_groups, int(getattr(config, "head_dim", None) or config.hidden_size // n_heads)


def _to_halves(tensor: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Reorder the rows of queries or keys from rotated pairs to rotated halves. Shapes: [n_heads * channels, ...]."""
    pairs = tensor.reshape(n_heads, tensor.shape[0] // n_heads // 2, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)


def _litgpt_source(
    names: Names, own: str, part: str, shape: tuple[int, ...], config: "PreTrainedConfig"
) -> TensorSource:
    """Return where a tensor is in litgpt's checkpoint, which has queries, keys and values in one matrix."""
    if ".attn.qkv." not in own:
        return TensorSource(names.prefix + own, shape)
    n_heads, n_groups, width = _heads(config)
    whole = ((n_heads + 2 * n_groups) * width, *shape[1:])
    name = names.prefix + own.replace(".attn.qkv.", f".attn.{names.joined}.")
    if part == "query_key_value":  # transformers' GPT-NeoX joins them too, as litgpt did before 0.5
        convert = partial(_interleave, n_heads=n_heads, width=width) if names.joined == "qkv" else None
        return TensorSource(name, whole, convert)
    take = _rows_of if names.joined == "qkv" else _grouped_rows_of
    return TensorSource(name, whole, partial(take, part=part, n_heads=n_heads, n_groups=n_groups, width=width))


def _interleave(tensor: torch.Tensor, n_heads: int, width: int) -> torch.Tensor:
    """Reorder rows from [q, q, ..., k, k, ..., v, v, ...] to [q, k, v, q, k, v, ...], one of each per head."""
    return tensor.reshape(3, n_heads, width, *tensor.shape[1:]).transpose(0, 1).reshape(tensor.shape)


def _rows_of(tensor: torch.Tensor, part: str, n_heads: int, n_groups: int, width: int) -> torch.Tensor:
    """Return the rows of the queries, keys or values from [all queries, all keys, all values]."""
    ends = {"q_proj": (0, n_heads), "k_proj": (n_heads, n_heads + n_groups)}
    begin, end = ends.get(part, (n_heads + n_groups, n_heads + 2 * n_groups))
    return tensor[begin * width : end * width]


def _grouped_rows_of(tensor: torch.Tensor, part: str, n_heads: int, n_groups: int, width: int) -> torch.Tensor:
    """Return the rows of the queries, keys or values from groups of [their queries, one key, one value]."""
    n_queries = n_heads // n_groups
    groups = tensor.reshape(n_groups, n_queries + 2, width, *tensor.shape[1:])
    chosen = {"q_proj": groups[:, :n_queries], "k_proj": groups[:, n_queries]}.get(part, groups[:, n_queries + 1])
    return chosen.reshape(-1, *tensor.shape[1:])
