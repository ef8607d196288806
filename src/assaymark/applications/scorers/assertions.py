"""promptfoo's assertions as a scorer: each row's own checks of its answer, weighted as promptfoo weights them.

A row's assertions are in its `assert` (a list), or in a table's `__expected`, `__expected1` and so on. A set of
assertions counts as one, with the weighted mean of its members; thresholds of a set or of a test decide in promptfoo
whether it passes, not its score. Unsupported types and keys, such as code of another language or calls of a model, are
refused by name before the first call.

Source: promptfoo's documentation of assertions (deterministic ones) and of its CSV columns; of its code
    assertionsResult.ts (weights), equals.ts, json.ts, wordCount.ts.
"""

import csv
import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered, Result, ScorerFacts
from assaymark.applications.scorers.plain import PlainScorer, text_of, validator_of
from assaymark.applications.scorers.similarity import levenshtein
from assaymark.applications.scorers.transforms import NoValue, Transform, js_text, transform_of
from assaymark.errors import DataError, UsageError
from assaymark.limits.nesting import is_deeper
from assaymark.limits.regexes import compiled, findall
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import JsonValue
from assaymark.registry import nearest

MOST_ASSERTIONS = 200  # of one row
_TEXTS = ("equals", "contains", "icontains", "starts-with", "regex")
_LISTS = ("contains-all", "contains-any", "icontains-all", "icontains-any")
_JSON = ("is-json", "contains-json")  # need no value; a value is a schema
KINDS = (*_TEXTS, *_LISTS, *_JSON, "levenshtein", "word-count", "latency", "cost")
_SET = "assert-set"
_REFUSED: Mapping[str, tuple[str, ...]] = {  # why, and the types of promptfoo's documentation
    "is code of another tool; write it as a scorer, FILE.py:NAME": (
        "javascript", "python", "ruby", "webhook", "fn", "eval",
    ),
    "asks a model; there are judged scorers": (
        "llm-rubric", "grade", "g-eval", "model-graded-closedqa", "model-graded-factuality", "factuality", "similar",
        "similar:cosine", "similar:dot", "similar:euclidean", "classifier", "moderation", "pi", "select-best",
        "max-score", "human", "answer-relevance", "context-faithfulness", "context-recall", "context-relevance",
        "agent-rubric", "conversation-relevance", "search-rubric", "guardrails", "trajectory:goal-success",
    ),
    "is not checked here; write it as a scorer, FILE.py:NAME": (
        "is-html", "contains-html", "is-xml", "contains-xml", "is-sql", "contains-sql", "is-refusal", "rouge-n", "bleu",
        "gleu", "meteor", "perplexity", "perplexity-score", "finish-reason", "is-valid-function-call",
        "is-valid-openai-function-call", "is-valid-openai-tools-call", "tool-call-f1", "skill-used", "trace-span-count",
        "trace-span-duration", "trace-error-spans", "trajectory:tool-used", "trajectory:tool-args-match",
        "trajectory:tool-sequence", "trajectory:step-count",
    ),
}  # fmt: skip
_KEYS = ("type", "value", "threshold", "weight", "metric", "transform", "normalizeUnicode")
Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
_FORMS: tuple[Form, ...] = get_args(Form)
_VARIABLE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_CELL = re.compile(r"(?P<kind>[a-z]+(?:[-:][a-z0-9]+)*)(?:\((?P<threshold>[\d.]+)\))?:(?P<value>.*)", re.DOTALL)
_KNOWN = frozenset({*KINDS, *(kind for kinds in _REFUSED.values() for kind in kinds)})


@dataclass(frozen=True, slots=True)
class Assertion:
    """One check of an answer, or a set of them.

    is_not: it must not hold; threshold: of levenshtein, latency in ms, and cost; transforms: applied to the answer
    first; form: in which texts are compared; of_set: the assertions of a set.
    """

    kind: str
    value: JsonValue = None
    is_not: bool = False
    threshold: float | None = None
    weight: float = 1.0
    metric: str = ""
    transforms: tuple[Transform, ...] = ()
    form: Form | None = None
    of_set: tuple["Assertion", ...] = ()

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
    try:
        before = _of_test(row.metadata)
        return [_read(each, variables, before) for each in listed]
    except ValueError as error:
        raise UsageError(f"row {row.id}: {error}") from None


