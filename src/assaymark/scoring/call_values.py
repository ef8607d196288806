"""Values of Java and JavaScript in the source text of an argument, and their source text.

A parameter's type says how its text is read; a text that is not a literal of the type stays a text, and is then of the
wrong type. Collections are read as far as BFCL reads them: arrays, lists and maps of literals. Some of BFCL's patterns
take exponential time on hostile texts; ours give the same results in at most quadratic time.

Source: BFCL v4 (ShishirPatil/gorilla 6ea57973, bfcl_eval/eval_checker/ast_eval/type_convertor: java_type_converter.py,
    js_type_converter.py; bfcl_eval/constants/type_mappings.py).
"""

import re
from collections.abc import Callable, Mapping, Sequence

JAVA_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), int),
    **dict.fromkeys(("float", "double"), float),
    **dict.fromkeys(("char", "String", "any"), str),
    **dict.fromkeys(("Array", "ArrayList", "Queue", "Stack"), list),
    **dict.fromkeys(("HashMap", "Hashtable"), dict),
    "boolean": bool,
    "Set": set,
}
JAVASCRIPT_KINDS: Mapping[str, type] = {
    "String": str,
    "any": str,
    "integer": int,
    "Bigint": int,
    "float": float,
    "Boolean": bool,
    "dict": dict,
    "array": list,
}

LONGEST = 10_000  # characters of an argument that are read; longer ones stay texts
_INTEGER = r"-?\d+"
_DECIMAL = r"-?\d+(?:\.\d+)?"
_SCIENTIFIC = _DECIMAL + r"(?:[eE][+-]?\d+)?"
Read = Callable[[str], object]


def _number(pattern: str, convert: Read) -> Read:
    """Return a reader of the literals of one pattern; another text stays as it is."""
    compiled = re.compile(rf"{pattern}\Z")
    return lambda text: convert(text) if compiled.match(text) else text


def _whole(text: str) -> object:
    try:
        return int(text)
    except ValueError:  # more digits than Python converts
        return text


def _boolean(text: str) -> object:
    return {"true": True, "false": False}.get(text, text)


# -------------------------------------------------------------------------------------------------- Java

_JAVA: Mapping[str, Read] = {
    **dict.fromkeys(("byte", "short", "integer"), _number(_INTEGER, _whole)),
    "long": _number(_INTEGER + "[lL]", lambda text: _whole(text[:-1])),
    "float": _number(_SCIENTIFIC + "[fF]", lambda text: float(text[:-1])),
    "double": _number(_SCIENTIFIC, float),
    "boolean": _boolean,
}
_AS_LIST = re.compile(r"new\s+ArrayList<\w*>\(Arrays\.asList\((.+?)\)\)")
_ADDED = re.compile(r"new\s+ArrayList<\w*>\(\)\s*\{\{(.+?)\}\}", re.DOTALL)
_EMPTY_LIST = re.compile(r"new\s+ArrayList<\w*>\(\)")
_ARRAY = re.compile(r"new\s+\w+\[\]\s*\{(.*?)\}")
_MAP = re.compile(r"new\s+HashMap<.*?>\s*+\(\)\s*+\{", re.DOTALL)
_PUT = re.compile(r'put\("((?>[^"\n]*+(?:"(?!,)[^"\n]*+)*))",\s*+([^)\n]*+)\)')
_EMPTY_MAP = re.compile(r"new\s+HashMap<.*?>\s*\(\)")


def java_value(text: str, kind: str, item: str | None = None) -> object:
    """Return the value of a Java argument's text; the text itself where it is not a literal of the type.

    Args:
        text: as written, a string without its quotes.
        kind: the parameter's type, a key of JAVA_KINDS.
        item: the type of an array's or list's elements.
    """
    if len(text) > LONGEST:
        return text
    if kind == "ArrayList":
        if match := _AS_LIST.search(text):
            return [_java_item(part, item, strips=True) for part in match[1].split(",")]
        if match := _ADDED.search(text):
            return [_java_item(part, item, strips=True) for part in re.findall(r"add\((.+?)\)", match[1])]
        return [] if _EMPTY_LIST.search(text) else text
    if kind == "Array":
        match = _ARRAY.search(text)
        return text if match is None else [_java_item(part, item) for part in match[1].split(",") if part.strip()]
    if kind == "HashMap":
        if (match := _MAP.search(text)) and (end := text.find("}", match.end())) >= 0:
            pairs = _PUT.findall(text, match.end(), end)
            return {key: _java_literal(value.strip()) for key, value in pairs}
        return {} if _EMPTY_MAP.search(text) else text
    return _JAVA.get(kind, str)(text)


def _java_item(part: str, item: str | None, *, strips: bool = False) -> object:
    part = part.strip()
    if strips and item in ("char", "String"):
        return part[1:-1]  # the quotes
    return java_value(part, item) if item else _java_literal(part)


