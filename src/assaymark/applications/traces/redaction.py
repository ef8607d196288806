"""Redaction of spans before they are stored: secrets by name and shape always, other patterns by configuration.

The receiver redacts, so that a secret in a span never reaches the disk. Texts are searched, not parsed: nested JSON, a
Python repr, a header, a URL and a line of a configuration all consist of a name, a sign and a value, and the quotes
around the value tell how deeply it is nested. A note in the place of a removed value says what it was. Everything is
linear in the length of the text; what comes after more names of secrets than are searched is removed as a whole.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from assaymark.applications.traces.secret_shapes import (
    LONGEST_NAME,
    SHAPES,
    STEMS,
    Shape,
    in_lower_case,
    is_harmless,
    secret_name,
    shapes_in,
    without_shapes,
)
from assaymark.errors import DataError, UsageError
from assaymark.limits import regexes

REDACTED = "[redacted"
"""The beginning of the note in the place of a removed value; its kind follows, as in `[redacted: AWS key]`."""

BY_NAME = f"{REDACTED}: secret by its name]"
MOST_NAMES = 100_000  # that could be those of secrets, looked at in one text, or in all of a request
COST_OF_VALUE = 4  # a value that is removed takes as long as so many names more
MOST_BACKSLASHES = 128  # before a quote: JSON seven deep
LONGEST_PIECE = 200  # characters of a token in log-probabilities
LONGEST_LINE = 4096  # characters of a header without quotes
MOST_READINGS = 4  # of all lines, each of which is read once for each name of a header in it
NAMED = {
    "email": r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,253}\.[A-Za-z]{2,24}",
    "card": r"(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)",
    "ip": r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])",
    "phone": r"(?<![\w.])\+\d{1,3}[ -]?(?:\d[ -]?){6,13}\d(?!\w)",
}
_NAME_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_REST_OF_NAME = re.compile(r"[A-Za-z0-9_.-]{0,100}+")
_DIGIT = re.compile(r"[\d²³¹]")
_SIGN = re.compile(r"(\\*[\"'`]?)\]?\s{0,8}(?:=>|:=|={1,2}|:(?!:)|%3[Dd])\s{0,8}")
_VALUE_BESIDE = re.compile(r"\\*[\"']\s{0,4},\s{0,8}\\*[\"'](?:value|val|Value)\\*[\"']\s{0,4}:\s{0,4}")
_PAIR = re.compile(r"\\*[\"']\s{0,4},\s{0,4}(?=b?\\*[\"'][^\"'\\]{4,4096}\\*[\"']\s{0,4}[\])])")
_FLAG = re.compile(r"\\*[\"']\s{0,4},\s{0,8}(?=\\*[\"'])|\s{1,4}(?=[^\s-])")
_IN_WORDS = re.compile(r"\s{1,3}(?:is|was)\s{1,3}|\s{1,3}(?=')")
_OPEN = re.compile(r"[bBuUrRfF]{0,2}(\\*)([\"'`])")
_BRACKETS = re.compile(r"(\\*)[\"']|[\[\]{}]")
_BARE = re.compile(r"[^\s,;&\"'<>\[\](){}\\|`]+")
_CALLED = re.compile(r"\([^()]{0,500}\)?")
_LINE = re.compile(rf"[^\r\n\"'<>{{}}\[\]\\]{{1,{LONGEST_LINE}}}")
_CODE = re.compile(
    r"\s{0,2}[(\[]|[A-Za-z_]+(?:\.[A-Za-z_]+)*\s{0,2}[(\[]|(?:os|self|cls|process|config|settings|args|env)\."
)
_SCHEMA = re.compile(r"\{\s*(?:\\*[\"'](?:type|description|title|anyOf|\$ref)\\*[\"']\s*:)")
_LOGPROB = re.compile(r"\\*[\"']\s{0,4},\s{0,8}\\*[\"'](?:logprob|bytes|prob|score|id)\\*[\"']")
_KEY_BEFORE = re.compile(r"(?:api|access|private|secret|auth|signing) $", re.IGNORECASE)
_ABOVE_LINE = ("authorization", "cookie")
_TOO_MANY = f"{REDACTED}: a text with too many names of secrets]"
# In lower case: the rest of a name, and what each form of a value begins with.
_BEFORE_VALUE = r"[a-z0-9_.-]{0,100}+(?:[\\\"'`\]=:%>]|\s{1,8}(?:[=:%']|(?:is|was)\s))"
_FLAG_NAME = re.compile(r"--[a-z0-9_.-]++")
_NAME_FIELDS = frozenset({"name", "key", "header"})


def _mark(kind: str) -> str:
    return f"{REDACTED}: {kind}]"


@lru_cache(maxsize=1024)
def _before_value(stem: str) -> re.Pattern[str]:
    """Return the expression of a stem in a name that a value may follow."""
    return re.compile(f"{re.escape(stem)}(?={_BEFORE_VALUE})")


@dataclass(slots=True)
class _Names:
    """How many more names are looked at."""

    left: int = MOST_NAMES


@dataclass(frozen=True, slots=True)
class Redaction:
    """The rules of redaction.

    keys: further names of attributes, and of values in texts, in lower case. patterns: pairs of a replacement and the
    regular expression of the texts that it replaces. stems, shapes: what texts are searched for. names: what the texts
    of one request may have together; None: each as many.
    """

    keys: frozenset[str] = frozenset()
    patterns: tuple[tuple[str, str], ...] = field(default=())
    stems: tuple[str, ...] = STEMS
    shapes: tuple[Shape, ...] = SHAPES
    names: _Names | None = None

    def of_request(self) -> "Redaction":
        """Return the same rules for one request, whose texts have a bound on names together."""
        return replace(self, names=_Names())

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        if len(text) < 4:
            return text
        clean = self._shapes(self._without_named(text))
        for name, pattern in self.patterns:
            try:
                clean = regexes.sub(pattern, _mark(name).replace("\\", ""), clean)
            except DataError:
                return f"{REDACTED}: a pattern took too long on this text]"
        return clean

    def kind_of(self, name: str) -> str:
        """Return which kind of secret has this name, "" for none."""
        return "secret" if name.lower() in self.keys else secret_name(name)

    def attributes(self, pairs: Iterable[KeyValue]) -> None:
        """Remove secrets from attributes, in place."""
        listed = list(pairs)
        named = {pair.key: pair.value.string_value for pair in listed if pair.key in _NAME_FIELDS}
        has_logprob = any(pair.key == "logprob" for pair in listed)
        beside = any(self.kind_of(name) for name in named.values())
        for pair in listed:
            kind = self.kind_of(pair.key) or ("secret" if beside and pair.key == "value" else "")
            pair.key = self._shapes(pair.key)
            if not kind or (kind == "token" and has_logprob) or self._is_harmless(kind, pair.value):
                self._value(pair.value)
            else:
                pair.value.Clear()
                pair.value.string_value = BY_NAME

    def span(self, span: Span) -> None:
        """Remove secrets from all parts of a span, in place."""
        span.DiscardUnknownFields()  # which would be stored unread
        rules = self._for(span)
        span.name = rules.text(span.name)
        if span.trace_state:
            span.trace_state = rules.text(span.trace_state)
        if span.status.message:
            span.status.message = rules.text(span.status.message)
        rules.attributes(span.attributes)
        for event in span.events:
            event.name = rules.text(event.name)
            rules.attributes(event.attributes)
        for link in span.links:
            if link.trace_state:
                link.trace_state = rules.text(link.trace_state)
            rules.attributes(link.attributes)

    def resource(self, resource: ResourceSpans) -> None:
        """Remove secrets from a resource, in place."""
        resource.resource.DiscardUnknownFields()
        self.attributes(resource.resource.attributes)
        resource.schema_url = self.text(resource.schema_url)
        for reference in resource.resource.entity_refs:
            reference.schema_url, reference.type = self.text(reference.schema_url), self.text(reference.type)
            for names in (reference.id_keys, reference.description_keys):
                names[:] = [self.text(name) for name in names]

    def scope(self, scope: ScopeSpans) -> None:
        """Remove secrets from a scope, in place."""
        scope.schema_url = self.text(scope.schema_url)
        inner: InstrumentationScope = scope.scope
        inner.DiscardUnknownFields()
        inner.name, inner.version = self.text(inner.name), self.text(inner.version)
        self.attributes(inner.attributes)

    def _shapes(self, text: str) -> str:
        return without_shapes(text, self.shapes, _mark) if len(text) > 8 else text

    def _for(self, message: Message) -> "Redaction":
        """Return the rules that a message needs: many short texts are searched as one."""
        text = message.SerializeToString().decode("latin-1")
        lower = text.lower()
        return replace(self, stems=tuple(s for s in STEMS if s in lower), shapes=shapes_in(text, lower))

    @staticmethod
    def _is_harmless(kind: str, value: AnyValue) -> bool:
        shape = value.WhichOneof("value")
        if shape == "string_value":
            return is_harmless(kind, value.string_value)
        if shape == "array_value":
            return not value.array_value.values
        if shape == "kvlist_value":
            return any(pair.key in {"type", "anyOf", "$ref"} for pair in value.kvlist_value.values)  # a JSON schema
        return shape in {None, "bool_value"} or (kind == "token" and shape in {"int_value", "double_value"})

    def _value(self, value: AnyValue) -> None:
        kind = value.WhichOneof("value")
        if kind == "string_value":
            clean = self.text(value.string_value)
            if clean != value.string_value:
                value.string_value = clean
        elif kind == "bytes_value":
            text = value.bytes_value.decode("latin-1")  # each byte a letter, and back
            if (clean := self.text(text)) != text:
                value.bytes_value = clean.encode("latin-1")
        elif kind == "array_value":
            for part in value.array_value.values:
                self._value(part)
        elif kind == "kvlist_value":
            self.attributes(value.kvlist_value.values)

    # ------------------------------------------------------------------------------- names in texts

    def _places(self, lower: str, most: int) -> list[int]:
        """Return where a text has a stem in a name that a value may follow; one more than `most` if there are more."""
        stems = (*self.stems, *sorted(self.keys))
        places: list[int] = []
        for stem in stems:
            found = _before_value(stem).finditer(lower)
            places += (each.start() for each in islice(found, most + 1 - len(places)))
        if "--" in lower:  # the value of an option may be any word
            for flag in _FLAG_NAME.finditer(lower):
                places += (flag.start() + at for stem in stems if (at := flag[0].find(stem)) >= 0)
                if len(places) > most:
                    break
        return places[: most + 1]

    def _without_named(self, text: str) -> str:
        """Return a text without the values that follow names of secrets."""
        names = self.names or _Names()
        left = max(0, names.left)
        places = self._places(in_lower_case(text), left) if self.stems or self.keys else []
        if len(places) > left:  # a text without such a name stays
            return _TOO_MANY
        names.left -= len(places)
        pieces: list[str] = []
        done = looked = n_read = 0
        for place in sorted(places):
            if place < max(done, looked):
                continue
            start, looked = _name_around(text, place)
            kind = self.kind_of(text[start:looked]) if start >= done else ""
            if kind and (found := _value_after(text, start, looked, kind)):
                first, last, mark = found
                pieces += (text[done:first], mark)
                done = last
                names.left -= COST_OF_VALUE
            elif kind and any(each in text[start:looked].lower() for each in _ABOVE_LINE):
                line_end = text.find("\n", looked, looked + LONGEST_LINE)
                n_read += (line_end if line_end > 0 else looked + LONGEST_LINE) - looked
                if n_read > MOST_READINGS * (len(text) + LONGEST_LINE):
                    return _TOO_MANY
        return text if not pieces else "".join((*pieces, text[done:]))


def _name_around(text: str, place: int) -> tuple[int, int]:
    """Return begin and end of the name around this position."""
    before = text[place - LONGEST_NAME if place > LONGEST_NAME else 0 : place]
    start = place - len(before) + len(before.rstrip(_NAME_LETTERS))
    end = _REST_OF_NAME.match(text, place).end()  # type: ignore[union-attr]  # which matches nothing, too
    sign = text[start - 1 : start]
    if sign == "\\":  # an escape of JSON: a line's end, or Go's ampersand
        start += 5 if text[start] == "u" and text[start + 1 : start + 5].isalnum() else 1
    elif sign == "%":
        start += 2
    elif sign == " " and (words := _KEY_BEFORE.search(text[max(0, start - 10) : start])) is not None:  # "api key"
        start -= len(words[0])
    return min(start, place), end


def _value_after(text: str, start: int, end: int, kind: str) -> tuple[int, int, str] | None:
    """Return begin and end of a name's value, and its replacement; None if there is none."""
    name = text[start:end]
    close = ""
    if text[start - 1 : start] == "<" and text[end : end + 1] == ">":  # an element of XML
        last = text.find("<", end)
        value = text[end + 1 : last] if last > 0 else ""
        return (end + 1, last, BY_NAME) if value.strip() and not is_harmless(kind, value) else None
    if (sign := _SIGN.match(text, end)) is not None:
        close = sign[1]
    elif (sign := _VALUE_BESIDE.match(text, end)) is None and text[start - 1 : start] in {'"', "'"}:
        is_item = text[max(0, start - 12) : start].rstrip("\\\"'b").rstrip().endswith(("[", "("))
        sign = _FLAG.match(text, end) if name.startswith("--") else _PAIR.match(text, end) if is_item else None
        if (
            sign is not None
            and not name.startswith("--")
            and text[sign.end() : sign.end() + 200].lstrip("b\\\"'")[:60].split('"')[0].isalpha()
        ):
            return None  # a list of names
    elif sign is None:
        sign = _FLAG.match(text, end) if name.startswith("--") else None
        if sign is None and kind != "token":
            sign = _IN_WORDS.match(text, end)
            if (
                sign is not None
                and _DIGIT.search(_word_at(text, sign.end())) is None
                and (sign[0].strip() or name.lower() != "password")
            ):
                return None  # "the password is wrong", but not SQL's PASSWORD '...'
    if sign is None:
        return None
    return _value_at(text, start, sign.end(), name, kind, close)


