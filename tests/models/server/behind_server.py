"""The small demo model behind a real server: fixtures that create it, requests for it, and its outputs."""

from functools import cache
from typing import Any

import pytest

from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.server.arguments import openai_arguments
from assaymark.models.server.openai_compatible import OpenAIModel
from assaymark.models.server.pace import RetryRules
from assaymark.records import GenerateQuery, GenerationSettings, LoglikelihoodQuery, Output, Request
from assaymark.runs.demo import demo_model
from assaymark.runs.evaluate import evaluate
from assaymark.runs.run import Run

pytest.importorskip("torch")
from tests.models.server.openai_server import TestServer

MODEL = demo_model("small")
QUICK = RetryRules(attempts=3, budget_s=5.0, first_wait_s=0.01, longest_wait_s=0.02)
TASK = "demo_letters_nature"


def model_args(server: TestServer, **given: Any) -> dict[str, Any]:
    """Return the model arguments for the server."""
    args = {"model": MODEL.name, "base_url": server.url, "tokenizer": str(MODEL), "max_length": 1024, **given}
    return {name: value for name, value in args.items() if value is not None}


def behind(server: TestServer, rules: RetryRules = QUICK, kind: str = "local-completions", **given: Any) -> OpenAIModel:
    """Return the model behind the server."""
    return OpenAIModel(openai_arguments(kind, model_args(server, **given)), rules)


@cache
def local() -> LocalModel:
    """Return the same model on our engine, with prompts as lm-eval sends them to servers: without BOS."""
    model = create_model("hf", f"pretrained={MODEL},dtype=float32,device=cpu,add_bos_token=False")
    assert isinstance(model, LocalModel)
    return model


def choices(index: int, context: str = "The sky is", *texts: str) -> Request:
    """Return a request with choices."""
    queries = tuple(
        LoglikelihoodQuery(i, text) for i, text in enumerate(texts or (" blue", " green and red", " a", " "))
    )
    return Request("task", index, "", (context,), queries)


def text_request(index: int, context: str = "One day", **settings: Any) -> Request:
    """Return a request with a generate query."""
    return Request("task", index, "", (context,), (GenerateQuery(0, GenerationSettings(max_tokens=8, **settings)),))


def many(n: int) -> list[Request]:
    """Return requests that differ."""
    return [choices(i, f"Number {i} is", " big", " small") for i in range(n)]


def answers(model: Any, requests: list[Request]) -> dict[tuple[str, int, int], Output]:
    """Return the outputs by request, query and repeat."""
    return {(o.request_id, o.ask_index, o.repeat): o for o in model.answer(requests)}


def run_of(server: TestServer, kind: str = "local-completions", limit: int = 6, **given: Any) -> Run:
    """Return a run of a small task."""
    return evaluate(kind, TASK, model_args=model_args(server, **given), limit=limit)
