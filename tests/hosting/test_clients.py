"""Clients of others against our host: openai, litellm and LangChain; whole answers, streams, forms, calls, refusals."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hosting.test_required_forms import FORM, SCHEMA, WEATHER

pytestmark = pytest.mark.slow

MESSAGES: list[Any] = [{"role": "user", "content": "Where does Berin live?"}]


def fulfils(text: str) -> bool:
    """Return whether a text is JSON of the schema."""
    jsonschema = pytest.importorskip("jsonschema")
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(json.loads(text)))


@pytest.fixture
def url(tool_host: str) -> str:
    """Return the address of a host."""
    return tool_host


@pytest.fixture
def openai(url: str) -> Iterator[Any]:
    """Return OpenAI's client of the host."""
    package = pytest.importorskip("openai")
    with package.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def test_openai(openai: Any) -> None:
    """Its client reads whole answers, streams, forms, calls, log-probabilities, and the error of a long prompt."""
    asked: dict[str, Any] = {"model": "small", "messages": MESSAGES, "seed": 1, "max_tokens": 80}
    assert openai.models.list().data[0].id == "small"
    formed = openai.chat.completions.create(**asked, response_format=FORM)
    assert formed.choices[0].finish_reason == "stop"
    assert fulfils(formed.choices[0].message.content)
    pieces = openai.chat.completions.create(
        **asked, response_format=FORM, stream=True, stream_options={"include_usage": True}
    )
    parts = [(piece.choices[0].delta.content if piece.choices else "", piece.usage) for piece in pieces]
    assert "".join(text or "" for text, _ in parts) == formed.choices[0].message.content
    assert parts[-1][1].completion_tokens == formed.usage.completion_tokens
    called = openai.chat.completions.create(**asked, tools=[WEATHER], tool_choice="required").choices[0]
    assert called.finish_reason == "tool_calls"
    assert set(json.loads(called.message.tool_calls[0].function.arguments)) == {"city"}
    scored = openai.completions.create(model="small", prompt="5 and 7 are", max_tokens=1, logprobs=2, temperature=0)
    assert len(scored.choices[0].logprobs.top_logprobs[0]) == 2
    package = pytest.importorskip("openai")
    with pytest.raises(package.BadRequestError, match="This model's maximum context length is 1024 tokens") as refused:
        openai.completions.create(model="small", prompt="word " * 3000)
    assert refused.value.code == "context_length_exceeded"


def test_openai_streams_calls_and_biases_tokens(openai: Any) -> None:
    """The arguments of a streamed call join to JSON; a token with a bias of -100 is never generated."""
    asked: dict[str, Any] = {"model": "small", "messages": MESSAGES, "seed": 1, "max_tokens": 80}
    called = openai.chat.completions.create(**asked, tools=[WEATHER], tool_choice="required", stream=True)
    deltas = [call for chunk in called for call in chunk.choices[0].delta.tool_calls or ()]
    assert [call.function.name for call in deltas if call.function.name] == ["weather"]
    assert set(json.loads("".join(call.function.arguments or "" for call in deltas))) == {"city"}
    first: dict[str, Any] = {"model": "small", "prompt": "One day", "max_tokens": 1, "temperature": 0, "logprobs": 1}
    plain = openai.completions.create(**first)
    tokens = {str(number): -100 for number in range(1000)}
    biased = openai.completions.create(**first, logit_bias=tokens)
    assert biased.choices[0].logprobs.tokens != plain.choices[0].logprobs.tokens


def test_openais_responses(openai: Any) -> None:
    """Its client creates, streams and parses responses, and calls functions with their results sent back."""
    pydantic = pytest.importorskip("pydantic")
    answer = pydantic.create_model(
        "Answer", town=(str, pydantic.Field(max_length=10)), n=(pydantic.conint(ge=0, le=9), ...)
    )
    asked: dict[str, Any] = {"model": "small", "input": MESSAGES, "max_output_tokens": 80}
    longer: dict[str, Any] = {"temperature": 0, "extra_body": {"ignore_eos": True}}
    whole = openai.responses.create(**asked, instructions="Be brief.", **longer)
    assert whole.output_text
    assert whole.usage.output_tokens <= 80
    with openai.responses.stream(**asked, instructions="Be brief.", **longer) as events:
        arrived = list(events)
    pieces = [event.delta for event in arrived if event.type == "response.output_text.delta"]
    assert arrived[-1].type == "response.incomplete"  # it reached max_output_tokens
    assert "".join(pieces) == arrived[-1].response.output_text == whole.output_text
    parsed = openai.responses.parse(
        model="small", input=MESSAGES, text_format=answer, max_output_tokens=400, temperature=0.0,
        extra_body={"frequency_penalty": 1.0},
    )  # fmt: skip
    assert isinstance(parsed.output_parsed, answer)
    tool = {"type": "function", **WEATHER["function"]}
    (call,) = openai.responses.create(**asked, tools=[tool], tool_choice="required").output
    assert set(json.loads(call.arguments)) == {"city"}
    package = pytest.importorskip("openai")
    with pytest.raises(package.BadRequestError, match="This model's maximum context length"):
        openai.responses.create(model="small", input="word " * 3000)


