"""Read and write function calls as source text: `[f(a=1), g(b="x")]`, as BFCL's prompt asks for them.

Nothing is evaluated. Python is read from its syntax tree; of Java and JavaScript only names, parentheses, quotes and
commas are read, and each argument stays a text, which `call_values` interprets by the parameter's type.

Source: BFCL v4 (ShishirPatil/gorilla 6ea57973, bfcl_eval/model_handler/utils.py: ast_parse, resolve_ast_call,
    resolve_ast_by_type; parser/java_parser.py, parser/js_parser.py). Positional arguments are ignored there, so here.
"""

import ast
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from assaymark.python_source import parse_python

Call = tuple[str, dict[str, object]]  # a function's name, and its arguments by name

LARGEST_POWER = 64  # of a computed argument, such as 2**10
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NAME = re.compile(r"\s*([A-Za-z_$][\w$.]*)\s*\(")
_TYPES = re.compile(r"[\w\s,.?\[\]<>]*+")  # what Java's type arguments are made of: no operators
_PUNCTUATION = re.compile(r"([(),])")
_ARGUMENT = re.compile(r"\s*([A-Za-z_$][\w$]*)\s*=(?!=)", re.DOTALL)
_OPERATORS: Mapping[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class UnreadableCall(ValueError):
    """A text that is not a list of calls; the message says why."""


# ------------------------------------------------------------------------------------------------ Python


def python_calls(text: str, *, are_named: bool = False) -> list[Call]:
    """Return the calls of a Python expression: a call, or a list or tuple of calls.

    are_named: refuse arguments without a name, which are ignored otherwise; one mapping is all arguments.

    Raises: UnreadableCall.
    """
    source = text if text.startswith("[") else f"[{text}"
    source = source if source.endswith("]") else f"{source}]"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in an answer are not our warnings
            body = parse_python(source.strip("'"), "eval").body
        items = body.elts if isinstance(body, ast.List | ast.Tuple) else [body]
        return [_python_call(item, are_named=are_named) for item in items]
    except UnreadableCall:
        raise
    except (SyntaxError, ValueError, RecursionError, MemoryError, ArithmeticError, TypeError) as error:
        raise UnreadableCall(str(error) or type(error).__name__) from None


def _python_call(node: ast.expr, *, are_named: bool = False) -> Call:
    if not isinstance(node, ast.Call):
        raise UnreadableCall(f"{ast.unparse(node)[:60]} is not a call")
    if are_named and (node.args or any(each.arg is None for each in node.keywords)):
        only = _value(node.args[0]) if len(node.args) == 1 and not node.keywords else None
        if not isinstance(only, dict):
            raise UnreadableCall(f"{ast.unparse(node)[:60]} has arguments without names")
        return _dotted(node.func), {str(key): value for key, value in only.items()}
    return _dotted(node.func), {str(each.arg): _value(each.value) for each in node.keywords}


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    return ".".join(reversed(parts))


def _value(node: ast.expr) -> object:
    """Return the value of an argument; names, and calls without named arguments, are their own text."""
    match node:
        case ast.Constant(value=value):
            return "..." if value is Ellipsis else value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -number
        case ast.List(elts=items):
            return [_value(item) for item in items]
        case ast.Tuple(elts=items):
            return tuple(_value(item) for item in items)
        case ast.Dict(keys=keys, values=values) if all(keys):
            return {_value(k): _value(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.BinOp():
            return _computed(node)
        case ast.Call(keywords=keywords) if keywords:
            name, arguments = _python_call(node)
            return {name: arguments}
        case ast.Name() | ast.Call() | ast.Subscript():
            return ast.unparse(node)
    raise UnreadableCall(f"{ast.unparse(node)[:60]} is not a value")


def _computed(node: ast.expr) -> object:
    """Return the result of arithmetic with numbers, and of texts that are joined; anything else is not a value."""
    if not isinstance(node, ast.BinOp):
        return _value(node)
    left, right, kind = _computed(node.left), _computed(node.right), type(node.op)
    if isinstance(left, int | float) and isinstance(right, int | float):
        is_allowed = kind is not ast.Pow or (abs(left) <= 1e6 and abs(right) <= LARGEST_POWER)
    else:
        is_allowed = kind is ast.Add and type(left) is type(right) is str
    if kind in _OPERATORS and is_allowed:
        return _OPERATORS[kind](left, right)
    raise UnreadableCall(f"{ast.unparse(node)[:60]} is not a value")


def python_call_text(name: str, arguments: Mapping[str, object]) -> str:
    """Return a call in Python's syntax, with literal arguments."""
    return source_call_text(name, {key: repr(value) for key, value in arguments.items()})


def source_call_text(name: str, arguments: Mapping[str, object]) -> str:
    """Return a call whose arguments are source texts."""
    return f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


# ------------------------------------------------------------------------------------ Java and JavaScript


def java_calls(text: str) -> list[Call]:
    """Return the calls of a Java or JavaScript text; every argument is a text, a string without its quotes.

    Raises: UnreadableCall.
    """
    inner = text.strip()
    inner = inner[1:-1] if inner.startswith("[") and inner.endswith("]") else inner
    return [_source_call(part) for part in _split(inner) if part.strip()]


def _source_call(text: str) -> Call:
    match, bare = _NAME.match(text), text.strip().removesuffix(";").rstrip()
    if match is None or not bare.endswith(")"):
        raise UnreadableCall(f"{text.strip()[:60]!r} is not a call")
    inside = text.rstrip().removesuffix(";").rstrip()[match.end() : -1]
    arguments: dict[str, object] = {}
    for part in _split(inside):
        named = _ARGUMENT.match(part)
        if named is None:
            continue  # a positional argument
        if named[1] in arguments:
            raise UnreadableCall(f"two arguments are called {named[1]}")
        value = part[named.end() :].strip()
        arguments[named[1]] = _closed_up(value) if value.startswith("new ") else _unquoted(value)
    return match[1], arguments


def _closed_up(text: str) -> str:
    """Return a text without white space beside parentheses and commas, as BFCL writes it from its syntax tree."""
    first, *parts = _PUNCTUATION.split(text)
    return "".join([first.rstrip(), *(part.strip() for part in parts[:-1]), parts[-1].lstrip()]) if parts else text


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted and _end_of_string(text, 0) == len(text) else text


def _split(text: str) -> Iterator[str]:
    """Yield the parts between the commas that are in no bracket and no string.

    Raises: UnreadableCall for brackets or quotes that do not close.
    """
    start, at, no_types_before = 0, 0, 0
    open_: list[str] = []
    while at < len(text):
        sign = text[at]
        if sign in "\"'`":
            at = _end_of_string(text, at)
            continue
        if sign == "<" and at >= no_types_before and at and (text[at - 1].isalnum() or text[at - 1] in "_$"):
            no_types_before = cast("re.Match[str]", _TYPES.match(text, at)).end()
            at = max(at, text.rfind(">", at, no_types_before)) + 1
            continue
        if sign in _CLOSING:
            open_.append(_CLOSING[sign])
        elif sign in ")]}":
            if not open_ or open_.pop() != sign:
                raise UnreadableCall(f"'{sign}' at character {at} closes nothing")
        elif sign == "," and not open_:
            yield text[start:at]
            start = at + 1
        at += 1
    if open_:
        raise UnreadableCall(f"'{open_[-1]}' is missing")
    yield text[start:]


def _end_of_string(text: str, at: int) -> int:
    """Return the position after the string that begins at `at`. Raises: UnreadableCall where it does not end."""
    quote, at = text[at], at + 1
    while at < len(text):
        if text[at] == quote:
            return at + 1
        at += 2 if text[at] == "\\" else 1
    raise UnreadableCall(f"a string that begins with {quote} does not end")
