"""What is removed from spans before they are stored: values under names of secrets always, patterns by configuration.

Redaction happens in the receiver, so that a secret that an application put into a span is on no disk of ours.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from assaymark.errors import DataError, UsageError
from assaymark.limits import regexes

REDACTED = "[redacted]"
NAMED = {
    "email": r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,253}\.[A-Za-z]{2,24}",
    "card": r"(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)",
    "ip": r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])",
    "phone": r"(?<![\w.])\+\d{1,3}[ -]?(?:\d[ -]?){6,13}\d(?!\w)",
}
_NAMES = (
    r"authorization|api[_-]?key|x[_-]api[_-]key|passwo?r?d|passphrase|secret|client[_-]secret|cookie|set[_-]cookie|"
    r"(?:access|refresh|auth|bearer|session|id)[_-]?token|credentials?|private[_-]key"
)
_KEY = re.compile(rf"(?:^|[._/-])(?:{_NAMES})$", re.IGNORECASE)
_IN_JSON = re.compile(
    rf'("(?:[A-Za-z0-9_.-]{{0,40}}[._-])?(?:{_NAMES})"\s{{0,4}}:\s{{0,4}})"(?:[^"\\]|\\.)*+"', re.IGNORECASE
)
_VALUE = re.compile(  # keys of providers, whatever the attribute is called
    r"\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,200}|\bhf_[A-Za-z0-9]{20,60}|\bgh[pousr]_[A-Za-z0-9]{20,255}|"
    r"\bAKIA[0-9A-Z]{16}\b|\bBearer [A-Za-z0-9._~+/-]{16,2000}=*|\basm_[A-Za-z0-9_-]{30,60}"
)

_MARKS = ("sk-", "pk-", "rk-", "hf_", "gh", "AKIA", "Bearer ", "asm_")  # one of which is in what _VALUE matches


@lru_cache(maxsize=4096)
def _names_a_secret(key: str) -> bool:
    return _KEY.search(key) is not None


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is replaced. keys: further names of attributes; patterns: regular expressions whose matches go."""

    keys: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = field(default=())

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        if '"' in text and ":" in text:
            text = _IN_JSON.sub(rf'\1"{REDACTED}"', text)
        if any(mark in text for mark in _MARKS):
            text = _VALUE.sub(REDACTED, text)
        for pattern in self.patterns:
            try:
                text = regexes.sub(pattern, REDACTED, text)
            except DataError:
                return f"{REDACTED}: a pattern took too long on this text"
        return text

    def is_secret(self, key: str) -> bool:
        """Return whether all that an attribute of this name has is removed."""
        return _names_a_secret(key) or key.lower() in self.keys

    def attributes(self, pairs: Iterable[KeyValue]) -> None:
        """Remove secrets from attributes, in place."""
        for pair in pairs:
            if self.is_secret(pair.key):
                pair.value.Clear()
                pair.value.string_value = REDACTED
            else:
                self._value(pair.value)

    def _value(self, value: AnyValue) -> None:
        kind = value.WhichOneof("value")
        if kind == "string_value":
            clean = self.text(value.string_value)
            if clean != value.string_value:
                value.string_value = clean
        elif kind == "array_value":
            for part in value.array_value.values:
                self._value(part)
        elif kind == "kvlist_value":
            self.attributes(value.kvlist_value.values)


def redaction_of(keys: Sequence[str], patterns: Sequence[str]) -> Redaction:
    """Return the redaction that options ask for; a pattern may be one of `email`, `card`, `ip`, `phone`.

    Raises: UsageError for a pattern that cannot be read or matches everything.
    """
    read: list[str] = []
    for pattern in patterns:
        expression = NAMED.get(pattern, pattern)
        try:
            matches_nothing = re.compile(expression).search("") is not None
        except re.error as error:
            raise UsageError(f"--redact '{pattern}' is not a regular expression: {error}") from None
        if matches_nothing:
            raise UsageError(f"--redact '{pattern}' matches the empty text; expected what a secret looks like")
        read.append(expression)
    return Redaction(frozenset(key.lower() for key in keys), tuple(read))
