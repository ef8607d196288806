"""llama.cpp with the interface of our own engine: spans scored, prompts continued, token ids in and out.

llama-cpp-python's own class keeps the logits of all positions of a context, gigabytes for a large vocabulary, so passes
are made with the C functions that it wraps. The keys and values of the last sequence stay, and only the rest after the
common beginning is computed for the next one; spans are sorted for that. Log-probabilities are computed here from
llama.cpp's logits, in float64. Texts are sampled and stopped by this package's rules, one after another.
"""

import ctypes
import time
import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from assaymark.engine.generation import (
    FinishReason,
    GeneratedSequence,
    GenerationDefaults,
    GenerationFailure,
    GenerationPrompt,
    GenerationReport,
    StepObserver,
    uniform,
)
from assaymark.engine.options import EngineInfo
from assaymark.engine.spans import IntArray, SpanBatch, SpanFailure, SpanScore, WindowObserver, WindowReport
from assaymark.engine.trie import plan_trie, sorted_order
from assaymark.errors import MissingExtra, ModelUnavailable, NonFiniteLogits, PlanError, PromptTooLong, UsageError
from assaymark.models.text.stops import StopTexts
from assaymark.models.token_engine import FollowText, ScoreQueue, SequentialQueue, SpanResult, TextResult

if TYPE_CHECKING:
    from llama_cpp import Llama

_KEPT: list[object] = []
FORMATS = {"f32": 0, "f16": 1}  # ggml's numbers


@cache
def _library() -> ModuleType:
    """Return llama-cpp-python's binding, without its notes on standard error: problems are exceptions here.

    Raises: MissingExtra if it is not installed.
    """
    try:
        library = import_module("llama_cpp")
    except ImportError:
        raise MissingExtra("--model gguf", "gguf") from None

    drop = library.llama_log_callback(lambda _level, _text, _data: None)
    library.llama_log_set(drop, None)
    _KEPT.append(drop)  # C holds no reference to it
    return library


def _loaded(path: Path, **options: object) -> "Llama":
    library = _library()
    try:
        return library.Llama(str(path), verbose=False, **options)
    except (ValueError, RuntimeError, AssertionError, OSError) as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ModelUnavailable(
            f"llama.cpp cannot load {path}: {first}; is the file complete, and its architecture one that "
            f"llama-cpp-python {library.__version__} knows?"
        ) from error


class LlamaFile:
    """The metadata of a GGUF file; loads the vocabulary and no weights."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._llama = _loaded(path, vocab_only=True)
        weakref.finalize(self, self._llama.close)  # at exit too, while the library can still be called
        self._model = self._llama._model  # noqa: SLF001 - the vocabulary has no public accessor
        self.metadata: dict[str, str] = dict(self._llama.metadata)

    @property
    def n_positions(self) -> int:
        """The positions that the model was trained on."""
        stated = self.metadata.get(f"{self.metadata.get('general.architecture')}.context_length")
        if stated is None:
            raise ModelUnavailable(f"{self.path} does not state its context length; set max_length=")
        return int(stated)

    @property
    def number_format(self) -> str:
        """The format of most weights, such as F16 or Q4_K_M."""
        library = _library()
        names = {
            getattr(library, name): name.removeprefix("LLAMA_FTYPE_").removeprefix("MOSTLY_").removeprefix("ALL_")
            for name in dir(library)
            if name.startswith("LLAMA_FTYPE_")
        }
        return str(names.get(int(self.metadata.get("general.file_type", -1)), "unknown"))

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Return the tokens of a text, with the model's own special tokens around it if `special`."""
        tokens: list[int] = self._model.tokenize(text.encode(), add_bos=special, special=True)
        return tokens

    def pieces(self, tokens: Sequence[int], *, special: bool) -> bytes:
        """Return the bytes of these tokens; special tokens are left out unless `special`."""
        library, result = _library(), b""
        for token in tokens:
            size = 64
            while True:
                buffer = ctypes.create_string_buffer(size)
                n = library.llama_token_to_piece(self._model.vocab, int(token), buffer, size, 0, special)
                if n >= 0:
                    break
                size = -n
            result += buffer.raw[:n]
        return result

    def token_id(self, name: str) -> int | None:
        """Return the id of a special token (`bos`, `eos`, `eot` ...), None if the model has none."""
        value = getattr(self._model, f"token_{name}")()
        return int(value) if value >= 0 else None

    @property
    def control_ids(self) -> list[int]:
        """The ids of the tokens that control the model, such as the end of a turn, and stand for no text."""
        is_control, vocabulary = _library().llama_vocab_is_control, self._model.vocab
        return [number for number in range(self.n_tokens) if is_control(vocabulary, number)]

    @property
    def n_tokens(self) -> int:
        """The size of the vocabulary."""
        return int(self._model.n_vocab())


