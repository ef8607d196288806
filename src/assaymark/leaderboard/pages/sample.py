"""One sample: its prompt, choices with log-likelihoods, answer, extraction and target; the same in other models."""

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from assaymark.errors import clipped_line
from assaymark.leaderboard.pages.run import LONGEST_SEARCH, SamplesPage, filter_of, runs_of
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun, StoredRuns, model_label
from assaymark.records import BOUND, ImagePart, JsonValue, Output, Score
from assaymark.results.evidence.from_store import choice_queries, deciding_score, gold_indices, is_wrong, verdict_of
from assaymark.results.views.samples import (
    MarkedText,
    answer_text,
    flags_of_programs,
    is_scored_as_a_whole,
    logs_of,
    marked_texts,
    reasons_of,
    sample_to_json,
    shown_choices,
)
from assaymark.scoring.metrics import find_metric, is_auxiliary
from assaymark.store import RunRow, SampleRecord

LONGEST_LINE = 120  # characters of an answer or a target in a list
AT_ONCE = 1000  # samples read while looking for a sample's neighbours
LONGEST_SHOWN = 200_000  # characters of one text; the rest is in the JSON twin
_TRACE_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class ChoiceView:
    """One choice."""

    text: str
    nats: float | None
    picked: bool  # by the metric that decides
    gold: bool
    is_bound: bool = False  # nats is an upper bound
    per_length: float | None = None  # the values that the deciding metric compares, if it divides by the length
    picked_by: tuple[str, ...] = ()  # the metrics that picked it, where they differ


@dataclass(frozen=True)
class AnswerView:
    """One generated answer."""

    text: str
    reasoning: str
    finish: str
    error: str
    n_tokens: int
    repeat: int
    trace_id: str = ""  # of the call, where the run is of an application


@dataclass(frozen=True)
class TurnView:
    """One turn of a sample."""

    turn: int
    shots: str  # the prompt before the sample's own part
    prompt: str
    images: tuple[str, ...]  # their hashes, in the order in which the prompt shows them
    choices: tuple[ChoiceView, ...]
    answers: tuple[AnswerView, ...]
    extracted: tuple[tuple[str, str], ...]  # by filter
    target: str
    scores: tuple[Score, ...]
    wrong: bool
    verdict: str  # right, wrong, unparsed, failed, scored or not scored
    n_shots: int
    n_leaked_shots: int
    n_context_tokens: int
    n_cut_tokens: int
    logs: tuple[str, ...] = ()  # of the scorer, such as tests
    length: str = ""  # unit by which the deciding metric divides log-likelihoods; "" if it does not
    marked: tuple[MarkedText, ...] = ()  # the prompt of a perturbed copy, with the words that differ from the original


@dataclass(frozen=True)
class OtherView:
    """The same sample in another run."""

    run: RunRow
    wrong: bool
    verdict: str  # as of a turn
    answer: str
    score: float | None


@dataclass(frozen=True)
class SampleView:
    """One sample in one run."""

    run: StoredRun
    task: str
    index: int
    previous: int | None  # positions of the samples beside it
    following: int | None
    row: tuple[tuple[str, str], ...]
    turns: tuple[TurnView, ...]
    others: tuple[OtherView, ...]
    records: tuple[SampleRecord, ...]
    query: str = ""  # of the list's filter, by which the neighbours were chosen
    original: SampleRecord | None = None  # the unperturbed sample, of a perturbed copy

    @property
    def is_whole(self) -> bool:
        """Whether the last turn's verdict is that of the whole conversation, and the others have none."""
        return is_scored_as_a_whole(self.records)

    @property
    def original_verdict(self) -> str:
        """The verdict on the unperturbed sample: right, wrong and so on."""
        return "" if self.original is None else verdict_of(self.original)

    def to_json(self) -> JsonValue:
        """Return the JSON twin."""
        return {
            "run": self.run.run_id,
            "model": self.run.model,
            "turns": [sample_to_json(record, self.original) for record in self.records],
            "others": [{"run": other.run.run_id, "model": model_label(other.run.model), "wrong": other.wrong,
                        "verdict": other.verdict, "answer": other.answer,
                        "score": other.score} for other in self.others],
        }  # fmt: skip


def with_replies(site: Site, page: SamplesPage) -> SamplesPage:
    """Return a list of samples with the answer and the target of each shown one."""
    indices = [line.index for line in page.samples.lines]
    records = runs_of(site).samples(page.run.run_id, page.task, indices)
    replies = {(record.request.sample_index, record.request.turn): _reply(record) for record in records}
    return replace(page, replies=replies)


def _reply(record: SampleRecord) -> tuple[str, str]:
    """Return the beginnings of the answer and the target as they were compared, extracted if the score notes it."""
    detail = _detail(deciding_score(record))
    extracted = detail.get("extracted") if verdict_of(record) != "unparsed" else None
    reference = detail.get("reference")
    answer = _answer(record) if extracted is None else str(extracted)
    target = _target(record) if reference is None else str(reference)
    return clipped_line(answer, LONGEST_LINE), clipped_line(target, LONGEST_LINE)


