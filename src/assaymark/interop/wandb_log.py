"""Logging of a run to Weights & Biases, on request and if its package is installed; no other code sends results.

Metrics have lm-eval's names, `task/metric` and `task/metric_stderr`, with the filter, if any, after a comma, so that a
project's charts continue. The interval's ends and the number of samples are logged in addition.
Source: lm-evaluation-harness 0.4.13, loggers/wandb_logger.py; https://docs.wandb.ai/ref/python
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec

from assaymark.errors import UsageError
from assaymark.records import Estimate, JsonValue, with_filter
from assaymark.results.estimate_texts import reported_count

DEFAULTS = {"project": "assaymark", "job_type": "eval"}
COLUMNS = ("task", "metric", "filter", "value", "low", "high", "stderr", "n")
TABLE = "evaluation/eval_results"


def is_wandb_here() -> bool:
    """Return whether the package is installed; it is not imported."""
    return find_spec("wandb") is not None


def log_to_wandb(
    estimates: Sequence[Estimate],
    configuration: Mapping[str, JsonValue],
    init_args: Mapping[str, object],
    config_args: Mapping[str, object],
) -> str | None:
    """Log a run's estimates, and return their address, if W&B has one.

    Args:
        configuration: the settings that determine the run's answers.
        init_args: for `wandb.init`; `step` is the step at which the values are logged.
        config_args: more values for the W&B run's configuration.

    Raises: UsageError if the package is not installed, or logging fails.
    """
    if not is_wandb_here():
        raise UsageError("wandb is not installed, so nothing is logged to W&B; install it with: pip install wandb")
    wandb = import_module("wandb")
    arguments = {**DEFAULTS, **init_args}
    step = arguments.pop("step", None)
    try:
        active = wandb.run  # of the caller's own script, which continues it
        run = active if active is not None else wandb.init(**arguments)
        run.config.update({**config_args, "assaymark": dict(configuration)}, allow_val_change=True)
        run.log({**_metrics(estimates), TABLE: wandb.Table(columns=list(COLUMNS), data=_rows(estimates))}, step=step)
        address = getattr(run, "url", None)
        if active is None:
            run.finish()
    except Exception as error:  # W&B raises many types; none of them may lose a run
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UsageError(
            f"logging to W&B failed ({first}); the results are stored, and the same command again logs them without "
            "a new request"
        ) from error
    return None if address is None else str(address)


def _metrics(estimates: Sequence[Estimate]) -> dict[str, float]:
    """Return the values under lm-eval's names."""
    logged: dict[str, float] = {}
    for estimate in estimates:
        after = with_filter("", estimate.filter, ",{}")
        values = {
            "": estimate.value,
            "_stderr": estimate.stderr,
            "_low": estimate.low,
            "_high": estimate.high,
            "_n": reported_count(estimate),
        }
        logged |= {
            f"{estimate.task}/{estimate.metric}{kind}{after}": value
            for kind, value in values.items()
            if value is not None
        }
    return logged


def _rows(estimates: Sequence[Estimate]) -> list[list[JsonValue]]:
    return [
        [each.task, each.metric, each.filter, each.value, each.low, each.high, each.stderr, reported_count(each)]
        for each in estimates
    ]
