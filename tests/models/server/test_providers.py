"""Requests to services beside OpenAI have the shape that each one documents, and their errors are read.

The shapes below are recorded from the services' public documentation and from reports of what they refuse; a server on
this machine applies them: it refuses what the service refuses, so that a request in another shape fails here.

Source: Azure OpenAI REST API reference, 2024-10-21; Anthropic, OpenAI SDK compatibility; Gemini API, OpenAI
    compatibility, with its refusal of unknown fields; LiteLLM, proxy; Anthropic API, errors.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from assaymark.errors import ModelUnavailable, UnknownName, UsageError
from assaymark.models.server.arguments import openai_arguments, provider_of
from assaymark.models.server.failures import failure_of_answer
from assaymark.models.server.openai_compatible import OpenAIModel
from assaymark.models.server.pace import RetryRules
from assaymark.records import GenerateQuery, GenerationSettings, Message, Output, Request, TextPart
from tests.http_servers import JsonHandler, LoopbackServer, serving

KEY = "test-key-0123456789"
COMMON = {"model", "messages", "temperature", "top_p", "stop", "stream", "n", "tools"}


@dataclass(frozen=True)
class Shape:
    """What one service accepts, and how it refuses the rest."""

    path: str
    key: tuple[str, str]  # header and value
    accepts: set[str]
    query: str = ""
    refuse: Any = field(default=lambda name: {"error": {"message": f"Unrecognized request argument: {name}"}})
    usage: Any = field(default_factory=lambda: {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15})


def gemini_refusal(name: str) -> Any:
    """Return Gemini's answer to an unknown field, as reported: a list with one error."""
    message = f'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'
    violation = {"description": message}
    details = [{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}]
    return [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT", "details": details}}]


BEARER = ("authorization", f"Bearer {KEY}")
SHAPES = {
    "azure": Shape(
        "/openai/deployments/my-gpt/chat/completions",
        ("api-key", KEY),
        COMMON | {"max_completion_tokens", "seed", "logprobs", "top_logprobs"},
        query="api-version=2024-10-21",
    ),
    "anthropic": Shape("/v1/chat/completions", BEARER, COMMON | {"max_tokens", "max_completion_tokens"}),
    "gemini": Shape(
        "/v1beta/openai/chat/completions",
        BEARER,
        COMMON | {"max_tokens", "max_completion_tokens"},
        refuse=gemini_refusal,
        usage={"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 40},  # 25 tokens of reasoning
    ),
    "other": Shape("/v1/chat/completions", BEARER, COMMON | {"max_tokens", "seed"}),  # a LiteLLM proxy
}
ARGUMENTS = {
    "azure": {"base_url": "/openai/deployments/my-gpt", "api_version": "2024-10-21"},
    "anthropic": {"base_url": "/v1"},
    "gemini": {"base_url": "/v1beta/openai"},
    "other": {"base_url": "/v1"},
}


class _Handler(JsonHandler):
    server: "Service"

    def do_GET(self) -> None:
        """List no models: services that have no such list answer an unknown path."""
        self.send_json({"error": {"message": "not found"}}, 404)

    def do_POST(self) -> None:
        """Refuse what the service refuses, else answer."""
        shape, body, place = self.server.shape, self.read_json(), urlsplit(self.path)
        self.server.bodies.append(body)
        strange = sorted(body.keys() - shape.accepts)
        if (place.path, place.query) != (shape.path, shape.query):
            self.send_json({"error": {"code": "404", "message": f"Resource not found: {self.path}"}}, 404)
        elif self.headers.get(shape.key[0]) != shape.key[1]:
            self.send_json({"error": {"code": "401", "message": "Access denied due to invalid subscription key"}}, 401)
        elif strange:
            self.send_json(shape.refuse(strange[0]), 400)
        elif any(not stop.strip() for stop in body.get("stop", ())) and self.server.name == "anthropic":
            self.send_json({"error": {"type": "invalid_request_error", "message": "stop must not be whitespace"}}, 400)
        else:
            message = {"role": "assistant", "content": "42\n\nQ: next", "refusal": None}
            choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
            self.send_json({"id": "x", "object": "chat.completion", "choices": [choice], "usage": shape.usage})


class Service(LoopbackServer):
    """One of the services."""

    def __init__(self, name: str) -> None:
        super().__init__(_Handler)
        self.name, self.shape = name, SHAPES[name]
        self.bodies: list[dict[str, Any]] = []

    def answer(self, **more: Any) -> Output:
        """Return the model's output for one chat."""
        inputs = {**ARGUMENTS[self.name], **more}
        inputs = {"model": "m", "provider": self.name, **inputs, "base_url": self.address + inputs["base_url"]}
        model = OpenAIModel(openai_arguments("local-chat-completions", inputs), RetryRules(1, 1.0, 0.01, 0.01))
        settings = GenerationSettings(max_tokens=16, stop=("\n\n", "Q:"))
        request = Request("t", 0, "", (), (GenerateQuery(0, settings),), (Message("user", (TextPart("6 * 7?"),)),))
        (output,) = model.answer([request])
        return output


@pytest.fixture(params=list(SHAPES))
def service(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Serve each service in turn."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(Service(request.param)) as result:
        yield result


def test_a_request_has_the_services_shape(service: Service) -> None:
    """Path, query, key and fields are accepted by each service; stop texts are applied here too."""
    output = service.answer()
    assert output.error is None
    assert output.text == "42"
    (body,) = service.bodies
    assert ("seed" in body) == (service.name in {"azure", "other"})
    assert ("max_completion_tokens" in body) == (service.name == "azure")
    assert output.n_context_tokens == 12
    assert output.n_tokens == (28 if service.name == "gemini" else 3)  # what is billed


def test_a_wrong_key_ends_the_run(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """401 is one error for the whole run; the key itself is in no message."""
    monkeypatch.setenv("OPENAI_API_KEY", "wrong-key-0123456789")
    with pytest.raises(ModelUnavailable) as raised:
        service.answer()
    assert "401" in str(raised.value)
    assert "wrong-key" not in str(raised.value)


def test_a_setting_of_the_user_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that the user set and the service refuses is a refused request with the service's own words."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(Service("gemini")) as result:
        model_args = {"model": "m", "base_url": result.address + "/v1beta/openai", "provider": "gemini"}
        model = OpenAIModel(openai_arguments("local-chat-completions", model_args), RetryRules(1, 1.0, 0.01, 0.01))
        settings = GenerationSettings(max_tokens=4, do_sample=True, temperature=1.0, top_k=5)
        request = Request("t", 0, "", (), (GenerateQuery(0, settings),), (Message("user", (TextPart("?"),)),))
        (output,) = model.answer([request])
    assert output.error_kind == "RequestRefused"
    assert 'Unknown name "top_k": Cannot find field' in str(output.error)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("my-resource.openai.azure.com", "azure"),
        ("my-resource.services.ai.azure.com", "azure"),
        ("api.anthropic.com", "anthropic"),
        ("generativelanguage.googleapis.com", "gemini"),
        ("api.openai.com", "openai"),
        ("localhost", "other"),
        ("openai.azure.com.example.org", "other"),
    ],
)
def test_a_service_is_recognised_by_its_host(host: str, name: str) -> None:
    """The end of the host's name decides, so a host that only begins like a service is another one."""
    assert provider_of(host).name == name
    arguments = openai_arguments("local-chat-completions", {"model": "m", "base_url": f"https://{host}/v1"})
    assert arguments.provider.name == name
    assert (
        arguments.options
        == openai_arguments("local-chat-completions", {"model": "m", "base_url": f"https://{host}/v1/"}).options
    )
    assert "provider" not in dict(arguments.options)  # plans of runs before this argument keep their keys


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"provider": "azur"}, UnknownName, "nearest: azure"),
        ({"service": "azure"}, UnknownName, "service"),
        ({"base_url": "https://x.openai.azure.com/openai/deployments/d"}, UsageError, "api_version=2024-10-21"),
        ({"provider": "anthropic", "top_logprobs": 5}, UsageError, "anthropic gives no log-probabilities"),
        ({"base_url": "https://api.openai.com/v1", "model": "o4-mini", "top_logprobs": 5}, UsageError, "o4-mini"),
        ({"top_logprobs": 0}, UsageError, "top_logprobs"),
    ],
)
def test_arguments_that_cannot_work_are_refused(given: dict[str, Any], error: type[Exception], says: str) -> None:
    """What a service needs and was not given, or cannot do, is refused before anything is sent."""
    with pytest.raises(error, match=says):
        openai_arguments("local-chat-completions", {"model": "m", "base_url": "http://localhost/v1", **given})


