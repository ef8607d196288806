"""`assaymark run`: evaluate a model on benchmarks."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

import click

from assaymark.cli.output import Command, details_option, echo, examples, json_option, print_json, print_rich
from assaymark.cli.typed import typed_command
from assaymark.errors import ModelError, UsageError, few
from assaymark.runs.progress import ProgressLine
from assaymark.runs.run_options import (
    EvaluationParameters,
    WandbArguments,
    WandbParameters,
    declared_option,
    evaluate_options,
    model_arguments,
    notes_on,
    read_config,
    run_options,
    wandb_arguments,
)
from assaymark.runs.targets import target_of_command, target_options

if TYPE_CHECKING:
    from assaymark.runs.evaluate_options import EvaluateKeywords, EvaluateOptions
    from assaymark.runs.run import Run
    from assaymark.runs.until import Until


OF_ONE_RUN = (
    "suite", "output_path", "write_out", "predict_only", "question_blind", "show_config", "check_integrity",
)  # fmt: skip


class RunParameters(EvaluationParameters, WandbParameters):
    """The options of `run` that it reads by name."""

    num_fewshot: int | tuple[int, ...] | None
    prompt_style: str | None
    question_blind: bool
    output_path: Path | None
    log_samples: bool
    write_out: bool
    show_config: bool
    predict_only: bool
    check_integrity: bool
    details: bool
    until: tuple[str, ...]
    budget: tuple[str, ...]
    macro: bool


class ConfiguredCommand(Command):
    """A command with a --config file, whose values are defaults for the options."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        """Read --config before parsing, since its values are defaults."""
        known = {parameter.name for parameter in self.params if parameter.name}
        defaults = read_config(_config_path(args), known)
        return super().make_context(info_name, args, parent, default_map=defaults or None, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options. Words that belong to none are answered with the command that was probably meant."""
        typed = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not error.message.startswith("Got unexpected extra"):
                raise
            _, words, _ = self.make_parser(ctx).parse_args(list(typed))
            raise UsageError(f"{', '.join(words)}: belongs to no option; write {_meant(typed, words)}") from None


def _meant(typed: Sequence[str], words: Sequence[str]) -> str:
    """Return the command with its loose words as options: a kind of model, a folder or Hub id as model, and tasks."""
    from assaymark.models.create import MODELS

    rest = list(typed)
    for word in reversed(words):
        del rest[len(rest) - 1 - rest[::-1].index(word)]
    arguments = [word for word in words if re.match(r"\w+=", word)]
    words = [word for word in words if word not in arguments]
    if arguments and (name := next((each for each in ("--model_args", "-a") if each in rest[:-1]), None)):
        rest[rest.index(name) + 1] += f",{','.join(arguments)}"
    elif arguments:
        rest += ["--model_args", ",".join(arguments)]
    given = {word.partition("=")[0] for word in rest}
    kind = next((["--model", word] for word in words if word in MODELS and "--model" not in given), [])
    words = [word for word in words if word not in kind]
    is_model = [not given & {"--model", "--model_args", "-a"} and _may_be_model(word) for word in words]
    at = is_model.index(True) if True in is_model else None
    model = [] if at is None else ["--model_args", f"pretrained={words[at]}"]
    tasks = [word for number, word in enumerate(words) if number != at]
    if tasks and "--tasks" in rest[:-1]:
        rest[rest.index("--tasks") + 1] += f",{','.join(tasks)}"
        tasks = []
    named = ["--tasks", ",".join(tasks)] if tasks else []
    return shlex.join(["assaymark", "run", *kind, *model, *named, *rest])


def _may_be_model(word: str) -> bool:
    return Path(word).is_dir() or ("/" in word and not Path(word).is_file() and Path(word).suffix != ".csv")


def _config_path(args: list[str]) -> Path | None:
    for at, word in enumerate(args):
        if word in {"--config", "-C"} and at + 1 < len(args):
            return Path(args[at + 1])
        if word.startswith("--config="):
            return Path(word.partition("=")[2])
    return None


