"""Encode text into tokens exactly as lm-evaluation-harness does, but each distinct text once and in batches.

Rules that decide scores: white space at the end of a context belongs to the continuation; context and whole text are
encoded separately, and the whole is split after as many tokens as the context has; a text that already starts with the
prefix token (BOS) gets no second one; an empty context is the prefix token. If `boundaries` proves that a text may be
split, its parts are encoded once however many prompts contain them (mainly shots).

Source: lm-evaluation-harness 0.4.13, api/model.py (TemplateLM._encode_pair, loglikelihood), models/huggingface.py
    (tok_encode), utils.py (get_rolling_token_windows, make_disjoint_window).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assaymark.engine.spans import IntArray
from assaymark.errors import ModelUnavailable, is_panic, panic_line
from assaymark.models.text.boundaries import SPACE_SYMBOL, SplitRule, split_rule

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

BATCH_TEXTS = 1024  # texts per call of the tokenizer: bounds the number of live objects
MOST_SPLITS = 100_000  # segments whose split positions are cached between calls
PROOF_SAMPLES = 32  # contexts of each call that are encoded both ways, in case the proof is wrong
EMPTY = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class ContinuationPair:
    """A context, in the segments it was built from, and the continuation to score after it."""

    segments: tuple[str, ...]
    continuation: str


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """The tokens of a context and of what is scored after it. Shapes: int32 [n_context], int32 [n_scored]."""

    context: IntArray
    scored: IntArray


@dataclass(frozen=True, slots=True)
class _Context:
    """A context ready to be encoded: `parts` are encoded once, `tail` may still merge with what follows."""

    text: str  # without white space at its end
    moved: str  # that white space
    has_specials: bool
    parts: tuple[str, ...]
    tail: str


class Encoder:
    """A tokenizer that follows lm-eval's rules."""

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        *,
        add_bos_token: bool | None = None,
        prefix_token_id: int | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.add_bos_token = add_bos_token
        own = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        self.prefix_token_id: int | None = own if prefix_token_id is None else prefix_token_id
        self._prefix_text = None if self.prefix_token_id is None else str(tokenizer.decode(self.prefix_token_id))
        self._backend = _plain_backend(tokenizer)
        self._before, self._after, is_plain = self._find_specials()
        self.rule: SplitRule | None = (
            split_rule(self._backend.to_str()) if self._backend is not None and is_plain else None
        )
        self._splits: dict[str, tuple[int, int] | None] = {}

    # ---------------------------------------------------------------------------------------- single texts

    def has_specials(self, text: str) -> bool:
        """Return whether `text` is encoded with special tokens: not if it already starts with the prefix token."""
        if self._prefix_text is not None and text.startswith(self._prefix_text):
            return False
        return True if self.add_bos_token is None else self.add_bos_token

    def encode_all(self, texts: Sequence[str], *, specials: bool | None = None) -> list[IntArray]:
        """Return the tokens of each text; `specials` overrides lm-eval's rule.

        Shapes: int32 [n tokens] each.
        Raises: ModelUnavailable if the tokenizer's native code gives up.
        """
        wanted = [self.has_specials(text) if specials is None else specials for text in texts]
        result: list[IntArray] = [EMPTY] * len(texts)
        for flag in (False, True):
            chosen = [i for i, each in enumerate(wanted) if each == flag]
            unique = list(dict.fromkeys(texts[i] for i in chosen))
            known = dict(zip(unique, self._encode_batch(unique, specials=flag), strict=True))
            for i in chosen:
                result[i] = known[texts[i]]
        return result

    def _encode_batch(self, texts: Sequence[str], *, specials: bool) -> list[IntArray]:
        if self._backend is None:
            with _panics_reported():
                lists = [self.tokenizer.encode(text, add_special_tokens=specials) for text in texts]
            return [np.asarray(each, dtype=np.int32) for each in lists]
        self._take_off_limits(self._backend)
        result: list[IntArray] = []
        for start in range(0, len(texts), BATCH_TEXTS):
            batch = list(texts[start : start + BATCH_TEXTS])
            with _panics_reported():
                encoded = self._backend.encode_batch_fast(batch, add_special_tokens=specials)
            result += [np.asarray(each.ids, dtype=np.int32) for each in encoded]
        return result

    def _take_off_limits(self, backend: "Tokenizer") -> None:
        """Make the Rust tokenizer encode as Python's `encode` does; change only settings that differ."""
        if backend.truncation is not None:
            backend.no_truncation()
        if backend.padding is not None:
            backend.no_padding()
        splits = bool(getattr(self.tokenizer, "split_special_tokens", False))
        if backend.encode_special_tokens != splits:
            backend.encode_special_tokens = splits

    def _find_specials(self) -> tuple[IntArray, IntArray, bool]:
        """Return the special tokens added before and after a text, and whether nothing else changes."""
        probes = ["a", "Question: what is it?\nAnswer:", " x", "0 1"]
        plain = self._encode_batch(probes, specials=False)
        special = self._encode_batch(probes, specials=True)
        added = special[0].size - plain[0].size
        for n_before in range(added + 1):
            before, after = special[0][:n_before], special[0][special[0].size - (added - n_before) :]
            rebuilt = [np.concatenate([before, each, after]) for each in plain]
            if all(np.array_equal(a, b) for a, b in zip(rebuilt, special, strict=True)):
                return before, after, True
        return EMPTY, EMPTY, False

    # ---------------------------------------------------------------------------------------------- pairs

    def encode_pairs(self, pairs: Sequence[ContinuationPair]) -> list[EncodedPair]:
        """Return the tokens of each pair; nothing is truncated, and what is scored may be empty.

        An empty context becomes the prefix token, as in lm-eval; so does a context of white space only if the tokenizer
        adds no BOS (lm-eval fails there with an assertion).
        """
        if len(self._splits) > MOST_SPLITS:
            self._splits.clear()
        contexts: dict[tuple[str, ...], _Context] = {}
        for pair in pairs:
            if pair.segments not in contexts:
                contexts[pair.segments] = self._prepare(pair.segments)
        if self.rule is None or not self._proof_holds(list(contexts.values())):
            self.rule = None
            contexts = {key: _Context(c.text, c.moved, c.has_specials, (), c.text) for key, c in contexts.items()}
            return self._encode_whole(pairs, contexts)
        return self._encode_split(pairs, contexts)

    def _prepare(self, segments: tuple[str, ...]) -> _Context:
        whole = "".join(segments)
        text = whole.rstrip()
        moved = whole[len(text) :]
        if self.rule is None or not text:
            return _Context(text, moved, self.has_specials(text), (), text)
        kept, left = [], len(text)
        for segment in segments:
            kept.append(segment[:left] if len(segment) > left else segment)
            left -= len(kept[-1])
        parts, tail = self._split_segments(self.rule, kept)
        return _Context(text, moved, self.has_specials(text), parts, tail)

    def _split_segments(self, rule: SplitRule, segments: Iterable[str]) -> tuple[tuple[str, ...], str]:
        """Return the texts to encode separately, and the rest after the last safe position."""
        parts: list[str] = []
        open_text = ""
        is_first = True
        for segment in segments:
            if segment not in self._splits:
                first, last = rule.first_split(segment), rule.last_split(segment)
                self._splits[segment] = None if first is None or last is None else (first, last)
            splits = self._splits[segment]
            if splits is None:
                open_text += segment
                continue
            begin, end = splits
            for text in (open_text + segment[:begin], segment[begin:end]):
                if text:
                    parts.append(text if is_first else self._alone(rule, text))
                    is_first = False
            open_text = segment[end:]
        return tuple(parts), open_text if is_first else self._alone(rule, open_text)

    @staticmethod
    def _alone(rule: SplitRule, text: str) -> str:
        """Return the text after a split as it is passed to the tokenizer."""
        return text[1:] if rule.drops_space else text

    def _proof_holds(self, contexts: Sequence[_Context]) -> bool:
        """Encode some contexts both ways: the proof is based on the tokenizer's description, this on its behaviour."""
        step = max(1, len(contexts) // PROOF_SAMPLES)
        chosen = [context for context in contexts[::step] if context.parts][:PROOF_SAMPLES]
        whole = self._encode_batch([context.text for context in chosen], specials=False)
        known = self._encode_texts(text for context in chosen for text in (*context.parts, context.tail))
        return all(
            np.array_equal(np.concatenate([known[text] for text in (*context.parts, context.tail)]), tokens)
            for context, tokens in zip(chosen, whole, strict=True)
        )

    def _encode_texts(self, texts: Iterable[str]) -> dict[str, IntArray]:
        """Return the tokens of each distinct text, without special tokens."""
        unique = list(dict.fromkeys(texts))
        return dict(zip(unique, self._encode_batch(unique, specials=False), strict=True))

    def _encode_whole(
        self, pairs: Sequence[ContinuationPair], contexts: dict[tuple[str, ...], _Context]
    ) -> list[EncodedPair]:
        """Encode each distinct context and each distinct context + continuation in full."""
        order = list(contexts)
        encoded = dict(zip(order, self.encode_all([contexts[key].text for key in order]), strict=True))
        filled = [i for i, pair in enumerate(pairs) if _has_text(pair)]
        texts = []
        for i in filled:
            context = contexts[pairs[i].segments]
            texts.append(context.text + context.moved + pairs[i].continuation)
        wholes = dict(zip(filled, self.encode_all(texts), strict=True))
        bare = [i for i, pair in enumerate(pairs) if not _has_text(pair)]
        alone = dict(zip(bare, self.encode_all([pairs[i].continuation for i in bare], specials=False), strict=True))
        result = []
        for i, pair in enumerate(pairs):
            tokens = encoded[pair.segments]
            result.append(self._from_nothing(alone[i]) if i in alone else self._split(tokens, wholes[i]))
        return result

    def _split(self, context: IntArray, whole: IntArray) -> EncodedPair:
        """Return lm-eval's pair: the context's tokens, and the whole text's tokens after that many."""
        if context.size == 0:
            return self._from_nothing(whole)
        return EncodedPair(context, whole[context.size :])

    def _from_nothing(self, scored: IntArray) -> EncodedPair:
        """Return the pair of an empty context: the prefix token replaces it, unless the text starts with that token."""
        if self.prefix_token_id is None:
            return EncodedPair(EMPTY, scored)
        if scored.size and int(scored[0]) == self.prefix_token_id:
            return EncodedPair(scored[:1], scored[1:])
        return EncodedPair(np.asarray([self.prefix_token_id], dtype=np.int32), scored)

    def _encode_split(
        self, pairs: Sequence[ContinuationPair], contexts: dict[tuple[str, ...], _Context]
    ) -> list[EncodedPair]:
        """Encode shared parts once; only the last part of a context is encoded again with its continuations."""
        joined = [self._join(contexts[pair.segments], pair) for pair in pairs]
        texts = {text for context in contexts.values() for text in (*context.parts, context.tail)}
        texts.update(text for each in joined for text in each)
        known = self._encode_texts(texts)
        heads = {key: [known[part] for part in context.parts] for key, context in contexts.items()}
        tokens = {}
        for key, context in contexts.items():
            middle = [*heads[key], known[context.tail]]
            before, after = (self._before, self._after) if context.has_specials else (EMPTY, EMPTY)
            tokens[key] = np.concatenate([before, *middle, after])
        result = []
        for pair, (apart, open_text) in zip(pairs, joined, strict=True):
            context = contexts[pair.segments]
            if not _has_text(pair):
                result.append(self._from_nothing(known[apart]))
            elif not open_text and not (context.has_specials and self._after.size) and tokens[pair.segments].size:
                result.append(EncodedPair(tokens[pair.segments], known[apart]))
            else:
                specials = self.has_specials(context.text + context.moved + pair.continuation)
                end = [known[open_text]] if open_text else [known[context.tail], known[apart]]
                before, after = (self._before, self._after) if specials else (EMPTY, EMPTY)
                whole = np.concatenate([before, *heads[pair.segments], *end, after])
                result.append(self._split(tokens[pair.segments], whole))
        return result

    def _join(self, context: _Context, pair: ContinuationPair) -> tuple[str, str]:
        """Return (continuation alone, "") if splitting before it is safe, else ("", open end + continuation)."""
        rule = self.rule
        if rule is None or not _has_text(pair):
            return pair.continuation, ""
        continuation = context.moved + pair.continuation
        # If the context is shorter than the prefix token's text, only one of context and whole may start with it.
        starts_alike = len(context.text) >= max(1, len(self._prefix_text or ""))
        if starts_alike and rule.is_safe(context.text[-1] + continuation[:2], 1):
            return self._alone(rule, continuation), ""
        return "", context.tail + continuation

    def token_texts(self, context: str, continuation: str) -> tuple[list[str], int]:
        """Return the texts of the tokens of context + continuation, for display, and the first scored one's index.

        If several tokens form one character, each is shown by the tokenizer's name for it.
        """
        pair = self.encode_pairs([ContinuationPair((context,), continuation)])[0]
        ids = [*pair.context.tolist(), *pair.scored.tolist()]
        names = [str(name) for name in self.tokenizer.convert_ids_to_tokens(ids)]
        texts = []
        for token_id, name in zip(ids, names, strict=True):
            text = str(self.tokenizer.decode([token_id]))
            is_partial = not text or "\ufffd" in text
            lost_space = name.startswith((SPACE_SYMBOL, "Ġ")) and not text.startswith(" ")
            texts.append(name if is_partial else f" {text}" if lost_space else text)
        return texts, int(pair.context.size)


class Seq2SeqEncoder(Encoder):
    """A tokenizer that encodes context and continuation apart, for an encoder and a decoder.

    The context has the tokenizer's special tokens (T5's end token), the continuation has none.
    """

    def encode_pairs(self, pairs: Sequence[ContinuationPair]) -> list[EncodedPair]:
        """Return the tokens of each pair; white space at the end of a context belongs to the continuation."""
        wholes = {pair.segments: "".join(pair.segments) for pair in pairs}
        contexts = {key: whole.rstrip() for key, whole in wholes.items()}
        order = list(contexts)
        encoded = dict(zip(order, self.encode_all([contexts[key] for key in order]), strict=True))
        texts = [wholes[pair.segments][len(contexts[pair.segments]) :] + pair.continuation for pair in pairs]
        scored = self.encode_all(texts, specials=False)
        return [
            EncodedPair(encoded[pair.segments], tokens) if _has_text(pair) else self._from_nothing(tokens)
            for pair, tokens in zip(pairs, scored, strict=True)
        ]


@contextmanager
def _panics_reported() -> Iterator[None]:
    """Turn a panic of the tokenizer's native code, which is not an Exception, into an error of the model."""
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise ModelUnavailable(panic_line(error)) from error


def _has_text(pair: ContinuationPair) -> bool:
    return any(pair.segments)


def _plain_backend(tokenizer: object) -> "Tokenizer | None":
    """Return the Rust tokenizer if the Python class around it does not change `encode`, else None."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "encode_batch_fast"):
        return None
    from transformers import PreTrainedTokenizerFast

    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return None
    same = all(
        getattr(type(tokenizer), name, None) is getattr(PreTrainedTokenizerFast, name, None)
        for name in ("encode", "_encode_plus", "__call__")
    )
    return backend if same else None


def rolling_windows(tokens: IntArray, prefix_token_id: int, max_length: int) -> list[tuple[IntArray, int]]:
    """Return the windows that score every token of a text once: (sequence, number of its last tokens to score).

    The first window starts with the prefix token; each later one scores the next tokens after as much context as fits.
    Shapes: tokens int32 [n]; each sequence int32 [at most max_length + 1].
    Source: lm-evaluation-harness 0.4.13, utils.py get_rolling_token_windows with context_len=1, made disjoint.
    """
    if not tokens.size:
        return []
    done = min(max_length, int(tokens.size))
    windows = [(np.concatenate([np.asarray([prefix_token_id], dtype=np.int32), tokens[:done]]), done)]
    while done < tokens.size:
        n_scored = min(max_length, int(tokens.size) - done)
        done += n_scored
        windows.append((tokens[done - max_length - 1 : done], n_scored))
    return windows
