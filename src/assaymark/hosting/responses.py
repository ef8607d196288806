"""OpenAI's Responses, without state: a request becomes one of a chat, and the chat's answer a response.

Nothing is stored, so that what needs an earlier response, or works in the background, is refused by name.

Source: OpenAI's API reference (responses: create, streaming events).
"""

import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NotRequired, TypedDict

from assaymark.hosting.answer_bodies import AnswerChoice, CallBody, SpokenMessage, TokenUsage, comment, error_body
from assaymark.hosting.bad_request import BadRequest, value_text, wrong
from assaymark.hosting.exchange import Exchange, RequestFailed
from assaymark.hosting.scheduler import User
from assaymark.records import JsonValue
from assaymark.registry import nearest

AS_IN_CHATS = frozenset({"model", "temperature", "top_p", "stream", "user", "parallel_tool_calls", "top_k", "min_p",
                         "seed", "stop", "repetition_penalty", "ignore_eos", "frequency_penalty", "presence_penalty",
                         "logit_bias"})  # fmt: skip
TRANSLATED = frozenset({"input", "instructions", "tools", "tool_choice", "text", "max_output_tokens"})
WITHOUT_EFFECT = frozenset({"metadata", "service_tier", "prompt_cache_key", "safety_identifier", "stream_options"})
NEUTRAL: Mapping[str, tuple[object, ...]] = {  # accepted with these values only
    "store": (False, None), "background": (False, None), "previous_response_id": (None,), "conversation": (None,),
    "prompt": (None,), "include": ([], None), "truncation": ("disabled", None), "reasoning": ({}, None),
    "top_logprobs": (0, None), "max_tool_calls": (None,),
}  # fmt: skip
REMEDIES = {
    "store": "this host stores nothing; send store=false or omit it",
    "previous_response_id": "this host stores nothing; send the whole conversation as input",
    "conversation": "this host stores nothing; send the whole conversation as input",
    "background": "this host answers at once; omit it",
}
NAMES = {"messages": "input", "max_tokens": "max_output_tokens", "response_format": "text.format"}  # of a chat's fields
TEXT_PARTS = frozenset({"input_text", "output_text", "text"})
FORMATS = ("text", "json_object", "json_schema")


def chat_body_of(body: Mapping[str, object]) -> dict[str, object]:
    """Return the body of the chat request that a body of `/v1/responses` stands for.

    Raises: BadRequest with the field that is wrong, unknown, or needs a state.
    """
    known = AS_IN_CHATS | TRANSLATED | WITHOUT_EFFECT
    for name, value in body.items():
        if name in NEUTRAL:
            if not any(type(value) is type(neutral) and value == neutral for neutral in NEUTRAL[name]):
                remedy = REMEDIES.get(name, "omit it")
                raise BadRequest(f"{name}={value_text(value)} is not supported: {remedy}", name)
        elif name not in known:
            close = ", ".join(nearest(name, known | set(NEUTRAL)))
            raise BadRequest(f"unknown field '{name[:80]}'" + (f"; nearest: {close}" if close else ""), name[:80])
    chat = {name: body[name] for name in AS_IN_CHATS if name in body}
    chat["messages"] = _messages(body.get("input"), body.get("instructions"))
    if body.get("max_output_tokens") is not None:
        chat["max_tokens"] = body["max_output_tokens"]
    if body.get("tools"):
        chat["tools"] = _tools(body["tools"])
    if body.get("tool_choice") is not None:
        chat["tool_choice"] = _tool_choice(body["tool_choice"])
    if (form := _format(body.get("text"))) is not None:
        chat["response_format"] = form
    if chat.get("stream"):
        chat["stream_options"] = {"include_usage": True}
    return chat


def chat_error(error: BadRequest) -> BadRequest:
    """Return the error of a chat request with the names that the fields have here."""
    head = (error.param or "").partition("[")[0].partition(".")[0]
    if head not in NAMES:
        return error
    return BadRequest(str(error).replace(head, NAMES[head]), NAMES[head], error.code, error.status)


