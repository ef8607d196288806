"""A study: its file, with an example of one, and its plan, which the store keeps in JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NotRequired, TypedDict

from assaymark.drafts import write_whole
from assaymark.errors import DataError, UnknownName, UsageError, write_errors
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import JsonValue
from assaymark.registry import nearest

_ANSWERS = (
    ("How many piano tuners work in Chicago?", "Fermi", "About 100: 2.5 million people, one piano in 50 ...", "Seven."),
    ("Write a line about rain.", "writing", "Rain on the tin roof: a small drum for a large sky.", "Rain."),
    ("Would a cubic Moon change the tides?", "counterfactual", "Hardly: mass and distance decide.", "Yes, a lot."),
    ("What can I do with stale bread?", "generic", "Toast it, make crumbs, a pudding or a soup.", "Nothing."),
)  # fmt: skip


def write_example(folder: Path) -> Path:
    """Write `study.yaml` and `answers.jsonl`; return the former. Raises: UsageError if one of them exists."""
    study, answers = folder / "study.yaml", folder / "answers.jsonl"
    for path in (study, answers):
        if path.exists():
            raise UsageError(f"{path} exists; name a folder without it")
    rows = [
        {"instruction": prompt, "category": category, "generator": name, "output": text}
        for prompt, category, *texts in _ANSWERS
        for name, text in zip(("careful", "brief"), texts, strict=True)
    ]
    with write_errors(folder, "name another folder", kind=UsageError):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(answers, "".join(f"{json.dumps(row)}\n" for row in rows))
        write_whole(study, EXAMPLE)
    return study


CATEGORIES = (
    *("writing", "role-play", "common sense", "Fermi", "counterfactual", "coding", "mathematics", "knowledge"),
    *("generic", "open question answering", "closed question answering", "brainstorming", "chat", "editing"),
    *("summarisation", "classification", "extraction", "rewriting"),
)
"""Usual categories of prompts; a file may have others."""

MOST_POINTS = 10
# fields of an exported choice, which no question or scale may be called
RESERVED = frozenset({"better", "model_a", "model_b", "winner", "judge", "prompt_id", "category", "seconds", "prompt",
                      "response_a", "response_b"})  # fmt: skip

CAP = 4
"""Comparisons of one rater, beside the attention checks, unless the file says otherwise."""

EXAMPLE = """\
# A study: people compare two models' answers without knowing the models.
study: example
title: Which answers do people prefer?
answers: [answers.jsonl]       # rows with instruction, output, generator and category; these prompts stay private
# prompts: prompts.yaml        # drafted by `assaymark study draft`: only those that you accepted
# models: [one, other]         # only these
quotas: {writing: 1, Fermi: 1, generic: 1, counterfactual: 1}   # comparisons of each category
ratings: 2                     # raters of each comparison, for their agreement
raters: 3                      # or a list of names
cap: 4                         # comparisons of one rater
seed: 1
consent: >
  You compare answers of computer programs. We store your choices under a number, without your name. You can stop at any
  time, and ask us to erase what you chose.
questions:                     # beside "which answer is better?"
  - {id: reason, text: "What decided?", choices: [content, style, length, other]}
# scales:                      # each of the two answers is also rated by itself, from 1 to `points`
#   - {id: quality, text: "How good is it?", points: 5, low: bad, high: excellent}
# demographics:                # asked only if listed; stored apart from the choices
#   - {id: age, text: "Your age", choices: [under 30, 30 to 60, over 60, rather not say]}
# groups: [age]                # results are counted by these too; raters read that before they agree
# group_quotas: {age: {under 30: 10}}    # at most so many raters who say so
checks:                        # attention checks: one answer is plainly right
  - {prompt: "What is 2 + 2?", right: "4", wrong: "I like trains."}
"""


class PlannedItem(TypedDict):
    """A prompt with the answers to it."""

    prompt: str
    category: str
    answers: Mapping[str, str]  # by model; of an attention check: right and wrong


class StudyQuestion(TypedDict):
    """A question with a choice of answers."""

    id: str
    text: str
    choices: Sequence[str]


class Scale(TypedDict):
    """A scale on which each answer is rated by itself, from 1 to `points`; the ends have words."""

    id: str
    text: str
    points: int
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class AttentionCheck:
    """An attention check."""

    prompt: str
    right: str
    wrong: str


@dataclass(frozen=True, slots=True)
class StudyFile:
    """A study as its file describes it."""

    study: str
    title: str
    answers: tuple[Path, ...]
    raters: tuple[str, ...]
    consent: str
    models: tuple[str, ...] = ()  # empty: all that have answers
    quotas: Mapping[str, int] | None = None
    ratings: int = 2
    cap: int = CAP
    seed: int = 0
    questions: tuple[StudyQuestion, ...] = ()
    scales: tuple[Scale, ...] = ()
    demographics: tuple[StudyQuestion, ...] = ()
    groups: tuple[str, ...] = ()  # ids of demographics by which results are counted
    group_quotas: Mapping[str, Mapping[str, int]] | None = None  # of demographics: choice -> most raters who say so
    checks: tuple[AttentionCheck, ...] = ()
    prompts: Path | None = None  # drafted ones: only those that a person has accepted are compared


class StudyPlan(TypedDict):
    """A study's plan; fields that a study does not use, or older plans lack, are not required."""

    study: str  # its name
    title: str
    consent: str
    models: Sequence[str]
    items: Sequence[PlannedItem]
    questions: Sequence[StudyQuestion]
    ratings: int  # of each comparison
    cap: int  # comparisons of one rater
    demographics: Sequence[StudyQuestion]
    seed: int
    n_comparisons: int
    scales: NotRequired[Sequence[Scale]]
    groups: NotRequired[Sequence[str]]  # ids of the demographics by which results are counted
    group_quotas: NotRequired[Mapping[str, Mapping[str, int]]]  # such an id -> choice -> raters at most


