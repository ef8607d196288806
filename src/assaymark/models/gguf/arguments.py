"""Parse `--model gguf --model_args pretrained=FILE.gguf,...` into one record."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from assaymark.errors import ModelUnavailable, UnknownName, UsageError
from assaymark.models.checkpoint.arguments import LocalArguments, arguments_record, local_arguments, whole_number
from assaymark.records import JsonValue
from assaymark.registry import nearest

SHARED = frozenset({  # of every local model
    "add_bos_token", "chat_template", "chat_template_args", "device", "enable_thinking", "generation_config",
    "local_files_only", "max_gen_toks", "max_length", "n_threads", "prefix_token_id", "pretrained", "revision",
    "think_end_token", "token", "tokenizer", "too_long", "cache_dir",
})  # fmt: skip
OWN = frozenset({"gguf_file", "n_batch", "n_gpu_layers", "cache_type"})
WITHOUT_EFFECT = frozenset({"batch_size", "max_batch_size", "truncation", "logits_cache", "trust_remote_code"})
DEFAULT_BATCH = 512


@dataclass(frozen=True, slots=True)
class GgufArguments:
    """The arguments of a model run by llama.cpp.

    n_batch: tokens in one pass. n_gpu_layers: layers on the GPU; None: all if llama.cpp was built for one and device
        is not cpu. cache_type: the number format of keys and values; f16 halves their memory and rounds them.
    """

    local: LocalArguments
    file: Path
    n_batch: int = DEFAULT_BATCH
    n_gpu_layers: int | None = None
    cache_type: Literal["f32", "f16"] = "f32"

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """The arguments that can change an output and are not part of the model's identity otherwise."""
        own: dict[str, JsonValue] = {} if self.cache_type == "f32" else {"cache_type": self.cache_type}
        if self.local.tokenizer is not None:
            own["tokenizer"] = self.local.tokenizer
        return tuple(sorted({**dict(self.local.options), **own}.items()))


def gguf_arguments(model_args: Mapping[str, object]) -> GgufArguments:
    """Parse the arguments of a model in a GGUF file.

    Raises: UsageError for an invalid value; UnknownName for an unknown argument; ModelUnavailable if the file does not
        exist.
    """
    values: dict[str, JsonValue] = {
        name: value for name, value in model_args.items() if value is not None and name not in WITHOUT_EFFECT
    }
    if values.pop("numerics", "float32") != "float32":
        raise UsageError("numerics other than float32 need --model hf: log-probabilities are computed in float64 here")
    for name in sorted(values.keys() - SHARED - OWN):
        if name in ("workers", "cluster"):
            if values.pop(name) in (1, None):
                continue
            raise UsageError(f"{name} is not supported with --model gguf: llama.cpp uses all threads; set n_threads=")
        raise UnknownName("argument of gguf", name, nearest(name, SHARED | OWN), "see docs/model_formats.md")
    file = _file_of(values)
    own = {name: values.pop(name) for name in OWN & values.keys()}
    for name, least in (("n_batch", 1), ("n_gpu_layers", -1)):
        if name in own:
            whole_number(name, own[name], least)
    if own.get("cache_type", "f32") not in ("f32", "f16"):
        raise UsageError(f"cache_type={own['cache_type']!r}; expected f32 or f16")
    return arguments_record(GgufArguments, {"local": local_arguments(values), "file": file, **own})


def _file_of(values: dict[str, object]) -> Path:
    """Return the file: pretrained= itself, gguf_file= in that folder, or the folder's only one.

    Raises: UsageError if none is named; ModelUnavailable if it does not exist.
    """
    if values.get("pretrained") is None:
        raise UsageError(
            "no model was given; expected model_args pretrained=FILE.gguf, or pretrained=FOLDER,gguf_file=NAME"
        )
    path, name = Path(str(values["pretrained"])).expanduser(), values.pop("gguf_file", None)
    if name is not None:
        path /= str(name)
    elif path.is_dir():
        paths = sorted(path.glob("*.gguf"))
        if len(paths) != 1:
            listed = ", ".join(each.name for each in paths[:5]) or "none"
            raise ModelUnavailable(f"{path} contains {len(paths)} files *.gguf ({listed}); name one with gguf_file=")
        path = paths[0]
    if not path.is_file():
        raise ModelUnavailable(f"{path} does not exist; expected a GGUF file (download it first: hf download ...)")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelUnavailable(f"{path} is not a GGUF file: it does not begin with GGUF; convert the model first")
    return path