def _messages(items: object, instructions: object) -> list[dict[str, object]]:
    if instructions is not None and not isinstance(instructions, str):
        raise wrong("instructions", instructions, "a text")
    messages: list[dict[str, JsonValue]] = [{"role": "system", "content": instructions}] if instructions else []
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        raise wrong("input", items, 'a text, or a list of items such as {"role": "user", "content": "Hello"}')
    for number, item in enumerate(items):
        place = f"input[{number}]"
        kind = item.get("type", "message") if isinstance(item, dict) else None
        if kind == "message":
            messages.append({"role": item.get("role"), "content": _content(place, item.get("content"))})
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id"), "type": "function", "function": function}
            if not (messages and messages[-1]["role"] == "assistant"):
                messages.append({"role": "assistant", "content": None})
            earlier = messages[-1].get("tool_calls")
            messages[-1]["tool_calls"] = [*(earlier if isinstance(earlier, list) else ()), call]
        elif kind == "function_call_output":
            content = _content(f"{place}.output", item.get("output"))
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
        elif kind != "reasoning":  # which templates leave out of earlier answers
            known = "message, function_call, function_call_output or reasoning"
            raise BadRequest(f"{place} is {value_text(item)}; expected an item of type {known}", "input")
    return messages


def _content(place: str, content: object) -> str:
    """Return the text of an item. Raises: BadRequest for parts that are no texts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, dict) and part.get("type") in TEXT_PARTS and isinstance(part.get("text"), str)
        for part in content
    ):
        return "".join(part["text"] for part in content)
    expected = "a text or parts of type input_text; this host takes texts only"
    raise BadRequest(f"{place} is {value_text(content)}; expected {expected}", "input")


def _tools(tools: object) -> list[dict[str, object]]:
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise wrong("tools", tools, "a list of functions")
    for tool in tools:
        if tool.get("type") != "function":
            raise BadRequest(
                f"tools: {value_text(tool.get('type'))} is not offered by this host; expected type function", "tools"
            )
    names = ("name", "description", "parameters", "strict")
    return [
        {"type": "function", "function": {name: tool[name] for name in names if tool.get(name) is not None}}
        for tool in tools
    ]


def _tool_choice(choice: JsonValue) -> JsonValue:
    if isinstance(choice, dict) and choice.get("type") == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    return choice


def _format(text: JsonValue) -> dict[str, object] | None:
    """Return a chat's `response_format`. Raises: BadRequest."""
    form = text.get("format") if isinstance(text, dict) else text
    if form is None:
        return None
    kind = form.get("type") if isinstance(form, dict) else None
    if not isinstance(form, dict) or kind not in FORMATS:
        raise wrong("text.format", form, f"an object whose type is {', '.join(FORMATS)}")
    if kind == "json_schema":
        if not isinstance(form.get("schema"), dict):
            raise wrong("text.format.schema", form.get("schema"), "a JSON schema")
        return {"type": kind, "json_schema": {"name": form.get("name"), "schema": form["schema"]}}
    return {"type": kind}


class _OutputPart(TypedDict):
    type: str
    text: str
    annotations: NotRequired[list[object]]
    logprobs: NotRequired[list[object]]


class _Message(TypedDict):
    id: str
    type: Literal["message"]
    status: str
    role: str
    content: list[_OutputPart]


class _Reasoning(TypedDict):
    id: str
    type: Literal["reasoning"]
    summary: list[object]
    content: list[_OutputPart]


class _FunctionCall(TypedDict):
    id: str
    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    status: str


_Body = _Message | _Reasoning | _FunctionCall


@dataclass(slots=True)
class _Item:
    """An item of the output while it is streamed."""

    body: _Body
    index: int
    text: str = ""


