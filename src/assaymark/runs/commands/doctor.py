"""`assaymark doctor`: installed packages, devices, tools, settings; and how one model would be computed."""

import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

import click

from assaymark import settings
from assaymark.cli.output import Command, echo, examples, json_option, print_json
from assaymark.errors import install_line
from assaymark.records import JsonValue
from assaymark.runs.run_options import declared_option

if TYPE_CHECKING:
    from assaymark.models.model import Model

EXTRAS: dict[str, tuple[str, ...]] = {
    "hf": ("torch", "transformers", "tokenizers", "safetensors", "accelerate", "peft", "sentencepiece", "protobuf"),
    "hub": ("datasets", "huggingface_hub"),
    "metrics": ("sacrebleu", "rouge-score", "math-verify", "langdetect"),
    "images": ("pillow",),
    "charts": ("altair", "vl-convert-python"),
    "web": ("fastapi", "uvicorn", "nh3", "markdown-it-py", "prometheus-client"),
    "hosting": ("llguidance",),
    "scorers": ("jsonschema",),
    "profanity": ("alt-profanity-check",),
    "traces": ("opentelemetry-proto", "opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
    "docs": ("sphinx", "myst-parser", "myst-nb", "furo", "sphinx-copybutton"),
    "lm-eval": ("lm_eval",),
    "cluster": ("ray",),
    "postgres": ("psycopg",),
    "vllm": ("vllm",),
    "gguf": ("llama-cpp-python",),
}


@click.command(cls=Command, epilog=examples("doctor"))
@declared_option("model_args", metavar="A=1", help="Also load this model and show its attention path.")
@json_option
def doctor(model_args: str, as_json: bool) -> None:
    """Show what is installed and what can run here."""
    sections = examine(model_args)
    if as_json:
        print_json(sections)
        return
    for section, facts in sections.items():
        echo(section)
        for name, value in facts.items():
            echo(f"  {name:<18} {value}")


def examine(model_args: str = "") -> dict[str, dict[str, JsonValue]]:
    """Return sections of facts; with `model_args`, also the identity of that model and its attention path.

    Raises: ModelUnavailable if the model cannot be loaded.
    """
    sections: dict[str, dict[str, JsonValue]] = {
        "Assaymark": {"version": settings.VERSION, "python": platform.python_version(), "system": platform.platform()},
        "Extras": {extra: _extra(extra, names) for extra, names in EXTRAS.items()},
        "Device": _devices(),
        "Tools": {"bwrap": shutil.which("bwrap") or "not found (sandbox for tasks that run code)"},
        "Places": {
            "store": settings.without_password(settings.store_location()),
            "cache": str(settings.cache_folder()),
        },
        "Settings": {name: value or "-" for name, value in settings.current().items()},
    }
    if model_args:
        from assaymark.models.create import create_model

        model = create_model("hf", model_args)
        try:
            facts = {name: value for name, value in model.describe().items() if name != "chat_template"}  # pages long
            sections["Model"] = {**_identity(model), **facts}
        finally:
            model.close()
    return sections


def _identity(model: "Model") -> dict[str, JsonValue]:
    """Load the model by ranking two texts, and return its identity."""
    from assaymark.models.language_model import LanguageModel

    LanguageModel(model).rank("A", [" b", " c"])
    identity = model.identity
    return {
        "name": identity.name,
        "content": identity.content_hash,
        "dtype": identity.dtype,
        "positions": identity.max_length,
    }


def _extra(extra: str, names: tuple[str, ...]) -> str:
    """Return the versions of an extra's libraries, or the command that installs it."""
    installed: list[str] = []
    missing: list[str] = []
    for name in names:
        try:
            installed.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if not missing:
        return ", ".join(installed)
    return f"missing {', '.join(missing)}; {install_line(extra)}"


def _devices() -> dict[str, JsonValue]:
    """Return the devices that the engine can use."""
    facts: dict[str, JsonValue] = {"threads": settings.thread_count()}
    try:
        version("torch")
    except PackageNotFoundError:
        return {**facts, "torch": f"not installed: no local models; {install_line('hf')}"}
    from assaymark.engine.memory import cuda_names

    names = cuda_names()
    return {**facts, "cuda": ", ".join(names) if names else "none; models run on the CPU"}
