"""The entry point of the command line: the group of commands, lm-eval's spellings, and how errors are reported.

Commands are imported when they are called, so that `assaymark --help` is fast. An AssaymarkError is printed as one
line and ends with its exit code; Ctrl-C with 130, SIGTERM with 143. Any other exception is a bug: it is printed as one
line too, with exit code 1, and `--debug` adds the traceback.

So is a command line that cannot be parsed (removed or misspelt flags, values of a wrong type), and standard streams may
be closed, full, or in an encoding that lacks characters.

lm-eval's users type `--tasks a b c`, `--model_args a=1 b=2`, `--apply_chat_template` without a value, and no
sub-command at all. These are converted on the list of words, so that the commands need not know about them.
"""

import atexit
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

import click

from assaymark.cli.output import Group, echo
from assaymark.cli.signals import Terminated, handle_signals
from assaymark.drafts import remove_leftovers
from assaymark.errors import AssaymarkError, ModelUnavailable, UnknownName, is_panic, panic_line
from assaymark.platforms import collect_garbage_rarely
from assaymark.registry import Registry, nearest
from assaymark.stopping import ServedToTheEnd

if sys.platform == "linux":
    from assaymark.cli.warm_client import run_warm

# options that take several words, and what joins the words
SEVERAL = {
    "--tasks": ",", "-t": ",", "--model_args": ",", "-a": ",", "--gen_kwargs": ",", "--wandb_args": ",",
    "--wandb_config_args": ",", "--trackio_args": ",", "--hf_hub_log_args": ",", "--metadata": ",", "--offline": ",",
}  # fmt: skip
# options whose value is optional -> the value if there is none
OPTIONAL = {"--apply_chat_template": "true", "--fewshot_as_multiturn": "true", "--cache_requests": "true"}


def is_option(word: str) -> bool:
    """Return whether a word is an option, and not a value such as -1."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit() and word[1] != "."


def with_underscores(word: str) -> str:
    """Return a long option spelled with underscores, its value unchanged: --num-fewshot=5 -> --num_fewshot=5."""
    if not word.startswith("--") or word == "--":
        return word
    name, equals, value = word.partition("=")
    return "--" + name[2:].replace("-", "_") + equals + value


def normalise(words: Sequence[str]) -> list[str]:
    """Return the words of one command (without its name) in our parser's spelling."""
    result: list[str] = []
    rest = [with_underscores(word) for word in words]
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in OPTIONAL and not equals:
            value = rest.pop(0) if rest and not is_option(rest[0]) else OPTIONAL[name]
            result += [name, value]
        elif name in SEVERAL:
            values = [value] if equals else []
            while rest and not is_option(rest[0]):
                values.append(rest.pop(0))
            result += [name, *([SEVERAL[name].join(v.strip(",") for v in values)] if values else [])]
        else:
            result.append(word)
    return result


def without_flag(flag: str, words: Sequence[str], as_typed: Collection[str]) -> tuple[list[str], bool]:
    """Return the words without a flag such as `--debug`, and whether it was among them.

    It is accepted anywhere before `--`, but after a command in `as_typed` it belongs to another program.
    """
    end = next((i for i, word in enumerate(words) if word == "--"), len(words))
    first = next((i for i, word in enumerate(words[:end]) if not is_option(word)), end)
    end = first if first < end and words[first] in as_typed else end
    kept = [word for word in words[:end] if with_underscores(word) != flag]
    return [*kept, *words[end:]], len(kept) < end


def with_command(words: Sequence[str], commands: Sequence[str]) -> list[str]:
    """Return the words with `run` prepended if they have no sub-command, as in older versions of lm-eval."""
    first = words[0] if words else ""
    old_form = is_option(first) and first not in {"--help", "-h", "--version"} and first not in commands
    return ["run", *words] if old_form else list(words)


STANDARD_OUTPUT, STANDARD_ERROR = 1, 2


def prepare_streams() -> None:
    """Make the standard streams usable.

    A closed descriptor (`>&-`) is opened on the null device. Otherwise the next file opened, such as a database, would
    get its number, and prints of libraries would be written into that file. Characters that the encoding lacks
    (`PYTHONIOENCODING=ascii`) are written as escapes instead of raising UnicodeEncodeError.
    """
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
            os.set_inheritable(descriptor, True)
        os.close(descriptor)
        sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - open as long as the process
        sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", None) == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def stdout_failure() -> OSError | None:
    """Try to write an empty line to standard output; return the error, None if it worked.

    Flushing alone does not show a failure: text too long for the buffer is no longer in it.
    """
    try:
        sys.stdout.write("\n")
        sys.stdout.flush()
    except OSError as error:
        return error
    return None


