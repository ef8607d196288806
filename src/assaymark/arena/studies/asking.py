"""Models' answers to the prompts of a study that a person has accepted, as rows of a file of answers.

A row is added as soon as its answer is there, under a lock, so that nothing is lost with a killed process and two
processes do not ask one file's prompts at once.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from assaymark.arena.plain_prompts import STOP, PromptWriter
from assaymark.arena.studies.drafts import Candidate
from assaymark.errors import DataError, UsageError
from assaymark.limits.nesting import parse_json
from assaymark.records import GenerationSettings, JsonValue

__all__ = ["answer_prompts", "answered_prompts", "answers_file"]

Row = Mapping[str, JsonValue]
BEGINNING = '{"instruction"'


def answer_prompts(
    writer: PromptWriter, name: str, prompts: Sequence[Candidate], max_tokens: int
) -> Iterator[Row | str]:
    """Yield a model's answers, at temperature 0, each as soon as it is there: a row, or why a request failed.

    Each row has instruction, category, generator and output, and with them what was sent: `form` (messages, template
    or plain) and `sent`, the whole text; for messages it is the prompt.

    Raises: UsageError if the model generates no text, or is a base model behind a chat endpoint; ModelUnavailable.
    """
    settings = GenerationSettings(max_tokens, STOP if writer.form == "plain" else ())
    requests = [writer.request("study", index, one.prompt, settings) for index, one in enumerate(prompts)]
    asked = {request.id: (one, request) for one, request in zip(prompts, requests, strict=True)}
    for output in writer.model.answer(requests):
        one, request = asked.pop(output.request_id)
        if output.text is None:
            yield str(output.error)
            continue
        yield {
            "instruction": one.prompt, "category": one.category, "generator": name, "output": output.text.strip(),
            "form": writer.form, "sent": request.prompt, "finish_reason": output.finish_reason,
        }  # fmt: skip
    for _ in asked:
        yield "no answer"


def answered_prompts(path: Path, name: str) -> set[str]:
    """Return the prompts that a file of answers has answers of this model to; none if there is no file.

    Raises: DataError for a file that cannot be read, or a line that is no JSON object.
    """
    return {str(row.get("instruction")) for row in _rows(path) if row.get("generator") == name}


@contextmanager
def answers_file(path: Path) -> Iterator[Callable[[Row], None]]:
    """Lock a file of answers, made if there is none, and yield what adds a row, at once and whole.

    Raises: UsageError if it cannot be written, or another process is adding answers to it.
    """
    try:
        with path.open("ab+") as file:
            if not _is_locked(file):
                raise UsageError(f"another process adds answers to {path}; wait for it, or name another file with -o")
            _end_last_line(file)

            def add(row: Row) -> None:
                line = json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
                end = file.seek(0, os.SEEK_END)
                try:
                    file.write(line)
                    file.flush()
                except OSError:
                    with suppress(OSError):
                        file.truncate(end)
                    raise

            yield add
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}; what it has is not asked again") from error


def _is_locked(file: IO[bytes]) -> bool:
    """Lock an open file for this process, and return whether that was possible; True where there are no locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _end_last_line(file: IO[bytes]) -> None:
    """End the last line where its end is missing; remove it if it is no JSON, as a killed process may leave it."""
    file.seek(0)
    before, _, last = file.read().rpartition(b"\n")
    if not last:
        return
    try:
        parse_json(last.decode("utf-8"))
        file.write(b"\n")
    except ValueError:
        file.truncate(len(before) + 1 if before else 0)


def _rows(path: Path) -> list[Row]:
    if not path.exists():
        return []
    found: list[Row] = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}; name a file of answers (JSONL) with -o") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
        except ValueError:
            if number == len(lines) and line.startswith(BEGINNING):  # left by a killed process
                break
            row = None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number} is no JSON object; name a file of answers (JSONL) with -o")
        found.append(row)
    return found
