"""Find where a generated text ends while it is being generated, and which part of it is the answer.

A stop is text, tokens are pieces of text, and a stop may extend over several tokens. So after each token that could
complete a stop, the last tokens are decoded together, as many as the stop's longest tokenisation can have. The final
text follows lm-evaluation-harness: first the reasoning is removed, then the text is truncated at each stop in turn.

Until the reasoning ends (if think_end_token is set) stops are ignored: a blank line ends an answer, not the reasoning.

Source: lm-evaluation-harness 0.4.13, models/huggingface.py (generate_until), models/utils.py
    (postprocess_generated_text, handle_stop_sequences).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assaymark.engine.generation import StopCheck
from assaymark.records import GenerationSettings

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

REPLACEMENT = "\ufffd"  # the result of decoding an incomplete character
AFTER_TEXT = ""  # among stops: they count only after text that is not white space


@dataclass(frozen=True, slots=True)
class FinalText:
    """The answer, and the reasoning that preceded it; is_unfinished: the text ended before its reasoning did."""

    text: str
    reasoning: str | None = None
    is_unfinished: bool = False


def stop_texts(settings: GenerationSettings, eos_text: str | None) -> tuple[str, ...]:
    """Return the stops in the order in which they are applied, the tokenizer's EOS last; the empty ones mean nothing.

    Where the white space that an answer begins with contains no stop, they begin with `AFTER_TEXT`.
    """
    own = [] if eos_text is None or eos_text in settings.stop else [eos_text]
    stops = tuple(stop for stop in (*settings.stop, *own) if stop)
    return (AFTER_TEXT, *stops) if settings.stop_after_text else stops


def sendable_stops(stops: Sequence[str], think_end: str | int | None) -> list[str]:
    """Return the stops that a server may apply by itself: none before the end of reasoning, nor blank ones before text.

    All are applied here as well.
    """
    if think_end is not None:
        return []
    return [stop for stop in stops if stop.strip()] if AFTER_TEXT in stops else list(stops)


def final_text(
    tokenizer: "PreTrainedTokenizerBase",
    tokens: Sequence[int],
    stops: Sequence[str],
    think_end: str | int | None = None,
) -> FinalText:
    """Return the answer and the reasoning in the generated tokens."""
    tokens = list(tokens)
    if not isinstance(think_end, int):
        return final_of_text(str(tokenizer.decode(tokens, skip_special_tokens=True)), stops, think_end)
    reasoning: str | None = None
    if think_end in tokens:
        at = len(tokens) - 1 - tokens[::-1].index(think_end)
        reasoning = str(tokenizer.decode(tokens[: at + 1], skip_special_tokens=True))
        tokens = tokens[at + 1 :]
    text = str(tokenizer.decode(tokens, skip_special_tokens=True)).lstrip()
    return FinalText(_before(stops, text), reasoning)


def final_of_text(text: str, stops: Sequence[str], think_end: str | None = None) -> FinalText:
    """Return the answer and the reasoning in a generated text."""
    reasoning: str | None = None
    if think_end and think_end in text:
        reasoning, _, text = text.rpartition(think_end)
    if think_end:
        text = text.lstrip()
    return FinalText(_before(stops, text), reasoning)


def went_on(text: str, stops: Sequence[str], think_end: str | None = None) -> bool:
    """Return whether a generated text goes on after a stop that ends its answer."""
    answer = text.rpartition(think_end)[2] if think_end else text
    return _has_stop(stops, answer.lstrip() if think_end else answer)


def until_stop(pieces: Iterable[str], stops: Sequence[str], think_end: str | None = None) -> Iterator[str]:
    """Yield the answer in a text that arrives in pieces; what may still become part of a stop text is held back."""
    n_held = max(map(len, stops), default=1) - 1
    whole, n_shown = "", 0
    for piece in pieces:
        whole += piece
        if think_end and think_end not in whole:
            continue
        answer = final_of_text(whole, stops, think_end).text
        has_stopped = _has_stop(stops, whole)
        certain = answer if has_stopped else answer[: max(n_shown, len(answer) - n_held)]
        if len(certain) > n_shown:
            yield certain[n_shown:]
            n_shown = len(certain)
        if has_stopped and not think_end:
            return
    rest = final_of_text(whole, stops, think_end).text[n_shown:]
    if rest:
        yield rest


def _first_place(stops: Sequence[str], text: str) -> int:
    """Return the position in a text from which stops count."""
    return len(text) - len(text.lstrip()) if AFTER_TEXT in stops else 0


def _has_stop(stops: Sequence[str], text: str) -> bool:
    first = _first_place(stops, text)
    return any(text.find(stop, first) >= 0 for stop in stops if stop)


def _before(stops: Sequence[str], text: str) -> str:
    first = _first_place(stops, text)
    for stop in filter(None, stops):
        at = text.find(stop, first)
        text = text if at < 0 else text[:at]
    return text


@dataclass(frozen=True, slots=True)
class StopTexts:
    """The stop texts of several prompts, and where the reasoning ends; small enough to send to another process."""

    of_prompts: tuple[tuple[str, ...], ...]
    think_end: str | int | None = None

    def subset(self, positions: Sequence[int]) -> "StopTexts":
        """Return the stop texts of these prompts, in the order given."""
        return StopTexts(tuple(self.of_prompts[position] for position in positions), self.think_end)

    def check(self, tokenizer: "PreTrainedTokenizerBase") -> StopCheck:
        """Return a function that is called after each token and returns whether that prompt's text has ended."""
        finders = {stops: StopFinder(tokenizer, stops, self.think_end) for stops in dict.fromkeys(self.of_prompts)}
        by_prompt = [finders[stops] for stops in self.of_prompts]

        def has_stopped(index: int, repeat: int, tokens: Sequence[int]) -> bool:
            del repeat
            return by_prompt[index].has_stopped(tokens)

        return has_stopped


