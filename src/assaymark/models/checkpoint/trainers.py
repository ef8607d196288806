"""Find a trainer's checkpoint: its weights, its configuration and its tokenizer, in a folder or as one file.

Recognised: `*.pt`, `*.pth`, `*.ckpt`, `*.bin` and `*.safetensors` given by name (or several by a pattern); folders of
Meta (consolidated.*.pth), litgpt (lit_model.pth), torchtune (hf_model_*, meta_model_*, torchtune_model_*, adapter_*;
since 0.5 model-*-of-*.bin in its own and Meta's format, and merged weights beside their adapter)
and torch's distributed checkpoint (.metadata and *.distcp), also as accelerate and FSDP write it, one folder deeper.
A folder that transformers loads itself is not a trainer's checkpoint.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.engine.checkpoints.record import TrainerCheckpoint
from assaymark.errors import MissingExtra, ModelUnavailable, UsageError
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.arguments import LocalArguments
from assaymark.models.checkpoint.trainer_configs import (
    BUILDERS,
    CONFIG_FILES,
    Shapes,
    builder_config,
    is_builder,
    read_config,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from assaymark.engine.checkpoints.stored import StoredTensor

INDEX = ".metadata"
SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
# File names in a folder, in the order in which they are looked for.
PATTERNS = (
    "consolidated*.pth", "consolidated*.safetensors", "lit_model.pth", "torchtune_model_*.pt", "meta_model_*.pt",
    "hf_model_*.pt", "model-*-of-*.bin", "ft-model-*.pt", "ft-model-*.bin", "model_state_dict.pt",
    "pytorch_model_fsdp.bin", "adapter_[0-9]*.pt", "adapter_model.pt",
)  # fmt: skip
EPOCH = re.compile(r"_(\d+)\.pt$")


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A trainer's checkpoint with everything that identifies it.

    tokenizer: a folder, or a file (`tokenizer.model`, `tokenizer.json`). identifying: files whose content makes it this
    model, weights included.
    """

    checkpoint: TrainerCheckpoint
    tokenizer: Path
    identifying: tuple[Path, ...]
    n_parameters: int

    def check_tokenizer(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        """Check that the model embeds every token; a smaller vocabulary may be one that was padded in training.

        Raises: ModelUnavailable.
        """
        n_tokens, n_embedded = len(tokenizer), self.checkpoint.config.get("vocab_size")
        if isinstance(n_embedded, int) and n_tokens > n_embedded:
            raise ModelUnavailable(
                f"the tokenizer {self.tokenizer} has {n_tokens} tokens, but the model in {self.checkpoint.weights[0]} "
                f"embeds {n_embedded}; set its own with tokenizer=FOLDER or tokenizer=FILE"
            )


def find_checkpoint(arguments: LocalArguments) -> FoundCheckpoint | None:
    """Return the checkpoint that the arguments name; None for a folder or Hub id that transformers loads itself.

    Raises: ModelUnavailable, saying what is missing and which argument supplies it; UsageError for `base` or
        `lora_alpha` of another model.
    """
    weights = _weights_of(arguments.pretrained)
    if not weights:
        if arguments.base is not None or arguments.lora_alpha is not None:
            name = "base" if arguments.base is not None else "lora_alpha"
            raise UsageError(
                f"{name}= is for trainers' checkpoints (.pt, .pth, .distcp ...), and pretrained={arguments.pretrained} "
                "is none; for an adapter of peft: pretrained=BASE,peft=ADAPTER"
            )
        return None
    homes, base_folder = _homes(weights), _base_folder(arguments)
    stored = _shapes_of(weights)
    base_weights = _base_weights(arguments, base_folder) if _is_adapter_only(stored) else ()
    shapes = _whole(_shapes_of(base_weights) if base_weights else stored)
    config_path = _config_path(base_folder, homes if not base_weights else ())
    config = _config(arguments, config_path, shapes, weights[0])
    config["dtype"] = str(
        config.get("dtype") or config.pop("torch_dtype", None) or _stored_dtype(base_weights or weights)
    ).removeprefix("torch.")
    generation = config_path.with_name("generation_config.json") if config_path is not None else None
    generation = generation if generation is not None and generation.is_file() else None
    alpha, alpha_file = _lora_alpha(arguments, homes)
    checkpoint = TrainerCheckpoint(
        tuple(map(str, weights)), config, str(generation.parent) if generation is not None else None,
        tuple(map(str, base_weights)), alpha
    )  # fmt: skip
    beside = (path for path in (config_path, alpha_file, generation) if path is not None)
    named = dict.fromkeys([*_content(weights), *_content(base_weights), *beside])
    tokenizer = _tokenizer_of(arguments, [*homes, *([base_folder] if base_folder else [])], weights[0])
    return FoundCheckpoint(checkpoint, tokenizer, tuple(named), _count_parameters(shapes))


def _config(arguments: LocalArguments, path: Path | None, shapes: Shapes, weights: Path) -> dict[str, object]:
    """Return the configuration: of a file, or of the builder of torchtune that base= names.

    Raises: ModelUnavailable if there is neither.
    """
    if path is not None:
        return read_config(path, shapes)
    if arguments.base is not None and is_builder(arguments.base):
        return builder_config(arguments.base)
    raise ModelUnavailable(
        f"{weights} has no {', '.join(CONFIG_FILES[:3])} beside it; name the model it was trained from: base=FOLDER, "
        "or one of torchtune's names, such as base=llama2_7b"
    )


def _count_parameters(shapes: Shapes) -> int:
    """Return the number of stored parameters, without a trainer's own state."""
    from assaymark.engine.checkpoints.names import is_extra

    return sum(math.prod(shape) for name, shape in shapes.items() if not is_extra(name))


# --------------------------------------------------------------------------------------------------- weights


def _weights_of(name: str) -> tuple[Path, ...]:
    """Return the files (or the one folder) of a checkpoint's weights; none if it is not a trainer's."""
    path = Path(name).expanduser()
    if path.is_file() and path.suffix in SUFFIXES:
        return (path,)
    if not path.exists() and any(sign in path.name for sign in "*?["):
        paths = sorted(each for each in path.parent.glob(path.name) if each.is_file())
        if not paths:
            raise ModelUnavailable(f"pretrained={name}: no file matches; expected files such as hf_model_0001_0.pt")
        return tuple(paths)
    return _weights_in(path) if path.is_dir() else ()


def _weights_in(folder: Path) -> tuple[Path, ...]:
    if (folder / INDEX).is_file():
        return (folder,)
    if (folder / "config.json").is_file():
        if (folder / "adapter_config.json").is_file() and (whole := _whole_weights(folder)):
            return _merged(folder, whole)
        if files.matching(folder, files.SAFETENSORS) or (folder / "pytorch_model.bin.index.json").is_file():
            return ()
    inner = [each for each in sorted(folder.iterdir()) if (each / INDEX).is_file() and "optim" not in each.name]
    if len(inner) > 1:
        raise ModelUnavailable(
            f"{folder} contains several checkpoints ({', '.join(each.name for each in inner)}); name one of them as "
            "pretrained="
        )
    if inner:
        return (inner[0],)
    for pattern in PATTERNS:
        paths = sorted(folder.glob(pattern))
        if paths:
            return _of_one_epoch(folder, pattern, paths)
    return ()


def _whole_weights(folder: Path) -> tuple[Path, ...]:
    """Return a folder's files of weights other than an adapter's: safetensors, else pickles."""
    for suffix in (".safetensors", ".bin"):
        paths = [p for p in sorted(folder.glob(f"*{suffix}")) if not p.name.startswith(("adapter", "training"))]
        if paths:
            return tuple(paths)
    return ()


def _merged(folder: Path, whole: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the whole weights beside an adapter, if they contain it.

    transformers applies an adapter that it finds in a model's folder. torchtune merges the adapter into the weights
    before saving them, so it would be applied twice; only torchtune also writes `adapter_model.pt`.

    Raises: ModelUnavailable if it is not known whether the weights contain the adapter.
    """
    if (folder / "adapter_model.pt").is_file():
        return whole
    raise ModelUnavailable(
        f"{folder} contains whole weights ({whole[0].name}) and an adapter (adapter_config.json), and does not say "
        "whether the weights contain it; if they do, move adapter_* to another folder; if not, name "
        "pretrained=BASE,peft=ADAPTER with each in a folder of its own"
    )


def _of_one_epoch(folder: Path, pattern: str, paths: Sequence[Path]) -> tuple[Path, ...]:
    """Return the files of the only epoch; torchtune writes `PREFIX_SHARD_EPOCH.pt`."""
    if pattern.startswith(("consolidated", "lit_", "ft-", "pytorch", "model-")):
        return tuple(paths)
    epochs = {match[1] for path in paths if (match := EPOCH.search(path.name))}
    if len(epochs) > 1:
        raise ModelUnavailable(
            f"{folder} contains checkpoints of {len(epochs)} epochs ({', '.join(sorted(epochs))}); name one, such as "
            f"pretrained={folder / pattern.replace('[0-9]', '').removesuffix('.pt')}_{max(epochs, key=int)}.pt"
        )
    return tuple(paths)


def _content(weights: Sequence[Path]) -> list[Path]:
    """Return the files whose content are these weights."""
    if len(weights) == 1 and weights[0].is_dir():
        return [weights[0] / INDEX, *sorted(weights[0].glob("*.distcp"))]
    return list(weights)


def _homes(weights: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders in which a configuration and a tokenizer are looked for."""
    own = weights[0] if weights[0].is_dir() else weights[0].parent
    return (own, own.parent) if weights[0].is_dir() else (own,)


@lru_cache(maxsize=8)
def _open(weights: tuple[Path, ...], _changed: tuple[int, ...]) -> "dict[str, tuple[StoredTensor, ...]]":
    try:
        from assaymark.engine.checkpoints.stored import open_tensors
    except ImportError:
        raise MissingExtra("a trainer's checkpoint", "hf") from None
    return dict(open_tensors([str(path) for path in weights]))


def _opened(weights: Sequence[Path]) -> "dict[str, tuple[StoredTensor, ...]]":
    return _open(tuple(weights), tuple(path.stat().st_mtime_ns for path in _content(weights)))


def _shapes_of(weights: Sequence[Path]) -> dict[str, list[tuple[int, ...]]]:
    return {name: [part.shape for part in parts] for name, parts in _opened(weights).items()}


def _whole(stored: dict[str, list[tuple[int, ...]]]) -> Shapes:
    """Return the whole shape of each tensor: files of Meta divide a matrix by rows, the embedding by columns too."""
    whole = {}
    norm = next((parts[0] for name, parts in stored.items() if name.endswith("norm.weight")), ())
    for name, parts in stored.items():
        first = parts[0]
        by_columns = name.endswith(("tok_embeddings.weight", "wo.weight", "w2.weight")) and first[1:] != norm
        is_divided = len(parts) > 1 and len(first) > 1
        axis = int(by_columns)
        whole[name] = (
            tuple(sum(part[axis] for part in parts) if at == axis else size for at, size in enumerate(first))
            if is_divided
            else first
        )
    return whole


def _stored_dtype(weights: Sequence[Path]) -> str:
    """Return the dtype of the first tensor of several dimensions."""
    parts = next((p for p in _opened(weights).values() if len(p[0].shape) > 1 and p[0].dtype.is_floating_point), None)
    return str(parts[0].dtype) if parts else "float32"


def _is_adapter_only(stored: Mapping[str, object]) -> bool:
    """Return whether the weights are LoRA factors without the matrices that they change."""
    factors = [name for name in stored if ".lora_a." in name]
    return bool(factors) and factors[0].replace(".lora_a.", ".") not in stored


# ------------------------------------------------------------------------------ base, configuration, tokenizer


def _base_folder(arguments: LocalArguments) -> Path | None:
    """Return the folder of the model that was trained; None if none is named, or one of torchtune's builders is."""
    name = arguments.base
    if name is None or is_builder(name):
        return None
    path = Path(name).expanduser()
    if path.is_file():
        return path.parent
    if path.is_dir():
        return path
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        hub = files.HubOptions(arguments.token, arguments.cache_dir, arguments.local_files_only)
        return files.folder_of(name, arguments.revision, hub=hub)
    raise UsageError(
        f"base={name} is neither a folder nor a Hub id nor a model of torchtune known here ({', '.join(BUILDERS)})"
    )


def _base_weights(arguments: LocalArguments, folder: Path | None) -> tuple[Path, ...]:
    """Return the weights of the model that a LoRA checkpoint was trained on.

    Raises: ModelUnavailable if it is not named or contains none.
    """
    if folder is None:
        raise ModelUnavailable(
            f"{arguments.pretrained} contains only LoRA weights; name the folder of the model they were trained on: "
            "base=FOLDER"
        )
    path = Path(str(arguments.base)).expanduser()
    if path.is_file() and path.suffix in SUFFIXES:
        return (path,)
    paths = _weights_in(folder) or tuple(
        p for p in files.matching(folder, ("*.safetensors", "*.bin")) if not p.name.startswith(("adapter", "training"))
    )
    if not paths:
        raise ModelUnavailable(f"base={arguments.base}: {folder} contains no weights")
    return paths


def _config_path(base: Path | None, homes: Sequence[Path]) -> Path | None:
    """Return the configuration beside the weights, else the base's."""
    for folder in (*homes, *([base] if base is not None else [])):
        for name in CONFIG_FILES:
            if (folder / name).is_file():
                return folder / name
    return None


def _lora_alpha(arguments: LocalArguments, homes: Sequence[Path]) -> tuple[float | None, Path | None]:
    """Return the LoRA scale times the rank, and the file that states it."""
    if arguments.lora_alpha is not None:
        return arguments.lora_alpha, None
    for folder in homes:
        path = folder / "adapter_config.json"
        value = files.read_json(path).get("lora_alpha")
        if isinstance(value, int | float):
            return float(value), path
    return None, None


def _tokenizer_of(arguments: LocalArguments, homes: Sequence[Path], weights: Path) -> Path:
    """Return the folder or file of the tokenizer: the named one, else one beside the weights or in the base.

    Raises: ModelUnavailable if there is none.
    """
    if arguments.tokenizer is not None:
        hub = files.HubOptions(arguments.token, arguments.cache_dir, arguments.local_files_only)
        return files.tokenizer_place(arguments.tokenizer, arguments.revision, hub)
    for folder in homes:
        if any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
            return folder
    raise ModelUnavailable(
        f"{weights} has no tokenizer.json or tokenizer.model beside it; set tokenizer=FOLDER or tokenizer=FILE"
    )


def is_trained(name: str) -> bool:
    """Return whether this names a trainer's checkpoint, not a folder or Hub id that transformers loads itself."""
    return bool(_weights_of(name))
