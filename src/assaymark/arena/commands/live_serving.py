"""The parts of `assaymark arena serve`: the arena, live battles and their pages, and hosting of the demo models."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.cli.output import echo
from assaymark.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from assaymark.arena.ballots import VoteLimits
    from assaymark.arena.live_battles import LiveLimits
    from assaymark.arena.live_turns import Moderation
    from assaymark.web.serve import Where


@dataclass(frozen=True, slots=True)
class ArenaOptions:
    """Options of `assaymark arena serve`, besides those of its address and its store."""

    answers: tuple[str, ...]
    task: str | None
    makers: Path | None
    cooldown: float
    votes_per_day: int
    address_votes_per_day: int
    batch: int
    endpoint: tuple[str, ...]
    endpoint_key: tuple[str, ...]
    demo: bool
    moderation: str | None
    suggest: tuple[str, ...]
    turns: int
    max_tokens: int
    answer_seconds: float
    cadence: float

    def vote_limits(self) -> "VoteLimits":
        """Return the limits of voters. Raises: UsageError where nobody could vote."""
        from assaymark.arena.ballots import VoteLimits

        per_day = self.address_votes_per_day
        return VoteLimits(self.cooldown, self.votes_per_day, per_day, 3 * per_day)

    def read_makers(self, models: Sequence[str]) -> dict[str, str]:
        """Return who made the models, as the file of --makers states it. Raises: DataError."""
        from assaymark.arena.answer_files import read_makers

        return read_makers(self.makers, models) if self.makers else {}


def serve_arena(chosen: ArenaOptions, where: "Where", store: str | None) -> None:
    """Serve battles until a signal stops the process.

    Raises: as `open_answers`, `hosts_for` and `listen`; MissingExtra without the extra `web`.
    """
    if chosen.endpoint_key or chosen.moderation or chosen.suggest:
        raise UsageError(
            "--endpoint_key, --moderation and --suggest are for live battles; name models with --endpoint NAME=URL"
        )
    from assaymark.arena.answer_files import open_answers
    from assaymark.arena.ballots import Publishing
    from assaymark.arena.battles import Arena
    from assaymark.arena.rating_boards import Ratings
    from assaymark.arena.routes.arena import arena_feature
    from assaymark.store import Store
    from assaymark.web.serve import serve_features

    with Store.open(store, hidden_for="answers of battles", follows=True) as opened:
        source, notes = open_answers(chosen.answers, opened, chosen.task, lambda line: echo(line, err=True))
        echo(*notes, err=True)
        arena = Arena(opened, source, chosen.vote_limits(), Publishing(votes=chosen.batch))
        part = arena_feature(arena, Ratings(opened, makers=chosen.read_makers(source.models)))
        description = f"{len(source.models)} models, {source.name}"
        serve_features([part], where, lambda url: echo(f"Arena ({description}) at {url}arena  (stop with Ctrl-C)"))


DEMO_TOKENS, DEMO_TURNS = 96, 5  # which fit into the 1,024 positions of the demo models
DEMO_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% if not loop.last %}\n{% endif %}{% endfor %}"
"""They answer questions of exams with a word or two, and tell what they know as a text that goes on."""
DEMO_SUGGESTIONS = (
    "One evening Berin had to",
    "After the harvest Karin wanted to",
    "Quinhaven is a town of the east.",
    "Mirin lives in",
)
DEMO_NOTE = (
    "The demo's models know the invented valley of Lomara and nothing else. They go on with a text that you begin: "
    "which of them goes on better?"
)


def serve_live(chosen: ArenaOptions, where: "Where", store: str | None) -> None:
    """Serve live battles until a signal stops the process.

    Raises: as `read_endpoints`, `hosts_for` and `listen`; MissingExtra without the extra `web`, or `hf` for the demo.
    """
    from assaymark.arena.ballots import Publishing
    from assaymark.arena.cadence import Cadence
    from assaymark.arena.live_battles import LiveArena
    from assaymark.arena.rating_boards import Ratings
    from assaymark.arena.routes.live_battles import SUGGESTIONS, live_feature
    from assaymark.hosting.endpoints import read_endpoints
    from assaymark.store import Store
    from assaymark.web.secret import server_secret
    from assaymark.web.serve import serve_features

    if chosen.answers or chosen.task:
        raise UsageError("--answers and --task are for stored answers, --endpoint and --demo for live ones; give one")
    limits, vote_limits = _limits(chosen), chosen.vote_limits()
    moderate = _moderation(chosen.moderation)
    with ExitStack() as stack:
        named = list(chosen.endpoint)
        if chosen.demo:
            named += stack.enter_context(_demo_hosts())
        endpoints = read_endpoints(named, chosen.endpoint_key)
        if len(endpoints) < 2:
            raise UsageError(f"a battle needs two models; only '{endpoints[0].name}' is named; add --endpoint NAME=URL")
        names = [endpoint.name for endpoint in endpoints]
        makers = chosen.read_makers(names)
        opened = stack.enter_context(Store.open(store, hidden_for="live battles", follows=True))
        arena = LiveArena(
            opened, names, server_secret(), limits, vote_limits,
            Publishing(votes=chosen.batch), Cadence.of(chosen.cadence),
            other_names=[endpoint.model for endpoint in endpoints if endpoint.model],
            base_models=frozenset(endpoint.name for endpoint in endpoints if endpoint.is_base),
        )  # fmt: skip
        suggestions = chosen.suggest or (DEMO_SUGGESTIONS if chosen.demo else SUGGESTIONS)
        part = live_feature(
            arena, endpoints, Ratings(opened, makers=makers), moderate, lambda line: echo(line, err=True), suggestions,
            DEMO_NOTE if chosen.demo else "",
        )  # fmt: skip
        description = f"{len(endpoints)} live models"
        serve_features([part], where, lambda url: echo(f"Arena ({description}) at {url}arena  (stop with Ctrl-C)"))


def _limits(chosen: ArenaOptions) -> "LiveLimits":
    """Return the limits of battles. Raises: UsageError for a cadence or a time that is none."""
    from assaymark.arena.live_battles import LiveLimits

    if not 1 <= chosen.cadence <= 100_000:
        raise UsageError(f"--cadence {chosen.cadence:g}; expected 1 to 100,000 characters per second")
    if chosen.answer_seconds <= 0:
        raise UsageError(f"--answer_seconds {chosen.answer_seconds:g}; expected more than 0")
    if not chosen.demo:
        return LiveLimits(chosen.turns, 4_000, chosen.max_tokens, chosen.answer_seconds)
    turns, tokens = min(chosen.turns, DEMO_TURNS), min(chosen.max_tokens, DEMO_TOKENS)
    return LiveLimits(turns, 600, tokens, chosen.answer_seconds)


def _moderation(name: str | None) -> "Moderation | None":
    """Return the moderation function that another package registered. Raises: UnknownName."""
    from assaymark.registry import Registry

    return None if name is None else Registry["Moderation"]("moderation", "moderation").load(name)


@contextmanager
def _demo_hosts() -> Iterator[Sequence[str]]:
    """Host both demo models in threads of this process, on loopback; yield them as NAME=URL."""
    from importlib.util import find_spec

    if any(find_spec(package) is None for package in ("torch", "transformers")):
        raise MissingExtra("assaymark arena serve --demo", "hf")
    echo("loading the demo's two models", err=True)
    import threading

    from assaymark.hosting.app import HostSettings, create_app
    from assaymark.hosting.hosted_model import HostedModel
    from assaymark.hosting.serve import listen, serve
    from assaymark.models.create import create_model
    from assaymark.models.local.local_model import LocalModel
    from assaymark.runs.demo import SIZES, demo_model

    addresses = []
    with ExitStack() as stack:
        for size in SIZES:
            model = create_model("hf", None, pretrained=str(demo_model(size)))
            if not isinstance(model, LocalModel):
                raise UsageError(f"the demo model '{size}' is not a local model")
            model.tokenizer.chat_template = DEMO_TEMPLATE
            listening = stack.enter_context(listen("127.0.0.1", 0))
            app = create_app(HostedModel(model, size, chat_bos=True), HostSettings(names=("127.0.0.1",)))
            threading.Thread(target=serve, args=(app, listening, lambda: None), daemon=True).start()
            addresses.append(f"{size}=http://127.0.0.1:{listening.getsockname()[1]}/v1")
        yield addresses
