"""Encode texts without a tokenizer: each character counts as one token, and the server splits the text itself.

White space at the end of a context belongs to the continuation, as with a tokenizer.
"""

from collections.abc import Sequence

import numpy as np

from assaymark.engine.spans import IntArray
from assaymark.models.text.tokens import EncodedPair, Pair

__all__ = ["Characters"]


class Characters:
    """An encoder whose tokens are code points."""

    prefix_token_id: int | None = None

    def encode_pairs(self, pairs: Sequence[Pair]) -> list[EncodedPair]:
        """Return the characters of each context and of what is scored after it."""
        result = []
        for pair in pairs:
            whole = "".join(pair.segments)
            context = whole.rstrip()
            result.append(EncodedPair(_points(context), _points(whole[len(context) :] + pair.continuation)))
        return result

    def encode_all(self, texts: Sequence[str]) -> list[IntArray]:
        """Return the characters of each text."""
        return [_points(text) for text in texts]

    def decode(self, tokens: IntArray) -> str:
        """Return the text of these characters."""
        return "".join(map(chr, tokens.tolist()))


def _points(text: str) -> IntArray:
    return np.asarray([ord(character) for character in text], dtype=np.int32)
