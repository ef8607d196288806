"""A live battle as its voter sees it; its JSON twin is made from the same object, without names before the vote too."""

from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.arena.ballots import CHOICES
from assaymark.arena.live_battles import LiveLimits, Seen
from assaymark.records import JsonValue
from assaymark.web.live_turns import FAILED
from assaymark.web.pages.battle import BUTTONS

__all__ = ["LiveArenaPage", "LiveBattlePage"]


@dataclass(frozen=True)
class LiveArenaPage:
    """What the arena is, the button that begins a battle, and the models that can be named."""

    models: Sequence[str]
    limits: LiveLimits
    form_token: str

    def to_json(self) -> JsonValue:
        """Return what programs need."""
        return {
            "n_models": len(self.models),
            "models": sorted(self.models),
            "begin": "/arena/battles",
            "choices": list(CHOICES),
            "turns": self.limits.turns,
            "characters": self.limits.characters,
        }


@dataclass(frozen=True)
class LiveBattlePage:
    """One battle: its turns; models only after the vote, or in the named mode."""

    battle: Seen
    form_token: str
    key: str  # idempotency key of the form's vote
    longest_text: int
    problem: str = ""
    text: str = ""  # a question that was not asked

    @property
    def may_vote(self) -> bool:
        """Whether it waits for the vote."""
        return self.battle.state == "open" and bool(self.battle.turns)

    @property
    def is_answering(self) -> bool:
        """Whether answers are being written."""
        return self.battle.state == "answering"

    @property
    def has_failed(self) -> bool:
        """Whether it ended without a vote."""
        return self.battle.state == "failed"

    @property
    def failure(self) -> str:
        """What is said then."""
        return FAILED

    @property
    def buttons(self) -> dict[str, tuple[str, str]]:
        """Choice -> words and key of its button."""
        return BUTTONS

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
        shown = self.battle
        turns: list[JsonValue] = [
            {"question": turn.question, "answer_a": turn.answer_a, "answer_b": turn.answer_b} for turn in shown.turns
        ]
        found: dict[str, JsonValue] = {
            "battle": shown.token, "mode": shown.mode, "state": shown.state, "turns": turns,
            "question": shown.question, "may_ask": shown.may_ask, "may_regenerate": shown.may_regenerate,
        }  # fmt: skip
        if shown.models is not None:
            found |= {"model_a": shown.models[0], "model_b": shown.models[1]}
        if shown.choice is not None:
            found |= {"choice": shown.choice, "marks": list(shown.marks or ()), "is_counted": shown.is_counted}
        return found