ERRORS: dict[str, tuple[int, Any, str, bool, float | None]] = {
    "Azure's filter": (
        400,
        {"error": {"code": "content_filter", "message": "The response was filtered due to the prompt triggering Azure "
         "OpenAI's content management policy.", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        "AnswerWithheld", False, None,
    ),
    "Anthropic is overloaded": (
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "ServerFailed", True, None,
    ),
    "Gemini's limit per minute": (
        429,
        [{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota, please "
          "check your plan and billing details.", "details": [
              {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}]}}],
        "RateLimited", True, 37.0,
    ),
    "OpenAI's used-up quota": (
        429,
        {"error": {"message": "You exceeded your current quota, please check your plan and billing details.",
                   "type": "insufficient_quota", "code": "insufficient_quota"}},
        "ModelUnavailable", False, None,
    ),
    "Gemini's invalid key": (
        400,
        [{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.",
                    "status": "INVALID_ARGUMENT"}}],
        "ModelUnavailable", False, None,
    ),
    "LiteLLM's refusal": (
        400,
        {"error": {"message": "litellm.BadRequestError: OpenAIException - Invalid value", "type": None, "param": None,
                   "code": "400"}},
        "RequestRefused", False, None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_the_errors_of_services_are_read(case: str) -> None:
    """What may be tried again, after which pause, and what ends the run follows from each service's own form."""
    status, body, kind, may_retry, wait = ERRORS[case]
    result = failure_of_answer(status, {}, json.dumps(body))
    assert (result.error.__name__, result.may_retry, result.retry_after_s) == (kind, may_retry, wait)
    said = body[0]["error"]["message"] if isinstance(body, list) else body["error"]["message"]
    assert said[:60] in result.message
