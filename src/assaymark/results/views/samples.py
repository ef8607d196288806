"""Stored samples for display: the end of the prompt, the model's answer and the correct answer.

It uses a `SampleRecord` alone, so it shows what was stored, whatever the task file contains now.

A stored conversation for the terminal: the messages turn by turn, in full.

The samples that a perturbation broke have a lower score for the perturbed copy than as they are. Words of a copy that
the original does not have in that place are found by a longest common subsequence of words.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from assaymark.documents.blocks import Example, ExampleChoice, Mark, Piece
from assaymark.errors import UsageError
from assaymark.records import (
    BOUND,
    IN_REASONING,
    JsonValue,
    LoglikelihoodQuery,
    Output,
    Query,
    QueryKind,
    RunPlan,
    Score,
    ScoreStatus,
)
from assaymark.records.json_values import json_of
from assaymark.results.evidence.from_store import (
    choice_queries,
    deciding_score,
    gold_indices,
    is_wrong,
    score_rows,
    verdict_of,
)
from assaymark.results.evidence.records import row_value
from assaymark.results.evidence.task_facts import tasks_from
from assaymark.scoring.choices import CIRCULAR
from assaymark.scoring.metrics import find_metric, is_auxiliary
from assaymark.store import RunRow, SampleRecord, Store

_ENDINGS = {"length": " (truncated)", IN_REASONING: " (ended while reasoning)"}
_MOST_WORDS = 4000  # longer texts are not compared: the time grows with the square of their length
_PIECE = re.compile(r"\s+|\w+|[^\w\s]")


def conversations(records: Sequence[SampleRecord]) -> list[list[SampleRecord]]:
    """Return the records grouped by sample, each group in the order of its turns."""
    by_sample: dict[tuple[str, int], list[SampleRecord]] = {}
    for record in records:
        by_sample.setdefault((record.request.task, record.request.sample_index), []).append(record)
    return [sorted(each, key=lambda record: record.request.turn) for each in by_sample.values()]


def sample_example(turns: Sequence[SampleRecord], original: SampleRecord | None = None) -> Example:
    """Return a sample for display: a single turn by its prompt, a conversation by its messages.

    original: the unperturbed sample, of a perturbed copy.
    """
    if len(turns) == 1:
        return _single_turn(turns[0], original)
    first, last = turns[0].request, turns[-1]
    is_whole = is_scored_as_a_whole(turns)
    lines: list[tuple[str, str]] = []
    n_shown = 0
    for record in turns:
        new = record.request.messages[n_shown:]  # answers are shown from the outputs, with their finish reason
        lines += [(message.role, message.shown) for message in new if message.role != "assistant"]
        n_shown = len(record.request.messages)
        for output in record.outputs:
            if output.error is not None:
                lines.append(("failed", output.error))
            else:
                ending = _ENDINGS.get(output.finish_reason or "", "")
                lines.append((f"model{ending}", answer_text(output) or "(empty)"))
        if record.request.target:
            lines.append(("reference", record.request.target))
    if not is_whole:
        return Example(f"{first.task} {first.sample_index}", lines=tuple(lines), note=f"{len(turns)} turns")
    note, mark = _outcome(last)
    title = f"{last.request.task} {last.request.sample_index}"
    return Example(title, lines=(*lines, *_reasons(last)), note=f"{note}  {len(turns)} answers", mark=mark)


def is_scored_as_a_whole(turns: Sequence[SampleRecord]) -> bool:
    """Return whether of several answers only the last one has scores, which are those of the conversation."""
    return len(turns) > 1 and bool(turns[-1].scores) and not any(record.scores for record in turns[:-1])


PROMPT_END = 600  # characters of the prompt that are shown
ANSWER_END = 2000
CONTEXT_BEFORE = 60  # characters shown before the position where the choices' contexts begin to differ
CONTEXT_SHOWN = 120  # characters shown from there


def _single_turn(record: SampleRecord, original: SampleRecord | None) -> Example:
    """Return the prompt's end, choices with log-likelihoods, picked and right, scores.

    Of a perturbed copy the words that differ from the original are marked.
    """
    request = record.request
    lines: list[tuple[str, str]] = []
    choices: tuple[ExampleChoice, ...] = ()
    if original is not None:
        lines.append(("unperturbed", verdict_of(original)))
    if request.images and str(request.images[0]) not in request.prompt:  # under a model's own mark for images
        lines.append(("images", ", ".join(map(str, request.images))))
    if any(output.error for output in record.outputs):
        lines += [("failed", output.error) for output in record.outputs if output.error]
    elif any(isinstance(query, LoglikelihoodQuery) for query in request.queries):
        choices = example_choices(record)
        lines += [("log-likelihoods", _legend(record)), *_rotations(record)]
    else:
        lines += [("answer", answer) for answer in _answers(record)]
        if request.target and request.queries and request.queries[0].kind is QueryKind.GENERATE:
            lines.append(("reference", shortened(request.target)))
        lines += [*_reasons(record), *_comments(record)]
        lines += [("flagged", flags)] if (flags := flags_of_programs(record)) else []
    note, mark = _outcome(record)
    title = f"{request.task} {request.sample_index}"
    return Example(title, _prompt(record, original), choices, tuple(lines), note, mark)


def _prompt(record: SampleRecord, original: SampleRecord | None) -> tuple[Piece, ...]:
    """Return the prompt's end; of a copy in pieces, with the changed words marked."""
    ending = prompt_end(record.request.prompt)
    if original is None:
        return (Piece(ending),)
    before = original.request.prompt
    before = before[-(len(ending) + len(before) // 10) :] if len(ending) < len(before) else before
    return tuple(Piece(part.text, "changed" if part.is_changed else "") for part in marked_texts(before, ending))


def sample_to_json(record: SampleRecord, original: SampleRecord | None = None) -> dict[str, JsonValue]:
    """Return a sample with stable keys; of a perturbed copy with the original's prompt and verdict."""
    request = record.request
    return {
        "task": request.task,
        "sample_index": request.sample_index,
        "turn": request.turn,
        "sample_sha256": request.sample_sha256,
        "row": dict(record.sample.row) if record.sample is not None else None,
        "prompt": request.prompt,
        "target": request.target,
        **({"tools": request.tools} if request.tools is not None else {}),
        **({"images": json_of(request.images)} if request.images else {}),
        **(
            {
                "original": {
                    "task": original.request.task,
                    "prompt": original.request.prompt,
                    "wrong": is_wrong(original),
                }
            }
            if original is not None
            else {}
        ),
        "n_shots": request.n_shots,
        "n_leaked_shots": request.n_leaked_shots,
        "wrong": is_wrong(record),
        "gold": sorted(gold_indices(record)),
        "asks": [_query_json(query) for query in request.queries],
        "outputs": json_of(record.outputs),
        "scores": json_of(record.scores),
    }


def _query_json(query: Query) -> dict[str, JsonValue]:
    own = {"continuation": query.continuation, "role": query.role} if isinstance(query, LoglikelihoodQuery) else {}
    return {"index": query.index, "kind": str(query.kind), **own}


def _score_text(score: Score) -> str:
    """Return a metric's value and the label that an application's scorer gave; empty without either."""
    label = score.detail.get("label") if isinstance(score.detail, dict) else None
    words = [f"{score.value:g}"] if score.value is not None else []
    words += [f"{label:.60}"] if isinstance(label, str) else []
    if not words:
        return ""
    return " ".join([score.metric, *words, *([f"({score.filter})"] if score.filter != "none" else [])])


def _outcome(record: SampleRecord) -> tuple[str, Mark]:
    """Describe the outcome of a sample: right or wrong, its scores, its shots, what was truncated."""
    request = record.request
    score = deciding_score(record)
    if score is None or score.status is not ScoreStatus.SCORED:
        return "not scored" if score is None else str(score.status), "worse"
    wrong = is_wrong(record)
    words = ["wrong" if wrong else "right"] if wrong or score.value == 1.0 else []
    scores = [shown for each in record.scores if not is_auxiliary(each.metric) and (shown := _score_text(each))]
    notes = [f"{request.n_shots} shots"] if request.n_shots else []
    truncated = max((output.n_cut_tokens for output in record.outputs), default=0)
    notes += [f"{truncated:,} tokens truncated from the left"] if truncated else []
    notes += ["the sample or a near-duplicate is among its shots"] if request.n_leaked_shots else []
    mark: Mark = "worse" if wrong else "better" if words else ""
    return "  ".join(filter(None, [*words, ", ".join(scores), ", ".join(notes)])), mark


def example_choices(record: SampleRecord, longest: int | None = None) -> tuple[ExampleChoice, ...]:
    """Return the choices with their log-likelihoods, which are picked and right; `longest`: of their texts."""
    queries = choice_queries(record)
    by_query = {output.ask_index: output for output in record.outputs}
    picked = _deciding_detail(record).get("picked")
    gold = gold_indices(record) if len(queries) > 1 else frozenset()
    texts = [choice.strip() or "␣" for choice in shown_choices(record)]
    return tuple(
        ExampleChoice(
            text if longest is None else shortened(text, longest),
            _nats_shown(by_query.get(query.index)),
            position == picked,
            position in gold,
        )
        for position, (query, text) in enumerate(zip(queries, texts, strict=True))
    )


def _deciding_detail(record: SampleRecord) -> Mapping[str, JsonValue]:
    score = deciding_score(record)
    return score.detail if score is not None and isinstance(score.detail, dict) else {}


def _legend(record: SampleRecord) -> str:
    score = deciding_score(record)
    if score is None or not isinstance(_deciding_detail(record).get("picked"), int):
        return "in nats"
    row = find_metric(score.metric)
    divided = f", after division by the choice's length in {row.length}" if row is not None and row.length else ""
    return f"in nats; picked: according to {score.metric}{divided}"


def _nats_shown(output: Output | None) -> str:
    """Return a choice's log-likelihood; an upper bound is marked as one."""
    if output is None or output.total_nats is None:
        return "–"
    return ("≤ " if output.finish_reason == BOUND else "") + f"{output.total_nats:.2f}"


def _rotations(record: SampleRecord) -> list[tuple[str, str]]:
    """Return a line with the choice picked in each rotation of the options; none without rotations."""
    score = next((score for score in record.scores if score.metric == CIRCULAR), None)
    detail = score.detail if score is not None and isinstance(score.detail, dict) else {}
    if "picked_by_rotation" not in detail:
        return []
    choices = [choice.strip() for choice in shown_choices(record)]
    picked = ", ".join(choices[position] for position in detail["picked_by_rotation"])
    n_right, n_all = detail["n_right"], len(detail["picked_by_rotation"])
    shown = f"right in {n_right} of {n_all}; picked in each, by its letter in the file's order: {picked}"
    return [("rotations", shown)]


def shown_choices(record: SampleRecord) -> list[str]:
    """Return the text shown for each choice: its continuation, or the part in which its own context differs.

    WinoGrande's two choices share their continuation and differ in a name before it. For them the line with the
    difference is shown, from at most `CONTEXT_BEFORE` characters before it, and the continuation after a bar.
    """
    queries = choice_queries(record)
    contexts = ["".join(query.segments or ()) for query in queries]
    if len(set(contexts)) < 2:
        return [query.continuation for query in queries]
    shared = next(i for i, signs in enumerate(zip_longest(*contexts)) if len(set(signs)) > 1)
    line = contexts[0].rfind("\n", 0, shared) + 1
    start = max(line, contexts[0].rfind(" ", 0, max(shared - CONTEXT_BEFORE, 0)) + 1)
    before = "" if start == line else "… "
    return [
        f"{before}{shortened(context[start:], CONTEXT_SHOWN)} |{query.continuation}"
        for context, query in zip(contexts, queries, strict=True)
    ]


def _comments(record: SampleRecord) -> list[tuple[str, str]]:
    """Return the scorers' comments."""
    return [
        (score.metric, shortened(comment))
        for score in record.scores
        if isinstance(score.detail, dict) and isinstance(comment := score.detail.get("comment"), str)
    ]


def _reasons(record: SampleRecord) -> list[tuple[str, str]]:
    return [("wrong", reason) for reason in reasons_of(record)]


def reasons_of(record: SampleRecord) -> list[str]:
    """Return why a wrong answer is wrong, where its scoring says so: `reason: message`, each once."""
    details = [score.detail for score in record.scores if isinstance(score.detail, dict)]
    reasons = [
        f"{detail['reason']}: {detail['message']}" for detail in details if "reason" in detail and "message" in detail
    ]
    return list(dict.fromkeys(reasons))


def logs_of(record: SampleRecord) -> list[str]:
    """Return the logs that the scoring kept, such as that of tests, each once."""
    details = [score.detail for score in record.scores if isinstance(score.detail, dict)]
    return list(dict.fromkeys(str(detail["log"]) for detail in details if detail.get("log")))


def flags_of_programs(record: SampleRecord) -> str:
    """List what an answer's programs mention that could pass tests by a trick, and what else to look at."""
    details = [score.detail for score in record.scores if isinstance(score.detail, dict)]
    flags = [flag for detail in details for program in detail.get("programs", ()) for flag in program.get("flags", ())]
    remarks = [remark for detail in details for remark in detail.get("look_at", ())]
    if flags:
        remarks.append(f"the program mentions {', '.join(dict.fromkeys(flags))}")
    return "; ".join(dict.fromkeys(map(str, remarks)))


def _answers(record: SampleRecord) -> Sequence[str]:
    return [
        f"log-likelihood {output.total_nats:,.2f} nats over {output.n_tokens:,} tokens"
        if output.text is None and output.total_nats is not None
        else shortened(answer_text(output))
        for output in record.outputs
    ]


def answer_text(output: Output) -> str:
    """Return a generated answer as it is shown: its text, and a server's function calls."""
    calls = "" if output.tool_calls is None else f"tool_calls: {output.tool_calls}"
    return "\n".join(part for part in (output.text, calls) if part)


def prompt_end(prompt: str) -> str:
    """Return the end of a prompt, marked where it is not the whole."""
    return prompt if len(prompt) <= PROMPT_END else "… " + prompt[-PROMPT_END:]


def shortened(text: str, longest: int = ANSWER_END) -> str:
    """Return the beginning of a text, marked where it is not the whole."""
    return text if len(text) <= longest else text[:longest] + " …"


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A part of a perturbed text."""

    text: str
    is_changed: bool


def marked_texts(original: str, perturbed: str) -> list[MarkedText]:
    """Return the perturbed text in parts; parts that the original does not have are marked."""
    before, after = _PIECE.findall(original), _PIECE.findall(perturbed)
    if original == perturbed or max(len(before), len(after)) > _MOST_WORDS:
        return [MarkedText(perturbed, is_changed=False)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    parts = (("".join(after[start:end]), tag != "equal") for tag, _, _, start, end in matcher.get_opcodes())
    return [MarkedText(text, is_changed=changed) for text, changed in parts if text]


def original_of(store: Store, run_id: str, plan: RunPlan, record: SampleRecord) -> SampleRecord | None:
    """Return the original of a perturbed sample; None if the sample is not perturbed, or its original is not stored."""
    of = next(
        (each.perturbed["of"] for each in plan.tasks if each.name == record.request.task and each.perturbed), None
    )
    if of is None:
        return None
    return next(store.samples(run_id, of, indices=[record.request.sample_index]), None)


def broken_samples(store: Store, row: RunRow, task: str) -> Iterator[SampleRecord]:
    """Yield the perturbed copies of a task's samples that score lower than their originals.

    task: a task of the run: either of copies, or of their originals, which selects the copies by all perturbations.

    Raises: UsageError if the task has no copies, or the run has no results yet.
    """
    copies = {each.name: each.perturbed["of"] for each in row.plan.tasks if each.perturbed is not None}
    wanted = {name: of for name, of in copies.items() if task in {name, of}}
    if not wanted:
        raise UsageError(
            f"run {row.short_id} has no perturbed copies of {task}; evaluate some: assaymark run --perturb robustness"
        )
    primary = {each.name: each.primary for each in tasks_from(row.extra)}
    for copy, of in wanted.items():
        by = primary.get(of)
        if by is None:
            raise UsageError(f"run {row.short_id} has no results yet; finish it by running it again")
        before, after = (_values(store, row.run_id, name, by) for name in (of, copy))
        broken = [index for index in after if index in before and after[index] < before[index]]
        if broken:
            yield from store.samples(row.run_id, copy, indices=broken)


def _values(store: Store, run_id: str, task: str, by: tuple[str, str]) -> dict[int, float]:
    rows = score_rows(store, run_id, task)
    return {row.sample_index: row_value(row) for row in rows if (row.metric, row.filter) == by}
