"""An adapter's configuration cannot take all memory or hold a process for ever."""

import json
import struct
from pathlib import Path

import pytest

from assaymark.errors import ModelUnavailable
from assaymark.models.checkpoint.adapters import check_adapter
from assaymark.models.checkpoint.arguments import LocalArguments
from assaymark.models.checkpoint.identity import find_folders

SLOW = r"(\w+\.?)+!"


def adapter(folder: Path, **changes: object) -> Path:
    """Write an adapter of rank 4."""
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]} | changes
    (folder / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    entry = {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]}
    header = json.dumps({"base_model.model.q_proj.lora_A.weight": entry}).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 32)
    return folder


def test_an_adapter_without_weights_is_refused(tmp_path: Path) -> None:
    """Else the Hub would be asked for a repository of the folder's name."""
    (adapter(tmp_path) / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelUnavailable, match=r"has no adapter_model\.safetensors"):
        check_adapter(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"r": 10**9}, "r is 1000000000; expected at most the rank of the weights beside it, 4"),
        ({"rank_pattern": {"q_proj": 10**9}}, "rank_pattern is 1000000000; expected at most"),
        ({"r": float("nan")}, "r is nan; expected a whole number"),
        ({"r": "4"}, "r is 4; expected a whole number"),
        ({"lora_alpha": float("nan")}, "lora_alpha is nan; expected a finite number"),
        ({"alpha_pattern": {"q_proj": "9"}}, "alpha_pattern is 9; expected a finite number"),
        ({"target_modules": SLOW}, "target_modules is .* none nested"),
        ({"exclude_modules": SLOW}, "exclude_modules is"),
        ({"layers_pattern": [SLOW]}, "layers_pattern is"),
        ({"rank_pattern": {SLOW: 2}}, "rank_pattern is"),
        ({"layer_replication": [[0, 2]] * 100_000}, "layer_replication is"),
        ({"layer_replication": [[0, 10**9]]}, "layer_replication is"),
        ({"num_virtual_tokens": 10**9, "token_dim": 16, "num_layers": 1}, "num_virtual_tokens, token_dim, .* product"),
        ({"peft_type": "FOURIERFT", "n_frequency": 1e12}, "n_frequency is 1000000000000.0; expected at most"),
        ({"peft_type": "VBLORA", "num_vectors": 10**9, "vector_length": 10**9}, "num_vectors is .* at most 16,384"),
        ({"peft_type": "P_TUNING", "num_virtual_tokens": 9, "encoder_hidden_size": 10**8}, "encoder_hidden_size is"),
    ],
)
def test_what_peft_would_believe_is_refused(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    """Each of these takes memory without end, never ends, or ends in an error of peft's."""
    with pytest.raises(ModelUnavailable, match=said):
        check_adapter(adapter(tmp_path, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target_modules": r"^(?!.*visual).*\.(q_proj|v_proj)$", "rank_pattern": {r".*\.layers\.0\.": 2}},
        {"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 100, "token_dim": 8192, "num_layers": 80},
        {"peft_type": "UNILORA", "theta_d_length": 23_040},
        {"layer_replication": [[0, 4], [2, 6]], "alpha_pattern": {"q_proj": 4.5}, "lora_alpha": 0.5},
    ],
)
def test_ordinary_adapters_are_accepted(tmp_path: Path, changes: dict[str, object]) -> None:
    """Patterns as peft's documentation has them, ranks of single modules, and repeated layers."""
    check_adapter(adapter(tmp_path, **changes))


def test_the_rank_of_embeddings_alone_and_of_a_pickle_is_limited(tmp_path: Path) -> None:
    """An adapter of embeddings has no `lora_A`, and the header of a pickle is not read."""
    folder = adapter(tmp_path, r=10**9)
    weights = folder / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes().replace(b"q_proj.lora_A.weight", b"wte.lora_embedding_A"))
    with pytest.raises(ModelUnavailable, match="expected at most the rank of the weights beside it, 4"):
        check_adapter(folder)
    weights.rename(folder / "adapter_model.bin")
    with pytest.raises(ModelUnavailable, match="expected at most 1,024, as the weights beside it state no rank"):
        check_adapter(folder)


def test_an_adapter_is_no_model(tmp_path: Path) -> None:
    """Named as the model, transformers would load its base from wherever it says, which the run would not tell."""
    adapter(tmp_path, base_model_name_or_path="/elsewhere")
    with pytest.raises(ModelUnavailable, match=r"'/elsewhere'\); name both: pretrained=BASE,peft="):
        find_folders(LocalArguments(pretrained=str(tmp_path)))


def test_a_folder_without_an_adapter_is_named(tmp_path: Path) -> None:
    """At once, without asking peft or the Hub."""
    with pytest.raises(ModelUnavailable, match=r"has no adapter_config\.json, so it holds no adapter"):
        check_adapter(tmp_path)
