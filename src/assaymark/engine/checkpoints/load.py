"""Build transformers' model from a trainer's checkpoint, tensor by tensor: each is read, converted and put in place.

Everything is checked before any content is read: each tensor of the model must be in the checkpoint with the right
shape, and each tensor of the checkpoint must have a place in the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from assaymark.engine.checkpoints.names import (
    LORA_PARTS,
    Names,
    TensorSource,
    find_names,
    is_extra,
    prefix_of,
    source_of,
)
from assaymark.engine.checkpoints.record import TrainerCheckpoint
from assaymark.engine.checkpoints.stored import StoredTensor, open_tensors
from assaymark.errors import ModelUnavailable

if TYPE_CHECKING:
    from types import EllipsisType

    from transformers import PreTrainedConfig, PreTrainedModel

Stored = Mapping[str, tuple[StoredTensor, ...]]


@dataclass(frozen=True, slots=True)
class _Lora:
    """The two factors of a LoRA update, and its scale. Shapes: down [rank, in], up [out, rank]."""

    down: StoredTensor
    up: StoredTensor
    scale: float


@dataclass(frozen=True, slots=True)
class LazyTensor:
    """A tensor of transformers' model that is read from the checkpoint when it is sliced, as transformers does."""

    source: TensorSource
    parts: tuple[StoredTensor, ...]
    lora: _Lora | None = None
    lora_source: TensorSource | None = None

    def __getitem__(
        self, index: "EllipsisType | slice[int, int, None] | tuple[slice[int, int, None], ...]"
    ) -> torch.Tensor:
        """Return the content, in transformers' layout."""
        tensor = self._converted(_joined(self.parts, self.source.shape), self.source)
        if self.lora is not None and self.lora_source is not None:
            update = self.lora.up.read().float() @ self.lora.down.read().float()
            tensor = tensor.float() + self._converted(update, self.lora_source) * self.lora.scale
        return tensor[index]

    @staticmethod
    def _converted(tensor: torch.Tensor, source: TensorSource) -> torch.Tensor:
        return tensor if source.convert is None else source.convert(tensor)


def config_of(checkpoint: TrainerCheckpoint) -> "PreTrainedConfig":
    """Return the configuration as transformers' object.

    Raises: ModelUnavailable if transformers does not accept it.
    """
    from transformers import AutoConfig

    values = dict(checkpoint.config)
    kind = str(values.pop("model_type", ""))
    try:
        return AutoConfig.for_model(kind, **values)
    except Exception as error:  # any error of the class means that the model cannot be built
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(
            f"the configuration of {_where(checkpoint)} is not accepted by transformers: {first:.200}"
        ) from error


def _where(checkpoint: TrainerCheckpoint) -> str:
    first = checkpoint.weights[0]
    return first if len(checkpoint.weights) == 1 else f"{first} (of {len(checkpoint.weights)} files)"


def plan_tensors(checkpoint: TrainerCheckpoint, model: torch.nn.Module, config: object) -> dict[str, LazyTensor]:
    """Return every tensor of `model` (on the meta device) as it will be read from the checkpoint.

    Raises: ModelUnavailable, naming the first tensor that is missing, has another shape, or has no place in the model.
    """
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    stored = open_tensors(checkpoint.weights)
    lora = {name for name in stored if any(part in name for part in LORA_PARTS)}
    _refuse_unknown_adapters(checkpoint, stored)
    names = _named(stored, expected, _where(checkpoint))
    plain: Stored = {name: parts for name, parts in stored.items() if name not in lora}
    where, plain_names = _where(checkpoint), names
    if checkpoint.base:
        _refuse_leftovers(where, plain, set(), type(model).__name__, names)
        plain = open_tensors(checkpoint.base)
        where = checkpoint.base[0]
        plain_names = _named(plain, expected, where)
    plan, used = {}, set()
    tied = _tied(model)
    if plain_names.naming == "hf" and not lora and _is_renamed_on_loading(config):
        return _all_of(plain, plain_names)
    for target, shape in expected.items():
        source = source_of(target, shape, plain_names, config)
        if source is None or source.name not in plain:
            if target in tied:
                continue
            raise _missing(where, source.name if source else target, shape, type(model).__name__)
        used.add(source.name)
        _check_shape(where, source, plain[source.name])
        update_source = source_of(target, shape, names, config) if lora else None
        update = _lora_of(checkpoint, stored, update_source) if update_source else None
        used.update(_lora_names(update_source) if update_source and update else ())
        plan[target] = LazyTensor(source, plain[source.name], update, update_source)
    _refuse_leftovers(where, plain, used, type(model).__name__, plain_names)
    _refuse_leftovers(_where(checkpoint), {name: stored[name] for name in lora}, used, type(model).__name__, names)
    return plan


def _is_renamed_on_loading(config: "PreTrainedConfig") -> bool:
    """Return whether transformers has other names in files of such models than in its modules (fused experts)."""
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping

    return get_checkpoint_conversion_mapping(config.model_type) is not None


def _all_of(stored: Stored, names: Names) -> dict[str, LazyTensor]:
    """Return every tensor under the name without its prefix; transformers renames and checks them."""
    own = {name.removeprefix(names.prefix): parts for name, parts in stored.items() if name.startswith(names.prefix)}
    return {
        name: LazyTensor(TensorSource(name, parts[0].shape), parts) for name, parts in own.items() if not is_extra(name)
    }