EXAMPLES = examples(
    "run --model hf --model_args pretrained=DIR --tasks arc_challenge --num_fewshot 25",
    "run --model_args pretrained=DIR --suite open-llm-v1",
    "run --model_args pretrained=DIR --tasks my_questions.csv --limit 100",
    "run --target app.py:answer --tasks questions.jsonl --scorers exact,app.py:faithful",
    "run --model_args pretrained=DIR --tasks mmlu --until 'mmlu ± 2'",
    "run --model local-chat-completions --model_args model=NAME,base_url=URL --tasks gsm8k --max_cost 5",
)


@click.command(cls=ConfiguredCommand, epilog=EXAMPLES)
@run_options()
@target_options()
@click.option(
    "--output_path", "-o", type=click.Path(path_type=Path), metavar="DIR", help="Write lm-eval's result files."
)
@click.option("--log_samples", "-s", is_flag=True, help="With --output_path: lm-eval's samples files too.")
@click.option("--write_out", "-w", is_flag=True, help="Print the first prompt of each task.")
@click.option("--show_config", is_flag=True, help="Print the run's whole plan at the end.")
@declared_option("predict_only")
@declared_option("question_blind")
@declared_option("prompt_style")
@details_option
@declared_option("wait")
@click.option(
    "--until",
    multiple=True,
    metavar="GOAL",
    help="Ask questions in random order until this is known: 'mmlu ± 2' (points; or +-), 'acc >= .6'. Repeatable.",
)
@click.option(
    "--budget",
    multiple=True,
    metavar="AMOUNT",
    help="Ask no more than '500 samples', '10 minutes' or '$5' allow, in random order. Repeatable.",
)
@click.option("--macro", is_flag=True, help="With --until: each task counts the same, whatever its size.")
@click.option("--quiet", "-q", is_flag=True, help="Print no progress.")
@json_option
def run(as_json: bool, quiet: bool, **parameters: Unpack[RunParameters]) -> int:
    """Evaluate a model on benchmarks, or an application on rows; store and show the result.

    The same command continues an interrupted run: no stored response is requested again. On Ctrl-C or SIGTERM it waits
    up to 30 s for the responses in flight; a second signal stops at once. After a kill, the requests in flight and
    those of the last half second are sent again. If another process is writing the same run, its progress is shown.

    A task file given by its path, or found in --include_path, may run the code beside it. Exit code 5 if every request
    failed, if a server demands a longer pause than retry_budget, or if --max_cost stopped the run; 1 if a goal of
    --until is not reached.
    """
    from assaymark.runs.evaluate import evaluate
    from assaymark.runs.stored import check_writable

    if parameters["log_samples"] and parameters["output_path"] is None:
        raise UsageError("--log_samples writes into the folder --output_path; give that option too")
    for line in notes_on(parameters):
        _note(line)
    target = target_of_command(parameters)
    is_sequential = bool(parameters["until"] or parameters["budget"])
    several_shots = isinstance(parameters["num_fewshot"], tuple)
    of_several = several_shots or bool(parameters["prompt_style"])
    if is_sequential and (target is not None or of_several or parameters["question_blind"]):
        raise UsageError(
            "--until and --budget are for one run of a model; omit --target, --prompt_style, --question_blind, and "
            "name one number of shots"
        )
    if parameters["macro"] and not is_sequential:
        raise UsageError("--macro is about the order of --until and --budget; give one of them too")
    if parameters["prompt_style"] or (several_shots and target is None):
        return _run_prompt_styles(parameters, quiet=quiet, as_json=as_json)
    wandb = _checked_wandb(parameters)
    if parameters["output_path"] is not None:
        check_writable(parameters["output_path"], "--output_path")
    model: object
    tasks: object
    if target is None:
        kind, arguments = model_arguments(parameters)
        options: EvaluateOptions = {**evaluate_options(parameters), "model_args": arguments}
        if parameters["write_out"]:
            _write_out(kind, parameters["tasks"], options, to_stderr=as_json)
        if is_sequential:
            return _run_until(kind, options, parameters, wandb, is_quiet=quiet or as_json, as_json=as_json)
        model, tasks, keywords = kind, parameters["tasks"], cast("EvaluateKeywords", options)
        graders = {name: parameters.get(name) for name in ("judge", "judge_args")}
        keywords.update({name: value for name, value in graders.items() if value is not None})  # type: ignore[typeddict-item]
    else:
        model, tasks, own = target
        keywords = cast("EvaluateKeywords", own)
    keywords["notify"], keywords["command"] = _note, typed_command()
    with ProgressLine(quiet=quiet or as_json) as progress:
        keywords["observe"] = progress
        done = evaluate(model, tasks, **keywords)
    _print_run(done, parameters, as_json=as_json)
    _log_to_wandb(done, wandb)
    return _exit_code([done], with_scores=not parameters["predict_only"])


