"""A reader's view of a table, as stated in the query string of its page, and the rows that it leaves.

Every choice is a parameter, so that a link shows what its sender saw. An invalid parameter is reported on the page and
replaced by its default; none is ignored silently.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict, Unpack
from urllib.parse import urlencode

from assaymark.errors import UsageError
from assaymark.leaderboard.columns import FACTS_BY_KEY, MODEL_TYPES, ORIGINS, canonical
from assaymark.records import JsonValue
from assaymark.records.json_values import dataclass_of

PAGE_SIZES = (25, 50, 100)
LONGEST_PARAMETER = 2000  # characters
MOST_PINS = 20
HIDDEN_BY: dict[str, str] = {
    "merged": "merges",
    "moe": "mixtures of experts",
    "flagged": "flagged models",
    "unavailable": "models no longer on the Hub",
    "partial": "rows without every score",
    "baselines": "baseline rows",
}
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class ViewChanges(TypedDict, total=False):
    """The choices that links change."""

    types: tuple[str, ...]
    sort: str
    pins: tuple[str, ...]
    page: int


@dataclass(frozen=True, slots=True)
class View:
    """A reader's choices; defaults are the board's own view."""

    q: str = ""
    types: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # keys of ORIGINS
    params: tuple[float | None, float | None] = (None, None)  # billions
    hide: tuple[str, ...] = ()  # keys of HIDDEN_BY
    prompts: str = ""  # a prompt set; empty for all
    cols: tuple[str, ...] | None = None  # keys of columns, facts and scores; None: the board's
    sort: str = "-average"
    scale: Literal["norm", "raw"] = "norm"
    rank: Literal["static", "filtered"] = "static"
    average: Literal["all", "visible"] = "all"
    pins: tuple[str, ...] = ()
    page: int = 1
    per: int = 50
    problems: tuple[str, ...] = field(default=(), compare=False)  # parameters that could not be read

    @property
    def sort_key(self) -> str:
        """The column that determines the order."""
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        """Whether the highest comes first."""
        return self.sort.startswith("-")

    def pairs(self) -> list[tuple[str, str]]:
        """Return the parameters that differ from the defaults, in one order."""
        low, high = self.params
        parameters = {
            "q": self.q,
            "types": ",".join(self.types),
            "precisions": ",".join(self.precisions),
            "origins": ",".join(self.origins),
            "params": "" if low is None and high is None else f"{_plain(low)}..{_plain(high)}",
            "hide": ",".join(self.hide),
            "prompts": self.prompts,
            "cols": "" if self.cols is None else ",".join(self.cols) or "none",
            "sort": "" if self.sort == "-average" else self.sort,
            "scale": "" if self.scale == "norm" else self.scale,
            "rank": "" if self.rank == "static" else self.rank,
            "average": "" if self.average == "all" else self.average,
            "pin": ",".join(self.pins),
            "page": "" if self.page == 1 else str(self.page),
            "per": "" if self.per == 50 else str(self.per),
        }
        return [(name, value) for name, value in parameters.items() if value]

    def query(self, **changes: Unpack[ViewChanges]) -> str:
        """Return the query string of this view with some choices changed: `?q=llama&sort=-arc`, or nothing.

        Any change other than of the page or of pins leads to the first page.
        """
        stays = set(changes) <= {"page", "pins"}
        other = replace(self, **changes) if stays else replace(replace(self, page=1), **changes)
        pairs = other.pairs()
        return f"?{urlencode(pairs)}" if pairs else "?"

    def sorted_by(self, key: str, *, descending_first: bool) -> str:
        """Return the query string that sorts by a column, in the other direction if it sorts already."""
        descends = not self.descending if self.sort_key == key else descending_first
        return self.query(sort=f"-{key}" if descends else key)

    def pinning(self, row: str) -> str:
        """Return the query string with a row pinned, or no longer pinned."""
        pins = tuple(pin for pin in self.pins if pin != row) if row in self.pins else (*self.pins, row)
        return self.query(pins=pins)


def parse_view(pairs: Iterable[tuple[str, str]], score_keys: Sequence[str]) -> View:
    """Return the view of a query string; invalid parameters are in its `problems`.

    Args:
        pairs: decoded parameters; one that may have several values holds commas or stands several times.
        score_keys: keys of the table's score columns.
    """
    by_name: dict[str, list[str]] = {}
    problems: list[str] = []
    for name, value in pairs:
        if len(value) > LONGEST_PARAMETER:
            problems.append(f"{name[:40]} has {len(value):,} characters; at most {LONGEST_PARAMETER:,} are read")
        elif value or name == "cols":
            by_name.setdefault(name, []).append(value)
    known: dict[str, object] = {}  # each reader returns what its field holds
    for name, values in by_name.items():
        field_name, read = _READERS.get(name, ("", None))
        if read is None:
            problems.append(f"unknown parameter '{name[:40]}'; known: {', '.join(_READERS)}")
            continue
        try:
            known[field_name] = read(values, score_keys)
        except (UsageError, ValueError) as error:
            problems.append(f"{name}: {error}")
    ends = known.pop("low", None), known.pop("high", None)
    if ends != (None, None):
        known["params"] = ends
    return dataclass_of(View, {**known, "problems": tuple(problems)})


Reader = Callable[[Sequence[str], Sequence[str]], JsonValue]


def _listed(values: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))


def _types(values: Sequence[str], _: Sequence[str]) -> tuple[str, ...]:
    keys = [canonical(FACTS_BY_KEY["type"], text) for text in _listed(values)]
    return tuple(model_type.key for model_type in MODEL_TYPES if model_type.key in keys)


def _precisions(values: Sequence[str], _: Sequence[str]) -> tuple[str, ...]:
    return tuple(canonical(FACTS_BY_KEY["precision"], text)[:40] for text in _listed(values))


def _origins(values: Sequence[str], _: Sequence[str]) -> tuple[str, ...]:
    keys = [_one_of(text, tuple(ORIGINS)) for text in _listed(values)]
    return tuple(origin for origin in ORIGINS if origin in keys)


def _params(values: Sequence[str], _: Sequence[str]) -> tuple[float | None, float | None]:
    low, dots, high = values[-1].partition("..")
    if not dots:
        raise UsageError(f"'{values[-1][:40]}' is not a range; expected for example 3..13, 3.. or ..13")
    return _size(low), _size(high)


def _size(text: str) -> float | None:
    if not text.strip():
        return None
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", text.strip()):
        raise UsageError(f"'{text[:40]}' is not a number of parameters in billions")
    return float(text)


def _one_of(value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise UsageError(f"'{value[:40]}' is not known; expected one of {', '.join(known)}")
    return value


def _cols(values: Sequence[str], score_keys: Sequence[str]) -> tuple[str, ...]:
    wanted = [name for name in _listed(values) if name != "none"]
    return tuple(_one_of(name, ("rank", "average", *FACTS_BY_KEY, *score_keys)) for name in wanted)


def _sort(values: Sequence[str], score_keys: Sequence[str]) -> str:
    wanted = values[-1]
    _one_of(wanted.removeprefix("-"), ("average", "model", *FACTS_BY_KEY, *score_keys))
    return wanted


def _pins(values: Sequence[str], _: Sequence[str]) -> tuple[str, ...]:
    pins = _listed(values)
    if len(pins) > MOST_PINS or not all(_ID.fullmatch(pin) for pin in pins):
        raise UsageError(f"expected at most {MOST_PINS} ids of rows")
    return tuple(pins)


def _page(values: Sequence[str], _: Sequence[str]) -> int:
    if not re.fullmatch(r"[1-9]\d{0,5}", values[-1]):
        raise UsageError(f"'{values[-1][:40]}' is not a page; expected a number from 1")
    return int(values[-1])


def _choice(*known: str) -> Reader:
    return lambda values, _: _one_of(values[-1], known)


_READERS: dict[str, tuple[str, Reader]] = {
    "q": ("q", lambda values, _: values[-1].strip()),
    "types": ("types", _types),
    "precisions": ("precisions", _precisions),
    "origins": ("origins", _origins),
    "params": ("params", _params),
    "min": ("low", lambda values, _: _size(values[-1])),  # the two fields of the form
    "max": ("high", lambda values, _: _size(values[-1])),
    "hide": ("hide", lambda values, _: tuple(_one_of(text, tuple(HIDDEN_BY)) for text in _listed(values))),
    "prompts": ("prompts", lambda values, _: values[-1][:200]),
    "cols": ("cols", _cols),
    "sort": ("sort", _sort),
    "scale": ("scale", _choice("norm", "raw")),
    "rank": ("rank", _choice("static", "filtered")),
    "average": ("average", _choice("all", "visible")),
    "pin": ("pins", _pins),
    "page": ("page", _page),
    "per": ("per", lambda values, _: int(_one_of(values[-1], tuple(map(str, PAGE_SIZES))))),
}


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"
