"""Matching of equal questions in the logs of two tools, by their text and without guessing.

Two samples match if the bare question of one occurs word for word in the other's text, and their options are the same
in any order (if only one log separates the options, all of them must occur in the other's text). Case, white space and
punctuation are ignored. Samples without a match, or with more than one, are excluded and counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from assaymark.prompts.questions import words_of
from assaymark.results.comparison.questions import SampleKey, SampleQuestion

LOOKED_UP = 5  # words of a question that are looked up in an index before the whole is compared


@dataclass(frozen=True, slots=True)
class Matches:
    """The second run's samples matched with the first's."""

    pairs: Mapping[SampleKey, SampleKey]  # second -> first
    n_unknown: int  # samples of the second run that match none of the first
    n_ambiguous: int  # samples of the second run that match several, or one that others match as well


@dataclass(frozen=True, slots=True)
class _Words:
    """A question as words; equal for samples with the same words."""

    text: str
    question: str | None
    options: tuple[str, ...] | None


def same_questions(first: Mapping[SampleKey, SampleQuestion], second: Mapping[SampleKey, SampleQuestion]) -> Matches:
    """Return the samples of two runs that are the same question; at least one run must have bare questions.

    Repeated questions of one run are paired in their order.
    """
    ours, theirs = _grouped(first), _grouped(second)
    fits: dict[_Words, set[_Words]] = {words: set() for words in theirs}
    known = [words for words in ours if words.question]
    for own, other in _contained(known, list(theirs)):
        fits[other].add(own)
    for other, own in _contained([words for words in theirs if words.question], list(ours)):
        fits[other].add(own)
    n_claims = Counter(words for claimed in fits.values() for words in claimed)
    pairs: dict[SampleKey, SampleKey] = {}
    n_unknown = n_ambiguous = 0
    for other, candidates in fits.items():
        n_paired = 0
        if len(candidates) == 1 and n_claims[next(iter(candidates))] == 1:
            new = list(zip(theirs[other], ours[next(iter(candidates))], strict=False))
            pairs.update(new)
            n_paired = len(new)
        n_left = len(theirs[other]) - n_paired
        n_unknown += 0 if candidates else n_left
        n_ambiguous += n_left if candidates else 0
    return Matches(pairs, n_unknown, n_ambiguous)


def _grouped(questions: Mapping[SampleKey, SampleQuestion]) -> dict[_Words, list[SampleKey]]:
    groups: dict[_Words, list[SampleKey]] = defaultdict(list)
    for key, asked in sorted(questions.items()):
        options = None if asked.options is None else tuple(sorted(_spaced(option) for option in asked.options))
        question = None if asked.question is None else _spaced(asked.question)
        groups[_Words(_spaced(asked.text), question, options)].append(key)
    return groups


def _spaced(text: str) -> str:
    """Return a text's words separated and enclosed by single spaces, so that a search finds whole words only."""
    return f" {' '.join(words_of(text))} "


def _contained(bare: Sequence[_Words], texts: Sequence[_Words]) -> Iterator[tuple[_Words, _Words]]:
    """Yield the pairs (a, b) for which b contains the bare question of a and their options are the same."""
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    lengths = {min(LOOKED_UP, len(bare_words.question.split())) for bare_words in bare if bare_words.question} - {0}
    for number, container in enumerate(texts):
        words = container.text.split()
        for length in lengths:
            for start in {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}:
                index[start].append(number)
    for wording in bare:
        question = wording.question or ""
        for number in index.get(tuple(question.split()[:LOOKED_UP]), ()) if question.strip() else ():
            other = texts[number]
            if question in other.text and _same_options(wording, other):
                yield wording, other


def _same_options(bare: _Words, other: _Words) -> bool:
    if bare.options and other.options:
        return bare.options == other.options
    listed, text = (bare.options, other.text) if bare.options else (other.options, bare.text)
    return all(option in text for option in listed or ())