def _word_at(text: str, at: int) -> str:
    return text[at : at + 200].split(None, 1)[0] if text[at : at + 200].strip() else ""


def _value_at(text: str, start: int, at: int, name: str, kind: str, close: str) -> tuple[int, int, str] | None:
    opened = _OPEN.match(text, at)
    if opened is not None:
        first = opened.end()
        last = _closing_quote(text, first, len(opened[1]), opened[2])
        value = text[first:last]
        is_piece = (
            kind == "token"
            and len(value) <= LONGEST_PIECE
            and (_LOGPROB.match(text, last) is not None or "logprob" in text[max(0, start - 60) : start])
        )
        return None if is_piece or is_harmless(kind, value) else (first, last, BY_NAME)
    mark = f"{close}{BY_NAME}{close}"
    if text[at : at + 1] in {"[", "{"}:
        if not close or text.startswith("{{", at) or _SCHEMA.match(text, at) is not None:
            return None
        last = _closing_bracket(text, at)
        return (at, last, mark) if text[at:last].strip("[]{} \n") else None
    bare = _BARE.match(text, at)
    if bare is None:
        return None
    value, last = bare[0], bare.end()
    if close and (called := _CALLED.match(text, last)) is not None:  # SecretStr('...') in a repr
        last = called.end()
    if not close and any(each in name.lower() for each in _ABOVE_LINE):
        line = _LINE.match(text, at)
        value, last = (line[0], line.end()) if line is not None else (value, last)
    is_told = (
        close or _is_told(text, start, at, value, kind) or (name.startswith("--") and not is_harmless(kind, value))
    )
    return (at, last, mark) if is_told and not is_harmless(kind, value) else None


