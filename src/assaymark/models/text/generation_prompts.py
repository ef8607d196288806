"""Turn generate queries into prompts of tokens, truncated to leave space for the answer and keyed by content.

The rules are those of lm-evaluation-harness: a context keeps its last `max_length - max_gen_toks` tokens; an answer
ends at the task's `until` or the model's own end tokens; the model's generation_config applies to settings that the
task leaves open, unless generation_config=none was given.

Source: lm-evaluation-harness 0.4.13, models/huggingface.py (generate_until, tok_batch_encode, _model_generate).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np

from assaymark.engine.generation import GenerationDefaults, GenerationPrompt, Sampling
from assaymark.engine.spans import IntArray
from assaymark.errors import PromptTooLong, UsageError
from assaymark.models.text.shorter_prompts import refuse_chat, shorter_prompts
from assaymark.models.text.spans import failed
from assaymark.models.text.stops import FinalText, stop_texts
from assaymark.models.text.tokens import EMPTY, Encoder
from assaymark.records import (
    IN_REASONING,
    GenerateQuery,
    GenerationSettings,
    JsonValue,
    Output,
    Request,
    canonical_json,
)
from assaymark.records.json_values import float_of, int_of

DEFAULT_MAX_TOKENS = 256  # lm-eval's max_gen_toks
TRANSFORMERS_TOP_K = 50  # the default of `generate` if neither task nor model sets it
ConfigChoice = Literal["model", "none"]


@dataclass(slots=True)
class GenerationInput:
    """One generate query, ready for the engine: its tokens and settings, or the reason why it cannot be sent."""

    request_id: str
    ask_index: int
    settings: GenerationSettings
    max_tokens: int
    stops: tuple[str, ...] = ()
    tokens: IntArray = field(default_factory=lambda: EMPTY)
    digest: str = ""  # of the tokens and everything else that decides the text except seed and repeat
    is_cacheable: bool = True  # whether outputs may be cached across runs
    n_cut_tokens: int = 0
    error: str | None = None
    error_kind: str | None = None

    def cache_key(self, repeat: int) -> str:
        """Return the cache key of one repeat; all greedy repeats share one key."""
        drawn = f"{self.settings.seed}/{repeat}" if self.settings.do_sample else "greedy"
        return "blake2b:" + hashlib.blake2b(f"{self.digest}/{drawn}".encode(), digest_size=20).hexdigest()

    def output(self, repeat: int, final: FinalText, n_tokens: int, finish_reason: str) -> Output:
        """Return the output to store."""
        return Output(
            request_id=self.request_id,
            ask_index=self.ask_index,
            repeat=repeat,
            text=final.text,
            reasoning=final.reasoning,
            finish_reason=IN_REASONING if final.is_unfinished else finish_reason,
            n_context_tokens=int(self.tokens.size),
            n_tokens=n_tokens,
            n_cut_tokens=self.n_cut_tokens,
            cache_key=self.cache_key(repeat) if self.is_cacheable else None,
        )

    def failure(self, repeat: int, message: str | None = None, kind: str | None = None) -> Output:
        """Return the output of a failed repeat, with its error."""
        output = Output(
            request_id=self.request_id,
            ask_index=self.ask_index,
            repeat=repeat,
            n_context_tokens=int(self.tokens.size),
            n_cut_tokens=self.n_cut_tokens,
        )
        return failed(output, message or self.error, kind or self.error_kind)


@dataclass(frozen=True, slots=True)
class TextReader:
    """Turns generate queries into prompts for one model."""

    encoder: Encoder
    max_length: int
    too_long: str
    fingerprint: bytes | None  # what besides tokens and settings decides a text; None: outputs are not cached
    default_max_tokens: int = DEFAULT_MAX_TOKENS
    eos_text: str | None = None  # replaces the tokenizer's own
    is_seq2seq: bool = False  # then the answer takes none of the prompt's positions

    def read(self, requests: Sequence[Request]) -> list[GenerationInput]:
        """Return every generate query of the requests as tokens; an invalid one carries its error.

        Raises: UsageError for contradictory settings.
        """
        pairs = [(r, a) for r in requests for a in r.queries if isinstance(a, GenerateQuery)]
        texts, removed = ["".join(request.segments) for request, _ in pairs], [0] * len(pairs)
        if self.too_long == "drop_shots":
            texts, removed = self._without_shots(pairs)
        tokens = self._encode(texts)
        eos, eos_text = self.encoder.tokenizer.eos_token_id, self.eos_text
        if eos_text is None and eos is not None:
            eos_text = str(self.encoder.tokenizer.decode([eos], skip_special_tokens=False))
        result = []
        for (request, query), context, n_removed in zip(pairs, tokens, removed, strict=True):
            settings = query.settings
            refuse_contradiction(request.id, settings)
            prepared = GenerationInput(
                request.id,
                query.index,
                settings,
                settings.max_tokens or self.default_max_tokens,
                n_cut_tokens=n_removed,
            )
            prepared.stops = stop_texts(settings, eos_text)
            self._fit(prepared, context)
            result.append(prepared)
        return result

    def _without_shots(self, pairs: Sequence[tuple[Request, GenerateQuery]]) -> tuple[list[str], list[int]]:
        """Return the texts without the shots that do not fit, and how many tokens were removed from each."""
        for request, _ in pairs:
            refuse_chat(request.id, is_chat=bool(request.messages))
        longest = [
            self.max_length - (0 if self.is_seq2seq else query.settings.max_tokens or self.default_max_tokens)
            for _, query in pairs
        ]
        shorter = shorter_prompts(
            self.encoder, [request.segments for request, _ in pairs], [request.n_shots for request, _ in pairs], longest
        )
        texts = ["".join(made.segments) if made.cut_text is None else made.cut_text for made in shorter]
        return texts, [made.n_removed for made in shorter]

    def _encode(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the tokens of each text; one that begins with BOS gets no second BOS."""
        bos = getattr(self.encoder.tokenizer, "bos_token", None)
        wanted = self.encoder.add_bos_token
        default = True if wanted is None else wanted
        if self.is_seq2seq:
            return self.encoder.encode_all(texts, specials=True)
        flags = [False if bos and text.startswith(bos) else default for text in texts]
        result: list[IntArray] = [EMPTY] * len(texts)
        for flag in (False, True):
            chosen = [i for i, each in enumerate(flags) if each == flag]
            for i, tokens in zip(
                chosen, self.encoder.encode_all([texts[i] for i in chosen], specials=flag), strict=True
            ):
                result[i] = tokens
        return result

    def _fit(self, prepared: GenerationInput, context: IntArray) -> None:
        """Truncate the context from the left as lm-eval does, or set the error of a query that cannot be sent."""
        prefix = self.encoder.prefix_token_id
        if not context.size and prefix is not None:
            context = np.asarray([prefix], dtype=np.int32)
        capacity = self.max_length if self.is_seq2seq else self.max_length - prepared.max_tokens
        n_over = int(context.size) - capacity
        prepared.tokens = context
        if not context.size:
            prepared.error = "the context is empty and the tokenizer has neither BOS nor EOS; set prefix_token_id="
        elif capacity < 1:
            prepared.error = (
                f"{prepared.max_tokens} new tokens are allowed and the model has {self.max_length} positions, which "
                f"leaves none for the prompt; reduce them: --gen_kwargs max_gen_toks={max(1, self.max_length // 4)}"
            )
            prepared.error_kind = PromptTooLong.__name__
        elif n_over > 0 and self.too_long == "error":
            prepared.error = (
                f"the prompt has {context.size} tokens, and {prepared.max_tokens} new ones are allowed; the model has "
                f"{self.max_length} positions; use a model with more positions, or fewer shots"
            )
            prepared.error_kind = PromptTooLong.__name__
        else:
            if n_over > 0:
                prepared.n_cut_tokens += n_over
                prepared.tokens = context[n_over:]
            name_by_content(prepared, prepared.tokens.tobytes(), self.fingerprint)