TASK_FAILED = 6  # exit code of a run in which one task has no answer, or one scorer no score, and others have some


def _exit_code(runs: Sequence["Run"], *, with_scores: bool = True) -> int:
    """Return the exit code of finished commands, and print why a run stopped early or which tasks failed as a whole."""
    reasons_to_stop = dict.fromkeys(run.stop_reason for run in runs if run.stop_reason)
    echo(*(f"error: incomplete: {reason}" for reason in reasons_to_stop), err=True)
    if any(run.stop_reason or run.nothing_answered for run in runs):
        return ModelError.exit_code
    reasons: dict[str, list[str]] = {}  # tasks that failed for the same reason are one line
    for run in runs:
        for task, reason in run.unanswered_tasks.items():
            reasons.setdefault(reason.partition(": ")[2] or reason, []).append(task)
    for reason, tasks in reasons.items():
        echo(
            f"error: every request of {few(tasks, 3)} failed, so there is no result: {reason or 'see `show`'}", err=True
        )
    unscored = {name: why for run in runs for name, why in run.unscored.items() if with_scores}
    for name, why in unscored.items():
        echo(f"error: {name}: no answer could be scored, so there is no result: {why}", err=True)
    return TASK_FAILED if reasons or unscored else 0


def _run_until(
    model: str, options: "EvaluateOptions", parameters: RunParameters, wandb: WandbArguments | None,
    *, is_quiet: bool, as_json: bool,
) -> int:  # fmt: skip
    """Evaluate until the goals are reached or the budget is spent; print the run and the goals' states."""
    from assaymark.runs.until import GoalState, evaluate_until, parse_budget

    options["notify"], options["command"] = _note, typed_command()

    def report(states: Sequence[GoalState]) -> None:
        echo(*(state.sentence for state in states), err=True)

    done = evaluate_until(
        model, parameters["tasks"], parameters["until"], budget=parse_budget(parameters["budget"]),
        macro=parameters["macro"], observe_goals=None if is_quiet else report, **options,
    )  # fmt: skip
    _print_run(done.run, parameters, as_json=as_json, until=done)
    _log_to_wandb(done.run, wandb)
    if done.n_failed or done.spent == "money":
        return ModelError.exit_code
    return 0 if done.is_decided else 1