def read_study(path: Path) -> StudyFile:
    """Return the study of a YAML file; paths of answers are relative to it.

    Raises: DataError for a file that is not one, with the key; UnknownName for a key that does not exist.
    """
    try:
        contents = load_yaml(path.read_bytes())
    except (OSError, DataError) as error:
        raise DataError(f"{path} cannot be read: {error}; `assaymark study init` writes an example") from error
    if not isinstance(contents, dict):
        raise DataError(f"{path} is not a mapping; `assaymark study init` writes an example")
    known = [field.name for field in fields(StudyFile)]
    for key in contents:
        if key not in known:
            raise UnknownName(f"key of the study {path}", str(key), nearest(str(key), known), ", ".join(known))
    checked = _Checked(path, contents)
    return StudyFile(
        study=checked.name("study"),
        title=checked.text("title"),
        answers=tuple(path.parent / text for text in checked.texts("answers")),
        raters=checked.raters(),
        consent=checked.text("consent"),
        models=checked.texts("models", required=False),
        quotas=checked.quotas(),
        ratings=checked.count("ratings", 2),
        cap=checked.count("cap", CAP),
        seed=checked.count("seed", 0, least=0),
        questions=checked.questions("questions"),
        scales=checked.scales(),
        demographics=checked.questions("demographics"),
        groups=checked.groups(),
        group_quotas=checked.group_quotas(),
        checks=checked.checks(),
        prompts=path.parent / checked.text("prompts") if "prompts" in contents else None,
    )