@dataclass(slots=True)
class ResponseExchange:
    """The work of one request of `/v1/responses`: an `Exchange` of a chat, whose answer is written as a response."""

    exchange: Exchange
    body: Mapping[str, JsonValue]  # of the request
    model: str
    id: str = field(default_factory=lambda: f"resp_{uuid.uuid4().hex}")
    created_at: int = field(default_factory=lambda: int(time.time()))
    _n_events: int = 0

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream."""
        return self.exchange.is_stream

    @property
    def user(self) -> str | None:
        """The user that the request names."""
        return self.exchange.user

    @property
    def position(self) -> int:
        """The place in the queue; 0 if nothing waits."""
        return self.exchange.position

    def submit(self, user: User) -> None:
        """Submit the work; as `Exchange.submit`."""
        self.exchange.submit(user)

    def cancel(self) -> None:
        """Drop the work."""
        self.exchange.cancel()

    async def whole(self) -> dict[str, JsonValue]:
        """Return the response. Raises: RequestFailed."""
        chat = await self.exchange.whole()
        (choice,) = chat["choices"]
        return self._response(
            _output(choice["message"], choice["finish_reason"]), choice["finish_reason"], chat["usage"]
        )

    def _response(self, output: list[_Body], finish: str | None, usage: TokenUsage | None) -> dict[str, JsonValue]:
        """Return the response. finish: of the chat, None while it goes on."""
        body, is_cut = self.body, finish == "length"
        status = "in_progress" if finish is None else "incomplete" if is_cut else "completed"
        form = body.get("text")
        return {
            "id": self.id, "object": "response", "created_at": self.created_at, "status": status, "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None, "model": self.model,
            "instructions": body.get("instructions"), "max_output_tokens": body.get("max_output_tokens"),
            "output": output, "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
            "previous_response_id": None, "store": False, "temperature": body.get("temperature"),
            "top_p": body.get("top_p"), "truncation": "disabled", "reasoning": {"effort": None, "summary": None},
            "text": form if isinstance(form, dict) and form.get("format") else {"format": {"type": "text"}},
            "tool_choice": body.get("tool_choice") or "auto", "tools": body.get("tools") or [],
            "user": body.get("user"), "metadata": body.get("metadata") or {},
            "usage": None if usage is None else {
                "input_tokens": usage["prompt_tokens"], "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": usage["completion_tokens"], "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage["total_tokens"],
            },
        }  # fmt: skip

    # ---------------------------------------------------------------------------------------------- streams

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the response as server-sent events, each with its name and number."""
        output: list[_Item] = []
        finish: str | None = None
        usage: TokenUsage | None = None
        yield self._event("response.created", response=self._response([], None, None))
        yield self._event("response.in_progress", response=self._response([], None, None))
        try:
            async for chunks in self.exchange.chunks():
                if isinstance(chunks, str):
                    yield comment(chunks)
                    continue
                for chunk in chunks:
                    usage = chunk.get("usage") or usage
                    for choice in chunk["choices"]:
                        finish = choice["finish_reason"] or finish
                        if pieces := b"".join(self._pieces(choice, output)):
                            yield pieces
        except RequestFailed as failure:
            response = self._response([item.body for item in output], None, usage)
            error = {"code": "server_error", "message": error_body(str(failure), "server_error")["error"]["message"]}
            yield self._event("response.failed", response={**response, "status": "failed", "error": error})
            return
        done = self._response([item.body for item in output], finish or "stop", usage)
        yield self._event(f"response.{done['status']}", response=done)

    def _event(self, kind: str, **fields: object) -> bytes:
        content = {"type": kind, "sequence_number": self._n_events, **fields}
        self._n_events += 1
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        return f"event: {kind}\ndata: {text}\n\n".encode("utf-8", "replace")

    def _pieces(self, choice: AnswerChoice, output: list[_Item]) -> list[bytes]:
        """Return the events of one choice of a chunk, and add items that it begins to the output."""
        delta, finish = choice["delta"], choice["finish_reason"]
        events: list[bytes] = []
        if delta.get("reasoning_content"):
            events += self._whole_item(output, _reasoning(delta["reasoning_content"]))
        text, calls = delta.get("content"), delta.get("tool_calls") or ()
        is_open = bool(output) and output[-1].body["type"] == "message"
        if not is_open and (text or (finish is not None and not calls)):  # an answer without text is a message too
            events += self._begun(output)
            is_open = True
        if text:
            item = output[-1]
            item.text += text
            events.append(
                self._event("response.output_text.delta", **_at(item), content_index=0, delta=text, logprobs=[])
            )
        if finish is not None and is_open:
            events += self._ended(output[-1], finish)
        for call in calls:
            events += self._whole_item(output, _call(call, finish))
        return events

    def _begun(self, output: list[_Item]) -> list[bytes]:
        """Add a message to which texts will be added, and return its events."""
        body = _message("", "in_progress")
        item = _Item(body, len(output))
        output.append(item)
        part = {**body["content"][0]}
        opened = {**body, "content": []}
        return [
            self._event("response.output_item.added", output_index=item.index, item=opened),
            self._event("response.content_part.added", **_at(item), content_index=0, part=part),
        ]

    def _ended(self, item: _Item, finish: str) -> list[bytes]:
        body: _Message = {**_message(item.text, _status(finish)), "id": item.body["id"]}
        item.body = body
        (part,) = body["content"]
        return [
            self._event("response.output_text.done", **_at(item), content_index=0, text=item.text, logprobs=[]),
            self._event("response.content_part.done", **_at(item), content_index=0, part=part),
            self._event("response.output_item.done", output_index=item.index, item=item.body),
        ]

    def _whole_item(self, output: list[_Item], body: _Reasoning | _FunctionCall) -> list[bytes]:
        """Add an item that is known as a whole, and return its events."""
        item = _Item(body, len(output))
        output.append(item)
        if body["type"] == "reasoning":
            text = body["content"][0]["text"]
            opened: _Body = {**body, "content": []}
            kind, key, pieces = "reasoning_text", "text", {"content_index": 0}
        else:
            text = body["arguments"]
            opened = {**body, "arguments": "", "status": "in_progress"}
            kind, key, pieces = "function_call_arguments", "arguments", {}
        return [
            self._event("response.output_item.added", output_index=item.index, item=opened),
            self._event(f"response.{kind}.delta", **_at(item), **pieces, delta=text),
            self._event(f"response.{kind}.done", **_at(item), **pieces, **{key: text}),
            self._event("response.output_item.done", output_index=item.index, item=body),
        ]