def question_line(record: SampleRecord) -> str:
    """Return the beginning of a sample's question in one line."""
    return clipped_line(_own_prompt(record), LONGEST_LINE)


def _own_prompt(record: SampleRecord) -> str:
    """Return the prompt without the shots before it."""
    request = record.request
    is_last = len(request.segments) > 1 and request.prompt.endswith(request.segments[-1])
    return request.segments[-1] if is_last else request.prompt


def sample_page(site: Site, name: str, task: str, index: int, parameters: Sequence[tuple[str, str]] = ()) -> SampleView:
    """Return one sample's page. parameters: the filter of the list that it was chosen from. Raises: UnknownName."""
    runs = runs_of(site)
    run = runs.run(name)
    records = runs.sample(run.run_id, task, index)
    others = [_other(row, record) for row, record in runs.same_sample(records[-1], run.run_id)]
    q, wrong, category = filter_of(parameters)
    chosen = {"q": q[:LONGEST_SEARCH], "wrong": "1" if wrong else "", "category": category}
    query = urlencode({key: value for key, value in chosen.items() if value})
    plan = next((each for each in run.plan.tasks if each.name == task), None)
    copy_of = None if plan is None or plan.perturbed is None else str(plan.perturbed["of"])
    is_listed = bool(query) or copy_of is not None  # not every sample has a copy
    beside = _beside_in(runs, run, task, index, chosen) if is_listed else _neighbours(run, task, index)
    originals = [] if copy_of is None else runs.samples(run.run_id, copy_of, [index])
    original = originals[0] if originals else None
    row = records[0].sample.row if records[0].sample is not None else {}
    return SampleView(
        run,
        task,
        index,
        *beside,
        tuple((str(key), _cut(value if isinstance(value, str) else repr(value))) for key, value in row.items()),
        tuple(
            _turn(record, original, earlier if is_scored_as_a_whole(records) else None)
            for earlier, record in zip([None, *records], records, strict=False)
        ),
        tuple(others),
        tuple(records),
        f"?{query}" if query else "",
        original,
    )


def sample_image(site: Site, name: str, task: str, index: int, sha256: str) -> ImagePart | None:
    """Return an image of a sample by its hash, from a run that may be shown; None where it has no such image.

    Raises: UnknownName.
    """
    runs = runs_of(site)
    records = runs.sample(runs.run(name).run_id, task, index)
    images = (image for record in records for image in record.request.images if image.data)
    return next((image for image in images if image.sha256 == f"sha256:{sha256}"), None)


def _neighbours(run: StoredRun, task: str, index: int) -> tuple[int | None, int | None]:
    """Return the positions of the samples before and after one in a run."""
    plan = next((task_plan for task_plan in run.plan.tasks if task_plan.name == task), None)
    if plan is None:
        return None, None
    listed = sorted(plan.sample_indices) if plan.sample_indices is not None else range(plan.n_samples)
    first, end = bisect_left(listed, index), bisect_right(listed, index)
    return (listed[first - 1] if first else None), (listed[end] if end < len(listed) else None)


def _beside_in(
    runs: StoredRuns, run: StoredRun, task: str, index: int, chosen: Mapping[str, str]
) -> tuple[int | None, int | None]:
    """Return the positions of a sample's neighbours among those that a filter leaves."""
    before: int | None = None
    offset = 0
    while True:
        lines = runs.sample_page(run.row, task, text=chosen["q"], wrong_only=bool(chosen["wrong"]),
                                 category=chosen["category"], offset=offset, limit=AT_ONCE).lines  # fmt: skip
        for line in lines:
            if line.index > index:
                return before, line.index
            before = line.index if line.index < index else before
        if len(lines) < AT_ONCE:
            return before, None
        offset += AT_ONCE


def _turn(record: SampleRecord, original: SampleRecord | None, earlier: SampleRecord | None) -> TurnView:
    """Return a turn; after another turn, its prompt is the part after that turn's answer."""
    request = record.request
    if earlier is None:
        prompt, own = request.prompt, _own_prompt(record)
    else:
        new = request.messages[len(earlier.request.messages) + 1 :]
        prompt = own = "\n".join(f"{message.role}: {message.shown}" for message in new)
    outputs = record.outputs
    return TurnView(
        turn=request.turn,
        shots=_cut(prompt[: len(prompt) - len(own)]),
        prompt=_cut(own),
        images=tuple(dict.fromkeys(image.sha256.removeprefix("sha256:") for image in request.images if image.data)),
        choices=(choices := tuple(_choices(record))),
        length=_length_unit(record) if any(choice.per_length is not None for choice in choices) else "",
        answers=tuple(
            AnswerView(_cut(answer_text(output)), _cut(output.reasoning or ""), output.finish_reason or "",
                       output.error or "", output.n_tokens, output.repeat, _trace_id(output))
            for output in outputs if output.text is not None or output.error is not None
        ),
        extracted=(
            *_extracted(record.scores),
            *(("wrong", _cut(reason)) for reason in reasons_of(record)),
            *([("flagged", flags)] if (flags := flags_of_programs(record)) else ()),
        ),
        logs=tuple(_cut(log) for log in logs_of(record)),
        target=_cut(_target(record)),
        scores=record.scores,
        wrong=is_wrong(record),
        verdict=verdict_of(record),
        n_shots=request.n_shots,
        n_leaked_shots=request.n_leaked_shots,
        n_context_tokens=max((output.n_context_tokens for output in outputs), default=0),
        n_cut_tokens=max((output.n_cut_tokens for output in outputs), default=0),
        marked=() if original is None else tuple(marked_texts(_own_prompt(original), _cut(own))),
    )  # fmt: skip


