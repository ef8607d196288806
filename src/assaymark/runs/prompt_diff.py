"""`diff-prompts`: which prompts of two stored runs differ, and how.

It uses the stored requests, so it shows what was sent to the models, whatever the task files contain now. Samples are
paired by content (sample hash and number of earlier occurrences), as `compare` pairs their scores.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import TypedDict

from assaymark.documents.blocks import Column, Example, Paragraph, Piece, table
from assaymark.documents.document import Document, document
from assaymark.errors import AssaymarkError, UsageError, few
from assaymark.models.checkpoint.identity import arguments_of_name
from assaymark.models.create import create_model
from assaymark.models.model import Model
from assaymark.records import GenerateQuery, JsonValue, LoglikelihoodQuery, Request, RollingQuery
from assaymark.results.comparison.pairing import occurrences
from assaymark.runs.run import Run
from assaymark.store.rows import SampleRecord

AROUND = 40  # characters shown around a change
KINDS = (
    "shots", "question", "system or template", "choices", "generation settings", "tokens", "truncated from the left",
)  # fmt: skip
SHOWN_TOKENS = 24  # at the end of a prompt


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


@dataclass(frozen=True, slots=True)
class PromptDiff:
    """The differences between the prompts of two runs."""

    names: tuple[str, str]
    tasks: tuple[TaskDifferences, ...]
    only_first: tuple[str, ...]  # tasks that only the first run has
    only_second: tuple[str, ...]
    models: tuple[Model | None, Model | None]  # for their tokenizers; None if a model is not available here

    @property
    def n_differing(self) -> int:
        """Number of samples whose prompts differ."""
        return sum(len(task.differences) for task in self.tasks)


def diff_prompts(first: Run, second: Run, tasks: Sequence[str] = ()) -> PromptDiff:
    """Compare the prompts of two runs, sample by sample.

    Args:
        first: a stored run.
        second: another stored run.
        tasks: tasks to compare; empty: all that both runs have.

    Raises: UsageError if the runs have no task in common.
    """
    ours, theirs = first.row.tasks, second.row.tasks
    common = [task for task in ours if task in theirs and (not tasks or task in tasks)]
    if not common:
        raise UsageError(
            f"runs {first.short_id} and {second.short_id} have no task in common"
            + (f" among {', '.join(tasks)}" if tasks else "")
            + f"; the first has {', '.join(ours[:5])}, the second {', '.join(theirs[:5])}"
        )
    differences = [prompt_differences(task, first.samples(task), second.samples(task)) for task in common]
    return PromptDiff(
        names=(first.short_id, second.short_id),
        tasks=tuple(differences),
        only_first=tuple(task for task in ours if task not in theirs),
        only_second=tuple(task for task in theirs if task not in ours),
        models=(_tokenizer_of(first), _tokenizer_of(second)),
    )


def _tokenizer_of(run: Run) -> Model | None:
    """Return the run's model for its tokenizer; None if it is not available here."""
    identity = run.row.plan.model
    if identity.kind == "imported":
        return None
    arguments = dict(identity.options)
    if identity.kind != "fake":
        arguments |= arguments_of_name(identity.name)
    try:
        model = create_model(identity.kind, arguments)
        is_same = model.identity.tokenizer_hash == identity.tokenizer_hash
        model.split_tokens("a", " b")
    except AssaymarkError:
        return None
    return model if is_same else None


def diff_to_json(diff: PromptDiff) -> dict[str, JsonValue]:
    """Return every difference with stable names; `pieces` are the equal and changed parts of the prompts."""
    return {
        "runs": list(diff.names),
        "n_differing": diff.n_differing,
        "only_first": list(diff.only_first),
        "only_second": list(diff.only_second),
        "tasks": [
            {
                "task": task.task,
                "n": task.n,
                "n_first_only": task.n_first_only,
                "n_second_only": task.n_second_only,
                "counts": task.counts(),
                "differences": [_difference_json(diff, difference) for difference in task.differences],
            }
            for task in diff.tasks
        ],
    }


def _difference_json(diff: PromptDiff, difference: PromptDifference) -> Mapping[str, JsonValue]:
    return {
        "sample_indices": [difference.first_index, difference.second_index],
        "kinds": list(difference.kinds),
        "pieces": [asdict(piece) for piece in difference.pieces],
        "lines": list(difference.lines),
        "tokens": [
            _tokens(model, request)
            for model, request in zip(diff.models, (difference.first, difference.second), strict=True)
        ],
    }


