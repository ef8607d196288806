"""How `assaymark arena serve` puts together live battles, and hosts the demo models for them."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from assaymark.cli.output import echo
from assaymark.cli.serve import need_extra
from assaymark.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from assaymark.arena.live_battles import LiveLimits
    from assaymark.arena.voters import VoteLimits

__all__ = ["serve_live"]

DEMO_TOKENS, DEMO_TURNS = 96, 5  # which fit into the 1,024 positions of the demo models


def serve_live(*, answers: tuple[str, ...], task: str | None, store: str | None, demo: bool, **given: Any) -> None:
    """Serve live battles until a signal stops the process.

    Raises: as `read_endpoints`, `hosts_for` and `listen`; MissingExtra without the extra `web`, or `hf` for the demo.
    """
    need_extra("assaymark arena serve")
    from assaymark.arena.ballots import Publishing
    from assaymark.arena.live_battles import LiveArena
    from assaymark.arena.pacing import Cadence
    from assaymark.arena.rating_boards import Ratings
    from assaymark.leaderboard.site import Site
    from assaymark.store import Store
    from assaymark.web.app import create_app
    from assaymark.web.endpoints import read_endpoints
    from assaymark.web.routes.live_battles import live_part
    from assaymark.web.secret import server_secret
    from assaymark.web.serve import hosts_for, listen, serve

    if answers or task:
        raise UsageError("--answers and --task are for stored answers, --endpoint and --demo for live ones; give one")
    hosts = hosts_for(given["host"], given["allow_host"])
    limits, vote_limits = _limits(demo=demo, **given)
    moderate = _moderation(given["moderation"])
    with ExitStack() as stack:
        named = list(given["endpoint"])
        if demo:
            named += stack.enter_context(_demo_hosts())
        endpoints = read_endpoints(named, given["endpoint_key"])
        if len(endpoints) < 2:
            raise UsageError(f"a battle needs two models; only '{endpoints[0].name}' is named; add --endpoint NAME=URL")
        opened = stack.enter_context(Store.open(store, hidden_for="live battles"))
        arena = LiveArena(
            opened, [one.name for one in endpoints], server_secret(), limits, vote_limits,
            Publishing(votes=given["batch"]), Cadence.of(given["cadence"]),
            other_names=[one.model for one in endpoints if one.model],
            base_models=frozenset(one.name for one in endpoints if one.is_base),
        )  # fmt: skip
        part = live_part(arena, endpoints, Ratings(opened), moderate, lambda line: echo(line, err=True))
        app = create_app(Site([]), hosts, [part], given["proxy"])
        with listen(given["host"], given["port"]) as listening:
            serve(app, listening, lambda url: echo(f"Arena ({len(endpoints)} live models) at {url}arena  "
                                                   "(stop with Ctrl-C)"))  # fmt: skip


def _limits(*, demo: bool, **given: Any) -> "tuple[LiveLimits, VoteLimits]":
    """Return the limits of battles and of voters. Raises: UsageError for a cadence or a time that is none."""
    from assaymark.arena.live_battles import LiveLimits
    from assaymark.arena.voters import VoteLimits

    if not 1 <= given["cadence"] <= 100_000:
        raise UsageError(f"--cadence {given['cadence']:g}; expected 1 to 100,000 characters per second")
    if given["answer_seconds"] <= 0:
        raise UsageError(f"--answer_seconds {given['answer_seconds']:g}; expected more than 0")
    turns, tokens = given["turns"], given["max_tokens"]
    if demo:
        turns, tokens = min(turns, DEMO_TURNS), min(tokens, DEMO_TOKENS)
    per_day = given["address_votes_per_day"]
    return (
        LiveLimits(turns, 600 if demo else 4_000, tokens, given["answer_seconds"]),
        VoteLimits(given["cooldown"], given["votes_per_day"], per_day, 3 * per_day),
    )


def _moderation(name: str | None) -> Any:
    """Return the moderation function that another package registered. Raises: UnknownName."""
    from assaymark.registry import Registry

    return None if name is None else Registry[Any]("moderation", "assaymark.moderation", {}).load(name)


@contextmanager
def _demo_hosts() -> Iterator[Sequence[str]]:
    """Host both demo models in threads of this process, on loopback; yield them as NAME=URL."""
    from importlib.util import find_spec

    if any(find_spec(package) is None for package in ("torch", "transformers")):
        raise MissingExtra("assaymark arena serve --demo", "hf")
    import threading

    from assaymark.api.demo import SIZES, demo_model
    from assaymark.host.app import HostSettings, create_app
    from assaymark.host.hosted_model import HostedModel
    from assaymark.host.serve import listen, serve
    from assaymark.models.create import create_model
    from assaymark.models.local.local_model import LocalModel

    found = []
    with ExitStack() as stack:
        for size in SIZES:
            model = create_model("hf", None, pretrained=str(demo_model(size)))
            if not isinstance(model, LocalModel):
                raise UsageError(f"the demo model '{size}' is not a local model")
            listening = stack.enter_context(listen("127.0.0.1", 0))
            app = create_app(HostedModel(model, size), HostSettings(names=("127.0.0.1",)))
            threading.Thread(target=serve, args=(app, listening, lambda: None), daemon=True).start()
            found.append(f"{size}=http://127.0.0.1:{listening.getsockname()[1]}/v1")
        yield found
