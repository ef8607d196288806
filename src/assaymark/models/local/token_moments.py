"""Token-by-token log-probabilities of texts, for audits; a score needs less, so not every model offers them.

Only a model in this process has access to whole next-token distributions.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from assaymark.errors import UsageError
from assaymark.models.local.local_model import LocalModel
from assaymark.models.model import Model

if TYPE_CHECKING:
    from assaymark.engine.token_moments import TokenMoments
    from assaymark.models.local.own_engine import OwnEngine


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


def token_moments_of(model: Model, texts: Sequence[str]) -> "Iterator[TokenMoments]":
    """Yield the token statistics of each text, up to the model's maximum length and after its beginning-of-text token.

    Raises: UsageError for a model outside this process, or whose tokenizer has no beginning-of-text token.
    """
    from assaymark.engine.token_moments import TokenMoments

    local = check_token_moments(model)
    engine = cast("OwnEngine", local.engine)  # of a model in this process
    prefix = local.encoder.prefix_token_id
    if prefix is None:
        raise UsageError("this tokenizer has neither BOS nor EOS to begin a text with; set prefix_token_id=")
    for tokens in local.encoder.encode_all(list(texts)):
        kept = tokens[: local.max_length]
        sequence = kept if kept.size and int(kept[0]) == prefix else np.concatenate([[prefix], kept])
        if sequence.size < 2:
            yield TokenMoments(np.zeros(0), np.zeros(0), np.zeros(0))
            continue
        yield engine.token_moments(sequence)
