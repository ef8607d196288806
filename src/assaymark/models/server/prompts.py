"""Turn requests into prompts for an OpenAI-compatible server: tokens, texts or messages.

Tokens are truncated to lm-eval's length for servers: one position is reserved for the token that must be generated, so
the longest prompt has `max_length - 1` tokens. Texts and messages are not truncated; the server knows its own length.

Source: lm-evaluation-harness 0.4.13, models/api_models.py (batch_loglikelihood_requests, loglikelihood_rolling,
    generate_until).
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.errors import UsageError
from assaymark.models.server.arguments import OpenAIArguments
from assaymark.models.server.bodies import Json, Prompt, ScoredPart
from assaymark.models.text.generation_prompts import (
    DEFAULT_MAX_TOKENS,
    GenerationInput,
    TextReader,
    name_by_content,
    refuse_contradiction,
)
from assaymark.models.text.render import message_json
from assaymark.models.text.spans import Characters, QueryReader, TokenSpan
from assaymark.models.text.stops import stop_texts
from assaymark.models.text.tokens import Encoder
from assaymark.records import GenerateQuery, ImagePart, Message, Request, TextPart, canonical_json

UNCUT = 1 << 31  # tokens: no prompt is longer


@dataclass(slots=True)
class _PreparedPrompt(GenerationInput):
    """A generate query that is sent as a text or as messages, with the functions that the model may call."""

    prompt: Prompt = ""
    tools: str | None = None  # JSON, see `Request.tools`


@dataclass(frozen=True, slots=True)
class PromptMaker:
    """Makes the prompts for one server. Without an encoder texts are sent, and the server tokenises them."""

    arguments: OpenAIArguments
    encoder: Encoder | None
    fingerprint: bytes | None  # what besides the prompt decides an output; None: outputs are not cached across runs
    sends_texts: bool = False  # instead of tokens, if the server does not accept them

    @property
    def sends_tokens(self) -> bool:
        """Whether prompts are token ids."""
        return self.encoder is not None and self.arguments.tokenized_requests and not self.sends_texts

    @property
    def reader(self) -> QueryReader:
        """The reader of log-likelihood queries."""
        if self.encoder is None:
            return QueryReader(Characters(), UNCUT, "error", self.fingerprint)
        return QueryReader(self.encoder, self.arguments.max_length - 2, self.arguments.too_long, self.fingerprint)

    def scored(self, span: TokenSpan) -> tuple[Prompt, ScoredPart]:
        """Return the prompt that scores the end of a span, and the part to read from the answer."""
        n_scored = int(span.scored.size)
        if self.encoder is None:
            characters = Characters()
            context, end = characters.decode(span.context), characters.decode(span.scored)
            return context + end, ScoredPart(end, context=context)
        tokens = [*span.context.tolist(), *span.scored.tolist()]
        if self.sends_tokens:
            return [tokens], ScoredPart("", len(tokens), n_scored, are_sent=True)
        text = str(self.encoder.tokenizer.decode(tokens))
        context = str(self.encoder.tokenizer.decode(span.context.tolist()))
        return text, ScoredPart(text[len(context) :], len(tokens), n_scored, context=context)

    def texts(self, requests: Sequence[Request]) -> list[GenerationInput]:
        """Return every generate query of the requests, ready to be sent; an invalid one carries its error.

        Raises: UsageError for contradictory settings, or content that cannot be sent.
        """
        arguments = self.arguments
        limit = arguments.max_gen_toks or DEFAULT_MAX_TOKENS
        if self.encoder is not None and arguments.tokenized_requests:
            longest = arguments.max_length - 1
            eos = arguments.eos_string
            return TextReader(self.encoder, longest, arguments.too_long, self.fingerprint, limit, eos).read(requests)
        eos_text = arguments.eos_string
        if eos_text is None and self.encoder is not None:
            eos_text = self.encoder.tokenizer.eos_token
        generation_inputs: list[GenerationInput] = []
        for request in requests:
            for query in request.queries:
                if isinstance(query, GenerateQuery):
                    refuse_contradiction(request.id, query.settings)
                    prepared = _PreparedPrompt(
                        request.id, query.index, query.settings, query.settings.max_tokens or limit
                    )
                    prepared.stops = stop_texts(query.settings, eos_text)
                    prepared.prompt = self.context_of(request)
                    prepared.tools = request.tools if arguments.is_chat else None  # a text has them in it
                    content = canonical_json(prepared.prompt) + (prepared.tools or "")
                    name_by_content(prepared, content.encode(), self.fingerprint)
                    generation_inputs.append(prepared)
        return generation_inputs

    def context_of(self, request: Request) -> Prompt:
        """Return a request's context as text or messages.

        Raises: UsageError for content that cannot be sent.
        """
        if not self.arguments.is_chat:
            return "".join(request.segments)
        if not request.messages:
            raise UsageError(
                f"{request.id} is plain text, but a chat endpoint needs messages; add --apply_chat_template"
            )
        return [message_json(message, _content(message), for_template=False) for message in request.messages]

    def prompt_of(self, prepared: GenerationInput) -> Prompt:
        """Return the prompt of a generate query."""
        if isinstance(prepared, _PreparedPrompt):
            return prepared.prompt
        tokens = prepared.tokens.tolist()
        return [tokens] if self.encoder is None or self.sends_tokens else str(self.encoder.tokenizer.decode(tokens))

    def tools_of(self, prepared: GenerationInput) -> str | None:
        """Return the JSON of the tools to send with a generate query; None without any."""
        return prepared.tools if isinstance(prepared, _PreparedPrompt) else None

    def n_tokens(self, prepared: GenerationInput) -> int | None:
        """Return the number of tokens in a query's prompt; None if only the server knows."""
        return None if self.encoder is None or isinstance(prepared, _PreparedPrompt) else int(prepared.tokens.size)


def _content(message: Message) -> str | list[Json]:
    """Return a message's content: a text, or, with images, its parts in order.

    Source: OpenAI's API reference, chat completions: content parts `text` and `image_url`, here with a data URL.
    """
    if not message.images:
        return message.text
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {
            "type": "image_url",
            "image_url": {"url": f"data:{part.media_type};base64,{b64encode(part.data).decode()}"},
        }
        for part in message.parts
        if isinstance(part, TextPart | ImagePart)
    ]
