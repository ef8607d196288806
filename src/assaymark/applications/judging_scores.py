"""Scores of a judge, added to a stored run like those of a rescoring: answers stay, metrics are added.

The judge's replies are stored as an audit of their own (`audit.stored`), whose plan is the judge, the scorers' hashes
and a hash of the answers. So the same call after a kill requests only missing replies, and a complete one none. Judged
scorers take several steps; each round asks the next prompt of every row at once.
"""

import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assaymark.applications.human_labels import without_scorers
from assaymark.applications.returned import answered_of
from assaymark.applications.rows import Row
from assaymark.applications.scorer import LONGEST_DETAIL, Answered, JudgedScorer, PanelScorer, Result, score_detail
from assaymark.audit.stored import StoredAudit, audit_plan, stored_audit, stored_parts
from assaymark.errors import DataError, LeaseLost, RunBusy, UsageError
from assaymark.judges.judge import open_judge
from assaymark.judges.judged_answers import JudgePromptWriter, ask
from assaymark.limits.characters import exception_text
from assaymark.models.lending import lent
from assaymark.models.model import Model
from assaymark.records import (
    GenerationSettings,
    JsonValue,
    Message,
    ModelIdentity,
    Output,
    QueryKind,
    Request,
    RunPlan,
    Sample,
    Score,
    ScoreStatus,
    content_hash,
)
from assaymark.records.plans import plan_content
from assaymark.records.result_facts import RescoredEntry
from assaymark.results.evidence.from_store import SUMMARY_DUE, save_summary_of
from assaymark.results.evidence.rescoring import add_rescored
from assaymark.results.evidence.task_facts import lacking_aggregations
from assaymark.runs.attempt import SCORING_HASH
from assaymark.runs.opening import RunOpener, no_notice
from assaymark.runs.run import Run
from assaymark.runs.stored import AuditKind, stored_line
from assaymark.scoring.inspect_scorers import Graded, reduced
from assaymark.settings import environment
from assaymark.store import RunRow, Store

if TYPE_CHECKING:
    from assaymark.documents.document import Document

JUDGED_SCORES = "judged scores"  # the kind of audit that the plan has
VERSION = 1  # raise it when the same plan would send other requests
MOST_TOKENS = 2048  # of the judge's reply
MOST_STEPS = 50  # of one scorer with one answer


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """One stored answer to judge. request, sample: of the run; repeat: its position among the request's answers."""

    request: Request
    sample: Sample
    repeat: int
    answered: Answered


@dataclass(frozen=True, slots=True)
class JudgedCounts:
    """Counts of one scorer's scores, by outcome."""

    scorer: str
    content_hash: str
    n: int  # answered rows
    n_not_scored: int
    n_failed: int  # the judge's request failed, or the scorer raised


def add_judged_scores(
    run: Run,
    scorers: Sequence[JudgedScorer],
    judge_model: object,
    notify: Callable[[str], None] = no_notice,
    *,
    model_args: str | Mapping[str, object] | None = None,
    max_tokens: int = MOST_TOKENS,
    command: str | None = None,
    tasks: Sequence[str] | None = None,
    turn: int | None = None,
) -> Run:
    """Let a judge score a run's stored answers, add the scores to the run, and compute its estimates again.

    The same call continues one that was interrupted: no stored reply is asked for again.

    Args:
        run: with generated answers; rows whose call failed have failed scores.
        scorers: judged ones.
        judge_model: as a model for `evaluate`; a list of several for scorers of a panel, which combine their results.
        notify: called with lines about the progress and the stored results.
        model_args: of the judge, as for `evaluate`.
        max_tokens: of each reply of the judge.
        command: the command that was typed, stored with the attempt.
        tasks: of the run; None: all.
        turn: of conversations, the one whose answer is judged; None: each is.

    Raises: UsageError if a scorer needs a part that no row has, the run holds no texts, or several judges are given to
        a scorer that asks one; ModelUnavailable; RunBusy; StoreError.
    """
    if not scorers:
        return run
    judges = list(judge_model) if isinstance(judge_model, list | tuple) else [judge_model]
    if not judges:
        raise UsageError("no judge is named; expected a model, or several in a list")
    if len(judges) != 1 and (single := next((each for each in scorers if not isinstance(each, PanelScorer)), None)):
        raise UsageError(f"scorer '{single.facts.name}' asks one judge, and {len(judges)} are named")
    of_judges: list[Results] = []
    identities: list[ModelIdentity] = []
    is_complete = True
    for judge in judges:
        with lent(judge):
            model = open_judge(judge, model_args, 1)
            if QueryKind.GENERATE not in model.answers:
                raise UsageError(f"{model.identity.name} generates no text, so it cannot be a judge")
            work = _Work(run, list(scorers), model, max_tokens, tasks, turn)
            if (writer := run.store.writer(run.row.plan)) is not None:
                raise RunBusy(f"run {run.short_id} is being written by {writer}; wait until that has ended")
            opener = RunOpener(run.store, work.plan, notify=notify)
            opener.until_free()
            if not run.store.is_complete(work.plan):
                is_complete = False
                model.check()
            with stored_audit(opener, model, command) as audit:
                of_judges.append(work.results(audit))
            identities.append(model.identity)
        notify(stored_line(run.store, audit.run_id, JUDGED_SCORES))
    work.judges = identities
    if not (is_complete and work.is_added):
        work.add(work.scores(_combined(scorers, of_judges)), command)
    return run


