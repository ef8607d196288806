"""Score and generate with a model of images and text, one prompt at a time.

This is a plain path: a prompt is whatever the model's processor made of text and images, and nothing is shared between
prompts, since an image's tokens depend on its pixels. Continuations of one prompt that differ in their last token only
are scored by one pass over it. Texts are generated as on the plain path of other models.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from assaymark.engine.engine import use_threads
from assaymark.engine.generate_plain import generate_plain
from assaymark.engine.generation import GeneratedSequence, GenerationFailure, GenerationPrompt
from assaymark.engine.generator import refuse
from assaymark.engine.options import EngineSettings
from assaymark.engine.plain import PlainEngine
from assaymark.engine.spans import IntArray, SpanFailure, SpanScore
from assaymark.engine.steps import forward_pass, loading
from assaymark.engine.weights import LoadedModel, load_model
from assaymark.errors import NonFiniteLogits

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_OF_TOKENS = "token_type_ids"  # the end of the names of inputs with one number for each token


@dataclass(frozen=True, slots=True)
class ImageTextPrompt:
    """One prompt. Shapes: tokens int32 [n]; inputs: the processor's other tensors (pixels, sizes), batch of one."""

    tokens: IntArray
    inputs: Mapping[str, object]


class ImageTextEngine(PlainEngine):
    """One model of images and text."""

    def __init__(self, loaded: LoadedModel, settings: EngineSettings) -> None:
        why = "prompts with images are computed one at a time and share nothing"
        super().__init__(loaded, settings, attention="plain", why=why)
        self._dtype = next(loaded.inner.parameters()).dtype

    @classmethod
    def load(cls, folder: str, settings: EngineSettings) -> "ImageTextEngine":
        """Return an engine for a folder.

        Raises: ModelUnavailable if it cannot be loaded; UsageError for an impossible device.
        """
        with loading():
            use_threads(settings)
            return cls(load_model(folder, settings), settings)

    @torch.inference_mode()
    def score(self, prompt: ImageTextPrompt, continuations: Sequence[IntArray]) -> list[SpanScore | SpanFailure]:
        """Return the log-probability of each continuation after the prompt. Units: nats, summed over its tokens."""
        model = self._open().outer
        results: list[SpanScore | SpanFailure] = []
        known: dict[bytes, torch.Tensor] = {}  # logits after the prompt and all but the last token
        with forward_pass(model):
            for index, scored in enumerate(continuations):
                before = scored[:-1]
                if before.tobytes() not in known:
                    known[before.tobytes()] = self._logits(model, prompt, before)
                results.append(self._scored(index, known[before.tobytes()], scored))
        return results

    def _logits(self, model: "PreTrainedModel", prompt: ImageTextPrompt, more: IntArray) -> torch.Tensor:
        """Return the logits after the prompt and after each of `more`. Shapes: [1 + len(more), vocab]."""
        device = next(model.parameters()).device
        tokens = np.concatenate([prompt.tokens, more]).astype("int64")
        ids = torch.as_tensor(tokens, device=device)[None]
        inputs = {name: _longer(name, value, int(more.size)) for name, value in self._placed(prompt.inputs).items()}
        logits: torch.Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids), **inputs).logits[0]
        return logits[-1 - int(more.size) :]

    def _scored(self, index: int, logits: torch.Tensor, scored: IntArray) -> SpanScore | SpanFailure:
        if self._settings.numerics == "float32":
            logits = logits.float()
        nats = torch.log_softmax(logits, dim=-1)
        targets = torch.as_tensor(scored.astype("int64"), device=logits.device)
        chosen = nats.gather(1, targets[:, None])[:, 0].double()
        if not bool(torch.isfinite(chosen).all()):
            return SpanFailure(index, NonFiniteLogits, "logits are not finite")
        return SpanScore(index, float(chosen.sum()), bool((logits.argmax(-1) == targets).all()))

    def _placed(self, inputs: Mapping[str, object]) -> dict[str, object]:
        """Return inputs on the model's device, pixels in its dtype."""
        device = next(self._open().outer.parameters()).device
        return {
            name: value.to(device, self._dtype if value.is_floating_point() else None)
            if isinstance(value, torch.Tensor)
            else value
            for name, value in inputs.items()
        }

    def generate(
        self, prompt: ImageTextPrompt, settings: GenerationPrompt, stop: Callable[[Sequence[int]], bool] | None
    ) -> list[GeneratedSequence | GenerationFailure]:
        """Return the continuation of each repeat.

        Raises: PlanError for settings that only other models support.
        """
        loaded = self._open()
        refuse(settings, loaded.vocab_size)
        inputs = self._placed(prompt.inputs)
        return [generate_plain(loaded.outer, settings, 0, repeat, stop, more=inputs) for repeat in settings.repeats]


def _longer(name: str, value: object, n_more: int) -> object:
    """Return an input with one number for each token extended by text tokens, others unchanged."""
    if not n_more or not name.endswith(_OF_TOKENS) or not isinstance(value, torch.Tensor) or value.dim() != 2:
        return value
    return torch.nn.functional.pad(value, (0, n_more))