def _of_test(metadata: Mapping[str, JsonValue]) -> tuple[Transform, ...]:
    """Return the transforms of a whole test. Raises: ValueError for other settings that would change its scores."""
    refused = [name for name in metadata if name == "assertScoringFunction" or name.startswith("config:")]
    options = metadata.get("options")
    stated = options if isinstance(options, Mapping) else {}
    refused += [f"options.{name}" for name in ("transformVars",) if stated.get(name) is not None]
    if refused:
        raise ValueError(
            f"its {refused[0]} is not obeyed here; the assertions may have transform, weight and threshold"
        )
    return tuple(
        _transform(stated[name], f"options.{name}") for name in ("transform", "postprocess") if stated.get(name)
    )


def _transform(expression: JsonValue, whose: str) -> Transform:
    try:
        return transform_of(expression)
    except ValueError as error:
        raise ValueError(
            f"{whose} has the transform {expression!r:.80}: {error}; expected a path such as "
            "JSON.parse(output).answer, or write the check as a scorer: FILE.py:NAME"
        ) from None


def _of_cell(cell: str) -> dict[str, JsonValue]:
    """Return the assertion in a cell of a table; a text of no documented form is the expected answer."""
    match = _CELL.fullmatch(cell)
    kind = cell if match is None else match["kind"]
    if kind.removeprefix("not-") not in (_KNOWN if match else _JSON):
        return {"type": "equals", "value": cell}
    entry: dict[str, JsonValue] = {"type": kind}
    if match is not None:
        entry["value"] = match["value"].strip() or None
        if match["threshold"] is not None:
            entry["threshold"] = float(match["threshold"])
    return entry


def _read(
    stated: object, variables: Mapping[str, JsonValue], before: tuple[Transform, ...], *, in_set: bool = False
) -> Assertion:
    """Return the assertion in one entry: a mapping, a cell of a table, or a set. Raises: ValueError."""
    entry = _of_cell(stated.strip()) if isinstance(stated, str) else stated
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        raise ValueError(  # noqa: TRY004 - the row is wrong
            f"its assertion is {entry!r:.60}; expected a mapping with a type"
        )
    kind = entry["type"]
    is_not, plain = kind.startswith("not-"), kind.removeprefix("not-")
    if plain not in (*KINDS, _SET) or kind == f"not-{_SET}":
        why = next((why for why, kinds in _REFUSED.items() if plain in kinds), None)
        near = nearest(plain, KINDS)
        unknown = f"is not known{f'; did you mean {near[0]}?' if near else ''}"
        raise ValueError(f"the assertion '{kind:.40}' {why or unknown}; checked here are {', '.join(KINDS)}")
    known = ("type", "assert", "threshold", "weight", "metric") if plain == _SET else _KEYS
    for key, value in entry.items():
        if key not in known and value is not None:
            raise ValueError(f"the assertion '{kind}' has the key '{key!s:.40}', which is not obeyed here; obeyed are "
                             f"{', '.join(known)}")  # fmt: skip
    threshold, weight, metric = _positive(entry, "threshold"), _positive(entry, "weight"), entry.get("metric")
    weight, metric = 1.0 if weight is None else weight, metric if isinstance(metric, str) else ""
    if plain == _SET:
        inner = entry.get("assert")
        if in_set or not isinstance(inner, list) or not inner:
            raise ValueError("its assert-set has no list of assertions, or another set among them")
        of_set = tuple(_read(each, variables, before, in_set=True) for each in inner)
        return Assertion(_SET, weight=weight, metric=metric, threshold=threshold, of_set=of_set)
    if (expression := entry.get("transform")) is not None:
        before = (*before, _transform(expression, f"the assertion '{kind}'"))
    value = _filled(entry.get("value"), variables)
    if plain in _LISTS and isinstance(value, str):
        value = [part.strip() for part in next(csv.reader([value], skipinitialspace=True), [])]
    if plain in _LISTS and not (isinstance(value, list) and value):
        raise ValueError(f"the assertion '{kind}' has the value {value!r:.60}; expected a list of texts")
    if plain in (*_TEXTS, "levenshtein") and (value is None or (value == "" and plain in ("contains", "icontains"))):
        raise ValueError(f"the assertion '{kind}' has no value")
    if plain in _TEXTS and plain != "equals" and isinstance(value, list | Mapping):
        raise ValueError(f"the assertion '{kind}' has the value {value!r:.60}; expected a text")
    if plain in ("latency", "cost") and threshold is None:
        raise ValueError(f"the assertion '{kind}' has no threshold")
    if plain == "word-count":
        value = _bounds(value)
    if plain in _JSON:
        value = _schema(value, f"the assertion '{kind}'")
    if plain == "regex":
        value = js_text(value)
        try:
            compiled(_pattern(value))
        except DataError as error:
            raise ValueError(f"the assertion 'regex': {error}") from None
    return Assertion(plain, value, is_not, threshold, weight, metric, before, _form(entry))


