"""A model behind an OpenAI-compatible server: vLLM, llama.cpp, SGLang, OpenAI and many others.

Prompts are prepared as for a local model, sent by `http_calls`, and answers are read by `bodies`. Nothing is sent
before `check` or `answer`: a plan is made without the server. A failed request is stored as failed and sent again when
the run is repeated; a failure that shows that no request can succeed ends the run with one error.

A server does not identify its weights, so outputs are cached for this run only, unless the user names the weights
(`weights=`).

The connection to a server follows from its arguments and the key: headers, TLS, limits.
"""

import logging
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar, cast

from assaymark.errors import ModelUnavailable, RequestRefused, ServerFailed, UsageError
from assaymark.models.checkpoint import files
from assaymark.models.checkpoint.identity import template_text
from assaymark.models.local.generation import failure_of, for_one_text, pieces_of, sort_out
from assaymark.models.model import OutputCache
from assaymark.models.progress import AnswerTally, ProgressObserver
from assaymark.models.server.arguments import MODELS_WITH_PROMPT_LOGPROBS, OpenAIArguments, is_header_value
from assaymark.models.server.bodies import (
    ServerScore,
    ServerText,
    other_model,
    read_score,
    read_text,
    score_body,
    text_body,
)
from assaymark.models.server.failures import HttpFailure, KeyHider
from assaymark.models.server.first_token import FirstTokenTally, first_token_call, questions_of
from assaymark.models.server.http_calls import CallOutcome, HttpCall, HttpCaller, Server
from assaymark.models.server.pace import RetryRules
from assaymark.models.server.probe import find_server
from assaymark.models.server.prompts import PromptMaker
from assaymark.models.server.response_limits import ResponseLimits
from assaymark.models.server.streaming import stream_text
from assaymark.models.text.generation_prompts import GenerationInput
from assaymark.models.text.reasoning import ends_in_reasoning, opened_reasoning, refuse_opened_reasoning
from assaymark.models.text.render import ChatRenderer
from assaymark.models.text.spans import Pending, PreparedQuery, TokenSpan, chunks_of, fingerprint_of, known_outputs
from assaymark.models.text.stops import FinalText, final_of_text, until_stop, went_on
from assaymark.models.text.tokenizer import TokenizerSource, load_tokenizer, tokenizer_facts
from assaymark.models.text.tokens import Encoder
from assaymark.records import (
    GenerateQuery,
    JsonValue,
    Message,
    ModelIdentity,
    Output,
    QueryKind,
    Request,
    WorkEstimate,
    content_hash,
)
from assaymark.settings import read


def server_of(arguments: OpenAIArguments) -> Server:
    """Return the server for requests; nothing is sent.

    Raises: ModelUnavailable without a key that is required; UsageError for a key or a certificate that cannot be used.
    """
    key = (read("OPENAI_API_KEY") or "").strip() or None
    if key is None and (arguments.is_openai or arguments.provider.name not in ("other", "openai")):
        raise ModelUnavailable(f"{arguments.server} requires a key; set it as OPENAI_API_KEY")
    if key is not None and not is_header_value(key):
        raise UsageError(
            "OPENAI_API_KEY contains a character that HTTP headers do not allow; expected printable ASCII, one line"
        )
    headers = {**arguments.header, **(arguments.provider.headers(key) if key else {})}
    verify: ssl.SSLContext | bool = arguments.verify_certificate
    if arguments.verify_certificate and arguments.ca_cert_path:
        try:
            verify = ssl.create_default_context(cafile=arguments.ca_cert_path)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"ca_cert_path={arguments.ca_cert_path} cannot be read: {error}") from error
    limits = ResponseLimits(arguments.max_response_mib, arguments.max_response_depth)
    return Server(arguments.url, headers, arguments.timeout, verify, KeyHider((key,) if key else ()), limits)


logger = logging.getLogger(__name__)
T = TypeVar("T")
V = TypeVar("V")
Generated = list[tuple[GenerationInput, int]]  # queries and repeats that wait for one text


