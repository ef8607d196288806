"""The plain path: transformers' own `generate`, one sequence at a time.

It is used for models that the trie path does not support, for inputs beyond the length from which rotary embeddings
change, and for settings that only `generate` supports. Sampling and stopping are ours here too, so that both paths
compute the same: the sampler runs after `generate`'s own processors and leaves one possible token.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import torch

from assaymark.engine.generation import FinishReason, GeneratedSequence, GenerationFailure, GenerationPrompt, uniform
from assaymark.engine.sampling import choose
from assaymark.engine.steps import forward_pass
from assaymark.errors import NonFiniteLogits

if TYPE_CHECKING:
    from transformers import PreTrainedModel


T = TypeVar("T")


class _Sampler:
    """A logits processor that draws the token and masks all others; records whether logits were finite."""

    def __init__(self, prompt: GenerationPrompt, repeat: int, n_before: int) -> None:
        self._prompt = prompt
        self._n_before = n_before
        self._repeat = repeat
        self.is_finite = True

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores with only the drawn token possible, or unchanged for greedy decoding."""
        prompt = self._prompt
        step = int(input_ids.shape[1]) - self._n_before
        number = uniform(prompt.seed, prompt.key, self._repeat, step) if prompt.sampling is not None else 0.0
        tokens, finite = choose(scores, [prompt.sampling], [number])
        self.is_finite = self.is_finite and finite[0]
        if prompt.sampling is None:
            return scores
        only = torch.full_like(scores, -torch.inf)
        only[0, tokens[0]] = 0.0
        return only


class _Stopper:
    """A stopping criterion that calls `is_over` after each token."""

    def __init__(self, n_prompt: int, is_over: Callable[[Sequence[int]], bool]) -> None:
        self._n_prompt = n_prompt
        self._is_over = is_over
        self.has_stopped = False

    def __call__(self, input_ids: torch.Tensor, scores: object, **_options: object) -> torch.Tensor:
        """Return whether the one sequence has ended. Shapes: bool [1]."""
        del scores
        generated = input_ids[0, self._n_prompt :].tolist()
        self.has_stopped = bool(generated) and self._is_over(generated)
        return torch.tensor([self.has_stopped], device=input_ids.device)


@torch.inference_mode()
def generate_plain(
    model: "PreTrainedModel",
    prompt: GenerationPrompt,
    index: int,
    repeat: int,
    stop: Callable[[Sequence[int]], bool] | None,
    decoder_start: int | None = None,
    more: Mapping[str, object] | None = None,
) -> GeneratedSequence | GenerationFailure:
    """Return one prompt's continuation, generated alone by transformers.

    `model` is the object that a caller would call, with its adapter if it has one. decoder_start: the first
    token of an encoder-decoder model's decoder, whose output does not repeat the prompt; None for other models.
    more: further inputs of the model beside the tokens, such as an image's pixels.
    """
    from transformers import GenerationConfig

    device = next(model.parameters()).device
    ids = torch.as_tensor(prompt.tokens.astype("int64"), device=device)[None]
    n_prompt = int(prompt.tokens.size) if decoder_start is None else 1
    sampler = _Sampler(prompt, repeat, n_prompt)
    stopper = _Stopper(n_prompt, stop or (lambda _: False))
    eos = sorted(prompt.eos_ids)
    config = GenerationConfig(
        max_new_tokens=prompt.max_new_tokens,
        do_sample=False,
        num_beams=1,
        eos_token_id=eos or None,
        pad_token_id=eos[0] if eos else 0,
        repetition_penalty=prompt.repetition_penalty,
        **({} if decoder_start is None else {"decoder_start_token_id": decoder_start}),
        **prompt.other,
    )
    options = {"attention_mask": torch.ones_like(ids), "generation_config": config, **(more or {})}
    generated = _without_own_config(
        model, lambda: model.generate(ids, logits_processor=[sampler], stopping_criteria=[stopper], **options)
    )[0, n_prompt:].tolist()
    if not sampler.is_finite:
        return GenerationFailure(index, repeat, NonFiniteLogits, "logits are not finite")
    reason: FinishReason = "length"
    if generated and generated[-1] in prompt.eos_ids:
        reason = "eos"
    elif stopper.has_stopped:
        reason = "stop"
    return GeneratedSequence(index, repeat, tuple(generated), reason)


def _without_own_config(model: "PreTrainedModel", call: Callable[[], T]) -> T:
    """Return the result of `call` while the model's own generation_config is empty: the prompt has all settings."""
    from transformers import GenerationConfig

    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    holders = [model] if inner is model else [model, inner]
    with forward_pass(model):
        own = [holder.generation_config for holder in holders]
        try:
            for holder in holders:
                holder.generation_config = GenerationConfig()
            return call()
        finally:
            for holder, config in zip(holders, own, strict=True):
                holder.generation_config = config
