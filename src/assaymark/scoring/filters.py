"""Filters extract the answer to compare from generated texts, in named steps, as task files list them.

A step gets all responses (repeats) of each sample and returns their replacements; `take_first` reduces the list to one
answer. The rules of every step are lm-eval's, because published scores depend on them: which match counts, what is
stripped, and which value means "nothing found".
"""

import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

from assaymark.errors import PlanError, UnknownName
from assaymark.limits.regexes import compiled, findall, sub
from assaymark.registry import nearest

Row = Mapping[str, object]
Text = TypeVar("Text")
INVALID = "[invalid]"


class Filter(Protocol):
    """One step: replaces the responses of every sample, in the same order."""

    def apply(self, resps: Any, docs: Any) -> Any:
        """Return one entry per sample. The argument names are lm-eval's, as in task files' own classes."""
        ...


class EachResponse(Generic[Text]):
    """A step that handles every response by itself, regardless of its row."""

    def one(self, text: Text) -> object:
        """Return the replacement of one response."""
        raise NotImplementedError

    def apply(self, resps: Iterable[Sequence[Text]], docs: Sequence[Row]) -> list[list[object]]:  # noqa: ARG002 - Filter
        """Return the replacement of every response."""
        return [[self.one(text) for text in texts] for texts in resps]


class EachSample:
    """A step that handles all responses of a sample together."""

    def pick(self, responses: Sequence[object]) -> object:
        """Return the replacement of one sample's responses."""
        raise NotImplementedError

    def apply(self, resps: Iterable[Sequence[object]], docs: Sequence[Row]) -> list[object]:  # noqa: ARG002 - Filter
        """Return the replacement of every sample's responses."""
        return [self.pick(responses) for responses in resps]


def _chosen(matches: Sequence[object], group_select: int, empty: str) -> str:
    """Return the selected match of re.findall; of several groups, the first that is not empty.

    Where `group_select` is beyond the matches, lm-eval stops with IndexError; here nothing was found.
    """
    if not -len(matches) <= group_select < len(matches):
        return empty
    match = matches[group_select]
    if isinstance(match, tuple):
        match = next((group for group in match if group), empty)
    return str(match).strip()


@dataclass(frozen=True)
class RegexFilter(EachResponse[object]):
    """Extract one match of a pattern; `group_select` counts matches, not groups (-1: the last)."""

    regex_pattern: str = r"#### (\-?[0-9\.\,]+)"
    group_select: int = 0
    fallback: str = INVALID

    def one(self, text: object) -> str:
        """Return the match or the fallback."""
        matches = findall(self.regex_pattern, text if isinstance(text, str) else "")
        return _chosen(matches, self.group_select, self.fallback) if matches else self.fallback


@dataclass(frozen=True)
class RegexPosFilter(EachResponse[str | Iterable[tuple[str, str]]]):
    """Extract the tags of `('token', 'TAG')` pairs."""

    regex_pattern: str = r"\['(.*?)'\]"  # accepted and unused, as in lm-eval
    group_select: int = 0
    fallback: tuple[str, ...] | list[str] | str | None = None

    def one(self, text: str | Iterable[tuple[str, str]]) -> object:
        """Return the tags in order."""
        pairs = re.findall(r"\('([^']*)', '([^']*)'\)", text) if isinstance(text, str) else text
        fallback = ["invalid"] if self.fallback is None else self.fallback
        return [tag for _, tag in pairs] or fallback


@dataclass(frozen=True)
class RemoveWhitespaceFilter(EachResponse[object]):
    """Strip both ends."""

    def one(self, text: object) -> object:
        """Return the response stripped."""
        return text.strip() if isinstance(text, str) else text


@dataclass(frozen=True)
class LowercaseFilter(EachResponse[object]):
    """Convert to lower case."""

    def one(self, text: object) -> object:
        """Return the response in lower case."""
        return text.lower() if isinstance(text, str) else text


@dataclass(frozen=True)
class UppercaseFilter(EachResponse[object]):
    """Convert to upper case."""

    def one(self, text: object) -> object:
        """Return the response in upper case."""
        return text.upper() if isinstance(text, str) else text


@dataclass(frozen=True)
class MapFilter(EachResponse[object]):
    """Replace each response by a table."""

    mapping_dict: Mapping[object, object] = field(default_factory=dict)
    default_value: object = None

    def one(self, text: object) -> object:
        """Return the table's value for the response, else the default."""
        return self.mapping_dict.get(text, self.default_value)


@dataclass(frozen=True)
class TakeFirstFilter(EachSample):
    """Keep the first response, not in a list."""

    def pick(self, responses: Sequence[object]) -> object:
        """Return the first response."""
        return responses[0]


@dataclass(frozen=True)
class TakeFirstKFilter(EachSample):
    """Keep the first k responses."""

    k: int

    def pick(self, responses: Sequence[object]) -> Sequence[object]:
        """Return k responses. Raises: PlanError if there are fewer."""
        if len(responses) < self.k:
            raise PlanError(f"take_first_k={self.k}: a sample has {len(responses)} responses; increase `repeats`")
        return responses[: self.k]


