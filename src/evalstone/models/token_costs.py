"""What tokens cost a model, told from its shape alone: for cutting work evenly before anything is computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
        layers = int(config.get("num_hidden_layers") or config.get("n_layer") or 0)
        width = int(config.get("hidden_size") or config.get("n_embd") or 0)
        words = width * int(config.get("vocab_size") or 0)
        n_tables = 1 if config.get("tie_word_embeddings", True) else 2
        body = (n_parameters or 0) - n_tables * words
        if body <= 0 or not layers or not width:
            return cls()
        return cls(2.0 * body, ATTENTION * 4.0 * layers * width, 2.0 * words)
