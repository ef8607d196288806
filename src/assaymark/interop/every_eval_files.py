"""Writing of a stored run as files of Every Eval Ever, in the folders of its data store.

A record is `data/BENCHMARK/DEVELOPER/MODEL/UUID.json`, its samples are `UUID_samples.jsonl` beside it,
one row for each sample and result. A sample without a score has no row, since the format demands a number and a
verdict: failed requests (they are counted in the result's details, and are no wrong answers), and metrics that only a
whole corpus has. Of a withheld sample nothing is written.

Source: the schema of every-eval-ever 0.3.0, instance_level_eval.schema.json; the hash of a sample is the one that its
converter of lm-eval computes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from pathlib import Path

from assaymark.drafts import whole_file
from assaymark.errors import UnknownName, UsageError, write_errors
from assaymark.interop.every_eval_results import (
    SCHEMA,
    Benchmark,
    Publisher,
    aggregate_record,
    benchmarks_of,
    bounds_of,
    evaluated_model,
    evaluation_name,
    folder_name,
    record_id,
    result_id,
    texts,
)
from assaymark.limits.nesting import parse_json
from assaymark.records import (
    Estimate,
    GenerateQuery,
    JsonValue,
    LoglikelihoodQuery,
    Message,
    Output,
    Request,
    ResultPart,
    Score,
    ScoreStatus,
)
from assaymark.results.evidence.from_store import verdict_of
from assaymark.results.views.samples import answer_text, shown_choices
from assaymark.scoring.tool_calls import text_of_tool_calls
from assaymark.store import Store
from assaymark.store.rows import RunRow, SampleRecord

_SPLITS_LINES = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}  # for readers that split a file there


@dataclass(frozen=True, slots=True)
class Joined:
    """What joins the rows of one record with it."""

    evaluation_id: str
    model_id: str
    results: Mapping[tuple[str, str, str], Estimate]  # by task, metric and filter


@dataclass(frozen=True, slots=True)
class WrittenRecords:
    """The files, and a line for each thing that the format has no place for or that the data store asks for."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...]


def write_records(store: Store, run_id: str, folder: Path, publisher: Publisher | None = None) -> WrittenRecords:
    """Write a run's records and samples under `folder`; files of the same run are replaced.

    Args:
        store: the store that holds the run, as others may read it.
        folder: gets `data` with the records.
        publisher: who publishes them.

    Raises: UsageError for a run without results, or none that can be written; StoreError if files cannot be written.
    """
    publisher = publisher or Publisher()
    run = store.run(run_id)
    attempts, estimates = store.attempts(run.run_id), store.estimates(run.run_id)
    benchmarks = benchmarks_of(run, estimates)
    if not any(benchmark.estimates for benchmark in benchmarks):
        raise UsageError(
            f"run {run.short_id} has no value that a record could hold (it is {run.status}); finish it, or let its "
            "answers be judged and export the judging"
        )
    model = evaluated_model(run, publisher)
    notes: list[str] = []
    if "/" not in model.id:
        notes.append(
            f"the developer of {model.id} is not known, so its records are under 'unknown'; name the model as the data "
            "store has it with --model_id DEVELOPER/MODEL"
        )
    paths: list[Path] = []
    for benchmark in benchmarks:
        notes += [
            f"{result_id(each.task, each.metric, each.filter)} is undefined and was left out"
            for each in benchmark.undefined
        ]
        if not benchmark.estimates:
            continue
        record = aggregate_record(run, benchmark, attempts, publisher)
        place = Path("data", folder_name(benchmark.name), *model.place)
        name = str(record_id(run, benchmark))
        samples = place / f"{name}_samples.jsonl"
        with write_errors("records", "name another folder with -o", to=folder):
            (folder / place).mkdir(parents=True, exist_ok=True)
            n_rows, digest = _write_samples(store, run, benchmark, Joined(
                str(record["evaluation_id"]), model.id,
                {(each.task, each.metric, each.filter): each for each in benchmark.estimates},
            ), folder / samples)  # fmt: skip
            if n_rows:
                record["detailed_evaluation_results"] = {
                    "format": "jsonl", "file_path": samples.as_posix(), "hash_algorithm": "sha256",
                    "checksum": digest, "total_rows": n_rows,
                }  # fmt: skip
            text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False, default=str) + "\n"
            with whole_file(folder / place / f"{name}.json") as draft:
                draft.write_bytes(text.encode("utf-8", "replace"))
        paths += [folder / place / f"{name}.json", *([folder / samples] if n_rows else [])]
    return WrittenRecords(tuple(paths), tuple(notes))


