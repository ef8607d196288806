"""The choices of a submitter: names and values of lists, never code, a path or an argument.

A model is named as on the Hub. A comma, an equals sign, a colon, a backslash or `..` is in no such name, so a name
cannot carry further model arguments, nor lead out of a folder.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from assaymark.leaderboard.board import Board
from assaymark.leaderboard.columns import MODEL_TYPES
from assaymark.leaderboard.submission.queue_rows import NewSubmission
from assaymark.models.checkpoint.quantisation import FULL_PRECISIONS, QUANTISED
from assaymark.registry import nearest
from assaymark.tasks.prompt_presets import preset_names

PRECISIONS = (*FULL_PRECISIONS, *QUANTISED)
WEIGHTS = ("original", "adapter", "delta")
LONGEST_NAME = 160
NO_PRESET = "none"
CHAT_TEMPLATE = "chat-template"  # the model's own
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,95}"
_NAME = re.compile(rf"{_PART}(?:/{_PART})?")
_REVISION = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_/-]|\.(?!\.)){0,79}")


def is_model_name(text: str) -> bool:
    """Return whether a text is a name as on the Hub."""
    return len(text) <= LONGEST_NAME and _NAME.fullmatch(text) is not None


def presets() -> list[str]:
    """Return the choices of a prompt preset: none, the model's own chat template, or a preset of the library."""
    named = preset_names()
    return [named[0], CHAT_TEMPLATE, *named[1:]]


@dataclass(frozen=True, slots=True)
class SubmissionProblem:
    """The reason why a submission is not accepted, and its remedy."""

    field: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.field}: {self.what}; {self.remedy}"


class _Fields:
    """Reads fields and collects their problems."""

    def __init__(self, text_of: Callable[[str], str]) -> None:
        self._text_of = text_of
        self.problems: list[SubmissionProblem] = []

    def of_list(self, name: str, known: Sequence[str], default: str = "") -> str:
        value = self._text_of(name) or default
        if value not in known:
            close = nearest(value, known)
            remedy = f"nearest: {', '.join(close)}" if close else f"expected one of {', '.join(known)}"
            self.problems.append(SubmissionProblem(name, f"is '{value[:60]}'" if value else "is missing", remedy))
        return value

    def of_pattern(self, name: str, pattern: re.Pattern[str], expected: str, *, needed: bool = False) -> str:
        value = self._text_of(name)
        if (value and (not pattern.fullmatch(value) or len(value) > LONGEST_NAME)) or (needed and not value):
            fault = f"is '{value[:80]}'" if value else "is missing"
            self.problems.append(SubmissionProblem(name, fault, f"expected {expected}"))
        return value


def read_choices(
    text_of: Callable[[str], str], boards: Mapping[str, Board]
) -> tuple[NewSubmission, list[SubmissionProblem]]:
    """Return the choices made, and a problem for each value that is not one of those allowed.

    text_of: returns the text of a field, empty if it was not sent. boards: the boards that take submissions, by name.
    """
    fields = _Fields(text_of)
    problems, of_list, of_pattern = fields.problems, fields.of_list, fields.of_pattern
    name_expected = "a name as on the Hub: organisation/model, of letters, digits, '-', '_' and '.'"
    weights = of_list("weights", WEIGHTS, "original")
    base = of_pattern("base", _NAME, name_expected, needed=weights == "adapter")
    if base and weights == "original":
        problems.append(SubmissionProblem("base", "is given for original weights", "leave it empty, or choose adapter"))
    if weights == "delta":
        remedy = "add the delta to its base, save the sum, and submit that as original weights"
        problems.append(SubmissionProblem("weights", "delta weights cannot be evaluated as they are", remedy))
    preset = of_list("preset", presets(), NO_PRESET)
    only = next(iter(boards)) if len(boards) == 1 else ""
    chosen = NewSubmission(
        submitter="",
        source="",
        content_hash="",
        board=of_list("board", tuple(boards), only),
        model=of_pattern("model", _NAME, name_expected, needed=True),
        revision=of_pattern("revision", _REVISION, "a branch, a tag or a commit; empty for the latest"),
        precision=of_list("precision", PRECISIONS, "float32" if not text_of("precision") else ""),
        preset=None if preset == NO_PRESET else preset,
        weights=weights,
        base=base or None,
        base_revision=of_pattern("base_revision", _REVISION, "a branch, a tag or a commit; empty for the latest"),
        kind=of_list("kind", tuple(model_type.key for model_type in MODEL_TYPES), "unknown"),
    )
    return chosen, problems
