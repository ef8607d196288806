"""A conversation with a model: its history, its prompt as the model sees it, and the answer while it is generated."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from assaymark.errors import UsageError
from assaymark.models.create import create_model
from assaymark.models.model import Model
from assaymark.models.server.openai_compatible import OpenAIModel
from assaymark.prompts.presets import PromptPreset
from assaymark.records import GenerateQuery, GenerationSettings, Message, QueryKind, Request, content_hash

PLAIN = PromptPreset(  # what a model without a template gets: a transcript, ended where the user would speak again
    "plain text",
    {"system": ("", "\n\n"), "user": ("User: ", "\n"), "assistant": ("Assistant: ", "\n")},
    opening="Assistant:",
    stop=("\nUser:",),
)


def open_chat_model(
    model: str, base_url: str | None = None, model_args: str | Mapping[str, object] | None = None
) -> Model:
    """Return a model to chat with: a folder or Hub id, a kind such as `fake`, or a server's URL.

    `base_url` is the server that offers `model`; without it a URL as `model` stands for the first model it lists.

    Raises: UsageError; ModelUnavailable where there is no such model or server.
    """
    if "://" in model or base_url is not None:
        url = base_url or model
        name = model if base_url is not None else _first_of(url)
        return create_model("local-chat-completions", model_args, model=name, base_url=url)
    if model == "fake":
        return create_model(model, model_args)
    return create_model("hf", model_args, pretrained=model)


def _first_of(url: str) -> str:
    """Return the first model that a server lists. Raises: ModelUnavailable; UsageError where it lists none."""
    probe = create_model("local-chat-completions", {"model": "unknown", "base_url": url})
    names = probe.listed() if isinstance(probe, OpenAIModel) else ()
    if not names:
        raise UsageError(f"{url} lists no models; name one: assaymark chat NAME --base_url {url}")
    return names[0]


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """How a conversation is written and answered. preset: None is the model's own template, or plain text without."""

    system: str | None = None
    preset: PromptPreset | None = None
    generation: GenerationSettings = field(default_factory=lambda: GenerationSettings(max_tokens=256))


class Conversation:
    """The messages exchanged with one model."""

    def __init__(self, model: Model, settings: ChatSettings) -> None:
        if QueryKind.GENERATE not in model.answers:
            raise UsageError(f"{model.identity.name} generates no text")
        if settings.preset is not None and model.takes_messages:
            raise UsageError("a chat endpoint applies its own template; omit the prompt preset for it")
        self.model = model
        self.settings = settings
        self.messages: list[Message] = []

    @property
    def name(self) -> str:
        """The model's name, without folders."""
        return self.model.identity.name.rstrip("/").rpartition("/")[2]

    @cached_property
    def why_plain(self) -> str | None:
        """Why the conversation is written as plain text; None where the model, server or preset has a template."""
        if self.settings.preset is not None or self.model.takes_messages:
            return None
        try:
            self.model.render([Message.of_text("user", "Hello")])
        except UsageError as error:
            return str(error)
        return None

    def prompt(self, messages: Sequence[Message]) -> str | None:
        """Return the text that the model continues; None where a server writes it from the messages."""
        if self.model.takes_messages:
            return None
        preset = PLAIN if self.why_plain is not None else self.settings.preset
        return self.model.render(messages) if preset is None else preset.render(messages)

    def with_system(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with the system prompt before them."""
        system = self.settings.system
        return [Message.of_text("system", system), *messages] if system else list(messages)

    def answer(self, text: str) -> Iterator[str]:
        """Yield the pieces of the answer to a text, and add both to the history.

        An answer that the caller stops early stays in the history as far as it came; after a failure nothing does.

        Raises: ModelError if the request fails; UsageError if the template refuses the conversation.
        """
        messages = [*self.messages, Message.of_text("user", text)]
        request = self._request(self.with_system(messages))
        pieces: list[str] = []
        has_failed = False
        try:
            for piece in self.model.stream(request):
                pieces.append(piece)
                yield piece
        except Exception:
            has_failed = True
            raise
        finally:
            if not has_failed:
                self.messages = [*messages, Message.of_text("assistant", "".join(pieces).strip())]

    def undo(self) -> bool:
        """Remove the last question and its answer; return whether there was one."""
        if not self.messages:
            return False
        self.messages = self.messages[:-2]
        return True

    def _request(self, messages: Sequence[Message]) -> Request:
        prompt = self.prompt(messages)
        preset = PLAIN if self.why_plain is not None else self.settings.preset
        settings = self.settings.generation
        if preset is not None:
            settings = replace(settings, stop=tuple(dict.fromkeys((*settings.stop, *preset.stop))))
        sha = content_hash([[message.role, message.text] for message in messages])
        segments = () if prompt is None else (prompt,)
        return Request("chat", 0, sha, segments, (GenerateQuery(0, settings),), tuple(messages))
