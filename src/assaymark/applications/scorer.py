"""Scorers: functions of one answered row that return a value, a label, or nothing.

A scorer declares the inputs that it needs, so that a missing one is refused before the first call. It also declares
the direction and range of its values, so that tables and comparisons need not guess. Scorers written for other tools
(LangSmith, Braintrust, Phoenix, MLflow, Langfuse, HoneyHive, promptfoo) are wrapped by `binding`, which binds their
parameters by name. Judged scorers ask a model: they are generators that yield prompts and are sent the judge's answers.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from assaymark.applications.rows import Row
from assaymark.applications.tool_calls import ToolCall, calls_in
from assaymark.records import JsonValue, Message
from assaymark.scoring.metric import Scale

LONGEST_DETAIL = 2000  # characters of a comment or an error that are stored


@dataclass(frozen=True, slots=True)
class Answered:
    """A row with the target's answer."""

    row: Row
    output: JsonValue  # as returned: a text, or a JSON value
    latency_s: float | None = None  # of the call; None where it is not known
    cost: float | None = None  # in the currency of the price table; None: not known, which is not 0
    n_tokens: int | None = None
    trace_id: str | None = None  # 32 hexadecimal digits
    contexts: tuple[str, ...] | None = None  # what the target returned as `contexts`, else the row's
    messages: tuple[Message, ...] = ()  # that were sent; empty where the call was no chat
    calls: tuple[ToolCall, ...] | None = None  # of tools, from its trace; None: they are read from the output

    @property
    def tool_calls(self) -> list[ToolCall] | None:
        """The calls of tools; None if the output has no place for any."""
        return calls_in(self.output) if self.calls is None else list(self.calls)


@dataclass(frozen=True, slots=True)
class Result:
    """One score of one answered row. Neither value nor label: not scored."""

    name: str
    value: float | None = None
    label: str | None = None
    comment: str | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScorerFacts:
    """The facts about a scorer's values that are known without calling it."""

    name: str
    formula: str = ""  # in words; empty: of one's own function, whose docstring is shown
    higher_is_better: bool | None = True  # None: neither direction is better
    scale: Scale = "share"  # "right or wrong" for 0 and 1, "share" for [0, 1], "number" for any others
    needs: frozenset[str] = (
        frozenset()
    )  # of: expected, contexts, expected_tools, tools, assertions, trace, latency, cost, tokens
    packages: tuple[str, ...] = ()
    reducer: str = "mean"  # of the values of several answers to one row, as `inspect_scorers.reduced`


@runtime_checkable
class Scorer(Protocol):
    """Scores one answered row at a time, without a judge."""

    @property
    def facts(self) -> ScorerFacts:
        """The facts about its values."""
        ...

    @property
    def content_hash(self) -> str:
        """A hash of its code and settings: another hash is another scoring."""
        ...

    async def score(self, answered: Answered) -> Sequence[Result]:
        """Return its results, several where the function returned a list. Whatever it raises is a failed score."""
        ...


@runtime_checkable
class JudgedScorer(Protocol):
    """Scores one answered row by asking a judge, in one or several steps."""

    @property
    def facts(self) -> ScorerFacts:
        """The facts about its values."""
        ...

    @property
    def content_hash(self) -> str:
        """A hash of its prompts and settings; the judge's identity is recorded apart."""
        ...

    def steps(self, answered: Answered) -> Generator[str, str, Sequence[Result]]:
        """Yield prompts, are sent the judge's answers, and return results.

        A judge's answer is not trusted: what cannot be parsed gives a Result without a value, the reason as comment.
        """
        ...


@runtime_checkable
class PanelScorer(JudgedScorer, Protocol):
    """A judged scorer that makes one result of several judges'."""

    def combined(self, of_judges: Sequence[Sequence[Result]]) -> Sequence[Result]:
        """Return one answer's results from those of each judge, in the order in which the judges are named."""
        ...


def score_detail(own: Sequence[Result], values: Sequence[float | None]) -> dict[str, JsonValue]:
    """Return what is stored beside a score over repeats: the first label, comments and parts, and single values."""
    detail: dict[str, JsonValue] = {}
    if (label := next((each.label for each in own if each.label is not None), None)) is not None:
        detail["label"] = label
    if comments := dict.fromkeys(each.comment for each in own if each.comment):
        detail["comment"] = "\n".join(comments)[:LONGEST_DETAIL]
    if metadata := next((dict(each.metadata) for each in own if each.metadata), None):
        detail["metadata"] = metadata
    if len(own) > 1:
        detail["repeats"] = list(values)
    return detail
