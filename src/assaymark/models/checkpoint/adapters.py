"""What an adapter's files may ask of peft, which believes them.

peft fills matrices of any rank, repeats layers as often as it is told, and matches names of modules with patterns that
cannot be interrupted: an `adapter_config.json` of a kilobyte can take all memory, or a process for ever.
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from assaymark.errors import ModelUnavailable
from assaymark.limits.regexes import cost_of
from assaymark.models.checkpoint import files

MOST_LAYERS = 1_000  # after repetition
MOST_RANK = 1_024  # where the weights beside it state none, as pickles and other kinds than LoRA
MOST_OF_PROMPT = 1 << 30  # numbers of a learned prompt: virtual tokens, times their size, times layers
_VECTORS = dict.fromkeys(("n_frequency", "theta_d_length"), 1 << 24)
_SIDES = (
    *("num_vectors", "vector_length", "encoder_hidden_size", "encoder_num_layers", "num_tasks", "n_tasks", "n_skills"),
    *("num_ranks", "num_subspaces", "subspace_rank", "asa_target_subspaces"),
    *("boft_block_num", "boft_n_butterfly_factor"),
    *("oft_block_size", "u", "depth", "num_B", "gralora_k", "hybrid_r", "xlora_size", "xlora_depth"),
)
MOST_SIZES = {**_VECTORS, **dict.fromkeys(_SIDES, 1 << 14)}
"""Sizes of other kinds than LoRA's -> the most of each: two of 16,384 make a gigabyte."""
MOST_REPEATS = 4  # of a pattern that may match anything: names of modules are matched in well under a second


def check_adapter(folder: Path) -> None:
    """Refuse a folder that has no adapter, or one with a rank that its weights lack, slow patterns, or too many layers.

    Raises: ModelUnavailable with the key, its value and what is expected.
    """
    if not (folder / "adapter_config.json").is_file():
        raise ModelUnavailable(
            f"{folder} has no adapter_config.json, so it holds no adapter; expected a folder that peft saved: "
            "pretrained=BASE,peft=ADAPTER"
        )
    if not files.weight_files(folder):
        raise ModelUnavailable(f"{folder} has no adapter_model.safetensors; expected a folder that peft saved")
    config = files.read_json(folder / "adapter_config.json")
    weights = folder / "adapter_model.safetensors"
    header = files.safetensors_header(weights) if config.keys() & {"r", "rank_pattern"} and weights.is_file() else {}
    down = re.compile(r"\.lora_(?:embedding_)?A(?:\.|\Z)")
    ranks = [entry["shape"][0] for name, entry in header.items() if down.search(name) and entry.get("shape")]
    for key, value, why in _faults(config, max(ranks, default=None)):
        raise ModelUnavailable(
            f"{folder / 'adapter_config.json'}: {key} is {str(value)[:100]}; {why}: take it again from its source"
        )


def _faults(config: Mapping[str, object], rank: int | None) -> Iterator[tuple[str, object, str]]:
    """Yield key, value and what was expected."""
    for key in ("lora_alpha", "alpha_pattern"):
        for value in _values(config, key):
            if not _is_number(value):
                yield key, value, "expected a finite number"
    for key in ("r", "rank_pattern"):
        for value in _values(config, key):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                yield key, value, "expected a whole number from 1"
            elif rank is not None and value > rank:
                yield key, value, f"expected at most the rank of the weights beside it, {rank}"
            elif value > MOST_RANK and rank is None:
                yield key, value, f"expected at most {MOST_RANK:,}, as the weights beside it state no rank"
    for key in ("target_modules", "exclude_modules", "layers_pattern", "target_parameters"):
        value = config.get(key)
        for pattern in value if key == "layers_pattern" and isinstance(value, list) else [value]:
            if isinstance(pattern, str) and not _is_quick(pattern):
                yield key, pattern, f"expected names, or a pattern with at most {MOST_REPEATS} repeats and none nested"
    for key in ("rank_pattern", "alpha_pattern"):  # their keys are patterns
        value = config.get(key)
        for pattern in value if isinstance(value, Mapping) else ():
            if not _is_quick(str(pattern)):
                yield key, pattern, f"expected names, or patterns with at most {MOST_REPEATS} repeats and none nested"
    of_prompt = ("num_virtual_tokens", "token_dim", "num_layers")
    sizes = [size for key in of_prompt if isinstance(size := config.get(key), int)]
    if "num_virtual_tokens" in config and math.prod(sizes) > MOST_OF_PROMPT:
        yield ", ".join(of_prompt), sizes, f"expected a product of at most {MOST_OF_PROMPT:,}"
    for key, most in MOST_SIZES.items():
        if isinstance(size := config.get(key), int | float) and size > most:
            yield key, size, f"expected at most {most:,}"
    spans = config.get("layer_replication")
    if spans is not None and not _are_few_layers(spans):
        yield "layer_replication", spans, f"expected pairs of numbers that make at most {MOST_LAYERS:,} layers"


def _values(config: Mapping[str, object], key: str) -> list[object]:
    value = config.get(key)
    return list(value.values()) if isinstance(value, Mapping) else [] if value is None else [value]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e9 and math.isfinite(value)


def _is_quick(pattern: str) -> bool:
    try:
        return cost_of(pattern).power <= MOST_REPEATS
    except (re.error, RecursionError, OverflowError):
        return False


def _are_few_layers(spans: object) -> bool:
    if not isinstance(spans, list) or not all(isinstance(span, list) and len(span) == 2 for span in spans):
        return False
    ends = [end for span in spans for end in span]
    if not all(isinstance(end, int) and 0 <= end <= MOST_LAYERS for end in ends):
        return False
    return sum(end - start for start, end in spans) <= MOST_LAYERS and len(spans) <= MOST_LAYERS