def _tied(model: "PreTrainedModel") -> set[str]:
    """Return the names of tensors that are others' copies, so that a checkpoint may lack them."""
    if not getattr(model.config.get_text_config(), "tie_word_embeddings", False):
        return set()
    return set(getattr(model, "_tied_weights_keys", None) or ())


def _named(stored: Stored, expected: Mapping[str, tuple[int, ...]], where: str) -> Names:
    """Return how the tensors are named; for transformers' own names the prefix is found by the embedding."""
    names = find_names(stored, where)
    if names.naming != "hf":
        return names
    first = next(iter(expected))
    prefixes = {name.removesuffix(first) for name in stored if name == first or name.endswith("." + first)}
    if not prefixes:
        first_names = ", ".join(sorted(stored)[:3])
        raise ModelUnavailable(
            f"{where} has no tensor {first}, nor the names of Meta, torchtune or litgpt (found: {first_names}); "
            "expected a state dict of this model, or set the model it belongs to with base="
        )
    return Names("hf", prefix_of(prefixes, where))


def _missing(where: str, name: str, shape: tuple[int, ...], kind: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{where} lacks {name}, which has the shape {list(shape)} in a {kind} of this configuration; is the checkpoint "
        "complete, and the configuration that of this model?"
    )


def _joined(parts: tuple[StoredTensor, ...], shape: tuple[int, ...]) -> torch.Tensor:
    """Return one tensor of its parts in several files, which are equal copies or pieces along one dimension."""
    if len(parts) == 1 or parts[0].shape == shape:
        return parts[0].read()
    return torch.cat([part.read() for part in parts], dim=_dimension(parts, shape) or 0)


def _dimension(parts: tuple[StoredTensor, ...], shape: tuple[int, ...]) -> int | None:
    """Return the dimension along which these pieces have the shape together; None if along none."""
    for dimension in range(len(shape)):
        if all(len(part.shape) == len(shape) for part in parts):
            together = list(parts[0].shape)
            together[dimension] = sum(part.shape[dimension] for part in parts)
            if tuple(together) == shape:
                return dimension
    return None


def _check_shape(where: str, source: TensorSource, parts: tuple[StoredTensor, ...]) -> None:
    if parts[0].shape == source.shape or (len(parts) > 1 and _dimension(parts, source.shape) is not None):
        return
    shape = " + ".join(str(list(part.shape)) for part in parts)
    raise ModelUnavailable(
        f"{where}: {source.name} has the shape {shape}, expected {list(source.shape)} by the configuration; is it the "
        "configuration of this model?"
    )


def _lora_names(source: TensorSource) -> tuple[str, str]:
    module, _, leaf = source.name.rpartition(".")
    return f"{module}.lora_a.{leaf}", f"{module}.lora_b.{leaf}"


def _lora_of(checkpoint: TrainerCheckpoint, stored: Stored, source: TensorSource) -> _Lora | None:
    """Return the update of one tensor, None if it has none.

    Raises: ModelUnavailable if one factor is missing or they do not fit.
    """
    down, up = _lora_names(source)
    if down not in stored and up not in stored:
        return None
    for name in (down, up):
        if name not in stored:
            raise ModelUnavailable(f"{_where(checkpoint)} lacks {name}, the other factor of a LoRA update")
    first, second = stored[down][0], stored[up][0]
    rank = first.shape[0]
    if first.shape[1:] != source.shape[1:] or second.shape != (source.shape[0], rank):
        raise ModelUnavailable(
            f"{_where(checkpoint)}: {down} and {up} have the shapes {list(first.shape)} and {list(second.shape)}, "
            f"expected [rank, {source.shape[1]}] and [{source.shape[0]}, rank] by the configuration"
        )
    if checkpoint.lora_alpha is None:
        raise ModelUnavailable(
            f"{_where(checkpoint)} contains LoRA weights of rank {rank}, and no adapter_config.json beside it says "
            "their scale; set it with lora_alpha= (torchtune's default is 16)"
        )
    return _Lora(first, second, checkpoint.lora_alpha / rank)


def _refuse_unknown_adapters(checkpoint: TrainerCheckpoint, stored: Stored) -> None:
    for name in stored:
        if ".lora_A" in name or ".lora_B" in name:
            raise ModelUnavailable(
                f"{_where(checkpoint)}: {name} is an adapter's weight in the layout of litgpt or peft; merge it "
                "(litgpt merge_lora DIR), or name a folder with adapter_config.json as peft="
            )
        if name.endswith(".magnitude"):
            raise ModelUnavailable(f"{_where(checkpoint)}: {name} belongs to DoRA, which is not supported; merge it")


def _refuse_leftovers(where: str, stored: Stored, used: set[str], kind: str, names: Names) -> None:
    """Refuse tensors without a place in the model: its configuration would be that of another model."""
    left = [name for name in stored if name.startswith(names.prefix) and name not in used]
    left = [name for name in left if not is_extra(name.removeprefix(names.prefix)) and not is_extra(name)]
    output = {"hf": "lm_head.weight", "litgpt": "lm_head.weight"}.get(names.naming, "output.weight")
    left = [name for name in left if name != names.prefix + output]  # stored although it is tied
    if left:
        raise ModelUnavailable(
            f"{where}: {left[0]} has no place in a {kind} of this configuration ({len(left)} such tensors); is it the "
            "configuration of this model?"
        )
