"""Prompts of a study: drafted by a model, accepted by a person, answered by models.

Answers to accepted prompts are rows of a file of answers. A row is added as soon as its answer arrives, under a lock,
so that a killed process loses nothing and two processes do not ask the same file's prompts at once.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from assaymark.arena.answer_files import answers_of_files
from assaymark.arena.studies.drafts import Candidate, Draft, accepted_of, draft_prompts, read_drafts, write_drafts
from assaymark.arena.studies.study_file import CATEGORIES, StudyFile, read_study
from assaymark.errors import DataError, UsageError, write_errors
from assaymark.limits.nesting import parse_json
from assaymark.models.lending import gives_back
from assaymark.models.model import Model
from assaymark.models.plain_prompts import STOP, PromptWriter
from assaymark.platforms import alone
from assaymark.records import GenerationSettings, JsonValue
from assaymark.results.model_names import short_model_name
from assaymark.runs.prepare import model_of

Row = Mapping[str, JsonValue]
BEGINNING = '{"instruction"'


def answer_prompts(
    writer: PromptWriter, name: str, prompts: Sequence[Candidate], max_tokens: int
) -> Iterator[Row | str]:
    """Yield a model's answers, at temperature 0, as they arrive: a row, or the reason why a request failed.

    Each row has instruction, category, generator and output, and the request: `form` (messages, template or plain) and
    `sent`, the whole text; for messages it is the prompt.

    Raises: UsageError if the model generates no text, or is a base model behind a chat endpoint; ModelUnavailable.
    """
    settings = GenerationSettings(max_tokens, STOP if writer.form == "plain" else ())
    requests = [writer.request("study", index, candidate.prompt, settings) for index, candidate in enumerate(prompts)]
    asked = {request.id: (candidate, request) for candidate, request in zip(prompts, requests, strict=True)}
    for output in writer.model.answer(requests):
        answered, request = asked.pop(output.request_id)
        if output.text is None:
            yield str(output.error)
            continue
        yield {
            "instruction": answered.prompt, "category": answered.category, "generator": name,
            "output": output.text.strip(), "form": writer.form, "sent": request.prompt,
            "finish_reason": output.finish_reason,
        }  # fmt: skip
    for _ in asked:
        yield "no answer"


def answered_prompts(path: Path, name: str) -> set[str]:
    """Return the prompts that a file of answers has answers of this model to; none if the file does not exist.

    Raises: DataError for a file that cannot be read, or a line that is not a JSON object.
    """
    return {str(row.get("instruction")) for row in _rows(path) if row.get("generator") == name}


@contextmanager
def answers_file(path: Path) -> Iterator[Callable[[Row], None]]:
    """Lock a file of answers, created if there is none, and yield a function that adds a row, at once and whole.

    Raises: UsageError if it cannot be written, or another process is adding answers to it.
    """
    with (
        write_errors(path, "what it has is not asked again", kind=UsageError),
        alone(f"answers in {path.resolve()}", wait=False) as is_alone,
        path.open("ab+") as file,
    ):
        if not is_alone:
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


def _end_last_line(file: IO[bytes]) -> None:
    """Complete the last line's end if missing; remove a line that is not JSON, as a killed process may leave one."""
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
    rows: list[Row] = []
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
            raise DataError(f"{path}, line {number} is not a JSON object; name a file of answers (JSONL) with -o")
        rows.append(row)
    return rows


COUNT = 4  # prompts of each category, where the study has no quotas


@dataclass(frozen=True, slots=True)
class AskedStudy:
    """The result of `ask_study`. n: answers added; n_stored: answers already in the file; failures: request errors."""

    name: str
    form: str
    n: int
    n_stored: int
    n_not_accepted: int
    failures: tuple[str, ...]

    def line(self, path: str) -> str:
        """Return it as a line of text."""
        parts = [f"{self.n} answers of {self.name} added to {path}, asked by {self.form}"]
        parts += [f"{self.n_stored} were there"] if self.n_stored else []
        parts += [f"{self.n_not_accepted} prompts are not accepted"] if self.n_not_accepted else []
        parts += [f"{len(self.failures)} failed; the same command asks them again"] if self.failures else []
        return "; ".join(parts)