def _combined(scorers: Sequence[JudgedScorer], of_judges: Sequence["Results"]) -> "Results":
    """Return the results of one judge, or those that each scorer makes of several judges' results."""
    if len(of_judges) == 1:
        return of_judges[0]
    combined: dict[tuple[int, str, int], Sequence[Result] | str] = {}
    for key in of_judges[0]:
        scorer, outcomes = scorers[key[0]], [results[key] for results in of_judges]
        failed = next((outcome for outcome in outcomes if isinstance(outcome, str)), None)
        if failed is not None or not isinstance(scorer, PanelScorer):
            combined[key] = failed or ""
        else:
            combined[key] = scorer.combined([each for each in outcomes if not isinstance(each, str)])
    return combined


class _Work:
    """The judging of one run, ready to be carried out."""

    def __init__(
        self, run: Run, scorers: Sequence[JudgedScorer], model: Model, max_tokens: int, tasks: Sequence[str] | None,
        turn: int | None,
    ) -> None:  # fmt: skip
        self.run, self.scorers, self.model = run, scorers, model
        self.judges = [model.identity]  # whose verdicts make the scores
        self.settings = GenerationSettings(max_tokens=max_tokens)
        self.row = run.row
        if lacking := lacking_aggregations(self.row.extra, {}):
            raise UsageError(
                f"task {lacking[0][0]} of run {self.row.short_id} aggregates {lacking[0][1]} by a function of its "
                "file, so scores cannot be added to it here"
            )
        self.by_task = {task: list(_requests_of(run.store, run.id, task, turn)) for task in tasks or self.row.tasks}
        self.answers = [each for requests in self.by_task.values() for request in requests for each in request.answers]
        if not self.answers:
            raise UsageError(f"run {self.row.short_id} has no generated answer that a judge could score")
        for scorer in scorers:
            self._refuse_lacking(scorer)
        facts: dict[str, JsonValue] = {
            "run": run.id,
            "scorers": [[each.facts.name, each.content_hash] for each in scorers],
            "answers": content_hash([_material(each) for each in self.answers]),
            "max_tokens": max_tokens,
        }
        planned = [each for each in self.row.plan.tasks if each.name in self.by_task]
        of_plan = tuple(replace(each, sample_indices=None) for each in planned)
        plan = RunPlan(model.identity, self.row.plan.profile, of_plan, too_long="error")
        self.plan = audit_plan(plan, JUDGED_SCORES, {**facts, "requests": VERSION})

    def _refuse_lacking(self, scorer: JudgedScorer) -> None:
        """Raise UsageError if no row has the parts that a scorer needs; single rows without them are not scored."""
        needs = scorer.facts.needs
        answered = [each.answered for each in self.answers]
        if "expected" in needs and all(each.row.expected is None for each in answered):
            raise UsageError(f"scorer '{scorer.facts.name}' needs an expected value, and no row has one")
        if "contexts" in needs and all(each.contexts is None and each.row.contexts is None for each in answered):
            raise UsageError(
                f"scorer '{scorer.facts.name}' needs contexts, and no row has any; give the rows a column contexts, or "
                "let the target return them"
            )

    def scoring_hash(self, scorer: JudgedScorer) -> str:
        """Return the hash of a scoring: the scorer's prompts and the judge that answers them."""
        judges: list[JsonValue] = [
            {name: value for name, value in plan_content(each).items() if name not in ("name", "n_parameters")}
            for each in self.judges
        ]
        judge = judges[0] if len(judges) == 1 else judges
        return content_hash({JUDGED_SCORES: VERSION, "scorer": scorer.content_hash, "judge": judge})

    @property
    def is_added(self) -> bool:
        """Whether the run has all of these scores already."""
        known = {(each["task"], each["scoring_hash"]) for each in self.row.extra.get("rescored", ())}
        wanted = {
            (task, self.scoring_hash(each)) for task in self.by_task if self.by_task[task] for each in self.scorers
        }
        return wanted <= known and not self.row.extra.get(SUMMARY_DUE)

    def results(self, audit: StoredAudit) -> "Results":
        """Judge every answer; return the results, and store the counts of their scores with the audit."""
        results = judge_rows(self.scorers, self.answers, self.model, audit.answer, self.settings)
        scores = self.scores(results)
        for scorer in self.scorers:
            if not audit.has(scorer.facts.name):
                counts = _counts(scorer, [score for each, _, own in scores if each is scorer for score in own])
                audit.part(scorer.facts.name, JudgedCounts, lambda counts=counts: counts)  # type: ignore[misc]
        return results

    def scores(self, results: "Results") -> list[tuple[JudgedScorer, str, list[Score]]]:
        """Return the scores that follow from results, by scorer and task."""
        made = (
            (scorer, task, [score for request in requests for score in _scores(request, scorer, results, position)])
            for position, scorer in enumerate(self.scorers)
            for task, requests in self.by_task.items()
        )
        return [each for each in made if each[2]]

    def add(self, scored: Sequence[tuple[JudgedScorer, str, list[Score]]], command: str | None) -> None:
        """Add scores to the run in one transaction, and compute its estimates."""
        store = self.run.store
        last_finished = max((a.attempt_id for a in store.attempts(self.run.id) if a.status == "finished"), default=0)
        opened = store.open_run(
            self.row.plan, facts={**environment(), "judged": [each.facts.name for each in self.scorers]},
            command=command, rescoring=True,
        )  # fmt: skip
        status = "finished" if last_finished else self.row.status  # the answers did not change
        try:
            batches = [(scores, self.scoring_hash(scorer)) for scorer, _, scores in scored]
            entries = [self._entry(scorer, task, scores) for scorer, task, scores in scored]
            names = [each["name"] for entry in entries for each in entry["metrics"]]
            former = without_scorers(self.row.extra, names)
            facts = {**add_rescored(former, entries, SCORING_HASH), SUMMARY_DUE: True}
            store.close_rescoring(opened, status, batches, facts)
        except LeaseLost:
            store.abandon_run(self.run.id)
            raise
        except BaseException:
            store.close_run(self.run.id, opened.attempt_id, status)
            raise
        save_summary_of(store, self.run.id, self.run.row.extra, {})

    def _entry(self, scorer: JudgedScorer, task: str, scores: Sequence[Score]) -> RescoredEntry:
        """Return the record of one scorer's scores, in the form of a rescoring, with the judge."""
        facts, judge = scorer.facts, self.judges[0]
        named = ", ".join(each.name for each in self.judges)
        earlier = {(each.filter, each.metric) for each in self.run.estimates if each.task == task and each.n}
        names = list(dict.fromkeys(each.metric for each in scores))
        return {
            "task": task,
            "scoring_hash": self.scoring_hash(scorer),
            "filters": [{"name": "none", "steps": [{"function": f"judged by {named}"}]}],
            "metrics": [
                {
                    "name": name,
                    "aggregation": "mean",
                    "higher_is_better": facts.higher_is_better is not False,
                    "filters": ["none"],
                    "scale": facts.scale,
                    "options": {},
                }
                for name in names
            ],
            "in_place_of": [["none", name] for name in names if ("none", name) in earlier],
            "judge": {"name": named, "content_hash": judge.content_hash, "kind": judge.kind,
                      "scorer_hash": scorer.content_hash, "formula": facts.formula},
        }  # fmt: skip


