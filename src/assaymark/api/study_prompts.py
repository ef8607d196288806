"""Prompts of a study: drafted by a model, accepted by a person, answered by models."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assaymark.arena.answer_files import answers_of_files
from assaymark.arena.plain_prompts import PromptWriter
from assaymark.arena.studies.asking import answer_prompts, answered_prompts, answers_file
from assaymark.arena.studies.drafts import Draft, draft_prompts, read_drafts, write_drafts
from assaymark.arena.studies.study_file import CATEGORIES, StudyFile, read_study
from assaymark.errors import DataError, UsageError
from assaymark.models.lending import gives_back
from assaymark.models.model import Model
from assaymark.report.numbers import short_model_name
from assaymark.runner.prepare import model_of

__all__ = ["AskedStudy", "ask_study", "draft_study"]

COUNT = 4  # prompts of each category, where the study has no quotas


@dataclass(frozen=True, slots=True)
class AskedStudy:
    """What `ask_study` did. n: answers added; n_stored: those that the file had; failures: errors of requests."""

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
    model: Any,
    model_args: Any = None,
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
        raise UsageError(f"there is no folder {path.parent}; create it, or name another file with -o")
    quotas = study.quotas or dict.fromkeys(_categories(study), COUNT)
    wanted = {category: count or quota for category, quota in quotas.items()}
    writer = PromptWriter(_open(model, model_args), is_base)
    found = draft_prompts(writer, wanted, _known(study), seed)
    if not found.candidates:
        why = ", ".join(f"{n} {reason}" for reason, n in found.dropped.items())
        raise DataError(f"{found.model} drafted no usable prompt ({why}); try another model, or write them yourself")
    write_drafts(path, found)
    return path, found


def _categories(study: StudyFile) -> list[str]:
    """Return the categories of the study's answers; the usual ones where there are no answers yet."""
    if not all(path.exists() for path in study.answers):
        return list(CATEGORIES)
    source, _ = answers_of_files(study.answers)
    return list(dict.fromkeys(one.category for one in source.prompts if one.category)) or list(CATEGORIES)


def _known(study: StudyFile) -> list[str]:
    found = [check.prompt for check in study.checks]
    if all(path.exists() for path in study.answers):
        source, _ = answers_of_files(study.answers)
        found += [one.text for one in source.prompts]
    if study.prompts is not None and study.prompts.exists():
        found += [one.prompt for one in read_drafts(study.prompts)]
    return found


@gives_back
def ask_study(
    file: str | Path,
    model: Any,
    output: str | Path,
    model_args: Any = None,
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
    accepted = [one for one in drafted if one.accepted]
    if not accepted:
        raise DataError(
            f"{file}: none of {len(drafted)} prompts is accepted; read them and set `accepted: true` where you accept "
            "one"
        )
    opened = _open(model, model_args)
    label = name or short_model_name(opened.identity.name)
    writer = PromptWriter(opened, is_base)
    n, failures = 0, []
    answered_prompts(Path(output), label)  # a file of another kind is refused before it is opened to be written
    with answers_file(Path(output)) as add:
        known = answered_prompts(Path(output), label)
        wanted = [one for one in accepted if one.prompt not in known]
        for found in answer_prompts(writer, label, wanted, max_tokens):
            if isinstance(found, str):
                failures.append(found)
                continue
            add(found)
            n += 1
    n_not_accepted = len(drafted) - len(accepted)
    return AskedStudy(label, writer.form, n, len(accepted) - len(wanted), n_not_accepted, tuple(failures))


def _open(model: Any, model_args: Any) -> Model:
    opened = model_of(model, {"model_args": model_args or {}, "too_long": "error"})
    opened.check()
    return opened