class LlamaSession:
    """A loaded model with one sequence in memory."""

    def __init__(self, path: Path, n_positions: int, n_batch: int, cache_type: str, **options: object) -> None:
        library = _library()
        kind = FORMATS[cache_type]
        self._library = library
        self._llama = _loaded(
            path, n_ctx=n_positions, n_batch=n_batch, n_ubatch=n_batch, type_k=kind, type_v=kind, **options
        )
        self._close = weakref.finalize(self, self._llama.close)
        self._context = self._llama._ctx.ctx  # noqa: SLF001 - what the C functions take
        self._memory = library.llama_get_memory(self._context)
        self._n_batch = n_batch
        self.n_vocab = int(self._llama.n_vocab())
        self.n_parameters = int(self._llama._model.n_params())  # noqa: SLF001
        self._batch = library.llama_batch_init(n_batch, 0, 1)
        self._past: list[int] = []
        self.n_computed = 0  # tokens that were no part of the sequence before

    def logits(self, tokens: Sequence[int], n_last: int) -> npt.NDArray[np.float32]:
        """Return the logits after each of the last `n_last` of these tokens.

        Shapes: float32 [n_last, vocabulary].
        Raises: ModelUnavailable if llama.cpp fails.
        """
        first = self._keep(tokens, len(tokens) - n_last)
        self.n_computed += len(tokens) - first
        rows = np.empty((n_last, self.n_vocab), dtype=np.float32)
        wanted = len(tokens) - n_last  # the first position whose logits are needed
        for begin in range(first, len(tokens), self._n_batch):
            part = tokens[begin : begin + self._n_batch]
            self._decode(part, begin, wanted)
            for at in range(max(begin, wanted), begin + len(part)):
                pointer = self._library.llama_get_logits_ith(self._context, at - begin)
                rows[at - wanted] = np.ctypeslib.as_array(pointer, shape=(self.n_vocab,))
        self._past = list(tokens)
        return rows

    def _keep(self, tokens: Sequence[int], most: int) -> int:
        """Keep the common beginning of the stored sequence and this one, at most `most` tokens; return its length."""
        common = 0
        for old, new in zip(self._past[:most], tokens, strict=False):
            if old != new:
                break
            common += 1
        if not self._library.llama_memory_seq_rm(self._memory, 0, common, -1):
            self._library.llama_memory_clear(self._memory, True)
            common = 0
        self._past = list(tokens[:common])
        return common

    def _decode(self, part: Sequence[int], begin: int, wanted: int) -> None:
        batch = self._batch
        batch.n_tokens = len(part)
        for at, token in enumerate(part):
            batch.token[at] = int(token)
            batch.pos[at] = begin + at
            batch.n_seq_id[at] = 1
            batch.seq_id[at][0] = 0
            batch.logits[at] = int(begin + at >= wanted)
        code = self._library.llama_decode(self._context, batch)
        if code != 0:
            self._past = []
            self._library.llama_memory_clear(self._memory, True)
            raise ModelUnavailable(f"llama.cpp failed with code {code}; reduce n_batch= or max_length=")

    def close(self) -> None:
        """Free the model."""
        if self._close.alive:
            self._library.llama_batch_free(self._batch)
            self._close()


