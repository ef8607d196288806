"""Checkpoints written by torchtune 0.6.1 itself, in a locked environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assaymark.models.checkpoint.trainers import is_trained
from assaymark.models.create import create_model
from assaymark.records import LoglikelihoodQuery, Request
from tests.models.checkpoint.test_trainers import DEMO

LOCKED = (
    *("torchtune==0.6.1", "torchao==0.9.0", "torchdata==0.11.0", "omegaconf==2.3.0", "kagglehub==0.3.13"),
    *("antlr4-python3-runtime==4.9.3", "blobfile==3.0.0", "pycryptodomex==3.21.0", "tiktoken==0.9.0"),
    "sentencepiece==0.2.0",
)
"""Packages that are installed beside this environment's torch and transformers, without their own dependencies."""
TEXTS = (" The red lamp is hot.", " Who has the key?")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install torchtune and save the demo's model by it; skip where no package index can be reached."""
    folder = tmp_path_factory.mktemp("torchtune")
    library, target = folder / "lib", folder / "saved"
    target.mkdir()
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(library), *LOCKED]
    done = subprocess.run(install, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"torchtune cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    script = Path(__file__).with_name("save_with_torchtune.py")
    run = subprocess.run(
        [sys.executable, str(script), str(DEMO), str(target)],
        capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "PYTHONPATH": str(library), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]
    return target


def nats(folder: Path) -> list[float]:
    """Return the log-likelihoods of two texts by the model of a folder."""
    model = create_model("hf", {"pretrained": str(folder), "dtype": "float32"})
    requests = [
        Request("t", index, f"sha{index}", ("Question:",), (LoglikelihoodQuery(0, text),))
        for index, text in enumerate(TEXTS)
    ]
    results = {output.request_id: output.total_nats for output in model.answer(requests)}
    model.close()
    values = [results[request.id] for request in requests]
    assert all(value is not None for value in values)
    return [value for value in values if value is not None]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hf", "hf_bin", "tune", "meta"])
def test_merged_weights_beside_their_adapter_are_scored_as_they_are(saved: Path, kind: str) -> None:
    """A LoRA folder of torchtune scores as the merged model; the adapter beside it is not applied a second time."""
    folder = saved / kind / "epoch_0"
    names = {path.name for path in folder.iterdir()}
    assert "adapter_model.pt" in names
    assert f"model-00001-of-00001.{'safetensors' if kind == 'hf' else 'bin'}" in names
    assert is_trained(str(folder))
    assert nats(folder) == pytest.approx(nats(saved / "merged"), abs=1e-3)
    assert abs(nats(folder)[0] - nats(DEMO)[0]) > 0.1  # the training changed the model
