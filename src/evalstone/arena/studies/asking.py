"""Models' answers to the prompts of a study that a person has accepted, as rows of a file of answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalstone.arena.plain_prompts import STOP, PromptWriter
from evalstone.arena.studies.drafts import Candidate
from evalstone.drafts import write_whole
from evalstone.errors import DataError, UsageError
from evalstone.limits.nesting import parse_json
from evalstone.records import GenerationSettings, JsonValue, Output

__all__ = ["Answered", "answer_prompts", "answered_prompts", "append_answers"]

Row = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Answered:
    """The rows of one model, and its failed requests, which have none."""

    rows: tuple[Row, ...]
    failures: tuple[str, ...]


def answer_prompts(writer: PromptWriter, name: str, prompts: Sequence[Candidate], max_tokens: int) -> Answered:
    """Return a model's answers, at temperature 0.

    Each row has instruction, category, generator and output, and with them what was sent: `form` (messages, template
    or plain) and `sent`, the whole text; for messages it is the prompt.

    Raises: UsageError if the model generates no text, or is a base model behind a chat endpoint; ModelUnavailable.
    """
    settings = GenerationSettings(max_tokens, STOP if writer.form == "plain" else ())
    requests = [writer.request("study", index, one.prompt, settings) for index, one in enumerate(prompts)]
    outputs: dict[str, Output] = {output.request_id: output for output in writer.model.answer(requests)}
    rows: list[Row] = []
    failures: list[str] = []
    for one, request in zip(prompts, requests, strict=True):
        output = outputs.get(request.id)
        if output is None or output.text is None:
            failures.append("no answer" if output is None else str(output.error))
            continue
        rows.append({
            "instruction": one.prompt, "category": one.category, "generator": name, "output": output.text.strip(),
            "form": writer.form, "sent": request.prompt, "finish_reason": output.finish_reason,
        })  # fmt: skip
    return Answered(tuple(rows), tuple(failures))


def answered_prompts(path: Path, name: str) -> set[str]:
    """Return the prompts that a file of answers has answers of this model to; none if there is no file.

    Raises: DataError for a file that cannot be read, or a line that is no JSON object.
    """
    return {str(row.get("instruction")) for row in _rows(path) if row.get("generator") == name}


def append_answers(path: Path, rows: Sequence[Row]) -> None:
    """Add rows to a file of JSON lines, completely or not at all. Raises: UsageError if it cannot be written."""
    lines = [json.dumps(row, ensure_ascii=False) for row in (*_rows(path), *rows)]
    try:
        write_whole(path, "".join(f"{line}\n" for line in lines), "backslashreplace")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}; name another file with -o") from error


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
            row = None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number} is no JSON object; name a file of answers (JSONL) with -o")
        found.append(row)
    return found