REPORT_SECONDS = 0.2
TokenizerLike = object


class GgufEngine:
    """A `TokenEngine` around a session of llama.cpp."""

    n_workers = 1

    def __init__(
        self, session: LlamaSession, info: EngineInfo, defaults: GenerationDefaults, tokenizer: TokenizerLike
    ) -> None:
        self._session: LlamaSession | None = session
        self._tokenizer = tokenizer
        self.info = info
        self.generation_defaults = defaults

    def _open(self) -> LlamaSession:
        if self._session is None:
            raise ModelUnavailable("the engine is closed; load it again")
        return self._session

    def _check(self, tokens: IntArray) -> None:
        """Raise PlanError for a token that the model does not have."""
        if tokens.size and (int(tokens.min()) < 0 or int(tokens.max()) >= self.info.vocab_size):
            raise PlanError(
                f"token ids reach {int(tokens.max())}; the model in the GGUF file has 0 to {self.info.vocab_size - 1}: "
                "is this the model's own tokenizer?"
            )

    # ------------------------------------------------------------------------------------------------ scoring

    def queue(self) -> ScoreQueue:
        """Return a queue that scores one batch after another."""
        return SequentialQueue(self.score)

    def score(self, spans: SpanBatch, on_window: WindowObserver | None = None) -> Iterator[SpanResult]:
        """Yield the score or the failure of each span.

        Raises: PlanError if a token is not in the vocabulary; ModelUnavailable if llama.cpp fails as a whole.
        """
        session = self._open()
        self._check(spans.tokens)
        total, done = int(spans.tokens.size) - len(spans), 0
        distinct, before = plan_trie(spans).n_distinct, session.n_computed
        started = reported = time.perf_counter()
        for index in sorted_order(spans).tolist():
            tokens, n_scored = spans.sequence(index).tolist(), int(spans.n_scored[index])
            if len(tokens) - 1 > (self.info.max_length or len(tokens)):
                reason = f"{len(tokens) - 1} input tokens; the context has {self.info.max_length} positions"
                yield SpanFailure(index, PromptTooLong, reason)
                continue
            yield _score(index, session.logits(tokens[:-1], n_scored), tokens[-n_scored:])
            done += len(tokens) - 1
            now = time.perf_counter()
            if on_window is not None and (now - reported > REPORT_SECONDS or done == total):
                reported = now
                # the token before the first target is computed for each span, which the trie counts once
                computed = distinct if done == total else min(distinct, session.n_computed - before)
                on_window(WindowReport(done, total, computed, distinct, now - started))

    # --------------------------------------------------------------------------------------------- generation

    def generate(
        self, prompts: Sequence[GenerationPrompt], stops: StopTexts, on_step: StepObserver | None = None
    ) -> Iterator[TextResult]:
        """Yield each prompt's continuations, one after another; equal greedy ones are generated once.

        Raises: PlanError, UsageError for settings that are not supported.
        """
        for prompt in prompts:
            self._check(prompt.tokens)
            if prompt.other:
                name, value = next(iter(prompt.other.items()))
                raise UsageError(f"generation setting {name}={value} is not supported with --model gguf; omit it")
        n_prompt, n_sequences = sum(int(p.tokens.size) for p in prompts), sum(len(p.repeats) for p in prompts)
        started, n_read, n_generated, n_done = time.perf_counter(), 0, 0, 0
        for index in sorted(range(len(prompts)), key=lambda at: prompts[at].tokens.tolist()):
            prompt = prompts[index]
            first: TextResult | None = None
            for repeat in prompt.repeats:
                if first is None or prompt.sampling is not None:
                    first = next(each for each in self._steps(prompt, index, repeat, stops, None) if each is not None)
                    yield first
                else:
                    yield _again(first, repeat)
                n_done += 1
                n_generated += len(first.tokens) if isinstance(first, GeneratedSequence) else 0
            n_read += int(prompt.tokens.size)
            if on_step is not None:
                seconds = time.perf_counter() - started
                on_step(GenerationReport(n_read, n_prompt, n_generated, n_generated, n_done, n_sequences, seconds))

    def stream(self, prompt: GenerationPrompt, stops: StopTexts, follow: FollowText) -> Iterator[TextResult | None]:
        """Yield None after each token and finally the result."""
        self._check(prompt.tokens)
        yield from self._steps(prompt, 0, prompt.repeats[0], stops, follow)

    def _steps(
        self, prompt: GenerationPrompt, index: int, repeat: int, stops: StopTexts, follow: FollowText | None
    ) -> Iterator[TextResult | None]:
        """Yield None after each token, finally the sequence or its failure."""
        session, has_stopped = self._open(), stops.check(self._tokenizer)
        limit = self.info.max_length
        if limit is not None and prompt.tokens.size + prompt.max_new_tokens > limit:
            reason = f"{prompt.tokens.size} tokens and {prompt.max_new_tokens} to generate; the context has {limit}"
            yield GenerationFailure(index, repeat, PromptTooLong, reason)
            return
        tokens: list[int] = prompt.tokens.tolist()
        generated: list[int] = []
        reason_of_end: FinishReason = "length"
        while len(generated) < prompt.max_new_tokens:
            row = session.logits([*tokens, *generated], 1)[0]
            if not np.isfinite(row.max()):
                yield GenerationFailure(index, repeat, NonFiniteLogits, "logits are not finite")
                return
            generated.append(_choose(row, prompt, repeat, tokens, generated))
            if follow is not None:
                follow(generated)
            if generated[-1] in prompt.eos_ids:
                reason_of_end = "eos"
                break
            if has_stopped(index, repeat, generated):
                reason_of_end = "stop"
                break
            yield None
        yield GeneratedSequence(index, repeat, tuple(generated), reason_of_end)

    def close(self) -> None:
        """Free the weights."""
        if self._session is not None:
            self._session.close()
        self._session = None