def _choices(record: SampleRecord) -> list[ChoiceView]:
    by_query = {output.ask_index: output for output in record.outputs}
    queries = choice_queries(record)
    detail = _detail(deciding_score(record))
    gold = gold_indices(record) if len(queries) > 1 else frozenset()
    picks = {score.metric: _detail(score).get("picked") for score in record.scores if not is_auxiliary(score.metric)}
    picks = {metric: picked for metric, picked in picks.items() if picked is not None}
    divided = _per_length(record) or [None] * len(queries)
    choices = []
    for place, (query, text) in enumerate(zip(queries, shown_choices(record), strict=True)):
        output = by_query.get(query.index)
        nats = None if output is None else output.total_nats
        is_bound = output is not None and output.finish_reason == BOUND
        by = (
            tuple(metric for metric, picked in picks.items() if picked == place) if len(set(picks.values())) > 1 else ()
        )
        is_picked = detail.get("picked") == place
        choices.append(
            ChoiceView(_cut(text.strip() or "␣"), nats, is_picked, place in gold, is_bound, divided[place], by)
        )
    return choices


def _length_unit(record: SampleRecord) -> str:
    """Return the unit of length by which the deciding metric divides log-likelihoods, e.g. characters; "" for none."""
    score = deciding_score(record)
    metric = None if score is None else find_metric(score.metric)
    return "" if metric is None or metric.length is None else metric.length


def _per_length(record: SampleRecord) -> list[float | None] | None:
    """Return each choice's log-likelihood divided by its length; None if that would not give the stored pick.

    A stored continuation begins with the task's delimiter, which does not count; it is blank in nearly every task.
    """
    by_query = {output.ask_index: output for output in record.outputs}
    divided: list[float] = []
    for query in choice_queries(record):
        output, text = by_query.get(query.index), query.continuation.lstrip()
        lengths = {"characters": len(text), "bytes": len(text.encode("utf-8", "surrogatepass")),
                   "tokens": 0 if output is None else output.n_tokens}  # fmt: skip
        length = lengths.get(_length_unit(record), 0)
        if not length or output is None or output.total_nats is None:
            return None
        divided.append(output.total_nats / length)
    if not divided or _detail(deciding_score(record)).get("picked") != divided.index(max(divided)):
        return None
    return [*divided]


def _target(record: SampleRecord) -> str:
    """Return the target in readable form: the text of the right choice if the data have its number."""
    gold, choices = gold_indices(record), shown_choices(record)
    if len(choices) < 2 or not gold or max(gold) >= len(choices):
        return record.request.target
    return "\n".join(choices[at].strip() for at in sorted(gold))


def _detail(score: Score | None) -> dict[str, object]:
    return score.detail if score is not None and isinstance(score.detail, dict) else {}


def _extracted(scores: Sequence[Score]) -> list[tuple[str, str]]:
    """Return each filter's extract from the answer, where the score noted it."""
    by_filter: dict[str, str] = {}
    for score in scores:
        detail = _detail(score)
        for key in ("extracted", "answer", "prediction"):
            if detail.get(key) is not None:
                by_filter.setdefault(score.filter, _cut(str(detail[key])))
    return list(by_filter.items())


def _other(row: RunRow, record: SampleRecord) -> OtherView:
    score = deciding_score(record)
    return OtherView(
        row, is_wrong(record), verdict_of(record), _answer(record)[:300], None if score is None else score.value
    )


def _answer(record: SampleRecord) -> str:
    """Return the answer: the picked choice, or the first generated text."""
    choices = shown_choices(record)
    picked = _detail(deciding_score(record)).get("picked")
    if isinstance(picked, int) and 0 <= picked < len(choices):
        return choices[picked].strip()
    return next((answer_text(output) for output in record.outputs if output.text is not None), "")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} … ({len(text):,} characters in all)"


def _trace_id(output: Output) -> str:
    """Return the id of the trace of an application's call; "" where there is none."""
    if output.call is None:
        return ""
    try:
        facts = json.loads(output.call)
    except (ValueError, RecursionError):
        return ""
    trace_id = facts.get("trace_id") if isinstance(facts, dict) else None
    return trace_id if isinstance(trace_id, str) and _TRACE_ID.fullmatch(trace_id) else ""
