"""A model to hold in one's hand: load it once, rank answers with it, pass it to `evaluate`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evalstone.errors import ModelError, UsageError
from evalstone.models.create import MODELS, create_model
from evalstone.models.model import Model
from evalstone.records import LoglikelihoodAsk, Request, content_hash


@dataclass(frozen=True, slots=True)
class Ranking:
    """What `rank` returns.

    best: index of the most probable choice, not its text (`choices[ranking.best]`); the first of equals.
    total_nats: log-probability of each choice after the prompt, summed over its tokens.
    """

    best: int
    total_nats: tuple[float, ...]


class LanguageModel:
    """A causal language model, loaded at its first use."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def rank(self, prompt: str, choices: Sequence[str]) -> Ranking:
        """Return the log-probability of each choice after `prompt`, and the best one's index.

        A choice is put behind the prompt as it stands: begin it with a space where one belongs.
        Units: nats, summed over tokens, in float32.
        Raises: UsageError without choices or with an empty one; ModelError if a choice cannot be scored.
        """
        if not choices or any(choice == "" for choice in choices):
            raise UsageError("rank needs at least one choice, and none may be empty")
        asks = tuple(LoglikelihoodAsk(index, choice) for index, choice in enumerate(choices))
        request = Request("rank", 0, content_hash([prompt, list(choices)]), (prompt,), asks)
        nats: dict[int, float] = {}
        for output in self.model.answer([request]):
            if output.total_nats is None:
                raise ModelError(f"choice {output.ask_index} ('{choices[output.ask_index]}'): {output.error}")
            nats[output.ask_index] = output.total_nats
        ordered = tuple(nats[index] for index in range(len(choices)))
        return Ranking(ordered.index(max(ordered)), ordered)

    def close(self) -> None:
        """Free the model's memory."""
        self.model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load_model(model: str | Path, **model_args: Any) -> LanguageModel:
    """Return a model by its folder, its hub id, or the name of its kind ("fake").

    Keyword arguments are lm-eval's model arguments: dtype, device, revision, peft, max_length, trust_remote_code ...
    Weights are loaded at the first use.

    Raises: UsageError for an unknown argument; ModelUnavailable where there is no such model.
    """
    if str(model) in MODELS.places():
        return LanguageModel(create_model(str(model), model_args))
    return LanguageModel(create_model("hf", {"pretrained": str(model), **model_args}))
