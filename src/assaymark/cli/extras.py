"""Parts shared by commands that serve pages: their options, and the check for the extra that they need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import click

from assaymark.cli.output import OptionDecorator, with_options
from assaymark.errors import MissingExtra
from assaymark.registry import Registry

WEB = ("fastapi", "uvicorn", "nh3", "markdown_it", "prometheus_client")  # what the extra `web` installs


@dataclass(frozen=True, slots=True)
class ServedPart:
    """The part that a feature adds to `assaymark serve` if its options ask for it.

    options: decorators that add them; features: a function of the command's options (among them `boards`, the files
    that are served) and the store's location that returns `web.app.Feature`s, none where nothing is asked for.
    """

    options: tuple[OptionDecorator, ...]
    features: Callable[[Mapping[str, object], str | None], Sequence[object]]


_PARTS: Registry[ServedPart] = Registry("served", "part of the server")


def served_options() -> OptionDecorator:
    """Return the decorator that adds the options of every part of the server; they arrive as keywords."""
    return with_options(*(option for name in reversed(list(_PARTS)) for option in _PARTS.load(name).options))


def served_features(options: Mapping[str, object], store: str | None) -> list[object]:
    """Return the features that the options of registered parts ask for. Raises: UsageError, MissingExtra."""
    return [feature for name in _PARTS for feature in _PARTS.load(name).features(options, store)]


def has_web() -> bool:
    """Return whether the extra `web` is installed."""
    return all(find_spec(name) is not None for name in WEB)


def need_web(command: str) -> None:
    """Raise MissingExtra if packages that pages need are not installed."""
    if not has_web():
        raise MissingExtra(command, "web")


def serving_options(port: int) -> OptionDecorator:
    """Return a decorator that adds the options of a command with pages; they are the keywords of `web.serve.Where`.

    port: the default.
    """
    return with_options(
        click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on."),
        click.option("--port", default=port, show_default=True, type=click.IntRange(0, 65535),
                     help="Port to listen on; 0: any free port."),
        click.option(
            "--allow_host", multiple=True, metavar="NAME", help="Host name that browsers may use; repeatable."
        ),
        click.option(
            "--proxy",
            multiple=True,
            metavar="ADDRESS",
            help="Address of a reverse proxy whose X-Forwarded-For and X-Forwarded-Proto are believed. Repeatable.",
        ),
        click.option("--access_log", type=click.Choice(["text", "json"]),
                     help="Print one line for each request, with the visitor's address."),
        click.option(
            "--metrics", metavar="[ADDRESS:]PORT", help="Serve metrics for Prometheus, at /metrics of this address."
        ),
    )  # fmt: skip
