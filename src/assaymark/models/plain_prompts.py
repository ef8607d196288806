"""A prompt in the form for a model: as messages, by its chat template, or for a base model as a plain transcript.

A base model has no template, and the words of a chat template would only confuse it. It continues
`User: PROMPT`, a line break and `Assistant:`, up to the next `User:`, as in `assaymark chat`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from assaymark.errors import UsageError
from assaymark.models.model import Model
from assaymark.records import GenerateQuery, GenerationSettings, Message, QueryKind, Request, content_hash

PLAIN_FORM = "User: {prompt}\nAssistant:"
STOP = ("\nUser:",)  # what ends a plain answer
Form = Literal["messages", "template", "plain"]


def transcript(messages: Sequence[Mapping[str, str]]) -> str:
    """Return a conversation (`role`, `content`) that ends with a user's message as a base model continues it."""
    said = {"system": "{}\n\n", "user": "User: {}\n", "assistant": "Assistant: {}\n"}
    return "".join(said[message["role"]].format(message["content"]) for message in messages) + "Assistant:"


def form_of_model(model: Model, *, is_base: bool = False) -> Form:
    """Return the form of a model's prompts. is_base: plain, whatever template the model has.

    Raises: UsageError for a base model behind a chat endpoint, which applies a template of its own.
    """
    if model.takes_messages:
        if is_base:
            raise UsageError(
                f"{model.identity.name} is behind a chat endpoint, which applies its own template; ask a base model "
                "through completions: local-completions"
            )
        return "messages"
    if is_base:
        return "plain"
    try:
        model.render([Message.of_text("user", "Hello")])
    except UsageError:
        return "plain"
    return "template"


@dataclass(frozen=True)
class PromptWriter:
    """Writes requests for one model. is_base: as plain text, whatever template the model has."""

    model: Model
    is_base: bool = False

    @cached_property
    def form(self) -> Form:
        """The form of the prompts.

        Raises: UsageError if it generates no text, or is a base model behind a chat endpoint.
        """
        if QueryKind.GENERATE not in self.model.answers:
            raise UsageError(f"{self.model.identity.name} generates no text")
        return form_of_model(self.model, is_base=self.is_base)

    def request(self, name: str, index: int, prompt: str, settings: GenerationSettings, plain: str = "") -> Request:
        """Return a request for an answer to a prompt.

        Args:
            name: of the kind of request; with the index it names the request.
            index: from 0.
            prompt: what a chat model is asked.
            settings: of the generation; a plain request has its own stop texts, or those given here.
            plain: the whole text that a base model continues; empty: `PLAIN_FORM` with the prompt.
        """
        messages: tuple[Message, ...] = (Message.of_text("user", prompt),)
        segments: Sequence[str] = ()
        if self.form == "plain":
            segments, messages = (plain or PLAIN_FORM.format(prompt=prompt),), ()
        elif self.form == "template":
            segments = (self.model.render(messages),)
        query = GenerateQuery(0, settings)
        return Request(name, index, content_hash([name, index, prompt]), tuple(segments), (query,), messages)
