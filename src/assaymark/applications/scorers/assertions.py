"""promptfoo's assertions as a scorer: each row's own checks of its answer, weighted as promptfoo weights them.

A row's assertions stand in its `assert` (a list), or in a table's `__expected`, `__expected1` and so on. Those that are
code of another language, or ask a model, are refused by name before the first call.

Source: promptfoo's documentation of assertions (deterministic ones) and of its CSV columns.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered, Result, ScorerFacts
from assaymark.applications.scorers.plain import PlainScorer, text_of
from assaymark.applications.scorers.similarity import levenshtein
from assaymark.errors import DataError, UsageError
from assaymark.limits.nesting import parse_json
from assaymark.limits.regexes import compiled, findall
from assaymark.records import JsonValue

__all__ = ["Assertion", "Assertions", "assertions_of"]

MOST_ASSERTIONS = 200  # of one row
_OF_CODE = ("javascript", "python", "ruby", "webhook", "is-sql", "contains-sql", "is-xml", "contains-xml", "is-html")
_TEXTS = ("equals", "contains", "icontains", "starts-with", "regex")
_LISTS = ("contains-all", "contains-any", "icontains-all", "icontains-any")
_OTHERS = ("is-json", "contains-json", "levenshtein", "latency", "cost")
KINDS = (*_TEXTS, *_LISTS, *_OTHERS)
_VARIABLE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_CELL = re.compile(r"(?P<kind>(?:not-)?[a-z]+(?:-[a-z]+)*)(?:\((?P<threshold>[\d.]+)\))?:(?P<value>.*)", re.DOTALL)
_BARE = ("is-json", "contains-json")  # need no value


@dataclass(frozen=True, slots=True)
class Assertion:
    """One check of an answer. is_not: it must not hold; threshold: of levenshtein, latency in ms, and cost."""

    kind: str
    value: JsonValue = None
    is_not: bool = False
    threshold: float | None = None
    weight: float = 1.0
    metric: str = ""

    @property
    def name(self) -> str:
        """How it is shown."""
        return f"{'not-' if self.is_not else ''}{self.kind}"


def assertions_of(row: Row) -> list[Assertion] | None:
    """Return a row's assertions; None where it has none.

    Raises: UsageError naming the row, for one that cannot be checked here, or is none.
    """
    stated = row.metadata.get("assert")
    if stated in (None, "", []):
        return None
    listed = stated if isinstance(stated, list) else [stated]
    if len(listed) > MOST_ASSERTIONS:
        raise UsageError(f"row {row.id} has {len(listed):,} assertions; expected at most {MOST_ASSERTIONS}")
    variables = row.inputs if isinstance(row.inputs, Mapping) else {"input": row.inputs}
    assertions: list[Assertion] = []
    for each in listed:
        try:
            assertions += _read(each, variables)
        except ValueError as error:
            raise UsageError(f"row {row.id}: {error}") from None
    return assertions


def _read(entry: object, variables: Mapping[str, JsonValue]) -> list[Assertion]:
    """Return the assertions in one entry: a mapping, a cell of a table, or a set of them. Raises: ValueError."""
    if isinstance(entry, str):
        match = _CELL.fullmatch(entry.strip())
        if match is None and entry.strip().removeprefix("not-") in _BARE:
            entry = {"type": entry.strip()}
        elif match is None:
            entry = {"type": "equals", "value": entry}
        else:
            threshold = match["threshold"]
            entry = {"type": match["kind"], "value": match["value"].strip(),
                     **({} if threshold is None else {"threshold": float(threshold)})}  # fmt: skip
            if match["kind"].removeprefix("not-") in _LISTS:
                entry["value"] = [part.strip() for part in str(entry["value"]).split(",")]
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        raise ValueError(  # noqa: TRY004 - the row is wrong
            f"its assertion is {entry!r:.60}; expected a mapping with a type"
        )
    kind = entry["type"]
    if kind == "assert-set":
        inner = entry.get("assert")
        if not isinstance(inner, list) or any(isinstance(each, Mapping) and "assert" in each for each in inner):
            raise ValueError("its assert-set has no list of assertions")
        return [assertion for each in inner for assertion in _read(each, variables)]
    is_not, plain = kind.startswith("not-"), kind.removeprefix("not-")
    if plain not in KINDS:
        why = "is code of another tool" if plain in _OF_CODE else "asks a model, or is not known here"
        raise ValueError(f"the assertion '{kind:.40}' {why}; expected {', '.join(KINDS)}, or write it as a scorer: "
                         "FILE.py:NAME")  # fmt: skip
    value = _filled(entry.get("value"), variables)
    threshold, weight = _positive(entry, "threshold"), _positive(entry, "weight")
    if plain in _LISTS and isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if plain in _LISTS and not (isinstance(value, list) and value):
        raise ValueError(f"the assertion '{kind}' has the value {value!r:.60}; expected a list of texts")
    if plain in (*_TEXTS, "levenshtein") and value is None:
        raise ValueError(f"the assertion '{kind}' has no value")
    if plain in ("latency", "cost") and threshold is None:
        raise ValueError(f"the assertion '{kind}' has no threshold")
    if plain == "is-json" and value is not None:
        raise ValueError("the assertion 'is-json' has a schema; expected it as the scorer json_schema:FILE")
    if plain == "regex":
        try:
            compiled(str(value))
        except DataError as error:
            raise ValueError(f"the assertion 'regex': {error}") from None
    metric = entry.get("metric")
    return [Assertion(plain, value, is_not, threshold, 1.0 if weight is None else weight,
                      metric if isinstance(metric, str) else "")]  # fmt: skip


def _positive(entry: Mapping[str, object], name: str) -> float | None:
    value = entry.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"the assertion '{entry['type']}' has the {name} {value!r:.40}; expected a number from 0")
    return float(value)


def _filled(value: JsonValue, variables: Mapping[str, JsonValue]) -> JsonValue:
    """Return a value with its `{{name}}` filled in from the row's inputs. Raises: ValueError for other templates."""
    if isinstance(value, list):
        return [_filled(each, variables) for each in value]
    if not isinstance(value, str):
        return value
    if value.startswith("file://"):
        raise ValueError(f"the value of an assertion is in a file, {value:.80}; expected its content")
    filled = _VARIABLE.sub(lambda match: text_of(variables[match[1]]) if match[1] in variables else match[0], value)
    if "{%" in filled or _VARIABLE.search(filled):
        raise ValueError(f"the value of an assertion is the template {value!r:.60}; expected inputs as {{{{name}}}}")
    return filled


