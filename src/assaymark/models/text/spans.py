"""Turn scored queries into spans of tokens: fitted to the model, keyed by content, equal ones scored once.

Two tasks with the same query (truthfulqa's mc1 and mc2) share one span. The key of an output is made of exactly what
decides it: model, dtype, numerics, tokens, and how many of them are scored.

Texts can also be encoded without a tokenizer: each character counts as one token, and the server splits the text
itself. White space at the end of a context belongs to the continuation, as with a tokenizer.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from assaymark.engine.spans import IntArray, SpanBatch
from assaymark.errors import Permanent, PromptTooLong, UsageError
from assaymark.models.model import OutputCache
from assaymark.models.text.shorter_prompts import refuse_chat, shorter_prompts
from assaymark.models.text.tokens import ContinuationPair, EncodedPair, Encoder, rolling_windows
from assaymark.records import (
    LoglikelihoodQuery,
    ModelIdentity,
    Output,
    QueryKind,
    Request,
    RollingQuery,
    canonical_json,
)


class Characters:
    """An encoder whose tokens are code points."""

    prefix_token_id: int | None = None

    def encode_pairs(self, pairs: Sequence[ContinuationPair]) -> list[EncodedPair]:
        """Return the characters of each context and of what is scored after it."""
        result = []
        for pair in pairs:
            whole = "".join(pair.segments)
            context = whole.rstrip()
            result.append(EncodedPair(_points(context), _points(whole[len(context) :] + pair.continuation)))
        return result

    def encode_all(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the characters of each text."""
        return [_points(text) for text in texts]

    def decode(self, tokens: IntArray) -> str:
        """Return the text of these characters."""
        return "".join(map(chr, tokens.tolist()))


def _points(text: str) -> IntArray:
    return np.asarray([ord(character) for character in text], dtype=np.int32)


FIRST_CHUNK = 1_000_000  # characters in the first chunk: few, so that the first score comes soon
CHUNK = 16_000_000  # characters per chunk: bounds memory, yet large enough for sharing


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """One sequence and its scored last tokens; `key` is a hash of both."""

    key: bytes
    context: IntArray
    scored: IntArray


@dataclass(slots=True)
class PreparedQuery:
    """One scored query, ready for the engine: its spans, or the reason why it cannot be scored."""

    request_id: str
    ask_index: int
    kind: QueryKind
    spans: tuple[TokenSpan, ...] = ()
    cache_key: str | None = None
    n_context_tokens: int = 0
    n_tokens: int = 0
    n_cut_tokens: int = 0
    error: str | None = None
    error_kind: str | None = None

    def output(self, total_nats: float | None, is_greedy: bool | None, *, from_cache: bool = False) -> Output:
        """Return the output to store."""
        return Output(
            request_id=self.request_id,
            ask_index=self.ask_index,
            total_nats=total_nats,
            is_greedy=is_greedy if self.kind is QueryKind.LOGLIKELIHOOD else None,
            n_context_tokens=self.n_context_tokens,
            n_tokens=self.n_tokens,
            n_cut_tokens=self.n_cut_tokens,
            cache_key=self.cache_key,
            from_cache=from_cache,
        )

    def failure(self, message: str | None = None, kind: str | None = None) -> Output:
        """Return the output of a failed query, with its error."""
        output = replace(self.output(None, None), cache_key=None)
        return failed(output, message or self.error, kind or self.error_kind)


def failed(output: Output, why: str | None, kind: str | None) -> Output:
    """Return the output with an error; it is permanent unless `kind` says otherwise."""
    error = f"{output.request_id} query {output.ask_index}: {why}"
    return replace(output, error=error, error_kind=kind or Permanent.__name__)