def _is_told(text: str, start: int, at: int, value: str, kind: str) -> bool:
    """Return whether a value without quotes is a secret rather than a word of a sentence, a type or an expression."""
    if is_harmless(kind, value.rstrip(".")) or _CODE.match(text, at):
        return False
    is_header = value.lower().startswith(
        ("basic ", "bearer ", "token ", "digest ", "apikey ", "negotiate ", "aws4-hmac")
    )
    if is_header or text[start - 1 : start] in {"?", "&"} or _DIGIT.search(value) is not None:
        return True
    sign = text[at - 2 : at].strip()
    is_name = value.replace("_", "").replace(".", "").isalpha() and value.lower() == value
    if sign.endswith("="):  # password=password is a call's argument, password=swordfish a setting
        return not (is_name and ("_" in value or "." in value or secret_name(value)))
    line_end = text[at + len(value) : at + len(value) + 2]
    is_line = text[max(0, start - 1) : start] in {"", "\n", "\\", " "} and line_end[:1] in {"", "\n", "\r", "\\"}
    return is_line and " " not in value.strip() and secret_name(value) == ""


def _closing_quote(text: str, at: int, depth: int, quote: str) -> int:
    """Return where a text ends whose quotes have `depth` backslashes before them; the text's end if it was cut off.

    Within it an escaped quote has 2 * depth + 1 backslashes, and an escaped backslash is 2 * (depth + 1) of them.
    """
    while (place := text.find(quote, at)) >= 0:
        before = text[max(0, place - MOST_BACKSLASHES) : place]
        n_before = len(before) - len(before.rstrip("\\"))
        if n_before % (2 * (depth + 1)) == depth:
            return place - depth
        at = place + 1
    return len(text)


