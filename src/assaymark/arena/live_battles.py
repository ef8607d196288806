"""Live battles: two models that are not named answer a voter's questions, until he votes.

A battle is kept in memory until its vote, and stored with the vote: conversation, battle and vote, in this order. A
server that is killed forgets battles without a vote. Every question goes to both models with their own earlier answers.
A voter sees a battle as `Seen`, which has no model before the vote; a battle of the named mode has its models from the
start, and its vote counts in no rating.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_urlsafe

from assaymark.arena.answer_files import contains_a_name, names_its_model
from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.arena_rows import BattleRow
from assaymark.arena.ballots import Ballots, Publishing, Refused, VoteLimits, Voter, check_vote, keyed_hash
from assaymark.arena.battles import VotedPairs
from assaymark.arena.cadence import Cadence, Release
from assaymark.arena.conversations import Turn, joined, messages_of, store_conversation, stored_turns
from assaymark.errors import UnknownName, UsageError
from assaymark.randomness import generator_for
from assaymark.records import GenerationSettings
from assaymark.registry import nearest
from assaymark.store import Store

SOURCE = "live"
"""How the log calls answers that were generated during their battle."""


@dataclass(frozen=True, slots=True)
class LiveLimits:
    """The limits of a battle. Units: characters, tokens of one answer, seconds."""

    turns: int = 8
    characters: int = 4_000  # of one question
    tokens: int = 512
    seconds: float = 60.0  # of one turn
    regenerations: int = 3  # of one battle
    idle_seconds: float = 3600.0  # after which a battle without a vote is forgotten
    unasked_seconds: float = 600.0  # the same, of a battle without a question
    open_per_network: int = 100
    open_battles: int = 2_000
    temperature: float = 0.7

    @property
    def generation(self) -> GenerationSettings:
        """How answers are generated, as it is stored."""
        return GenerationSettings(max_tokens=self.tokens, do_sample=True, temperature=self.temperature)


@dataclass(eq=False)
class LiveBattle:
    """A battle without a vote. It is never shown itself: its voter sees it as `Seen`."""

    voter: Voter
    mode: str  # anonymous | named
    models: tuple[str, str]  # of side A and B
    is_swapped: bool
    opened_at: float
    token: str = field(default_factory=lambda: token_urlsafe(24))
    turns: list[Turn] = field(default_factory=list)
    question: str | None = None  # that is being answered
    release: Release | None = None  # of the answers to it
    replaced: Turn | None = None  # that is being regenerated
    state: str = "open"  # open | answering | failed | skipped | voted
    used_at: float = 0.0
    n_regenerated: int = 0
    n_followers: int = 0  # windows that follow the answers
    names_a_model: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def messages(self, side: int) -> list[dict[str, str]]:
        """Return the conversation of side 0 (A) or 1 (B), with the question that is being answered."""
        return messages_of(self.turns, side, self.question)


@dataclass(frozen=True, slots=True)
class Seen:
    """A battle as its voter sees it. `models`, `choice` and the fields after them are None before the vote."""

    token: str
    mode: str
    state: str
    turns: tuple[Turn, ...]
    question: str | None
    may_ask: bool
    may_regenerate: bool
    models: tuple[str, str] | None = None
    choice: str | None = None
    marks: tuple[str | None, str | None] | None = None
    is_counted: bool | None = None


@dataclass(eq=False)
class LiveArena:
    """Live battles between models of a list, in one store, which was opened with `hidden_for`."""

    store: Store
    models: Sequence[str]
    prompt_key: bytes = field(repr=False)  # of the keyed hashes of first questions, so that equal ones are one cluster
    limits: LiveLimits = field(default_factory=LiveLimits)
    vote_limits: VoteLimits = field(default_factory=VoteLimits)
    publishing: Publishing = field(default_factory=Publishing)
    cadence: Cadence = field(default_factory=Cadence)
    other_names: Sequence[str] = ()  # of the models, which answers must not contain
    base_models: frozenset[str] = frozenset()  # those that are asked by a plain transcript
    seed: int | None = None  # of pairs and sides; None: not predictable
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        """Register the models and count the votes there are."""
        seed = token_urlsafe() if self.seed is None else self.seed
        self._pairs = VotedPairs(self.store, self.models, generator_for("arena", SOURCE, seed))
        self._ballots = Ballots(self.store, self.vote_limits, self.publishing, self.clock)
        self._battles: dict[str, LiveBattle] = {}
        self._lock = threading.Lock()

    # ------------------------------------------------------------------------------------ beginning

    def begin(self, voter: Voter) -> Seen:
        """Return the voter's open anonymous battle, or a new one.

        Raises: Refused over a limit.
        """
        return self._begin(voter, "anonymous", None)

    def begin_named(self, voter: Voter, model_a: str, model_b: str) -> Seen:
        """Return a new battle of two models that the voter names; its vote is stored and counts in no rating.

        Raises: Refused over a limit; UnknownName; UsageError for one model twice.
        """
        for name in (model_a, model_b):
            if name not in self.models:
                raise UnknownName("model of the arena", name[:64], nearest(name, self.models), ", ".join(self.models))
        if model_a == model_b:
            raise UsageError(f"'{model_a}' is on both sides; expected two different models")
        return self._begin(voter, "named", (model_a, model_b))

    def _begin(self, voter: Voter, mode: str, models: tuple[str, str] | None) -> Seen:
        self._ballots.check(voter, is_vote=False)
        with self._lock:
            self._forget_idle()
            waiting = [
                live_battle
                for live_battle in self._battles.values()
                if live_battle.voter == voter and live_battle.state in {"open", "answering"}
            ]
            for live_battle in waiting:
                if live_battle.mode == mode == "anonymous":
                    return self._seen(live_battle)
            of_network = sum(
                live_battle.voter.origin == voter.origin and live_battle.state != "failed"
                for live_battle in self._battles.values()
            )
            if of_network >= self.limits.open_per_network or len(self._battles) >= self.limits.open_battles:
                raise Refused("too many battles wait for their vote; vote on yours, or try again later")
            pair = None if models else self._pairs.draw()
            sides = pair.sides if pair else models or ("", "")
            now = self.clock()
            battle = LiveBattle(voter, mode, sides, bool(pair and pair.is_swapped), now, used_at=now)
            self._battles[battle.token] = battle
            return self._seen(battle)

    def _forget_idle(self) -> None:
        now, limits = self.clock(), self.limits
        self._battles = {
            token: battle
            for token, battle in self._battles.items()
            if battle.state == "answering"
            or now - battle.used_at < (limits.idle_seconds if battle.turns else limits.unasked_seconds)
        }

    # ---------------------------------------------------------------------------------------- turns

    def battle(self, voter: Voter, token: str) -> LiveBattle:
        """Return a battle of this voter that waits for its vote.

        Raises: UnknownName if there is none with this token, or it is another voter's; UsageError if it has a vote.
        """
        battle = self._battles.get(token)
        if battle is None or battle.voter.voter != voter.voter:
            stored = ArenaLog(self.store).battle(token)
            if stored is not None and stored.voter == voter.voter:
                raise UsageError("this battle has a vote already; begin a new one")
            raise UnknownName("battle", token[:20], remedy="only its voter sees a battle, and one without a vote ends "
                              "when the server restarts; begin a new one")  # fmt: skip
        return battle

    def show(self, voter: Voter, token: str) -> Seen:
        """Return the battle as its voter sees it, from the store once it has a vote. Raises: UnknownName."""
        waiting = self._battles.get(token)
        if waiting is not None and waiting.voter.voter == voter.voter:
            return self._seen(waiting)
        ballot = self._ballots.show(voter, token)
        stored = ArenaLog(self.store).battle(token)
        turns = stored_turns(self.store, stored) if stored else None
        if turns is None:
            texts = (ballot.prompt, ballot.answer_a, ballot.answer_b)
            turns = (Turn(*("(erased)" if text is None else text for text in texts)),)
        seen = Seen(token, stored.mode if stored else "", ballot.state, turns, None, False, False)
        if ballot.models is None:
            return seen
        return replace(
            seen, models=ballot.models, choice=ballot.choice, marks=ballot.marks, is_counted=ballot.is_counted
        )

    def ask(self, voter: Voter, token: str, question: str) -> LiveBattle:
        """Begin a turn: the battle is `answering` until `finish`, `fail` or `withdraw`.

        Raises: UnknownName; UsageError for a question that cannot be asked now.
        """
        battle, text = self.battle(voter, token), question.strip()
        if not text:
            raise UsageError("the question is empty; write one first")
        if any("\ud800" <= character <= "\udfff" for character in text):  # no model could be sent it
            raise UsageError("the question has half a surrogate pair, which is not a character; expected Unicode text")
        if len(text) > self.limits.characters:
            raise UsageError(
                f"the question has {len(text):,} characters; at most {self.limits.characters:,} are allowed"
            )
        with battle.lock:
            self._check_open(battle)
            if len(battle.turns) >= self.limits.turns:
                raise UsageError(f"a battle has at most {self.limits.turns} questions; vote now")
            return self._answering(battle, text)

    def regenerate(self, voter: Voter, token: str) -> LiveBattle:
        """Begin the last turn again; both answers are replaced. Raises: as `ask`."""
        battle = self.battle(voter, token)
        with battle.lock:
            self._check_open(battle)
            if not battle.turns:
                raise UsageError("there is no answer to regenerate; ask a question first")
            if battle.n_regenerated >= self.limits.regenerations:
                raise UsageError(f"answers can be regenerated {self.limits.regenerations} times in a battle; vote now")
            battle.n_regenerated += 1
            battle.replaced = battle.turns.pop()
            return self._answering(battle, battle.replaced.question)

    def _answering(self, battle: LiveBattle, question: str) -> LiveBattle:
        battle.question, battle.release, battle.state = question, Release(self.cadence), "answering"
        battle.used_at = self.clock()
        return battle

    def _check_open(self, battle: LiveBattle) -> None:
        if battle.state != "open":
            reasons = {"answering": "the last question is still being answered; wait for both answers",
                       "failed": "this battle ended without a vote; begin a new one",
                       "skipped": "you skipped this battle; begin a new one"}  # fmt: skip
            raise UsageError(reasons.get(battle.state, "this battle has a vote already"))

    def skip(self, voter: Voter, token: str) -> Seen:
        """End a battle without a vote and return a new anonymous one. The skipped one counts to its network's limit.

        Raises: as `battle` and `begin`; UsageError while a question is being answered.
        """
        battle = self.battle(voter, token)
        with battle.lock:
            self._check_open(battle)
            ArenaLog(self.store).skip_battle(token, self.clock())
            battle.state = "skipped"  # once it is stored: otherwise the battle can still be voted on
        return self.begin(voter)

    def finish(self, battle: LiveBattle) -> None:
        """End a turn whose answers are complete and shown."""
        with battle.lock:
            if battle.release is None or battle.question is None:
                return
            answers = battle.release.answers
            names = (*self.models, *self.other_names)
            battle.names_a_model |= any(
                names_its_model(text, names) or contains_a_name(text, names) for text in answers
            )
            battle.turns.append(Turn(battle.question, *answers))
            battle.question, battle.release, battle.replaced, battle.state = None, None, None, "open"
            battle.used_at = self.clock()

    def fail(self, battle: LiveBattle) -> None:
        """End a battle whose turn failed: without a vote, and without names."""
        with battle.lock:
            if battle.release is not None:
                battle.release.has_failed = True
            battle.state = "failed"

    def withdraw(self, battle: LiveBattle) -> None:
        """Take back a question that was sent to no model."""
        with battle.lock:
            if battle.replaced is not None:
                battle.turns.append(battle.replaced)
            battle.question, battle.release, battle.replaced, battle.state = None, None, None, "open"

    # ----------------------------------------------------------------------------------------- vote

    def vote(
        self, voter: Voter, token: str, choice: str, key: str, marks: tuple[str | None, str | None] = (None, None)
    ) -> Seen:
        """Store conversation, battle and vote, and return the battle with the models' names; as `Ballots.vote`.

        Raises: also UsageError before the first answers and while a question is being answered.
        """
        check_vote(choice, key, marks)
        battle = self._battles.get(token)
        if battle is not None and battle.voter.voter == voter.voter:
            with battle.lock:
                if battle.state != "voted":
                    self._store(battle)
                self._ballots.vote(voter, token, choice, key, marks, is_counted=not battle.names_a_model)
                battle.state = "voted"
            with self._lock:
                self._battles.pop(token, None)
        else:
            self._ballots.vote(voter, token, choice, key, marks)
        return self.show(voter, token)

    def _store(self, battle: LiveBattle) -> None:
        self._check_open(battle)
        if not battle.turns:
            raise UsageError("there are no answers to vote on; ask a question first")
        self._ballots.check(battle.voter, is_vote=True)
        if ArenaLog(self.store).battle(battle.token) is not None:
            return  # an earlier attempt to vote stored it
        generation, bases = self.limits.generation, self.base_models
        store_conversation(self.store, battle.token, battle.models, battle.turns, generation, bases)
        first = " ".join(battle.turns[0].question.lower().split())
        ArenaLog(self.store).open_battle(
            BattleRow(
                token=battle.token, opened_at=battle.opened_at, voter=battle.voter.voter, origin=battle.voter.origin,
                mode=battle.mode, source=SOURCE, prompt_id=keyed_hash(self.prompt_key, "prompt", first), category=None,
                model_a=battle.models[0], model_b=battle.models[1], is_swapped=battle.is_swapped,
                prompt=joined([turn.question for turn in battle.turns]),
                answer_a=joined([turn.answer_a for turn in battle.turns]),
                answer_b=joined([turn.answer_b for turn in battle.turns]), is_private=True,
            )
        )  # fmt: skip

    def _seen(self, battle: LiveBattle) -> Seen:
        is_open = battle.state == "open"
        return Seen(
            battle.token, battle.mode, battle.state, tuple(battle.turns), battle.question,
            may_ask=is_open and len(battle.turns) < self.limits.turns,
            may_regenerate=is_open and bool(battle.turns) and battle.n_regenerated < self.limits.regenerations,
            models=battle.models if battle.mode == "named" else None,
        )  # fmt: skip
