"""Turn the configurations that trainers write into the content of a config.json of transformers.

Meta's params.json lacks sizes that are read from the tensors instead. torchtune writes no configuration: the shapes
are in the name of its model builder (`llama2_7b`).

Source: transformers' conversion script of Llama (maximum lengths, scaled rotary positions); torchtune's
    `models/*/_model_builders.py`; litgpt's `config.py`.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from assaymark.errors import DataError, ModelUnavailable
from assaymark.limits.yaml_documents import load_yaml
from assaymark.models.checkpoint import files
from assaymark.records import JsonValue
from assaymark.records.json_values import float_at, float_of, int_at, int_of, object_of

Shapes = Mapping[str, tuple[int, ...]]
"""The shape of each stored tensor, under the trainer's names; whole, where several files contain parts of it."""

CONFIG_FILES = ("config.json", "params.json", "model_config.yaml", "lit_config.json")  # in the order of preference
_LLAMA_2 = {"rms_norm_eps": 1e-5, "vocab_size": 32_000, "max_position_embeddings": 4096, "rope_theta": 10_000.0}
_CODE_LLAMA = {**_LLAMA_2, "vocab_size": 32_016, "max_position_embeddings": 16_384, "rope_theta": 1e6}
_LLAMA_3 = {"rms_norm_eps": 1e-5, "vocab_size": 128_256, "max_position_embeddings": 8192, "rope_theta": 500_000.0}
_LLAMA_31 = {**_LLAMA_3, "max_position_embeddings": 131_072, "scale": 8.0}
_LLAMA_32 = {**_LLAMA_31, "scale": 32.0, "tie_word_embeddings": True}
_MISTRAL = {**_LLAMA_2, "model_type": "mistral", "max_position_embeddings": 32_768, "sliding_window": None}


def _shape(layers: int, heads: int, groups: int, hidden: int, inner: int) -> dict[str, int]:
    return {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "hidden_size": hidden,
        "intermediate_size": inner,
    }


# torchtune's model builders -> the settings of their models.
BUILDERS: Mapping[str, Mapping[str, JsonValue]] = {
    "llama2_7b": {**_shape(32, 32, 32, 4096, 11_008), **_LLAMA_2},
    "llama2_13b": {**_shape(40, 40, 40, 5120, 13_824), **_LLAMA_2},
    "llama2_70b": {**_shape(80, 64, 8, 8192, 28_672), **_LLAMA_2},
    "code_llama2_7b": {**_shape(32, 32, 32, 4096, 11_008), **_CODE_LLAMA},
    "code_llama2_13b": {**_shape(40, 40, 40, 5120, 13_824), **_CODE_LLAMA},
    "llama3_8b": {**_shape(32, 32, 8, 4096, 14_336), **_LLAMA_3},
    "llama3_70b": {**_shape(80, 64, 8, 8192, 28_672), **_LLAMA_3},
    "llama3_1_8b": {**_shape(32, 32, 8, 4096, 14_336), **_LLAMA_31},
    "llama3_1_70b": {**_shape(80, 64, 8, 8192, 28_672), **_LLAMA_31},
    "llama3_2_1b": {**_shape(16, 32, 8, 2048, 8192), **_LLAMA_32},
    "llama3_2_3b": {**_shape(28, 24, 8, 3072, 8192), **_LLAMA_32},
    "llama3_3_70b": {**_shape(80, 64, 8, 8192, 28_672), **_LLAMA_31},
    "mistral_7b": {**_shape(32, 32, 8, 4096, 14_336), **_MISTRAL},
}


def _plain(name: str) -> str:
    return re.sub(r"^q?lora_", "", name)


def is_builder(name: str) -> bool:
    """Return whether this is one of torchtune's model builders; `lora_` and `qlora_` before the name change nothing."""
    return _plain(name) in BUILDERS