def _write_samples(store: Store, run: RunRow, benchmark: Benchmark, joined: Joined, path: Path) -> tuple[int, str]:
    """Write the rows of a record; without any there is no file. Returns their number and the file's hash."""
    n_rows, digest = 0, sha256()
    tasks = [task for task in run.tasks if any(task == each.task for each in benchmark.estimates)]
    with whole_file(path) as draft, draft.open("wb") as file:
        for task in tasks:
            for row in sample_rows(_records(store, run, task), joined):
                line = row_line(row)
                digest.update(line)
                file.write(line)
                n_rows += 1
    if not n_rows:
        path.unlink()
    return n_rows, digest.hexdigest()


def _records(store: Store, run: RunRow, task: str) -> Iterator[SampleRecord]:
    """Yield a task's stored requests; of a judging the judged answers, with the judge's scores and text."""
    settings = run.plan.audit_settings
    judged = None if settings is None else settings.settings.get("runs")
    if not isinstance(judged, list | tuple) or not judged:
        yield from store.samples(run.run_id, task)
        return
    judgements = {(each.request.sample_index, each.request.turn): each for each in store.samples(run.run_id, task)}
    for record in store.samples(_stored_run(store, str(judged[0])), task):
        judgement = judgements.get((record.request.sample_index, record.request.turn))
        if judgement is not None:
            yield replace(record, scores=_with_judge(judgement))


def _stored_run(store: Store, run_id: str) -> str:
    """Return the id of a run that was judged. Raises: UsageError where the store does not have it."""
    try:
        return store.run(run_id).run_id
    except UnknownName as error:
        raise UsageError(
            f"the judged run {run_id} is not in this store, and a judging's samples are its answers; export from the "
            "store that has both"
        ) from error


def _with_judge(judgement: SampleRecord) -> tuple[Score, ...]:
    said = next((output.text for output in judgement.outputs if output.text is not None), None)
    return tuple(
        replace(score, detail={**(score.detail if isinstance(score.detail, Mapping) else {}), "judge": said})
        for score in judgement.scores
    )


def row_line(row: Mapping[str, JsonValue]) -> bytes:
    """Return a row as one line of UTF-8; half a surrogate pair, which no UTF-8 has, becomes a question mark."""
    text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=str).translate(_SPLITS_LINES)
    return text.encode("utf-8", "replace") + b"\n"


def sample_rows(records: Iterable[SampleRecord], joined: Joined) -> Iterator[dict[str, JsonValue]]:
    """Yield the rows of a task's stored samples, in their order."""
    for _, same in groupby(records, key=lambda record: record.request.sample_index):
        turns = list(same)
        for record in turns:
            if not record.is_withheld:
                yield from _rows_of(record, joined, n_turns=len(turns))


