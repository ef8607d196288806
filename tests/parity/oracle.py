"""lm-eval itself, run in a process of its own on what a specification says."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import ROOT


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