def builder_config(name: str) -> dict[str, JsonValue]:
    """Return the configuration of one of torchtune's model builders."""
    values = dict(BUILDERS[_plain(name)])
    theta, scale = values.pop("rope_theta"), values.pop("scale", None)
    rope = _rope(float_of(theta, "rope_theta"), None if scale is None else float_of(scale, "scale"))
    return {"model_type": "llama", "tie_word_embeddings": False, **values, "rope_parameters": rope}


def read_config(path: Path, shapes: Shapes) -> dict[str, JsonValue]:
    """Return the configuration in one of `CONFIG_FILES`.

    Raises: ModelUnavailable if it cannot be read or describes a model that is not understood.
    """
    if path.name == "config.json":
        return files.read_json_object(path)
    if path.name.endswith(".yaml"):
        try:
            values = load_yaml(path.read_bytes())
        except (OSError, DataError) as error:
            raise ModelUnavailable(f"{path} cannot be read as YAML: {error}; restore it") from error
        if not isinstance(values, dict):
            raise ModelUnavailable(f"{path} is not a mapping of settings; expected the file that litgpt writes")
    else:
        values = files.read_json_object(path)
    try:
        return _of_meta(path, values, shapes) if path.name == "params.json" else _of_litgpt(path, values, shapes)
    except KeyError as error:
        raise ModelUnavailable(f"{path} lacks {error}; expected the file that the trainer wrote") from error
    except (TypeError, ValueError) as error:
        raise ModelUnavailable(f"{path} has a value of a wrong kind: {error}") from error


def _rope(theta: float, scale: float | None, **factors: float) -> dict[str, JsonValue]:
    """Return transformers' rotary settings; `scale` is the factor of Llama 3.1's scaling."""
    if scale is None:
        return {"rope_type": "default", "rope_theta": float(theta)}
    scaling = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, **factors}
    return {"rope_type": "llama3", "rope_theta": float(theta), "factor": float(scale), **scaling}


def _rows(shapes: Shapes, name: str, path: Path) -> int:
    for each, shape in shapes.items():
        if each == name or each.endswith("." + name):
            return shape[0]
    raise ModelUnavailable(f"the weights beside {path} lack {name}, whose shape {path.name} does not state")


