"""Rendering of a page's contents as HTML, or as JSON if its twin is requested.

Templates escape everything, and characters that could reorder or hide text are shown as escapes (`printable`). Numbers
are formatted only here; they are computed in leaderboard and report.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from fastapi import HTTPException, Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from assaymark.documents.document import Document
from assaymark.documents.html import html_blocks
from assaymark.documents.numbers import NOTHING, counted, four_digits, shown_p, significant
from assaymark.documents.plain_text import printable
from assaymark.limits.shown_paths import without_folders
from assaymark.records import JsonValue, with_filter
from assaymark.records.json_values import json_fields, json_of
from assaymark.settings import VERSION
from assaymark.web.accounts import Account, Accounts
from assaymark.web.answers import answer_html
from assaymark.web.security import markdown

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

JSON = ".json"  # the ending of the address of a page's JSON twin

FOLDER = Path(__file__).resolve().parent
STATIC = FOLDER / "static"
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
THEMES = ("auto", "light", "dark")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*(?:/[A-Za-z0-9][\w.+-]*)*", re.ASCII)


class RenderedInterval(Protocol):
    """A value with the ends of its interval, if it has one."""

    @property
    def value(self) -> float:
        """The value."""

    @property
    def low(self) -> float | None:
        """The lower end."""

    @property
    def high(self) -> float | None:
        """The upper end."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """The environment in which the pages of a feature are rendered."""

    templates: Path | None = None  # its folder of templates
    filters: Mapping[str, Callable[..., object]] = field(default_factory=dict)  # of its templates, by name


NO_DRAWING = Drawing()


@dataclass(frozen=True)
class DocumentPage:
    """A page that is one document, shown by `document.html`."""

    title: str
    document: Document
    twin: JsonValue  # the result's record
    legend: str = ""

    json_keys = "*twin"


def respond(request: Request, template: str, page: object, *, as_json: bool = False, status: int = 200) -> Response:
    """Return a page as HTML, or as JSON made from the same object."""
    if as_json:
        content = page.to_json() if hasattr(page, "to_json") else plain(page)
        body = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1).encode("utf-8", "backslashreplace")
        return Response(body, status, media_type="application/json")
    theme = request.cookies.get("theme", "auto")
    viewer = viewer_of(request)
    state = request.app.state if "app" in request.scope else None
    context = {
        "page": page,
        "theme": theme if theme in THEMES else "auto",
        "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        "path": request.url.path,
        "version": VERSION,
        "takes_flags": getattr(state, "takes_flags", False),
        "links": getattr(state, "links", ()),
        "home": getattr(state, "home", "/"),
        "live": True,
        "signs_in": getattr(state, "accounts", None) is not None,
        "viewer": viewer.name if viewer else "",
        **getattr(request.state, "context", {}),  # of an exported page
    }
    text = _environment().get_template(template).render(context)
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="text/html; charset=utf-8")


def viewer_of(request: Request) -> Account | None:
    """Return the signed-in account; None for a reader, and if nobody can sign in."""
    accounts = getattr(request.app.state, "accounts", None) if "app" in request.scope else None
    if not isinstance(accounts, Accounts):
        return None
    try:
        return accounts.of(request)
    except HTTPException:  # a program's invalid token, which the requested page refuses
        return None


def wants_json(request: Request) -> bool:
    """Return whether a page's JSON twin is requested."""
    return request.url.path.endswith(JSON)


def plain(value: object) -> JsonValue:
    """Return records as JSON (see `json_of`), paths as their last part."""
    return json_of(value, _plain_text)


def plain_fields(record: "DataclassInstance") -> dict[str, JsonValue]:
    """Return a record as a JSON object; see `plain`."""
    return json_fields(record, other=_plain_text)


def _plain_text(value: object) -> str:
    return value.name if isinstance(value, Path) else str(value)


def model_path(name: str) -> str:
    """Return the address of a model's page: its name if that is a plain one, else a hash of it."""
    if len(name) <= 200 and _SAFE_NAME.fullmatch(name) and not name.endswith(".json"):
        return f"/model/{quote(name, safe='/+')}"
    return f"/model/~{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def add_drawing(drawing: Drawing) -> None:
    """Let pages use a feature's templates and filters."""
    environment = _environment()
    loader = environment.loader
    if drawing.templates is not None and isinstance(loader, FileSystemLoader):
        folder = str(drawing.templates)
        loader.searchpath += [] if folder in loader.searchpath else [folder]
    environment.filters.update(drawing.filters)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters |= {
        "score": shown_score,
        "ends": shown_ends,
        "points": lambda value: NOTHING if value is None else f"{100 * value:+.1f}",
        "counted": counted,
        "with_filter": with_filter,
        "p": shown_p,
        "sig": lambda value: NOTHING if value is None else four_digits(float(value)),
        "fact": shown_fact,
        "of_metric": shown_of_metric,
        "day": lambda text: str(text)[:10],
        "minute": lambda text: str(text)[:16].replace("T", " "),
        "moment": shown_moment,
        "duration": shown_duration,
        "markdown": markdown,
        "blocks": lambda blocks, title: Markup(html_blocks(blocks, title)),  # noqa: S704 - the writer escapes every text
        "answer": answer_html,
        "model_path": model_path,
        "in_path": lambda text: quote(str(text), safe=""),
    }
    environment.filters["without_folders"] = without_folders
    environment.globals["asset"] = _asset
    return environment


def _printable(value: object) -> object:
    if isinstance(value, Markup):
        return value
    return printable(value) if isinstance(value, str) else value


@cache
def _asset(name: str) -> str:
    """Return the URL of a static file; it changes with the file, which may be cached for ever."""
    return f"/static/{name}?v={sha256((STATIC / name).read_bytes()).hexdigest()[:10]}"


def shown_score(number: RenderedInterval | None, share: bool = True) -> str:
    """Return a value as tables show it: shares as per cent without the sign, with one decimal."""
    if number is None:
        return NOTHING
    return f"{100 * number.value:.1f}" if share else four_digits(number.value)


def shown_ends(number: RenderedInterval | None, share: bool = True) -> str:
    """Return the ends of an interval as tables show them; empty where there is none."""
    if number is None or number.low is None or number.high is None:
        return ""
    if share:
        return f"{100 * number.low:.1f}–{100 * number.high:.1f}"
    return f"{significant(number.low, 3)}–{significant(number.high, 3)}"


def shown_of_metric(value: float, metric: str) -> str:
    """Return a sample's score as text; seconds are shown in the largest unit that leaves a number above one."""
    if not metric.endswith("_s") or value < 0:
        return f"{value:g}"
    size, unit = next(((size, unit) for size, unit in SECONDS if value >= size), SECONDS[-1])
    return f"{value / size:.3g} {unit}"


def shown_fact(value: JsonValue, key: str) -> str:
    """Return a model's facts as a table shows them."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in {"params", "price"} and isinstance(value, int | float):
        return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    if key == "sha":
        return str(value).rpartition(":")[2][:10]
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"
    return str(value)


def shown_moment(seconds: float) -> str:
    """Return a time given in seconds since 1970 as tables show it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def shown_duration(seconds: float | None) -> str:
    """Return a duration in the largest unit that leaves a number above one."""
    if seconds is None:
        return NOTHING
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
