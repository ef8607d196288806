"""Grades of a second model for benchmarks of the Hub: the stored answers of a run, graded as inspect-ai grades them.

The grader is not trusted: what it is shown cannot end the data of its prompt, its last grade counts, and a reply
without a readable one is no verdict, which is counted, and no wrong answer.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from assaymark.applications.judging_scores import add_judged_scores
from assaymark.applications.scorer import Answered, Result, ScorerFacts
from assaymark.errors import DataError
from assaymark.prompts.templates import RowText, compile_template
from assaymark.records import JsonValue, Message, content_hash
from assaymark.runs.plan import PreparedRun
from assaymark.runs.run import Run
from assaymark.scoring.choice_letters import outside_reasoning
from assaymark.scoring.inspect_scorers import grade_value, panel_grade, read_grade
from assaymark.scoring.metrics import formula_of, is_graded_by_model, split_reduced
from assaymark.tasks.self_critique import LAST_TURN
from assaymark.tasks.solver_prompts import ANSWER_NAME, CRITERION_NAME, HISTORY_NAME
from assaymark.tasks.task import MetricSpec

VERSION = 1  # raise it when the same replies would give another value


@dataclass(frozen=True)
class ModelGraded:
    """One metric of a benchmark's file, as a scorer that asks a judge."""

    metric: MetricSpec

    @property
    def facts(self) -> ScorerFacts:
        """The facts about its values."""
        name = self.metric.name
        return ScorerFacts(name, formula_of(name, "generate_until") or "", reducer=split_reduced(name)[1] or "mean")

    @property
    def content_hash(self) -> str:
        """A hash of its prompt and of how grades are read; the models that the file names decide nothing here."""
        options = {name: value for name, value in self.metric.kwargs.items() if name != "models"}
        return content_hash({"model_graded": VERSION, "options": options})

    @cached_property
    def _prompt(self) -> RowText:
        return compile_template(str(self.metric.kwargs["grading"]), f"{self.metric.name}.grading")

    def steps(self, answered: Answered) -> Generator[str, str, Sequence[Result]]:
        """Yield the prompt, are sent the grader's reply, and return its grade."""
        row = {
            **answered.row.metadata,
            ANSWER_NAME: answered.output,
            CRITERION_NAME: answered.row.expected or "",
            HISTORY_NAME: _history(answered.messages, str(answered.output)),
        }
        reply = outside_reasoning((yield self._prompt(row))) or ""
        pattern, offered = self.metric.kwargs.get("grade_pattern"), str(self.metric.kwargs.get("offered") or "")
        try:  # a pattern of the file may take too long
            grade = read_grade(reply, None if pattern is None else str(pattern), offered)
        except DataError as error:
            return [Result(self.metric.name, comment=f"no verdict: {error}")]
        return [self._result(grade, f"no verdict: no grade in the reply: {' '.join(reply.split())[-200:]}")]

    def combined(self, of_judges: Sequence[Sequence[Result]]) -> Sequence[Result]:
        """Return the grade of several graders."""
        grades = [results[0].metadata.get("grade") for results in of_judges]
        texts = [None if grade is None else str(grade) for grade in grades]
        grade = panel_grade(texts, str(self.metric.kwargs.get("panel") or "majority"))
        return [self._result(grade, "no verdict: the graders do not agree", grades=list(texts))]

    def _result(self, grade: str | None, why_none: str, **more: JsonValue) -> Result:
        value = None if grade is None else grade_value(grade)
        if grade is not None and value is None:
            why_none = f"no verdict: the grade {grade!r:.60} is no C, P, I or number"
        known: Mapping[str, JsonValue] = {"grade": grade, **more}
        return Result(self.metric.name, value, comment=why_none if value is None else None, metadata=known)


def _history(messages: Sequence[Message], answer: str) -> str:
    """Return a conversation with its answer as graders are shown it: the first message bare, no system's."""
    first, *later = [*(each for each in messages if each.role != "system"), Message.of_text("assistant", answer)]
    return "\n\n".join([first.text, *(f"{each.role.capitalize()}: {each.text}" for each in later)])


def graded_metrics(prepared: PreparedRun) -> dict[str, list[MetricSpec]]:
    """Return the metrics of a run that a second model grades, by task."""
    every = ((bound.plan.name, [m for m in bound.metrics if is_graded_by_model(m.name)]) for bound in prepared.bound)
    return {task: metrics for task, metrics in every if metrics}


def add_model_grades(
    run: Run, prepared: PreparedRun, judges: Sequence[object], model_args: object, notify: Callable[[str], None]
) -> None:
    """Let graders grade a run's stored answers; the same call asks for no stored reply again.

    Args:
        run: stored and summarised.
        judges: the graders, as models for `evaluate`.
        model_args: of each of them.
        notify: called with lines.

    Raises: as `add_judged_scores`.
    """
    revised = {bound.plan.name for bound in prepared.bound if bound.task.prompt.critique is not None}
    for task, metrics in graded_metrics(prepared).items():
        for metric in metrics:
            named = metric.kwargs.get("models")
            if isinstance(named, list) and named:
                shown = ", ".join(map(str, named))[:200]
                notify(f"{task}: its file names {shown} as grader; what you name is asked instead")
        scorers = [ModelGraded(metric) for metric in metrics]
        arguments = model_args if isinstance(model_args, str | Mapping) else {}
        turn = LAST_TURN if task in revised else None
        add_judged_scores(run, scorers, list(judges), notify, model_args=arguments, tasks=[task], turn=turn)