def _run_prompt_styles(parameters: RunParameters, *, quiet: bool, as_json: bool) -> int:
    """Evaluate the tasks in each prompt style at each number of shots, and print the results side by side."""
    from assaymark.runs.prompt_styles import OWN_WORDING, evaluate_prompt_styles

    refused = [name for name in OF_ONE_RUN if parameters.get(name)]
    if refused:
        other = "--prompt_style" if parameters["prompt_style"] else "several numbers of shots"
        remedy = "omit one of them"
        if refused[0] == "output_path":
            remedy = "omit it, and write each stored run's files with: assaymark export RUN -o DIR"
        raise UsageError(f"--{refused[0]} cannot be combined with {other}; {remedy}")
    shots = parameters["num_fewshot"]
    counts = shots if isinstance(shots, tuple) else (shots,)
    kind, arguments = model_arguments(parameters)
    of_all = evaluate_options({**parameters, "num_fewshot": None, "prompt_style": None})
    options: EvaluateOptions = {**of_all, "model_args": arguments, "command": typed_command()}
    wandb = _checked_wandb(parameters)
    styles = [style.strip() for style in (parameters["prompt_style"] or OWN_WORDING).split(",") if style.strip()]
    with ProgressLine(quiet=quiet or as_json) as progress:
        options["observe"] = progress
        done = evaluate_prompt_styles(kind, parameters["tasks"], styles, counts, **options)
    if as_json:
        print_json(done.to_json())
    else:
        print_rich(done.document())
        echo(*done.remarks())
    for run in done.runs:
        _log_to_wandb(run.run, wandb)
    return _exit_code([run.run for run in done.runs])


def _checked_wandb(parameters: RunParameters) -> WandbArguments | None:
    """Return the arguments for W&B; None, with a note, where there are no scores or no wandb: the run goes on."""
    from assaymark.interop.wandb_log import is_wandb_here

    arguments = wandb_arguments(parameters)
    if arguments is not None and parameters["predict_only"]:
        _note("--wandb_args: nothing is logged to W&B, since with --predict_only there are no scores")
        return None
    if arguments is None or is_wandb_here():
        return arguments
    _note("--wandb_args: wandb is not installed, so nothing is logged to W&B; install it with: pip install wandb")
    return None


def _log_to_wandb(done: "Run", arguments: WandbArguments | None) -> None:
    """Log a run's results to W&B if that was requested; a failure is only a note, since the run is stored."""
    if arguments is None:
        return
    try:
        address = done.log_to_wandb(*arguments)
    except UsageError as error:
        _note(str(error))
    else:
        _note(f"logged to W&B{f': {address}' if address else ''}")


def _print_run(done: "Run", parameters: RunParameters, *, as_json: bool, until: "Until | None" = None) -> None:
    """Print the result, then write the requested files, so that a failure there does not lose the printed result."""
    if as_json:
        configuration = {"configuration": done.configuration()} if parameters["show_config"] else {}
        own = {**done.to_json(), **({"estimates": []} if parameters["predict_only"] else {})}
        print_json({**own, **configuration, **({"until": until} if until is not None else {})})
    elif parameters["predict_only"]:
        echo(f"outputs are stored; show their scores with: assaymark show {done.short_id}")
    else:
        print_rich(done.document(details=parameters["details"]))
        echo(*done.remarks(details=parameters["details"]), *(until.lines() if until is not None else ()))
    for line in done.store.notices:
        _note(line)
    if parameters["show_config"] and not as_json:
        print_json(done.configuration())
    if parameters["output_path"] is not None:
        has_scores = not parameters["predict_only"]  # else the samples are what is asked for
        log_samples = parameters["log_samples"] or not has_scores
        for path in done.write_lm_eval_files(
            parameters["output_path"], log_samples=log_samples, with_scores=has_scores
        ):
            echo(f"wrote {path}", err=True)
    if parameters["check_integrity"] and (problems := done.verify()):
        raise click.ClickException("; ".join(str(problem) for problem in problems))


def _note(line: str) -> None:
    echo(f"note: {line}", err=True)


def _write_out(kind: str, tasks: Sequence[str], options: "EvaluateOptions", *, to_stderr: bool) -> None:
    """Print the first prompt of each task, as lm-eval's --write_out does; on stderr if stdout is for JSON."""
    from assaymark.runs.evaluate import first_prompts

    for name, prompt in first_prompts(kind, tasks, **options):
        echo(f"--- {name}: first prompt (| marks its end)\n{prompt}|", err=to_stderr)
