"""Write a model as different trainers write it, from the weights of a Hugging Face folder."""

import json
import shutil
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

META = {
    "model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output", "model.layers": "layers",
    "self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
    "self_attn.o_proj": "attention.wo", "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2",
    "mlp.up_proj": "feed_forward.w3", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
TORCHTUNE = {
    **META,
    "self_attn.q_proj": "attn.q_proj", "self_attn.k_proj": "attn.k_proj", "self_attn.v_proj": "attn.v_proj",
    "self_attn.o_proj": "attn.output_proj", "mlp.gate_proj": "mlp.w1", "mlp.down_proj": "mlp.w2",
    "mlp.up_proj": "mlp.w3", "input_layernorm.weight": "sa_norm.scale", "model.norm.weight": "norm.scale",
    "post_attention_layernorm.weight": "mlp_norm.scale",
}  # fmt: skip
State = dict[str, torch.Tensor]


def weights_of(folder: Path) -> tuple[State, dict[str, Any]]:
    """Return the tensors and the configuration of a Hugging Face folder."""
    return load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())


def copy_beside(folder: Path, target: Path, *names: str) -> Path:
    """Copy files of a model's folder and return the target."""
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (folder / name).is_file():
            shutil.copy(folder / name, target)
    return target


def to_pairs(tensor: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Return rows of queries or keys as Meta and torchtune order them: pairs of channels are rotated together."""
    halves = tensor.reshape(n_heads, 2, tensor.shape[0] // n_heads // 2, *tensor.shape[1:])
    return halves.transpose(1, 2).reshape(tensor.shape).contiguous()


def renamed(state: State, config: dict[str, Any], table: dict[str, str]) -> State:
    """Return the tensors under Meta's or torchtune's names and in their layout."""
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    result = {}
    for name, entry in state.items():
        tensor = entry
        if "q_proj" in name or "k_proj" in name:
            tensor = to_pairs(entry, heads if "q_proj" in name else groups)
        new = name
        for theirs, ours in sorted(table.items(), key=lambda pair: -len(pair[0])):
            new = new.replace(theirs, ours)
        result[new] = tensor
    return result


def rope_theta(config: dict[str, Any]) -> float:
    """Return the base of the rotary positions, which older files have outside of rope_parameters."""
    return float(config.get("rope_parameters", config).get("rope_theta", 10_000.0))


def meta_params(config: dict[str, Any]) -> dict[str, Any]:
    """Return the content of params.json, as Meta writes it: without the vocabulary's and the inner size."""
    return {
        "dim": config["hidden_size"],
        "n_layers": config["num_hidden_layers"],
        "n_heads": config["num_attention_heads"],
        "n_kv_heads": config["num_key_value_heads"],
        "vocab_size": -1,
        "multiple_of": 4,
        "norm_eps": config["rms_norm_eps"],
        "rope_theta": rope_theta(config),
        "max_seq_len": config["max_position_embeddings"],
    }


def write_meta(folder: Path, target: Path, n_files: int = 1) -> Path:
    """Write a model as Meta does, divided for several GPUs if `n_files` is above one."""
    state, config = weights_of(folder)
    copy_beside(folder, target, "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    own = renamed(state, config, META)
    (target / "params.json").write_text(json.dumps(meta_params(config)))
    for rank in range(n_files):
        part = {}
        for name, tensor in own.items():
            dimension = None if tensor.ndim == 1 else 1 if name.split(".")[-2] in {"wo", "w2", "tok_embeddings"} else 0
            part[name] = tensor if dimension is None else tensor.chunk(n_files, dimension)[rank].contiguous()
        torch.save({**part, "rope.freqs": torch.ones(4)}, target / f"consolidated.{rank:02d}.pth")
    return target


def write_torchtune(folder: Path, target: Path, **beside: Any) -> Path:
    """Write a model under torchtune's own names, inside the dictionary that its recipes save."""
    state, config = weights_of(folder)
    copy_beside(folder, target, "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
    copy_beside(folder, target, "chat_template.jinja")
    torch.save({"model": renamed(state, config, TORCHTUNE), **beside}, target / "torchtune_model_0.pt")
    return target


def lora_factors(state: State, rank: int = 4) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return LoRA factors (down, up) in transformers' layout, for queries, values and an inner matrix."""
    generator = torch.Generator().manual_seed(7)
    return {
        name: (
            torch.randn(rank, tensor.shape[1], generator=generator) * 0.1,
            torch.randn(tensor.shape[0], rank, generator=generator) * 0.1,
        )
        for name, tensor in state.items()
        if any(part in name for part in ("q_proj", "v_proj", "down_proj"))
    }


def torchtune_lora(state: State, config: dict[str, Any]) -> State:
    """Return those factors under torchtune's names; the queries' `up` is in its order of rows."""
    result = {}
    for name, (down, up) in lora_factors(state).items():
        own = next(iter(renamed({name: state[name]}, config, TORCHTUNE)))
        result[own.replace(".weight", ".lora_a.weight")] = down
        ordered = to_pairs(up, config["num_attention_heads"]) if "q_proj" in name else up
        result[own.replace(".weight", ".lora_b.weight")] = ordered
    return result


def merged(state: State, alpha: float, rank: int = 4) -> State:
    """Return the weights with those factors added."""
    result = {name: tensor.float() for name, tensor in state.items()}
    for name, (down, up) in lora_factors(state, rank).items():
        result[name] = result[name] + up @ down * (alpha / rank)
    return result


def write_litgpt(folder: Path, target: Path, *, before_05: bool = False) -> Path:
    """Write a Llama as litgpt does: queries, keys and values in one matrix, by groups before version 0.5."""
    state, config = weights_of(folder)
    copy_beside(folder, target, "generation_config.json", "tokenizer.json", "tokenizer_config.json")
    copy_beside(folder, target, "chat_template.jinja")
    heads, groups, hidden = config["num_attention_heads"], config["num_key_value_heads"], config["hidden_size"]
    width = config.get("head_dim", hidden // heads)
    table = {
        "model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f", "model.layers": "transformer.h",
        "self_attn.o_proj": "attn.proj", "input_layernorm": "norm_1", "post_attention_layernorm": "norm_2",
        "mlp.gate_proj": "mlp.fc_1", "mlp.up_proj": "mlp.fc_2", "mlp.down_proj": "mlp.proj",
    }  # fmt: skip
    own: State = {"lm_head.weight": state.get("lm_head.weight", state["model.embed_tokens.weight"])}
    for name, tensor in state.items():
        if "q_proj" in name:
            q, k, v = (state[name.replace("q_proj", f"{part}_proj")] for part in "qkv")
            if before_05:
                parts = [t.reshape(groups, -1, width, hidden) for t in (q, k, v)]
                joined = torch.cat(parts, dim=1).reshape(-1, hidden)
            else:
                joined = torch.cat([q, k, v])
            layer = name.split(".")[2]
            own[f"transformer.h.{layer}.attn.{'attn' if before_05 else 'qkv'}.weight"] = joined
        elif "k_proj" not in name and "v_proj" not in name:
            new = name
            for theirs, ours in table.items():
                new = new.replace(theirs, ours)
            own[new] = tensor
    settings = {
        "name": "tiny", "hf_config": {}, "n_embd": hidden, "n_layer": config["num_hidden_layers"], "n_head": heads,
        "n_query_groups": groups, "head_size": width, "intermediate_size": config["intermediate_size"],
        "padded_vocab_size": config["vocab_size"], "block_size": config["max_position_embeddings"],
        "norm_class_name": "RMSNorm", "mlp_class_name": "LLaMAMLP", "norm_eps": config["rms_norm_eps"],
        "rope_base": rope_theta(config), "rotary_percentage": 1.0, "parallel_residual": False,
        "bias": False, "scale_embeddings": False,
    }  # fmt: skip
    (target / "model_config.yaml").write_text(json.dumps(settings))  # JSON is YAML
    torch.save({"model": own}, target / "lit_model.pth")
    return target


def write_distributed(state: State, target: Path, prefix: str = "") -> Path:
    """Write tensors as torch's distributed checkpoint, with a trainer's other state beside them."""
    from torch.distributed.checkpoint.state_dict_saver import save

    named = {f"{prefix}{name}": tensor for name, tensor in state.items()}
    alone = {"no_dist": True} if "no_dist" in signature(save).parameters else {}  # a torch before 2.7
    save({**named, "optimizer.state.step": torch.ones(3)}, checkpoint_id=target, **alone)
    return target


def write_sentencepiece(folder: Path, path: Path) -> Path:
    """Write a tokenizer.json of BPE with byte fallback as the SentencePiece model it was made from."""
    from sentencepiece import sentencepiece_model_pb2

    protobuf: Any = sentencepiece_model_pb2

    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    pairs = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(pairs):
        ranks.setdefault(left + right, rank)
    proto = protobuf.ModelProto()
    trainer, normaliser = proto.trainer_spec, proto.normalizer_spec
    trainer.model_type, trainer.byte_fallback, trainer.vocab_size = 2, True, len(model["vocab"])
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, 1, 2, -1
    normaliser.name, normaliser.add_dummy_prefix = "identity", True
    normaliser.remove_extra_whitespaces, normaliser.escape_whitespaces = False, True
    for text, number in sorted(model["vocab"].items(), key=lambda pair: pair[1]):
        piece = proto.pieces.add()
        piece.piece, piece.score = text, -float(ranks.get(text, 0 if number < 259 else 1000 + number))
        piece.type = {0: 2, 1: 3, 2: 3}.get(number, 6 if number < 259 else 1)  # unknown, control, byte, normal
    path.write_bytes(proto.SerializeToString())
    return path
