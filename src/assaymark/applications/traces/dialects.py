"""One reading of spans in three dialects: OpenTelemetry's GenAI conventions, OpenInference and traceloop (OpenLLMetry).

Each fact of a step (kind, model, user, usage) is looked up under each dialect's name in turn; the first one present
counts. A missing attribute is None, never 0.

Sources: OpenTelemetry semantic conventions for generative AI (gen_ai.*), OpenInference's semantic conventions
(openinference.span.kind, llm.*), and traceloop's conventions (traceloop.*, gen_ai.prompt.N.*).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain

from assaymark.applications.traces.otlp import Event
from assaymark.applications.traces.spans import KINDS
from assaymark.applications.traces.trace_rows import SpanFacts
from assaymark.limits.nesting import is_deeper
from assaymark.models.cost.prices import Price, find_price
from assaymark.records import JsonValue, ModelIdentity

Attributes = Mapping[str, JsonValue]

MOST_TOKENS = 10**15  # of one span; more is not a count
LONGEST_JSON = 1 << 20  # characters of an attribute that is read as JSON while spans are received
DEEPEST_JSON = 40
_OPERATIONS = {
    "chat": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "embeddings": "embedding",
    "retrieval": "retriever",
    "execute_tool": "tool",
    "create_agent": "agent",
    "invoke_agent": "agent",
    "invoke_workflow": "chain",
    "plan": "agent",
}
_NAMED_KINDS = {  # by OpenInference, Langfuse and MLflow
    **{kind: kind for kind in KINDS},
    **dict.fromkeys(("prompt", "decision", "workflow", "task"), "chain"),
    **dict.fromkeys(("generation", "chat_model"), "llm"),
}
_TRACELOOP = {"workflow": "chain", "task": "chain", "agent": "agent", "tool": "tool", "unknown": "span"}
_MODEL = (
    *("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "embedding.model_name"),
    *("reranker.model_name", "llm.response.model", "llm.request.model"),
    *("langfuse.observation.model.name", "mlflow.llm.model", "ai.response.model", "ai.model.id"),
)
_INPUT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    *("llm.usage.prompt_tokens", "gen_ai.response.prompt_tokens"),
    *("ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),  # Vercel's AI SDK; the last of embeddings
)
_OUTPUT = (
    *("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    *("llm.usage.completion_tokens", "gen_ai.response.completion_tokens"),
    *("ai.usage.outputTokens", "ai.usage.completionTokens"),
)
_TOTAL = ("gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens", "ai.usage.totalTokens")
_COST = (
    *("llm.cost.total", "gen_ai.usage.cost", "gen_ai.usage.cost.amount", "gen_ai.usage.total_cost"),
    *("gen_ai.cost.total_cost", "operation.cost"),  # LiteLLM, Pydantic AI
)
_COST_PARTS = (
    ("llm.cost.prompt", "llm.cost.completion"),
    ("gen_ai.cost.input_cost", "gen_ai.cost.output_cost"),
    ("gen_ai.usage.input_cost", "gen_ai.usage.output_cost"),
)
_USAGE = (  # one value, a mapping or its JSON, with one of `_PARTS` of each kind
    *("langfuse.observation.usage_details", "mlflow.chat.tokenUsage", "gen_ai.usage", "llm.usage", "llm.token_count"),
    *("ai.usage", "gen_ai.token_usage", "llm.token_usage", "gen_ai.response.usage", "llm.response.usage", "usage"),
)
_PARTS = (
    ("input", "input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "prompt"),
    ("output", "output_tokens", "completion_tokens", "outputTokens", "completionTokens", "completion"),
    ("total", "total_tokens", "totalTokens"),
)
_LANGFUSE_COST = "langfuse.observation.cost_details"
_USER = ("user.id", "enduser.id", "traceloop.association.properties.user_id", "langfuse.user.id")
_SESSION = (
    *("session.id", "gen_ai.conversation.id", "traceloop.association.properties.session_id", "thread.id"),
    "langfuse.session.id",
)


def facts_of(attributes: Attributes, resource: Attributes) -> SpanFacts:
    """Return the facts of a step from its span's and its resource's attributes."""
    attributes = _with_nested(attributes)
    model = _model(attributes)
    n_input, n_output = _tokens(attributes)
    kind = kind_of(attributes)
    cost = _reported_cost(attributes)
    has_parts = n_input is not None and (n_output is not None or kind == "embedding")  # else it would be a part's price
    if cost is None and model is not None and kind in {"llm", "embedding"} and has_parts:
        price = _price(model)
        cost = None if price is None else float(price.of(n_input or 0, n_output or 0))
    return SpanFacts(
        kind=kind,
        model=model,
        n_input=n_input,
        n_output=n_output,
        cost=cost,
        user=text_of(attributes, _USER),
        session=text_of(attributes, _SESSION),
        service=text_of(resource, ("service.name",)),
        version=text_of(attributes, ("assaymark.version",)) or text_of(resource, ("service.version",)),
        response_id=text_of(attributes, ("gen_ai.response.id", "llm.response.id")),
    )


_KNOWN = (*_MODEL, *_INPUT, *_OUTPUT, *_TOTAL, *_COST, *chain(*_COST_PARTS), *_USER, *_SESSION, "gen_ai.operation.name")
_GROUPS = frozenset(name[: match.start()] for name in _KNOWN for match in re.finditer(r"\.", name))  # gen_ai.usage, ...


def _with_nested(attributes: Attributes) -> Attributes:
    """Return attributes with those that lie in a mapping, or in its JSON, under the name of their group."""
    values = ((name, parsed(attributes[name])) for name in _GROUPS & attributes.keys())
    groups = {name: value for name, value in values if isinstance(value, dict)}
    if not groups:
        return attributes
    nested = {}
    for name in _KNOWN:
        for group, value in groups.items():
            if name.startswith(f"{group}."):
                rest = name[len(group) + 1 :]
                inner: JsonValue = value
                for part in (rest,) if rest in value else rest.split("."):
                    inner = inner.get(part) if isinstance(inner, dict) else None
                if inner is not None:
                    nested[name] = inner
    return {**nested, **attributes}


def kind_of(attributes: Attributes) -> str:
    """Return the kind of step, one of KINDS."""
    named = attributes.get("openinference.span.kind")
    if isinstance(named, str) and named.lower() in _NAMED_KINDS:
        return _NAMED_KINDS[named.lower()]
    named = attributes.get("gen_ai.operation.name")
    if isinstance(named, str) and named in _OPERATIONS:
        return _OPERATIONS[named]
    named = attributes.get("traceloop.span.kind")
    if isinstance(named, str) and named in _TRACELOOP:
        return _TRACELOOP[named]
    for name in ("langfuse.observation.type", "mlflow.spanType"):
        named = attributes.get(name)
        if isinstance(named, str) and (kind := named.strip('"').lower()) in _NAMED_KINDS:
            return _NAMED_KINDS[kind]
    if "gen_ai.tool.name" in attributes or "tool.name" in attributes:
        return "tool"
    if "llm.request.type" in attributes:
        return "embedding" if attributes["llm.request.type"] == "embedding" else "llm"
    return "llm" if "gen_ai.request.model" in attributes or "gen_ai.response.model" in attributes else "span"


def _model(attributes: Attributes) -> str | None:
    model = text_of(attributes, _MODEL)
    if model is None and "llm.invocation_parameters" in attributes:  # all that a failed call has
        parameters = parsed(attributes["llm.invocation_parameters"])
        model = parameters.get("model") if isinstance(parameters, dict) else None
    return model.strip('"') if isinstance(model, str) else None  # MLflow's values are JSON


def _tokens(attributes: Attributes) -> tuple[int | None, int | None]:
    """Return the tokens read and generated; of one that is not stated the rest of the total.

    Tokens of which only the total is stated are counted as read.
    """
    n_input, n_output, n_total = (number_of(attributes, names) for names in (_INPUT, _OUTPUT, _TOTAL))
    for name in _USAGE if n_input is None and n_output is None else ():
        if isinstance(details := parsed(attributes.get(name)), dict):
            n_input, n_output, total = (number_of(details, each) for each in _PARTS)
            n_total = n_total if total is None else total
            break
    if n_total is not None and n_total >= (n_input or n_output or 0) and None in (n_input, n_output):
        rest = n_total - (n_input or n_output or 0)
        return (rest, n_output) if n_input is None else (n_input, rest)
    return n_input, n_output


def _reported_cost(attributes: Attributes) -> float | None:
    """Return the cost that a span states, in all or in parts."""
    for name in _COST:
        value = attributes.get(name)
        cost = _amount(value.get("amount", value.get("total")) if isinstance(value, dict) else value)
        if cost is not None:
            return cost
    for names in _COST_PARTS:
        parts = [cost for name in names if (cost := _amount(attributes.get(name))) is not None]
        if parts:
            return sum(parts)
    details = parsed(attributes.get(_LANGFUSE_COST))
    if not isinstance(details, dict):
        return None
    parts = [cost for name, value in details.items() if name != "total" and (cost := _amount(value)) is not None]
    total = _amount(details.get("total"))
    return total if total is not None else sum(parts) if parts else None


def _amount(value: JsonValue) -> float | None:
    """Return an amount of money, which some packages state as text."""
    if isinstance(value, str) and re.fullmatch(r"\d{0,12}\.?\d{1,20}(?:[eE]-?\d{1,2})?", value):
        value = float(value)
    is_amount = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
    return float(value) if is_amount else None  # type: ignore[arg-type]


@lru_cache(maxsize=1000)
def _price(model: str) -> Price | None:
    identity = ModelIdentity(
        name=model,
        kind="openai-chat-completions",
        content_hash=None,
        tokenizer_hash=None,
        template_hash=None,
        dtype="unknown",
        numerics="unknown",
    )
    return find_price(identity)


# ---------------------------------------------------------------------------------------------- values


def first_of(attributes: Attributes, names: Iterable[str]) -> JsonValue:
    """Return the first of these attributes that is present."""
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def text_of(attributes: Attributes, names: Iterable[str]) -> str | None:
    """Return the first of these attributes as text; None if none is present, or it is empty."""
    value = first_of(attributes, names)
    if value is None or isinstance(value, dict | list):
        return None
    return str(value) or None


def number_of(attributes: Attributes, names: Iterable[str]) -> int | None:
    """Return the first of these attributes that is a count."""
    for name in names:
        value = attributes.get(name)
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 15:
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS:
            return value
    return None


def parsed(value: JsonValue, longest: int = LONGEST_JSON) -> JsonValue:
    """Return the value of a JSON text; any other value as it is."""
    if not isinstance(value, str) or len(value) > longest or value.lstrip()[:1] not in {"{", "["}:
        return value
    try:
        made: JsonValue = value if is_deeper(value, DEEPEST_JSON) else json.loads(value)
    except (ValueError, RecursionError):
        return value
    return made


def searched_text(name: str, attributes: Attributes, events: Sequence[Event], longest: int) -> str:
    """Return the searched text of a span: texts of its attributes and events, up to a number of characters."""
    pieces: list[str] = []
    left = longest
    for part in (attributes, *(event.attributes for event in events)):
        for value in part.values():
            if left <= 0:
                return " ".join(pieces)
            if isinstance(value, str) and len(value) > 1 and value != name:
                pieces.append(value[:left])
                left -= len(value)
            elif isinstance(value, list | dict):
                text = json.dumps(value, ensure_ascii=False)[:left]
                pieces.append(text)
                left -= len(text)
    return " ".join(pieces)
