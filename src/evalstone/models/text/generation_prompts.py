"""Generate asks made into prompts of tokens: cut to leave room for the answer, and keyed by content.

The rules are lm-evaluation-harness's: a context keeps its last `max_length - max_gen_toks` tokens; what ends an answer
is the task's `until` and the model's own ending tokens; what the model's generation_config says applies where the task
says nothing, unless generation_config=none was asked for.

Source: lm-evaluation-harness 0.4.13, models/huggingface.py (generate_until, tok_batch_encode, _model_generate).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from evalstone.engine.generation import GenerationDefaults, GenerationPrompt, Sampling
from evalstone.engine.spans import IntArray
from evalstone.errors import PromptTooLong, UsageError
from evalstone.models.text.spans import failed
from evalstone.models.text.stops import FinalText, stop_texts
from evalstone.models.text.tokens import EMPTY, Encoder
from evalstone.records import GenerateQuery, GenerationSettings, Output, Request, canonical_json

DEFAULT_MAX_TOKENS = 256  # lm-eval's max_gen_toks
TRANSFORMERS_TOP_K = 50  # what `generate` samples from where neither task nor model says otherwise
ConfigChoice = Literal["model", "none"]


@dataclass(slots=True)
class GenerationInput:
    """One generate ask, ready to be written: its tokens and settings, or why it cannot be asked."""

    request_id: str
    ask_index: int
    settings: GenerationSettings
    max_tokens: int
    stops: tuple[str, ...] = ()
    tokens: IntArray = field(default_factory=lambda: EMPTY)
    digest: str = ""  # of tokens and everything else that decides the text, but seed and repeat
    is_kept: bool = True  # whether answers may be kept across runs
    n_cut_tokens: int = 0
    error: str | None = None
    error_kind: str | None = None

    def cache_key(self, repeat: int) -> str:
        """Return the key of one repeat's answer; greedy ones are all the same."""
        drawn = f"{self.settings.seed}/{repeat}" if self.settings.do_sample else "greedy"
        return "blake2b:" + hashlib.blake2b(f"{self.digest}/{drawn}".encode(), digest_size=20).hexdigest()

    def output(self, repeat: int, final: FinalText, n_tokens: int, finish_reason: str) -> Output:
        """Return the answer as it is kept."""
        return Output(
            request_id=self.request_id,
            ask_index=self.ask_index,
            repeat=repeat,
            text=final.text,
            reasoning=final.reasoning,
            finish_reason=finish_reason,
            n_context_tokens=int(self.tokens.size),
            n_tokens=n_tokens,
            n_cut_tokens=self.n_cut_tokens,
            cache_key=self.cache_key(repeat) if self.is_kept else None,
        )

    def failure(self, repeat: int, message: str | None = None, kind: str | None = None) -> Output:
        """Return the output of a repeat that has no answer, and why."""
        asked = Output(
            request_id=self.request_id,
            ask_index=self.ask_index,
            repeat=repeat,
            n_context_tokens=int(self.tokens.size),
            n_cut_tokens=self.n_cut_tokens,
        )
        return failed(asked, message or self.error, kind or self.error_kind)


