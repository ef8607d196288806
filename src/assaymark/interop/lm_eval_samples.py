"""Lines of lm-eval's samples files: one per sample and filter, with numbers inside answers as texts."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from assaymark.interop.lm_eval_results import NOT_AVAILABLE, text_hash
from assaymark.records import GenerateQuery, JsonValue, LoglikelihoodQuery, Output, Query, Request, RollingQuery, Score
from assaymark.report.views.samples import answer_text
from assaymark.scoring.metrics import MULTIPLE_CHOICE, is_auxiliary, names_for
from assaymark.store.rows import SampleRecord


def sample_lines(
    records: Iterable[SampleRecord], task: Mapping[str, Any], generation: Mapping[str, Any] | None = None
) -> Iterator[dict[str, JsonValue]]:
    """Yield the lines of one task's file: all samples of the first filter, then of the next.

    Args:
        records: the task's stored samples.
        task: the task's facts from `report.task_facts`.
        generation: the task's effective generation settings, for generation tasks.

    Source: lm-eval 0.4.13 `evaluate` and `EvaluationTracker.save_results_samples`, observed.
    """
    samples = list(records)
    for name_of_filter in task.get("filters", ["none"]):
        for record in samples:
            yield _line(record, name_of_filter, task, generation)


def task_hash(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the hash over all of a task's samples, prompts and targets."""
    return text_hash("".join(line["doc_hash"] + line["prompt_hash"] + line["target_hash"] for line in lines))


def _line(
    record: SampleRecord, name_of_filter: str, task: Mapping[str, Any], generation: Mapping[str, Any] | None
) -> dict[str, JsonValue]:
    request = record.request
    row = dict(record.sample.row) if record.sample is not None else {}
    scores = _own_scores(record.scores, name_of_filter, task)
    queries = [
        query for query in request.queries if not (isinstance(query, LoglikelihoodQuery) and query.role == "rotated")
    ]
    answers = [_answers(query, record.outputs) for query in queries]
    return {
        "doc_id": request.sample_index,
        **({"turn": request.turn} if request.turn else {}),
        "doc": row,
        "target": request.target,
        "arguments": {
            f"gen_args_{index}": {
                f"arg_{number}": part for number, part in enumerate(_arguments(query, request, generation))
            }
            for index, query in enumerate(queries)
        },
        "resps": answers,
        "filtered_resps": [_filtered(query, given, scores) for query, given in zip(queries, answers, strict=True)],
        "filter": name_of_filter,
        "metrics": [score.metric for score in scores],
        "doc_hash": text_hash(json.dumps(row, indent=2, default=str, ensure_ascii=False)),
        "prompt_hash": text_hash(request.prompt),
        "target_hash": text_hash(request.target),
        **{score.metric: _value(score, task) for score in scores},
    }


def _own_scores(scores: Sequence[Score], name_of_filter: str, task: Mapping[str, Any]) -> list[Score]:
    """Return the scores that lm-eval has too, in its order."""
    listed = [metric["name"] for metric in task.get("metrics", ())]
    order = names_for(MULTIPLE_CHOICE) if task.get("output_type") == MULTIPLE_CHOICE else listed
    own = [score for score in scores if score.filter == name_of_filter and not is_auxiliary(score.metric)]
    return sorted(own, key=lambda score: order.index(score.metric) if score.metric in order else len(order))


def _arguments(query: Query, request: Request, generation: Mapping[str, Any] | None) -> list[JsonValue]:
    match query:
        case RollingQuery():
            return [query.text]
        case LoglikelihoodQuery():
            return ["".join(request.segments if query.segments is None else query.segments), query.continuation]
        case GenerateQuery():
            return ["".join(request.segments), _generation(query, generation)]


def _generation(query: GenerateQuery, generation: Mapping[str, Any] | None) -> dict[str, JsonValue]:
    """Return generation settings under the names of lm-eval's task files."""
    settings = query.settings
    named: dict[str, JsonValue] = {
        "until": list(settings.stop),
        "do_sample": settings.do_sample,
        "temperature": settings.temperature,
        "max_gen_toks": settings.max_tokens,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "min_p": settings.min_p,
        **dict(settings.extra),
    }
    given = {key: value for key, value in named.items() if value is not None}
    return given if generation is None else {**dict(generation), **given}


def _answers(query: Query, outputs: Sequence[Output]) -> list[JsonValue]:
    """Return one query's answers, one per repeat, with numbers as texts."""
    own = sorted((output for output in outputs if output.ask_index == query.index), key=lambda output: output.repeat)
    return [_answer(query, output) for output in own]


def _answer(query: Query, output: Output) -> JsonValue:
    if output.error is not None:
        return [NOT_AVAILABLE, NOT_AVAILABLE] if isinstance(query, LoglikelihoodQuery) else NOT_AVAILABLE
    if isinstance(query, LoglikelihoodQuery):
        return [str(output.total_nats), str(bool(output.is_greedy))]
    if isinstance(query, RollingQuery):
        return str(output.total_nats)
    return output.text if output.tool_calls is None else answer_text(output)  # its format has no place for calls


def _filtered(query: Query, given: Sequence[JsonValue], scores: Sequence[Score]) -> JsonValue:
    """Return the filtered answer: for a generation the one stored with the score, else the first answer."""
    if isinstance(query, GenerateQuery):
        for score in scores:
            if isinstance(score.detail, Mapping) and "extracted" in score.detail:
                return score.detail["extracted"]
    return given[0] if given else NOT_AVAILABLE


def _value(score: Score, task: Mapping[str, Any]) -> JsonValue:
    """Return a score as lm-eval logs it: the item that it aggregates, even if that is more than a number."""
    if score.parts is not None:
        parts = list(score.parts)
        if score.metric == "brier_score" and len(parts) == 2:
            import numpy as np

            return [parts[0], str(np.asarray(parts[1], dtype=np.float64))]
        return parts
    is_count = task.get("output_type") == "loglikelihood" and score.metric == "acc"
    is_count = is_count or (task.get("output_type") == "multiple_choice" and score.metric == "exact_match")
    return int(score.value) if is_count and score.value is not None else score.value
