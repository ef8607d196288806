"""One call in three dialects is one step: same kind, model, messages, tools, documents, tokens, cost, user, session."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assaymark.applications.traces.dialects import facts_of
from assaymark.applications.traces.otlp import Event, ReadSpan
from assaymark.applications.traces.steps import ChatMessage, Document, MessagePart, Step, step_of
from assaymark.records.json_values import json_of


def read(attributes: Mapping[str, Any], events: Sequence[Event] = (), *, is_error: bool = False) -> Step:
    """Return the step of a span with these attributes."""
    return step_of(ReadSpan("0" * 31 + "1", "0" * 15 + "1", None, "call", 0, 1, is_error, "", attributes, events, (), 0,
                            {"service.name": "bot", "service.version": "7"}, "tests"))  # fmt: skip


CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-11-20",
    "gen_ai.usage.input_tokens": 1000,
    "gen_ai.usage.output_tokens": 100,
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
    "gen_ai.input.messages": json.dumps(
        [
            {"role": "user", "parts": [{"type": "text", "content": "Weather in Rome?"}]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": "sunny"}]},
        ]
    ),
    "gen_ai.output.messages": json.dumps(
        [
            {
                "role": "assistant",
                "parts": [
                    {"type": "text", "content": "One moment."},
                    {"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Rome"}},
                ],
                "finish_reason": "tool_calls",
            }
        ]
    ),
    "user.id": "ada",
    "gen_ai.conversation.id": "s1",
}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "gpt-4o-2024-11-20",
    "llm.token_count.prompt": 1000,
    "llm.token_count.completion": 100,
    "llm.token_count.total": 1100,
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be brief.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Weather in Rome?",
    "llm.input_messages.2.message.role": "tool",
    "llm.input_messages.2.message.tool_call_id": "c0",
    "llm.input_messages.2.message.content": "sunny",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "One moment.",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city": "Rome"}',
    "user.id": "ada",
    "session.id": "s1",
}
TRACELOOP = {
    "llm.request.type": "chat",
    "gen_ai.system": "OpenAI",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o-2024-11-20",
    "gen_ai.usage.prompt_tokens": 1000,
    "gen_ai.usage.completion_tokens": 100,
    "llm.usage.total_tokens": 1100,
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": '[{"type": "text", "text": "Weather in Rome?"}]',
    "gen_ai.prompt.2.role": "tool",
    "gen_ai.prompt.2.tool_call_id": "c0",
    "gen_ai.prompt.2.content": "sunny",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "One moment.",
    "gen_ai.completion.0.finish_reason": "tool_calls",
    "gen_ai.completion.0.tool_calls.0.id": "c1",
    "gen_ai.completion.0.tool_calls.0.name": "weather",
    "gen_ai.completion.0.tool_calls.0.arguments": '{"city": "Rome"}',
    "traceloop.association.properties.user_id": "ada",
    "traceloop.association.properties.session_id": "s1",
}
EVENTS = (
    Event(1, "gen_ai.system.message", {"content": "Be brief."}),
    Event(1, "gen_ai.user.message", {"content": "Weather in Rome?"}),
    Event(1, "gen_ai.tool.message", {"content": "sunny", "id": "c0"}),
    Event(
        2,
        "gen_ai.choice",
        {"finish_reason": "tool_calls", "message": json.dumps({"content": "One moment.", "tool_calls": [CALL]})},
    ),
)
QUESTIONS = (
    ChatMessage("system", (MessagePart("text", "Be brief."),)),
    ChatMessage("user", (MessagePart("text", "Weather in Rome?"),)),
    ChatMessage("tool", (MessagePart("result", "sunny", id="c0"),)),
)
ANSWER = (MessagePart("text", "One moment."), MessagePart("call", '{"city": "Rome"}', "weather", "c1"))


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        (GENAI, ()),
        (OPENINFERENCE, ()),
        (TRACELOOP, ()),
        ({key: value for key, value in GENAI.items() if "messages" not in key and "instructions" not in key}, EVENTS),
    ],
    ids=["genai", "openinference", "traceloop", "genai events"],
)
def test_one_step_in_every_dialect(attributes: Mapping[str, Any], events: Sequence[Event]) -> None:
    """A chat call is read alike whichever package wrote its span; its cost is by the table, 1000 in and 100 out."""
    step = read(attributes, events)
    assert (step.kind, step.model, step.n_input, step.n_output) == ("llm", "gpt-4o-2024-11-20", 1000, 100)
    assert step.cost == pytest.approx(1000 * 2.5e-6 + 100 * 10e-6)
    assert (step.user, step.session) == ("ada", "s1")
    assert step.input_messages == QUESTIONS
    assert [(message.role, message.parts) for message in step.output_messages] == [("assistant", ANSWER)]


DOCUMENTS = (Document("d1", "Rome is in Italy.", 0.5), Document("d2", "So is Milan.", None))


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.documents": json.dumps(
                [{"id": "d1", "content": "Rome is in Italy.", "score": 0.5}, {"id": "d2", "content": "So is Milan."}]
            ),
        },
        {
            "openinference.span.kind": "RETRIEVER",
            "retrieval.documents.1.document.id": "d2",
            "retrieval.documents.1.document.content": "So is Milan.",
            "retrieval.documents.0.document.id": "d1",
            "retrieval.documents.0.document.content": "Rome is in Italy.",
            "retrieval.documents.0.document.score": 0.5,
        },
    ],
    ids=["genai", "openinference"],
)
def test_documents(attributes: Mapping[str, Any]) -> None:
    """Documents of a search are in their order, with scores where they have some."""
    step = read(attributes)
    assert (step.kind, step.documents) == ("retriever", DOCUMENTS)


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "weather",
            "gen_ai.tool.call.arguments": '{"city": "Rome"}',
            "gen_ai.tool.call.result": "sunny",
        },
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "weather",
            "input.value": '{"city": "Rome"}',
            "output.value": "sunny",
        },
        {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "weather",
            "traceloop.entity.input": '{"city": "Rome"}',
            "traceloop.entity.output": "sunny",
        },
    ],
    ids=["genai", "openinference", "traceloop"],
)
def test_tools(attributes: Mapping[str, Any]) -> None:
    """A call of a tool has its name, arguments and result."""
    step = read(attributes)
    assert step.tool is not None
    assert (step.kind, step.tool.name, step.tool.arguments, step.tool.result) == (
        "tool",
        "weather",
        '{"city": "Rome"}',
        "sunny",
    )


def test_a_failed_call_has_its_model_and_error() -> None:
    """OpenInference's failed calls name the model in their parameters only; the exception says what happened."""
    raised = Event(3, "exception", {"exception.type": "RateLimitError", "exception.message": "slow down"})
    parameters = {"openinference.span.kind": "LLM", "llm.invocation_parameters": '{"model": "gpt-4o"}'}
    step = read(parameters, [raised], is_error=True)
    assert (step.model, step.error, step.cost, step.n_input) == ("gpt-4o", "RateLimitError: slow down", None, None)


