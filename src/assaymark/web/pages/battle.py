"""A battle as its voter sees it; its JSON twin is made from the same object, without names before the vote too."""

from dataclasses import dataclass

from assaymark.arena.battles import CHOICES, Shown
from assaymark.records import JsonValue

__all__ = ["BUTTONS", "ArenaPage", "BattlePage"]

BUTTONS = {
    "a": ("A is better", "1"),
    "b": ("B is better", "2"),
    "tie": ("Equally good", "3"),
    "both_bad": ("Both are bad", "4"),
}
"""Choice -> its words and its key on the keyboard."""


@dataclass(frozen=True)
class ArenaPage:
    """What the arena is, and the button that begins a battle."""

    n_models: int
    form_token: str

    def to_json(self) -> JsonValue:
        """Return what programs need."""
        return {"n_models": self.n_models, "begin": "/arena/battles", "choices": list(CHOICES)}


@dataclass(frozen=True)
class BattlePage:
    """One battle: prompt and answers; models only after the vote."""

    battle: Shown
    form_token: str
    key: str  # idempotency key of the form's vote

    @property
    def is_open(self) -> bool:
        """Whether it waits for the vote."""
        return self.battle.state == "open"

    @property
    def buttons(self) -> dict[str, tuple[str, str]]:
        """Choice -> words and key of its button."""
        return BUTTONS

    @property
    def choice_words(self) -> str:
        """The vote in words; empty before it."""
        return BUTTONS[self.battle.choice][0] if self.battle.choice else ""

    def to_json(self) -> JsonValue:
        """Return the battle; the keys of models and vote exist only after the vote."""
        shown = self.battle
        found: dict[str, JsonValue] = {
            "battle": shown.token,
            "state": shown.state,
            "prompt": shown.prompt,
            "answer_a": shown.answer_a,
            "answer_b": shown.answer_b,
        }
        if shown.models is not None:
            found |= {"model_a": shown.models[0], "model_b": shown.models[1], "choice": shown.choice}
            found["marks"] = list(shown.marks or ())
        return found
