"""Scorers without a judge: comparisons of the answer with the row's reference, and the call's time, cost and tokens.

In comparisons of texts, a mapping with one entry counts as its value, since data sets and targets of several tools wrap
a plain text in one (`{"answer": "Paris"}`). An answer of the wrong type (no number where one is expected) is a wrong
answer with a comment; a row of the wrong type is an error, which counts as a failed score.
"""

import asyncio
import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from assaymark.applications.binding import source_hash
from assaymark.applications.functions import load_named
from assaymark.applications.returned import answer_of
from assaymark.applications.scorer import Answered, Result, ScorerFacts
from assaymark.applications.scorers.similarity import (
    cosine,
    json_similarity,
    list_similarity,
    number_similarity,
    text_similarity,
)
from assaymark.errors import DataError, MissingExtra, UsageError
from assaymark.limits.nesting import json_kind, parse_json
from assaymark.limits.regexes import compiled, findall
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import JsonValue, content_hash
from assaymark.scoring.typography import canonical, equal_by, folded, near_miss, number_of

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

VERSION = 3  # raise it when the same answers would get another score


def text_of(value: JsonValue) -> str:
    """Return a value's text for comparison: of a mapping's answer or only value, else compact JSON; of null none."""
    value = _inner(value)
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _inner(value: JsonValue) -> JsonValue:
    """Return a mapping's answer, or its value where it has one entry; any other value as it is."""
    inner = answer_of(value)
    return next(iter(value.values())) if inner is value and isinstance(value, Mapping) and len(value) == 1 else inner


@dataclass(frozen=True)
class RegisteredScorer:
    """Base of our own scorers, whose facts follow from the class. name: of its scores; default: that of the class."""

    FACTS: ClassVar[ScorerFacts]
    ARGUMENT: ClassVar[str | None] = None  # the setting that the text after `NAME:` sets

    name: str | None = field(default=None, kw_only=True)

    @property
    def facts(self) -> ScorerFacts:
        """The facts about its values."""
        return replace(self.FACTS, name=self.name or self.FACTS.name, needs=self._needs())

    def _needs(self) -> frozenset[str]:
        return self.FACTS.needs

    def _result(self, value: float | bool | None, comment: str | None = None, **metadata: JsonValue) -> Result:
        name = self.name or self.FACTS.name
        return Result(name, None if value is None else float(value), comment=comment, metadata=metadata)


@dataclass(frozen=True)
class PlainScorer(RegisteredScorer):
    """Base of the scorers of this module, whose hash follows from the settings."""

    IN_THREAD: ClassVar[bool] = False  # whether a long answer may take long, so that the event loop must not wait

    @property
    def content_hash(self) -> str:
        """A hash of the scorer and its settings."""
        return content_hash({"scorer": self.FACTS.name, "version": VERSION, "settings": self._settings()})

    def _settings(self) -> dict[str, JsonValue]:
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "name"}

    def score_now(self, answered: Answered) -> Sequence[Result] | None:
        """Return the result of `score` without an event loop; None for a scorer that may take long, or awaits.

        Passing 10,000 short comparisons to a loop takes longer than the comparisons themselves.
        """
        if self.IN_THREAD or type(self).score is not PlainScorer.score:
            return None
        if "expected" in self._needs() and answered.row.expected is None:
            return [self._result(None, "the row has no expected value")]
        return [self._score(answered)]

    async def score(self, answered: Answered) -> Sequence[Result]:
        """Return the one result."""
        if "expected" in self._needs() and answered.row.expected is None:
            return [self._result(None, "the row has no expected value")]
        return [await asyncio.to_thread(self._score, answered) if self.IN_THREAD else self._score(answered)]

    def _score(self, answered: Answered) -> Result:
        raise NotImplementedError

    def _unread(self, wanted: str, output: JsonValue) -> Result:
        """Return 0 for an answer that the scorer cannot read; such answers are counted below the table."""
        comment = f"the answer is not {wanted}: {text_of(output)[:80]!r}"
        return self._result(0.0, comment, near_miss=f"not {wanted}")


