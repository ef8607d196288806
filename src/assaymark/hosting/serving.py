"""`assaymark serve --endpoint`: the chat with models, as a part of the server."""

from collections.abc import Mapping
from dataclasses import dataclass

import click

from assaymark.cli.extras import ServedPart
from assaymark.records.json_values import dataclass_within

_OPTIONS = (
    click.option(
        "--endpoint", multiple=True, metavar="NAME=URL", help="Model that visitors may chat with; repeatable."
    ),
    click.option("--endpoint_key", multiple=True, metavar="NAME=@FILE", help="Key of an endpoint; repeatable."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _ChatOptions:
    endpoint: tuple[str, ...]
    endpoint_key: tuple[str, ...]


def _features(options: Mapping[str, object], store: str | None) -> list[object]:  # noqa: ARG001 - a chat is not stored
    """Return the chat, where there are endpoints. Raises: UsageError for an endpoint that cannot be read."""
    from assaymark.hosting.chat_routes import chat_feature
    from assaymark.hosting.endpoints import read_endpoints

    chosen = dataclass_within(_ChatOptions, options)
    endpoints = read_endpoints(chosen.endpoint, chosen.endpoint_key)
    return [chat_feature(endpoints)] if endpoints else []


served_chat = ServedPart(_OPTIONS, _features)
