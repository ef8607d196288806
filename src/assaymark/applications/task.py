"""The task of an application's run: its rows as requests, and its scorers as metrics.

It implements `BoundTask`, so that an application is stored, resumed, compared and shown as any other run is.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from assaymark.applications.returned import answered_of
from assaymark.applications.rows import Row, rows_hash
from assaymark.applications.scorer import LONGEST_DETAIL, Answered, Result, Scorer, score_detail
from assaymark.applications.scorer_calls import ScorerCalls, WrongResult
from assaymark.applications.target import BoundTarget
from assaymark.datasets import DatasetSpec
from assaymark.errors import PlanError, UsageError
from assaymark.prompts.few_shot import Shots
from assaymark.records import (
    GenerateQuery,
    GenerationSettings,
    Output,
    Render,
    Request,
    Sample,
    Score,
    ScoreStatus,
    TaskPlan,
    canonical_json,
    content_hash,
)
from assaymark.scoring.metric import APPLICATION_CALL
from assaymark.scoring.metrics import computations, is_auxiliary, names_for
from assaymark.scoring.run_code import Sandbox
from assaymark.tasks.bound import BoundSamples
from assaymark.tasks.task import FewshotSpec, FilterSpec, MetricSpec, PromptSpec, SplitNames, Task

CALL_METRICS = names_for(APPLICATION_CALL)
"""Scores of every row, of what is known of its call: seconds, money and tokens."""
_NEEDS = frozenset(
    {"expected", "contexts", "expected_tools", "tools", "assertions", "trace", "latency", "cost", "tokens"}
)
_LONGEST_NAME = 200


class ApplicationTask(BoundSamples):
    """A `BoundTask` of the rows for a target, and the scorers of its answers.

    Each row is one sample; its repeats are outputs of one request, and a score is the mean over them, so that an
    interval counts rows and not repeats.
    """

    def __init__(
        self,
        name: str,
        rows: Sequence[Row],
        target: BoundTarget,
        scorers: Sequence[Scorer],
        *,
        repeats: int = 1,
        timeout_s: float = 300.0,
        limit: float | None = None,
        source: str = "",
    ) -> None:
        self._rows, self._target, self._scorers = list(rows), target, list(scorers)
        self._calls = ScorerCalls(timeout_s)
        self._settings = GenerationSettings(repeats=repeats)
        n_rows = len(self._rows)
        self._n = n_rows if limit is None else min(n_rows, math.ceil(n_rows * limit) if limit < 1 else int(limit))
        own = tuple(
            MetricSpec(
                each.facts.name,
                "mean",
                each.facts.higher_is_better is not False,
                scale=each.facts.scale,
                is_neutral=each.facts.higher_is_better is None,
            )
            for each in self._scorers
        )
        self.metrics: tuple[MetricSpec, ...] = (
            *own,
            MetricSpec("latency_s", "mean", higher_is_better=False, scale="number"),
        )
        facts = [
            {**asdict(each.facts), "needs": sorted(each.facts.needs), "hash": each.content_hash}
            for each in self._scorers
        ]
        self.task = Task(
            name=name,
            version="1",
            output_type="generate_until",
            dataset=DatasetSpec(source or name),
            splits=SplitNames(test="rows"),
            prompt=PromptSpec(),
            fewshot=FewshotSpec(PromptSpec()),
            spec={"application": {"scorers": facts}},
            spec_hash=content_hash({"scorers": facts}),
            source=Path(source or name),
            origin="user",
            metrics=self.metrics,
            filters=(FilterSpec("none", ()),),
            repeats=repeats,
            metadata={"version": "1"},
        )
        self.n_original = len(self._rows)
        self.dataset_revision: str | None = None
        self.sandbox: Sandbox | None = None

    @cached_property
    def _is_share(self) -> dict[str, bool]:
        """Whether each scorer's scores are shares of rightness."""
        facts = [each.facts for each in self._scorers]
        return {fact.name: fact.scale != "number" and fact.higher_is_better is True for fact in facts}

    @cached_property
    def plan(self) -> TaskPlan:
        """The part of the run's plan for this task."""
        return TaskPlan(
            name=self.task.name,
            version="1",
            spec_hash=self.task.spec_hash,
            dataset_hash=rows_hash(self._rows),
            num_fewshot=0,
            n_samples=self._n,
            generation=asdict(self._settings),
        )

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        return tuple(
            Sample(self.task.name, at, {"id": row.id, **row.content}, content_hash(row.content))
            for at, row in enumerate(self._rows[: self._n])
        )

    @property
    def indices(self) -> Sequence[int]:
        """The indices of the evaluated rows."""
        return range(self._n)

    def request(self, sample: Sample, render: Render | None = None) -> Request:  # noqa: ARG002 - nothing is a chat
        """Return the request of one row."""
        row = self._rows[sample.index]
        expected = row.expected
        return Request(
            task=self.task.name,
            sample_index=sample.index,
            sample_sha256=sample.sha256,
            segments=(self._target.text(row),),
            queries=(GenerateQuery(0, self._settings),),
            target="" if expected is None else expected if isinstance(expected, str) else canonical_json(expected),
        )

    def shots_of(self, sample: Sample) -> Shots:  # noqa: ARG002
        """Return no shots."""
        return ()

    def shot(self, place: int) -> Sample:
        """Refuse: there are no shots. Raises: PlanError."""
        raise PlanError(f"rows of an application have no shots; shot {place} was requested")

    def alone(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of a row."""
        return self.request(sample, render)

    # -------------------------------------------------------------------------------------------- scores

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return a row's scores: of each scorer, and of its calls.

        A scorer that raises, or does not return in time, is FAILED; one that returns nothing, None or NaN is UNPARSED:
        not scored. Neither is 0.
        """
        row = self._rows[sample.index]
        answers = [answered_of(output, row) for output in outputs]
        scores: list[Score] = []
        for scorer in self._scorers:
            scores += self._scores_of(scorer, request.id, answers, {score.metric for score in scores})
        for name, compute in computations(APPLICATION_CALL).items():
            known = [value for each in answers if (value := compute(each)) is not None]
            if known:
                scores.append(Score(request.id, name, sum(known) / len(known)))
        return tuple(scores)

    def _scores_of(self, scorer: Scorer, request_id: str, answers: Sequence[Answered], taken: set[str]) -> list[Score]:
        """Return the scores of one scorer. taken: names of scores that the row has already."""
        own = scorer.facts.name
        try:
            results = [self._calls.results(scorer, answered) for answered in answers]
            names = list(dict.fromkeys(each.name for repeat in results for each in repeat)) or [own]
            _check_names([name for name in names if name != own], {*taken, *self._is_share} - {own})
        except Exception as error:  # noqa: BLE001 - whatever a scorer raises or returns is a failed score
            text = self._calls.why(own, error)
            detail = {"error": text[:LONGEST_DETAIL], "in_scoring": True}
            return [Score(request_id, own, None, status=ScoreStatus.FAILED, detail=detail)]
        return [_score(request_id, name, results, is_share=self._is_share.get(name)) for name in names]


def _check_names(names: Sequence[str], taken: set[str]) -> None:
    """Raise WrongResult for a name under which a scorer's result cannot be stored."""
    for name in names:
        if name in taken or name in CALL_METRICS or is_auxiliary(name):
            raise WrongResult(f"returned a result named '{name:.80}', which is the name of another score")
        if not name.strip() or len(name) > _LONGEST_NAME:
            raise WrongResult(
                f"returned a result named '{name:.80}'; expected a name of 1 to {_LONGEST_NAME} characters"
            )


def _score(request_id: str, name: str, results: Sequence[Sequence[Result]], *, is_share: bool | None) -> Score:
    """Return the score of one name over a row's repeats: the mean of those that were scored."""
    own = [next((each for each in repeat if each.name == name), Result(name)) for repeat in results]
    values = [None if each.value is None or not math.isfinite(each.value) else float(each.value) for each in own]
    known = [value for value in values if value is not None]
    detail = {**({} if is_share is None else {"is_share": is_share}), **score_detail(own, values)} or None
    if known:
        return Score(request_id, name, sum(known) / len(known), detail=detail)
    has_label = any(each.label is not None for each in own)
    return Score(
        request_id, name, None, status=ScoreStatus.SCORED if has_label else ScoreStatus.UNPARSED, detail=detail
    )


def check_names(scorers: Sequence[Scorer]) -> None:
    """Check, before the first call, that every score has a name of its own and needs what a run can have.

    Raises: UsageError.
    """
    names: set[str] = set()
    for scorer in scorers:
        facts = scorer.facts
        if facts.name in names:
            raise UsageError(f"two scorers are named '{facts.name}'; expected a name of its own for each")
        if facts.name in CALL_METRICS or is_auxiliary(facts.name):
            raise UsageError(
                f"a scorer is named '{facts.name}', which is the name of a score that every run has; rename it"
            )
        names.add(facts.name)
        if strange := sorted(facts.needs - _NEEDS):
            raise UsageError(
                f"scorer '{facts.name}' needs {', '.join(strange)}; expected some of {', '.join(sorted(_NEEDS))}"
            )
        if "trace" in facts.needs:
            raise UsageError(f"scorer '{facts.name}' needs a trace of each call, and this run records none; omit it")
