"""`assaymark eval`: the command line of torchtune's RFC for `tune eval`, on top of `run`.

Source: torchtune's RFC "Evalz Are Hard" (March 2024), section "Proposal".
"""

import json
from pathlib import Path

import click

from assaymark.cli.main import is_option, normalise, with_underscores
from assaymark.cli.output import Command, OptionDecorator
from assaymark.errors import MissingExtra, UnknownName, UsageError

# torchtune's tokenizer builders: their file is given with --tokenizer-checkpoint, or is beside the weights.
TOKENIZERS = (
    "llama2_tokenizer", "llama3_tokenizer", "mistral_tokenizer", "code_llama2_tokenizer", "gemma_tokenizer",
    "qwen2_tokenizer", "qwen2_5_tokenizer", "phi3_mini_tokenizer",
)  # fmt: skip
ONLY_LM_EVAL = "Task `{name}` only available with EleutherAI Eval Harness. Install with `pip install lm-eval`."
EPILOG = """\b
Examples:
  assaymark eval --base-model llama2_7b --model-checkpoint model.pt \\
    --tokenizer llama2_tokenizer --tokenizer-checkpoint tokenizer.model --tasks hellaswag
  assaymark eval --base-model DIR --model-checkpoint model.pt --tasks open-llm-leaderboard --num-gpus 4
  assaymark eval --base-model DIR --tasks m-a-p/MusicTheoryBench

See all tasks with: assaymark eval ls"""


class _Dashed(click.Option):
    """An option that is shown with dashes, as in the RFC, and may be typed with underscores."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option's names with dashes, and its help."""
        record = super().get_help_record(ctx)
        return None if record is None else (record[0].replace(f", {self.opts[-1]}", "", 1), record[1])


def _option(name: str, **attributes: object) -> OptionDecorator:
    names = dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}"))
    return click.option(*names, name, cls=_Dashed, **attributes)


