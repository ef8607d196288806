"""How `assaymark arena serve` puts together the arena and its pages."""

from typing import Any

from assaymark.cli.output import echo
from assaymark.cli.serve import need_extra
from assaymark.errors import UsageError

__all__ = ["serve_arena"]


def serve_arena(
    *, answers: tuple[str, ...], task: str | None, store: str | None, host: str, port: int, **given: Any
) -> None:
    """Serve battles until a signal stops the process.

    Raises: as `open_answers`, `hosts_for` and `listen`; MissingExtra without the extra `web`.
    """
    need_extra("assaymark arena serve")
    if given["endpoint_key"] or given["moderation"]:
        raise UsageError("--endpoint_key and --moderation are for live battles; name models with --endpoint NAME=URL")
    from assaymark.arena.answer_files import open_answers
    from assaymark.arena.battles import Arena, Publishing
    from assaymark.arena.rating_boards import Ratings
    from assaymark.arena.voters import VoteLimits
    from assaymark.leaderboard.site import Site
    from assaymark.store import Store
    from assaymark.web.app import create_app
    from assaymark.web.routes.arena import arena_part
    from assaymark.web.serve import hosts_for, listen, serve

    hosts = hosts_for(host, given["allow_host"])
    with Store.open(store, hidden_for="answers of battles") as opened:
        source, n_named = open_answers(answers, opened, task)
        if n_named:
            echo(f"left out: {n_named:,} answers that name a model", err=True)
        limits = VoteLimits(given["cooldown"], given["votes_per_day"], given["address_votes_per_day"],
                            3 * given["address_votes_per_day"])  # fmt: skip
        arena = Arena(opened, source, limits, Publishing(votes=given["batch"]))
        part = arena_part(arena, Ratings(opened))
        app = create_app(Site([]), hosts, [part], given["proxy"])
        with listen(host, port) as listening:
            shown = f"{len(source.models)} models, {source.name}"
            serve(app, listening, lambda url: echo(f"Arena ({shown}) at {url}arena  (stop with Ctrl-C)"))
