"""promptfoo's transforms of an answer, as far as they are a path into it: `JSON.parse(output).answers[0].trim()`.

A transform is an expression of JavaScript. Those of texts, members, indices and a few methods are supported; any other
is refused before the first call, since its effect on an answer is not known.

Source: promptfoo's documentation (transforming outputs); ECMAScript 2024 for members and methods.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import cast

from assaymark.limits.nesting import parse_json
from assaymark.records import JsonValue

Transform = Callable[[JsonValue], JsonValue]
LONGEST = 2_000  # characters of an expression
_TOKEN = re.compile(r"""\s*(?:(?P<name>[A-Za-z_$][\w$]*)|(?P<number>-?\d+)|"""
                    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
                    r"""|(?P<mark>\?\.|[.()\[\],;]))""", re.DOTALL)  # fmt: skip


class NoValue(Exception):
    """A transform that has no value for an answer; the message says why."""


def js_text(value: JsonValue) -> str:
    """Return a value as JavaScript's String or JSON.stringify writes it: 1.0 is 1."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def transform_of(expression: object) -> Transform:
    """Return an expression of `output` as a function. Raises: ValueError for an unsupported one."""
    if not isinstance(expression, str) or len(expression) > LONGEST:
        raise ValueError("it is no expression")
    parser = _Parser(expression)
    if parser.at_name("return"):
        parser.take()
    made = parser.value()
    while parser.at(";"):
        parser.take()
    if parser.kind:
        raise ValueError(f"{parser.text!r} is not obeyed here")
    return made


def _member(value: JsonValue, key: str | int) -> JsonValue:
    """Return a member of a value."""
    if key == "length" and isinstance(value, str | list):
        return len(value)
    if isinstance(value, Mapping):
        found = value.get(str(key))
    else:
        is_index = isinstance(value, str | list) and isinstance(key, int) and 0 <= key < len(value)
        found = value[key] if is_index else None  # type: ignore[index]
    if found is None:
        raise NoValue(f"the answer has no {key}")
    return found


def _texts(method: Callable[[str], JsonValue]) -> Callable[[JsonValue], JsonValue]:
    def call(value: JsonValue) -> JsonValue:
        if not isinstance(value, str):
            raise NoValue("a method of texts is called on another value")
        return method(value)

    return call


def _sliced(value: JsonValue, *bounds: JsonValue) -> JsonValue:
    if not isinstance(value, str | list):
        raise NoValue("slice is called on a value that is neither text nor list")
    return value[slice(*cast("tuple[int, ...]", bounds or (0,)), *([None] if len(bounds) < 2 else []))]


def _at(value: JsonValue, index: JsonValue = 0) -> JsonValue:
    if not isinstance(value, str | list) or not isinstance(index, int) or not -len(value) <= index < len(value):
        raise NoValue(f"the answer has no {index}")
    return value[index]


_METHODS: Mapping[str, tuple[Callable[..., JsonValue], int]] = {  # and the most arguments
    "trim": (_texts(str.strip), 0),
    "trimStart": (_texts(str.lstrip), 0),
    "trimEnd": (_texts(str.rstrip), 0),
    "toLowerCase": (_texts(str.lower), 0),
    "toUpperCase": (_texts(str.upper), 0),
    "toString": (js_text, 0),
    "split": (lambda value, by="": _texts(lambda text: text.split(str(by)) if by else list(text))(value), 1),
    "at": (_at, 1),
    "pop": (lambda value: _at(value, -1), 0),
    "slice": (_sliced, 2),
}


def _parsed(value: JsonValue) -> JsonValue:
    try:
        return parse_json(js_text(value))
    except (ValueError, RecursionError) as error:
        raise NoValue(f"the answer is not JSON: {error}") from None


_FUNCTIONS: Mapping[str, Transform] = {"String": js_text, "JSON.parse": _parsed, "JSON.stringify": js_text}


class _Parser:
    """Reads one expression, token by token."""

    def __init__(self, expression: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while expression[at:].strip():
            match = _TOKEN.match(expression, at)
            if match is None:
                raise ValueError(f"{expression[at:].strip()[:20]!r} is not obeyed here")
            self._tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
            at = match.end()
        self._at = 0

    @property
    def kind(self) -> str:
        """The kind of the next token; empty at the end."""
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    @property
    def text(self) -> str:
        """The next token; empty at the end."""
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def at(self, mark: str) -> bool:
        """Return whether the next token is a mark."""
        return self.kind == "mark" and self.text == mark

    def at_name(self, name: str) -> bool:
        """Return whether the next token is a name."""
        return self.kind == "name" and self.text == name

    def take(self, mark: str | None = None) -> str:
        """Return the next token and go on. Raises: ValueError if it is not this mark."""
        if not self.kind or (mark is not None and not self.at(mark)):
            raise ValueError(f"{self.text or 'its end'!r} is not obeyed here")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def value(self) -> Transform:
        """Return an operand with the members and calls that follow it."""
        made = self._operand()
        while self.at(".") or self.at("?.") or self.at("["):
            made = self._followed(made)
        return made

    def _operand(self) -> Transform:
        if self.kind == "text":
            literal = _unquoted(self.take())
            return lambda _: literal
        if self.at("("):
            self.take()
            inner = self.value()
            self.take(")")
            return inner
        name = self.take() if self.kind == "name" else ""
        if name == "output":
            return lambda output: output
        if name == "JSON":
            self.take(".")
            name += f".{self.take()}"
        if name not in _FUNCTIONS:
            raise ValueError(f"{name or self.text!r} is not obeyed here")
        function = _FUNCTIONS[name]
        self.take("(")
        argument = self.value()
        self.take(")")
        return lambda output: function(argument(output))

    def _followed(self, before: Transform) -> Transform:
        if self.at("?."):
            self.take()
            is_index = self.at("[")
        else:
            is_index = self.take() == "["
            self._at -= is_index
        key: str | int
        if is_index:
            self.take("[")
            if self.kind not in ("number", "text"):
                raise ValueError(f"{self.text!r} is not obeyed here")
            key = int(self.take()) if self.kind == "number" else _unquoted(self.take())
            self.take("]")
            return lambda output: _member(before(output), key)
        if self.kind != "name":
            raise ValueError(f"{self.text or 'its end'!r} is not obeyed here")
        key = self.take()
        if not self.at("("):
            return lambda output: _member(before(output), key)
        method, most = _METHODS.get(key, (None, 0))
        self.take("(")
        arguments: list[JsonValue] = []
        while not self.at(")"):
            if self.kind not in ("number", "text"):
                raise ValueError(f"{self.text!r} is not obeyed here")
            arguments.append(int(self.take()) if self.kind == "number" else _unquoted(self.take()))
            if not self.at(")"):
                self.take(",")
        self.take(")")
        if method is None or len(arguments) > most:
            raise ValueError(f"the method {key} is not obeyed here")
        return lambda output: method(before(output), *arguments)


def _unquoted(text: str) -> str:
    escapes = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda match: escapes.get(match[1], match[1]), text[1:-1], flags=re.DOTALL)