@dataclass(frozen=True)
class MajorityVoteFilter(EachSample):
    """Keep the most frequent response, in a list of one; of equally frequent ones the first."""

    def pick(self, responses: Sequence[object]) -> list[object]:
        """Return the winner, in a list."""
        return [Counter(responses).most_common(1)[0][0]]


@dataclass(frozen=True)
class CustomFilter:
    """A function of the task's own, called with all responses and all rows."""

    filter_fn: Callable[[object, object], object]

    def apply(self, resps: object, docs: Sequence[Row]) -> object:
        """Return the function's result."""
        return self.filter_fn(resps, docs)


@dataclass(frozen=True)
class MultiChoiceRegexFilter:
    """Find the letter of a choice, "(B)": by pattern, else by the choice's text, else by ": B".

    The choices are the row's column `choices`; the text search tries longer choices first.
    """

    regex_pattern: str = r"#### (\-?[0-9\.\,]+)"
    group_select: int = 0
    fallback: str = INVALID
    ignore_case: bool = False
    ignore_punctuation: bool = False
    regexes_to_ignore: Sequence[str] | None = None

    def apply(self, resps: Iterable[Sequence[object]], docs: Sequence[Mapping[str, Sequence[str]]]) -> list[list[str]]:
        """Return, for each response, the letter in brackets, or the fallback."""
        regex = compiled(self.regex_pattern)
        return [
            [self._letter(regex, text, doc["choices"]) for text in texts]
            for texts, doc in zip(resps, docs, strict=True)
        ]

    def _letter(self, regex: re.Pattern[str], text: object, choices: Sequence[str]) -> str:
        letters = [chr(ord("A") + index) for index in range(len(choices))]
        by_text = {self._simplified(c.strip()): f"({a})" for c, a in zip(choices, letters, strict=True)}
        # sorted by length of the escaped pattern, kept stable: equal lengths stay in the choices' order
        patterns = sorted((re.escape(self._simplified(c.strip())) for c in choices), key=len, reverse=True)
        answer = text if isinstance(text, str) else ""
        return (
            self._find(findall(regex, answer), {})
            or self._find(re.findall("|".join(patterns), self._simplified(answer)), by_text)
            or self._find(re.findall(rf":[\s]*({'|'.join(letters)})", answer), {a: f"({a})" for a in letters})
            or self.fallback
        )

    def _find(self, matches: Sequence[object], names: Mapping[str, str]) -> str:
        choice = _chosen(matches, self.group_select, "") if matches else ""
        return names.get(choice, choice) if choice else ""

    def _simplified(self, text: str) -> str:
        for pattern in self.regexes_to_ignore or ():
            text = sub(pattern, "", text)
        if self.ignore_case:
            text = text.lower()
        return text.translate(_punctuation()) if self.ignore_punctuation else text


@cache
def _punctuation() -> dict[int, None]:
    """Return a translation table that removes all Unicode punctuation."""
    return {code: None for code in range(sys.maxunicode) if unicodedata.category(chr(code)).startswith("P")}


@dataclass(frozen=True)
class ChoiceLetterFilter(EachResponse[object]):
    """Extract the letter that an answer names (`choice_letter`), as a capital."""

    letters: str = "ABCDEFGHIJ"
    fallback: str = INVALID

    def one(self, text: object) -> str:
        """Return the letter or the fallback."""
        from assaymark.scoring.choice_letters import extract_choice_letter  # lists of tasks need no patterns

        letter = extract_choice_letter(text if isinstance(text, str) else "", len(self.letters))
        return self.fallback if letter is None else self.letters[letter.index]


_WRAPPED = (  # $A$, **A** and (A) -> A
    (r"\$\s*([A-Za-z\d][A-Za-z\d ,]*?)\s*\$", r"\1"),
    (r"\*\*\s*([A-Za-z\d][A-Za-z\d ,]*?)\s*\*\*", r"\1"),
    (r"(?i)(^|[:,])(\s*)\(([A-Za-z\d])\)(?=\s*(?:,|\.|\n|\Z))", r"\1\2\3"),
)
_ANSWERED = (  # on a line of its own, else anywhere
    r"(?im)^ANSWER\s*:\s*([A-Za-z\d ,]+)\s*(?:$|\n|\.)",
    r"(?i)ANSWER\s*:\s*([A-Za-z\d ,]+)(?:[^\w]|\n|$|\.)",
)


