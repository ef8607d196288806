"""Token-by-token log-probabilities of texts, for audits; a score needs less, so not every model offers them.

Only a model in this process has access to whole next-token distributions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from assaymark.errors import UsageError
from assaymark.models.local.local_model import LocalModel
from assaymark.models.model import Model

if TYPE_CHECKING:
    from assaymark.models.local.own_engine import OwnEngine


@dataclass(frozen=True, slots=True)
class TextMoments:
    """Token statistics of one text, up to the model's maximum length.

    Shapes: each [tokens]. Units: nats.
    """

    logprobs: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]  # of log-probabilities, as the model expected them at that place
    deviations: npt.NDArray[np.float64]


def check_token_moments(model: Model) -> LocalModel:
    """Return the model if it provides log-probabilities token by token; loads no weights.

    Raises: UsageError if it does not.
    """
    if not isinstance(model, LocalModel) or not model.is_in_process:
        raise UsageError(
            f"model '{model.identity.name}' ({model.identity.kind}) provides only sums of log-probabilities, and Min-K "
            "needs them token by token: use a local model without --workers, --cluster or vLLM"
        )
    return model


def token_moments_of(model: Model, texts: Sequence[str]) -> Iterator[TextMoments]:
    """Yield each text's token statistics, starting from the model's beginning-of-text token.

    Raises: UsageError for a model outside this process, or whose tokenizer has no beginning-of-text token.
    """
    local = check_token_moments(model)
    engine = cast("OwnEngine", local.engine)  # of a model in this process
    prefix = local.encoder.prefix_token_id
    if prefix is None:
        raise UsageError("this tokenizer has neither BOS nor EOS to begin a text with; set prefix_token_id=")
    for tokens in local.encoder.encode_all(list(texts)):
        kept = tokens[: local.max_length]
        sequence = kept if kept.size and int(kept[0]) == prefix else np.concatenate([[prefix], kept])
        if sequence.size < 2:
            yield TextMoments(np.zeros(0), np.zeros(0), np.zeros(0))
            continue
        moments = engine.token_moments(sequence)
        yield TextMoments(moments.logprobs, moments.means, moments.deviations)
