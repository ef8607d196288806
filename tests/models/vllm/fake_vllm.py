"""A stand-in for an older vLLM, which shares no prefixes, for what a real one does not do on request; it only scores.

Names, argument checks and the shape of what comes back are those of vLLM's `LLM`, `SamplingParams`, `RequestOutput`
and `Logprob`; unknown arguments are refused as there. Texts, and numbers that count, are a real vLLM's:
`recorded_vllm`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


@dataclass
class SamplingParams:
    """The settings for scoring a prompt."""

    temperature: float = 1.0
    max_tokens: int | None = 16
    prompt_logprobs: int | None = None
    detokenize: bool = True


@dataclass
class Logprob:
    """One entry of a position's log-probabilities."""

    logprob: float


@dataclass
class RequestOutput:
    """The result of one prompt."""

    prompt_logprobs: list[dict[int, Logprob] | None]
    num_cached_tokens: int | None = 0


@dataclass
class LLM:
    """A model; `made` has every instance."""

    model: str
    tokenizer: str | None = None
    dtype: str = "auto"
    max_model_len: int | None = None
    trust_remote_code: bool = False
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    quantization: str | None = None
    block_size: int | None = None
    use_tqdm_on_load: bool = True
    enforce_eager: bool = False

    def __post_init__(self) -> None:
        """Load the model, or fail like vLLM."""
        import transformers

        if self.gpu_memory_utilization < 0.01:
            raise ValueError("No available memory for the cache blocks.\nTry increasing `gpu_memory_utilization`.")
        self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(self.model, dtype="float32")
        MADE.append(self)

    def generate(
        self, prompts: Sequence[Mapping[str, list[int]]], settings: Sequence[SamplingParams], *, use_tqdm: bool = True
    ) -> list[RequestOutput]:
        """Return one output for each prompt, in order."""
        del use_tqdm
        assert all(each.prompt_logprobs == 1 for each in settings)
        return [self._answer(prompt["prompt_token_ids"]) for prompt in prompts]

    def _answer(self, tokens: list[int]) -> RequestOutput:
        import torch

        limit = self.max_model_len or 2048
        if len(tokens) >= limit:
            raise ValueError(f"the prompt has {len(tokens)} tokens, max_model_len is {limit}")
        with torch.inference_mode():
            logprobs = self._model(torch.tensor([tokens])).logits[0].float().log_softmax(-1)
        rows: list[dict[int, Logprob] | None] = [None]
        for row, token in zip(logprobs[:-1], tokens[1:], strict=True):
            best = int(row.argmax())
            rows.append({token: Logprob(float(row[token])), best: Logprob(float(row[best]))})
        return RequestOutput(rows)


MADE: list[LLM] = []


def put_in_place(patch: pytest.MonkeyPatch, llm: type, settings: type, version: str) -> None:
    """Put classes in the place of vLLM's for one test."""
    package, platforms = ModuleType("vllm"), ModuleType("vllm.platforms")
    package.LLM, package.SamplingParams, package.__version__ = llm, settings, version  # type: ignore[attr-defined]
    platforms.current_platform = SimpleNamespace(is_cpu=lambda: True)  # type: ignore[attr-defined]
    for module in (package, platforms):
        patch.setitem(sys.modules, module.__name__, module)


def install(patch: pytest.MonkeyPatch) -> list[LLM]:
    """Replace vLLM by the stand-in for one test; return the list of models that it creates."""
    put_in_place(patch, LLM, SamplingParams, "0.10.0")
    MADE.clear()
    return MADE
