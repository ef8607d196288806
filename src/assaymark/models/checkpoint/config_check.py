"""Compare config.json with the weights' files before transformers allocates memory for it.

A configuration with 10^9 layers would be built layer by layer until memory is exhausted. Shapes are read from the
weights' headers, which takes milliseconds; limits are generous, since layers may share weights and files be quantised.

Also a check whether transformers has an architecture itself; a model of another one needs its author's code.
"""

import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from assaymark.errors import ModelUnavailable
from assaymark.models.checkpoint import files


@cache
def _types_of_transformers() -> frozenset[str] | None:
    try:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
    except ImportError:
        return None
    return frozenset(CONFIG_MAPPING_NAMES)


def is_known_type(model_type: str) -> bool | None:
    """Return whether transformers has this `model_type`; None where transformers is not installed."""
    known = _types_of_transformers()
    return None if known is None else model_type in known


LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")
SIZES = (
    *("hidden_size", "n_embd", "d_model", "vocab_size", "intermediate_size", "moe_intermediate_size", "ffn_dim"),
    *("n_inner", "d_ff", "ffn_hidden_size", "num_attention_heads", "n_head", "num_heads", "num_key_value_heads"),
    *("head_dim", "num_experts", "num_local_experts", "n_routed_experts"),
)
NEEDED = ("hidden_size", "n_embd", "d_model", "vocab_size", "num_attention_heads", "n_head", "num_heads")
SPECIAL = ("bos_token_id", "eos_token_id", "pad_token_id")
MAX_TOKEN_ID = (1 << 31) - 1
MAX_RATIO = 16  # maximum ratio of a configured size to the largest extent of any stored tensor
LAYERS_PER_TENSOR = 4  # ALBERT has 12 layers on 25 tensors
UNKNOWN_LAYERS = 10_000  # limit if the files do not show the number of tensors


@dataclass(frozen=True, slots=True)
class _WeightFiles:
    """Facts about the weights' files: the number of tensors, and the largest extent of one (None: unknown)."""

    n_tensors: int | None
    largest: int | None


def check_index(folder: Path, weights: Sequence[Path]) -> None:
    """Check that an index of weights, where one is used, names only files of weights beside it.

    weights: its files of weights; with a file of all weights transformers reads no index.

    Raises: ModelUnavailable with the first name that is not.
    """
    held = {path.name for path in weights}
    for name in ("model.safetensors", "pytorch_model.bin"):
        index = folder / f"{name}.index.json"
        if name in held:
            return
        if not index.is_file():
            continue
        named = files.read_json_object(index).get("weight_map")
        if not isinstance(named, Mapping) or not named:
            raise ModelUnavailable(f"{index} has no `weight_map`; restore the file from the model's source")
        for shard in named.values():
            if not isinstance(shard, str) or shard not in held:
                raise ModelUnavailable(
                    f"{index} names the file {shard!r:.80}, which is not beside it; add the file, or restore the index"
                )
        return


def check_config(folder: Path, weights: Sequence[Path]) -> None:
    """Check that a configuration is an object of the right kinds of values, whose sizes do not far exceed the weights.

    transformers would report some of them as errors of other things, and accept others; generation_config.json has
    token ids too.

    Raises: ModelUnavailable with the file, the key, its value and what was expected.
    """
    _check_generation(folder / "generation_config.json")
    path = folder / "config.json"
    if not path.is_file():
        return
    config = files.read_json_object(path)
    _check_kinds(path, config)
    stored = None
    for name, value in _shape_values(config):
        # a size may be 0 for a part that the model lacks (num_experts)
        least = int(name.rpartition(".")[2] in (*LAYERS, *NEEDED))
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ModelUnavailable(f"{path}: {name} is {value!r:.80}; expected a whole number, {least} or more")
        stored = stored or _stored_shapes(weights)
        _refuse_excess(path, name, value, stored)


