"""config.json compared with the weights before anything is allocated."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import ModelUnavailable
from assaymark.models.checkpoint.config_check import check_config, whole_number
from assaymark.models.checkpoint.files import safetensors_header, weight_files


def write_model(folder: Path, **changes: Any) -> Path:
    """Write a configuration, and the header of weights with 4 tensors of at most 8 rows."""
    header = {f"layers.{i}.w": {"dtype": "F32", "shape": [8, 4], "data_offsets": [0, 0]} for i in range(4)}
    data = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(data)) + data)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 2, **changes}))
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, but the weights beside it have 4 tensors"),
        ({"text_config": {"num_hidden_layers": 17}}, "text_config.num_hidden_layers is 17"),
        ({"hidden_size": 10**6}, "hidden_size is 1000000, .* no tensor with more than 8 rows or columns"),
        ({"vocab_size": -1}, "vocab_size is -1; expected a whole number, 1 or more"),
        ({"num_experts": -1}, "num_experts is -1; expected a whole number, 0 or more"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0; expected a whole number, 1 or more"),
        ({"model_type": ["llama"]}, r"model_type is \['llama'\]; expected a text"),
        ({"architectures": [{}]}, "architectures is .*; expected a list of names"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is nan; expected a finite number"),
        (
            {"text_config": {"initializer_range": float("inf")}},
            "text_config.initializer_range is inf; expected a finite",
        ),
        ({"eos_token_id": 1e30}, "eos_token_id is 1e\\+30; expected a token's number"),
        ({"eos_token_id": [[1]]}, "eos_token_id is .*; expected a token's number, at most 2147483647, or a list"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0; expected a whole number, 1 or more"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"n_embd": "x"}, "n_embd is 'x'"),
    ],
)
def test_an_inconsistent_configuration_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """Sizes far beyond the weights' shapes, and invalid sizes, are reported with key, value and the actual shapes."""
    folder = write_model(tmp_path, **changes)
    with pytest.raises(ModelUnavailable, match=message):
        check_config(folder, weight_files(folder))


def test_a_consistent_configuration_is_accepted(tmp_path: Path) -> None:
    """Shared layers, lists with a value for each layer, absent experts and nulls are accepted."""
    folder = write_model(tmp_path, num_hidden_layers=12, n_inner=None, num_key_value_heads=[1, 2], num_experts=0,
                         eos_token_id=[1, 7], pad_token_id=-1, time_step_limit=[0.0, float("inf")])  # fmt: skip
    check_config(folder, weight_files(folder))
    assert whole_number({"a": [1], "b": True, "c": 3}, "a", "b", "c") == 3
    assert whole_number({"a": -1}, "a") == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", r"generation_config\.json holds \[1, 2\]; expected a JSON object"),
        ('{"eos_token_id": 1e30}', r"generation_config\.json: eos_token_id is 1e\+30; expected a token's number"),
        ("{", r"generation_config\.json cannot be read as JSON"),
    ],
)
def test_a_broken_generation_config_is_refused(tmp_path: Path, content: str, message: str) -> None:
    """The file for generation is named itself, not the model's spelling or its tokenizer."""
    folder = write_model(tmp_path)
    (folder / "generation_config.json").write_text(content)
    with pytest.raises(ModelUnavailable, match=message):
        check_config(folder, weight_files(folder))


@pytest.mark.parametrize("content", ["[]", "5", "", "{", "[" * 60_000, '{"a": ' + "1" * 5001 + "}", "\x00", "{}"])
def test_a_malformed_configuration_is_refused(tmp_path: Path, content: str) -> None:
    """JSON other than an object, deep nesting and text that is not JSON are reported with the file."""
    folder = write_model(tmp_path)
    (folder / "config.json").write_text(content)
    with pytest.raises(ModelUnavailable, match=r"config\.json"):
        check_config(folder, weight_files(folder))


@pytest.mark.parametrize("header", [b"[]", b'{"a": 5}', b'{"a": {"shape": ["x"]}}', b"{" * 5000])
def test_a_broken_header_of_weights_is_refused(tmp_path: Path, header: bytes) -> None:
    """A safetensors header that contains anything but tensors is reported with the file."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ModelUnavailable, match="not a readable safetensors file"):
        safetensors_header(path)


OFFSETS = {
    "truncated": ([[0, 64], [64, 128]], 127, "it is truncated: its tensors have 128 bytes, and 127 are there"),
    "overlap": ([[0, 64], [32, 128]], 128, "has the bytes 32 to 128; expected them to begin at 64"),
    "the same bytes twice": ([[0, 128], [0, 128]], 128, "has the bytes 0 to 128; expected them to begin at 128"),
    "gap": ([[0, 32], [64, 128]], 128, "expected them to begin at 32"),
    "rest": ([[0, 64], [64, 128]], 130, "2 of its bytes belong to no tensor"),
    "backwards": ([[0, 64], [64, 32]], 64, "has the bytes 64 to 32"),
    "before": ([[-64, 0], [0, 64]], 64, "has the bytes -64 to 0"),
    "no offsets": ([[], [0, 64]], 64, "not a readable safetensors file"),
    "no number": ([["0", "64"], [0, 64]], 64, "not a readable safetensors file"),
}


@pytest.mark.parametrize(("offsets", "n_data", "message"), OFFSETS.values(), ids=OFFSETS)
def test_tensors_fill_the_file(tmp_path: Path, offsets: list[list[Any]], n_data: int, message: str) -> None:
    """A file that is truncated, or whose tensors overlap, repeat or leave bytes, is refused by its header alone."""
    header = {f"{i}": {"dtype": "F32", "shape": [4, 4], "data_offsets": each} for i, each in enumerate(offsets)}
    data = json.dumps(header).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(data)) + data + bytes(n_data))
    with pytest.raises(ModelUnavailable, match=message):
        safetensors_header(path)


def test_a_tensor_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    """JSON's last value of a repeated name would be read, and the first by another reader."""
    data = b'{"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "a": {"dtype": "U8", "shape": [4], '
    data += b'"data_offsets": [0, 4]}}'
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(data)) + data + bytes(4))
    with pytest.raises(ModelUnavailable, match="it has the key 'a' twice"):
        safetensors_header(tmp_path / "model.safetensors")