class _PromptEnds(TypedDict):
    """The first and last tokens of a prompt of `n` tokens; `scored_from` is a position in `last`."""

    n: int
    first: list[str]
    last: list[str]
    scored_from: int


def _tokens(model: Model | None, request: Request) -> _PromptEnds | None:
    """Return the first and last tokens of a prompt with its first choice, and the position of the first scored one."""
    query = next((query for query in request.queries if isinstance(query, LoglikelihoodQuery)), None)
    if model is None or query is None:
        return None
    split = model.split_tokens("".join(query.segments or request.segments), query.continuation)
    if split is None:
        return None
    texts, begin = split
    last = max(1, begin - SHOWN_TOKENS)
    return {"n": len(texts), "first": texts[:1], "last": texts[last:], "scored_from": begin - last}


def diff_document(diff: PromptDiff, limit: int) -> Document:
    """Return a summary per task, and the first `limit` differing samples with the changes marked."""
    rows = []
    for task in diff.tasks:
        kinds = ", ".join(f"{kind} {count:,}" for kind, count in task.counts().items()) or "identical"
        in_one = [f"{n:,} only in {name}" for name, n in
                  zip(diff.names, (task.n_first_only, task.n_second_only), strict=True) if n]  # fmt: skip
        rows.append((task.task, f"{task.n:,}", f"{len(task.differences):,}", "; ".join([kinds, *in_one])))
    differences = [difference for task in diff.tasks for difference in task.differences][:limit]
    n_more = diff.n_differing - len(differences)
    only = zip(diff.names, (diff.only_first, diff.only_second), strict=True)
    return document(
        table(("task", "samples", "differ", Column("in", "text")), rows),
        [_example(diff, difference) for difference in differences],
        [Paragraph(f"{n_more:,} more; show them with --limit", "facts")] if n_more else [],
        [Paragraph(f"only in {name}: {', '.join(tasks)}", "warning") for name, tasks in only if tasks],
    )


def _example(diff: PromptDiff, difference: PromptDifference) -> Example:
    lines = [("first, second", line) for line in difference.lines]
    for name, model, request in zip(diff.names, diff.models, (difference.first, difference.second), strict=True):
        tokens = _tokens(model, request)
        if tokens is not None:
            before = "|".join([*tokens["first"], "…", *tokens["last"][: tokens["scored_from"]]]).replace("\n", "↵")
            scored = "|".join(tokens["last"][tokens["scored_from"] :])
            lines.append((name, f"{tokens['n']:,} tokens  {before}; scored: |{scored}|"))
    return Example(
        f"{difference.task} {difference.first_index}",
        tuple(piece for each in difference.pieces for piece in _pieces(each)),
        lines=tuple(lines),
        note=", ".join(difference.kinds),
    )


def _pieces(piece: DifferencePiece) -> Iterator[Piece]:
    """Yield a piece as it is shown: equal text by its ends."""
    if piece.is_same:
        same = piece.first
        yield Piece(same if len(same) <= 2 * AROUND else f"{same[:AROUND]} … {same[-AROUND:]}")
        return
    if piece.first:
        yield Piece(_shorten(piece.first), "removed")
    if piece.second:
        yield Piece(_shorten(piece.second), "added")


def _shorten(changed: str) -> str:
    return changed if len(changed) <= 400 else f"{changed[:200]} … {len(changed) - 400:,} … {changed[-200:]}"


def prompt_differences(task: str, first: Iterable[SampleRecord], second: Iterable[SampleRecord]) -> TaskDifferences:
    """Return the differences between two runs' requests of one task."""
    ours, theirs = _keyed(first), _keyed(second)
    common = [key for key in ours if key in theirs]
    differences = [
        difference for key in common if (difference := _difference(task, ours[key], theirs[key])) is not None
    ]
    return TaskDifferences(task, len(common), len(ours) - len(common), len(theirs) - len(common), tuple(differences))


def _keyed(records: Iterable[SampleRecord]) -> dict[tuple[tuple[str, int], int], SampleRecord]:
    known = list(records)
    contents = ((record.request.sample_sha256, record.request.turn) for record in known)
    return dict(zip(occurrences(contents), known, strict=True))


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


def _first_texts(texts: Sequence[str]) -> str:
    return few([repr(text[:AROUND]) for text in texts], 4)


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