class StopFinder:
    """Checks after each token whether one of some stop texts has been generated."""

    def __init__(
        self, tokenizer: "PreTrainedTokenizerBase", stops: Sequence[str], think_end: str | int | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self._stops = tuple(stops)
        self._think_end = think_end
        stops = [stop for stop in stops if stop]
        self._last = frozenset(stop[-1] for stop in stops)
        # A space at a token's edge may vanish when the token is decoded alone; then every token is checked.
        self._looks_always = any(last.isspace() and last != "\n" for last in self._last)
        spelled = [len(tokenizer.encode(stop, add_special_tokens=False)) for stop in stops]
        self._n_back = max([*(n + 2 for n in spelled), *(len(stop.encode()) + 1 for stop in stops)], default=0)
        self._may_complete: dict[int, bool] = {}

    def has_stopped(self, tokens: Sequence[int]) -> bool:
        """Return whether the newest token completed a stop."""
        if not self._stops or not self._could_complete(tokens[-1]):
            return False
        first = max(0, len(tokens) - self._n_back)
        after: int | None = 0
        if self._think_end is not None:
            after = self._thought_ends(tokens, self._think_end)
            if after is None:
                return False
            first = max(first, after)
        text = self._tokenizer.decode(list(tokens[first:]), skip_special_tokens=False)
        if any(stop in text for stop in self._stops if stop) and AFTER_TEXT in self._stops:
            text = self._tokenizer.decode(list(tokens[after:]), skip_special_tokens=False)
        return _has_stop(self._stops, text)

    def _could_complete(self, token: int) -> bool:
        """Return whether some stop may end inside this token."""
        if self._looks_always:
            return True
        known = self._may_complete.get(token)
        if known is None:
            text = str(self._tokenizer.decode([token], skip_special_tokens=False))
            known = not text or REPLACEMENT in text or any(last in text for last in self._last)
            self._may_complete[token] = known
        return known

    def _thought_ends(self, tokens: Sequence[int], mark: str | int) -> int | None:
        """Return the position after the reasoning, or None while it continues."""
        if isinstance(mark, int):
            return tokens.index(mark) + 1 if mark in tokens else None
        if mark not in self._text(tokens):
            return None
        low, high = 1, len(tokens)
        while low < high:  # the shortest prefix that contains the mark
            middle = (low + high) // 2
            low, high = (low, middle) if mark in self._text(tokens[:middle]) else (middle + 1, high)
        return low

    def _text(self, tokens: Sequence[int]) -> str:
        # Decoded like the final text: a mark that is a special token does not appear in it, as in lm-eval.
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))
