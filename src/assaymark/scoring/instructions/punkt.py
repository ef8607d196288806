"""Sentences of an English text as Punkt splits it, with the parameters that IFEval's published numbers rest on.

A full stop, question or exclamation mark is looked at where a space or closing punctuation follows, together with the
words around it: one after an abbreviation, an initial or a number ends a sentence only where the next word begins one,
judged by the list of frequent first words and by how the word was written in the text that Punkt was trained on.

Source: Kiss and Strunk (2006), Unsupervised Multilingual Sentence Boundary Detection, Computational Linguistics 32(4).
Details that the paper leaves open, among them what is a token, are those of NLTK 3.10; so are the parameters.
"""

import json
import re
import string
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import pairwise, zip_longest
from typing import NamedTuple

_NUMBER = "##number##"
_ENDS = (".", "?", "!")
_PUNCTUATION = (*_ENDS, ",", ";", ":")
_NOT_IN_WORDS = r"[)\";}\]*:@'({\[‘’“”«»?!]"
_REPEATED = r"(?:-{2,}|\.{2,}|(?:\.\s){2,}\.)"
_TOKEN = re.compile(
    rf"{_REPEATED}"
    r"|(?=[^(\"`{\[:;&#*@)}\]\-,])\S+?"
    rf"(?=\s|$|{_NOT_IN_WORDS}|{_REPEATED}|,(?=$|\s|{_NOT_IN_WORDS}|{_REPEATED}))"
    r"|\S"
)
_CANDIDATE = re.compile(rf"[.?!](?=(?P<after>{_NOT_IN_WORDS}|\s+(?P<next>\S+)))")
_CLOSING = re.compile(r"[\"')\]}‘’“”«»]+?(?:\s+|(?=--)|$)", re.MULTILINE)
_NUMERIC = re.compile(r"^-?[.,]?\d[\d,.-]*\.?$")
_INITIAL = re.compile(r"[^\W\d]\.$")
_ELLIPSIS = re.compile(r"\.\.+$")


class _Parameters(NamedTuple):
    """What was learnt of the language; words in lower case, and abbreviations without their last full stop."""

    abbreviations: frozenset[str]
    collocations: frozenset[tuple[str, str]]  # across a full stop that ends no sentence
    starters: frozenset[str]  # frequent first words
    capital_begins: frozenset[str]  # words seen small, and within sentences never with a capital
    begins_small: frozenset[str]  # those of them seen at the beginning of sentences, and only small
    capital_within: frozenset[str]  # words seen small, and with a capital within sentences


@cache
def _english() -> _Parameters:
    content = json.loads((files(__package__) / "punkt_english.json").read_text(encoding="utf-8"))
    words = (frozenset(content[name].split()) for name in ("starters", *_Parameters._fields[3:]))
    return _Parameters(frozenset(content["abbreviations"]), frozenset(map(tuple, content["collocations"])), *words)


class _Token:
    """A token of the words around a candidate. kind: its text in lower case, or that it is a number."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kind = _NUMERIC.sub(_NUMBER, text.lower())
        self.is_initial = _INITIAL.match(text) is not None
        self.is_ellipsis = text not in _ENDS and _ELLIPSIS.match(text) is not None
        own = text[:-1].lower()
        is_word = text not in _ENDS and text.endswith(".") and not text.endswith("..")
        self.is_abbreviation = is_word and not _english().abbreviations.isdisjoint((own, own.rpartition("-")[2]))
        self.ends = text in _ENDS or (is_word and not self.is_abbreviation)

    @property
    def without_stop(self) -> str:
        """The kind without a full stop at its end."""
        return self.kind[:-1] if len(self.kind) > 1 and self.kind.endswith(".") else self.kind


def count_sentences(text: str) -> int:
    """Return the number of sentences by `split_sentences`."""
    return len(split_sentences(text))


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, with the quotes and brackets that close them."""
    sentences = []
    spans = list(_spans(text))
    moved = 0  # characters at the beginning of a span that close the sentence before
    for (start, stop), after in zip_longest(spans, spans[1:]):
        closing = None if after is None else _CLOSING.match(text[slice(*after)])
        if after is not None and closing is not None:
            sentences.append(text[start + moved : after[0] + len(closing[0].rstrip())])
        elif sentence := text[start + moved : stop]:
            sentences.append(sentence)
        moved = 0 if closing is None else closing.end()
    return sentences


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield beginning and end of each sentence, without what closes it behind its last full stop."""
    start = 0
    for candidate, context in _candidates(text):
        if _has_end(context):
            yield start, candidate.end()
            start = candidate.end() if candidate["next"] is None else candidate.start("next")
    yield start, len(text.rstrip())


def _candidates(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each possible end of a sentence, with its context: the words before and behind it.

    Of several after one word, the last one.
    """
    last: re.Match[str] | None = None
    start = stop = 0  # of the word before the last candidate
    for candidate in _CANDIDATE.finditer(text):
        between = text[stop : candidate.start()]
        space = max(map(between.rfind, string.whitespace))
        begin = stop + space + 1 if space > 0 else start
        if last is not None and stop <= begin:
            yield last, text[start:stop] + last[0] + last["after"]
        last, start, stop = candidate, begin, candidate.start()
    if last is not None:
        yield last, text[start:stop] + last[0] + last["after"]


def _has_end(context: str) -> bool:
    """Return whether a sentence ends within the context of a candidate."""
    tokens = [_Token(found) for line in context.split("\n") for found in _TOKEN.findall(line)]
    return any(_ends_before(token, following) for token, following in pairwise(tokens))


def _ends_before(token: _Token, following: _Token) -> bool:
    """Return whether a sentence ends between two tokens."""
    known = _english()
    if not token.text.endswith("."):
        return token.ends
    own, next_kind = token.without_stop, following.without_stop if following.ends else following.kind
    if (own, next_kind) in known.collocations:
        return False
    is_capital = following.text[0].isupper()
    begins = _begins_sentence(following, next_kind, known)
    if (token.is_abbreviation or token.is_ellipsis) and not token.is_initial:
        if begins or (is_capital and next_kind in known.starters):
            return True
    elif token.is_initial or own == _NUMBER:
        is_seen_small = next_kind in known.capital_begins or next_kind in known.capital_within
        is_name = token.is_initial and begins is None and is_capital and not is_seen_small
        return token.ends and begins is not False and not is_name
    return token.ends


def _begins_sentence(token: _Token, kind: str, known: _Parameters) -> bool | None:
    """Return whether a token is the first of a sentence, by how the word is written; None where that says nothing."""
    if token.text in _PUNCTUATION:
        return False
    if token.text[0].isupper() and kind in known.capital_begins:
        return True
    return False if token.text[0].islower() and kind not in known.begins_small else None
