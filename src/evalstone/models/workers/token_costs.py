"""What tokens cost a model, told from its shape alone: for cutting work evenly before anything is computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalstone.models.checkpoint.config_check import whole_number

__all__ = ["TokenCosts"]

ATTENTION = 1.5  # time of an operation of attention beside one of the products (measured: benchmarks/RESULTS.md)


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """What a token costs, each position it attends to, and a row over the vocabulary, in operations of the products.

    Only their proportions matter. Where a model's shape is not known, a token costs the same wherever it stands.
    """

    token: float = 1.0
    position: float = 0.0
    row: float = 0.0

    @classmethod
    def of(cls, config: Mapping[str, Any], n_parameters: int | None) -> "TokenCosts":
        """Return the costs of a model by its config.json; embeddings are looked up and cost nothing."""
        layers = whole_number(config, "num_hidden_layers", "n_layer")
        width = whole_number(config, "hidden_size", "n_embd")
        words = width * whole_number(config, "vocab_size")
        n_tables = 1 if config.get("tie_word_embeddings", True) else 2
        body = (n_parameters or 0) - n_tables * words
        if body <= 0 or not layers or not width:
            return cls()
        return cls(2.0 * body, ATTENTION * 4.0 * layers * width, 2.0 * words)