@gives_back
def draft_study(
    file: str | Path,
    model: object,
    model_args: str | Mapping[str, object] | None = None,
    *,
    count: int | None = None,
    seed: int = 0,
    output: str | Path | None = None,
    is_base: bool = False,
) -> tuple[Path, Draft]:
    """Let a model draft prompts for each category of a study, and write them to a file, none of them accepted.

    Args:
        file: the study's. Its prompts, in its answers and drafted ones, are not repeated.
        model: as for `evaluate`.
        model_args: of the model.
        count: prompts of each category; None: the category's quota, or 4.
        seed: of the sampling.
        output: the file; None: prompts.yaml beside the study.
        is_base: whether the model is asked without its chat template.

    Raises: DataError for a study that cannot be read, or nothing drafted; UsageError if the output exists;
        ModelUnavailable.
    """
    study = read_study(Path(file))
    path = Path(file).parent / "prompts.yaml" if output is None else Path(output)
    if path.exists():
        write_drafts(path, Draft("", "", (), {}, {}, seed))  # refuses, before a model is loaded
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a directory; create it, or name another file with -o")
    quotas = study.quotas or dict.fromkeys(_categories(study), COUNT)
    wanted = {category: count or quota for category, quota in quotas.items()}
    writer = PromptWriter(_open(model, model_args), is_base)
    draft = draft_prompts(writer, wanted, _earlier_prompts(study), seed)
    if not draft.candidates:
        why = ", ".join(f"{n} {reason}" for reason, n in draft.dropped.items())
        raise DataError(f"{draft.model} drafted no usable prompt ({why}); try another model, or write them yourself")
    write_drafts(path, draft)
    return path, draft


def _categories(study: StudyFile) -> list[str]:
    """Return the categories of the study's answers; the usual ones where there are no answers yet."""
    if not all(path.exists() for path in study.answers):
        return list(CATEGORIES)
    source, _ = answers_of_files(study.answers)
    return list(dict.fromkeys(prompt.category for prompt in source.prompts if prompt.category)) or list(CATEGORIES)


def _earlier_prompts(study: StudyFile) -> list[str]:
    texts = [check.prompt for check in study.checks]
    if all(path.exists() for path in study.answers):
        source, _ = answers_of_files(study.answers)
        texts += [prompt.text for prompt in source.prompts]
    if study.prompts is not None and study.prompts.exists():
        texts += [candidate.prompt for candidate in read_drafts(study.prompts)]
    return texts


@gives_back
def ask_study(
    file: str | Path,
    model: object,
    output: str | Path,
    model_args: str | Mapping[str, object] | None = None,
    *,
    name: str | None = None,
    max_tokens: int = 512,
    is_base: bool = False,
) -> AskedStudy:
    """Let a model answer the accepted prompts of a file, and add its answers to a file of answers.

    Args:
        file: of drafted prompts.
        model: as for `evaluate`.
        output: JSON lines; what it has of this model is not asked again.
        model_args: of the model.
        name: of the model in the answers; None: its own.
        max_tokens: of an answer.
        is_base: whether the model is asked without its chat template.

    Raises: DataError if no prompt is accepted; UsageError for a base model behind a chat endpoint, or while another
        process adds answers to the file; ModelUnavailable.
    """
    drafted = read_drafts(Path(file))
    accepted = accepted_of(Path(file), drafted)
    opened = _open(model, model_args)
    label = name or short_model_name(opened.identity.name)
    writer = PromptWriter(opened, is_base)
    n, failures = 0, []
    answered_prompts(Path(output), label)  # a file of another kind is refused before it is opened to be written
    with answers_file(Path(output)) as add:
        known = answered_prompts(Path(output), label)
        wanted = [candidate for candidate in accepted if candidate.prompt not in known]
        for answer in answer_prompts(writer, label, wanted, max_tokens):
            if isinstance(answer, str):
                failures.append(answer)
                continue
            add(answer)
            n += 1
    n_not_accepted = len(drafted) - len(accepted)
    return AskedStudy(label, writer.form, n, len(accepted) - len(wanted), n_not_accepted, tuple(failures))


def _open(model: object, model_args: str | Mapping[str, object] | None) -> Model:
    opened = model_of(model, {"model_args": model_args or {}, "too_long": "error"})
    opened.check()
    return opened
