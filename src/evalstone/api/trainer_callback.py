"""Benchmarks while a model is trained with transformers' Trainer: three lines, and the metrics stand in its log."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from evalstone.api.evaluate import evaluate
from evalstone.api.run import Run
from evalstone.errors import UsageError
from evalstone.models.training import TrainingCallback
from evalstone.runner.evaluate_options import EvaluateOptions

__all__ = ["EvaluationCallback"]


class EvaluationCallback(TrainingCallback):
    """Evaluates the model in training; each evaluation is a stored run of its own, the last of `runs` the newest.

    Args:
        tasks: as for `evaluate`.
        every: optimisation steps between evaluations; None evaluates at the end of each epoch.
        options: as for `evaluate` (limit, num_fewshot, store, ...); without `tokenizer`, the Trainer's
            `processing_class` is taken.

    `attach(trainer)` sends the metrics through `trainer.log`, so that they reach the console, TensorBoard and Weights &
    Biases; given in `Trainer(callbacks=[...])` they are in `trainer.state.log_history` only. They are named
    eval_<task>_<metric>. Training goes on as if there had been no evaluation: same weights, to the bit.
    """

    def __init__(
        self,
        tasks: str | Sequence[str],
        *,
        every: int | None = None,
        **options: Unpack[EvaluateOptions],
    ) -> None:
        super().__init__(every)
        self.tasks = tasks
        self.options = options
        self.runs: list[Run] = []

    def measure(self, model: Any, tokenizer: Any) -> Mapping[str, float]:
        """Return the estimates of one evaluation, without those that are undefined.

        Raises: as `evaluate`; UsageError where neither this callback nor the Trainer has a tokenizer.
        """
        options: EvaluateOptions = {"tokenizer": tokenizer, **self.options}
        if options["tokenizer"] is None:
            raise UsageError("the Trainer has no tokenizer; expected Trainer(processing_class=...) or tokenizer=...")
        run = evaluate(model, self.tasks, **options)
        self.runs.append(run)
        metrics = {}
        for each in run.estimates:
            if each.value is not None:
                suffix = "" if each.filter in {"none", ""} else f"_{each.filter}"
                metrics[f"eval_{each.task}_{each.metric}{suffix}"] = each.value
        return metrics
