"""Targets that are commands: the prompt is the first argument and standard input, the answer what the command prints.

As with promptfoo's `exec:`, the command gets three further arguments: the prompt, the options as JSON, and the context
as JSON (with the row's inputs as `vars`). Exit codes other than 0 are failures.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO

from assaymark.applications.arguments import prompt_of, promptfoo_arguments, variables_of
from assaymark.applications.functions import traceparent
from assaymark.applications.returned import MOST_CHARACTERS, Returned, read_returned
from assaymark.applications.rows import Row
from assaymark.applications.source import files_hash, own_imports
from assaymark.errors import Permanent, TimedOut, UsageError
from assaymark.limits.nesting import parse_json
from assaymark.platforms import end_group, split_command
from assaymark.records import JsonValue, canonical_json, content_hash

_CONTROL = re.compile(  # what programs send to a terminal: colours and movements, titles and links, character sets
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])"
)
_QUOTED = 500  # characters of standard error in a message


@dataclass(frozen=True)
class CommandTarget:
    """A command, without a shell; files that it names count into its identity."""

    command: str
    given_name: str | None = None

    kind = "command"
    base = None

    @property
    def name(self) -> str:
        """The name under which its results are shown."""
        return self.given_name or f"exec:{self.command}"

    @cached_property
    def words(self) -> list[str]:
        """The program and its arguments. Raises: UsageError where there is no such program."""
        try:
            words = split_command(self.command)
        except ValueError as error:
            raise UsageError(f"exec:{self.command} cannot be read: {error}") from None
        if not words:
            raise UsageError("exec: names no command; expected exec:PROGRAM ARGUMENTS")
        if shutil.which(words[0]) is None:
            raise UsageError(f"exec:{self.command}: no program '{words[0]}' is found; expected a program or its path")
        return words

    @property
    def options(self) -> tuple[tuple[str, JsonValue], ...]:
        """The command itself."""
        return (("command", self.command),)

    @property
    def source_hash(self) -> str:
        """A hash of the files and modules (`python -m`) that the command names, and of the modules that they import."""
        modules = [name.replace(".", "/") for flag, name in pairwise(self.words) if flag == "-m"]
        named = [*self.words, *(f"{module}{end}" for module in modules for end in (".py", "/__main__.py"))]
        files = [Path(name) for name in named if Path(name).is_file()]
        return content_hash([[*digest, *_imports(file)] for digest, file in zip(files_hash(files), files, strict=True)])

    def bind(self, rows: Sequence[Row]) -> "_BoundCommand":  # noqa: ARG002 - every row has a prompt
        """Return the command, to be called with rows. Raises: UsageError where there is no such program."""
        return _BoundCommand(self.words, self.name)


def _imports(file: Path) -> list[list[str]]:
    """Return name and digest of the modules that a program in Python imports; none where it cannot be read."""
    try:
        return own_imports(file.resolve()) if file.suffix == ".py" else []
    except UsageError:
        return []


@dataclass(frozen=True, slots=True)
class _BoundCommand:
    words: list[str]
    name: str
    is_async = False
    keeps_limit = True

    def text(self, row: Row) -> str:
        """Return the prompt and the inputs."""
        prompt, variables = prompt_of(row), variables_of(row)
        return prompt if isinstance(row.inputs, str) else canonical_json({"prompt": prompt, "vars": variables})

    def start(self, row: Row, repeat: int, timeout_s: float, trace_id: str) -> Callable[[], object]:
        """Return the call for a row."""
        prompt, options, context = promptfoo_arguments(row, repeat, traceparent(trace_id))
        words = [*self.words, prompt, json.dumps(options), json.dumps(context, ensure_ascii=False)]
        environment = {**os.environ, "TRACEPARENT": str(context["traceparent"])}
        return lambda: self._run(words, prompt, environment, timeout_s)

    def _run(self, words: list[str], prompt: str, environment: dict[str, str], timeout_s: float) -> str:
        """Run the command and return its output. Raises: Permanent, TimedOut."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as errors:
            stdin.write(prompt.encode("utf-8", "surrogatepass"))
            stdin.seek(0)
            try:
                process = subprocess.Popen(
                    words, stdin=stdin, stdout=printed, stderr=errors, env=environment, start_new_session=True
                )
            except (OSError, ValueError) as error:  # an argument that is too long, or has a NUL
                raise Permanent(f"{self.name} cannot be started: {error}") from None
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise TimedOut(
                    f"{self.name} did not end within {timeout_s:g} s and was ended; raise the time limit"
                ) from None
            finally:
                end_group(process)
                process.wait()
            if code != 0:
                said = _text_of(errors, self.name, errors="replace").strip()[-_QUOTED:]
                raise Permanent(
                    f"{self.name} ended with exit code {code}: {' '.join(said.split()) or 'it printed no error'}"
                )
            return _text_of(printed, self.name, errors="strict")

    def read(self, value: str) -> Returned:
        """Return its output without colours; promptfoo's JSON (`output`, `cost`, `tokenUsage`) is read as such."""
        text = _CONTROL.sub("", value).rstrip("\r\n")
        return replace(self._read(text), had_colours="\x1b" in value)

    def _read(self, text: str) -> Returned:
        if text.lstrip().startswith("{"):
            try:
                parsed = parse_json(text)
            except (ValueError, RecursionError):
                return read_returned(text)
            if isinstance(parsed, dict) and ("output" in parsed or parsed.get("error")):
                return read_returned(parsed)
        return read_returned(text)


def _text_of(file: IO[bytes], name: str, errors: str) -> str:
    file.seek(0)
    content = file.read(MOST_CHARACTERS + 1)
    if len(content) > MOST_CHARACTERS:
        raise Permanent(f"{name} printed more than {MOST_CHARACTERS:,} bytes; expected an answer")
    try:
        return content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        at = f"byte {content[error.start]:#04x} at {error.start:,}"
        raise Permanent(f"{name} printed text that is not UTF-8 ({at}); set PYTHONUTF8=1, or write UTF-8") from None
