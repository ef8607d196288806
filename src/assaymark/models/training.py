"""Run an evaluation during training with a transformers Trainer and add its metrics to the Trainer's log."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerBase,
        Trainer,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )

try:
    from transformers import TrainerCallback
except ImportError:
    raise MissingExtra("a callback for transformers' Trainer", "hf") from None


class TrainingCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Evaluates every `every` optimisation steps, or at the end of each epoch if that is None.

    If several processes train together, only the first one evaluates.
    """

    def __init__(self, every: int | None = None) -> None:
        if every is not None and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
            raise UsageError(f"every={every!r}; expected a whole number of steps from 1, or None for each epoch")
        self.every = every
        self._log: Callable[[dict[str, float]], None] | None = None

    def attach(self, trainer: "Trainer") -> None:
        """Add this callback to a Trainer, whose `log` sends the metrics to every configured destination."""
        trainer.add_callback(self)
        self._log = trainer.log

    @abstractmethod
    def measure(
        self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", checkpoint: str
    ) -> Mapping[str, float]:
        """Return the metrics of the model in its present state, by their names in the log.

        `checkpoint` is the name of that state: the Trainer's folder and step, as `train/checkpoint-500`.
        """

    def on_step_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: object
    ) -> None:
        """Evaluate if the step count is a multiple of `every`."""
        if self.every is not None and state.global_step % self.every == 0:
            self._evaluate(args, state, control, kwargs)

    def on_epoch_end(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: object
    ) -> None:
        """Evaluate after an epoch, unless `every` is set."""
        if self.every is None:
            self._evaluate(args, state, control, kwargs)

    def _evaluate(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", kwargs: Mapping[str, object]
    ) -> None:
        if not state.is_world_process_zero:
            return
        model: PreTrainedModel = kwargs["model"]
        sharded = [
            name
            for name, part in model.named_parameters()
            if part.numel() == 0 or hasattr(part, "placements") or hasattr(part, "ds_id")
        ]
        if sharded:
            raise UsageError(
                f"the parameter {sharded[0]} is only partly on this process (FSDP or DeepSpeed ZeRO-3); expected a "
                "whole model: evaluate the saved checkpoint instead"
            )
        checkpoint = f"{Path(args.output_dir or 'training').name}/checkpoint-{state.global_step}"
        metrics = dict(self.measure(model, kwargs.get("processing_class"), checkpoint))
        if self._log is None:
            state.log_history.append({**metrics, "epoch": state.epoch, "step": state.global_step})
            return
        is_due = control.should_log  # logging resets it, and the step's own loss may still have to be logged
        self._log(metrics)
        control.should_log = is_due