# ---------------------------------------------------------------------------------------- texts


@dataclass(frozen=True)
class Exact(PlainScorer):
    """Whether the answer is the expected one. A number, boolean, list or mapping equals a text that is the same value.

    ignore_case, strip: compare texts without regard to case, or to white space at both ends. ignore_typography: ignore
    differences without meaning, as for own questions, and compare numbers as numbers.
    """

    FACTS = ScorerFacts("exact", "1 if the answer equals the expected value, else 0", scale="right or wrong",
                        needs=frozenset({"expected"}))  # fmt: skip
    ignore_case: bool = False
    strip: bool = False
    ignore_typography: bool = False

    def _score(self, answered: Answered) -> Result:
        output, expected = answered.output, answered.row.expected
        if not (isinstance(output, Mapping) and isinstance(expected, Mapping)):
            output, expected = _inner(output), _inner(expected)
        if self.ignore_typography and isinstance(output, str) and isinstance(expected, str):
            by = equal_by(output, expected, ignore_case=self.ignore_case)
            return self._equal_but_for(by, f"equal but for {by}")
        if self._normal(output) == self._normal(expected):
            return self._result(value=True)
        if isinstance(output, str) and isinstance(expected, str):
            unlike = "empty" if not output.strip() else "page" if _PAGE.match(output) else None
            miss = unlike or equal_by(output, expected) or near_miss(output, expected)
            return replace(self._result(value=False), metadata={"near_miss": miss} if miss else {})
        if json_kind(output) == json_kind(expected):
            is_near = (
                isinstance(output, float | int) and isinstance(expected, float | int) and _are_close(output, expected)
            )
            return replace(self._result(value=False), metadata={"near_miss": "rounding"} if is_near else {})
        text, value = (output, expected) if isinstance(output, str) else (expected, output)
        if isinstance(text, str) and self._normal(_value_like(value, text)) == self._normal(value):
            return self._equal_but_for("kind", f"{text!r:.80} is the {json_kind(value)}")
        kinds = f"the answer is a {json_kind(output)}, the expected value a {json_kind(expected)}"
        kinds = kinds.replace("a array", "an array").replace("a object", "an object").replace("a null", "null")
        return replace(self._result(False, kinds), metadata={"near_miss": f"of another kind: {kinds}"})

    def _equal_but_for(self, by: str | None, comment: str) -> Result:
        """Return the result for values that are equal apart from an ignored difference, which the comment names."""
        if by in (None, "text"):
            return self._result(by is not None)
        return replace(self._result(value=True, comment=comment), metadata={"equal_by": by})

    def _normal(self, value: JsonValue) -> JsonValue:
        if isinstance(value, bool):
            return ["bool", value]  # Python's True equals 1, JSON's does not
        if isinstance(value, str):
            value = value.strip() if self.strip else value
            return folded(value) if self.ignore_case else canonical(value)
        if isinstance(value, Mapping):
            return {key: self._normal(inner) for key, inner in value.items()}
        return [self._normal(inner) for inner in value] if isinstance(value, list | tuple) else value


def _are_close(first: float, second: float) -> bool:
    try:
        return math.isclose(first, second, rel_tol=1e-9)
    except OverflowError:
        return False