@click.command(
    "eval", cls=Command, epilog=EPILOG, context_settings={"ignore_unknown_options": True}, options_metavar="[OPTIONS]"
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[ls [WORDS]]")
@_option(
    "base_model",
    metavar="NAME|DIR",
    help="The model that was trained: a folder or Hub id, or one of torchtune's names such as llama2_7b.",
)
@click.option("--model", "base_model", hidden=True, help="The RFC's earlier name of --base-model.")
@_option("model_checkpoint", metavar="PATH", help="The checkpoint to evaluate (default: the base model itself).")
@_option(
    "tokenizer",
    metavar="NAME|DIR",
    help="One of torchtune's tokenizers such as llama2_tokenizer, or a tokenizer's folder or Hub id.",
)
@_option("tokenizer_checkpoint", metavar="PATH", help="The tokenizer's file, such as tokenizer.model.")
@_option("tasks", metavar="NAMES", help="Tasks, suites, task files, or data sets of the Hub, separated by commas.")
@_option(
    "num_gpus",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="GPUs to use, with a copy of the model on each; 0 uses the CPU.",
)
@_option("batch_size", metavar="N", help="Accepted without effect: the engine sizes batches by memory.")
@_option("num_fewshot", metavar="N", help="Shots in each prompt (default: as each task says).")
def eval_(
    words: tuple[str, ...], base_model: str | None, model_checkpoint: str | None, tokenizer: str | None,
    tokenizer_checkpoint: str | None, tasks: str | None, num_gpus: int, batch_size: str | None, num_fewshot: str | None,
) -> object:  # fmt: skip
    """Evaluate a trainer's checkpoint, or list the tasks with `eval ls`.

    Other options of `assaymark run` (--limit, --store, --json ...) are accepted too.
    """
    ctx = click.get_current_context()
    if words[:1] == ("ls",):
        from assaymark.runs.commands.ls import ls

        return ls.main(list(words[1:]), prog_name="assaymark eval ls", standalone_mode=False)
    _refuse_unknown(ctx, words)
    if not tasks:
        raise click.UsageError("missing option --tasks; see all tasks with `assaymark eval ls`", ctx)
    from assaymark.runs.commands.run import run

    arguments = _model_args(base_model, model_checkpoint, tokenizer, tokenizer_checkpoint)
    command = ["--model_args", json.dumps(arguments), "--tasks", _tasks(tasks, list(words)), *_workers(num_gpus)]
    for name, value in (("batch_size", batch_size), ("num_fewshot", num_fewshot)):
        command += [f"--{name}", value] if value is not None else []
    return run.main([*command, *normalise(words)], prog_name="assaymark eval", standalone_mode=False)


def _refuse_unknown(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Refuse what is neither an option of `run` nor the value of one.

    Raises: click.UsageError.
    """
    from assaymark.registry import nearest
    from assaymark.runs.commands.run import run

    known = {name for parameter in run.params for name in parameter.opts}
    own = {name for parameter in ctx.command.params for name in parameter.opts}
    before = ""
    for word in words:
        name = with_underscores(word).partition("=")[0]
        if is_option(word) and name not in known:
            raise click.NoSuchOption(name, possibilities=nearest(name, {*known, *own}), ctx=ctx)
        if not is_option(word) and (not is_option(before) or "=" in before):
            raise click.UsageError(f"unknown command '{word}'; expected ls, or options", ctx)
        before = word


def _model_args(base: str | None, checkpoint: str | None, tokenizer: str | None, file: str | None) -> dict[str, object]:
    """Return the model arguments for these options.

    Raises: UsageError if there are no weights to evaluate, or the tokenizer's name is unknown.
    """
    from assaymark.models.checkpoint.trainer_configs import is_builder
    from assaymark.models.checkpoint.trainers import is_trained

    if base is None and checkpoint is None:
        raise UsageError("no model was given; expected --base-model NAME|DIR, --model-checkpoint PATH, or both")
    if base is not None and checkpoint is None and is_builder(base):
        raise UsageError(f"--base-model {base} is a shape without weights; give them with --model-checkpoint PATH")
    arguments: dict[str, object] = {"pretrained": checkpoint or base}
    if base is not None and checkpoint is not None and is_trained(checkpoint):
        arguments["base"] = base
    if file is not None and not Path(file).expanduser().exists():
        raise UsageError(f"--tokenizer-checkpoint {file}: no such file or folder")
    if tokenizer is not None and tokenizer.endswith("_tokenizer") and not Path(tokenizer).exists():
        if tokenizer not in TOKENIZERS:
            raise UnknownName("tokenizer", tokenizer, [name for name in TOKENIZERS if name[:4] == tokenizer[:4]])
        tokenizer = None  # the file says which it is
    if file is not None or tokenizer is not None:
        arguments["tokenizer"] = file if file is not None else tokenizer
    return arguments


def _tasks(names: str, words: list[str]) -> str:
    """Return the tasks' names after checking those that only lm-eval may have.

    Raises: UsageError, in the RFC's words, for a task that only lm-eval has, where it is not installed.
    """
    from assaymark.tasks import lm_eval_names
    from assaymark.tasks.catalog import Catalog
    from assaymark.tasks.own_rows import dataset_name

    catalog, chosen = Catalog.open(), []
    for name in (part.strip() for part in names.split(",") if part.strip()):
        if dataset_name(name) is not None:
            chosen.append(name)
            continue
        try:
            catalog.select([name], partial=True)
        except (MissingExtra, UnknownName) as error:
            is_theirs = any(each == name or each.startswith(f"{name}_") for each in lm_eval_names.known_names())
            if is_theirs and lm_eval_names.task_folder() is None:
                raise UsageError(ONLY_LM_EVAL.format(name=name)) from error
            if "--include_path" not in words and "--include-path" not in words:
                raise
        chosen.append(name)
    return ",".join(chosen)


def _workers(n_gpus: int) -> list[str]:
    """Return the options of `run` for this number of GPUs.

    Raises: UsageError if there are fewer.
    """
    if n_gpus == 0:
        return ["--device", "cpu"]
    from assaymark.engine.memory import cuda_count

    if (n_here := cuda_count()) < n_gpus:
        raise UsageError(f"--num-gpus {n_gpus}, but torch finds {n_here} CUDA GPUs here; use --num-gpus {n_here}")
    return ["--device", "cuda", *(["--workers", str(n_gpus)] if n_gpus > 1 else [])]
