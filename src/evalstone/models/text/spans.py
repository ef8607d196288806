"""Asks made into spans of tokens: fitted to the model, keyed by content, equal ones scored once.

Two tasks that ask the same thing (truthfulqa's mc1 and mc2) share one span. The key of an answer is made of what
decides it and of nothing else: model, dtype, numerics, tokens, and how many of them are scored.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from evalstone.engine.spans import IntArray, SpanBatch
from evalstone.errors import Permanent, PromptTooLong
from evalstone.models.model import OutputCache
from evalstone.models.text.characters import Characters
from evalstone.models.text.tokens import Encoder, Pair, rolling_windows
from evalstone.records import (
    LoglikelihoodQuery,
    ModelIdentity,
    Output,
    QueryKind,
    Request,
    RollingQuery,
    canonical_json,
)

FIRST_CHUNK = 1_000_000  # characters asked: small, so that the first score comes soon
CHUNK = 16_000_000  # characters asked: bounds memory, large enough that sharing hardly suffers


@dataclass(frozen=True, slots=True)
class Span:
    """One sequence and its scored tail; `key` is its content."""

    key: bytes
    context: IntArray
    scored: IntArray


@dataclass(slots=True)
class Asked:
    """One ask, ready to be answered: its spans, or why it cannot be answered."""

    request_id: str
    ask_index: int
    kind: QueryKind
    spans: tuple[Span, ...] = ()
    cache_key: str | None = None
    n_context_tokens: int = 0
    n_tokens: int = 0
    n_cut_tokens: int = 0
    error: str | None = None
    error_kind: str | None = None

    def output(self, total_nats: float | None, is_greedy: bool | None, *, from_cache: bool = False) -> Output:
        """Return the answer as it is kept."""
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
        """Return the output of an ask that has no answer, and why."""
        asked = Output(
            request_id=self.request_id,
            ask_index=self.ask_index,
            n_context_tokens=self.n_context_tokens,
            n_tokens=self.n_tokens,
            n_cut_tokens=self.n_cut_tokens,
        )
        return failed(asked, message or self.error, kind or self.error_kind)


def failed(asked: Output, why: str | None, kind: str | None) -> Output:
    """Return an output without an answer as one that failed; for good, unless its kind says otherwise."""
    error = f"{asked.request_id} ask {asked.ask_index}: {why}"
    return replace(asked, error=error, error_kind=kind or Permanent.__name__)


@dataclass(frozen=True, slots=True)
class QueryReader:
    """Turns requests into asked spans for one model."""

    encoder: Encoder | Characters
    max_length: int
    too_long: str
    fingerprint: bytes | None  # what besides tokens decides an answer; None: answers are not kept across runs

    def read(self, requests: Sequence[Request]) -> list[Asked]:
        """Return every scored ask of the requests as spans; one that cannot be asked carries its error."""
        scored = [(r, a) for r in requests for a in r.queries if isinstance(a, LoglikelihoodQuery)]
        pairs = [Pair(a.segments if a.segments is not None else r.segments, a.continuation) for r, a in scored]
        rolling = [(r, a) for r in requests for a in r.queries if isinstance(a, RollingQuery)]
        result = []
        for (request, query), pair in zip(scored, self.encoder.encode_pairs(pairs), strict=True):
            asked = Asked(request.id, query.index, QueryKind.LOGLIKELIHOOD)
            self._fit(asked, pair.context, pair.scored)
            result.append(asked)
        texts = self.encoder.encode_all([query.text for _, query in rolling])
        for (request, text_ask), tokens in zip(rolling, texts, strict=True):
            asked = Asked(request.id, text_ask.index, QueryKind.ROLLING)
            self._roll(asked, tokens)
            result.append(asked)
        return result

    def _fit(self, asked: Asked, context: IntArray, scored: IntArray) -> None:
        """Cut the context from the left as lm-eval does, or say why the ask cannot be asked."""
        asked.n_tokens, asked.n_context_tokens = int(scored.size), int(context.size)
        n_over = int(context.size + scored.size) - (self.max_length + 1)
        if not scored.size:
            asked.error = (
                "no token is left to score: the continuation is empty, or its text melts into the context's last "
                "token; change the task's target_delimiter or the choice's text"
            )
        elif not context.size:
            asked.error = "the context is empty, and no BOS or EOS stands for it; name one: prefix_token_id="
        elif scored.size > self.max_length:
            asked.error, asked.error_kind = _too_long(f"the continuation has {scored.size} tokens", self.max_length)
        elif n_over > 0 and self.too_long == "error":
            total = context.size + scored.size
            asked.error, asked.error_kind = _too_long(f"context and continuation have {total} tokens", self.max_length)
        else:
            if n_over > 0:
                asked.n_cut_tokens = n_over
                context = context[n_over:]
                asked.n_context_tokens = int(context.size)
            asked.spans = (self._span(context, scored),)
            asked.cache_key = self._key(asked)

    def _roll(self, asked: Asked, tokens: IntArray) -> None:
        prefix = self.encoder.prefix_token_id
        if prefix is None:
            asked.error = "this tokenizer has neither BOS nor EOS to begin a text with; name one: prefix_token_id="
            return
        windows = rolling_windows(tokens, prefix, self.max_length)
        asked.n_tokens = int(tokens.size)
        asked.spans = tuple(self._span(window[:-n], window[-n:]) for window, n in windows)
        asked.cache_key = self._key(asked)

    def _span(self, context: IntArray, scored: IntArray) -> Span:
        whole = hashlib.blake2b(int(scored.size).to_bytes(4, "little"), digest_size=16)
        whole.update(context.tobytes())
        whole.update(scored.tobytes())
        return Span(whole.digest(), context, scored)

    def _key(self, asked: Asked) -> str | None:
        if self.fingerprint is None:
            return None
        whole = hashlib.blake2b(self.fingerprint, digest_size=20)
        whole.update(asked.kind.encode())
        for span in asked.spans:
            whole.update(span.key)
        return f"blake2b:{whole.hexdigest()}"


def _too_long(what: str, max_length: int) -> tuple[str, str]:
    return (
        f"{what}, the model has {max_length} positions; use a model with more, or fewer shots",
        PromptTooLong.__name__,
    )


def fingerprint_of(identity: ModelIdentity) -> bytes | None:
    """Return what of a model decides the score of given tokens; None where the model has no content hash."""
    if identity.content_hash is None:
        return None
    deciding = ("quantization_config", "gguf_file", "variant", "attention")  # each only where it is not the default
    options = [option for option in identity.options if option[0] in deciding]
    return canonical_json([identity.content_hash, identity.dtype, identity.numerics, options]).encode()


def chunks_of(requests: Sequence[Request], first: int = FIRST_CHUNK, size: int = CHUNK) -> Iterator[Sequence[Request]]:
    """Yield the requests in their order, in pieces of about `size` characters asked."""
    limit, begin, n_characters = first, 0, 0
    for at, request in enumerate(requests):
        n_context = sum(map(len, request.segments))
        n_characters += sum(n_context if isinstance(a, LoglikelihoodQuery) else 1000 for a in request.queries)
        if n_characters >= limit:
            yield requests[begin : at + 1]
            limit, begin, n_characters = size, at + 1, 0
    if begin < len(requests):
        yield requests[begin:]


def answered_before(queries: Sequence[Asked], cache: OutputCache | None, unknown: list[Asked]) -> Iterator[Output]:
    """Yield what is known already or cannot be asked; put the rest into `unknown`."""
    keys = list(dict.fromkeys(asked.cache_key for asked in queries if asked.cache_key is not None))
    found = cache.find(keys) if cache is not None and keys else {}
    for asked in queries:
        earlier = found.get(asked.cache_key or "")
        if asked.error is not None:
            yield asked.failure()
        elif earlier is not None and earlier.total_nats is not None:
            yield asked.output(earlier.total_nats, earlier.is_greedy, from_cache=True)
        else:
            unknown.append(asked)


@dataclass(slots=True)
class Pending:
    """Asks that wait for spans, and the distinct spans to be scored for them."""

    known: dict[bytes, tuple[float, bool]] = field(default_factory=dict)  # spans scored earlier in this answer
    waiting: dict[bytes, list[Asked]] = field(default_factory=dict)
    missing: dict[int, int] = field(default_factory=dict)  # id(ask) -> spans still to come

    def add(self, queries: Iterable[Asked]) -> tuple[list[Asked], list[Span]]:
        """Return the asks that can be answered from what is known, and the spans that nobody has asked for yet."""
        ready: list[Asked] = []
        needed: dict[bytes, Span] = {}
        for asked in queries:
            absent = {span.key: span for span in asked.spans if span.key not in self.known}
            if not absent:
                ready.append(asked)
                continue
            self.missing[id(asked)] = len(absent)
            for key, span in absent.items():
                if key not in self.waiting:
                    self.waiting[key] = []
                    needed[key] = span
                self.waiting[key].append(asked)
        return ready, list(needed.values())

    def scored(self, span: Span, total_nats: float, is_greedy: bool) -> list[Asked]:
        """Take a span's score; return the asks that have all of theirs now."""
        self.known[span.key] = (total_nats, is_greedy)
        finished = []
        for asked in self.waiting.pop(span.key):
            if id(asked) in self.missing:
                self.missing[id(asked)] -= 1
                if not self.missing[id(asked)]:
                    del self.missing[id(asked)]
                    finished.append(asked)
        return finished

    def failed(self, span: Span) -> list[Asked]:
        """Take a span's failure; return the asks that fail with it and have not failed before."""
        return [asked for asked in self.waiting.pop(span.key) if self.missing.pop(id(asked), None)]

    def answer(self, asked: Asked) -> Output:
        """Return the output of an ask whose spans are all known: the sum over its spans."""
        scores = [self.known[span.key] for span in asked.spans]
        return asked.output(sum((nats for nats, _ in scores), 0.0), all(greedy for _, greedy in scores))


def span_batch(spans: Sequence[Span]) -> SpanBatch:
    """Return the spans as the engine takes them."""
    lengths = [span.context.size + span.scored.size for span in spans]
    offsets = np.zeros(len(spans) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    pieces = list(chain.from_iterable((span.context, span.scored) for span in spans))
    tokens = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int32)
    return SpanBatch(tokens, offsets, np.asarray([span.scored.size for span in spans], dtype=np.int32))
