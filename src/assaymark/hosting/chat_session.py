"""The loop of `assaymark chat`: questions, commands, and answers shown while they are generated.

What models write is shown with control characters as escapes. Without a terminal (a pipe) the same commands work, the
prompt is not printed, and two models' answers follow each other.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.cli.output import echo
from assaymark.errors import AssaymarkError, UsageError
from assaymark.hosting.chat import Conversation

if TYPE_CHECKING:
    from rich.table import Table
from assaymark.hosting.conversation_task import save_as_task

HELP = """/template         show the conversation as the model sees it
/system [TEXT]    set the system prompt and start anew; without TEXT: remove it
/undo             take back the last question and its answer
/reset            start anew
/save FILE        write the conversation as a sample of a task, FILE.yaml and FILE.jsonl
/help             show this
/exit             end (also Ctrl-D)
Ctrl-C stops an answer. A question that begins with / is written with two: //"""
REFRESH_SECONDS = 0.08


class ChatSession:
    """A conversation of the user with one or two models."""

    def __init__(self, sides: Sequence[Conversation]) -> None:
        self._sides = list(sides)
        self._is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": lambda _: echo(HELP), "/template": self._template, "/system": self._system,
            "/undo": self._undo, "/reset": self._reset, "/save": self._save,
        }  # fmt: skip

    def run(self) -> None:
        """Answer until the input ends."""
        if self._is_terminal:
            echo(f"{' and '.join(side.name for side in self._sides)}; /help lists the commands, Ctrl-D ends")
        for line in self._lines():
            text = line.strip()
            if text in {"/exit", "/quit"}:
                return
            if not text:
                continue
            try:
                self._take(text)
            except KeyboardInterrupt:
                echo("\n(stopped)")
            except AssaymarkError as error:
                echo(f"error: {error}", err=True)

    def _lines(self) -> Iterator[str]:
        """Yield the lines of the input; Ctrl-C at the prompt drops the line."""
        if not self._is_terminal:
            yield from sys.stdin
            return
        import readline  # noqa: F401 - gives input() editing and history

        while True:
            try:
                yield input("> ")
            except KeyboardInterrupt:
                echo("\n(/exit or Ctrl-D ends)")
            except EOFError:
                echo("")
                return

    def _take(self, text: str) -> None:
        """Carry out a command or ask a question. Raises: AssaymarkError; KeyboardInterrupt."""
        if text.startswith("/") and not text.startswith("//"):
            name, _, rest = text.partition(" ")
            if name not in self._commands:
                raise UsageError(f"unknown command {name}; expected {', '.join(self._commands)}, /exit, or a question")
            self._commands[name](rest.strip())
            return
        question = text.removeprefix("/") if text.startswith("//") else text
        if len(self._sides) == 2 and self._is_terminal:
            _side_by_side(self._sides, question)
            return
        for side in self._sides:
            if len(self._sides) > 1:
                echo(f"[{side.name}]")
            _show(side, question)

    # -------------------------------------------------------------------------------------------- commands

    def _template(self, _rest: str) -> None:
        for side in self._sides:
            if len(self._sides) > 1:
                echo(f"[{side.name}]")
            messages = side.with_system(side.messages)
            if not messages:
                raise UsageError("there is nothing to show yet; ask a question first, or set /system")
            prompt = side.prompt(messages)
            if prompt is not None:
                echo(prompt)
                continue
            echo("the server applies its own template to these messages:")
            for message in messages:
                echo(f"{message.role}: {message.text}")

    def _system(self, text: str) -> None:
        for side in self._sides:
            side.settings = replace(side.settings, system=text or None)
        self._reset("")

    def _undo(self, _rest: str) -> None:
        has_undone = [side.undo() for side in self._sides]
        echo("took back the last question and its answer" if any(has_undone) else "there is nothing to take back")

    def _reset(self, _rest: str) -> None:
        for side in self._sides:
            side.messages = []
        system = self._sides[0].settings.system
        echo(f"new conversation; system prompt: {system}" if system else "new conversation, without a system prompt")

    def _save(self, name: str) -> None:
        if not name:
            raise UsageError("/save needs a file: /save FILE")
        for number, side in enumerate(self._sides):
            path = Path(name).expanduser()
            path = path.with_name(f"{path.stem}_{number + 1}") if len(self._sides) > 1 else path
            plain = side.prompt(side.with_system(side.messages[:-1])) if side.why_plain and side.messages else None
            settings = side.settings
            task, rows = save_as_task(path, side.messages, settings.system, settings.generation, plain=plain)
            preset = f" --prompt_preset {settings.preset.name}" if settings.preset else ""
            named = f"--model hf --model_args pretrained={side.model.identity.name}"
            if side.model.takes_messages:
                arguments = dict(side.model.identity.options)
                named = "--model local-chat-completions --model_args "
                named += f"model={side.model.identity.name},base_url={arguments.get('base_url')}"
            echo(f"saved {task} and {rows}; evaluate with: assaymark run {named} --tasks {task}{preset}")


def _show(side: Conversation, question: str) -> None:
    """Print an answer piece by piece."""
    has_begun = False
    try:
        for piece in side.answer(question):
            text = piece if has_begun else piece.lstrip()
            if text:
                has_begun = True
                echo(text, nl=False)
                sys.stdout.flush()
    finally:
        if has_begun:
            echo("")
    if not has_begun:
        echo("(the answer is empty)")


class _Column:
    """One model's answer while it is generated, in a thread of its own."""

    def __init__(self, side: Conversation, question: str) -> None:
        self._side, self._question = side, question
        self.text = ""
        self.error: AssaymarkError | None = None
        self.is_stopped = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        pieces = self._side.answer(self._question)
        try:
            for piece in pieces:
                self.text += piece
                if self.is_stopped:
                    pieces.close()  # type: ignore[attr-defined]  # it is a generator
                    return
        except AssaymarkError as error:
            self.error = error


def _side_by_side(sides: Sequence[Conversation], question: str) -> None:
    """Show two answers in columns while both are generated. Raises: KeyboardInterrupt once both have stopped."""
    from rich.live import Live

    from assaymark.documents.terminal import SafeConsole

    columns = [_Column(side, question) for side in sides]
    for column in columns:
        column.thread.start()
    with Live(_table(sides, columns), console=SafeConsole(), auto_refresh=False, vertical_overflow="visible") as live:
        try:
            while any(column.thread.is_alive() for column in columns):
                for column in columns:
                    column.thread.join(REFRESH_SECONDS)
                live.update(_table(sides, columns), refresh=True)
        finally:
            for column in columns:
                column.is_stopped = True
            for column in columns:
                column.thread.join()
            live.update(_table(sides, columns), refresh=True)
    for side, column in zip(sides, columns, strict=True):
        if column.error is not None:
            echo(f"error: {side.name}: {column.error}", err=True)


def _table(sides: Sequence[Conversation], columns: Sequence[_Column]) -> "Table":
    """Return both answers as a table of two columns."""
    from rich.table import Table

    from assaymark.documents.terminal import Text

    table = Table(expand=True, pad_edge=False)
    for side in sides:
        table.add_column(Text(side.name), ratio=1, overflow="fold")
    table.add_row(*(Text(column.text.strip()) for column in columns))
    return table
