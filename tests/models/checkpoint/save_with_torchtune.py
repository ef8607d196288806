"""Save a small model after a made-up LoRA training with torchtune's own savers; run by `test_torchtune_savers.py`.

Arguments: the folder of a Llama in Hugging Face's layout, and an empty folder. Written are `hf/epoch_0`,
`hf_bin/epoch_0`, `tune/epoch_0` and `meta/epoch_0`, each with merged weights and the adapter, as the LoRA recipes of
torchtune 0.6.1 save
them, and `merged`, the same weights as transformers saves them.
"""

import json
import shutil
import sys
from functools import partial
from pathlib import Path

import torch
from torchtune.models import convert_weights
from torchtune.training import (
    FullModelHFCheckpointer,
    FullModelMetaCheckpointer,
    FullModelTorchTuneCheckpointer,
)
from transformers import AutoModelForCausalLM

RANK, ALPHA = 4, 8.0


def copy_tokenizer(source: Path, target: Path) -> None:
    """Copy the files of a model's tokenizer."""
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        if (source / name).is_file():
            shutil.copy(source / name, target)


def main(source: Path, target: Path) -> None:
    """Write the five folders."""
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, tie_word_embeddings=False)
    model.lm_head.weight = torch.nn.Parameter(model.get_input_embeddings().weight.detach().clone())
    untied = target / "untied"  # torchtune's Llama 2 has a head of its own
    model.save_pretrained(untied)
    copy_tokenizer(source, untied)
    config = json.loads((untied / "config.json").read_text())
    dim, n_layers = config["hidden_size"], config["num_hidden_layers"]
    sizes = {"num_heads": config["num_attention_heads"], "num_kv_heads": config["num_key_value_heads"], "dim": dim}
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    tuned = convert_weights.hf_to_tune(state, **sizes)
    torch.manual_seed(0)
    adapter = {}
    for layer in range(n_layers):
        name = f"layers.{layer}.attn.v_proj"
        rows, columns = tuned[f"{name}.weight"].shape
        adapter[f"{name}.lora_a.weight"] = torch.randn(RANK, columns) * 0.3
        adapter[f"{name}.lora_b.weight"] = torch.randn(rows, RANK) * 0.3
        update = adapter[f"{name}.lora_b.weight"] @ adapter[f"{name}.lora_a.weight"]
        tuned[f"{name}.weight"] = tuned[f"{name}.weight"] + update * (ALPHA / RANK)
    model.load_state_dict(convert_weights.tune_to_hf(tuned, **sizes))
    model.save_pretrained(target / "merged")
    copy_tokenizer(source, target / "merged")
    savers = {
        "hf": FullModelHFCheckpointer,
        "hf_bin": partial(FullModelHFCheckpointer, safe_serialization=False),
        "tune": FullModelTorchTuneCheckpointer,
        "meta": FullModelMetaCheckpointer,
    }
    for kind, saver in savers.items():
        start = target / f"start_{kind}"  # what training began with
        shutil.copytree(untied, start)
        weights = "model.safetensors"
        if kind in {"tune", "meta"}:
            of_meta = convert_weights.tune_to_meta if kind == "meta" else dict
            torch.save(of_meta(convert_weights.hf_to_tune(state, **sizes)), start / "start.pt")
            weights = "start.pt"
        checkpointer = saver(str(start), [weights], "LLAMA2", str(target / kind))
        checkpointer.load_checkpoint()
        content = {
            "model": dict(tuned),
            "adapter": dict(adapter),
            "adapter_config": {"r": RANK, "lora_alpha": ALPHA, "target_modules": ["v_proj"], "peft_type": "LORA"},
        }
        checkpointer.save_checkpoint(content, epoch=0, intermediate_checkpoint=False)


main(Path(sys.argv[1]), Path(sys.argv[2]))
