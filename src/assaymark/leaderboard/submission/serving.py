"""`assaymark serve --submissions`: the pages of the queue, as a part of the server."""

from collections.abc import Mapping
from dataclasses import dataclass

import click

from assaymark.cli.extras import ServedPart
from assaymark.errors import UsageError
from assaymark.records.json_values import dataclass_within

_OPTIONS = (
    click.option("--submissions", is_flag=True, help="Take submissions: pages for submitting, queue and reports."),
    click.option("--allow_folder", multiple=True, metavar="DIR",
                 help="Folder whose models may be submitted by name; give it to the workers too. Repeatable."),
    click.option("--no_hub", is_flag=True, help="Take no models of the Hub."),
    click.option("--precision", multiple=True, metavar="TYPE",
                 help="What the workers load, such as 8bit (default: as the packages of this machine do). Repeatable."),
    click.option("--user_header", default="", metavar="NAME", help="Header in which that proxy tells who signed in."),
    click.option(
        "--moderator", multiple=True, metavar="NAME", help="One of those signed in, who moderates. Repeatable."
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _QueueOptions:
    submissions: bool
    allow_folder: tuple[str, ...]
    no_hub: bool
    precision: tuple[str, ...]
    user_header: str
    moderator: tuple[str, ...]
    boards: tuple[str, ...]
    proxy: tuple[str, ...]


def _features(options: Mapping[str, object], store: str | None) -> list[object]:
    """Return the pages of the queue, if the options ask for them.

    Raises: UsageError for options that need others, a folder that is not there, or boards without tasks.
    """
    chosen = dataclass_within(_QueueOptions, options)
    if not chosen.submissions:
        for name in ("allow_folder", "no_hub", "precision", "user_header", "moderator"):
            if options[name]:
                raise UsageError(f"--{name} is for submissions; add --submissions")
        return []
    if chosen.user_header and not chosen.proxy:
        raise UsageError("--user_header is believed from a reverse proxy only; name its address with --proxy")
    from assaymark.leaderboard.routes.queue import queue_feature
    from assaymark.leaderboard.submission.checks import Policy
    from assaymark.leaderboard.submission.choices import PRECISIONS
    from assaymark.leaderboard.submission.host import boards_of, folders_of
    from assaymark.leaderboard.submission.sources import FolderModels, ModelSource
    from assaymark.store import Store

    if unknown := [each for each in chosen.precision if each not in PRECISIONS]:
        raise UsageError(f"--precision is '{unknown[0]:.40}'; expected one of {', '.join(PRECISIONS)}")
    folders = folders_of(chosen.allow_folder)
    sources: list[ModelSource] = [FolderModels(folders)] if folders else []
    if not chosen.no_hub:
        from assaymark.leaderboard.submission.hub_models import HubModels

        sources.append(HubModels())
    if not sources:
        raise UsageError("there is no place that models may come from; name one with --allow_folder, or omit --no_hub")
    part = queue_feature(
        Store.open(store, follows=True), boards_of(chosen.boards), sources,
        Policy(precisions=chosen.precision or None), user_header=chosen.user_header, proxies=chosen.proxy,
        moderators=chosen.moderator,
    )  # fmt: skip
    return [part]


served_submissions = ServedPart(_OPTIONS, _features)
