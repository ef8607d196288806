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
    parts = [(one.choices[0].delta.content if one.choices else "", one.usage) for one in pieces]
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


def test_openais_client_parses_a_model_of_pydantic(openai: Any) -> None:
    """`parse` sends the schema of a class, strictly, and gets an object of it."""
    pydantic = pytest.importorskip("pydantic")
    answer = pydantic.create_model(
        "Answer", town=(str, pydantic.Field(max_length=10)), n=(pydantic.conint(ge=0, le=9), ...)
    )
    found = openai.chat.completions.parse(
        model="small", messages=MESSAGES, response_format=answer, max_tokens=400, temperature=0.0, frequency_penalty=1.0
    )
    assert isinstance(found.choices[0].message.parsed, answer)


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
    assert fulfils("".join(one.choices[0].delta.content or "" for one in streamed))
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
    assert "".join(str(one.content) for one in chat.stream("One evening Berin had to"))
    for method in ("json_schema", "function_calling"):
        assert isinstance(chat.with_structured_output(answer, method=method).invoke("Where is it?"), answer), method
    called = chat.bind_tools([WEATHER], tool_choice="weather").invoke("Weather?")
    assert called.tool_calls[0]["name"] == "weather"
