"""Diagnosis of wrong answers: each is assigned to one cause, by asking its question in other ways.

A multiple-choice question is asked again with its options in every rotation, in other wordings, with more shots and
without the question itself. For a generated answer, the text and its end are examined, and the question is asked with
more shots. An answer has the first of CAUSES whose condition holds; `missing knowledge` is the rest. A condition can
hold by chance: `chance` states how often at most for a model that guesses among k options, so a share no larger than
that is not a finding.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from assaymark.audit.items import AuditItem, items_of, with_shots, without_question
from assaymark.audit.likelihoods import Answer, Likelihoods
from assaymark.audit.prompts import VARIANTS, worded
from assaymark.errors import clipped
from assaymark.records import IN_REASONING, LoglikelihoodQuery, Output, Render, Request, Sample, Score, rotations_of
from assaymark.results.evidence.from_store import deciding_score
from assaymark.scoring.choices import score_choices
from assaymark.statistics.intervals import wilson
from assaymark.store import SampleRecord
from assaymark.tasks.bound import BoundTask

LITTLE: Final = 0.05  # total variation between the choices' probabilities with and without the question
FEWEST_MODELS: Final = 3  # better models of the store, without which nothing is called ambiguous
MOST_WRONG: Final = 0.8  # share of them that miss a question that is called ambiguous
CLOZE: Final = ("cloze: Question, Answer", "cloze: the answer is")
MARKED: Final = ("letters: (A)", "numbers: 1.")
MORE_SHOTS: Final = "more shots"
REASONING: Final = "chain of thought"


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause of wrong answers."""

    name: str
    condition: str  # as it is tested
    remedy: str  # the next experiment
    chance: Callable[[int], float]  # largest share of a guessing model's wrong answers that meet it, for k options


def _never(_n_options: int) -> float:
    return 0.0


def _one_option(n_options: int) -> float:
    """Return 1/k, the chance that a guess is right that is the same in all wordings of a kind; others are less often.

    It also bounds the chance that a confident guess is the same with and without the question.
    """
    return 1.0 / n_options


CAUSES: Final[tuple[Cause, ...]] = (
    Cause(
        "truncated",
        "the prompt lost its beginning to the model's context, or the answer ended at the token limit",
        "fewer shots, or a larger limit: --num_fewshot, --gen_kwargs max_gen_toks=N",
        _never,
    ),
    Cause(
        "extraction failure",
        "right by another filter of the task, or the answer concludes with the reference, and was scored wrong",
        "read such answers: `assaymark show RUN --samples TASK --wrong`; mend the filter, or ask for a form of answer",
        _never,
    ),
    Cause(
        "position bias",
        "the same position is picked in every rotation of the options",
        "--circular for a score without it; --prompt_style text, where options have no positions",
        lambda n_options: float(n_options) ** (1 - n_options),
    ),
    Cause(
        "reads only the choices",
        "without the question the choices have almost the same probabilities",
        "how much of the score does not need the questions? `assaymark run ... --question_blind`",
        _one_option,
    ),
    Cause(
        "prompt sensitivity",
        "it is right in both wordings of the other kind (texts for letters, letters for texts), or in more than two "
        "thirds of all ways in which it was asked, more shots among them",
        "compare wordings before models (`assaymark audit prompts MODEL TASK`), and state the one that was used",
        _one_option,
    ),
    Cause(
        "ambiguous",
        "most of the better models of the store miss it too, and most of these pick the same other option",
        "read the question and its key: `assaymark task questions TASK`",
        _never,
    ),
    Cause(
        "missing knowledge",
        "none of the others",
        "more training data of this kind: `assaymark export RUN --wrong --by subject -o wrong.jsonl`; a larger model",
        _never,
    ),
)


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """One wrong answer and its cause. Field names are stored with the audit."""

    index: int
    cause: str  # the name of one of CAUSES
    picked: str  # text of the picked option, or the beginning of the generated answer
    reference: str
    n_options: int  # 0 for a generated answer
    why: str  # what was seen


@dataclass(frozen=True, slots=True)
class CauseCount:
    """The number of wrong answers with a cause."""

    cause: str
    n: int
    share: float  # of the diagnosed answers
    low: float  # Wilson's interval of the share
    high: float
    chance: float  # share that a guessing model would have, at most


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Causes of one task's wrong answers. Field names are stored with the audit."""

    model: str
    task: str
    n: int  # answered samples
    n_wrong: int
    n_failed: int  # without an answer, which is not wrong
    n_diagnosed: int  # at most `limit`
    n_better_models: int  # of the store, whose answers to the same questions are known
    tried: tuple[str, ...]  # ways in which the answers were asked again
    causes: tuple[CauseCount, ...]  # in the order of CAUSES
    answers: tuple[WrongAnswer, ...]


