"""One stored sample for display: the end of its prompt, the model's answer and the correct answer.

It uses a `SampleRecord` alone, so it shows what was stored, whatever the task file contains now.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding

from evalstone.records import JsonValue, LoglikelihoodQuery, Output, Query, QueryKind, Score, ScoreStatus
from evalstone.report.console import Text
from evalstone.report.views.cells import plain_table
from evalstone.scoring.metrics import find_metric, is_auxiliary, preferred_names
from evalstone.store import Store
from evalstone.store.rows import SampleRecord

PROMPT_END = 600  # characters of the prompt that are shown
ANSWER_END = 2000
CONTEXT_BEFORE = 60  # characters shown before the position where the choices' contexts begin to differ
CONTEXT_SHOWN = 120  # characters shown from there


def deciding_score(record: SampleRecord) -> Score | None:
    """Return the score that decides whether a sample's answer is correct: that of the preferred metric."""
    index = _deciding([score.metric for score in record.scores])
    return record.scores[index] if index is not None else None


def _deciding(metrics: Sequence[str]) -> int | None:
    own = [metric for metric in metrics if not is_auxiliary(metric)]
    preferred = next((metric for metric in preferred_names() if metric in own), own[0] if own else None)
    return metrics.index(preferred) if preferred is not None else None


def wrong_samples(store: Store, run_id: str, task: str) -> Iterator[SampleRecord]:
    """Yield a task's samples that were not answered correctly, without reading all samples of the task."""
    names = store.score_names(run_id, task)
    index = _deciding([metric for _, metric in names])
    some = store.samples(run_id, task) if index is None else store.samples_not_right(run_id, task, names[index])
    return (record for record in some if is_wrong(record))


def is_wrong(record: SampleRecord) -> bool:
    """Return whether a sample was not answered correctly: wrong, unparsed, or without an answer.

    With a metric that is not a proportion (a perplexity) no sample is wrong; an answer without a score is not wrong
    yet.
    """
    score = deciding_score(record)
    if score is None:
        return not record.outputs or any(output.error is not None for output in record.outputs)
    if score.status is not ScoreStatus.SCORED:
        return True
    row = find_metric(score.metric)
    graded = (row is not None and row.is_share) or score.value in {0.0, 1.0}
    return graded and score.value is not None and score.value < 0.5


def sample_view(record: SampleRecord) -> RenderableType:
    """Return the sample for display: the prompt's end, choices with log-likelihoods, picked and gold, scores."""
    request = record.request
    parts: list[RenderableType] = [_title(record), _indented(_prompt_end(request.prompt), "dim")]
    if any(output.error for output in record.outputs):
        parts += [_indented(f"failed: {output.error}", "red") for output in record.outputs if output.error]
    elif any(isinstance(query, LoglikelihoodQuery) for query in request.queries):
        parts.append(_choices(record))
    else:
        parts += [_indented(answer, "") for answer in _answers(record)]
        if request.target and request.queries and request.queries[0].kind is QueryKind.GENERATE:
            parts.append(_indented(f"reference: {_shortened(request.target)}", "green"))
    return Padding(Group(*parts), (0, 0, 1, 0))


def sample_to_json(record: SampleRecord) -> dict[str, JsonValue]:
    """Return a sample with stable keys."""
    request = record.request
    return {
        "task": request.task,
        "sample_index": request.sample_index,
        "turn": request.turn,
        "sample_sha256": request.sample_sha256,
        "row": dict(record.sample.row) if record.sample is not None else None,
        "prompt": request.prompt,
        "target": request.target,
        "n_shots": request.n_shots,
        "n_leaked_shots": request.n_leaked_shots,
        "wrong": is_wrong(record),
        "gold": sorted(gold_indices(record)),
        "asks": [_query_json(query) for query in request.queries],
        "outputs": [_output_json(output) for output in record.outputs],
        "scores": [
            {
                "metric": score.metric,
                "filter": score.filter,
                "value": score.value,
                "status": str(score.status),
                "detail": score.detail,
            }
            for score in record.scores
        ],
    }


def _query_json(query: Query) -> dict[str, JsonValue]:
    own = {"continuation": query.continuation, "role": query.role} if isinstance(query, LoglikelihoodQuery) else {}
    return {"index": query.index, "kind": str(query.kind), **own}


def _output_json(output: Output) -> dict[str, JsonValue]:
    return {
        "ask_index": output.ask_index,
        "repeat": output.repeat,
        "total_nats": output.total_nats,
        "is_greedy": output.is_greedy,
        "text": output.text,
        "finish_reason": output.finish_reason,
        "n_tokens": output.n_tokens,
        "n_cut_tokens": output.n_cut_tokens,
        "error": output.error,
    }