def _score(index: int, logits: npt.NDArray[np.float32], targets: Sequence[int]) -> SpanScore | SpanFailure:
    """Return the sum of the targets' log-probabilities. Shapes: logits [n_scored, vocabulary]."""
    rows = logits.astype(np.float64)
    best = rows.max(axis=1)
    own = rows[np.arange(len(targets)), list(targets)]
    total = float((own - best - np.log(np.exp(rows - best[:, None]).sum(axis=1))).sum())
    if not np.isfinite(total):
        return SpanFailure(index, NonFiniteLogits, "log-probabilities are not finite; use a file of another format")
    return SpanScore(index, total, bool((rows.argmax(axis=1) == list(targets)).all()))


def _choose(
    row: npt.NDArray[np.float32], prompt: GenerationPrompt, repeat: int, before: list[int], generated: list[int]
) -> int:
    """Return the next token; random numbers are those of our own engine, so equal logits give equal texts."""
    if prompt.repetition_penalty != 1.0:
        seen = np.unique([*before, *generated])
        row[seen] = np.where(
            row[seen] < 0, row[seen] * prompt.repetition_penalty, row[seen] / prompt.repetition_penalty
        )
    if prompt.sampling is None:
        return int(row.argmax())
    from assaymark.engine.sampling import choose_one

    return choose_one(row, prompt.sampling, uniform(prompt.seed, prompt.key, repeat, len(generated)))


def _again(first: TextResult, repeat: int) -> TextResult:
    if isinstance(first, GeneratedSequence):
        return GeneratedSequence(first.index, repeat, first.tokens, first.finish_reason)
    return GenerationFailure(first.index, repeat, first.kind, first.reason)
