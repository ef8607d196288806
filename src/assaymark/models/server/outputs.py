"""From a server's answer to the outputs of the queries that waited for it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from assaymark.errors import ModelUnavailable
from assaymark.models.server.bodies import ServerText
from assaymark.models.server.failures import HttpFailure
from assaymark.models.server.http_calls import CallOutcome
from assaymark.models.text.generation_prompts import GenerationInput
from assaymark.models.text.stops import final_of_text
from assaymark.records import Output

__all__ = ["Generated", "failure_in", "generated_outputs"]

T = TypeVar("T")
V = TypeVar("V")
Generated = list[tuple[GenerationInput, int]]  # queries and repeats that wait for one text


def generated_outputs(answered: CallOutcome[Generated, ServerText], think_end: str | None) -> Iterator[Output]:
    """Yield the outputs of all queries that waited for one text. think_end: ends the reasoning in it."""
    if answered.value is None:
        failure = failure_in(answered)
        yield from (a.failure(repeat, failure.message, failure.error.__name__) for a, repeat in answered.about)
        return
    server_text = answered.value
    for prepared, repeat in answered.about:
        final = final_of_text(server_text.text, prepared.stops, think_end)
        output = prepared.output(repeat, final, server_text.n_tokens, server_text.finish_reason or "")
        thoughts = [each for each in (server_text.reasoning, final.reasoning) if each]
        yield replace(
            output,
            reasoning="\n".join(thoughts) or None,
            tool_calls=server_text.tool_calls,
            finish_reason=server_text.finish_reason,
            n_context_tokens=server_text.n_context or output.n_context_tokens,
        )


def failure_in(answered: CallOutcome[T, V]) -> HttpFailure:
    """Return the failure of a call without a value."""
    return answered.failure or HttpFailure(ModelUnavailable, "no answer")