def discard_output() -> None:
    """Redirect standard output, and standard error if it fails, to the null device: Python flushes both at exit."""
    streams = [(sys.stdout, STANDARD_OUTPUT)]
    try:
        sys.stderr.flush()
    except OSError:
        streams.append((sys.stderr, STANDARD_ERROR))
    for stream, number in streams:
        with suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number if stream is None else stream.fileno())
            os.close(null)


# Flags of earlier lm-eval versions and their forks -> what to use instead.
REMOVED = {
    "--decontamination_ngrams_path": "look for test data in the training data with: assaymark audit contamination",
    "--description_dict_path": "write the description into the task file, as `description:`",
    "--huggingface_token": "set HF_TOKEN, or write --model_args token=...",
    "--output_base_path": "the folder for result files is --output_path",
    "--provide_description": "write the description into the task file, as `description:`",
    "--tasks_list": "list tasks with: assaymark ls tasks",
    "--use_accelerate": "write --model_args device_map=auto",
}


def line_of(error: click.ClickException) -> str:
    """Return a command line's fault and the remedy, in one line."""
    context = getattr(error, "ctx", None)
    help_line = f"see `{context.command_path} --help`" if context is not None else "see `assaymark --help`"
    if isinstance(error, click.NoSuchOption):
        if error.option_name in REMOVED:
            return f"{error.option_name} is not supported: {REMOVED[error.option_name]}"
        near = f"; nearest: {', '.join(sorted(error.possibilities))}" if error.possibilities else ""
        return f"no such option {error.option_name}{near}; {help_line}"
    message = " ".join(error.format_message().split()).rstrip(".")
    if not isinstance(error, click.UsageError) or "see `assaymark" in message:
        return message
    return f"{message}; {help_line}"


MESSAGE_CHARACTERS = 500  # of an unexpected exception, which may quote any amount of data
AS_TYPED = frozenset({"lm-eval"})  # commands whose arguments belong to another program
# commands that store responses as they arrive, and continue where they ended
RESUMABLE = frozenset({"run", "eval", "race", "demo", "reproduce", "judge", "swe", "lm-eval"})
SPINS = "5000"  # of a thread that waits, until it gives its processor away; as fast as the default on a quiet machine
OF_LM_EVAL = {"validate": "assaymark task check TASK|FILE"}  # lm-eval's command -> ours
COMMANDS: Registry[click.Command] = Registry("commands", "command")


class PipeClosed(Exception):
    """Standard output was closed by its reader, such as `head`; click would end the program itself at an EPIPE."""


class LazyGroup(Group):
    """A group whose commands are imported at their first use."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Raises: PipeClosed."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise PipeClosed from error

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names, those of one feature beside each other."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command; None if there is none of that name."""
        try:
            return COMMANDS.load(cmd_name)
        except UnknownName:
            return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; the error for an unknown one has the nearest names."""
        if args and args[0] not in (names := self.list_commands(ctx)):
            close = nearest(args[0], names)
            hint = f"; nearest: {', '.join(close)}" if close else ""
            if args[0] in OF_LM_EVAL:
                hint = f"; it is a command of lm-eval, and here it is `{OF_LM_EVAL[args[0]]}`"
            raise click.UsageError(f"unknown command '{args[0]}'{hint}; see `assaymark --help`", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if name in AS_TYPED else normalise(_help_first(rest))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands by purpose, without importing any; those of packages come last."""
        places = COMMANDS.places()
        widest = max(map(len, places), default=0)
        for section in (*SECTIONS, *sorted({place.section or OTHERS for place in places.values()} - set(SECTIONS))):
            own = [(name.ljust(widest), place.summary) for name, place in places.items()
                   if (place.section or OTHERS) == section]  # fmt: skip
            if own:
                with formatter.section(section):
                    formatter.write_dl(own)


SECTIONS = ("Evaluate", "Read and compare", "Leaderboards", "People and judges", "Applications and code",
            "Try a model", "Files and this machine")  # fmt: skip
OTHERS = "Other commands"
COMPLETION = "_ASSAYMARK_COMPLETE"  # click's variable, by which a shell asks what may come next
FIRST = """\
assaymark demo                    two small models on a small set of benchmarks
assaymark run --model hf --model_args pretrained=DIR --tasks NAME
                                  a benchmark on your model; lm-eval's flags work
assaymark compare last~1 last     which of the last two runs is better
assaymark serve                   a leaderboard of your runs, in the browser
assaymark guide                   which benchmark measures what

All commands: assaymark --help
"""


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog="Example: assaymark run --model hf --model_args pretrained=DIR --tasks arc_challenge --num_fewshot 25",
)
@click.version_option(package_name="assaymark", message="assaymark %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; accepted anywhere on the line.")
@click.option("--no_warm", is_flag=True, help="Do not use the process of `warm start`; accepted anywhere on the line.")
@click.pass_context
def cli(ctx: click.Context, /, **_: bool) -> None:  # --debug and --no_warm were taken off the line
    """Standardised evaluation of language models. `run` accepts the options of lm-evaluation-harness."""
    if ctx.invoked_subcommand is None:
        echo(FIRST, nl=False)