def _rows_of(record: SampleRecord, joined: Joined, *, n_turns: int) -> Iterator[dict[str, JsonValue]]:
    request = record.request
    scored = [
        (score, joined.results[request.task, score.metric, score.filter])
        for score in record.scores
        if score.value is not None and (request.task, score.metric, score.filter) in joined.results
    ]
    if not scored:
        return
    asked = _input(record)
    interaction = _interaction(record, n_turns)
    answers = _answers(record)
    shared: dict[str, JsonValue] = {
        "schema_version": SCHEMA,
        "evaluation_id": joined.evaluation_id,
        "model_id": joined.model_id,
        "sample_id": f"{request.sample_index}/{request.turn}" if request.turn else str(request.sample_index),
        "sample_hash": _sample_hash(str(asked["raw"]), request.target),
        "interaction_type": interaction,
        "input": asked,
    }
    if interaction == "single_turn":
        reasoning = [output.reasoning for output in record.outputs if output.reasoning is not None]
        shared["output"] = {"raw": answers, **({"reasoning_trace": reasoning} if reasoning else {})}
        place, turn = "output.raw", 0
    else:
        messages = _messages(request, record.outputs)
        shared["messages"] = messages
        turn = len(messages) - 1
        place = f"messages[{turn}].content"
    usage, performance = _usage(record), _performance(record.outputs)
    if usage is not None:
        shared["token_usage"] = usage
    if performance is not None:
        shared["performance"] = performance
    for score, estimate in scored:
        yield {
            **shared,
            "evaluation_name": evaluation_name(request.task, score.filter),
            "evaluation_result_id": result_id(request.task, score.metric, score.filter),
            "answer_attribution": _attribution(score, answers, place, turn),
            "evaluation": {
                "score": score.value,
                "is_correct": _is_best(score, estimate),
                **({} if interaction == "single_turn" else _counts(shared["messages"])),
            },
            "metadata": _metadata(record, score),
        }


def _sample_hash(raw: str, reference: str) -> str:
    text = json.dumps({"raw": raw, "reference": reference}, sort_keys=True)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _input(record: SampleRecord) -> dict[str, JsonValue]:
    """Return the question: of messages the last one of the user, with the whole prompt beside it."""
    request = record.request
    asked = next((message for message in reversed(request.messages) if message.role == "user"), None)
    raw = request.prompt if asked is None else asked.shown
    known: dict[str, JsonValue] = {"raw": raw, "reference": [request.target] if request.target else []}
    if raw != request.prompt:
        known["formatted"] = request.prompt
    if choices := [text.strip() for text in shown_choices(record)]:
        known["choices"] = choices
    return known


def _interaction(record: SampleRecord, n_turns: int) -> str:
    """Return the kind of a request; shots as earlier messages of a chat make no conversation."""
    request = record.request
    calls = any(message.calls or message.role == "tool" for message in request.messages)
    if request.tools is not None or calls or any(output.tool_calls is not None for output in record.outputs):
        return "agentic"
    return "multi_turn" if n_turns > 1 or request.turn else "single_turn"


def _answers(record: SampleRecord) -> list[str]:
    """Return what the model answered: generated texts, else the choice that it picked."""
    if any(isinstance(query, GenerateQuery) for query in record.request.queries):
        return [answer_text(output) for output in record.outputs if output.error is None]
    choices = shown_choices(record)
    picked = next(
        (score.detail["picked"] for score in record.scores
         if isinstance(score.detail, Mapping) and isinstance(score.detail.get("picked"), int)),
        None,
    )  # fmt: skip
    if picked is None and len(choices) > 1:
        nats = {
            query.index: output.total_nats
            for query in record.request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"
            for output in record.outputs if output.ask_index == query.index and output.total_nats is not None
        }  # fmt: skip
        picked = max(nats, key=lambda index: nats[index]) if len(nats) == len(choices) else None
    return [choices[picked].strip()] if picked is not None and picked < len(choices) else []


def _messages(request: Request, outputs: Sequence[Output]) -> list[JsonValue]:
    """Return a conversation up to its answer; of several answers to it the first, the others are in the metadata."""
    given = request.messages or (Message.of_text("user", request.prompt),)
    written = [_message(turn, message) for turn, message in enumerate(given)]
    answer = next((output for output in outputs if output.error is None), None)
    if answer is not None:
        own: dict[str, JsonValue] = {"turn_idx": len(written), "role": "assistant", "content": answer.text}
        if answer.reasoning is not None:
            own["reasoning_trace"] = answer.reasoning
        if answer.tool_calls is not None:
            own["tool_calls"] = _calls_of(answer.tool_calls)
        written.append(own)
    return list(written)


def _message(turn: int, message: Message) -> dict[str, JsonValue]:
    own: dict[str, JsonValue] = {"turn_idx": turn, "role": message.role, "content": message.text or None}
    if message.images:
        own["content"] = message.shown
    if message.calls:
        own["tool_calls"] = [_call(call.id, call.name, call.arguments) for call in message.calls]
    if results := [part.call_id for part in message.parts if isinstance(part, ResultPart)]:
        own["tool_call_id"] = results
    return own