def _closing_bracket(text: str, at: int) -> int:
    """Return where a list or an object ends that begins here; the text's end if it was cut off."""
    level = 0
    while (found := _BRACKETS.search(text, at)) is not None:
        if found[0] in "[{":
            level += 1
        elif found[0] in "]}":
            level -= 1
            if level == 0:
                return found.end()
        else:
            at = _closing_quote(text, found.end(), len(found[1]), found[0][-1]) + len(found[0])
            continue
        at = found.end()
    return len(text)


def redaction_of(keys: Sequence[str], patterns: Sequence[str]) -> Redaction:
    """Return the redaction of the options; a pattern may be one of `email`, `card`, `ip`, `phone`.

    Raises: UsageError for an invalid pattern or one that matches everything, and for an empty name.
    """
    read: list[tuple[str, str]] = []
    for pattern in patterns:
        expression = NAMED.get(pattern, pattern)
        try:
            matches_nothing = re.compile(expression).search("") is not None
        except re.error as error:
            raise UsageError(f"--redact '{pattern}' is not a regular expression: {error}") from None
        if matches_nothing:
            raise UsageError(f"--redact '{pattern}' matches the empty text; expected what a secret looks like")
        read.append((pattern if pattern in NAMED else "by a pattern", expression))
    if any(not key.strip() for key in keys):
        raise UsageError("--redact_key is empty; expected the name of an attribute")
    return Redaction(frozenset(key.strip().lower() for key in keys), tuple(read))
