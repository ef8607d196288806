"""Read the bodies of requests into checked records; unsupported settings are refused, never ignored.

Errors have OpenAI's form. A field that this host does not know is refused with the nearest known ones, since a setting
that is silently ignored makes a wrong text; fields without an effect on the text are accepted.

Messages become records, with the calls of tools and their results.

Source: OpenAI's API reference (completions, chat completions); `top_k`, `min_p`, `repetition_penalty` and `ignore_eos`
    as in vLLM.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from assaymark.hosting.answer_bodies import Tools, tools_in
from assaymark.hosting.bad_request import BadRequest, value_text, wrong
from assaymark.hosting.grammars import Grammar, schema_grammar, tool_grammar
from assaymark.limits.nesting import json_kind, parse_json
from assaymark.records import CallPart, JsonValue, Message, ResultPart, TextPart
from assaymark.registry import nearest

Kind = Literal["chat", "completion"]
MOST_TOP = 20
MOST_REPEATS = 64
MOST_PROMPTS = 64
MOST_STOPS = 32
MOST_BIASES = 1_024
LONGEST_STOP = 1_000  # characters
LARGEST_SEED = 2**63 - 1
DEPTH = 20
SHARED = frozenset({"model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed",
                    "stop", "n", "stream", "stream_options", "logprobs", "user", "ignore_eos", "frequency_penalty",
                    "presence_penalty", "logit_bias", "response_format"})  # fmt: skip
OF_KIND: Mapping[str, frozenset[str]] = {
    "chat": frozenset(
        {"messages", "max_completion_tokens", "top_logprobs", "continue_final_message", "tools", "tool_choice"}
    ),
    "completion": frozenset({"prompt", "echo"}),
}
MOST_MESSAGES = 4_096
MOST_CALLS = 128  # in one message
ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
NULL_IN_MESSAGES = frozenset({"refusal", "audio", "annotations", "function_call", "reasoning_content"})
OF_ROLE: Mapping[str, frozenset[str]] = {"assistant": frozenset({"tool_calls"}), "tool": frozenset({"tool_call_id"})}
WITHOUT_EFFECT = frozenset({"metadata", "store", "service_tier", "prompt_cache_key", "safety_identifier"})
NEUTRAL: Mapping[str, tuple[object, ...]] = {  # accepted with these values only
    "best_of": (1, None),
    "suffix": ("", None), "tools": ([], None), "tool_choice": ("none", "auto", None), "functions": ([], None),
    "function_call": ("none", "auto", None),
    "modalities": (["text"], None),
    "parallel_tool_calls": (True, False, None), "add_generation_prompt": (True, None), "stop_token_ids": ([], None),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """How texts are generated; None where the request leaves it to the model or the host."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    ignore_eos: bool = False
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()  # token id, what is added to its logit


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: texts or token ids to continue, or messages to answer.

    n_top: log-probabilities with this many alternatives; None without. echo: the prompt belongs to the text.
    """

    kind: Kind
    model: str | None
    settings: Settings
    prompts: tuple[str | tuple[int, ...], ...] = ()
    messages: tuple[Message, ...] = ()
    continues_last: bool = False
    n_top: int | None = None
    echo: bool = False
    tools: Tools | None = None  # that the model may call
    grammar: Grammar | None = None  # that the answer must follow
    stream: bool = False
    wants_usage: bool = False  # in a stream
    user: str | None = None
    fields: Mapping[str, JsonValue] = field(default_factory=dict)


def parse_body(content: bytes) -> dict[str, object]:
    """Return the JSON object of a body. Raises: BadRequest."""
    try:
        text = content.decode("utf-8")
        body = parse_json(text, DEPTH)
        if "\\ud" in text.lower():  # half of a surrogate pair is not a text, and no tokenizer takes it
            json.dumps(body, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not valid JSON: {str(error)[:200]}") from None
    if not isinstance(body, dict):
        raise BadRequest(f"the body is a JSON {json_kind(body)}; expected an object")
    return body


def read_ask(kind: Kind, body: Mapping[str, object]) -> Ask:
    """Return the request in a body. Raises: BadRequest with the field that is wrong."""
    _refuse_unknown(kind, body)
    user = _text(body, "user")
    options = body.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise wrong("stream_options", options, 'an object such as {"include_usage": true}')
    ask = Ask(
        kind=kind,
        model=_text(body, "model"),
        settings=_settings(body),
        n_top=_n_top(kind, body),
        grammar=_grammar(body),
        stream=_flag(body, "stream"),
        wants_usage=bool((options or {}).get("include_usage")),
        user=user,
    )
    if kind == "chat":
        messages = read_messages(body.get("messages"))
        continues = _flag(body, "continue_final_message")
        if continues and messages[-1].role != "assistant":
            raise BadRequest("continue_final_message needs a last message of the assistant", "continue_final_message")
        tools = _tools(body)
        if tools is not None and tools.forced:
            if ask.grammar is not None:
                raise BadRequest(
                    "response_format and a tool_choice that forces a call exclude each other", "tool_choice"
                )
            ask = replace(ask, grammar=tool_grammar(tools.forced))
        _check_grammar(ask.grammar, ask.settings)
        return replace(ask, messages=messages, continues_last=continues, tools=tools)
    _check_grammar(ask.grammar, ask.settings)
    return replace(ask, prompts=_prompts(body), echo=_flag(body, "echo"))


def _tools(body: Mapping[str, object]) -> Tools | None:
    try:
        return tools_in(body.get("tools"), body.get("tool_choice"))
    except ValueError as error:
        raise BadRequest(str(error), "tool_choice" if str(error).startswith("tool_choice") else "tools") from error


def _grammar(body: Mapping[str, JsonValue]) -> Grammar | None:
    """Return the format that `response_format` asks for; None for text."""
    form = body.get("response_format")
    if form is None:
        return None
    expected = 'an object whose type is "text", "json_object" or "json_schema"'
    if not isinstance(form, dict):
        raise wrong("response_format", form, expected)
    kind = form.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return schema_grammar(None)
    if kind == "json_schema":
        named = form.get("json_schema")
        if not isinstance(named, dict) or not isinstance(named.get("schema", {}), dict):
            raise wrong("response_format.json_schema", named, 'an object such as {"name": "x", "schema": {...}}')
        return schema_grammar(named.get("schema"))
    raise wrong("response_format", form, expected)


def _check_grammar(grammar: Grammar | None, settings: Settings) -> None:
    """Raises: BadRequest for settings that could end an answer before it has its form."""
    if grammar is not None and (settings.stop or settings.ignore_eos):
        name = "stop" if settings.stop else "ignore_eos"
        raise BadRequest(f"{name} and {grammar.param} exclude each other: the form decides where an answer ends", name)


def _logit_bias(logit_bias: object) -> tuple[tuple[int, float], ...]:
    expected = f"an object of at most {MOST_BIASES} token ids with numbers from -100 to 100"
    if logit_bias is None:
        return ()
    if not isinstance(logit_bias, dict) or len(logit_bias) > MOST_BIASES:
        raise wrong("logit_bias", logit_bias, expected)
    biases = []
    for name, value in logit_bias.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and -100 <= value <= 100
        if not (name.isascii() and name.isdigit() and len(name) < 10 and is_number):
            raise wrong("logit_bias", {name: value}, expected)
        biases.append((int(name), float(value)))
    return tuple(biases)


def _refuse_unknown(kind: Kind, body: Mapping[str, object]) -> None:
    known = SHARED | OF_KIND[kind]
    for name, value in body.items():
        if name in NEUTRAL and name not in known:
            if not any(type(value) is type(neutral) and value == neutral for neutral in NEUTRAL[name]) and value != 0:
                raise BadRequest(f"{name}={value_text(value)} is not supported by this host; omit it", name)
        elif name not in known and name not in WITHOUT_EFFECT:
            close = ", ".join(nearest(name, known))
            raise BadRequest(f"unknown field '{name[:80]}'" + (f"; nearest: {close}" if close else ""), name[:80])


def _settings(body: Mapping[str, object]) -> Settings:
    most = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    top_k = _whole(body, "top_k", -1, 2**31)
    return Settings(
        max_tokens=_whole(body, most, 0, 2**31),
        temperature=_number(body, "temperature", 0, 100),
        top_p=_number(body, "top_p", 0, 1),
        top_k=None if top_k is None else max(0, top_k),
        min_p=_number(body, "min_p", 0, 1),
        repetition_penalty=_number(body, "repetition_penalty", 1e-3, 1e3),
        seed=_whole(body, "seed", -LARGEST_SEED, LARGEST_SEED),
        stop=_stops(body.get("stop")),
        n=_whole(body, "n", 1, MOST_REPEATS) or 1,
        ignore_eos=_flag(body, "ignore_eos"),
        frequency_penalty=_number(body, "frequency_penalty", -2, 2) or 0.0,
        presence_penalty=_number(body, "presence_penalty", -2, 2) or 0.0,
        logit_bias=_logit_bias(body.get("logit_bias")),
    )


def _n_top(kind: Kind, body: Mapping[str, object]) -> int | None:
    """Return the number of alternatives; chats ask with a flag and a number, completions with a number."""
    if kind == "completion":
        return _whole(body, "logprobs", 0, MOST_TOP)
    number = _whole(body, "top_logprobs", 0, MOST_TOP)
    if not _flag(body, "logprobs"):
        if number:
            raise BadRequest("top_logprobs needs logprobs=true", "top_logprobs")
        return None
    return number or 0


def _prompts(body: Mapping[str, object]) -> tuple[str | tuple[int, ...], ...]:
    """Return the prompts of a completion: a text, token ids, or a list of either."""
    prompt = body.get("prompt")
    expected = "a text, a list of token ids, or a list of those"
    if isinstance(prompt, str):
        return (prompt,)
    if not isinstance(prompt, list) or not prompt:
        raise wrong("prompt", prompt, expected)
    if _are_ids(prompt):
        return (tuple(prompt),)
    if len(prompt) > MOST_PROMPTS:
        raise BadRequest(f"prompt has {len(prompt)} entries; expected at most {MOST_PROMPTS} in one request", "prompt")
    if not all(isinstance(entry, str) or (isinstance(entry, list) and _are_ids(entry)) for entry in prompt):
        raise wrong("prompt", prompt, expected)
    return tuple(entry if isinstance(entry, str) else tuple(entry) for entry in prompt)


def _are_ids(values: list[object]) -> bool:
    return bool(values) and all(type(value) is int and 0 <= value < 2**31 for value in values)


def _stops(stop: object) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(text, str) for text in stops):
        raise wrong("stop", stop, "a text or a list of texts")
    if len(stops) > MOST_STOPS or any(len(text) > LONGEST_STOP for text in stops):
        raise BadRequest(f"stop: at most {MOST_STOPS} texts of at most {LONGEST_STOP} characters", "stop")
    return tuple(text for text in stops if text)


def _text(body: Mapping[str, object], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise wrong(name, value, "a text")
    return value


def _flag(body: Mapping[str, object], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong(name, value, "true or false")
    return bool(value)


def _whole(body: Mapping[str, object], name: str, least: int, most: int) -> int | None:
    value = body.get(name)
    if value is not None and (type(value) is not int or not least <= value <= most):
        raise wrong(name, value, f"a whole number from {least} to {most}")
    return value


def _number(body: Mapping[str, object], name: str, least: float, most: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not (
        least <= value <= most
    ):  # fmt: skip
        raise wrong(name, value, f"a number from {least:g} to {most:g}")
    return float(value)


def read_messages(value: object) -> tuple[Message, ...]:
    """Return the messages of a request. Raises: BadRequest with the place of the fault."""
    if not isinstance(value, list) or not 0 < len(value) <= MOST_MESSAGES:
        raise wrong("messages", value, 'a list such as [{"role": "user", "content": "Hello"}]')
    called: dict[str, str] = {}  # names of the functions called so far, by the call's id
    messages = []
    for index, message in enumerate(value):
        messages.append(_message(f"messages[{index}]", message, called))
        called |= {call.id: call.name for call in messages[-1].calls}
    return tuple(messages)


def _message(place: str, message: object, called: Mapping[str, str]) -> Message:
    if not isinstance(message, dict) or str(message.get("role")) not in ROLES:
        raise wrong(place, message, f"an object with a role ({', '.join(ROLES)}) and a content")
    role = cast("Literal['system', 'user', 'assistant', 'tool']", ROLES[str(message["role"])])
    known = {"role", "content", "name"} | OF_ROLE.get(role, frozenset())
    # clients send a message back as they received it, with fields that are null
    strange = sorted(
        name for name, value in message.items() if name not in known and not (name in NULL_IN_MESSAGES and not value)
    )
    if strange:
        raise BadRequest(f"{place} has {', '.join(strange)[:80]}, which this host does not support", place)
    if role == "tool":
        return Message(role, (_result(place, message, called),))
    calls = _calls(f"{place}.tool_calls", message.get("tool_calls"))
    if calls and message.get("content") in (None, ""):
        return Message(role, calls)
    return Message(role, (*_texts(place, message.get("content")), *calls))


def _texts(place: str, content: object) -> tuple[TextPart, ...]:
    if isinstance(content, str):
        return (TextPart(content),)
    if isinstance(content, list) and content:
        if all(isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
               for part in content):  # fmt: skip
            return tuple(TextPart(part["text"]) for part in content)
        raise BadRequest(f"{place} contains a part that is not a text; this host takes texts only", place)
    raise wrong(f"{place}.content", content, "a text")


def _calls(place: str, calls: object) -> tuple[CallPart, ...]:
    """Return the calls of an assistant's message. Raises: BadRequest."""
    if calls is None or calls == []:
        return ()
    if not isinstance(calls, list) or len(calls) > MOST_CALLS:
        raise wrong(place, calls, f"a list of at most {MOST_CALLS} calls of functions")
    return tuple(_call(f"{place}[{number}]", call) for number, call in enumerate(calls))


