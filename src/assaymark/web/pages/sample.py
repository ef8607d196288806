"""One sample: its prompt, choices with log-likelihoods, answer, extraction and target; the same in other models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun, model_label
from assaymark.records import BOUND, ImagePart, JsonValue, Score
from assaymark.report.evidence.stored_samples import choice_queries, deciding_score, gold_indices, is_wrong, verdict_of
from assaymark.report.views.samples import answer_text, flags_of_programs, reasons_of, sample_to_json, shown_choices
from assaymark.store import RunRow, SampleRecord
from assaymark.web.pages.run import runs_of

__all__ = ["SampleView", "TurnView", "sample_image", "sample_page"]

LONGEST_SHOWN = 200_000  # characters of one text; the rest is in the JSON twin


@dataclass(frozen=True)
class ChoiceView:
    """One choice."""

    text: str
    nats: float | None
    picked: bool
    gold: bool
    is_bound: bool = False  # nats is an upper bound


@dataclass(frozen=True)
class AnswerView:
    """One generated answer."""

    text: str
    reasoning: str
    finish: str
    error: str
    n_tokens: int
    repeat: int


@dataclass(frozen=True)
class TurnView:
    """One turn of a sample."""

    turn: int
    shots: str  # what stands before the sample's own part of the prompt
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

    def to_json(self) -> JsonValue:
        """Return what the page shows."""
        return {
            "run": self.run.run_id,
            "model": self.run.model,
            "turns": [sample_to_json(record) for record in self.records],
            "others": [{"run": one.run.run_id, "model": model_label(one.run.model), "wrong": one.wrong,
                        "verdict": one.verdict,
                        "answer": one.answer, "score": one.score} for one in self.others],
        }  # fmt: skip


def sample_page(site: Site, name: str, task: str, index: int) -> SampleView:
    """Return one sample's page. Raises: UnknownName."""
    runs = runs_of(site)
    run = runs.run(name)
    records = runs.sample(run.run_id, task, index)
    others = [_other(row, record) for row, record in runs.same_sample(records[-1], run.run_id)]
    row = records[0].sample.row if records[0].sample is not None else {}
    return SampleView(
        run,
        task,
        index,
        *_neighbours(run, task, index),
        tuple((str(key), _cut(value if isinstance(value, str) else repr(value))) for key, value in row.items()),
        tuple(_turn(record) for record in records),
        tuple(others),
        tuple(records),
    )


def sample_image(site: Site, name: str, task: str, index: int, sha256: str) -> ImagePart | None:
    """Return an image of a sample by its hash, from a run that may be shown; None where it has no such image.

    Raises: UnknownName.
    """
    runs = runs_of(site)
    records = runs.sample(runs.run(name).run_id, task, index)
    found = (image for record in records for image in record.request.images if image.data)
    return next((image for image in found if image.sha256 == f"sha256:{sha256}"), None)


def _neighbours(run: StoredRun, task: str, index: int) -> tuple[int | None, int | None]:
    """Return the positions of the samples before and after one in a run."""
    plan = next((one for one in run.plan.tasks if one.name == task), None)
    if plan is None:
        return None, None
    listed = sorted(plan.sample_indices) if plan.sample_indices is not None else range(plan.n_samples)
    before = [at for at in listed if at < index]
    after = [at for at in listed if at > index]
    return (before[-1] if before else None), (after[0] if after else None)


def _turn(record: SampleRecord) -> TurnView:
    request = record.request
    prompt = request.prompt
    own = request.segments[-1] if len(request.segments) > 1 and prompt.endswith(request.segments[-1]) else prompt
    outputs = record.outputs
    return TurnView(
        turn=request.turn,
        shots=_cut(prompt[: len(prompt) - len(own)]),
        prompt=_cut(own),
        images=tuple(dict.fromkeys(image.sha256.removeprefix("sha256:") for image in request.images if image.data)),
        choices=tuple(_choices(record)),
        answers=tuple(
            AnswerView(_cut(answer_text(one)), _cut(one.reasoning or ""), one.finish_reason or "", one.error or "",
                       one.n_tokens, one.repeat)
            for one in outputs if one.text is not None or one.error is not None
        ),
        extracted=(
            *_extracted(record.scores),
            *(("wrong", _cut(reason)) for reason in reasons_of(record)),
            *([("flagged", flags)] if (flags := flags_of_programs(record)) else ()),
        ),
        target=_cut(_target(record)),
        scores=record.scores,
        wrong=is_wrong(record),
        verdict=verdict_of(record),
        n_shots=request.n_shots,
        n_leaked_shots=request.n_leaked_shots,
        n_context_tokens=max((one.n_context_tokens for one in outputs), default=0),
        n_cut_tokens=max((one.n_cut_tokens for one in outputs), default=0),
    )  # fmt: skip


def _choices(record: SampleRecord) -> list[ChoiceView]:
    by_query = {output.ask_index: output for output in record.outputs}
    queries = choice_queries(record)
    detail = _detail(deciding_score(record))
    gold = gold_indices(record) if len(queries) > 1 else frozenset()
    found = []
    for place, (query, text) in enumerate(zip(queries, shown_choices(record), strict=True)):
        output = by_query.get(query.index)
        nats = None if output is None else output.total_nats
        is_bound = output is not None and output.finish_reason == BOUND
        found.append(
            ChoiceView(_cut(text.strip() or "␣"), nats, detail.get("picked") == place, place in gold, is_bound)
        )
    return found


def _target(record: SampleRecord) -> str:
    """Return the target as a reader understands it: the text of the right choice, where the data have its number."""
    gold, choices = gold_indices(record), shown_choices(record)
    if len(choices) < 2 or not gold or max(gold) >= len(choices):
        return record.request.target
    return "\n".join(choices[at].strip() for at in sorted(gold))


def _detail(score: Score | None) -> dict[str, Any]:
    return score.detail if score is not None and isinstance(score.detail, dict) else {}


def _extracted(scores: Sequence[Score]) -> list[tuple[str, str]]:
    """Return what each filter took from the answer, where the score noted it."""
    found: dict[str, str] = {}
    for score in scores:
        detail = _detail(score)
        for key in ("extracted", "answer", "prediction"):
            if detail.get(key) is not None:
                found.setdefault(score.filter, _cut(str(detail[key])))
    return list(found.items())


def _other(row: RunRow, record: SampleRecord) -> OtherView:
    score = deciding_score(record)
    choices = shown_choices(record)
    picked = _detail(score).get("picked")
    if isinstance(picked, int) and 0 <= picked < len(choices):
        answer = choices[picked].strip()
    else:
        answer = next((answer_text(output) for output in record.outputs if output.text is not None), "")
    return OtherView(row, is_wrong(record), verdict_of(record), answer[:300], None if score is None else score.value)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} … ({len(text):,} characters in all)"
