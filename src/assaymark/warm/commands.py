"""`assaymark warm start|status|stop|restart`: a process that has imported the modules of runs."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from assaymark.cli.output import Group, echo, examples, json_option, print_json
from assaymark.cli.warm_client import SERVED, connect, process_facts, socket_folder, socket_name
from assaymark.errors import StoreError, UsageError
from assaymark.platforms import not_here
from assaymark.warm.server import WarmFacts, ask, difference

if sys.platform != "linux":
    raise not_here("the warm process")

WAIT_SECONDS = 20.0  # of `restart`, for a stopped process without commands to end
USED_BY = ", ".join(f"`{name}`" for name in sorted(SERVED))
EXAMPLES = examples("warm start", "warm start --model_args pretrained=DIR --idle 480", "warm status", "warm stop")
model_option = click.option(
    "--model_args", multiple=True, metavar="A=1,B=2",
    help="Model whose architecture is imported too; repeatable (default: Llama's, by the small demo model).",
)  # fmt: skip
idle_option = click.option(
    "--idle", default=60.0, show_default=True, type=click.FloatRange(0, min_open=True), metavar="MINUTES",
    help="End after so long without a command.",
)  # fmt: skip


@click.group(cls=Group, epilog=EXAMPLES)
def warm() -> None:
    """Keep a process ready that has imported torch and transformers, and runs your commands in forks of itself.

    `run`, `eval`, `race`, `reproduce` and `demo` use it while it is there; their results, exit codes and signals are
    those of a run without it. It serves the user who started it alone, holds no model, and refuses commands whose
    version, source, environment or limits differ from its own; these run without it. --no-warm does too. Linux only.
    """


@warm.command(epilog=examples("warm start"))
@model_option
@idle_option
def start(model_args: tuple[str, ...], idle: float) -> None:
    """Start it, and return when it is ready."""
    _start(model_args, idle)


@warm.command(epilog=examples("warm restart"))
@model_option
@idle_option
def restart(model_args: tuple[str, ...], idle: float) -> None:
    """Stop it if there is one, and start another, with the source and environment of now."""
    if _stop():
        deadline = time.monotonic() + WAIT_SECONDS
        while (socket_folder() / socket_name()).exists():
            if time.monotonic() > deadline:
                raise StoreError("the warm process still runs commands and ends with them; then `assaymark warm start`")
            time.sleep(0.05)
    _start(model_args, idle)


@warm.command(epilog=examples("warm status"))
@json_option
def status(as_json: bool) -> int:
    """Show whether there is one, and whether commands typed here would use it. Exit code 1 if not."""
    facts = _asked("status")
    if facts is None:
        echo(json.dumps({"process_id": None}) if as_json else "no warm process; start one: assaymark warm start")
        return 1
    here = json.loads(json.dumps(process_facts()))
    reason = difference(facts["facts"], here)
    if reason is None and facts["changed"]:
        reason = f"{facts['changed']} changed since it was started; restart it with `assaymark warm restart`"
    if as_json:
        print_json({**{name: fact for name, fact in facts.items() if name != "facts"}, "refuses": reason})
        return 0 if reason is None else 1
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts["started"]))
    n_running = len(facts["in_progress"])
    echo(f"process {facts['process_id']}, since {since}; commands run: {facts['n_run']:,}, in progress: {n_running}")
    echo(f"{USED_BY} use it" if reason is None else f"commands typed here do not use it: {reason}")
    return 0 if reason is None else 1


@warm.command(epilog=examples("warm stop"))
def stop() -> int:
    """Stop it; commands in progress are finished."""
    facts = _stop()
    if facts is None:
        echo("no warm process")
        return 1
    n_running = len(facts["in_progress"])
    echo(f"process {facts['process_id']} ends" + (f" after the commands in progress: {n_running}" if n_running else ""))
    return 0


def _asked(what: str) -> WarmFacts | None:
    """Ask the process; None if there is none. A socket that nobody answers is removed."""
    try:
        connection = connect(socket_folder())
        return None if connection is None else ask(connection, what)
    except ConnectionError:
        with suppress(FileNotFoundError):
            (socket_folder() / socket_name()).unlink()
        return None


def _stop() -> WarmFacts | None:
    return _asked("stop")


def _start(models: Sequence[str], idle: float) -> None:
    """Start the process, wait until it is ready, and say so. Raises: UsageError, StoreError."""
    if (facts := _asked("status")) is not None:
        raise UsageError(f"there is one already (process {facts['process_id']}); `assaymark warm restart` replaces it")
    folder = socket_folder()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    small = Path(__file__).resolve().parents[1] / "library" / "demo_models" / "small"
    options = {"models": list(models) or [f"pretrained={small}"], "idle_seconds": idle * 60}
    log = folder / f"{socket_name()}.log"
    begin = time.perf_counter()
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "assaymark.warm", json.dumps(options)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, start_new_session=True, text=True, env=dict(os.environ),
        )  # fmt: skip
        # until it closes the pipe, when it is ready or has failed
        text = process.stdout.read() if process.stdout is not None else ""
    reply = json.loads(text) if text.startswith("{") else {"error": f"it ended with exit code {process.wait()}"}
    if "error" in reply:
        raise StoreError(f"the warm process was not started: {reply['error']}; see {log}")
    seconds = time.perf_counter() - begin
    echo(f"process {reply['process_id']} is ready after {seconds:.1f} s: {reply['n_modules']:,} modules imported; "
         f"{USED_BY} use it until `assaymark warm stop` or {idle:g} minutes without a command")  # fmt: skip