def test_openais_client_parses_a_model_of_pydantic(openai: Any) -> None:
    """`parse` sends the schema of a class, strictly, and gets an object of it."""
    pydantic = pytest.importorskip("pydantic")
    answer = pydantic.create_model(
        "Answer", town=(str, pydantic.Field(max_length=10)), n=(pydantic.conint(ge=0, le=9), ...)
    )
    result = openai.chat.completions.parse(
        model="small", messages=MESSAGES, response_format=answer, max_tokens=400, temperature=0.0, frequency_penalty=1.0
    )
    assert isinstance(result.choices[0].message.parsed, answer)


@pytest.mark.filterwarnings("ignore")
def test_litellm(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its completion has the form and the calls, and a prompt that is too long is its ContextWindowExceededError."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # nothing is fetched
    litellm = pytest.importorskip("litellm")
    asked: dict[str, Any] = {
        "model": "openai/small",
        "api_base": url,
        "api_key": "none",
        "messages": MESSAGES,
        "seed": 1,
    }
    formed = litellm.completion(**asked, response_format=FORM, max_tokens=80)
    assert fulfils(formed.choices[0].message.content)
    called = litellm.completion(**asked, tools=[WEATHER], tool_choice="required", max_tokens=80)
    assert called.choices[0].message.tool_calls[0].function.name == "weather"
    streamed = litellm.completion(**asked, response_format=FORM, max_tokens=80, stream=True)
    assert fulfils("".join(each.choices[0].delta.content or "" for each in streamed))
    pieces = litellm.completion(**asked, tools=[WEATHER], tool_choice="required", max_tokens=80, stream=True)
    arguments = [call.function.arguments for piece in pieces for call in piece.choices[0].delta.tool_calls or ()]
    assert set(json.loads("".join(text or "" for text in arguments))) == {"city"}
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**{**asked, "messages": [{"role": "user", "content": "word " * 3000}]})


@pytest.mark.filterwarnings("ignore")
def test_langchain(url: str) -> None:
    """Its chat model answers, streams, calls tools, and returns structured output by schema and by calls."""
    package = pytest.importorskip("langchain_openai")
    pydantic = pytest.importorskip("pydantic")
    answer = pydantic.create_model("Answer", town=(str, pydantic.Field(max_length=10)),
                                   n=(pydantic.conint(ge=0, le=9), ...))  # fmt: skip
    chat = package.ChatOpenAI(base_url=url, api_key="none", model="small", max_tokens=400, seed=1, max_retries=0,
                              frequency_penalty=1.0)  # fmt: skip
    assert isinstance(chat.invoke("Where does Berin live?").content, str)
    assert "".join(str(each.content) for each in chat.stream("One evening Berin had to"))
    for method in ("json_schema", "function_calling"):
        assert isinstance(chat.with_structured_output(answer, method=method).invoke("Where is it?"), answer), method
    called = chat.bind_tools([WEATHER], tool_choice="weather").invoke("Weather?")
    assert called.tool_calls[0]["name"] == "weather"
    chunks = list(chat.bind_tools([WEATHER], tool_choice="weather").stream("Weather?"))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert set(whole.tool_calls[0]["args"]) == {"city"}
    responding = package.ChatOpenAI(
        base_url=url,
        api_key="none",
        model="small",
        max_tokens=80,
        max_retries=0,
        use_responses_api=True,
        temperature=0,
        extra_body={"ignore_eos": True},
    )
    assert responding.invoke("One evening Berin had to").text
    assert "".join(part["text"] for item in responding.stream("One evening Berin had to") for part in item.content
                   if isinstance(part, dict) and part.get("type") == "text")  # fmt: skip
