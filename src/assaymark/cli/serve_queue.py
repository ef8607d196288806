"""The options of `assaymark serve` that make it take submissions."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from assaymark.errors import UsageError

__all__ = ["queue_options", "queue_parts"]

_OPTIONS = (
    click.option("--submissions", is_flag=True, help="Take submissions: pages for submitting, queue and reports."),
    click.option(
        "--allow_folder",
        multiple=True,
        metavar="DIR",
        help="Folder whose models may be submitted by name; give it to the workers too. Repeatable.",
    ),
    click.option("--no_hub", is_flag=True, help="Take no models of the Hub."),
    click.option(
        "--proxy",
        multiple=True,
        metavar="ADDRESS",
        help="Address of a reverse proxy whose X-Forwarded-For and X-Forwarded-Proto are believed. Repeatable.",
    ),
    click.option("--user_header", default="", metavar="NAME", help="Header in which that proxy tells who signed in."),
    click.option(
        "--moderator", multiple=True, metavar="NAME", help="One of those signed in, who moderates. Repeatable."
    ),
)


def queue_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command; they arrive as keywords."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def queue_parts(boards: Sequence[str], store: str | None, given: dict[str, Any]) -> list[Any]:
    """Return the parts of the application that the options ask for.

    Raises: UsageError for options that need others, a folder that is not there, or boards without tasks.
    """
    if not given["submissions"]:
        needing = [name for name in ("allow_folder", "no_hub", "user_header", "moderator") if given[name]]
        if needing:
            raise UsageError(f"--{needing[0]} is for submissions; add --submissions")
        return []
    if given["user_header"] and not given["proxy"]:
        raise UsageError("--user_header is believed from a reverse proxy only; name its address with --proxy")
    from assaymark.leaderboard.submission.checks import Policy
    from assaymark.leaderboard.submission.host import boards_of, folders_of
    from assaymark.leaderboard.submission.sources import FolderModels, ModelSource
    from assaymark.store import Store
    from assaymark.web.routes.queue import queue_part

    folders = folders_of(given["allow_folder"])
    sources: list[ModelSource] = [FolderModels(folders)] if folders else []
    if not given["no_hub"]:
        from assaymark.leaderboard.submission.hub_models import HubModels

        sources.append(HubModels())
    if not sources:
        raise UsageError("there is no place that models may come from; name one with --allow_folder, or omit --no_hub")
    part = queue_part(
        Store.open(store),
        boards_of(boards),
        sources,
        Policy(),
        user_header=given["user_header"],
        proxies=given["proxy"],
        moderators=given["moderator"],
    )
    return [part]
