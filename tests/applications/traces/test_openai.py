"""Plain `openai` against our host, recorded by four packages, is shown alike whichever of them wrote the spans."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `hf` is not installed")
if find_spec("openai") is None:  # importing it takes seconds, of each worker
    pytest.skip("openai is not installed", allow_module_level=True)

from tests.applications.traces.sending import Receiver
from tests.applications.traces.test_spans import run, steps
from tests.hosting.running import NAME, host_command

APPLICATION = """
    import os
    from importlib import import_module
    import assaymark
    from openai import BadRequestError, OpenAI
    OpenAIInstrumentor = import_module(os.environ["PACKAGE"]).OpenAIInstrumentor

    assaymark.send_traces(os.environ["RECEIVER"], os.environ["TOKEN"], service="guide", version="1")
    OpenAIInstrumentor().instrument()
    client = OpenAI(base_url=os.environ["HOST"], api_key="none", max_retries=0)

    @assaymark.trace(kind="agent")
    def answer(question):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
        common = {"model": "small", "messages": messages, "max_tokens": 8, "temperature": 0}
        whole = client.chat.completions.create(**common).choices[0].message.content
        stream = client.chat.completions.create(**common, stream=True, stream_options={"include_usage": True})
        pieces = [event.choices[0].delta.content or "" for event in stream if event.choices]
        try:
            client.chat.completions.create(**{**common, "temperature": -5})
        except BadRequestError:
            pass
        return whole, "".join(pieces)

    print(answer("Which city?"))
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a host of the small model."""
    with host_command(tmp_path_factory.mktemp("host") / "host.txt", 2) as url:
        yield url


SOURCES = {
    "openinference": ("openinference.instrumentation.openai", {}),
    "openinference with GenAI's names": (
        "openinference.instrumentation.openai",
        {"OPENINFERENCE_ENABLE_GENAI_SEMCONV": "true"},
    ),
    "opentelemetry": (
        "opentelemetry.instrumentation.genai.openai",
        {
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
            "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        },
    ),
    "traceloop": ("opentelemetry.instrumentation.openai", {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_calls_of_openai(receiver: Receiver, host: str, tmp_path: Path, source: str) -> None:
    """A whole answer, a stream and a refused call are three steps with messages, tokens, model and error."""
    package, variables = SOURCES[source]
    pytest.importorskip(package)
    own = {"RECEIVER": receiver.url, "TOKEN": receiver.token, "HOST": host, "PACKAGE": package}
    run(APPLICATION, tmp_path, **own, **variables)
    agent, whole, stream, refused = steps(receiver, "answer")
    assert (agent["kind"], agent["depth"]) == ("agent", 0)
    for step in (whole, stream, refused):
        assert (step["kind"], step["depth"]) == ("llm", 1), step["name"]
        sent = [(message["role"], message["parts"][0]["text"]) for message in step["input_messages"]]
        assert sent == [("system", "Be brief."), ("user", "Which city?")]
    for step in (whole, stream):
        assert step["model"] == NAME
        assert (step["input_tokens"] > 5, 0 < step["output_tokens"] <= 8, step["is_error"]) == (True, True, False)
        (message,) = step["output_messages"]
        assert (message["role"], [part["type"] for part in message["parts"]]) == ("assistant", ["text"])
    assert whole["output_messages"][0]["parts"] == stream["output_messages"][0]["parts"]
    assert refused["is_error"]
    assert "temperature" in refused["error"]
    with receiver.client as client:
        (row,) = client.get("/traces.json").json()["traces"]
    assert row["input_tokens"] == whole["input_tokens"] + stream["input_tokens"]
    assert ("gen_ai.operation.name" in whole["attributes"]) == (source != "openinference")