def _at(item: _Item) -> dict[str, object]:
    return {"item_id": item.body["id"], "output_index": item.index}


def _output(message: SpokenMessage, finish: str | None) -> list[_Body]:
    """Return the items of a whole answer."""
    items: list[_Body] = [_reasoning(message["reasoning_content"])] if message.get("reasoning_content") else []
    calls = message.get("tool_calls") or ()
    if message.get("content") or not calls:
        items.append(_message(message.get("content") or "", _status(finish)))
    return [*items, *(_call(call, finish) for call in calls)]


def _status(finish: str | None) -> str:
    return "incomplete" if finish == "length" else "completed"


def _message(text: str, status: str) -> _Message:
    part: _OutputPart = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": [part],
    }


def _reasoning(text: str) -> _Reasoning:
    part: _OutputPart = {"type": "reasoning_text", "text": text}
    return {"id": f"rs_{uuid.uuid4().hex}", "type": "reasoning", "summary": [], "content": [part]}


def _call(call: CallBody, finish: str | None) -> _FunctionCall:
    function = call["function"]
    return {
        "id": f"fc_{uuid.uuid4().hex}", "type": "function_call", "call_id": call["id"], "name": function["name"],
        "arguments": function["arguments"], "status": _status(finish),
    }  # fmt: skip