@dataclass(frozen=True)
class InspectLettersFilter:
    """Extract the letters after the last "ANSWER:", in order, as "A, C"; an empty answer stays empty.

    `options` is the column of a row with the list of its options, or their columns: other letters are none.

    Source: inspect-ai 0.3.285, solver/_multiple_choice.py.
    """

    options: str | Sequence[str]
    multiple_correct: bool = False
    fallback: str = INVALID

    def apply(self, resps: Iterable[Sequence[object]], docs: Sequence[Row]) -> list[list[str]]:
        """Return, for each response, its letters or the fallback."""
        return [[self._letters(str(text), doc) for text in texts] for texts, doc in zip(resps, docs, strict=True)]

    def _letters(self, text: str, row: Row) -> str:
        own = row[self.options] if isinstance(self.options, str) else self.options
        n_options = len(own) if isinstance(own, Sequence) else 0
        known = [chr(ord("A") + at) if at < 26 else str(at - 25) for at in range(n_options)]
        for pattern, replacement in _WRAPPED:
            text = sub(pattern, replacement, text)
        matches = findall(_ANSWERED[0], text) or findall(_ANSWERED[1], text)
        if not matches:
            return self.fallback if text.strip() else ""
        said = str(matches[-1]).strip().rstrip(".").upper()
        if not self.multiple_correct:
            named = [each for each in said.split(",") if each]
            return named[0] if len(named) == 1 and named[0] in known else self.fallback
        said = said.replace(" AND ", ",").replace(" ", "")
        for parts in (set(filter(None, said.split(","))), set(said)):
            if parts <= set(known):
                return ", ".join(letter for letter in known if letter in parts) or self.fallback
        return self.fallback


_SPAN_LABELS = {
    "person": "PER",
    "location": "LOC",
    "organization": "ORG",
    "counties": "LOC",
    "places": "LOC",
    "people": "PER",
    "persons": "PER",
    "company": "ORG",
    "country": "LOC",
    "continent": "LOC",
    "time": "DATE",
    "date": "DATE",
    "per": "PER",
    "loc": "LOC",
    "org": "ORG",
}


@dataclass(frozen=True)
class FormatSpanFilter(EachResponse[str]):
    """Normalise named entities to `label: value $ label: value`."""

    def one(self, text: str) -> str:
        """Return the normalised response."""
        return self._entities(self._labels(text.lower()))

    def _labels(self, text: str) -> str:
        for name, label in _SPAN_LABELS.items():
            text = re.sub(rf"\b{re.escape(name)}\s*:", f"{label}:", text)
        return text.replace("$$", "$").rstrip("$")

    def _entities(self, text: str) -> str:
        labelled = re.findall(r"\b(PER|LOC|ORG|DATE):\s*([^$]+)", text.replace("\n", "$").strip())
        pairs = [(label, value.strip()) for label, values in labelled for value in values.split(",")]
        return " $ ".join(f"{label.lower()}: {value}" for label, value in pairs if value.lower() != "none")


FILTERS: Mapping[str, Callable[..., Filter]] = {
    "regex": RegexFilter,
    "regex_pos": RegexPosFilter,
    "remove_whitespace": RemoveWhitespaceFilter,
    "lowercase": LowercaseFilter,
    "uppercase": UppercaseFilter,
    "map": MapFilter,
    "take_first": TakeFirstFilter,
    "take_first_k": TakeFirstKFilter,
    "majority_vote": MajorityVoteFilter,
    "multi_choice_regex": MultiChoiceRegexFilter,
    "choice_letter": ChoiceLetterFilter,
    "inspect_letters": InspectLettersFilter,
    "format_span": FormatSpanFilter,
    "custom": CustomFilter,
}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named list of steps; each pipeline of a task has its own scores."""

    name: str
    steps: tuple[Filter, ...]

    def apply(self, responses: Sequence[Sequence[object]], rows: Sequence[Row]) -> list[object]:
        """Return each sample's filtered answer. Raises: PlanError if a step changes the number of samples."""
        current: list[object] = [list(texts) for texts in responses]
        for step in self.steps:
            current = list(step.apply(current, rows))
        if len(current) != len(responses):
            raise PlanError(f"filter '{self.name}' returned {len(current)} answers for {len(responses)} samples")
        return current

    def apply_one(self, responses: Sequence[object], row: Row) -> object:
        """Return one sample's filtered answer."""
        return self.apply([responses], [row])[0]

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """The values of steps that found nothing: an answer equal to one of these is unparsed."""
        values = (getattr(step, "fallback", None) for step in self.steps)
        return tuple(dict.fromkeys([INVALID, *(text for text in values if isinstance(text, str))]))


def build_filter(function: object, options: Mapping[str, object] | None = None) -> Filter:
    """Return one step, given by name or as a class or function of a task file.

    Raises: UnknownName; PlanError for options the step does not accept.
    """
    make = FILTERS.get(function) if isinstance(function, str) else function
    if not callable(make):
        raise UnknownName("filter", str(function), nearest(str(function), FILTERS))
    if not isinstance(function, (str, type)):
        return CustomFilter(make)
    try:
        step: Filter = make(**(options or {}))
    except TypeError as error:
        raise PlanError(f"filter '{function}' with options {dict(options or {})}: {error}") from error
    return step


def build_pipeline(name: str, steps: Iterable[Mapping[str, object]]) -> Pipeline:
    """Return the pipeline of a task file's `filter` entry: steps with `function` and further keys as options."""
    built = []
    for step in steps:
        options = {key: value for key, value in step.items() if key != "function"}
        built.append(build_filter(step["function"], options))
    return Pipeline(name, tuple(built))
