"""Lists of traces: the queries in their addresses, and a trace's row as JSON."""

import math
import re
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from assaymark.applications.traces.trace_rows import ScoreCondition, TraceFilter
from assaymark.errors import UnknownName, UsageError

PERIODS = (("", "any time"), ("1", "last hour"), ("24", "last day"), ("168", "last week"), ("720", "last 30 days"))
ERRORS = {"": None, "yes": True, "no": False}
PLACES = ("before", "sort", "page")  # parameters that select a page of a list, not its content
MOST_PAGES = 10_000
LONGEST = 500  # characters of a value
_SCORE = re.compile(r"(?P<name>[^<>=]+)(?P<sign>>=|<=|>|<|=)(?P<number>[^<>=]+)")


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The query in a list's address, as written; "" for a field that is not given."""

    q: str = ""  # words and quoted phrases
    hours: str = ""  # of the last ones
    start: str = ""  # date, or a time as 2026-11-24T13 or 2026-11-24T13:05, UTC
    end: str = ""  # the same, included
    version: str = ""
    service: str = ""
    model: str = ""
    user: str = ""
    session: str = ""
    errors: str = ""  # yes | no
    slower: str = ""  # seconds
    dearer: str = ""  # cost
    score: str = ""  # name and number, as thumbs<1
    before: str = ""  # `at` and trace id of the last trace of the page before
    sort: str = ""  # of trace_log.ORDERS
    page: str = ""  # number of the page, in an order other than by time

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "ListQuery":
        """Read the filter from an address's parameters; unknown ones are ignored."""
        return cls(**{field.name: values.get(field.name, "").strip()[:LONGEST] for field in fields(cls)})

    @classmethod
    def of_text(cls, text: str) -> "ListQuery":
        """Read the filter from words such as `version=1.2 errors=yes q='no station'`.

        `score<0.5` stands for `score="score<0.5"`: any other comparison is a condition on the score of that name.

        Raises: UsageError for an unknown word.
        """
        known = [field.name for field in fields(cls) if field.name not in PLACES]
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(
                f"the filter {text[:80]!r} cannot be read: {error}; expected NAME=VALUE NAME=VALUE"
            ) from None
        values: dict[str, str] = {}
        for word in words:
            name, equals, value = word.partition("=")
            if not (equals and name in known):
                name, value = "score", word
                if _SCORE.fullmatch(word) is None or not set("<>") & set(word):
                    raise UnknownName("word of the filter", word.partition("=")[0][:40], known, "expected NAME=VALUE")
            if name in values:
                raise UsageError(f"the filter names {name} twice; expected each word once")
            values[name] = value
        query = cls.of(values)
        query.filter()
        return query

    @property
    def text(self) -> str:
        """The same as words, as `of_text` reads them."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in PLACES}
        return " ".join(f"{name}={shlex.quote(value)}" for name, value in values.items() if value)

    def filter(self) -> TraceFilter:
        """Return the condition on traces. Raises: UsageError for an invalid value."""
        hours = _number(self.hours, "hours")
        since = None if hours is None else int((time.time() - min(hours, 1e6) * 3600) * 1e9)
        start, end = _day(self.start, "start"), _day(self.end, "end")
        if start is not None:
            since = max(since or 0, int(start.timestamp()) * 10**9)
        _, named = _precision(self.end)  # what an address names by its start
        if self.errors not in ERRORS:
            raise UsageError(f"errors is '{self.errors[:40]}'; expected yes or no")
        return TraceFilter(
            since=since,
            until=None if end is None else int((end + named).timestamp()) * 10**9,
            version=self.version or None,
            service=self.service or None,
            model=self.model or None,
            user=self.user or None,
            session=self.session or None,
            has_error=ERRORS[self.errors],
            least_seconds=_number(self.slower, "slower"),
            least_cost=_number(self.dearer, "dearer"),
            score=score_condition(self.score) if self.score else None,
            text=self.q or None,
            before=_position(self.before),
        )

    def address(self, **changed: str) -> str:
        """Return the address of this list with some values changed."""
        values = {field.name: getattr(self, field.name) for field in fields(self)} | changed
        parameters = {name: value for name, value in values.items() if value}
        return "/traces" + (f"?{urlencode(parameters)}" if parameters else "")

    @property
    def is_narrowed(self) -> bool:
        """Whether it has any condition."""
        return any(getattr(self, field.name) for field in fields(self) if field.name not in PLACES)

    @property
    def number(self) -> int:
        """The number of the page, from 1. Raises: UsageError."""
        return max(1, min(int(_number(self.page, "page") or 1), MOST_PAGES))

    def sorted_by(self, key: str) -> str:
        """Return the address of the first page of this list in another order."""
        return self.address(sort=key, before="", page="")


def _number(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1e12:
        raise UsageError(f"{name} is '{text[:40]}'; expected a number from 0")
    return number


def score_condition(text: str) -> ScoreCondition:
    """Return a condition such as `thumbs<1`. Raises: UsageError."""
    read = _SCORE.fullmatch(text)
    try:
        number = math.nan if read is None else float(read["number"])
    except ValueError:
        number = math.nan
    if read is None or not math.isfinite(number):
        raise UsageError(f"score is '{text[:40]}'; expected a name, a sign and a number, as faithfulness>=0.5")
    return ScoreCondition(read["name"].strip(), read["sign"], number)


def _precision(text: str) -> tuple[str, timedelta]:
    """Return the format of a date or time, and the length of what it names."""
    if "T" not in text:
        return "%Y-%m-%d", timedelta(days=1)
    return ("%Y-%m-%dT%H:%M", timedelta(minutes=1)) if ":" in text else ("%Y-%m-%dT%H", timedelta(hours=1))


def _day(text: str, name: str) -> datetime | None:
    if not text:
        return None
    try:
        day = datetime.strptime(text, _precision(text)[0]).replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(
            f"{name} is '{text[:40]}'; expected a date as 2026-11-24, or a time as 2026-11-24T13 or 2026-11-24T13:05"
        ) from None
    if not 1971 <= day.year <= 2250:
        raise UsageError(f"{name} is '{text[:40]}'; expected a date from 1971 to 2250")
    return day


def _position(text: str) -> tuple[int, bytes] | None:
    if not text:
        return None
    at, _, trace = text.partition("-")
    try:
        if len(at) <= 19 and at.isascii() and at.isdigit() and len(trace) == 32:
            return int(at), bytes.fromhex(trace)
    except ValueError:
        pass
    raise UsageError("the address of this page is damaged; begin again with the first page")