def _form(entry: Mapping[str, object]) -> Form | None:
    """Return Unicode's form in which `equals` compares. Raises: ValueError."""
    stated = entry.get("normalizeUnicode")
    if stated in (None, False):
        return None
    form = "NFC" if stated is True else stated
    if form not in _FORMS or entry["type"] not in ("equals", "not-equals"):
        raise ValueError(f"the assertion '{entry['type']}' has normalizeUnicode {stated!r:.40}; expected true "
                         f"or one of {', '.join(_FORMS)}, of equals")  # fmt: skip
    return form


def _bounds(value: JsonValue) -> JsonValue:
    """Return the least and the greatest number of words. Raises: ValueError."""
    least, most = (value.get("min"), value.get("max")) if isinstance(value, Mapping) else (value, value)
    numbers = []
    for each in (least, most):
        try:
            numbers.append(None if each is None else float(each))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            numbers.append(math.nan)
    if numbers == [None, None] or any(each is not None and not math.isfinite(each) for each in numbers):
        raise ValueError(f"the assertion 'word-count' has the value {value!r:.60}; expected a number, or min and max")
    return [*numbers]


def _schema(value: JsonValue, whose: str) -> JsonValue:
    """Return a JSON Schema, which may be a text; None without one. Raises: ValueError."""
    if value in (None, ""):
        return None
    try:
        schema = load_yaml(value) if isinstance(value, str) else value
        if not isinstance(schema, Mapping | bool):
            raise ValueError(f"{whose} has the value {value!r:.60}; expected a JSON Schema")  # noqa: TRY004 - the row is wrong
        validator_of(schema, whose)
    except (DataError, UsageError) as error:
        raise ValueError(str(error)) from None
    return schema


_JS_SPACE = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_JS_PARTS = re.compile(r"\\k<(\w+)>|\\.|\[\^?\]|\(\?<(?=[A-Za-z_$])|\(\?(?=[a-zA-Z])|.", re.DOTALL)


def _pattern(pattern: str) -> str:
    """Return a regular expression of JavaScript as Python's.

    JavaScript has other names of groups, an end that is the text's end, digits and letters of ASCII, spaces that
    are Unicode's, four ends of lines, and empty brackets. Raises: ValueError for flags within it, an error there.
    """
    written, in_class = "(?a)", False
    for match in _JS_PARTS.finditer(pattern):
        part = match[0]
        if part == "(?" and not in_class:
            raise ValueError(f"the assertion 'regex' has {pattern[match.start() : match.start() + 4]!r}, which "
                             "JavaScript's regular expressions do not know")  # fmt: skip
        if part.startswith(("(?", "[^]", "[]")) and in_class:  # characters of the class
            written += re.sub(r"[\[&~|]", r"\\\g<0>", part)
            in_class = not part.endswith("]")
        elif match[1]:
            written += f"(?P={match[1]})"
        elif part in ("\\s", "\\S"):
            written += (
                _JS_SPACE
                if in_class and part == "\\s"
                else part
                if in_class
                else f"[{'^' * (part == chr(92) + 'S')}{_JS_SPACE}]"
            )
        elif part in ("\\A", "\\Z", "\\z"):
            written += part[1]
        elif in_class:
            written += f"\\{part}" if part in "[&~|" else part
            in_class = part != "]"
        else:
            in_class = part == "["
            written += {"(?<": "(?P<", "[^]": "(?s:.)", "[]": "(?!)", "$": r"\Z", ".": r"[^\n\r\u2028\u2029]"}.get(
                part, part
            )
    return written


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
        "weights of the row's assertions that hold / weights of all; of a set its own share; without a known "
        "latency or cost: not scored",
        needs=frozenset({"assertions"}),
    )
    IN_THREAD = True

    def _score(self, answered: Answered) -> Result:
        assertions = assertions_of(answered.row)
        if not assertions:
            raise DataError(f"row {answered.row.id}: it has no assertions")
        value, broken = _share(assertions, answered)
        if value is None:
            return self._result(None, "the target did not state what an assertion is about")
        return self._result(value, f"does not hold: {'; '.join(broken)}"[:2000] if broken else None)


def _share(assertions: Sequence[Assertion], answered: Answered) -> tuple[float | None, list[str]]:
    """Return the weighted share of assertions that hold, and those that do not; None if one is not known."""
    total, weights, broken, is_known = 0.0, 0.0, list[str](), True
    for each in assertions:
        if each.of_set:
            value, of_set = _share(each.of_set, answered)
            broken += of_set
        else:
            value, why = _held(each, answered)
            broken += [_assertion_text(each) + why] if value == 0.0 else []
        is_known = is_known and value is not None
        total, weights = total + each.weight * (value or 0.0), weights + each.weight
    if not is_known:
        return None, broken
    return (total / weights if weights else float(not broken)), broken


