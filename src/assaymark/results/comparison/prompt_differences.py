"""Differences between two runs' prompts, sample by sample.

It uses the stored requests, so it shows what was sent to the models, whatever the task files contain now. Samples are
paired by content (sample hash and number of earlier occurrences), as `compare` pairs their scores.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from assaymark.records import GenerateQuery, LoglikelihoodQuery, Request, RollingQuery
from assaymark.store.rows import SampleRecord

AROUND = 40  # characters shown around a change
KINDS = (
    "shots",
    "question",
    "system or template",
    "choices",
    "generation settings",
    "tokens",
    "truncated from the left",
)


@dataclass(frozen=True, slots=True)
class DifferencePiece:
    """One piece of two texts: the same in both, or the differing pieces of each."""

    first: str
    second: str

    @property
    def is_same(self) -> bool:
        """Whether both texts have the same piece."""
        return self.first == self.second


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """One sample whose prompt, choices or tokens differ."""

    task: str
    first_index: int
    second_index: int
    kinds: tuple[str, ...]  # of KINDS
    pieces: tuple[DifferencePiece, ...]  # of the prompts; empty if their text is the same
    lines: tuple[str, ...]  # differences besides the text: shots, tokens, choices, settings
    first: Request
    second: Request


@dataclass(frozen=True, slots=True)
class TaskDifferences:
    """One task in both runs."""

    task: str
    n: int  # samples in both
    n_first_only: int
    n_second_only: int
    differences: tuple[PromptDifference, ...]

    def counts(self) -> dict[str, int]:
        """Return the number of samples with each kind of difference."""
        counts = Counter(kind for difference in self.differences for kind in difference.kinds)
        return {kind: counts[kind] for kind in KINDS if counts[kind]}


def prompt_differences(task: str, first: Iterable[SampleRecord], second: Iterable[SampleRecord]) -> TaskDifferences:
    """Return the differences between two runs' requests of one task."""
    ours, theirs = _keyed(first), _keyed(second)
    common = [key for key in ours if key in theirs]
    differences = [
        difference for key in common if (difference := _difference(task, ours[key], theirs[key])) is not None
    ]
    return TaskDifferences(task, len(common), len(ours) - len(common), len(theirs) - len(common), tuple(differences))


def _keyed(records: Iterable[SampleRecord]) -> dict[tuple[str, int, int], SampleRecord]:
    seen: Counter[tuple[str, int]] = Counter()
    keyed: dict[tuple[str, int, int], SampleRecord] = {}
    for record in records:
        of_turn = (record.request.sample_sha256, record.request.turn)
        keyed[of_turn[0], seen[of_turn], of_turn[1]] = record
        seen[of_turn] += 1
    return keyed


def _difference(task: str, first: SampleRecord, second: SampleRecord) -> PromptDifference | None:
    ours, theirs = first.request, second.request
    lines_by_kind: dict[str, list[str]] = {}
    pieces: tuple[DifferencePiece, ...] = ()
    if ours.prompt != theirs.prompt:
        pieces = tuple(differing_pieces(ours.prompt, theirs.prompt))
        lines_by_kind[_where(ours, theirs)] = []
    if ours.n_shots != theirs.n_shots:
        lines_by_kind.setdefault("shots", []).append(f"{ours.n_shots} shots, {theirs.n_shots} shots")
    by_kind = {
        "choices": list(_choice_lines(ours, theirs)),
        "generation settings": list(_setting_lines(ours, theirs)),
        "tokens": list(_token_lines(first, second)),
        "truncated from the left": list(_truncation_lines(first, second)),
    }
    lines_by_kind |= {kind: each for kind, each in by_kind.items() if each}
    if not lines_by_kind:
        return None
    lines = tuple(line for each in lines_by_kind.values() for line in each)
    return PromptDifference(
        task, ours.sample_index, theirs.sample_index, tuple(lines_by_kind), pieces, lines, ours, theirs
    )


