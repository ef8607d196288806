"""Asking a model for the next message of a conversation, with the cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assaymark.errors import ModelError, UsageError
from assaymark.models.cost.bill import Bill, BillingRules
from assaymark.models.cost.prices import Price
from assaymark.models.model import Model
from assaymark.records import GenerateQuery, GenerationSettings, Message, QueryKind, Request, TextPart, content_hash

Turn = tuple[Literal["system", "user", "assistant"], str]


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply. cost: of this call; None if the model's price is not known."""

    text: str
    cost: float | None


class Asker:
    """A model and how it is asked."""

    def __init__(self, model: Model, settings: GenerationSettings, price: Price | None) -> None:
        """Raises: UsageError for a model that generates no text."""
        if QueryKind.GENERATE not in model.answers:
            raise UsageError(f"{model.identity.name} generates no text; expected a model that does")
        self.model, self.settings, self.price = model, settings, price

    def ask(self, turns: Sequence[Turn]) -> Reply:
        """Return the model's answer to a conversation. Raises: ModelError where it gives none."""
        messages = tuple(Message(role, (TextPart(text),)) for role, text in turns)
        segments = () if self.model.takes_messages else (self._plain(messages),)
        digest = content_hash([list(turn) for turn in turns])
        request = Request("swe", 0, digest, segments, (GenerateQuery(0, self.settings),), messages, turn=len(turns))
        bill = None if self.price is None else Bill(self.price, BillingRules.of(self.model.identity), None)
        outputs = list(self.model.answer([request]))
        if not outputs or outputs[0].text is None:
            raise ModelError(outputs[0].error if outputs and outputs[0].error else "the model gave no answer")
        if bill is not None:
            bill.charge(request, outputs)
        return Reply(outputs[0].text, None if bill is None else bill.spent)

    def _plain(self, messages: Sequence[Message]) -> str:
        try:
            return self.model.render(messages)
        except UsageError:  # it has no template
            return "\n\n".join(message.text for message in messages) + "\n"