# ---------------------------------------------------------------------------------------- stored answers


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request of the run. answers: those of its outputs that are texts; error: of the first that failed."""

    request: Request
    answers: tuple[JudgedAnswer, ...]
    error: str | None


def _requests_of(store: Store, run_id: str, task: str, turn: int | None) -> Iterator[_Asked]:
    """Yield a task's complete requests with generated answers, of all turns or of one."""
    for record in store.samples(run_id, task):
        outputs, sample = record.outputs, record.sample
        if len(outputs) != record.request.n_outputs or sample is None or turn not in (None, record.request.turn):
            continue
        error = next((each.error for each in outputs if each.error is not None), None)
        row = _row_of(sample, record.request)
        texts = [output for output in outputs if output.text is not None]
        if error is None and not texts:
            continue  # log-likelihoods
        sent = record.request.messages or ()
        answers = tuple(
            JudgedAnswer(record.request, sample, output.repeat, replace(answered_of(output, row), messages=sent))
            for output in texts
        )
        yield _Asked(record.request, () if error is not None else answers, error)


def _row_of(sample: Sample, request: Request) -> Row:
    """Return the row of a sample as an application's run stores it, else of the prompt and its target."""
    stored = sample.row
    if "inputs" not in stored:
        return Row(str(sample.index), request.prompt, request.target or None, metadata=stored)
    contexts, metadata = stored.get("contexts"), stored.get("metadata")
    are_texts = isinstance(contexts, list | tuple) and all(isinstance(each, str) for each in contexts)
    return Row(
        id=str(stored.get("id", sample.index)),
        inputs=stored["inputs"],
        expected=stored.get("expected"),
        contexts=tuple(contexts) if contexts is not None and are_texts else None,
        metadata=metadata if isinstance(metadata, Mapping) else {},
    )