class OpenAIModel:
    """A model run by a server."""

    def __init__(self, arguments: OpenAIArguments, rules: RetryRules | None = None) -> None:
        self.arguments = arguments
        self._rules = rules or RetryRules(arguments.max_retries, arguments.retry_budget)
        self._is_checked = False
        self._notes: list[str] = []
        self._other_model: str | None = None
        self._n_past_stop = 0
        self._n_shortened = 0
        self._takes_tokens = False  # known after the first request
        self._first_tokens = FirstTokenTally()

    # ----------------------------------------------------------------------------------- what the model is

    @cached_property
    def identity(self) -> ModelIdentity:
        """Which model this is: its name and server, or the user's name for the weights. Sends nothing.

        Raises: ModelUnavailable if the tokenizer cannot be found.
        """
        arguments, folder = self.arguments, self._tokenizer_folder
        vouched = None if arguments.weights is None else content_hash({"vouched for by the user": arguments.weights})
        template = template_text(folder) if folder else None
        digests = files.FileDigests()
        parts = {path.name: digests.of(path) for path in files.matching(folder, files.TOKENIZER)} if folder else {}
        digests.save()
        return ModelIdentity(
            name=arguments.model,
            kind=arguments.kind,
            content_hash=vouched,
            tokenizer_hash=files.combined_digest(parts),
            template_hash=files.combined_digest({"template": template}) if template else None,
            dtype="unknown",  # a server does not report it
            numerics="numerics unknown",
            max_length=None if arguments.tokenizer is None else arguments.max_length,
            options=(("model", arguments.model), *arguments.options),
        )

    @property
    def answers(self) -> frozenset[QueryKind]:
        """The kinds of query supported: whole texts need a tokenizer here, the choices of a chat `top_logprobs`."""
        arguments = self.arguments
        if arguments.top_logprobs is not None:
            return frozenset({QueryKind.GENERATE, QueryKind.LOGLIKELIHOOD})
        if arguments.is_chat or (arguments.is_openai and arguments.model not in MODELS_WITH_PROMPT_LOGPROBS):
            return frozenset({QueryKind.GENERATE})
        return frozenset(QueryKind) if arguments.tokenizer else frozenset({QueryKind.GENERATE, QueryKind.LOGLIKELIHOOD})

    @property
    def takes_messages(self) -> bool:
        """Whether chats are sent as messages."""
        return self.arguments.is_chat

    @property
    def takes_images(self) -> bool:
        """Whether images are sent, as parts of messages."""
        return self.arguments.is_chat

    @cached_property
    def _tokenizer_folder(self) -> Path | None:
        arguments = self.arguments
        if arguments.tokenizer is None:
            return None
        try:
            return files.folder_of(arguments.tokenizer, arguments.revision, weights=False)
        except ModelUnavailable as error:
            raise ModelUnavailable(
                f"no tokenizer for {arguments.model}: {error}; set one with tokenizer=<folder or Hub id>, or send "
                "texts with tokenizer_backend=none"
            ) from error

    @cached_property
    def _encoder(self) -> Encoder | None:
        arguments = self.arguments
        if self._tokenizer_folder is None:
            return None
        tokenizer = load_tokenizer(
            TokenizerSource(
                self._tokenizer_folder, arguments.use_fast_tokenizer, trust_remote_code=arguments.trust_remote_code
            )
        )
        return Encoder(tokenizer, add_bos_token=arguments.add_bos_token, prefix_token_id=arguments.prefix_token_id)

    @cached_property
    def _prompts(self) -> PromptMaker:
        fingerprint = fingerprint_of(self.identity)
        if fingerprint is not None:
            fingerprint += content_hash([list(self.arguments.options), self.identity.tokenizer_hash]).encode()
        return PromptMaker(self.arguments, self._encoder, fingerprint)

    @cached_property
    def _renderer(self) -> ChatRenderer:
        if self._encoder is None:
            raise UsageError(
                "a chat template needs a tokenizer here: set one with tokenizer=<folder or Hub id>, or let the "
                "server apply its own with --model local-chat-completions"
            )
        return ChatRenderer(self._encoder.tokenizer, {}, self.arguments.chat_template)

    def render(self, messages: Sequence[Message], *, continue_final: bool = False, tools: str | None = None) -> str:
        """Return `messages` as one text under the tokenizer's chat template; see `Model.render`.

        Raises: UsageError if there is none.
        """
        return self._renderer.render(messages, continue_final=continue_final, tools=tools)

    # ----------------------------------------------------------------------------------------- the server

    @cached_property
    def _server(self) -> Server:
        return server_of(self.arguments)

    @cached_property
    def _caller(self) -> HttpCaller:
        return HttpCaller(self._server, self.arguments.num_concurrent, self._rules)

    def check(self) -> None:
        """Check whether the server responds and accepts the key; restores full patience for a new run.

        Raises: ModelUnavailable.
        """
        self._caller.reset()
        known = self.listed()
        if known and self.arguments.model not in known:
            self._notes = [f"the server lists {', '.join(known[:5])}, not {self.arguments.model}"]
        self._is_checked = True

    def listed(self) -> tuple[str, ...]:
        """Return the models that the server lists; empty if it has no list. Raises: ModelUnavailable."""
        return find_server(self._server, self.arguments.server) if self.arguments.provider.lists_models else ()

    # --------------------------------------------------------------------------------------------- answering

    def answer(
        self, requests: Sequence[Request], *, cache: OutputCache | None = None, observe: ProgressObserver | None = None
    ) -> Iterator[Output]:
        """Yield one output per query and repeat, each as soon as it is known; see `Model.answer`."""
        if not self._is_checked:
            self.check()
        tally = AnswerTally(sum(request.n_outputs for request in requests), observe, self._caller.note)
        try:
            for output in self._outputs(requests, cache, tally):
                tally.done(output)
                yield output
        except ModelUnavailable as error:
            raise ModelUnavailable(self._explained(str(error))) from None

    def _explained(self, message: str) -> str:
        arguments = self.arguments
        notes = f" ({'; '.join(self._notes)})" if self._notes else ""
        return (
            f"{arguments.base_url} cannot answer for model '{arguments.model}': {message}{notes}; check model, "
            "base_url and OPENAI_API_KEY"
        )

    def _outputs(self, requests: Sequence[Request], cache: OutputCache | None, tally: AnswerTally) -> Iterator[Output]:
        pending = Pending()
        scored = [r for r in requests if any(not isinstance(query, GenerateQuery) for query in r.queries)]
        refuse_opened_reasoning(scored)
        if self.arguments.top_logprobs is not None and scored:
            yield from self._by_first_token(scored, tally)
            scored = []
        for piece in chunks_of(scored):
            unknown: list[PreparedQuery] = []
            yield from known_outputs(self._prompts.reader.read(piece), cache, unknown)
            ready, spans = pending.add(unknown)
            yield from map(pending.answer, ready)
            for answered in self._send(spans, self._score_call, tally) if spans else ():
                yield from self._scored(answered, pending)
        for piece in pieces_of(requests):
            work = sort_out(self._prompts.texts(piece), cache)
            yield from work.known
            wanted = work.wanted.values()
            for generated in self._send(wanted, self._text_call, tally) if wanted else ():
                yield from self._generated(generated)

    def _by_first_token(self, requests: Sequence[Request], tally: AnswerTally) -> Iterator[Output]:
        """Yield the outputs of letter choices: one request for all choices of a context."""
        questions = questions_of(requests, is_chat=self.arguments.is_chat)
        call_of = partial(first_token_call, self._prompts)
        for answered in self._caller.send(map(call_of, questions), tally.report):
            if answered.value is None:
                yield from answered.about.failures(_failure_in(answered))
            else:
                yield from self._first_tokens.outputs(answered.about, answered.value)
        if n := self._first_tokens.n_elsewhere:
            note = (
                f"{n:,} of {self._first_tokens.n_questions:,} questions: the most probable first token is none of the "
                "letters, which are compared all the same; --prompt_style cot has the answers generated"
            )
            logger.warning(note)

    def _send(
        self, work: Iterable[T], call_of: Callable[[T], HttpCall[T, V]], tally: AnswerTally
    ) -> Iterator[CallOutcome[T, V]]:
        """Yield the outcome of each piece of work; the very first shows whether the server accepts tokens."""
        left = iter(work)
        if self._prompts.sends_tokens and not self._takes_tokens:
            for first in left:
                yield self._first(first, call_of, tally)
                break
        yield from self._caller.send(map(call_of, left), tally.report)

    def _first(self, work: T, call_of: Callable[[T], HttpCall[T, V]], tally: AnswerTally) -> CallOutcome[T, V]:
        """Return the outcome of the first request: as tokens, or as text if the server only accepts that.

        Whether a server accepts tokens is decided by trying, not by its error messages, which differ. After a 500,
        which may have had another cause, tokens are tried again once a text was accepted.
        """
        (answered,) = self._caller.send([call_of(work)], tally.report)
        self._takes_tokens = answered.failure is None
        if answered.failure is None or answered.failure.error not in (RequestRefused, ServerFailed):
            return answered
        by_tokens, by_texts = self._prompts, replace(self._prompts, sends_texts=True)
        self._prompts = by_texts
        (as_text,) = self._caller.send([call_of(work)], tally.report)
        self._prompts = by_tokens
        if as_text.failure is not None:
            return answered
        if answered.failure.error is ServerFailed:
            (again,) = self._caller.send([call_of(work)], tally.report)
            self._takes_tokens = again.failure is None
            if again.failure is None:
                return again
        self._prompts = by_texts
        note = f"the server accepts texts only ({answered.failure.message}); prompts are sent as texts, not as tokens"
        self._notes.append(note)
        logger.warning(note)
        return as_text

    def _score_call(self, span: TokenSpan) -> HttpCall[TokenSpan, ServerScore]:
        prompt, part = self._prompts.scored(span)
        return HttpCall(span, score_body(self.arguments, prompt), partial(read_score, part=part))

    def _scored(self, answered: CallOutcome[TokenSpan, ServerScore], pending: Pending) -> Iterator[Output]:
        """Yield the outputs that an answer completes, or that fail with it."""
        if answered.value is None:
            failure = _failure_in(answered)
            yield from (a.failure(failure.message, failure.error.__name__) for a in pending.failed(answered.about))
            return
        score = answered.value
        for prepared in pending.scored(answered.about, score.total_nats, score.is_greedy):
            if self._encoder is None:  # so far these were counts of characters
                prepared.n_context_tokens, prepared.n_tokens = score.n_context, score.n_scored
            yield pending.answer(prepared)

    def _text_call(self, waiting: Generated) -> HttpCall[Generated, ServerText]:
        prepared, repeat = waiting[0]
        tools = self._prompts.tools_of(prepared)
        body = text_body(self.arguments, self._prompts.prompt_of(prepared), prepared, repeat, tools)
        read = partial(read_text, is_chat=self.arguments.is_chat, keys=self._server.keys, may_call=bool(tools))

        def read_noting_model(answer: object) -> ServerText:
            text = read(answer)
            if note := other_model(answer, self.arguments.model, self._server.keys):
                self._other_model = note
            return text

        return HttpCall(waiting, body, read_noting_model)

    def _generated(self, answered: CallOutcome[Generated, ServerText]) -> Iterator[Output]:
        """Yield the outputs of all queries that waited for one text."""
        if answered.value is None:
            failure = _failure_in(answered)
            yield from (a.failure(repeat, failure.message, failure.error.__name__) for a, repeat in answered.about)
            return
        server_text = answered.value
        for prepared, repeat in answered.about:
            final = final_of_text(server_text.text, prepared.stops, self.arguments.think_end_token)
            if self._has_no_answer(server_text, final, prepared):
                final = FinalText("", server_text.text or None, is_unfinished=True)
            finish = server_text.finish_reason or ""
            if finish == "length" and went_on(server_text.text, prepared.stops, self.arguments.think_end_token):
                finish = "stop"
                self._n_past_stop += prepared.settings.stop_after_text
            if self._prompts.sends_tokens:
                self._n_shortened += 0 < server_text.n_context < prepared.tokens.size
            output = prepared.output(repeat, final, server_text.n_tokens, finish)
            thoughts = [each for each in (server_text.reasoning, final.reasoning) if each]
            yield replace(
                output,
                reasoning="\n".join(thoughts) or None,
                tool_calls=server_text.tool_calls,
                finish_reason=output.finish_reason or None,
                n_context_tokens=server_text.n_context or output.n_context_tokens,
            )

    def _has_no_answer(self, server_text: ServerText, final: FinalText, prepared: GenerationInput) -> bool:
        """Return whether a text ended before its reasoning did, which the server may return apart from the answer."""
        is_cut = server_text.finish_reason == "length"
        if server_text.tool_calls is not None and not final.text.strip():
            return False
        if server_text.reasoning is not None:  # a stop text, or a parser for another model, leaves it alone
            return not (final if is_cut else server_text).text.strip()
        prompt = self._prompts.prompt_of(prepared)
        opened = opened_reasoning(prompt) if isinstance(prompt, str) else None
        return ends_in_reasoning(final, self.arguments.think_end_token, is_cut=is_cut, opened=opened)

    def stream(self, request: Request) -> Iterator[str]:
        """Yield pieces of the text generated for the request's first generate query, as the server sends them.

        Raises: UsageError if it has none; a ModelError if the request fails, also in the middle of the text.
        """
        (prepared,) = self._prompts.texts([for_one_text(request)])
        if prepared.error is not None:
            raise failure_of(prepared.failure(0))
        body = text_body(self.arguments, self._prompts.prompt_of(prepared), prepared, 0)
        pieces = stream_text(self._server, body, self._caller.patience, is_chat=self.arguments.is_chat)
        try:
            yield from until_stop(pieces, prepared.stops, self.arguments.think_end_token)
        except HttpFailure as failure:
            raise failure.error(failure.message) from None

    # ------------------------------------------------------------------------------------ inspecting the work

    def estimate(self, requests: Sequence[Request]) -> WorkEstimate:
        """Return the work that answering would take, without the server; tokens are None if only the server knows."""
        if self.arguments.top_logprobs is not None:
            questions_of(requests, is_chat=self.arguments.is_chat)  # raises
        queries, texts = self._prompts.reader.read(requests), self._prompts.texts(requests)
        n_queries = len(queries) + sum(text.settings.repeats for text in texts)
        every: list[PreparedQuery | GenerationInput] = [*queries, *texts]
        too_long = dict.fromkeys(a.request_id for a in every if a.n_cut_tokens or a.error_kind == "PromptTooLong")
        counts = [self._prompts.n_tokens(text) for text in texts]
        if self._encoder is None or None in counts:
            return WorkEstimate(len(requests), n_queries, None, None, too_long=tuple(too_long))
        spans = [span for prepared in queries for span in prepared.spans]
        n_read = sum(_length(span) for span in spans)
        n_sent = sum(_length(span) for span in {span.key: span for span in spans}.values())
        n_texts = sum(
            (cast("int", count) + text.max_tokens) * text.settings.repeats
            for text, count in zip(texts, counts, strict=True)
        )
        return WorkEstimate(len(requests), n_queries, n_read + n_texts, n_sent + n_texts, too_long=tuple(too_long))

    def split_tokens(self, context: str, continuation: str) -> tuple[list[str], int] | None:
        """Return the texts of the tokens of context + continuation and the first scored one; None without tokenizer."""
        return None if self._encoder is None else self._encoder.token_texts(context, continuation)

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the facts recorded with an attempt: the server's URL, concurrency, retries."""
        facts: dict[str, JsonValue] = {"base_url": self.arguments.base_url, "device": "server"}
        if "_caller" in self.__dict__:
            pace, patience = self._caller.pace, self._caller.patience
            facts |= {
                "num_concurrent": pace.ceiling,
                "lowest_concurrency": pace.lowest,
                "n_sent": self._caller.n_sent,
                "tried_again": dict(patience.retried),
                "given_up": patience.given_up,
                "responses_with_key": self._caller.n_with_key,  # which was replaced by (key)
            }
        if self.arguments.top_logprobs is not None:
            facts["first_token"] = self._first_tokens.facts(self.arguments.top_logprobs)
        if "_prompts" in self.__dict__ and self._prompts.sends_texts:
            facts["tokenized_requests"] = False
        if self.__dict__.get("_encoder") is not None:
            facts |= tokenizer_facts(self.__dict__["_encoder"].tokenizer, self.arguments.chat_template)
        past_stop = (
            f"the server went on to the limit of tokens after the answer's end ({self._n_past_stop:,} times); if none "
            """begins with a blank line it can stop there: --gen_kwargs 'until=["\\n\\n"]'"""
        )
        shortened = (
            f"the server counts fewer tokens than were sent ({self._n_shortened:,} times): it may leave out the "
            "beginning of long prompts; run it with a larger context, or set max_length= to the one that it has"
        )
        notes = (self._other_model, self._n_past_stop and past_stop, self._n_shortened and shortened)
        note = "; ".join(each for each in notes if each)
        facts |= {"note": note} if note else {}
        return {**facts, **({"notes": list(self._notes)} if self._notes else {})}

    def close(self) -> None:
        """Free nothing: connections are closed at the end of each `answer`."""


def _failure_in(answered: CallOutcome[T, V]) -> HttpFailure:
    """Return the failure of a call without a value."""
    return answered.failure or HttpFailure(ModelUnavailable, "no answer")


def _length(span: TokenSpan) -> int:
    return int(span.context.size + span.scored.size)