@dataclass(frozen=True, slots=True)
class OtherModel:
    """A better model of the store. Its wrong picks by the hash of the sample; None: not a choice."""

    name: str
    wrong: Mapping[str, str | None]
    known: frozenset[str]  # hashes of all samples that it answered


@dataclass(frozen=True, slots=True)
class Variants:
    """The task bound in other ways, by name (MORE_SHOTS, REASONING)."""

    bound: Mapping[str, BoundTask]
    circular: BoundTask | None = None  # with every rotation of the options; None: its prompt lists none
    render: Render | None = None


def diagnose_answers(
    bound: BoundTask,
    records: Sequence[SampleRecord],
    metric: tuple[str, str],
    answer: Answer,
    likelihoods: Likelihoods,
    variants: Variants,
    others: Sequence[OtherModel] = (),
    *,
    notify: Callable[[str], None] = lambda _: None,
) -> tuple[tuple[WrongAnswer, ...], tuple[str, ...]]:
    """Return the cause of each wrong answer, and the names of the ways in which it was asked again.

    Args:
        bound: the task as the run has it.
        records: wrong answers of the run, which were not failures.
        metric: metric and filter by which they are wrong: the task's primary ones.
        answer: answers requests; stored ones are not sent again.
        likelihoods: the same model, for choices.
        variants: the task with more shots, with a chain of thought.
        others: better models of the store on the same task.
        notify: called with a line before each way of asking.
    """
    asking = _Asking(bound, records, metric, answer, likelihoods, variants, notify)
    evidence = asking.evidence()
    answers = tuple(_diagnosed(record, evidence[record.request.sample_index], others, metric) for record in records)
    return answers, tuple(asking.tried)


def score_by(record: SampleRecord, metric: tuple[str, str]) -> Score | None:
    """Return a sample's score by a metric and filter; if it has none (another prompt style), the deciding score."""
    own = next((score for score in record.scores if (score.metric, score.filter) == metric), None)
    return deciding_score(record) if own is None else own


def counts_of(answers: Sequence[WrongAnswer]) -> tuple[CauseCount, ...]:
    """Return every cause with its count, its share with Wilson's interval, and the share expected by chance."""
    n = len(answers)
    counts = []
    for cause in CAUSES:
        own = sum(answer.cause == cause.name for answer in answers)
        interval = wilson(own, n) if n else None
        sizes = [answer.n_options for answer in answers if answer.n_options > 1]
        chance = sum(map(cause.chance, sizes)) / n if n else 0.0
        counts.append(
            CauseCount(
                cause.name, own, own / n if n else 0.0,
                interval.low if interval else 0.0, interval.high if interval else 1.0, chance,
            )
        )  # fmt: skip
    return tuple(counts)


@dataclass(slots=True)
class _Evidence:
    """The evidence about one wrong answer."""

    item: AuditItem
    positions: tuple[int, ...] | None = None  # picked in each rotation; None: the prompt lists no options
    moved: float | None = None  # total variation of the choices' probabilities when the question is removed
    rights: dict[str, bool] = field(default_factory=dict)  # whether it is right when it is asked in another way