def _of_meta(path: Path, values: Mapping[str, JsonValue], shapes: Shapes) -> dict[str, JsonValue]:
    """Return the configuration of Meta's params.json."""
    if unknown := sorted({"moe", "moe_args", "vision_chunk_size", "vision_args"} & values.keys()):
        raise ModelUnavailable(f"{path}: {unknown[0]} is not understood; export the model in Hugging Face's format")
    theta, hidden, heads = float_at(values, "rope_theta", 1e4), int_at(values, "dim"), int_at(values, "n_heads")
    scale = None
    if values.get("use_scaled_rope"):
        llama_32 = 32.0 if hidden < 4096 else 8.0  # Llama 3.2 below 4096
        scale = float_of(values.get("rope_scaling_factor") or llama_32, "rope_scaling_factor")
    is_mistral = "hidden_dim" in values
    return {
        "model_type": "llama",
        "num_hidden_layers": int_at(values, "n_layers"),
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": int_at(values, "n_kv_heads", heads),
        "head_dim": int_at(values, "head_dim", hidden // heads),
        "intermediate_size": int_at(values, "hidden_dim")
        if is_mistral
        else _rows(shapes, "layers.0.feed_forward.w1.weight", path),
        "vocab_size": _rows(shapes, "tok_embeddings.weight", path),
        "rms_norm_eps": float_at(values, "norm_eps", 1e-5),
        "rope_parameters": _rope(theta, scale),
        "max_position_embeddings": int_at(values, "max_seq_len", _positions_of_meta(values, theta, scale)),
        "tie_word_embeddings": not any(name.endswith("output.weight") for name in shapes),
    }


def _positions_of_meta(values: Mapping[str, JsonValue], theta: float, scale: float | None) -> int:
    """Return the trained length, which params.json does not state: generations of Llama differ in these settings."""
    if scale is not None:
        return 131_072  # Llama 3.1
    by_theta = {500_000.0: 8192, 1e6: 16_384}  # Llama 3, Code Llama
    return by_theta.get(theta, 2048 if float_at(values, "norm_eps", 1e-5) == 1e-6 else 4096)  # Llama 1: 1e-6


_OF_LITGPT = {  # required values of a Llama; another value is another architecture
    "rotary_percentage": 1.0, "parallel_residual": False, "scale_embeddings": False, "bias": False,
    "lm_head_bias": False, "attention_logit_softcapping": None, "final_logit_softcapping": None,
    "post_attention_norm": False, "post_mlp_norm": False, "attention_scores_scalar": None,
    "sliding_window_size": None, "shared_attention_norm": False,
}  # fmt: skip


def _of_litgpt(path: Path, values: Mapping[str, JsonValue], shapes: Shapes) -> dict[str, JsonValue]:
    """Return the configuration of litgpt's model_config.yaml."""
    norm, inner = values["norm_class_name"], values["mlp_class_name"]
    heads, hidden = int_at(values, "n_head"), int_at(values, "n_embd")
    common = {
        "hidden_size": hidden,
        "num_hidden_layers": int_at(values, "n_layer"),
        "num_attention_heads": heads,
        "intermediate_size": int_at(values, "intermediate_size", 4 * hidden),
        "vocab_size": int_of(
            values.get("padded_vocab_size") or _rows(shapes, "transformer.wte.weight", path), "padded_vocab_size"
        ),
        "max_position_embeddings": int_at(values, "block_size"),
        "tie_word_embeddings": not any(name.endswith("lm_head.weight") for name in shapes),
    }
    theta, eps = float_at(values, "rope_base", 10_000), float_at(values, "norm_eps", 1e-5)
    if (norm, inner) == ("LayerNorm", "GptNeoxMLP") and not values.get("shared_attention_norm"):
        part = {"partial_rotary_factor": float_at(values, "rotary_percentage", 0.25), "rope_type": "default"}
        return {
            "model_type": "gpt_neox",
            **common,
            "layer_norm_eps": eps,
            "use_parallel_residual": bool(values.get("parallel_residual", True)),
            "rope_parameters": {**part, "rope_theta": theta},
        }
    if (norm, inner) != ("RMSNorm", "LLaMAMLP"):
        raise ModelUnavailable(
            f"{path}: norm_class_name {norm} with mlp_class_name {inner} is not understood (Llama and GPT-NeoX are); "
            "convert it with: litgpt convert_from_litgpt"
        )
    for name, needed in _OF_LITGPT.items():
        if name in values and values[name] != needed and not (needed is None and not values[name]):
            raise ModelUnavailable(f"{path}: {name} is {values[name]}, which no Llama has; convert it to Hugging Face")
    kind = "qwen3" if values.get("norm_qk") else "qwen2" if values.get("attn_bias") else "llama"
    return {
        "model_type": kind,
        **common,
        "num_key_value_heads": int_at(values, "n_query_groups", heads),
        "head_dim": int_at(values, "head_size", hidden // heads),
        "rms_norm_eps": eps,
        "rope_parameters": _rope_of_litgpt(theta, values),
    }


def _rope_of_litgpt(theta: float, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    if values.get("rope_adjustments"):
        adjusted = object_of(values["rope_adjustments"], "rope_adjustments")
        return _rope(
            theta,
            float_at(adjusted, "factor"),
            low_freq_factor=float_at(adjusted, "low_freq_factor"),
            high_freq_factor=float_at(adjusted, "high_freq_factor"),
            original_max_position_embeddings=int_at(adjusted, "original_max_seq_len"),
        )
    ratio = float_at(values, "rope_condense_ratio", 1)
    return {"rope_type": "linear", "rope_theta": theta, "factor": ratio} if ratio != 1 else _rope(theta, None)