def gold_indices(record: SampleRecord) -> frozenset[int]:
    """Return the indices of the correct choices: from the score's details, else from the logged target.

    The target is an index, a list of indices, or a choice's text. If choices share one continuation (WinoGrande), the
    text does not identify a choice, and the pick and its credit are used.
    """
    choices = choice_queries(record)
    score = deciding_score(record)
    if score is not None and isinstance(score.detail, dict) and "gold" in score.detail:
        return frozenset(score.detail["gold"])
    if len({query.continuation for query in choices}) < len(choices):
        return _gold_from_score(score, len(choices))
    target = request_target(record)
    if isinstance(target, int):
        return frozenset({target}) if 0 <= target < len(choices) else frozenset()
    if isinstance(target, list):
        return frozenset(index for index in target if isinstance(index, int) and 0 <= index < len(choices))
    return frozenset(query.index for query in choices if query.continuation.strip() == str(target).strip())


def _gold_from_score(score: Score | None, n_choices: int) -> frozenset[int]:
    """Return the correct choice if an untied pick determines it: the pick itself, or the other one of two."""
    detail = score.detail if score is not None and isinstance(score.detail, dict) else {}
    picked, credit = detail.get("picked"), detail.get("credit")
    if not isinstance(picked, int) or detail.get("n_tied") != 1:
        return frozenset()
    if credit == 1.0:
        return frozenset({picked})
    return frozenset({1 - picked}) if n_choices == 2 else frozenset()


def request_target(record: SampleRecord) -> Any:
    """Return the logged target with its type: `2` is an index, `[0, 3]` a list of indices, anything else a text."""
    text = record.request.target.strip()
    if text.lstrip("-").isdigit():
        return int(text)
    if text.startswith("[") and text.endswith("]"):
        parts = [part.strip() for part in text[1:-1].split(",")]
        if all(part.lstrip("-").isdigit() for part in parts):
            return [int(part) for part in parts]
    return text


def choice_queries(record: SampleRecord) -> list[LoglikelihoodQuery]:
    """Return the queries of the choices, in their order."""
    return [
        query for query in record.request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"
    ]


def _title(record: SampleRecord) -> Text:
    request = record.request
    score = deciding_score(record)
    text = Text(f"{request.task} {request.sample_index}", style="bold")
    if score is None:
        return text.append("  not scored", style="yellow")
    if score.status is not ScoreStatus.SCORED:
        return text.append(f"  {score.status}", style="yellow")
    wrong = is_wrong(record)
    text.append("  wrong" if wrong else "  right" if score.value == 1.0 else "", style="red" if wrong else "green")
    shown = [s for s in record.scores if not is_auxiliary(s.metric) and s.value is not None]
    scores = ", ".join(f"{s.metric} {s.value:g}" + (f" ({s.filter})" if s.filter != "none" else "") for s in shown)
    text.append(f"  {scores}", style="dim")
    notes = [f"{request.n_shots} shots"] if request.n_shots else []
    truncated = max((output.n_cut_tokens for output in record.outputs), default=0)
    notes += [f"{truncated:,} tokens truncated from the left"] if truncated else []
    notes += ["the sample or a near-duplicate is among its shots"] if request.n_leaked_shots else []
    return text.append(f"  {', '.join(notes)}", style="yellow dim") if notes else text


def _choices(record: SampleRecord) -> RenderableType:
    """Return the choices, one line each: gold, picked, log-likelihood, text."""
    queries = choice_queries(record)
    by_query = {output.ask_index: output for output in record.outputs}
    nats = [output.total_nats if (output := by_query.get(query.index)) else None for query in queries]
    score = deciding_score(record)
    detail = score.detail if score is not None and isinstance(score.detail, dict) else {}
    picked = detail.get("picked")
    gold = gold_indices(record) if len(queries) > 1 else frozenset()
    table = plain_table()
    table.show_header = False
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for position, (shown, value) in enumerate(zip(shown_choices(record), nats, strict=True)):
        mark = ("picked " if position == picked else "") + ("gold" if position in gold else "")
        style = "green" if position in gold else "red" if position == picked else ""
        number = "–" if value is None else f"{value:.2f}"
        table.add_row(
            Text(mark.strip(), style=style), Text(number, style="dim"), Text(shown.strip() or "␣", style=style)
        )
    legend = "log-likelihood of each choice in nats"
    if score is not None and isinstance(picked, int):
        legend += f"; picked: according to {score.metric}"
        row = find_metric(score.metric)
        legend += f", after division by the choice's length in {row.length}" if row is not None and row.length else ""
    return Padding(Group(Text(legend, style="dim"), table), (0, 1, 0, 2))


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
        f"{before}{_shortened(context[start:], CONTEXT_SHOWN)} |{query.continuation}"
        for context, query in zip(contexts, queries, strict=True)
    ]


def _answers(record: SampleRecord) -> Sequence[str]:
    return [
        f"log-likelihood {output.total_nats:,.2f} nats over {output.n_tokens:,} tokens"
        if output.text is None and output.total_nats is not None
        else _shortened(output.text or "")
        for output in record.outputs
    ]


def _prompt_end(prompt: str) -> str:
    return prompt if len(prompt) <= PROMPT_END else "… " + prompt[-PROMPT_END:]


def _shortened(text: str, longest: int = ANSWER_END) -> str:
    return text if len(text) <= longest else text[:longest] + " …"


def _indented(text: str, style: str) -> Padding:
    return Padding(Text(text, style=style), (0, 1, 0, 2))