class _Asking:
    """Asks wrong answers in other ways."""

    def __init__(
        self, bound: BoundTask, records: Sequence[SampleRecord], metric: tuple[str, str], answer: Answer,
        likelihoods: Likelihoods, variants: Variants, notify: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.bound, self.records, self.metric, self.answer = bound, records, metric, answer
        self.likelihoods, self.variants, self.notify = likelihoods, variants, notify
        wanted = {record.request.sample_index for record in records}
        items = [item for item in items_of(bound, variants.render) if item.index in wanted]
        self.items = {item.index: item for item in items}
        self.has_choices = any(item.options for item in items)
        if self.has_choices:
            self.items |= {item.index: item for item in with_shots(bound, items)}
        self.tried: list[str] = []

    def evidence(self) -> dict[int, _Evidence]:
        """Return the findings about each answer."""
        evidence = {index: _Evidence(item) for index, item in self.items.items()}
        if self.has_choices:
            self._rotations(evidence)
            self._without_question(evidence)
            self._wordings(evidence)
        for name, bound in self.variants.bound.items():
            self._begin(name)
            for request, sample, outputs in self._answers(name, bound):
                scores = tuple(bound.score(request, sample, outputs))
                score = score_by(SampleRecord(sample, request, tuple(outputs), scores), self.metric)
                if score is not None and score.value is not None:
                    evidence[request.sample_index].rights[name] = score.value > 0.5
        return evidence

    def _begin(self, name: str) -> None:
        self.notify(name)
        self.tried.append(name)

    def _rotations(self, evidence: dict[int, _Evidence]) -> None:
        if self.variants.circular is None:
            return
        self._begin("rotations of the options")
        for request, _, outputs in self._answers("rotations", self.variants.circular):
            rotations = rotations_of(request)
            nats = {output.ask_index: output.total_nats for output in outputs}
            own = [
                query for query in request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"
            ]
            rows = [[nats.get(query.index) for query in rotation] for rotation in (own, *rotations)]
            known = [[value for value in row if value is not None] for row in rows]
            if rotations and all(len(row) == len(own) for row in known):
                evidence[request.sample_index].positions = tuple(int(np.argmax(row)) for row in known)

    def _without_question(self, evidence: dict[int, _Evidence]) -> None:
        blind: dict[int, Request] = {}
        for item in self.items.values():
            request = without_question(self.bound, item, self.variants.render)
            if request is not None:
                blind[item.index] = replace(request, task=f"{request.task}: without the question")
        if not blind:
            return
        self._begin("without the question")
        nats = self.likelihoods.of_choices(list(blind.values()))
        for record in self.records:
            index = record.request.sample_index
            own, without = _choice_nats(record), nats.get(blind[index].id) if index in blind else None
            if without is not None and len(own) == len(without):
                evidence[index].moved = float(np.abs(_probabilities(own) - _probabilities(without)).sum() / 2)

    def _wordings(self, evidence: dict[int, _Evidence]) -> None:
        for variant in (each for each in VARIANTS if each.name in {*CLOZE, *MARKED}):
            made = {
                item.index: request
                for item in self.items.values()
                if item.has_options and (request := worded(variant, item, item.options)) is not None
            }
            if not made:
                continue
            self._begin(variant.name)
            nats = self.likelihoods.of_choices(list(made.values()))
            for index, request in made.items():
                if (known := nats.get(request.id)) is not None:
                    item = self.items[index]
                    metric = "acc" if variant.is_lettered else "acc_norm"
                    scores = score_choices(
                        known, [False] * len(known), None, item.options, sorted(item.gold), (metric,)
                    )
                    evidence[index].rights[variant.name] = float(scores[metric].detail["credit"]) > 0.5

    def _answers(self, name: str, bound: BoundTask) -> Iterator[tuple[Request, Sample, list[Output]]]:
        """Yield each request of the task bound in another way, with its sample and its answers, where none failed."""
        samples = {sample.index: sample for sample in bound.samples() if sample.index in self.items}
        requests = {index: bound.request(sample, self.variants.render) for index, sample in samples.items()}
        named = {index: replace(request, task=f"{request.task}: {name}") for index, request in requests.items()}
        outputs: dict[str, list[Output]] = {}
        for output in self.answer(list(named.values())):
            outputs.setdefault(output.request_id, []).append(output)
        for index, request in requests.items():
            own = sorted(outputs.get(named[index].id, ()), key=lambda each: (each.ask_index, each.repeat))
            if len(own) == request.n_outputs and not any(output.error for output in own):
                yield request, samples[index], [replace(output, request_id=request.id) for output in own]


def _choices(request: Request) -> list[LoglikelihoodQuery]:
    return [query for query in request.queries if isinstance(query, LoglikelihoodQuery) and query.role == "choice"]


def _lists_options(item: AuditItem) -> bool:
    """Return whether the model answers with a marker of an option that the prompt lists."""
    texts = [query.continuation.strip() for query in _choices(item.request)]
    return texts != [option.strip() for option in item.options]


def _choice_nats(record: SampleRecord) -> tuple[float, ...]:
    places = [query.index for query in _choices(record.request)]
    nats = {output.ask_index: output.total_nats for output in record.outputs}
    known = [nats.get(place) for place in places]
    return tuple(value for value in known if value is not None)


def _probabilities(nats: Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    values = np.exp(np.asarray(nats, dtype=np.float64) - max(nats))
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = values / values.sum()
    return shares


# ------------------------------------------------------------------------------------------------ which cause


def _diagnosed(
    record: SampleRecord, evidence: _Evidence, others: Sequence[OtherModel], metric: tuple[str, str]
) -> WrongAnswer:
    item = evidence.item
    nats = _choice_nats(record)
    picked = int(np.argmax(nats)) if nats else None
    options = item.options if nats and len(item.options) == len(nats) else ()
    if picked is None:
        text = record.outputs[0].text or ""
    else:
        text = options[picked] if options else _choices(record.request)[picked].continuation
    cause, why = _cause_of(record, evidence, text, others, metric)
    reference = options[min(item.gold)] if options and item.gold else record.request.target
    return WrongAnswer(
        record.request.sample_index, cause, _short(text), _short(reference), len(nats) if picked is not None else 0, why
    )


def _cause_of(
    record: SampleRecord, evidence: _Evidence, picked: str, others: Sequence[OtherModel], metric: tuple[str, str]
) -> tuple[str, str]:
    """Return the name of the first cause whose condition holds, and the evidence."""
    if n_cut := max(output.n_cut_tokens for output in record.outputs):
        return "truncated", f"{n_cut} tokens of the prompt did not fit the model's context"
    if any(output.finish_reason == "length" for output in record.outputs):
        return "truncated", "the answer ended at the token limit"
    if any(output.finish_reason == IN_REASONING for output in record.outputs):
        return "truncated", "the text ended while the model was reasoning"
    if not evidence.item.options and (why := _not_extracted(record, metric)) is not None:
        return "extraction failure", why
    positions = evidence.positions
    if positions is not None and len(set(positions)) == 1:
        return "position bias", f"option {positions[0] + 1} in all {len(positions)} rotations"
    if evidence.moved is not None and evidence.moved < LITTLE:
        return "reads only the choices", f"without the question the probabilities move by {evidence.moved:.3f}"
    rights = evidence.rights
    other_kind = MARKED if not _lists_options(evidence.item) else CLOZE
    if (rights and 3 * sum(rights.values()) > 2 * len(rights)) or all(rights.get(name) for name in other_kind):
        return "prompt sensitivity", f"right with {', '.join(name for name, is_right in rights.items() if is_right)}"
    if (missed := _missed_by_others(record.request.sample_sha256, others)) is not None:
        return "ambiguous", missed
    return "missing knowledge", f"picked {_short(picked)!r}" if picked else "no answer"


def _not_extracted(record: SampleRecord, metric: tuple[str, str]) -> str | None:
    """Return why a right generated answer was not extracted; None if the answer is wrong.

    It is right by another filter of the task, or it concludes with the reference.
    """
    other = [
        score.filter
        for score in record.scores
        if score.metric == metric[0] and score.filter != metric[1] and score.value is not None and score.value > 0.5
    ]
    if other:
        return f"right by the filter {other[0]}"
    reference = _bare(record.request.target.rpartition("####")[2])  # GSM8K's target is its solution, then the number
    for output in record.outputs:
        if reference and reference in _conclusions(output.text or ""):
            return f"it concludes with {reference!r}"
    return None


_CONCLUSION = re.compile(
    r"\b(?:answer|result|solution|it|total)\s*(?:is|was|:|=)+\s*(.+?)(?=[.!?;](?:\s|$)|\n|\(|$)", re.IGNORECASE
)
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_AROUND = " \t\n*_`'\"$#.,;:!?()[]"


def _conclusions(text: str) -> set[str]:
    """Return the candidates for a text's conclusion: after 'the answer is', a box, the last line, or all of it."""
    candidates = [text, text.strip().rpartition("\n")[2], text.rpartition("####")[2] if "####" in text else ""]
    candidates += [matches[-1] for matches in (_CONCLUSION.findall(text), _BOXED.findall(text)) if matches]
    return {_bare(each) for each in candidates}


def _bare(text: str) -> str:
    """Return a text in lower case without the signs around an answer, and without commas in numbers."""
    line = " ".join(text.split()).strip(_AROUND).casefold()
    return re.sub(r"(?<=\d),(?=\d{3})", "", line)


def _missed_by_others(sample: str, others: Sequence[OtherModel]) -> str | None:
    asked = [other for other in others if sample in other.known]
    missed = [other for other in asked if sample in other.wrong]
    if len(asked) < FEWEST_MODELS or len(missed) < MOST_WRONG * len(asked):
        return None
    picks = [pick for other in missed if (pick := other.wrong[sample]) is not None]
    most = max((picks.count(pick) for pick in set(picks)), default=0)
    if picks and 2 * most <= len(picks):
        return None
    agree = f", {most} of them with the same answer" if picks else ""
    return f"missed by {len(missed)} of {len(asked)} better models{agree}"


def _short(text: str) -> str:
    return clipped(" ".join(text.split()), 120)