def _calls_of(stored: str) -> list[JsonValue]:
    """Return a server's calls; those that cannot be read are in the answer's text only."""
    try:
        listed = parse_json(text_of_tool_calls(stored))
    except ValueError:
        return []
    calls = listed if isinstance(listed, list) else []
    return [
        _call(str(position), str(call.get("name")), json.dumps(call.get("arguments")))
        for position, call in enumerate(calls)
        if isinstance(call, Mapping)
    ]


def _call(identifier: str, name: str, arguments: str) -> dict[str, JsonValue]:
    try:
        parsed = parse_json(arguments)
    except ValueError:
        parsed = {"arguments": arguments}
    given = texts(parsed) if isinstance(parsed, Mapping) else texts({"arguments": parsed})
    return {"id": identifier, "name": name, "arguments": given}


def _counts(messages: JsonValue) -> dict[str, JsonValue]:
    listed = [each for each in messages if isinstance(each, Mapping)] if isinstance(messages, list) else []
    n_turns = sum(each["role"] == "assistant" for each in listed)
    n_calls = sum(len(calls) for each in listed if isinstance(calls := each.get("tool_calls"), list))
    return {"num_turns": max(n_turns, 1), "tool_calls_count": n_calls}


def _attribution(score: Score, answers: Sequence[str], place: str, turn: int) -> list[JsonValue]:
    """Return what was taken for the answer: what a filter extracted, else the first answer; nothing if unparsed."""
    if score.status is ScoreStatus.UNPARSED:
        return []
    detail = score.detail if isinstance(score.detail, Mapping) else {}
    extracted = detail["extracted"] if "extracted" in detail else answers[0] if answers else None
    if extracted is None:
        return []
    return [
        {
            "turn_idx": turn,
            "source": place,
            "extracted_value": extracted if isinstance(extracted, str) else json.dumps(extracted, default=str),
            "extraction_method": score.filter or "none",
            "is_terminal": True,
        }
    ]


def _is_best(score: Score, estimate: Estimate) -> bool:
    """Return whether a score is the best that its metric has; of a metric without a best one, never."""
    bounds = bounds_of(estimate)
    return bounds is not None and score.value == bounds[1 if estimate.higher_is_better else 0]


def _usage(record: SampleRecord) -> dict[str, JsonValue] | None:
    """Return the tokens of all queries; None where the model's are not known, as of many servers."""
    known = [output for output in record.outputs if output.error is None]
    if not known or not all(output.n_context_tokens for output in known):
        return None
    generated = {query.index for query in record.request.queries if isinstance(query, GenerateQuery)}
    written = sum(output.n_tokens for output in known if output.ask_index in generated)
    read = sum(output.n_context_tokens + (0 if output.ask_index in generated else output.n_tokens) for output in known)
    return {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}


def _performance(outputs: Sequence[Output]) -> dict[str, JsonValue] | None:
    """Return how long an application's calls took; those of a model are answered many at once."""
    seconds: list[float] = []
    for output in outputs:
        try:
            facts = parse_json(output.call) if output.call else None
        except ValueError:
            facts = None
        latency = facts.get("latency_s") if isinstance(facts, Mapping) else None
        if isinstance(latency, int | float) and latency >= 0:
            seconds.append(float(latency))
    return {"latency_ms": 1000.0 * sum(seconds)} if seconds else None


def _metadata(record: SampleRecord, score: Score) -> dict[str, str]:
    request = record.request
    reasons = [output.finish_reason for output in record.outputs if output.finish_reason is not None]
    more = [answer_text(output) for output in record.outputs if output.error is None][1:]
    return texts(
        {
            "verdict": verdict_of(record),
            "status": str(score.status),
            "num_fewshot": request.n_shots,
            "row_sha256": request.sample_sha256,
            "finish_reasons": reasons or None,
            "further_answers": more if request.turn and more else None,
            "judge": score.detail.get("judge") if isinstance(score.detail, Mapping) else None,
            "n_cut_tokens": sum(output.n_cut_tokens for output in record.outputs) or None,
        }
    )