def refuse_contradiction(request_id: str, settings: GenerationSettings) -> None:
    """Raise UsageError for settings that require sampling without a temperature."""
    if settings.do_sample and not settings.temperature > 0:
        raise UsageError(
            f"{request_id}: do_sample=True with temperature={settings.temperature}; set a temperature above "
            "0, or omit do_sample for greedy decoding"
        )


def name_by_content(prepared: GenerationInput, prompt: bytes, fingerprint: bytes | None) -> None:
    """Set the digest of a query; without a fingerprint of the model it is valid within one call of `answer` only."""
    settings = asdict(prepared.settings)
    for name in ("seed", "repeats", "max_tokens", "stop", "stop_after_text"):
        del settings[name]
    whole = hashlib.blake2b(fingerprint or b"", digest_size=20)
    whole.update(canonical_json(["generate_until", settings, prepared.max_tokens, prepared.stops]).encode())
    whole.update(prompt)
    prepared.digest = whole.hexdigest()
    prepared.is_cacheable = fingerprint is not None


def prompt_of(
    prepared: GenerationInput,
    repeats: Sequence[int],
    defaults: GenerationDefaults,
    choice: ConfigChoice,
    eos_ids: frozenset[int],
) -> GenerationPrompt:
    """Return the engine's prompt: the task's settings, and the model's defaults for those it leaves open.

    Source: transformers' `GenerationMixin._prepare_generation_config`: what is passed, then the model's
        generation_config, then top_k=50 if sampling.
    """
    extra = dict(prepared.settings.extra)
    own: Mapping[str, JsonValue] = defaults.sampling if choice == "model" else {}
    penalty = extra.pop("repetition_penalty", None)
    if penalty is None:
        penalty = defaults.repetition_penalty if choice == "model" else 1.0
    other = {**(defaults.other if choice == "model" else {}), **extra}
    other.pop("use_cache", None)  # affects speed, not the result
    return GenerationPrompt(
        tokens=prepared.tokens,
        max_new_tokens=prepared.max_tokens,
        eos_ids=eos_ids | defaults.eos_ids,
        sampling=_sampling(prepared.settings, own, choice),
        seed=prepared.settings.seed,
        key=hashlib.blake2b(prepared.tokens.tobytes(), digest_size=16).hexdigest(),
        repeats=tuple(repeats),
        repetition_penalty=float_of(penalty, "repetition_penalty"),
        other=other,
    )


def _sampling(settings: GenerationSettings, own: Mapping[str, JsonValue], choice: ConfigChoice) -> Sampling | None:
    """Return the sampling settings; None for greedy decoding."""
    if not settings.do_sample:
        return None
    top_k = settings.top_k if settings.top_k is not None else own.get("top_k")
    if top_k is None and choice == "model":
        top_k = TRANSFORMERS_TOP_K
    top_p = settings.top_p if settings.top_p is not None else own.get("top_p")
    min_p = settings.min_p if settings.min_p is not None else own.get("min_p")
    return Sampling(
        settings.temperature,
        int_of(top_k, "top_k") if top_k else None,
        None if top_p is None else float_of(top_p, "top_p"),
        None if min_p is None else float_of(min_p, "min_p"),
    )