class _Checked:
    """The values of a file, each checked when it is read."""

    def __init__(self, path: Path, values: Mapping[str, JsonValue]) -> None:
        self._path, self._values = path, values

    def wrong(self, key: str, expected: str) -> DataError:
        """Return the error of a key."""
        value = repr(self._values.get(key))[:80]
        return DataError(f"{self._path}: `{key}` is {value}; expected {expected}")

    def text(self, key: str) -> str:
        """Return a text that must be there."""
        value = self._values.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(key, "a text")
        return value.strip()

    def name(self, key: str) -> str:
        """Return a name for addresses."""
        value = self.text(key)
        if len(value) > 60 or not all(part.isalnum() for part in value.replace("_", "-").split("-")):
            raise self.wrong(key, "letters, digits and hyphens, at most 60")
        return value

    def texts(self, key: str, *, required: bool = True) -> tuple[str, ...]:
        """Return a list of texts; one text counts as a list of one."""
        value = self._values.get(key, () if not required else None)
        value = [value] if isinstance(value, str) else value
        if (
            not isinstance(value, list | tuple)
            or (required and not value)
            or not all(isinstance(x, str) for x in value)
        ):
            raise self.wrong(key, "a list of texts")
        return tuple(value)

    def count(self, key: str, default: int, *, least: int = 1) -> int:
        """Return a whole number."""
        value = self._values.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 10**6:
            raise self.wrong(key, f"a whole number from {least}")
        return value

    def raters(self) -> tuple[str, ...]:
        """Return the raters' names; a number makes as many."""
        value = self._values.get("raters")
        if isinstance(value, list):
            names = self.texts("raters")
            if len(set(names)) < len(names) or any(len(name) > 60 for name in names):
                raise self.wrong("raters", "different names of at most 60 characters")
            return names
        n = self.count("raters", 0)
        return tuple(f"rater {number:02d}" for number in range(1, n + 1))

    def quotas(self) -> Mapping[str, int] | None:
        """Return the comparisons of each category."""
        value = self._values.get("quotas")
        if value is None:
            return None
        if not isinstance(value, dict) or not value or not all(type(n) is int and n > 0 for n in value.values()):
            raise self.wrong("quotas", "a mapping of categories to numbers, such as {writing: 6}")
        return {str(name): n for name, n in value.items()}

    def questions(self, key: str) -> tuple[StudyQuestion, ...]:
        """Return questions with their choices."""
        questions = []
        for row in self._rows(key, {"id", "text", "choices"}):
            choices = row["choices"]
            if not isinstance(choices, list) or len(choices) < 2:
                raise self.wrong(key, "at least two choices for each question")
            if not all(isinstance(choice, str | int | float) and not isinstance(choice, bool) for choice in choices):
                raise self.wrong(key, "texts as choices; in quotes where YAML reads yes and no as something else")
            questions.append(StudyQuestion(id=str(row["id"]), text=str(row["text"]), choices=tuple(map(str, choices))))
            if not all(isinstance(text, str) and text.strip() for text in (row["id"], row["text"])):
                raise self.wrong(key, "an id and a text for each question, none of them empty")
            if len(set(map(str, choices))) < len(choices):
                raise self.wrong(key, f"different choices for '{row['id']}'")
        ids = [question["id"] for question in questions]
        if len(set(ids)) < len(ids) or RESERVED & set(ids):
            raise self.wrong(key, f"a different id for each question, other than {', '.join(sorted(RESERVED))}")
        return tuple(questions)

    def scales(self) -> tuple[Scale, ...]:
        """Return the scales; their ids are not those of questions, whose answers they stand beside."""
        scales = []
        for row in self._rows("scales", {"id", "text", "points", "low", "high"}):
            points = row["points"]
            if type(points) is not int or not 2 <= points <= MOST_POINTS:
                raise self.wrong("scales", f"points from 2 to {MOST_POINTS}")
            own = [row[name] for name in ("id", "text", "low", "high")]
            words = [text for text in own if isinstance(text, str) and text.strip()]
            if len(words) < len(own):
                raise self.wrong("scales", "texts as id, text, low and high; in quotes where YAML reads another value")
            scales.append(Scale(id=words[0], text=words[1], points=points, low=words[2], high=words[3]))
        taken = [question["id"] for question in self.questions("questions")]
        fields_of = [f"{scale['id']}_{side}" for scale in scales for side in "ab"]
        if len(set(fields_of)) < len(fields_of) or set(fields_of) & {*RESERVED, *taken}:
            names = ", ".join(sorted(RESERVED))
            raise self.wrong("scales", f"ids that differ from questions, and whose ID_a and ID_b are none of {names}")
        return tuple(scales)

    def groups(self) -> tuple[str, ...]:
        """Return the demographics by which results are counted."""
        names = self.texts("groups", required=False)
        known = [question["id"] for question in self.questions("demographics")]
        if not set(names) <= set(known) or len(set(names)) < len(names):
            raise self.wrong("groups", f"ids of `demographics` ({', '.join(known) or 'there are none'})")
        return names

    def group_quotas(self) -> Mapping[str, Mapping[str, int]] | None:
        """Return how many raters of each group take part."""
        value = self._values.get("group_quotas")
        if value is None:
            return None
        choices = {question["id"]: question["choices"] for question in self.questions("demographics")}
        expected = "a mapping of ids of `demographics` to {choice: number}"
        if not isinstance(value, dict) or not value:
            raise self.wrong("group_quotas", expected)
        for name, quota in value.items():
            if name not in choices or not isinstance(quota, dict) or not set(quota) <= set(choices[name]):
                raise self.wrong("group_quotas", expected)
            if not all(type(n) is int and n >= 0 for n in quota.values()):
                raise self.wrong("group_quotas", "whole numbers from 0")
            n_raters = len(self.raters())
            if set(quota) == set(choices[name]) and sum(quota.values()) < n_raters:
                n_places = f"places for the {n_raters} raters (here {sum(quota.values())})"
                raise self.wrong("group_quotas", f"{n_places}, or fewer `raters`")
        return {str(name): dict(quota) for name, quota in value.items()}

    def checks(self) -> tuple[AttentionCheck, ...]:
        """Return the attention checks."""
        rows = self._rows("checks", {"prompt", "right", "wrong"})
        return tuple(AttentionCheck(*(str(row[name]) for name in ("prompt", "right", "wrong"))) for row in rows)

    def _rows(self, key: str, names: set[str]) -> Sequence[Mapping[str, JsonValue]]:
        value = self._values.get(key) or []
        expected = f"a list of {{{', '.join(sorted(names))}}}"
        if not isinstance(value, list):
            raise self.wrong(key, expected)
        for number, row in enumerate(value, start=1):
            if not isinstance(row, dict):
                raise self.wrong(key, expected)
            strange = [f"lacks {name}" for name in sorted(names - set(row))]
            strange += [f"has the unknown key '{name!s:.40}'" for name in row if name not in names]
            if strange:
                raise DataError(f"{self._path}: `{key}`, number {number}, {' and '.join(strange)}; expected {expected}")
        return value
