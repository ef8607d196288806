"""The text of a sequence while it grows: pieces that later tokens cannot change, and the texts of single tokens."""

from collections.abc import Sequence
from typing import Any

from assaymark.models.text.stops import REPLACEMENT, final_text

__all__ = ["TextStream", "TokenTexts"]

MOST_PAIRS = 1 << 20  # cached texts of tokens


class TextStream:
    """Yields the text of one sequence in pieces. What may still become part of a stop text is held back.

    Only the newest tokens are decoded, together with those before them, since a token alone may lose its space or be a
    part of a character. With a think_end nothing is yielded before the end: until then all may be reasoning.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str], think_end: str | int | None = None) -> None:
        self._tokenizer = tokenizer
        self._stops = tuple(stops)
        self._think_end = think_end
        self._n_held = max((len(stop) for stop in stops), default=1) - 1
        self._tokens: list[int] = []
        self._begin = self._read = 0  # tokens[begin:read] are decoded again for the sake of those after them
        self._text = ""
        self._n_sent = 0

    @property
    def n_tokens(self) -> int:
        """The number of tokens added."""
        return len(self._tokens)

    def token(self, index: int) -> int:
        """Return one of the tokens added."""
        return self._tokens[index]

    def add(self, tokens: Sequence[int]) -> str:
        """Add new tokens; return the piece of text that is now certain, often empty."""
        self._tokens += tokens
        if self._think_end is not None:
            return ""
        before = self._decoded(self._tokens[self._begin : self._read])
        now = self._decoded(self._tokens[self._begin :])
        if now.endswith(REPLACEMENT) or len(now) <= len(before):
            return ""
        self._text += now[len(before) :]
        self._begin, self._read = self._read, len(self._tokens)
        ends = [at for stop in self._stops if (at := self._text.find(stop, max(0, self._n_sent - len(stop)))) >= 0]
        certain = min([len(self._text) - self._n_held, *ends])
        piece = self._text[self._n_sent : certain]
        self._n_sent += len(piece)
        return piece

    def finish(self, tokens: Sequence[int]) -> tuple[str, str, str | None]:
        """Return the last piece, the whole text, and the reasoning, from all tokens of the sequence."""
        final = final_text(self._tokenizer, tokens, self._stops, self._think_end)
        return final.text[self._n_sent :], final.text, final.reasoning

    def _decoded(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True)) if tokens else ""


class TokenTexts:
    """The texts of the tokens of a sequence; joined they are the sequence's text."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._pairs: dict[tuple[int, int], str] = {}

    def after(self, before: int | None, token: int) -> str:
        """Return the text of a token that follows another one (None: the first)."""
        key = (-1 if before is None else before, token)
        known = self._pairs.get(key)
        if known is None:
            if len(self._pairs) >= MOST_PAIRS:
                self._pairs.clear()
            known = self._pairs[key] = self._decoded_after(before, token)
        return known

    def of(self, tokens: Sequence[int], before: int | None = None) -> list[str]:
        """Return the texts of consecutive tokens."""
        found = []
        for token in tokens:
            found.append(self.after(before, token))
            before = token
        return found

    def _decoded_after(self, before: int | None, token: int) -> str:
        alone = str(self._tokenizer.decode([token], skip_special_tokens=False))
        if before is None:
            return alone
        prefix = str(self._tokenizer.decode([before], skip_special_tokens=False))
        both = str(self._tokenizer.decode([before, token], skip_special_tokens=False))
        return both[len(prefix) :] if both.startswith(prefix) and REPLACEMENT not in prefix else alone