def _java_literal(text: str) -> object:
    """Return the value of a literal by its form; anything else is its text."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    for kind in ("boolean", "long", "float"):
        value = _JAVA[kind](text)
        if not isinstance(value, str):
            return value
    return _plain_number(text)


def _plain_number(text: str) -> object:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


# -------------------------------------------------------------------------------------------- JavaScript

_JAVASCRIPT: Mapping[str, Read] = {
    "integer": _number(_INTEGER, _whole),
    "Bigint": _number(_INTEGER + "n", lambda text: _whole(text[:-1])),
    "float": _number(_DECIMAL, float),
    "Boolean": _boolean,
    "String": lambda text: text[1:-1] if text[:1] == text[-1:] and text[:1] in ("'", '"') else text,
}
_ROW = r"\[.*?\]\s*"
_ROWS = re.compile(rf"\[\s*{_ROW}(?:,\s*{_ROW})*+\]|\bnew\s+Array\(\s*{_ROW}(?:,\s*{_ROW})*+\)")
_LIST = re.compile(r"\[(.*?)\]|\bnew\s+Array\((.*?)\)")
_OBJECT = re.compile(r"\{(.*?)\}")
_PAIR = re.compile(r"([^:]++):\s*+(.*?)(?:,\s*+(?=[^,][^,:]*+:)|$)")


def javascript_value(text: str, kind: str, item: str | None = None) -> object:
    """Return the value of a JavaScript argument's text; the text itself where it is not a literal of the type.

    Args:
        text: as written, a string without its quotes.
        kind: the parameter's type, a key of JAVASCRIPT_KINDS.
        item: the type of an array's elements.
    """
    if len(text) > LONGEST:
        return text
    if kind == "array":
        return _javascript_array(text.strip(), item)
    if kind == "dict":
        return _javascript_object(text.strip())
    return _JAVASCRIPT.get(kind, str)(text)


def _javascript_array(text: str, item: str | None) -> object:
    rows = _ROWS.match(text)
    if rows is not None:
        pieces = re.findall(r"\[(.*?)\]", rows[0])
        inner = [part.strip().removeprefix("[") if i == 0 else part for i, part in enumerate(pieces)]
        return [[_javascript_literal(each) for each in part.split(",")] for part in inner]
    found_list = _LIST.match(text)
    if found_list is None:
        return text
    content = (found_list[1] if found_list[1] is not None else found_list[2]).strip()
    parts = [part.strip() for part in content.split(",")] if content else []
    return [javascript_value(part, item) if item else _javascript_literal(part) for part in parts]


def _javascript_object(text: str) -> object:
    if text == "{}":
        return {}
    match = _OBJECT.match(text)
    if match is None:
        return text
    pairs = [(key.strip().strip("'\""), value.strip()) for key, value in _PAIR.findall(match[1])]
    return {key: _javascript_member(value) for key, value in pairs}


def _javascript_member(text: str) -> object:
    if text[:1] == "[" and text[-1:] == "]":
        return _javascript_array(text, None)
    if text[:1] == "{" and text[-1:] == "}":
        return _javascript_object(text)
    return _javascript_literal(text.strip("'\""))


def _javascript_literal(text: str) -> object:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return _plain_number(text)


# ----------------------------------------------------------------------------------------------- writing


def java_text(value: object, kind: str, item: str | None = None) -> str:
    """Return the source text of a value of a Java type; a text is its own source, for it may be a variable."""
    if isinstance(value, list) and kind == "ArrayList":
        inner = ", ".join(_java_source(each, item) for each in value)
        return f"new ArrayList<>(Arrays.asList({inner}))" if value else "new ArrayList<>()"
    if isinstance(value, list) and kind == "Array":
        name = {"integer": "int", "any": "Object", None: "Object"}.get(item, item)
        return f"new {name}[]{{{', '.join(_array_source(each, item) for each in value)}}}"
    if isinstance(value, Mapping):
        puts = " ".join(f'put("{key}", {_java_source(each, None)});' for key, each in value.items())
        return f"new HashMap<>() {{{{ {puts} }}}}" if value else "new HashMap<>()"
    return value if isinstance(value, str) else _java_source(value, kind)


def _java_source(value: object, kind: str | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'" if kind == "char" else f'"{value}"'
    ending = {"long": "L", "float": "f"}.get(kind or "", "")
    return f"{float(value) if kind in ('float', 'double') and isinstance(value, int | float) else value}{ending}"


def _array_source(value: object, item: str | None) -> str:
    # BFCL keeps the quotes of strings in arrays with a type of their elements, so its answers are without them
    return value if isinstance(value, str) and item else _java_source(value, item)


def javascript_text(value: object, kind: str, item: str | None = None) -> str:
    """Return the source text of a value of a JavaScript type; a text is its own source, for it may be a variable."""
    if isinstance(value, str):
        return value
    if kind == "Bigint":
        return f"{value}n"
    return _javascript_source(value, item)


def _javascript_source(value: object, item: str | None = None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"'{value}'" if item in (None, "String") else value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"'{key}': {_javascript_source(each)}" for key, each in value.items()) + "}"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_javascript_source(each, item) for each in value) + "]"
    return str(value)
