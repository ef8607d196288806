"""Estimate what tokens cost a model from its shape alone, to split work evenly before anything is computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assaymark.models.checkpoint.config_check import whole_number

__all__ = ["TokenCosts"]

ATTENTION = 1.5  # time per operation of attention relative to matrix products (measured: benchmarks/RESULTS.md)


@dataclass(frozen=True, slots=True)
class TokenCosts:
    """The cost of a token, of each position it attends to, and of a row over the vocabulary, in matrix operations.

    Only their ratios matter. If a model's shape is unknown, a token costs the same at every position.
    """

    token: float = 1.0
    position: float = 0.0
    row: float = 0.0

    @classmethod
    def of(cls, config: Mapping[str, Any], n_parameters: int | None) -> "TokenCosts":
        """Return the costs of a model from its config.json; embedding look-ups cost nothing."""
        layers = whole_number(config, "num_hidden_layers", "n_layer")
        width = whole_number(config, "hidden_size", "n_embd")
        words = width * whole_number(config, "vocab_size")
        n_tables = 1 if config.get("tie_word_embeddings", True) else 2
        body = (n_parameters or 0) - n_tables * words
        if body <= 0 or not layers or not width:
            return cls()
        return cls(2.0 * body, ATTENTION * 4.0 * layers * width, 2.0 * words)