def _call(place: str, call: JsonValue) -> CallPart:
    function = call.get("function") if isinstance(call, dict) and call.get("type", "function") == "function" else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise wrong(place, call, 'an object such as {"id": "1", "type": "function", "function": {"name": "f", '
                    '"arguments": "{}"}}')  # fmt: skip
    for name, value in (("id", call.get("id")), ("function.name", function.get("name"))):
        if not isinstance(value, str) or not value:
            raise wrong(f"{place}.{name}", value, "a text")
    try:
        arguments = parse_json(function["arguments"], DEPTH)
    except (KeyError, TypeError, ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise wrong(f"{place}.function.arguments", function.get("arguments"), "the JSON text of an object")
    return CallPart(call["id"], function["name"], json.dumps(arguments, ensure_ascii=False))


def _result(place: str, message: Mapping[str, object], called: Mapping[str, str]) -> ResultPart:
    """Return a tool's result. Raises: BadRequest, also where no earlier message has made the call."""
    text = "".join(part.text for part in _texts(place, message.get("content")))
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str) or call_id not in called:
        expected = "the id of a call in an earlier message" + (f": {', '.join(called)}"[:200] if called else "")
        raise wrong(f"{place}.tool_call_id", call_id, expected)
    return ResultPart(call_id, called[call_id], text)