@dataclass(frozen=True, slots=True)
class TextReader:
    """Turns generate asks into prompts for one model."""

    encoder: Encoder
    max_length: int
    too_long: str
    fingerprint: bytes | None  # what besides tokens and settings decides a text; None: answers are not kept
    default_max_tokens: int = DEFAULT_MAX_TOKENS
    eos_text: str | None = None  # in place of the tokenizer's own

    def read(self, requests: Sequence[Request]) -> list[GenerationInput]:
        """Return every generate ask of the requests as tokens; one that cannot be asked carries its error.

        Raises: UsageError for settings that contradict themselves.
        """
        pairs = [(r, a) for r in requests for a in r.queries if isinstance(a, GenerateQuery)]
        tokens = self._encode(["".join(request.segments) for request, _ in pairs])
        eos, eos_text = self.encoder.tokenizer.eos_token_id, self.eos_text
        if eos_text is None and eos is not None:
            eos_text = str(self.encoder.tokenizer.decode([eos], skip_special_tokens=False))
        result = []
        for (request, query), context in zip(pairs, tokens, strict=True):
            settings = query.settings
            refuse_contradiction(request.id, settings)
            asked = GenerationInput(request.id, query.index, settings, settings.max_tokens or self.default_max_tokens)
            asked.stops = stop_texts(settings.stop, eos_text)
            self._fit(asked, context)
            result.append(asked)
        return result

    def _encode(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the tokens of each text; one that begins with BOS gets no second."""
        bos = getattr(self.encoder.tokenizer, "bos_token", None)
        wanted = self.encoder.add_bos_token
        default = True if wanted is None else wanted
        flags = [False if bos and text.startswith(bos) else default for text in texts]
        result: list[IntArray] = [EMPTY] * len(texts)
        for flag in (False, True):
            chosen = [i for i, each in enumerate(flags) if each == flag]
            for i, tokens in zip(
                chosen, self.encoder.encode_all([texts[i] for i in chosen], specials=flag), strict=True
            ):
                result[i] = tokens
        return result

    def _fit(self, asked: GenerationInput, context: IntArray) -> None:
        """Cut the context from the left as lm-eval does, or say why the ask cannot be asked."""
        prefix = self.encoder.prefix_token_id
        if not context.size and prefix is not None:
            context = np.asarray([prefix], dtype=np.int32)
        room = self.max_length - asked.max_tokens
        n_over = int(context.size) - room
        asked.tokens = context
        if not context.size:
            asked.error = "the context is empty and this tokenizer has neither BOS nor EOS; name one: prefix_token_id="
        elif room < 1:
            asked.error = (
                f"{asked.max_tokens} tokens may be written and the model has {self.max_length} positions, which "
                "leaves none for the prompt; ask for less: --gen_kwargs max_gen_toks="
            )
            asked.error_kind = PromptTooLong.__name__
        elif n_over > 0 and self.too_long == "error":
            asked.error = (
                f"the prompt has {context.size} tokens, and {asked.max_tokens} may be written; the model has "
                f"{self.max_length} positions; use a model with more, or fewer shots"
            )
            asked.error_kind = PromptTooLong.__name__
        else:
            if n_over > 0:
                asked.n_cut_tokens = n_over
                asked.tokens = context[n_over:]
            name_by_content(asked, asked.tokens.tobytes(), self.fingerprint)


def refuse_contradiction(request_id: str, settings: GenerationSettings) -> None:
    """Raise UsageError for settings that ask to draw tokens without a temperature."""
    if settings.do_sample and not settings.temperature > 0:
        raise UsageError(
            f"{request_id}: do_sample=True with temperature={settings.temperature}; name a temperature above "
            "0, or leave do_sample out for greedy answers"
        )


def name_by_content(asked: GenerationInput, prompt: bytes, fingerprint: bytes | None) -> None:
    """Give an ask its digest; without a fingerprint of the model it holds within one answer only."""
    given = asdict(asked.settings)
    for name in ("seed", "repeats", "max_tokens", "stop"):
        del given[name]
    whole = hashlib.blake2b(fingerprint or b"", digest_size=20)
    whole.update(canonical_json(["generate_until", given, asked.max_tokens, asked.stops]).encode())
    whole.update(prompt)
    asked.digest = whole.hexdigest()
    asked.is_kept = fingerprint is not None


def prompt_of(
    asked: GenerationInput,
    repeats: Sequence[int],
    defaults: GenerationDefaults,
    choice: ConfigChoice,
    eos_ids: frozenset[int],
) -> GenerationPrompt:
    """Return what the engine is to write: the task's settings, and the model's where those say nothing.

    Source: transformers' `GenerationMixin._prepare_generation_config`: what is passed, then the model's
        generation_config, then top_k=50 where there is sampling.
    """
    extra = dict(asked.settings.extra)
    own: Mapping[str, Any] = defaults.sampling if choice == "model" else {}
    penalty = extra.pop("repetition_penalty", None)
    if penalty is None:
        penalty = defaults.repetition_penalty if choice == "model" else 1.0
    other = {**(defaults.other if choice == "model" else {}), **extra}
    other.pop("use_cache", None)  # changes how, not what
    return GenerationPrompt(
        tokens=asked.tokens,
        max_new_tokens=asked.max_tokens,
        eos_ids=eos_ids | defaults.eos_ids,
        sampling=_sampling(asked.settings, own, choice),
        seed=asked.settings.seed,
        key=hashlib.blake2b(asked.tokens.tobytes(), digest_size=16).hexdigest(),
        repeats=tuple(repeats),
        repetition_penalty=float(penalty),
        other=other,
    )


def _sampling(settings: GenerationSettings, own: Mapping[str, Any], choice: ConfigChoice) -> Sampling | None:
    """Return how tokens are drawn, None for greedy."""
    if not settings.do_sample:
        return None
    top_k = settings.top_k if settings.top_k is not None else own.get("top_k")
    if top_k is None and choice == "model":
        top_k = TRANSFORMERS_TOP_K
    top_p = settings.top_p if settings.top_p is not None else own.get("top_p")
    min_p = settings.min_p if settings.min_p is not None else own.get("min_p")
    return Sampling(settings.temperature, int(top_k) if top_k else None, top_p, min_p)