def _where(ours: Request, theirs: Request) -> str:
    """Return which part of two prompts differs, judged by their segments."""
    if bool(ours.messages) != bool(theirs.messages):
        return "system or template"
    if ours.segments[:-1] != theirs.segments[:-1] and (ours.n_shots or theirs.n_shots):
        return "shots"
    same_question = ours.segments[-1:] == theirs.segments[-1:] and bool(ours.segments)
    return "system or template" if same_question else "question"


def _choice_lines(ours: Request, theirs: Request) -> Iterator[str]:
    texts = [
        [a.continuation for a in request.queries if isinstance(a, LoglikelihoodQuery)] for request in (ours, theirs)
    ]
    if texts[0] != texts[1]:
        yield f"choices {_first_texts(texts[0])}, {_first_texts(texts[1])}"


def _setting_lines(ours: Request, theirs: Request) -> Iterator[str]:
    kinds = [[query.kind.value for query in request.queries] for request in (ours, theirs)]
    if set(kinds[0]) != set(kinds[1]):
        yield f"queries {', '.join(sorted(set(kinds[0])))}, {', '.join(sorted(set(kinds[1])))}"
    settings = [
        [query.settings for query in request.queries if isinstance(query, GenerateQuery)] for request in (ours, theirs)
    ]
    if settings[0] != settings[1] and settings[0] and settings[1]:
        yield f"settings {settings[0][0]}, {settings[1][0]}"


def _token_lines(first: SampleRecord, second: SampleRecord) -> Iterator[str]:
    """Yield a line if the same text has different numbers of tokens: another tokenizer, or one more BOS token."""
    if first.request.prompt != second.request.prompt or any(
        isinstance(query, RollingQuery) for query in first.request.queries
    ):
        return
    theirs = {output.ask_index: output for output in second.outputs}
    for output in first.outputs:
        other = theirs.get(output.ask_index)
        if other is None or output.error or other.error:
            continue
        counts = [(each.n_context_tokens + each.n_cut_tokens, each.n_tokens) for each in (output, other)]
        if not (counts[0][0] and counts[1][0]):  # files of lm-eval and some servers do not say
            continue
        if counts[0][0] != counts[1][0]:
            apart = counts[1][0] - counts[0][0]
            hint = ": a beginning-of-sequence token (BOS) in one only?" if abs(apart) == 1 else ""
            yield f"the same prompt is {counts[0][0]} tokens, {counts[1][0]} tokens{hint}"
            return
        if counts[0][1] != counts[1][1] and output.text is None and counts[0][1] and counts[1][1]:
            yield f"choice {output.ask_index} is {counts[0][1]} tokens, {counts[1][1]} tokens"
            return


def _truncation_lines(first: SampleRecord, second: SampleRecord) -> Iterator[str]:
    truncated = [max((output.n_cut_tokens for output in record.outputs), default=0) for record in (first, second)]
    if truncated[0] != truncated[1]:
        yield f"{truncated[0]} tokens truncated from the left, {truncated[1]}"


def _first_texts(texts: Sequence[str], most: int = 4) -> str:
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(repr(text[:AROUND]) for text in texts[:most]) + more


def differing_pieces(first: str, second: str) -> Iterator[DifferencePiece]:
    """Yield two texts as equal and differing pieces, split at words and white space.

    The common prefix and suffix are found first, so that long prompts are compared quickly.
    """
    begin = _common_prefix(first, second)
    end = _common_prefix(first[begin:][::-1], second[begin:][::-1])
    if begin:
        yield DifferencePiece(first[:begin], second[:begin])
    ours, theirs = _words(first[begin : len(first) - end]), _words(second[begin : len(second) - end])
    for _, a, b, c, d in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        yield DifferencePiece("".join(ours[a:b]), "".join(theirs[c:d]))
    if end:
        yield DifferencePiece(first[len(first) - end :], second[len(second) - end :])


def _common_prefix(first: str, second: str) -> int:
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count


def _words(text: str) -> list[str]:
    """Return the text as words and single characters of white space; joined they give the text."""
    words: list[str] = []
    for character in text:
        if words and not character.isspace() and not words[-1][-1].isspace():
            words[-1] += character
        else:
            words.append(character)
    return words
