"""The record of a trainer's checkpoint: where its weights are, and the configuration of the model they belong to."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TrainerCheckpoint:
    """A checkpoint that transformers cannot load by itself. Small, so that it can be sent to another process.

    weights: files, or one folder of torch's distributed checkpoint.
    config: the content of a config.json as transformers writes it, complete.
    generation_folder: a folder whose generation_config.json applies; None if there is none.
    base: files of the weights that a LoRA checkpoint was trained on; empty if `weights` are complete.
    lora_alpha: the LoRA scale times its rank; None if `weights` contain no LoRA.
    """

    weights: tuple[str, ...]
    config: Mapping[str, object] = field(default_factory=dict)
    generation_folder: str | None = None
    base: tuple[str, ...] = ()
    lora_alpha: float | None = None