def _material(each: JudgedAnswer) -> JsonValue:
    row = each.answered.row
    contexts = list(each.answered.contexts or ())
    return [each.request.id, each.repeat, each.sample.sha256, row.inputs, row.expected, contexts, each.answered.output]


# ---------------------------------------------------------------------------------------- rounds


Results = Mapping[tuple[int, str, int], Sequence[Result] | str]
"""(position of the scorer, request id, repeat) -> its results, or why it failed."""


@dataclass(slots=True)
class _Judged:
    """One answer with one scorer: its generator, and the prompt that waits for a reply."""

    key: tuple[int, str, int]
    generator: Generator[str, str, Sequence[Result]]
    answer: JudgedAnswer
    task: str
    n_steps: int = 0
    prompt: str | None = None
    results: Sequence[Result] | str = ()

    def advance(self, reply: str | None) -> None:
        """Send a reply, or begin; keep the next prompt, or the results."""
        self.prompt = None
        try:
            prompt = next(self.generator) if reply is None else self.generator.send(reply)
        except StopIteration as ended:
            self.results = list(ended.value or ())
            return
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a scorer raises is a failed score
            self.fail(exception_text(error))
            return
        self.n_steps += 1
        if self.n_steps > MOST_STEPS:
            self.fail(f"the scorer asks for more than {MOST_STEPS} replies")
        else:
            self.prompt = prompt

    def fail(self, why: str) -> None:
        """End without a score."""
        self.generator.close()
        self.prompt, self.results = None, why

    def request(self, writer: JudgePromptWriter, settings: GenerationSettings) -> Request:
        """Return the request of the waiting prompt; its turn counts steps, of all repeats."""
        messages = (Message.of_text("user", self.prompt or ""),)
        sample = replace(self.answer.sample, task=self.task)
        made = ask(messages, writer, settings, sample)
        return replace(made, turn=self.answer.repeat * (MOST_STEPS + 1) + self.n_steps)


