"""The same question in the logs of two tools: found by its text, and never guessed.

Two samples are the same where the bare question of one stands word for word in what the other asked, and their
options are the same in whatever order (where only one log tells them apart, all of them stand in the other's text).
Case, white space and punctuation do not count. What fits nothing, or more than one, is left out and counted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evalstone.errors import UsageError
from evalstone.prompts.questions import words_of
from evalstone.report.comparison.questions import Asked, Place
from evalstone.report.evidence.records import RunEvidence, ScoreRow

__all__ = ["Matches", "aligned", "same_questions"]

LOOKED_UP = 5  # words of a question that are looked up before the whole is compared


@dataclass(frozen=True, slots=True)
class Matches:
    """Which of the second run's samples is which of the first's."""

    places: Mapping[Place, Place]  # second -> first
    n_unknown: int  # samples of the second run that fit none of the first
    n_ambiguous: int  # that fit several, or one that others fit as well


@dataclass(frozen=True, slots=True)
class _Words:
    """A question as words; equal for samples that ask the same in the same words."""

    text: str
    question: str | None
    options: tuple[str, ...] | None


def same_questions(first: Mapping[Place, Asked], second: Mapping[Place, Asked]) -> Matches:
    """Return the samples of two runs that are the same question; at least one run must know its bare questions.

    Equal questions of one run are told apart by their order only, so they are paired in it.
    """
    ours, theirs = _grouped(first), _grouped(second)
    fits: dict[_Words, set[_Words]] = {words: set() for words in theirs}
    known = [words for words in ours if words.question]
    for one, other in _contained(known, list(theirs)):
        fits[other].add(one)
    for other, one in _contained([words for words in theirs if words.question], list(ours)):
        fits[other].add(one)
    taken = Counter(one for found in fits.values() for one in found)
    places: dict[Place, Place] = {}
    n_unknown = n_ambiguous = 0
    for other, found in fits.items():
        n_paired = 0
        if len(found) == 1 and taken[next(iter(found))] == 1:
            pairs = list(zip(theirs[other], ours[next(iter(found))], strict=False))
            places.update(pairs)
            n_paired = len(pairs)
        n_left = len(theirs[other]) - n_paired
        n_unknown += 0 if found else n_left
        n_ambiguous += n_left if found else 0
    return Matches(places, n_unknown, n_ambiguous)


def _grouped(asked: Mapping[Place, Asked]) -> dict[_Words, list[Place]]:
    groups: dict[_Words, list[Place]] = defaultdict(list)
    for place, one in sorted(asked.items()):
        options = None if one.options is None else tuple(sorted(_spaced(option) for option in one.options))
        question = None if one.question is None else _spaced(one.question)
        groups[_Words(_spaced(one.text), question, options)].append(place)
    return groups


def _spaced(text: str) -> str:
    """Return a text's words between single spaces, so that whole words are found in it."""
    return f" {' '.join(words_of(text))} "


def _contained(bare: Sequence[_Words], texts: Sequence[_Words]) -> Iterator[tuple[_Words, _Words]]:
    """Yield (a, b) where the bare question of a stands in b and their options are the same."""
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    lengths = {min(LOOKED_UP, len(one.question.split())) for one in bare if one.question} - {0}
    for number, one in enumerate(texts):
        words = one.text.split()
        for length in lengths:
            for start in {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}:
                index[start].append(number)
    for one in bare:
        question = one.question or ""
        for number in index.get(tuple(question.split()[:LOOKED_UP]), ()) if question.strip() else ():
            other = texts[number]
            if question in other.text and _same_options(one, other):
                yield one, other


def _same_options(one: _Words, other: _Words) -> bool:
    if one.options and other.options:
        return one.options == other.options
    listed, text = (one.options, other.text) if one.options else (other.options, one.text)
    return all(option in text for option in listed or ())


def aligned(first: RunEvidence, second: RunEvidence, places: Mapping[Place, Place], how: str) -> RunEvidence:
    """Return the second run with its samples named as the first names them, and a note that says how.

    Samples without a place are left out. Raises: UsageError where none has one.
    """
    if not places:
        raise UsageError(
            f"{first.label} and {second.label} have no question in common: {how}; nothing can be compared sample by "
            "sample"
        )
    hashes = {(row.task, row.sample_index): row.sample_sha256 for row in first.rows}
    rows = tuple(_renamed(row, places, hashes) for row in second.rows if _placed(row, places, hashes))
    homes = Counter((task, places[task, index][0]) for task, index in places)
    tasks = {mine: replace(task, name=mine) for task in second.tasks for (theirs, mine) in homes if theirs == task.name}
    settings = {mine: second.task_settings.get(theirs, {}) for theirs, mine in homes}
    moved = [f"{theirs} as {mine}" for theirs, mine in homes if theirs != mine]
    note = f"paired {how}" + (f"; {', '.join(moved[:4])}" if moved else "") + (" and more" if len(moved) > 4 else "")
    return replace(
        second,
        rows=rows,
        tasks=tuple(tasks.values()),
        groups=(),
        task_settings=settings,
        prompt_hashes={places[place]: value for place, value in second.prompt_hashes.items() if place in places},
        choices={places[place]: texts for place, texts in second.choices.items() if place in places},
        pairing=(note,),
    )


def _placed(row: ScoreRow, places: Mapping[Place, Place], hashes: Mapping[Place, str]) -> bool:
    place = places.get((row.task, row.sample_index))
    return place is not None and place in hashes


def _renamed(row: ScoreRow, places: Mapping[Place, Place], hashes: Mapping[Place, str]) -> ScoreRow:
    task, index = places[row.task, row.sample_index]
    return replace(row, task=task, sample_index=index, sample_sha256=hashes[task, index])
