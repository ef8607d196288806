"""The search language: `mistral; llama license:apache-2.0 type:chat params:<8 -merged:true`.

Segments between `;` are alternatives; within a segment everything must hold. A bare word is part of a model's name,
whatever its case; quotes keep spaces and colons together; `-` before a term negates it. `key:value` compares:

- numbers: `params:<8`, `params:>=7`, `params:7..13`; `params:8` finds what rounds to 8
- yes or no: `merged:true`, `moe:no`
- dates: `date:2024-06`, `date:>2024-06-15`
- choices: `type:chat`, `precision:bf16`; other text from the start of a word: `license:apache`; whole: `license:=mit`

Two older notations keep their meaning: a segment that holds only `license:` restricts all segments with names, at any
position (Open LLM Leaderboard v1); `@key:value` belongs to its own segment only, even if nothing else is in it (v2). An
unknown key is an error that names the nearest key and all keys.

A search is frozen data: a row has to fulfil all terms of one of its groups. `index` runs it on a table.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.columns import FACTS, FactColumn, Kind, canonical
from assaymark.registry import nearest

Operator = Literal["contains", "begins", "is", "<", "<=", ">", ">=", "within"]
NAME = "model"  # the key of a model's name


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on a row.

    `contains` looks for text anywhere (names), `begins` at the start of a word (`apache` finds `apache-2.0`), `is`
    compares whole values, `within` takes low <= value <= high. A row without the value fulfils no term, and therefore
    each negated one.
    """

    key: str  # NAME, a column's key, or `average`
    operator: Operator
    value: str | float | bool | tuple[float, float]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """A row fulfils it if it fulfils every term of at least one group; without groups every row does."""

    groups: tuple[tuple[Term, ...], ...] = ()


EVERYTHING = Condition()


LONGEST = 1000  # characters of a query
MOST_SEGMENTS = 40
MOST_TERMS = 40  # in one segment
LICENCE = "licence"
_TOKEN = re.compile(r'(?:"[^"]*"?|[^\s"])+')
_SEGMENT = re.compile(r'(?:"[^"]*"?|[^;"])+')
_KEYED = re.compile(r"([^\s:\"]+):(.*)", re.DOTALL)
_COMPARED = re.compile(r"(<=|>=|<|>|=)?(.*)", re.DOTALL)
_DATE = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
_YES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True)
class _Key:
    """A key that may stand before a colon."""

    name: str  # of the column
    kind: Kind | Literal["score"]
    column: FactColumn | None = None


SearchKeys = Mapping[str, _Key]


def search_keys(scores: Mapping[str, str]) -> SearchKeys:
    """Return the names allowed before a colon on a board: its score columns (key -> title) and the shared ones."""
    keys = {key.lower(): _Key(key, "score") for key in ("average", *scores)}
    keys |= {_plain(title): _Key(key, "score") for key, title in scores.items() if _plain(title) not in keys}
    keys |= {"avg": _Key("average", "score"), NAME: _Key(NAME, "text"), "name": _Key(NAME, "text")}
    for column in FACTS:
        for name in (column.key, *column.aliases):
            keys[name] = _Key(column.key, column.kind, column)
    return keys


def _plain(title: str) -> str:
    return re.sub(r"[\s:\"]+", "-", title.strip().lower())


def parse_query(text: str, keys: SearchKeys) -> Condition:
    """Return the condition of a query.

    Raises: UsageError for a query that is too long or has a value that its key does not take; UnknownName for a key
    or a choice that does not exist.
    """
    if len(text) > LONGEST:
        raise UsageError(f"the search has {len(text):,} characters; at most {LONGEST:,} are read")
    segments = [segment for part in _SEGMENT.findall(text) if (segment := _terms(part, keys))]
    if len(segments) > MOST_SEGMENTS:
        raise UsageError(f"the search has {len(segments)} segments; at most {MOST_SEGMENTS} are read")
    licences = [segment.terms for segment in segments if segment.only_licence]
    named = [segment.terms for segment in segments if not segment.only_licence and not segment.only_at]
    apart = [segment.terms for segment in segments if segment.only_at]
    if licences and named:
        named = [(*terms, *licence) for terms in named for licence in licences]
    elif licences:
        named = licences
    return Condition((*named, *apart))


