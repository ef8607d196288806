"""Files of a model that are larger than any real one are not read into memory."""

import struct
from pathlib import Path

import pytest

from assaymark.errors import ModelUnavailable
from assaymark.models.checkpoint.files import LARGEST_HEADER, LARGEST_JSON, read_json, safetensors_header


def test_a_configuration_has_a_bound(tmp_path: Path) -> None:
    """A config.json of a terabyte is one line with its size; one of the bound's size is read."""
    config = tmp_path / "config.json"
    with config.open("wb") as file:
        file.truncate(10**12)  # takes no space on the disk
    with pytest.raises(
        ModelUnavailable, match=r"config.json has 1,000,000,000,000 bytes; expected a configuration of at"
    ):
        read_json(config)
    text = '{"model_type": "llama"}'
    config.write_text(text + " " * (LARGEST_JSON - len(text)))
    assert read_json(config) == {"model_type": "llama"}


def test_a_header_of_weights_has_a_bound(tmp_path: Path) -> None:
    """A safetensors file that claims a header of gigabytes is refused by the number alone."""
    weights = tmp_path / "model.safetensors"
    with weights.open("wb") as file:
        file.write(struct.pack("<Q", LARGEST_HEADER + 1))
        file.truncate(10**12)
    with pytest.raises(ModelUnavailable, match="its header claims 100,000,001 bytes"):
        safetensors_header(weights)


def test_values_are_counted_before_they_are_made(tmp_path: Path) -> None:
    """Empty lists take thirty times their size in memory, entries of tensors thirteen times."""
    path = tmp_path / "config.json"
    path.write_bytes(b"[" + b"[]," * 5_100_000 + b"[]]")
    with pytest.raises(ModelUnavailable, match=r"it has about 10,200,002 values; expected at most 10,000,000"):
        read_json(path)
    header = b"{" + b",".join(b'"%d":{"shape":[],"data_offsets":[0,0]}' % i for i in range(340_000)) + b"}"
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ModelUnavailable, match=r"it has about 2,[0-9,]+ values; expected at most 2,000,000"):
        safetensors_header(weights)
