"""Damaged weights give one clear line, and never a score."""

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from safetensors.torch import load_file, save_file

from assaymark.engine.options import EngineSettings
from assaymark.engine.weights import load_model, pick_device
from assaymark.errors import ModelUnavailable, UsageError

SMALL = Path(__file__).resolve().parents[2] / "src" / "assaymark" / "library" / "demo_models" / "small"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of a small real model."""
    return Path(shutil.copytree(SMALL, tmp_path / "model"))


def test_a_truncated_file_is_reported(folder: Path) -> None:
    """A truncated download is reported with the model and the remedy."""
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    with pytest.raises(ModelUnavailable, match=r"cannot be loaded: .*a weights file is truncated or damaged"):
        load_model(str(folder), EngineSettings())


@pytest.mark.parametrize("by_torch", [True, False])
def test_a_pickle_with_code_is_reported_in_one_line(
    folder: Path, tmp_path: Path, recwarn: pytest.WarningsRecorder, by_torch: bool
) -> None:
    """A pickle that would run code is refused without running it, without torch's warning and its advice to load it."""

    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "ran",))

    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    torch.save({"a": Hostile()}, file) if by_torch else file.write_bytes(pickle.dumps(Hostile(), 4))
    with pytest.raises(
        ModelUnavailable, match=r"a pickle that contains more than tensors, .* save the state dict"
    ) as e:
        load_model(str(folder), EngineSettings())
    assert "weights_only" not in str(e.value)
    assert not (tmp_path / "ran").exists()
    assert not [each for each in recwarn if "pickle protocol" in str(each.message)]


def test_a_missing_weight_is_not_initialised_at_random(folder: Path) -> None:
    """Transformers would fill a missing weight with random numbers, whose scores would be meaningless."""
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    name = next(name for name in tensors if "layers.0" in name)
    del tensors[name]
    save_file(tensors, weights, metadata={"format": "pt"})
    with pytest.raises(ModelUnavailable, match=f"lacks 1 of its weights, the first {name}"):
        load_model(str(folder), EngineSettings())


def test_a_device_that_cannot_be_used_here_is_one_line() -> None:
    """Apple's device elsewhere is refused when it is chosen, with what to use instead; the processor is accepted."""
    if torch.backends.mps.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(UsageError, match=r"device='mps', but torch .* cannot use it here; use device=cpu"):
        pick_device("mps")
    assert pick_device("cpu").type == "cpu"
