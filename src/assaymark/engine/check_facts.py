"""The facts on which the outcome of an engine's check depends: a check that has passed holds for exactly these.

If a fact were missing here, an outdated check would be believed, so more are listed than are likely to matter.
"""

import hashlib
import json
import platform
from dataclasses import asdict
from functools import cache
from pathlib import Path

import torch

from assaymark.engine.options import EngineSettings
from assaymark.engine.self_check import CheckFacts
from assaymark.engine.weights import LoadedModel, library_versions


def facts_of_check(loaded: LoadedModel, settings: EngineSettings, window_tokens: int) -> CheckFacts | None:
    """Return the facts of a check; None where the content of what runs is not known.

    That is so for a model of the caller, which may have been trained since, and for a repository's own code.
    """
    if settings.content is None or loaded.is_borrowed or settings.trust_remote_code:
        return None
    parameter, model = next(loaded.inner.parameters()), type(loaded.inner)
    return {
        "content": settings.content,
        "class": f"{model.__module__}.{model.__qualname__}",
        "adapter": f"{type(loaded.outer).__module__}.{type(loaded.outer).__qualname__}",
        "config": _digest(loaded.inner.config.to_dict()),
        "arguments": _digest(settings.model_kwargs),
        "limits": _digest(asdict(loaded.limits)),
        "attention": str(loaded.inner.config._attn_implementation),  # noqa: SLF001 - there is no public reader
        "dtype": str(parameter.dtype),
        "device": _describe_device(parameter.device),
        "numerics": settings.numerics,
        "precision": torch.get_float32_matmul_precision(),
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "window_tokens": str(window_tokens),
        "threads": str(torch.get_num_threads()),
        "versions": _digest(library_versions()),
        "python": platform.python_version(),
        "engine": source_digest(),
    }


def _describe_device(device: torch.device) -> str:
    """Return the kind of hardware: the same kernels run on another one of it."""
    if device.type == "cuda":
        facts = torch.cuda.get_device_properties(device)
        return f"cuda {facts.name} {facts.major}.{facts.minor}, CUDA {torch.version.cuda}"
    return f"{device.type} {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def source_digest() -> str:
    """Return the digest of the engine's own source, so that every change of it repeats the check."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