def _help_first(words: list[str]) -> list[str]:
    """Return the words of a command; with --help at the end, only that and the words before the first option.

    click would take it as the value of an option before it: `show last --samples --help`.
    """
    if not words or words[-1] not in {"-h", "--help"} or "--" in words:
        return words
    return [*takewhile(lambda word: not word.startswith("-"), words), "--help"]


def yield_while_waiting() -> None:
    """Let this process's threads of GNU OpenMP give their processor away soon, unless a variable says otherwise.

    torch's threads wait for each other thousands of times a second, and keep their processor for about a millisecond
    by default. On a busy machine the others cannot run meanwhile, and all take up to three times longer. To be called
    before torch is imported.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)


LOG_LEVELS = {"TRANSFORMERS_VERBOSITY": "error", "VLLM_LOGGING_LEVEL": "ERROR", "TORCH_CPP_LOG_LEVEL": "ERROR"}


def quieten_libraries() -> None:
    """Turn log lines and warnings of vLLM, transformers, torch and peft off, unless a variable or -W asks for them.

    To be called before they are imported; processes that this one starts have it from the environment.
    """
    for name, level in LOG_LEVELS.items():
        os.environ.setdefault(name, level)
    if "TORCH_LOGS" not in os.environ:
        logging.getLogger("torch").setLevel(logging.ERROR)
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])
    atexit.register(_leave_in_silence)
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", module=r"(torch|transformers|vllm|peft)(\.|$)")


def _leave_in_silence() -> None:
    """Close standard error to what vLLM's libraries list of themselves while the interpreter is taken down."""
    if "vllm" in sys.modules and os.environ["VLLM_LOGGING_LEVEL"] == LOG_LEVELS["VLLM_LOGGING_LEVEL"]:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_ERROR)


def main(argv: Sequence[str] | None = None, *, may_hand_over: bool = True) -> int:
    """Run the command line and return the exit code.

    Args:
        argv: words of the command line; None: those of this process, which is then the command line's own.
        may_hand_over: whether the warm process, if there is one, may run this process's command.
    """
    if argv is None:
        collect_garbage_rarely()
        yield_while_waiting()
    prepare_streams()
    words, is_debug = without_flag("--debug", sys.argv[1:] if argv is None else argv, AS_TYPED)
    words, is_cold = without_flag("--no_warm", words, AS_TYPED)
    if argv is None and not is_debug:
        os.environ["RUST_BACKTRACE"] = "0"  # a panic of a tokenizer's native code is one line of ours
        quieten_libraries()
    try:
        if sys.platform == "linux" and argv is None and may_hand_over and not is_cold:
            code = run_warm(words, _say)
            if code is not None:
                return code
        remove_leftovers()
        with handle_signals():
            result = cli.main(args=with_command(words, list(COMMANDS)), prog_name="assaymark", standalone_mode=False)
            sys.stdout.flush()
    except click.exceptions.Abort:
        return _stopped(words)
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except click.ClickException as error:
        _say(f"error: {line_of(error)}")
        return error.exit_code
    except KeyboardInterrupt:
        return _stopped(words)
    except Terminated as end:
        return _stopped(words, end.code)
    except (BrokenPipeError, PipeClosed):
        discard_output()  # so that Python's flush at exit does not fail again
        return 141
    except ServedToTheEnd:
        return 0
    except SystemExit as error:
        if COMPLETION in os.environ or (words and words[0] in AS_TYPED):  # click's, another program's way to end
            raise
        _say(f"error: {_where_exited(error)} called exit({error.code!r}); code of a task, model or scorer may not end "
             "the program")  # fmt: skip
        return 1
    except BaseException as error:
        if isinstance(error, Exception) or is_panic(error):  # the last handler that can report it in one line
            return _failed(error, words, is_debug=is_debug)
        raise
    return result if isinstance(result, int) else 0


def _where_exited(error: SystemExit) -> str:
    """Return the file and line of the code that ended the program."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}," if frames else "a library"


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
        removed = "; the working folder was removed: cd to one that exists" if _is_folder_removed() else ""
        _say(f"error: {text or type(error).__name__}{removed}")
    elif is_panic(error):
        _say(f"error: {panic_line(error)}")
        return ModelUnavailable.exit_code
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


def _stopped(words: Sequence[str], code: int = 130) -> int:
    is_resumable = bool(words) and words[0] in RESUMABLE
    stored = "; responses received so far are stored: run the same command again to continue" if is_resumable else ""
    _say(f"\nstopped{stored}")
    return code


def _is_folder_removed() -> bool:
    """Return whether this process's working folder does not exist any more."""
    try:
        return not Path.cwd().is_dir()
    except OSError:
        return True


if __name__ == "__main__":
    sys.exit(main())
