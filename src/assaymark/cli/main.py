"""The entry point of the command line: the list of commands, and how errors are reported.

Commands are imported when they are called, so that `assaymark --help` is fast. An AssaymarkError is printed as one
line and ends with its exit code; Ctrl-C with 130, SIGTERM with 143. Any other exception is a bug: it is printed as one
line too, with exit code 1, and `--debug` adds the traceback.
"""

import gc
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import ClassVar

import click

from assaymark.cli.output import echo
from assaymark.cli.refused import line_of
from assaymark.cli.signals import Terminated, handle_signals
from assaymark.cli.spelling import normalise, with_command, without_debug
from assaymark.cli.streams import discard_output, prepare_streams, stdout_failure
from assaymark.drafts import remove_leftovers
from assaymark.errors import AssaymarkError, is_panic

YOUNG_OBJECTS = 200_000
"""Objects between two garbage collections. At the default of 700 the imports of torch and transformers, whose objects
all stay, take a seventh of their time in collections."""
MESSAGE_CHARACTERS = 500  # of an unexpected exception, which may quote any amount of data
AS_TYPED = frozenset({"lm-eval"})  # commands whose arguments belong to another program
OF_LM_EVAL = {"validate": "assaymark task check TASK|FILE"}  # lm-eval's command -> ours
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("assaymark.cli.run:run", "Evaluate a model on benchmarks; store and show the result."),
    "eval": ("assaymark.cli.eval:eval_", "Evaluate a trainer's checkpoint, with the options of torchtune's RFC."),
    "plan": ("assaymark.cli.plan:plan", "Estimate tokens, memory and time of a run without running it."),
    "ls": ("assaymark.cli.ls:ls", "List tasks, suites, models or stored runs."),
    "explain": ("assaymark.cli.explain:explain", "Explain what a task measures, its prompt and its scores."),
    "guide": ("assaymark.cli.guide:guide", "Say which benchmarks measure what, and what to look out for."),
    "show": ("assaymark.cli.show:show", "Show a stored run, or its samples."),
    "compare": ("assaymark.cli.compare:compare", "Compare stored runs, with intervals and tests."),
    "rescore": ("assaymark.cli.rescore:rescore", "Score stored outputs again with another filter or metric."),
    "audit": ("assaymark.cli.audit:audit", "Test for contamination, sensitivity to prompts, and calibration."),
    "judge": ("assaymark.cli.judge:judge", "Let a model judge stored answers; measure its agreement with people."),
    "arena": ("assaymark.cli.arena:arena", "Let people compare two models' answers; compute ratings from votes."),
    "study": ("assaymark.cli.study:study", "Run a human study: invited people compare models' answers blind."),
    "serve": ("assaymark.cli.serve:serve", "Show leaderboards in the browser."),
    "submit": ("assaymark.cli.submit:submit", "Check a model as a leaderboard would, and submit it."),
    "worker": ("assaymark.cli.worker:worker", "Evaluate submitted models: take jobs from the queue."),
    "chat": ("assaymark.cli.chat:chat", "Talk with a model, or with two side by side."),
    "host": ("assaymark.cli.host:host", "Answer an OpenAI-compatible API with a local model."),
    "board": ("assaymark.cli.board:board", "Create and check a leaderboard's file, or search its rows."),
    "card": ("assaymark.cli.card:card", "Write a model card (README.md) from a model's stored runs."),
    "recommend": ("assaymark.cli.recommend:recommend", "Rank models by the benchmarks that measure what is needed."),
    "report": ("assaymark.cli.report:report", "Write a report of stored runs as HTML, Markdown or PDF."),
    "diff-prompts": ("assaymark.cli.diff_prompts:diff_prompts", "Show how the prompts of two stored runs differ."),
    "reproduce": ("assaymark.cli.reproduce:reproduce", "Run a stored plan again and report what differs."),
    "export": ("assaymark.cli.export:export", "Export a stored run to a file for other tools."),
    "import": ("assaymark.cli.import_:import_", "Import a run of another tool, or an exported run."),
    "verify": ("assaymark.cli.verify:verify", "Check every stored hash and score."),
    "rm": ("assaymark.cli.rm:rm", "Remove stored runs."),
    "lm-eval": ("assaymark.cli.lm_eval:lm_eval", "Run lm-evaluation-harness, with our engine as `--model assaymark`."),
    "task": ("assaymark.cli.task:task", "Check a task file before evaluating a model on it."),
    "doctor": ("assaymark.cli.doctor:doctor", "Show what is installed and what can run here."),
    "demo": ("assaymark.cli.demo:demo", "Evaluate the two small models that come with the package."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported at their first use."""

    targets: ClassVar[dict[str, tuple[str, str]]] = COMMANDS  # name -> (module:function, help)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order of the help."""
        return list(self.targets)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command; None if there is none of that name."""
        if cmd_name not in self.targets:
            return None
        module, _, attribute = self.targets[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for an unknown one has the nearest names."""
        if args and args[0] not in self.targets:
            from assaymark.registry import nearest

            close = nearest(args[0], self.targets)
            hint = f"; nearest: {', '.join(close)}" if close else ""
            if args[0] in OF_LM_EVAL:
                hint = f"; it is a command of lm-eval, and here it is `{OF_LM_EVAL[args[0]]}`"
            raise click.UsageError(f"unknown command '{args[0]}'{hint}; see `assaymark --help`", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if name in AS_TYPED else normalise(rest)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.targets.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Example: assaymark run --model hf --model_args pretrained=DIR --tasks arc_challenge --num_fewshot 25",
)
@click.version_option(package_name="assaymark", message="assaymark %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; accepted anywhere on the line.")
def cli(debug: bool) -> None:
    """Standardised evaluation of language models. `run` accepts the options of lm-evaluation-harness."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    if argv is None:  # this process is the command line's own
        gc.set_threshold(YOUNG_OBJECTS, 30, 30)
    prepare_streams()
    words, is_debug = without_debug(sys.argv[1:] if argv is None else argv, AS_TYPED)
    try:
        remove_leftovers()
        with handle_signals():
            result = cli.main(args=with_command(words, list(COMMANDS)), prog_name="assaymark", standalone_mode=False)
            sys.stdout.flush()
    except click.exceptions.Abort:
        return _stopped()
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except click.ClickException as error:
        _say(f"error: {line_of(error)}")
        return error.exit_code
    except KeyboardInterrupt:
        return _stopped()
    except Terminated as end:
        return _stopped(end.code)
    except BrokenPipeError:
        discard_output()  # so that Python's flush at exit does not fail again
        return 141
    except BaseException as error:
        if isinstance(error, Exception) or is_panic(error):  # the last handler that can report it in one line
            return _failed(error, words, is_debug=is_debug)
        raise
    return result if isinstance(result, int) else 0


def _failed(error: BaseException, words: Sequence[str], *, is_debug: bool) -> int:
    """Print an error in one line, or with its traceback, and return the exit code."""
    if isinstance(error, OSError) and (failure := stdout_failure()):
        discard_output()
        _say(f"error: cannot write to standard output: {failure.strerror or failure}")
        return 1
    if is_debug:
        _say("".join(traceback.format_exception(error)).rstrip("\n"))
    text = " ".join(str(error).split())[:MESSAGE_CHARACTERS]
    if isinstance(error, AssaymarkError):
        _say(f"error: {error}")
        return error.exit_code
    if isinstance(error, OSError):
        _say(f"error: {text or type(error).__name__}")
    elif is_panic(error):
        _say(f"error: the model's tokenizer failed in its native code: {text}; use another one with tokenizer=FOLDER")
    elif isinstance(error, MemoryError):
        _say(f"error: out of memory {text}".rstrip())
    else:
        whose = "error in lm-eval" if words and words[0] in AS_TYPED else "internal error"
        hint = "" if is_debug else "; run again with --debug for the traceback, and report it"
        _say(f"{whose}: {type(error).__name__}: {text}{hint}")
    return 1


def _say(text: str) -> None:
    """Print on standard error; if that cannot be written either, only the exit code remains."""
    try:
        echo(text, err=True)
    except OSError:
        discard_output()


def _stopped(code: int = 130) -> int:
    _say("\nstopped; responses received so far are stored: run the same command again to continue")
    return code


if __name__ == "__main__":
    sys.exit(main())