@dataclass(frozen=True, slots=True)
class QueryReader:
    """Turns scored queries into spans for one model."""

    encoder: Encoder | Characters
    max_length: int
    too_long: str
    fingerprint: bytes | None  # what besides tokens decides an output; None: outputs are not cached across runs
    is_seq2seq: bool = False  # then encoder and decoder have `max_length` positions each

    def read(self, requests: Sequence[Request]) -> list[PreparedQuery]:
        """Return every scored query of the requests as spans; an invalid one carries its error."""
        scored = [(r, a) for r in requests for a in r.queries if isinstance(a, LoglikelihoodQuery)]
        pairs = [
            ContinuationPair(a.segments if a.segments is not None else r.segments, a.continuation) for r, a in scored
        ]
        rolling = [(r, a) for r in requests for a in r.queries if isinstance(a, RollingQuery)]
        result = []
        removed = [0] * len(pairs)
        if self.too_long == "drop_shots":
            encoded, removed = self._without_shots(scored, pairs)
        else:
            encoded = self.encoder.encode_pairs(pairs)
        for (request, query), pair, n_removed in zip(scored, encoded, removed, strict=True):
            prepared = PreparedQuery(request.id, query.index, QueryKind.LOGLIKELIHOOD, n_cut_tokens=n_removed)
            self._fit(prepared, pair.context, pair.scored)
            result.append(prepared)
        texts = self.encoder.encode_all([query.text for _, query in rolling])
        for (request, text_query), tokens in zip(rolling, texts, strict=True):
            prepared = PreparedQuery(request.id, text_query.index, QueryKind.ROLLING)
            self._roll(prepared, tokens)
            result.append(prepared)
        return result

    def _without_shots(
        self, scored: Sequence[tuple[Request, LoglikelihoodQuery]], pairs: Sequence[ContinuationPair]
    ) -> tuple[list[EncodedPair], list[int]]:
        """Return the pairs without the shots that do not fit, and how many tokens were removed from each.

        Of a text whose end is cut off, as many of the last tokens are scored as the continuation has by itself.
        """
        if not isinstance(self.encoder, Encoder) or self.is_seq2seq:
            raise UsageError(
                "too_long=drop_shots needs a model with a tokenizer and without an encoder; use cut or error"
            )
        for request, _ in scored:
            refuse_chat(request.id, is_chat=bool(request.messages))
        shorter = shorter_prompts(
            self.encoder,
            [(*pair.segments[:-1], pair.segments[-1] + pair.continuation) for pair in pairs],
            [0 if query.role == "unconditional" else request.n_shots for request, query in scored],
            [self.max_length] * len(pairs),
        )
        kept = [
            replace(pair, segments=(*made.segments[:-1], pair.segments[-1]))
            for pair, made in zip(pairs, shorter, strict=True)
        ]
        encoded = self.encoder.encode_pairs(kept)
        for at, made in enumerate(shorter):
            if made.cut_text is not None:
                n_scored = self.encoder.encode_all([pairs[at].continuation], specials=False)[0].size
                (whole,) = self.encoder.encode_all([made.cut_text])
                encoded[at] = EncodedPair(whole[: -n_scored or None], whole[whole.size - n_scored :])
        return encoded, [made.n_removed for made in shorter]

    def _fit(self, prepared: PreparedQuery, context: IntArray, scored: IntArray) -> None:
        """Truncate the context from the left as lm-eval does, or set the error of a query that cannot be scored."""
        prepared.n_tokens, prepared.n_context_tokens = int(scored.size), int(context.size)
        n_over = int(context.size + scored.size) - (self.max_length + 1)
        if self.is_seq2seq:
            n_over = int(context.size) - self.max_length
        if not scored.size:
            prepared.error = (
                "no token is left to score: the continuation is empty, or it merges with the context's last token; "
                "change the task's target_delimiter or the choice's text"
            )
        elif not context.size:
            prepared.error = "the context is empty and the tokenizer has neither BOS nor EOS; set prefix_token_id="
        elif scored.size > self.max_length:
            prepared.error, prepared.error_kind = _too_long(
                f"the continuation has {scored.size} tokens", self.max_length
            )
        elif n_over > 0 and self.too_long == "error":
            total = context.size + scored.size
            prepared.error, prepared.error_kind = _too_long(
                f"context and continuation have {total} tokens", self.max_length
            )
        else:
            if n_over > 0:
                prepared.n_cut_tokens += n_over
                context = context[n_over:]
                prepared.n_context_tokens = int(context.size)
            prepared.spans = (self._span(context, scored),)
            prepared.cache_key = self._key(prepared)

    def _roll(self, prepared: PreparedQuery, tokens: IntArray) -> None:
        prefix = self.encoder.prefix_token_id
        if prefix is None:
            prepared.error = "this tokenizer has neither BOS nor EOS to begin a text with; set prefix_token_id="
            return
        windows = rolling_windows(tokens, prefix, self.max_length)
        prepared.n_tokens = int(tokens.size)
        prepared.spans = tuple(self._span(window[:-n], window[-n:]) for window, n in windows)
        prepared.cache_key = self._key(prepared)

    def _span(self, context: IntArray, scored: IntArray) -> TokenSpan:
        whole = hashlib.blake2b(int(scored.size).to_bytes(4, "little"), digest_size=16)
        whole.update(context.tobytes())
        whole.update(scored.tobytes())
        return TokenSpan(whole.digest(), context, scored)

    def _key(self, prepared: PreparedQuery) -> str | None:
        if self.fingerprint is None:
            return None
        whole = hashlib.blake2b(self.fingerprint, digest_size=20)
        whole.update(prepared.kind.encode())
        for span in prepared.spans:
            whole.update(span.key)
        return f"blake2b:{whole.hexdigest()}"


def _too_long(what: str, max_length: int) -> tuple[str, str]:
    return (
        f"{what}, the model has {max_length} positions; use a model with more positions, or fewer shots",
        PromptTooLong.__name__,
    )


