"""The pages of raters: the queues with their agreement, and a trace to rate."""

import json
from dataclasses import dataclass

from assaymark.applications.live.annotation import QueueAgreement, Rubric, agreement_of, rubric_of
from assaymark.applications.live.annotation_log import AnnotationLog, AnnotationQueue
from assaymark.applications.live.answered_traces import contexts_of, inputs_and_output, read_trace
from assaymark.applications.live.dataset_log import DatasetLog
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import Token, TraceRow
from assaymark.errors import DataError
from assaymark.records import JsonValue
from assaymark.records.json_values import json_fields
from assaymark.store import Store

LONGEST_SHOWN = 50_000  # characters of one text
MOST_CONTEXTS = 20


@dataclass(frozen=True)
class QueuesPage:
    """The queues of a project, each with its raters' agreement."""

    project: str
    queues: tuple[tuple[AnnotationQueue, QueueAgreement], ...]
    datasets: dict[str, int]  # rows by name
    rater: str
    token: str  # of the forms
    problem: str = ""
    finished: str = ""  # the queue in which nothing is left for this rater

    json_keys = "project queues=listed datasets"

    @property
    def listed(self) -> list[dict[str, object]]:
        """The queues with how far their raters agree."""
        return [{**json_fields(queue), "agreement": agreement.to_json()} for queue, agreement in self.queues]


def queues_page(
    store: Store, token: Token, rater: str, form: str, *, problem: str = "", finished: str = ""
) -> QueuesPage:
    """Return the queues of a project.

    Args:
        store: where they are.
        token: of the project.
        rater: name of the rater; "" if not known.
        form: token of the forms.
        problem: of the form that was sent last.
        finished: the queue in which nothing is left for this rater.
    """
    queues = AnnotationLog(store).queues(token.project)
    with_agreement = tuple((queue, agreement_of(queue, AnnotationLog(store).ratings(queue))) for queue in queues)
    sizes = DatasetLog(store).sizes(token.project)
    return QueuesPage(token.project_name, with_agreement, sizes, rater, form, problem, finished)


@dataclass(frozen=True)
class RatingPage:
    """A trace to rate: the application's input, retrieved documents and answer."""

    project: str
    queue: AnnotationQueue
    rubric: Rubric
    trace: TraceRow
    asked: str
    answered: str
    contexts: tuple[str, ...]
    error: str
    problem: str
    rater: str
    token: str
    n_own: int  # ratings of this rater in the queue

    json_keys = "queue=queue.name choices=rubric.names trace_id=id asked answered contexts error"

    @property
    def id(self) -> str:
        """The trace's id."""
        return self.trace.trace_id.hex()


def rating_page(
    store: Store, token: Token, queue: AnnotationQueue, trace_id: bytes, rater: str, form: str, problem: str = ""
) -> RatingPage:
    """Return the page of an item; see `queues_page`. Raises: UnknownName for a trace that is gone."""
    trace = TraceLog(store).trace(token.project, trace_id)
    asked = answered = error = ""
    contexts: tuple[str, ...] = ()
    try:
        _, steps = read_trace(store, token.project, trace_id)
        inputs, output = inputs_and_output(steps)
        asked, answered = _text_for_rater(inputs), _text_for_rater(output)
        contexts = tuple(text[:LONGEST_SHOWN] for text in (contexts_of(steps) or ())[:MOST_CONTEXTS])
        error = next((step.error for step in steps if step.error), "")[:LONGEST_SHOWN]
    except DataError as cause:
        error = str(cause)
    return RatingPage(
        token.project_name,
        queue,
        rubric_of(queue.rubric),
        trace,
        asked,
        answered,
        contexts,
        error,
        problem,
        rater,
        form,
        sum(rating.rater == rater for rating in AnnotationLog(store).ratings(queue)),
    )


def _text_for_rater(value: JsonValue) -> str:
    """Return a value in readable form: the text of a mapping with one entry, else JSON over several lines."""
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if isinstance(value, str):
        return value[:LONGEST_SHOWN]
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=1)[:LONGEST_SHOWN]