def _assertion_text(assertion: Assertion) -> str:
    value = "" if assertion.value is None else f" {text_of(assertion.value):.100}"
    return (
        f"{assertion.name}{value}"
        if assertion.threshold is None
        else f"{assertion.name}{value} ({assertion.threshold:g})"
    )


def _held(assertion: Assertion, answered: Answered) -> tuple[float | None, str]:
    """Return whether an assertion holds, None if its subject is not known, and why its transform failed."""
    if assertion.kind in ("latency", "cost"):
        known = answered.cost if assertion.kind == "cost" else answered.latency_s
        if known is None or assertion.threshold is None:
            return None, ""
        measured = known * (1 if assertion.kind == "cost" else 1000)
        return float((measured <= assertion.threshold) != assertion.is_not), ""
    output = answered.output
    try:
        for transform in assertion.transforms:
            output = transform(output)
    except NoValue as error:
        return 0.0, f" ({error})"  # negated or not: there is nothing to check
    is_json = assertion.kind in _JSON or (assertion.kind == "equals" and isinstance(assertion.value, list | Mapping))
    return float(_is_so(assertion, js_text(output) if is_json else text_of(output)) != assertion.is_not), ""


def _is_so(assertion: Assertion, output: str) -> bool:
    kind, value = assertion.kind, assertion.value
    if kind in _JSON:
        return any(_is_valid(each, value) for each in (_values(output) if kind == "is-json" else _values_in(output)))
    if kind == "word-count":
        least, most = cast("list[float | None]", value)  # as `_bounds` makes them
        n_words = len(output.split())
        return (least is None or n_words >= least) and (most is None or n_words <= most)
    if kind == "levenshtein":
        return levenshtein(output, js_text(value)) <= (5 if assertion.threshold is None else assertion.threshold)
    if kind == "regex":
        return bool(findall(compiled(_pattern(str(value))), output))
    if kind == "equals":
        return _equals(output, value, assertion.form)
    if kind == "starts-with":
        return output.startswith(js_text(value))
    texts = [js_text(each) for each in value] if isinstance(value, list) else [js_text(value)]
    if kind.startswith("i"):
        output, kind, texts = output.lower(), kind[1:], [text.lower() for text in texts]
    contained = [text in output for text in texts]
    return any(contained) if kind == "contains-any" else all(contained)


def _equals(output: str, value: JsonValue, form: Form | None) -> bool:
    """Return whether an output is a value: a list or mapping as JSON, anything else by its text."""
    if isinstance(value, list | Mapping):
        return any(_strict(each) == _strict(value) for each in _values(output))
    text = js_text(value)
    return output == text if form is None else _in_form(form, output) == _in_form(form, text)


def _strict(value: object) -> str:
    """Return a value as JavaScript's strict equality sees it: 1.0 is 1, true is not."""
    if isinstance(value, Mapping):
        return json.dumps({str(key): _strict(each) for key, each in value.items()}, sort_keys=True)
    if isinstance(value, list):
        return json.dumps([_strict(each) for each in value])
    return json.dumps(value) if isinstance(value, str) else js_text(value)


def _in_form(form: Form, text: str) -> str:
    return unicodedata.normalize(form, text)


def _is_valid(value: object, schema: JsonValue) -> bool:
    return schema is None or validator_of(schema, "assertions", checks_formats=True).is_valid(value)


def _no_number(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _values(text: str) -> list[object]:
    """Return the value of a JSON text, in a list; an empty list for another text."""
    if is_deeper(text, 100):
        return []
    try:
        return [json.loads(text, parse_constant=_no_number)]  # NaN and Infinity are Python's
    except (ValueError, RecursionError):
        return []


MOST_TRIES = 200  # brackets from which a text is read as JSON without success


def _values_in(text: str) -> list[object]:
    """Return the objects and lists that stand in a text, one after the other."""
    if is_deeper(text, 100):
        return []
    decoder, found, n_tries = json.JSONDecoder(parse_constant=_no_number), [], 0
    bracket = re.compile(r"[\[{]")
    match = bracket.search(text)
    while match and n_tries < MOST_TRIES:
        try:
            value, end = decoder.raw_decode(text, match.start())
            found.append(value)
        except (ValueError, RecursionError):
            end, n_tries = match.end(), n_tries + 1
        match = bracket.search(text, end)
    return found
