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
        ({"vocab_size": -1}, "vocab_size is -1; expected a whole number, 0 or more"),
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
    folder = write_model(tmp_path, num_hidden_layers=12, n_inner=None, num_key_value_heads=[1, 2], num_experts=0)
    check_config(folder, weight_files(folder))
    assert whole_number({"a": [1], "b": True, "c": 3}, "a", "b", "c") == 3
    assert whole_number({"a": -1}, "a") == 0


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