def test_what_is_unknown_stays_unknown() -> None:
    """An unknown model has no cost, a reported cost is kept, and what is not a count is none."""
    plain = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "mine", "gen_ai.usage.input_tokens": 5}
    assert facts_of(plain, {}).cost is None
    assert facts_of({**plain, "llm.cost.total": 0.25}, {}).cost == 0.25
    assert facts_of({**plain, "gen_ai.usage.cost.amount": 0.5}, {}).cost == 0.5
    costs: tuple[dict[str, Any], ...] = (
        {"llm.cost.total": "0.5"},
        {"llm.cost.prompt": 0.25, "llm.cost.completion": 0.25},
        {"gen_ai.cost.total_cost": 0.5},
        {"langfuse.observation.cost_details": '{"input": 0.25, "output": 0.25}'},
        {"langfuse.observation.cost_details": '{"input": 0.25, "total": 0.5}'},
    )
    for stated in costs:
        assert facts_of({**plain, **stated}, {}).cost == 0.5
    tokens: tuple[dict[str, Any], ...] = (
        {"ai.usage.promptTokens": 5, "ai.usage.completionTokens": 2},
        {"llm.token_count.prompt": 5, "llm.token_count.total": 7},
        {"llm.token_count.completion": 2, "llm.token_count.total": 7},
        {"langfuse.observation.usage_details": '{"input": 5, "output": 2, "total": 7}'},
        {"mlflow.chat.tokenUsage": '{"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}'},
    )
    for counts in tokens:
        facts = facts_of(counts, {})
        assert (facts.n_input, facts.n_output) == (5, 2)
    nested: tuple[dict[str, Any], ...] = (
        {"gen_ai.usage": {"input_tokens": 5, "output_tokens": 2}},
        {"gen_ai.usage": '{"prompt_tokens": 5, "completion_tokens": 2}'},
        {"llm.usage": {"prompt_tokens": 5, "total_tokens": 7}},
        {"llm.token_count": {"prompt": 5, "completion": 2, "prompt_details": {"cache_read": 1}}},
        {"gen_ai": {"usage": {"input_tokens": 5, "output_tokens": 2}}},
        {"gen_ai": {"usage.input_tokens": 5, "usage.output_tokens": "2"}},
        {"usage": '{"inputTokens": 5, "outputTokens": 2}'},
    )
    cost = facts_of({**plain, "gen_ai.request.model": "gpt-4o", "gen_ai.usage.output_tokens": 2}, {}).cost
    for group in nested:
        facts = facts_of({**group, "gen_ai.request": {"model": "gpt-4o"}, "user": {"id": "u7"}}, {})
        assert (facts.kind, facts.model, facts.n_input, facts.n_output, facts.user) == ("llm", "gpt-4o", 5, 2, "u7")
        assert facts.cost == cost
        assert facts_of({**group, "gen_ai.usage.input_tokens": 4}, {}).n_input == 4  # stated by itself
    total = facts_of({"openinference.span.kind": "LLM", "llm.model_name": "gpt-4o", "llm.token_count.total": 7}, {})
    assert (total.n_input, total.n_output, total.cost) == (7, None, None)  # a price needs the parts
    calls: tuple[dict[str, Any], ...] = (
        {"langfuse.observation.type": "generation", "langfuse.observation.model.name": "gpt-4o",
         "langfuse.observation.usage_details": '{"input": 5, "output": 2}'},
        {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.llm.model": '"gpt-4o"',
         "mlflow.chat.tokenUsage": '{"input_tokens": 5, "output_tokens": 2}'},
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.response.prompt_tokens": 5,
         "gen_ai.response.completion_tokens": 2},
    )  # fmt: skip
    for call in calls:
        facts = facts_of(call, {})
        assert (facts.kind, facts.model, facts.n_input, facts.n_output) == ("llm", "gpt-4o", 5, 2)
        assert facts.cost == cost
    for part in ("input", "output"):  # of one part alone there is no price: it would be too low
        half = {"gen_ai.request.model": "gpt-4o", f"gen_ai.usage.{part}_tokens": 5}
        assert facts_of(half, {}).cost is None
    for odd in (-1, True, "many", 1e300, float("nan"), [3], 2**70):
        assert facts_of({"gen_ai.usage.input_tokens": odd}, {}).n_input is None
    assert facts_of({}, {}).kind == "span"


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
NAMES = st.sampled_from(
    [*GENAI, *OPENINFERENCE, *TRACELOOP, "retrieval.documents.0.document", "llm.input_messages", "gen_ai.prompt.0",
     "llm.input_messages.0.message", "llm.input_messages.0.message.contents", "gen_ai.tool.name", "input.value",
     "gen_ai.retrieval.documents", "llm.input_messages.0.message.tool_calls.0", "gen_ai.prompt.99999999999.role",
     "gen_ai", "gen_ai.usage", "llm", "user"]
)  # fmt: skip
JSON_VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(NAMES, JSON_VALUES | JSON_VALUES.map(json.dumps), max_size=12))
def test_no_attribute_is_too_odd(attributes: dict[str, Any]) -> None:
    """Whatever is under the names of the dialects, a step is made of it, and it is JSON."""
    json.dumps(json_of(read(attributes)))
