"""Find the lengths at which a model changes how it attends, from its configuration and modules.

Beyond some of them the trie path would differ from the model's own computation, or a padded batch would change its
members' results; the self-check tests the others.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assaymark.engine.memory import layer_configs

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

LENGTH_NAMES = ("n_positions", "max_position_embeddings", "n_ctx", "max_seq_len", "max_sequence_length", "seq_length")
_WINDOW_NAMES = re.compile(r"(sliding_|attention_)?window(_size)?|attention_chunk_size|local_attention")
_POSITION_TABLE = re.compile(r"(^|[._])(wpe|embed_positions|position_embed\w*|pos_emb\w*|position_enc\w*)$")


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """Lengths in tokens of input; None if there is no such limit.

    max_length: positions. trie: the longest input for the trie path. batch: the longest input in a padded batch.
    packed: tokens in one pass of the trie path. windows: lengths beyond which keys are hidden or selected, ascending.
    note: information for the user.
    """

    max_length: int | None = None
    trie: int | None = None
    batch: int | None = None
    packed: int | None = None
    windows: tuple[int, ...] = ()
    note: str | None = None


def limits_of(model: "PreTrainedModel", requested_length: int | None = None) -> LengthLimits:
    """Return the limits of a causal LM; `requested_length` is a number of positions that the caller requires.

    Rotary positions have no end, so more of them than in the configuration may be used, as in lm-eval; a table of
    positions cannot be extended.
    """
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    positions = _positions(config)
    note = None
    if (
        positions is not None
        and requested_length is not None
        and requested_length > positions
        and not _has_table(model)
    ):
        note = f"max_length={requested_length} is above the model's {positions} positions, where it was not trained"
        positions = requested_length
    rope = _rope_limit(config)
    packed = _packed_limit(config)
    selection = tuple(_selections(config))
    return LengthLimits(
        max_length=positions,
        trie=_least(rope, packed),
        batch=_least(rope, *selection),
        packed=packed,
        windows=tuple(sorted({*_windows(config), *selection})),
        note=note,
    )


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _positions(config: object) -> int | None:
    """Return the number of positions in the configuration."""
    for name in LENGTH_NAMES:
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def _has_table(model: "PreTrainedModel") -> bool:
    """Return whether positions are looked up in a table of learned or computed rows."""
    named = [*model.named_modules(), *model.named_parameters(), *model.named_buffers()]
    return any(_POSITION_TABLE.search(name.removesuffix(".weight")) for name, _ in named)


def _rope_limit(config: "PreTrainedConfig") -> int | None:
    """Return the input length beyond which rotary embeddings depend on the longest sequence of a batch."""
    parameters = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = [parameters, *(value for value in parameters.values() if isinstance(value, dict))]
    for rope in kinds:
        if rope.get("rope_type", rope.get("type")) in ("dynamic", "longrope"):
            original = rope.get("original_max_position_embeddings") or getattr(
                config, "original_max_position_embeddings", None
            )
            return int(original or config.max_position_embeddings)
    return None


def _packed_limit(config: "PreTrainedConfig") -> int | None:
    """Return how many tokens a pass may contain before a token's index in it matters.

    Llama 4 scales queries by their index in the pass from `floor_scale` on; in a trie's window that is not a position.
    """
    if getattr(config, "attn_temperature_tuning", None) and getattr(config, "floor_scale", None):
        return max(1, int(config.floor_scale) - 1)
    return None


def _selections(config: object) -> Iterator[int]:
    """Yield how many keys an indexer selects for each query: beyond that, padding influences the selection."""
    if isinstance(top := getattr(config, "index_topk", None), int):
        yield top
    blocks, size = getattr(config, "index_topk_blocks", None), getattr(config, "index_block_size", None)
    if isinstance(blocks, int) and isinstance(size, int):
        yield blocks * size


def _windows(config: object) -> Iterator[int]:
    """Yield the lengths of sliding windows and chunks."""
    for name, value in (pair for layer in layer_configs(config) for pair in vars(layer).items()):
        if _WINDOW_NAMES.fullmatch(name):
            sizes = value if isinstance(value, list | tuple) else [value]
            yield from (size for size in sizes if isinstance(size, int) and size > 1)
