"""Interactive model handle: load once, rank answers, pass it to `evaluate`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from assaymark.errors import ModelError, UsageError
from assaymark.models.create import MODELS, create_model
from assaymark.models.lending import lent
from assaymark.models.model import Model
from assaymark.records import LoglikelihoodQuery, Request, content_hash

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from assaymark.models.local.local_model import LocalModel


@dataclass(frozen=True, slots=True)
class Ranking:
    """The result of `rank`.

    best: index of the most probable choice, not its text (`choices[ranking.best]`); the first of equals.
    total_nats: log-probability of each choice after the prompt, summed over its tokens.
    """

    best: int
    total_nats: tuple[float, ...]


def loaded_pair(model: object, tokenizer: object) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase] | None":
    """Return a loaded model and its tokenizer, given as a pair or apart; None where the model is only named.

    Raises: UsageError for a loaded model without a tokenizer, or a tokenizer that is given twice.
    """
    if isinstance(model, tuple) and len(model) == 2:
        if tokenizer is not None:
            raise UsageError("the tokenizer is given twice: in (model, tokenizer) and as tokenizer=; leave one out")
        return model
    if not hasattr(model, "state_dict"):
        return None
    if tokenizer is None or isinstance(tokenizer, str | Path):
        raise UsageError(
            f"model is a loaded {type(model).__name__}; expected its loaded tokenizer beside it: (model, tokenizer), "
            "or tokenizer=..."
        )
    return model, tokenizer


def not_a_model(model: object) -> UsageError:
    """Return the error for something that is not a model."""
    return UsageError(
        f"model is a {type(model).__name__}; expected a path, a hub id, (model, tokenizer), or what load_model returns"
    )


class LanguageModel:
    """A causal language model, loaded at its first use."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @property
    def loaded_model(self) -> "PreTrainedModel | None":
        """The transformers model that the caller has loaded; None for one that is named."""
        return getattr(self.model, "loaded_model", None)

    def identify_again(self) -> None:
        """Note that the caller's model may have been trained further since its last use."""
        if self.loaded_model is not None:
            cast("LocalModel", self.model).identify_again()

    def rank(self, prompt: str, choices: Sequence[str]) -> Ranking:
        """Return the log-probability of each choice after `prompt`, and the best one's index.

        A choice is appended to the prompt unchanged: begin it with a space where one belongs.
        Units: nats, summed over tokens, in float32.
        Raises: UsageError without choices or with an empty one; ModelError if a choice cannot be scored.
        """
        if not choices or any(choice == "" for choice in choices):
            raise UsageError("rank needs at least one choice, and none may be empty")
        queries = tuple(LoglikelihoodQuery(index, choice) for index, choice in enumerate(choices))
        request = Request("rank", 0, content_hash([prompt, list(choices)]), (prompt,), queries)
        nats: dict[int, float] = {}
        with lent(self):
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


def load_model(model: object, **model_args: object) -> LanguageModel:
    """Return a model by its folder, its hub id, the name of its kind ("fake"), or as a loaded (model, tokenizer).

    Keyword arguments are lm-eval's model arguments: dtype, device, revision, peft, max_length, trust_remote_code ...
    Weights are loaded at the first use. A loaded model, also given as `load_model(model, tokenizer=tokenizer)`, stays
    the caller's: between uses it is as the caller left it.

    Raises: UsageError for an unknown argument, or something that is not a model; ModelUnavailable if it does not exist.
    """
    pair = loaded_pair(model, model_args.get("tokenizer"))
    if pair is not None:
        from assaymark.models.local.local_model import LocalModel

        model_args.pop("tokenizer", None)
        return LanguageModel(LocalModel.from_loaded(*pair, **model_args))
    if not isinstance(model, str | Path):
        raise not_a_model(model)
    if str(model) in MODELS:
        return LanguageModel(create_model(str(model), model_args))
    return LanguageModel(create_model("hf", {"pretrained": str(model), **model_args}))
