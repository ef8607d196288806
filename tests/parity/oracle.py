"""lm-eval itself, run in a process of its own on what a specification says; what it answers is recorded."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.recorded import recorded, sha256


def lm_evals_answers(program: str, content: Mapping[str, Any], folder: Path, **environment: str) -> dict[str, Any]:
    """Return what a program of this folder writes about lm-eval's run.

    Args:
        program: the module in `tests/parity` that runs lm-eval.
        content: what it reads as its specification.
        folder: where the specification and the answers go.
        environment: variables it gets beside this process's own.
    """
    spec, out = folder / "spec.json", folder / "out.json"
    spec.write_text(json.dumps(content))
    command = [sys.executable, "-m", f"tests.parity.{program}", str(spec), str(out)]
    inputs = {**os.environ, "LMEVAL_LOG_LEVEL": "ERROR", **environment}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=inputs)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(out.read_text()))


def recorded_answers(
    program: str, content: Mapping[str, Any], shared: Path, folder: Path, **environment: str
) -> dict[str, Any]:
    """Return the same from a record, where lm-eval, the rows and the models are those of the record.

    Args:
        program: see `lm_evals_answers`.
        content: with folders of this machine under `data` and as the first entry of each of `models`.
        shared: the folder with the real data.
        folder: see `lm_evals_answers`.
        environment: see `lm_evals_answers`.
    """
    models = {name: [_sha256s(Path(path)), cases] for name, (path, cases) in content["models"].items()}
    data = sha256(shared / "data" / "MANIFEST.json")
    asked = {**content, "models": models, "data": data, "lm_eval": version("lm_eval")}
    sources = [ROOT / "tests" / "parity" / f"{program}.py", ROOT / "benchmarks" / "offline.py"]
    return dict(recorded(
        "lm_eval", asked, sources, lambda: lm_evals_answers(program, content, folder, **environment), is_installed=True
    ))  # fmt: skip


def _sha256s(folder: Path) -> dict[str, str]:
    return {file.name: _sha256(file) for file in sorted(folder.iterdir()) if file.is_file()}


def _sha256(file: Path) -> str:
    """Return a file's hash; transformers writes into a tokenizer's whether the Hub was off, which is left out."""
    content = json.loads(file.read_text(encoding="utf-8")) if file.name == "tokenizer_config.json" else {}
    if content.pop("local_files_only", None) is None:
        return sha256(file)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
