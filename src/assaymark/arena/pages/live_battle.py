"""The pages of battles, as their voters see them, and of studies.

The JSON twin of a battle is made from the same object, so it has no names before the vote either. Pages of studies have
no JSON twin: prompts of studies are held out, and shown only to invited raters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.arena.ballots import CHOICES, VoterView
from assaymark.arena.live_battles import LiveLimits, Seen
from assaymark.arena.live_turns import FAILED
from assaymark.arena.studies.results import FEWEST_IN_GROUP
from assaymark.arena.studies.sessions import StudyStep
from assaymark.records import JsonValue

BUTTONS = {
    "a": ("A is better", "1"),
    "b": ("B is better", "2"),
    "tie": ("Equally good", "3"),
    "both_bad": ("Both are bad", "4"),
}
"""Choice -> its words and its key on the keyboard."""


@dataclass(frozen=True)
class ArenaPage:
    """The introduction to the arena, and the button that begins a battle."""

    n_models: int
    form_token: str

    begin = "/arena/battles"
    choices = CHOICES
    json_keys = "n_models begin choices"


@dataclass(frozen=True)
class BattlePage:
    """One battle: prompt and answers; models only after the vote."""

    battle: VoterView
    form_token: str
    key: str  # idempotency key of the form's vote

    buttons = BUTTONS

    @property
    def is_open(self) -> bool:
        """Whether it waits for the vote."""
        return self.battle.state == "open"

    @property
    def choice_words(self) -> str:
        """The vote in words; empty before it."""
        return BUTTONS[self.battle.choice][0] if self.battle.choice else ""

    def to_json(self) -> JsonValue:
        """Return the battle; the keys of models and vote exist only after the vote."""
        battle = self.battle
        document: dict[str, JsonValue] = {
            "battle": battle.token,
            "state": battle.state,
            "prompt": battle.prompt,
            "answer_a": battle.answer_a,
            "answer_b": battle.answer_b,
        }
        if battle.models is not None:
            document |= {"model_a": battle.models[0], "model_b": battle.models[1], "choice": battle.choice}
            document["marks"] = list(battle.marks or ())
        return document


@dataclass(frozen=True)
class StudyPage:
    """One step of a rater."""

    step: StudyStep
    path: str  # of the invitation
    form_token: str

    buttons = BUTTONS
    fewest = FEWEST_IN_GROUP  # raters of a group whose results are shown


@dataclass(frozen=True)
class LiveArenaPage:
    """The introduction to the arena, the button that begins a battle, and the models that can be named."""

    models: Sequence[str]
    limits: LiveLimits
    form_token: str

    begin = "/arena/battles"
    choices = CHOICES
    json_keys = "n_models models begin choices turns=limits.turns characters=limits.characters"

    @property
    def n_models(self) -> int:
        """How many models there are."""
        return len(self.models)


@dataclass(frozen=True)
class LiveBattlePage:
    """One battle: its turns; models only after the vote, or in the named mode."""

    battle: Seen
    form_token: str
    key: str  # idempotency key of the form's vote
    longest_text: int
    problem: str = ""
    text: str = ""  # a question that was not asked
    all_suggestions: Sequence[str] = ()
    note: str = ""

    buttons = BUTTONS

    @property
    def may_vote(self) -> bool:
        """Whether it waits for the vote."""
        return self.battle.state == "open" and bool(self.battle.turns)

    @property
    def suggestions(self) -> Sequence[str]:
        """First questions to choose from; none once there is a question."""
        is_empty = not self.battle.turns and not self.battle.question
        return self.all_suggestions if is_empty and self.battle.may_ask else ()

    @property
    def is_answering(self) -> bool:
        """Whether answers are being written."""
        return self.battle.state == "answering"

    @property
    def has_failed(self) -> bool:
        """Whether it ended without a vote."""
        return self.battle.state in {"failed", "skipped"}

    @property
    def failure(self) -> str:
        """The message to show then."""
        return FAILED if self.battle.state == "failed" else "You skipped this battle."

    @property
    def choice_words(self) -> str:
        """The vote in words; empty before it."""
        return BUTTONS[self.battle.choice][0] if self.battle.choice else ""

    @property
    def sides(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Letter and heading of both sides."""
        a, b = self.battle.models or ("Answer A", "Answer B")
        return ("A", a), ("B", b)

    def to_json(self) -> JsonValue:
        """Return the battle; the keys of models and vote exist only after the vote, or in the named mode."""
        seen = self.battle
        turns: list[JsonValue] = [
            {"question": turn.question, "answer_a": turn.answer_a, "answer_b": turn.answer_b} for turn in seen.turns
        ]
        document: dict[str, JsonValue] = {
            "battle": seen.token, "mode": seen.mode, "state": seen.state, "turns": turns,
            "question": seen.question, "may_ask": seen.may_ask, "may_regenerate": seen.may_regenerate,
        }  # fmt: skip
        if seen.models is not None:
            document |= {"model_a": seen.models[0], "model_b": seen.models[1]}
        if seen.choice is not None:
            document |= {"choice": seen.choice, "marks": list(seen.marks or ()), "is_counted": seen.is_counted}
        return document
