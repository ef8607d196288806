"""`diff-prompts`: which prompts of two stored runs differ, and how."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypedDict

from assaymark.documents.blocks import Column, Example, Paragraph, Piece, table
from assaymark.documents.document import Document, document
from assaymark.errors import AssaymarkError, UsageError
from assaymark.models.checkpoint.identity import arguments_of_name
from assaymark.models.create import create_model
from assaymark.models.model import Model
from assaymark.records import JsonValue, LoglikelihoodQuery, Request
from assaymark.results.comparison.prompt_differences import (
    AROUND,
    DifferencePiece,
    PromptDifference,
    TaskDifferences,
    prompt_differences,
)
from assaymark.runs.run import Run

SHOWN_TOKENS = 24  # at the end of a prompt


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
        model.split_tokens("a", " b")
    except AssaymarkError:
        return None
    return model


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


def _shorten(changed: str, longest: int = 400) -> str:
    half = longest // 2
    return changed if len(changed) <= longest else f"{changed[:half]} … {len(changed) - longest:,} … {changed[-half:]}"