_PAGE = re.compile(r"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_WORDS: Mapping[str, JsonValue] = {"true": True, "false": False, "null": None, "none": None}


def _value_like(value: JsonValue, text: str) -> JsonValue:
    """Return a text as a value of another value's type; the text itself if it is none."""
    if isinstance(value, bool | None):
        return _WORDS.get(text.strip().casefold(), text)
    if isinstance(value, int | float):
        number = number_of(text)
        if number is None:
            return text
        return int(number) if number == number.to_integral_value() and abs(number) < 10**400 else float(number)
    try:
        return json_in(text)
    except ValueError:
        return text


def json_in(text: str) -> JsonValue:
    """Return the value of a JSON text, which may stand in a fence of Markdown. Raises: ValueError for other texts."""
    fenced = _FENCE.fullmatch(text)
    return parse_json(fenced["text"] if fenced else text)


_FENCE = re.compile(r"\s*(?P<fence>```+|~~~+)[ \t]*\w*[ \t]*\n(?P<text>.*?)\n?\s*(?P=fence)\s*", re.DOTALL)


@dataclass(frozen=True)
class Contains(PlainScorer):
    """Whether the answer contains a text.

    text: the text; default: the row's expected value. All texts of a list must occur.
    """

    FACTS = ScorerFacts("contains", "1 if the answer contains the expected text (each one of a list), else 0",
                        scale="right or wrong", needs=frozenset({"expected"}))  # fmt: skip
    ARGUMENT = "text"
    text: str | None = None
    ignore_case: bool = False

    def _needs(self) -> frozenset[str]:
        return frozenset() if self.text is not None else self.FACTS.needs

    def _score(self, answered: Answered) -> Result:
        wanted = self.text if self.text is not None else _inner(answered.row.expected)
        texts = [text_of(each) for each in wanted] if isinstance(wanted, list | tuple) else [text_of(wanted)]
        output = text_of(answered.output)
        form = folded if self.ignore_case else canonical
        output, texts = form(output), [form(each) for each in texts]
        missing = [each for each in texts if each not in output]
        return self._result(not missing, f"without: {', '.join(missing)}"[:500] if missing and len(texts) > 1 else None)


@dataclass(frozen=True)
class Regex(PlainScorer):
    """Whether a regular expression is found in the answer.

    pattern: of Python's `re`; default: the row's expected value. whole: it must match the whole answer.
    """

    FACTS = ScorerFacts("regex", "1 if the pattern is found in the answer, else 0", scale="right or wrong",
                        needs=frozenset({"expected"}))  # fmt: skip
    ARGUMENT = "pattern"
    IN_THREAD = True
    pattern: str | None = None
    ignore_case: bool = False
    whole: bool = False

    def __post_init__(self) -> None:
        """Refuse a pattern that does not compile, before anything is called."""
        if self.pattern is not None:
            try:
                compiled(self.pattern)
            except DataError as error:
                raise UsageError(f"scorer regex: {error}") from None

    def _needs(self) -> frozenset[str]:
        return frozenset() if self.pattern is not None else self.FACTS.needs

    def _score(self, answered: Answered) -> Result:
        pattern = self.pattern if self.pattern is not None else text_of(answered.row.expected)
        pattern = rf"\A(?:{pattern})\Z" if self.whole else pattern
        flags = re.IGNORECASE if self.ignore_case else 0
        return self._result(bool(findall(compiled(canonical(pattern), flags), canonical(text_of(answered.output)))))


@dataclass(frozen=True)
class Levenshtein(PlainScorer):
    """Similarity of two texts by the characters that differ (autoevals)."""

    FACTS = ScorerFacts("levenshtein", "1 - edit distance to the expected text / length of the longer text",
                        needs=frozenset({"expected"}))  # fmt: skip
    IN_THREAD = True

    def _score(self, answered: Answered) -> Result:
        return self._result(text_similarity(text_of(answered.output), text_of(answered.row.expected)))


# ---------------------------------------------------------------------------------------- values


@dataclass(frozen=True)
class Number(PlainScorer):
    """Similarity of two numbers relative to their size (autoevals). An answer that is not a number has 0."""

    FACTS = ScorerFacts("number", "1 - |a - b| / (|a| + |b|) for answer a and expected number b; 1 if both are 0",
                        needs=frozenset({"expected"}))  # fmt: skip

    def _score(self, answered: Answered) -> Result:
        expected, output = _number(answered.row.expected), _number(answered.output)
        if expected is None:
            raise DataError(f"row {answered.row.id}: the expected value {answered.row.expected!r:.80} is not a number")
        if output is None:
            return self._unread("a number", answered.output)
        return self._result(number_similarity(output, expected))


_LEADING_ZEROS = re.compile(r"\A([+-]?)0+(?=\d)")


def _number(stated: JsonValue) -> float | None:
    inner = _inner(stated)
    value = number_of(_LEADING_ZEROS.sub(r"\1", inner.strip())) if isinstance(inner, str) else inner
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


@dataclass(frozen=True)
class JsonDiff(PlainScorer):
    """Similarity of two JSON values, at any depth (autoevals)."""

    FACTS = ScorerFacts(
        "json",
        "mean over the union of keys (lists: over positions of the longer) of the similarity of the values: texts by "
        "levenshtein, numbers by number",
        needs=frozenset({"expected"}),
    )
    IN_THREAD = True

    def _score(self, answered: Answered) -> Result:
        output = answered.output
        if isinstance(output, str) and (fenced := _FENCE.fullmatch(output)):
            output = fenced["text"]
        return self._result(
            json_similarity(output, answered.row.expected),
            None if output is answered.output else "the answer is in a fence, which is not compared",
        )


@dataclass(frozen=True)
class ListMatch(PlainScorer):
    """Similarity of two lists of texts in any order (autoevals).

    allow_extra: further items of the answer cost nothing. An answer that is not a list has 0.
    """

    FACTS = ScorerFacts(
        "list",
        "similarities (levenshtein) of the best pairing of the answer's items with the expected ones / length of the "
        "longer list",
        needs=frozenset({"expected"}),
    )
    IN_THREAD = True
    allow_extra: bool = False

    def _score(self, answered: Answered) -> Result:
        expected, output = _list(answered.row.expected), _list(answered.output)
        if expected is None:
            raise DataError(f"row {answered.row.id}: the expected value {answered.row.expected!r:.80} is not a list")
        if output is None:
            return self._unread("a list", answered.output)
        return self._result(list_similarity(output, expected, allow_extra=self.allow_extra))


def _list(value: JsonValue) -> list[str] | None:
    value = _inner(value)
    if isinstance(value, str):
        try:
            value = json_in(value)
        except ValueError:
            return None
    return [text_of(each) for each in value] if isinstance(value, list | tuple) else None


@dataclass(frozen=True)
class JsonSchema(PlainScorer):
    """Whether the answer is JSON, and valid under a schema if one is given.

    schema: a JSON Schema, or the path of a file with one. References to other documents are not followed.
    """

    FACTS = ScorerFacts(
        "json_schema",
        "1 if the answer is JSON (without a schema: an object or a list; else valid under the schema), else 0",
        scale="right or wrong",
        packages=("jsonschema",),
    )
    ARGUMENT = "schema"
    IN_THREAD = True
    schema: JsonValue = None

    def __post_init__(self) -> None:
        """Read the schema and check it, before anything is called."""
        schema = self.schema
        if isinstance(schema, str):
            path = Path(schema).expanduser()
            if not path.is_file():
                raise UsageError(f"scorer json_schema: there is no file {path}; expected json_schema:FILE")
            try:
                schema = load_yaml(path.read_bytes())  # JSON is YAML
            except DataError as error:
                raise UsageError(f"scorer json_schema: {path}: {error}") from None
            object.__setattr__(self, "schema", schema)
        object.__setattr__(self, "_validator", None if schema is None else validator_of(schema, "scorer json_schema"))

    def _score(self, answered: Answered) -> Result:
        value = answered.output
        if isinstance(value, str):
            try:
                value = json_in(value)
            except ValueError as error:
                return self._result(0.0, f"not JSON: {error}")
        validator = self.__dict__["_validator"]
        if validator is None:
            return self._result(isinstance(value, Mapping | list | tuple))
        first = next(iter(validator.iter_errors(value)), None)
        return self._result(first is None, None if first is None else f"{first.json_path}: {first.message}"[:500])


def validator_of(schema: object, whose: str, *, checks_formats: bool = False) -> "Validator":
    """Return the validator of a JSON Schema; `whose` begins the messages.

    References to other documents are not followed.

    Raises: UsageError for an invalid schema; MissingExtra.
    """
    try:
        import jsonschema
        import referencing
    except ImportError:
        raise MissingExtra(f"{whose} with a schema", "scorers") from None
    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise UsageError(f"{whose}: the schema is not valid: {error.message:.300}") from None
    formats = kind.FORMAT_CHECKER if checks_formats else None
    validator: Validator = kind(schema, registry=referencing.Registry(), format_checker=formats)
    return validator


def embedding_function(given: Callable[[str], object] | str | None, scorer: str) -> Callable[[str], object]:
    """Return the function of a text that a scorer embeds by; a text is its place. Raises: UsageError."""
    function = load_named(given, scorer)[0] if isinstance(given, str) else given
    if not callable(function):
        raise UsageError(f"scorer {scorer} needs a function of a text that returns a vector: {scorer}:FILE.py:NAME")
    return function


def vector_of(returned: Any) -> list[float]:
    """Return what such a function returned, an array or a list, as floats."""
    return [float(each) for each in (returned.tolist() if hasattr(returned, "tolist") else returned)]


@dataclass(frozen=True)
class Embedding(PlainScorer):
    """Similarity of two texts by the cosine of their embeddings (autoevals).

    function: text -> vector, synchronous or not, or its place as FILE.py:NAME. least: the cosine that counts as 0.
    """

    FACTS = ScorerFacts(
        "embedding",
        "max(0, (c - m) / (1 - m)) for the cosine c of the embeddings of answer and expected text, m = 0.7",
        needs=frozenset({"expected"}),
    )
    ARGUMENT = "function"
    function: Callable[[str], object] | str | None = None
    least: float = 0.7

    def __post_init__(self) -> None:
        """Find the function, before anything is called."""
        object.__setattr__(self, "function", embedding_function(self.function, "embedding"))
        if not isinstance(self.least, int | float) or not self.least < 1:
            raise UsageError(f"scorer embedding: least is {self.least!r}; expected a number below 1")

    def _settings(self) -> dict[str, JsonValue]:
        return {"function": source_hash(self.function), "least": self.least}

    async def score(self, answered: Answered) -> Sequence[Result]:
        """Embed both texts."""
        if answered.row.expected is None:
            return [self._result(None, "the row has no expected value")]
        first, second = [await self._embed(text_of(each)) for each in (answered.output, answered.row.expected)]
        return [self._result(max(0.0, (cosine(first, second) - self.least) / (1.0 - self.least)))]

    async def _embed(self, text: str) -> list[float]:
        function = embedding_function(self.function, "embedding")
        returned = function(text) if inspect.iscoroutinefunction(function) else await asyncio.to_thread(function, text)
        if inspect.isawaitable(returned):
            returned = await returned
        return vector_of(returned)


# ---------------------------------------------------------------------------------------- what a call took


@dataclass(frozen=True)
class _Measured(PlainScorer):
    """Reports a fact about the call."""

    OF_CALL: ClassVar[str]  # its attribute

    def _score(self, answered: Answered) -> Result:
        value = getattr(answered, self.OF_CALL)
        return self._result(value, None if value is not None else f"the target did not state its {self.FACTS.name}")


@dataclass(frozen=True)
class Latency(_Measured):
    """Seconds of the call."""

    FACTS = ScorerFacts("latency", "seconds from the call of the target to its return", higher_is_better=False,
                        scale="number", needs=frozenset({"latency"}))  # fmt: skip
    OF_CALL = "latency_s"


@dataclass(frozen=True)
class Cost(_Measured):
    """Cost of the call."""

    FACTS = ScorerFacts("cost", "cost of the call, as the target states it or by its tokens and prices",
                        higher_is_better=False, scale="number", needs=frozenset({"cost"}))  # fmt: skip
    OF_CALL = "cost"


@dataclass(frozen=True)
class Tokens(_Measured):
    """Tokens of the call."""

    FACTS = ScorerFacts("tokens", "tokens that the target reports for the call", higher_is_better=False, scale="number",
                        needs=frozenset({"tokens"}))  # fmt: skip
    OF_CALL = "n_tokens"