@dataclass(frozen=True)
class Assertions(PlainScorer):
    """The share of a row's own assertions that hold, by their weights (promptfoo)."""

    FACTS = ScorerFacts(
        "assertions",
        "weights of the row's assertions that hold / weights of all; without a known latency or cost: not scored",
        needs=frozenset({"assertions"}),
    )
    IN_THREAD = True

    def _score(self, answered: Answered) -> Result:
        assertions = assertions_of(answered.row)
        if not assertions:
            raise DataError(f"row {answered.row.id}: it has no assertions")
        weights = sum(each.weight for each in assertions)
        held = [_holds(each, answered) for each in assertions]
        if any(each is None for each in held):
            return self._result(None, "the target did not state what an assertion is about")
        broken = [_assertion_text(each) for each, holds in zip(assertions, held, strict=True) if not holds]
        share = sum(each.weight for each, holds in zip(assertions, held, strict=True) if holds)
        value = share / weights if weights else float(not broken)
        return self._result(value, f"does not hold: {'; '.join(broken)}"[:2000] if broken else None)


def _assertion_text(assertion: Assertion) -> str:
    value = "" if assertion.value is None else f" {text_of(assertion.value):.100}"
    return (
        f"{assertion.name}{value}"
        if assertion.threshold is None
        else f"{assertion.name}{value} ({assertion.threshold:g})"
    )


def _holds(assertion: Assertion, answered: Answered) -> bool | None:
    """Return whether an assertion holds; None where what it is about is not known."""
    if assertion.kind in ("latency", "cost"):
        known = answered.cost if assertion.kind == "cost" else answered.latency_s
        if known is None or assertion.threshold is None:
            return None
        return (known * (1 if assertion.kind == "cost" else 1000) <= assertion.threshold) != assertion.is_not
    return _is_so(assertion, text_of(answered.output)) != assertion.is_not


def _is_so(assertion: Assertion, output: str) -> bool:
    kind, value = assertion.kind, assertion.value
    if kind in ("is-json", "contains-json"):
        return _is_json(output) if kind == "is-json" else _contains_json(output)
    if kind == "levenshtein":
        return levenshtein(output, text_of(value)) <= (5 if assertion.threshold is None else assertion.threshold)
    if kind == "regex":
        return bool(findall(compiled(str(value)), output))
    if kind == "equals":
        return _equals(output, value)
    if kind == "starts-with":
        return output.startswith(text_of(value))
    if kind.startswith("i"):
        output, kind = output.lower(), kind[1:]
        value = [text_of(each).lower() for each in value] if isinstance(value, list) else text_of(value).lower()
    texts: Sequence[str] = [text_of(each) for each in value] if isinstance(value, list) else [text_of(value)]
    contained = [text in output for text in texts]
    return any(contained) if kind == "contains-any" else all(contained)


def _equals(output: str, value: JsonValue) -> bool:
    """Return whether an output is a value: a text exactly, anything else as JSON."""
    if isinstance(value, str):
        return output == value
    try:
        parsed: JsonValue = parse_json(output)
    except (ValueError, RecursionError):
        return False
    return bool(parsed == value)


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except (ValueError, RecursionError):
        return False
    return True


def _contains_json(text: str) -> bool:
    """Return whether an object or a list stands in a text, tried from each of its first brackets."""
    starts = [match.start() for match in re.finditer(r"[\[{]", text)][:100]
    ends = [match.end() for match in re.finditer(r"[\]}]", text)][-100:]
    return any(end > start and _is_json(text[start:end]) for start in starts[:20] for end in reversed(ends[-20:]))