def judge_rows(
    scorers: Sequence[JudgedScorer],
    answers: Sequence[JudgedAnswer],
    model: Model,
    answer: Callable[[Sequence[Request]], Iterable[Output]],
    settings: GenerationSettings,
) -> dict[tuple[int, str, int], Sequence[Result] | str]:
    """Judge answers with all scorers in rounds: each asks the next prompt of every answer and scorer at once.

    Args:
        model: the judge, whose template writes prompts.
        answer: returns the outputs of requests, such as `StoredAudit.answer`.
        settings: of each reply.

    Returns: by position of the scorer, id of the run's request and repeat: the results, or why there are none.
    """
    writer = JudgePromptWriter(model)
    judged = [
        _Judged((position, each.request.id, each.repeat), scorer.steps(each.answered), each,
                f"{each.request.task}, {scorer.facts.name}")
        for position, scorer in enumerate(scorers)
        for each in answers
    ]  # fmt: skip
    for each in judged:
        each.advance(None)
    while waiting := [each for each in judged if each.prompt is not None]:
        by_id = {(request := each.request(writer, settings)).id: (request, each) for each in waiting}
        outputs = {output.request_id: output for output in answer([request for request, _ in by_id.values()])}
        for name, (_, each) in by_id.items():
            output = outputs.get(name)
            if output is None or output.text is None:
                each.fail(f"the judge did not reply: {output.error if output is not None else 'it was not asked'}")
            elif output.finish_reason == "length":  # what stands in it may be quoted from the answer
                each.fail(f"the judge's reply was cut off at {settings.max_tokens} tokens")
            else:
                each.advance(output.text)
    return {each.key: each.results for each in judged}


# ---------------------------------------------------------------------------------------- scores


def _scores(asked: _Asked, scorer: JudgedScorer, results: Results, position: int) -> list[Score]:
    """Return the scores of one request: for each name one of all repeats; failed if one of them failed."""
    facts = scorer.facts
    if asked.error is not None:
        return [_failed(asked.request.id, facts.name, asked.error)]
    of_repeats: list[Sequence[Result]] = []
    for each in asked.answers:
        outcome = results[position, asked.request.id, each.repeat]
        if isinstance(outcome, str):
            return [_failed(asked.request.id, facts.name, outcome)]
        of_repeats.append(outcome)
    names = list(dict.fromkeys(each.name for of_repeat in of_repeats for each in of_repeat)) or [facts.name]
    return [_score(asked.request.id, name, of_repeats, facts.reducer) for name in names]


def _failed(request_id: str, name: str, error: str) -> Score:
    detail = {"error": error[:LONGEST_DETAIL], "in_scoring": True}
    return Score(request_id, name, None, status=ScoreStatus.FAILED, detail=detail)


def _score(request_id: str, name: str, of_repeats: Sequence[Sequence[Result]], reducer: str) -> Score:
    own = [next((each for each in of_repeat if each.name == name), Result(name)) for of_repeat in of_repeats]
    values = [each.value if each.value is not None and math.isfinite(each.value) else None for each in own]
    known = [value for value in values if value is not None]
    detail = score_detail(own, values)
    value = None
    if known:
        try:
            value = reduced([Graded(each) for each in known], reducer)
        except DataError as error:  # too few of them have a value
            detail["comment"] = f"{detail.get('comment', '')}\n{error}".strip()[:LONGEST_DETAIL]
    status = ScoreStatus.SCORED if value is not None or "label" in detail else ScoreStatus.UNPARSED
    return Score(request_id, name, value, status=status, detail=detail or None)


def _counts(scorer: JudgedScorer, scores: Sequence[Score]) -> JudgedCounts:
    n_failed = sum(each.status is ScoreStatus.FAILED for each in scores)
    n_not_scored = sum(each.status is ScoreStatus.UNPARSED for each in scores)
    return JudgedCounts(scorer.facts.name, scorer.content_hash, len(scores), n_not_scored, n_failed)


# ---------------------------------------------------------------------------------------- shown


def _results(store: Store, row: RunRow) -> "tuple[JsonValue, Document]":  # noqa: ARG001 - the kind's signature
    from assaymark.documents.blocks import Heading, table
    from assaymark.documents.document import document

    counts: list[JudgedCounts] = stored_parts(row, JudgedCounts)
    settings = dict(row.plan.audit_settings.settings) if row.plan.audit_settings is not None else {}
    content: JsonValue = {
        "run": settings.get("run"),
        "judge": row.plan.model.name,
        "scorers": [
            {"name": each.scorer, "content_hash": each.content_hash, "n": each.n, "n_not_scored": each.n_not_scored,
             "n_failed": each.n_failed}
            for each in counts
        ],
    }  # fmt: skip
    rows = [(each.scorer, f"{each.n:,}", f"{each.n_not_scored:,}", f"{each.n_failed:,}") for each in counts]
    heading = Heading(f"scores of {row.plan.model.name}", 4)
    return content, document(heading, table(("scorer", "answers", "not scored", "failed"), rows))


judged_kind = AuditKind(_results, remark="the scores themselves are metrics of the run")
