"""Token by token log-probabilities of texts, for audits; more than a score needs, so not every model offers them.

Only a model in this process has whole next-token distributions to give.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evalstone.errors import UsageError
from evalstone.models.local.local_model import LocalModel
from evalstone.models.model import Model

__all__ = ["TextMoments", "check_token_moments", "token_moments_of"]


@dataclass(frozen=True, slots=True)
class TextMoments:
    """One text's tokens, as far as they fit into the model's positions.

    Shapes: each [tokens]. Units: nats.
    """

    logprobs: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]  # of log-probabilities, as the model expected them at that place
    deviations: npt.NDArray[np.float64]


def check_token_moments(model: Model) -> LocalModel:
    """Return the model, if it gives log-probabilities token by token; loads no weights.

    Raises: UsageError for one that does not.
    """
    if not isinstance(model, LocalModel) or not model.is_in_process:
        raise UsageError(
            f"model '{model.identity.name}' ({model.identity.kind}) gives sums of log-probabilities here, and Min-K "
            "needs them token by token: name a local model, without --workers, --cluster and vLLM"
        )
    return model


def token_moments_of(model: Model, texts: Sequence[str]) -> Iterator[TextMoments]:
    """Yield each text's token moments, from the model's beginning-of-text token on.

    Raises: UsageError for a model that is not in this process, or whose tokenizer has no beginning token.
    """
    local = check_token_moments(model)
    engine: Any = local.engine
    prefix = local.encoder.prefix_token_id
    if prefix is None:
        raise UsageError("this tokenizer has neither BOS nor EOS to begin a text with; name one: prefix_token_id=")
    for tokens in local.encoder.encode_all(list(texts)):
        kept = tokens[: local.max_length]
        sequence = kept if kept.size and int(kept[0]) == prefix else np.concatenate([[prefix], kept])
        if sequence.size < 2:
            yield TextMoments(np.zeros(0), np.zeros(0), np.zeros(0))
            continue
        found = engine.token_moments(sequence)
        yield TextMoments(found.logprobs, found.means, found.deviations)
