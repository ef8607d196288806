"""A stand-in for vLLM: the small part of its interface that we use, computed by transformers.

Names, argument checks and the shape of what comes back are those of vLLM's `LLM`, `SamplingParams`, `RequestOutput`
and `Logprob`; unknown arguments are refused as there. It shows that we call it rightly, not that vLLM computes rightly.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest


@dataclass
class SamplingParams:
    """The settings for continuing a prompt, with vLLM's defaults and checks."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = 16
    min_tokens: int = 0
    prompt_logprobs: int | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    stop: Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True

    def __post_init__(self) -> None:
        """Refuse what vLLM refuses."""
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.top_k < -1 or not 0 <= self.min_p <= 1:
            raise ValueError(f"no such sampling: {self}")
        if self.max_tokens is None or self.max_tokens < 1 or self.repetition_penalty <= 0:
            raise ValueError(f"no such lengths or penalties: {self}")
        if any(not each for each in self.stop or ()) or (self.stop and not self.detokenize):
            raise ValueError("stop cannot contain an empty string, and needs detokenize")


@dataclass
class Logprob:
    """One entry of a position's log-probabilities."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass
class CompletionOutput:
    """One continuation."""

    index: int
    text: str
    token_ids: Sequence[int]
    finish_reason: str | None
    stop_reason: int | str | None


@dataclass
class RequestOutput:
    """The result of one prompt."""

    prompt_token_ids: list[int]
    prompt_logprobs: list[dict[int, Logprob] | None] | None
    outputs: list[CompletionOutput]
    finished: bool = True


@dataclass
class LoRARequest:
    """An adapter by name and folder."""

    lora_name: str
    lora_int_id: int
    lora_path: str


@dataclass
class LLM:
    """A model; `calls` records its calls, `made` every instance."""

    model: str
    tokenizer: str | None = None
    dtype: str = "auto"
    max_model_len: int | None = None
    trust_remote_code: bool = False
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    quantization: str | None = None
    enforce_eager: bool = False
    seed: int | None = None
    enable_lora: bool = False
    calls: list[tuple[list[list[int]], list[SamplingParams]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Load the model, or fail like vLLM."""
        import transformers

        if self.gpu_memory_utilization < 0.01:
            raise ValueError("No available memory for the cache blocks.\nTry increasing `gpu_memory_utilization`.")
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(self.model, dtype="float32")
        self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(self.tokenizer or self.model)
        MADE.append(self)

    def generate(
        self,
        prompts: Sequence[Mapping[str, list[int]]],
        sampling_params: SamplingParams | Sequence[SamplingParams],
        *,
        use_tqdm: bool = True,
        lora_request: LoRARequest | None = None,
    ) -> list[RequestOutput]:
        """Return one output for each prompt, in order."""
        del use_tqdm, lora_request
        tokens = [prompt["prompt_token_ids"] for prompt in prompts]
        item = isinstance(sampling_params, SamplingParams)
        settings = [sampling_params] * len(tokens) if item else list(sampling_params)  # type: ignore[arg-type]
        self.calls.append((tokens, settings))  # type: ignore[arg-type]
        return [self._answer(ids, each) for ids, each in zip(tokens, settings, strict=True)]  # type: ignore[arg-type]

    def _answer(self, tokens: list[int], settings: SamplingParams) -> RequestOutput:
        limit = self.max_model_len or 2048
        if len(tokens) >= limit:
            raise ValueError(f"the prompt has {len(tokens)} tokens, max_model_len is {limit}")
        logprobs = self._logprobs(tokens)
        by_position: list[dict[int, Logprob] | None] | None = None
        if settings.prompt_logprobs is not None:
            by_position = [None]
            for row, token in zip(logprobs[:-1], tokens[1:], strict=True):
                best = int(row.argmax())
                own = Logprob(float(row[token]), int((row >= row[token]).sum()))
                by_position.append({token: own, best: Logprob(float(row[best]), 1)})
        return RequestOutput(tokens, by_position, [self._generate(tokens, settings, limit)])

    def _logprobs(self, tokens: list[int]) -> Any:
        import torch

        with torch.inference_mode():
            return self._model(torch.tensor([tokens])).logits[0].float().log_softmax(-1)

    def _generate(self, tokens: list[int], settings: SamplingParams, limit: int) -> CompletionOutput:
        import torch

        draw = torch.Generator().manual_seed(settings.seed or 0)
        ends = {self._tokenizer.eos_token_id, *(settings.stop_token_ids or ())}
        generated: list[int] = []
        text = ""
        for _ in range(min(settings.max_tokens or 1, limit - len(tokens))):
            row = self._logprobs([*tokens, *generated])[-1]
            if settings.temperature == 0:
                generated.append(int(row.argmax()))
            else:
                shares = (row / settings.temperature).softmax(-1)
                generated.append(int(torch.multinomial(shares, 1, generator=draw)))
            if generated[-1] in ends:
                is_own = generated[-1] == self._tokenizer.eos_token_id
                return CompletionOutput(0, text, generated, "stop", None if is_own else generated[-1])
            if settings.detokenize:
                text = self._tokenizer.decode(generated, skip_special_tokens=settings.skip_special_tokens)
                for stop in settings.stop or ():
                    if stop in text:
                        return CompletionOutput(0, text.split(stop)[0], generated, "stop", stop)
        return CompletionOutput(0, text, generated, "length", None)


MADE: list[LLM] = []


def install(patch: pytest.MonkeyPatch) -> list[LLM]:
    """Replace vLLM by the stand-in for one test; return the list of models that it creates."""
    package, lora, request = ModuleType("vllm"), ModuleType("vllm.lora"), ModuleType("vllm.lora.request")
    package.LLM, package.SamplingParams, package.__version__ = LLM, SamplingParams, "0.0"  # type: ignore[attr-defined]
    request.LoRARequest = LoRARequest  # type: ignore[attr-defined]
    for module in (package, lora, request):
        patch.setitem(sys.modules, module.__name__, module)
    MADE.clear()
    return MADE
