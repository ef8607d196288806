"""The door: which commands there are, and how whatever goes wrong is told.

Commands are imported when they are called, so `evalstone --help` stays quick. An error of ours is one line and its
exit code; Ctrl-C is 130, SIGTERM 143; anything else is a fault in this program: one line as well, exit code 1, and
its traceback with `--debug`.
"""

import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import ClassVar

import click

from evalstone.cli.output import echo
from evalstone.cli.refused import line_of
from evalstone.cli.signals import Terminated, heeding_signals
from evalstone.cli.spelling import normalise, with_command, without_debug
from evalstone.cli.streams import discard_output, prepare_streams, stdout_failure
from evalstone.drafts import remove_leftovers
from evalstone.errors import EvalstoneError

MESSAGE_CHARACTERS = 500  # of an unexpected exception, which may quote any amount of data
AS_TYPED = frozenset({"lm-eval"})  # commands whose words are another program's
OF_LM_EVAL = {"validate": "evalstone task check TASK|FILE", "eval": "evalstone run"}  # its commands, and ours
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("evalstone.cli.run:run", "Put benchmarks to a model; store and show the result."),
    "plan": ("evalstone.cli.plan:plan", "Say what a run would take, without running it."),
    "ls": ("evalstone.cli.ls:ls", "List tasks, suites, models or stored runs."),
    "explain": ("evalstone.cli.explain:explain", "Say what a task measures, and how it is asked and scored."),
    "show": ("evalstone.cli.show:show", "Show a stored run, or its samples."),
    "compare": ("evalstone.cli.compare:compare", "Say which of two or more runs is better, and how sure that is."),
    "rescore": ("evalstone.cli.rescore:rescore", "Score stored answers again with another filter or metric."),
    "audit": ("evalstone.cli.audit:audit", "Was the test seen, does the wording decide, is the model calibrated?"),
    "arena": ("evalstone.cli.arena:arena", "Make ratings of votes between two models' answers."),
    "serve": ("evalstone.cli.serve:serve", "Show leaderboards in the browser."),
    "board": ("evalstone.cli.board:board", "Write a leaderboard's file, check it, search its rows."),
    "card": ("evalstone.cli.card:card", "Write a model card (README.md) from a model's stored runs."),
    "recommend": ("evalstone.cli.recommend:recommend", "Rank models by the benchmarks that measure what is needed."),
    "report": ("evalstone.cli.report:report", "Write a report of a stored run, as HTML or Markdown."),
    "diff-prompts": ("evalstone.cli.diff_prompts:diff_prompts", "Show how the prompts of two stored runs differ."),
    "reproduce": ("evalstone.cli.reproduce:reproduce", "Carry out a stored run again and say what differs."),
    "export": ("evalstone.cli.export:export", "Write a stored run to a file that others read."),
    "import": ("evalstone.cli.import_:import_", "Store a run that another tool made, or one that was exported."),
    "verify": ("evalstone.cli.verify:verify", "Check every stored hash and score."),
    "rm": ("evalstone.cli.rm:rm", "Remove a stored run."),
    "lm-eval": ("evalstone.cli.lm_eval:lm_eval", "Run lm-eval itself, with our engine as `--model evalstone`."),
    "task": ("evalstone.cli.task:task", "Check a task file before a GPU is spent on it."),
    "doctor": ("evalstone.cli.doctor:doctor", "Say what is installed here and what can run."),
    "demo": ("evalstone.cli.demo:demo", "Evaluate the two small models that come with the package."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported at their first use."""

    places: ClassVar[dict[str, tuple[str, str]]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names in the order people need them."""
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command; None where there is none of that name."""
        if cmd_name not in self.places:
            return None
        module, _, attribute = self.places[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown one is answered with the nearest names."""
        if args and args[0] not in self.places:
            from evalstone.registry import nearest

            close = nearest(args[0], self.places)
            hint = f"; nearest: {', '.join(close)}" if close else ""
            if args[0] in OF_LM_EVAL:
                hint = f"; it is lm-eval's, and here it is `{OF_LM_EVAL[args[0]]}`"
            raise click.UsageError(f"unknown command '{args[0]}'{hint}; see `evalstone --help`", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if name in AS_TYPED else normalise(rest)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.places.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Example: evalstone run --model hf --model_args pretrained=DIR --tasks arc_challenge --num_fewshot 25",
)
@click.version_option(package_name="evalstone", message="evalstone %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; may stand anywhere on the line.")
def cli(debug: bool) -> None:
    """Standardised evaluation of language models. lm-evaluation-harness's flags work on `run`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    prepare_streams()
    words, is_debug = without_debug(sys.argv[1:] if argv is None else argv, AS_TYPED)
    try:
        remove_leftovers()
        with heeding_signals():
            result = cli.main(args=with_command(words, list(COMMANDS)), prog_name="evalstone", standalone_mode=False)
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
        discard_output()  # so that the exit does not complain again
        return 141
    except Exception as error:  # noqa: BLE001 - the last place that can turn it into a line
        return _failed(error, words, is_debug=is_debug)
    return result if isinstance(result, int) else 0


def _failed(error: Exception, words: Sequence[str], *, is_debug: bool) -> int:
    """Print an error in one line, or with its traceback, and return the exit code."""
    if isinstance(error, OSError) and (failure := stdout_failure()):
        discard_output()
        _say(f"error: cannot write to standard output: {failure.strerror or failure}")
        return 1
    if is_debug:
        _say("".join(traceback.format_exception(error)).rstrip("\n"))
    text = " ".join(str(error).split())[:MESSAGE_CHARACTERS]
    if isinstance(error, EvalstoneError):
        _say(f"error: {error}")
        return error.exit_code
    if isinstance(error, OSError):
        _say(f"error: {text or type(error).__name__}")
    elif isinstance(error, MemoryError):
        _say(f"error: out of memory {text}".rstrip())
    else:
        whose = "error in lm-eval" if words and words[0] in AS_TYPED else "internal error"
        hint = "" if is_debug else "; run again with --debug for the traceback, and report it"
        _say(f"{whose}: {type(error).__name__}: {text}{hint}")
    return 1


def _say(text: str) -> None:
    """Print on standard error; where that cannot be written either, only the exit code is left."""
    try:
        echo(text, err=True)
    except OSError:
        discard_output()


def _stopped(code: int = 130) -> int:
    _say("\nstopped; what was answered is stored: run the same command again to go on")
    return code


if __name__ == "__main__":
    sys.exit(main())
