"""Evaluation during training with transformers' Trainer: a callback that logs the metrics of benchmarks."""

from collections.abc import Mapping, Sequence
from typing import Unpack

from assaymark.errors import UsageError
from assaymark.models.checkpoint.arguments import parse_arguments
from assaymark.models.training import TrainingCallback
from assaymark.records import with_filter
from assaymark.runs.evaluate import evaluate
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.runs.run import Run


def options_at(checkpoint: str, options: EvaluateOptions, tokenizer: object) -> EvaluateOptions:
    """Return a callback's options for the model as it is now, which is stored under the checkpoint's name.

    Args:
        checkpoint: name of the model's state.
        options: the callback's; a tokenizer in them is used in place of the Trainer's.
        tokenizer: the Trainer's `processing_class`, None without one.

    Raises: UsageError if neither has a tokenizer.
    """
    named = {"pretrained": checkpoint, **parse_arguments(options.get("model_args") or {})}
    whole: EvaluateOptions = {"tokenizer": tokenizer, **options, "model_args": named}
    if whole["tokenizer"] is None:
        raise UsageError("the Trainer has no tokenizer; expected Trainer(processing_class=...) or tokenizer=...")
    return whole


class EvaluationCallback(TrainingCallback):
    """Evaluates the model during training; each evaluation is stored as a run and appended to `runs`.

    Args:
        tasks: as for `evaluate`.
        every: optimisation steps between evaluations; None evaluates at the end of each epoch.
        options: as for `evaluate` (limit, num_fewshot, store, ...); without `tokenizer`, the Trainer's
            `processing_class` is used.

    With `attach(trainer)`, metrics are logged by `trainer.log`, and so to the console, TensorBoard and Weights &
    Biases; with `Trainer(callbacks=[...])` they are in `trainer.state.log_history` only. They are named
    eval_<task>_<metric>. Evaluation does not change training: the weights are the same, bit for bit.
    """

    def __init__(
        self, tasks: str | Sequence[str], *, every: int | None = None, **options: Unpack[EvaluateOptions]
    ) -> None:
        super().__init__(every)
        self.tasks = tasks
        self.options = options
        self.runs: list[Run] = []

    def measure(self, model: object, tokenizer: object, checkpoint: str) -> Mapping[str, float]:
        """Evaluate once and return the defined estimates; the run is stored under the checkpoint's name.

        Raises: as `evaluate`; UsageError if neither this callback nor the Trainer has a tokenizer.
        """
        run = evaluate(model, self.tasks, **options_at(checkpoint, self.options, tokenizer))
        self.runs.append(run)
        metrics = {}
        for each in run.estimates:
            if each.value is not None:
                suffix = with_filter("", each.filter, "_{}")
                metrics[f"eval_{each.task}_{each.metric}{suffix}"] = each.value
        return metrics