THROUGH_TOKENS = frozenset({  # options that decide which tokens are sent, what is read from a text, or lie in a hash
    "add_bos_token", "chat_template", "chat_template_args", "generation_config", "max_gen_toks", "prefix_token_id",
    "subfolder", "think_end_token", "tokenizer", "use_fast_tokenizer",
})  # fmt: skip


def fingerprint_of(identity: ModelIdentity) -> bytes | None:
    """Return the part of a model's identity that decides the score of tokens; None if the model has no content hash."""
    if identity.content_hash is None:
        return None
    options = [option for option in identity.options if option[0] not in THROUGH_TOKENS]
    return canonical_json([identity.content_hash, identity.dtype, identity.numerics, options]).encode()


def chunks_of(requests: Sequence[Request], first: int = FIRST_CHUNK, size: int = CHUNK) -> Iterator[Sequence[Request]]:
    """Yield the requests in order, in chunks of about `size` characters to score."""
    limit, begin, n_characters = first, 0, 0
    for at, request in enumerate(requests):
        n_context = sum(map(len, request.segments))
        n_characters += sum(n_context if isinstance(a, LoglikelihoodQuery) else 1000 for a in request.queries)
        if n_characters >= limit:
            yield requests[begin : at + 1]
            limit, begin, n_characters = size, at + 1, 0
    if begin < len(requests):
        yield requests[begin:]


def known_outputs(
    queries: Sequence[PreparedQuery], cache: OutputCache | None, unknown: list[PreparedQuery]
) -> Iterator[Output]:
    """Yield the outputs that are cached or failed already; append the other queries to `unknown`."""
    keys = list(dict.fromkeys(prepared.cache_key for prepared in queries if prepared.cache_key is not None))
    cached = cache.find(keys) if cache is not None and keys else {}
    for prepared in queries:
        earlier = cached.get(prepared.cache_key or "")
        if prepared.error is not None:
            yield prepared.failure()
        elif earlier is not None and earlier.total_nats is not None:
            yield prepared.output(earlier.total_nats, earlier.is_greedy, from_cache=True)
        else:
            unknown.append(prepared)


@dataclass(slots=True)
class Pending:
    """Queries that wait for spans, and the distinct spans to be scored for them."""

    known: dict[bytes, tuple[float, bool]] = field(default_factory=dict)  # spans scored in this `answer`
    waiting: dict[bytes, list[PreparedQuery]] = field(default_factory=dict)
    missing: dict[int, int] = field(default_factory=dict)  # id(query) -> spans still missing

    def add(self, queries: Iterable[PreparedQuery]) -> tuple[list[PreparedQuery], list[TokenSpan]]:
        """Return the queries that can be answered already, and the spans that no earlier query needed."""
        ready: list[PreparedQuery] = []
        needed: dict[bytes, TokenSpan] = {}
        for prepared in queries:
            absent = {span.key: span for span in prepared.spans if span.key not in self.known}
            if not absent:
                ready.append(prepared)
                continue
            self.missing[id(prepared)] = len(absent)
            for key, span in absent.items():
                if key not in self.waiting:
                    self.waiting[key] = []
                    needed[key] = span
                self.waiting[key].append(prepared)
        return ready, list(needed.values())

    def scored(self, span: TokenSpan, total_nats: float, is_greedy: bool) -> list[PreparedQuery]:
        """Add a span's score; return the queries whose spans are now all scored."""
        self.known[span.key] = (total_nats, is_greedy)
        finished = []
        for prepared in self.waiting.pop(span.key):
            if id(prepared) in self.missing:
                self.missing[id(prepared)] -= 1
                if not self.missing[id(prepared)]:
                    del self.missing[id(prepared)]
                    finished.append(prepared)
        return finished

    def failed(self, span: TokenSpan) -> list[PreparedQuery]:
        """Add a span's failure; return the queries that fail with it and had not failed before."""
        return [prepared for prepared in self.waiting.pop(span.key) if self.missing.pop(id(prepared), None)]

    def answer(self, prepared: PreparedQuery) -> Output:
        """Return the output of a query whose spans are all known: the sum over its spans."""
        scores = [self.known[span.key] for span in prepared.spans]
        return prepared.output(sum((nats for nats, _ in scores), 0.0), all(greedy for _, greedy in scores))


def span_batch(spans: Sequence[TokenSpan]) -> SpanBatch:
    """Return the spans as a batch for the engine."""
    lengths = [span.context.size + span.scored.size for span in spans]
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    pieces = list(chain.from_iterable((span.context, span.scored) for span in spans))
    tokens = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int32)
    return SpanBatch(tokens, offsets, np.asarray([span.scored.size for span in spans], dtype=np.int32))