def _check_kinds(path: Path, config: Mapping[str, object]) -> None:
    """Check the values that every configuration has, and that numbers are finite.

    Lists may hold infinity (Mamba's time_step_limit).
    """
    kind, classes = config.get("model_type"), config.get("architectures")
    if kind is not None and not isinstance(kind, str):
        raise ModelUnavailable(f'{path}: model_type is {kind!r:.80}; expected a text, such as "llama"')
    if classes is not None and not (isinstance(classes, list) and all(isinstance(each, str) for each in classes)):
        raise ModelUnavailable(f"{path}: architectures is {classes!r:.80}; expected a list of names of classes")
    for prefix, part in _parts(config):
        for name, value in part.items():
            if isinstance(value, float) and not math.isfinite(value) and "limit" not in name and "max" not in name:
                raise ModelUnavailable(f"{path}: {prefix}{name} is {value}; expected a finite number")
        _check_token_ids(path, prefix, part)


def _check_token_ids(path: Path, prefix: str, part: Mapping[str, object]) -> None:
    for name in SPECIAL:
        value = part.get(name)
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            if not isinstance(each, int) or isinstance(each, bool) or not -1 <= each <= MAX_TOKEN_ID:
                raise ModelUnavailable(
                    f"{path}: {prefix}{name} is {value!r:.80}; expected a token's number, at most {MAX_TOKEN_ID}, or a "
                    "list of such"
                )


def _check_generation(path: Path) -> None:
    """Check that generation_config.json, where there is one, is an object with possible token ids."""
    value = files.read_json_value(path)
    if value is None:
        return
    if not isinstance(value, dict):
        raise ModelUnavailable(
            f"{path} holds {value!r:.80}; expected a JSON object: restore it from the model's source, or remove it"
        )
    _check_token_ids(path, "", value)


def whole_number(config: Mapping[str, object], *names: str) -> int:
    """Return the first of these values in a configuration that is a positive integer, else 0."""
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0


def _shape_values(config: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield name and value of each setting that decides shapes, also in parts such as text_config; skip lists."""
    for prefix, part in _parts(config):
        for name in (*LAYERS, *SIZES):
            value = part.get(name)
            if value is not None and not isinstance(value, list | dict):
                yield prefix + name, value


def _parts(config: Mapping[str, object]) -> list[tuple[str, Mapping[str, object]]]:
    """Return a configuration and those of its parts such as text_config, with the prefix of their names."""
    return [("", config)] + [
        (f"{name}.", part) for name, part in config.items() if name.endswith("_config") and isinstance(part, dict)
    ]


def _refuse_excess(path: Path, name: str, value: int, stored: _WeightFiles) -> None:
    if name.rpartition(".")[2] in LAYERS:
        most = UNKNOWN_LAYERS if stored.n_tensors is None else LAYERS_PER_TENSOR * stored.n_tensors
        held = "few layers" if stored.n_tensors is None else f"{stored.n_tensors} tensors in all"
    elif stored.largest is None:
        return
    else:
        most, held = MAX_RATIO * stored.largest, f"no tensor with more than {stored.largest} rows or columns"
    if value > most:
        raise ModelUnavailable(
            f"{path}: {name} is {value}, but the weights beside it have {held}; restore config.json from the "
            "model's source"
        )


def _stored_shapes(weights: Sequence[Path]) -> _WeightFiles:
    tensors = [path for path in weights if path.suffix == ".safetensors"]
    if tensors:
        shapes = [entry.get("shape") or () for path in tensors for entry in files.safetensors_header(path).values()]
        return _WeightFiles(len(shapes), max((int(extent) for shape in shapes for extent in shape), default=None))
    pickles = [path for path in weights if path.suffix == ".bin"]
    if pickles and all(zipfile.is_zipfile(path) for path in pickles):
        n_tensors = 0
        for path in pickles:
            with zipfile.ZipFile(path) as archive:
                n_tensors += sum("/data/" in name for name in archive.namelist())
        return _WeightFiles(n_tensors, None)
    return _WeightFiles(None, None)