@dataclass(frozen=True, slots=True)
class _Segment:
    terms: tuple[Term, ...]
    only_licence: bool  # nothing but `license:`, without @
    only_at: bool  # nothing but @ terms


def _terms(text: str, keys: SearchKeys) -> _Segment | None:
    tokens = _TOKEN.findall(text)
    if len(tokens) > MOST_TERMS:
        raise UsageError(f"a segment of the search has {len(tokens)} terms; at most {MOST_TERMS} are read")
    terms = tuple(_term(token, keys) for token in tokens)
    with_at = [token.lstrip("-").startswith("@") for token in tokens]
    return (
        _Segment(terms, all(term.key == LICENCE for term in terms) and not any(with_at), all(with_at))
        if terms
        else None
    )


def _term(token: str, keys: SearchKeys) -> Term:
    negated = token.startswith("-") and len(token) > 1
    bare = token[1:] if negated else token
    keyed = _KEYED.fullmatch(bare.removeprefix("@"))
    if keyed is None:
        if bare.startswith("@"):
            raise UsageError(f"'{bare}' lacks its value; expected for example @license:apache-2.0")
        return Term(NAME, "contains", _unquoted(bare).lower(), negated)
    name, value = keyed[1].lower(), keyed[2]
    if name not in keys:
        known = ", ".join(sorted({key.name for key in keys.values()}))
        close = nearest(name, keys)
        raise UnknownName("search key", name, close, f'to look for the text itself write "{bare}"; keys: {known}')
    if not value.strip('"'):
        raise UsageError(f"'{token}' lacks its value; expected for example {name}:{_example(keys[name])}")
    return _keyed_term(keys[name], name, value, negated)


def _keyed_term(key: _Key, name: str, text: str, negated: bool) -> Term:
    match = _COMPARED.fullmatch(text)
    sign, value = (match[1] or "", _unquoted(match[2])) if match else ("", _unquoted(text))
    if key.kind in {"number", "score"}:
        return Term(key.name, *_number(name, sign, value), negated)
    if key.kind == "date":
        return Term(key.name, *_date(name, sign, value), negated)
    if sign not in {"", "="}:
        raise UsageError(f"'{name}:{text}': {name} is not a number; expected {name}:{_example(key)}")
    if key.kind == "flag":
        if value.lower() not in _YES:
            raise UsageError(f"'{name}:{text}': expected {name}:true or {name}:false")
        return Term(key.name, "is", _YES[value.lower()], negated)
    if key.kind == "choice" and key.column is not None:
        return Term(key.name, "is", canonical(key.column, value).lower(), negated)
    operator: Operator = "is" if sign else "contains" if key.name == NAME else "begins"
    return Term(key.name, operator, value.lower(), negated)


def _number(name: str, sign: str, value: str) -> tuple[Operator, float | tuple[float, float]]:
    low, dots, high = value.partition("..")
    if dots and not sign:
        return "within", (_float(name, low) if low else float("-inf"), _float(name, high) if high else float("inf"))
    number = _float(name, value)
    if sign in {"<", "<=", ">", ">="}:
        return sign, number  # type: ignore[return-value]
    if sign == "=":
        return "within", (number, number)
    digits = len(value.strip().rstrip("%bB").partition(".")[2])
    half = 0.5 * 10.0**-digits
    return "within", (number - half, number + half)


def _float(name: str, text: str) -> float:
    bare = text.strip().rstrip("%bB")
    if not re.fullmatch(r"-?\d{1,15}(\.\d{1,15})?", bare):
        raise UsageError(f"'{name}:{text[:40]}' has no number; expected for example {name}:<8 or {name}:7..13")
    return float(bare)


def _date(name: str, sign: str, value: str) -> tuple[Operator, str]:
    if not _DATE.fullmatch(value):
        raise UsageError(f"'{name}:{value[:40]}' has no date; expected for example {name}:>2024-06-15")
    if sign in {"<", ">="}:
        return sign, value  # type: ignore[return-value]
    if sign in {"<=", ">"}:  # to the end of the named day, month or year
        return sign, f"{value}\uffff"  # type: ignore[return-value]
    return "begins", value


def _example(key: _Key) -> str:
    if key.column is not None and key.column.choices:
        return key.column.choices[0]
    return {"number": "<8", "score": ">50", "flag": "true", "date": ">2024-06-15"}.get(key.kind, "word")


def _unquoted(text: str) -> str:
    return text.replace('"', "")
