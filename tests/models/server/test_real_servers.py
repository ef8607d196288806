"""Real servers of other projects serve the demo's model; our engine on the same weights is the oracle.

`transformers serve` generates only. llama.cpp's server gives log-probabilities of prompts and of the first token too,
so all three ways to evaluate are compared with it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import ModelUnavailable
from assaymark.models.create import create_model
from assaymark.records import BOUND, GenerateQuery, GenerationSettings, LoglikelihoodQuery, Message, Output, Request
from assaymark.records import TextPart as Text
from assaymark.runs.evaluate import evaluate

pytest.importorskip("torch")
from tests.models.server.behind_server import MODEL
from tests.models.server.real_servers import llama_cpp_server, transformers_server

pytestmark = pytest.mark.slow
PROMPTS = ("One day", "Question: which of these is a colour?\nAnswer:", "The sun")
CHOICES = (" red", "a table of wood", " honey")
TASK = "demo_letters_nature"
Key = tuple[str, int]


def texts(**extra: Any) -> list[Request]:
    """Return requests for texts, with and without a stop text; `extra` are fields of the server's own."""
    own = tuple(extra.items())
    settings = [
        GenerationSettings(max_tokens=24, extra=own),
        GenerationSettings(max_tokens=24, stop=("\n",), extra=own),
    ]
    return [
        Request(f"text{i}.{j}", 0, "", (prompt,), (GenerateQuery(0, each),))
        for i, prompt in enumerate(PROMPTS)
        for j, each in enumerate(settings)
    ]


def chats() -> list[Request]:
    """Return chats."""
    queries = (GenerateQuery(0, GenerationSettings(max_tokens=24)),)
    asked = ("Who is Mira?", "What is the favourite colour of Nanesh?")
    return [Request(f"chat{i}", 0, "", (), queries, (Message("user", (Text(each),)),)) for i, each in enumerate(asked)]


def scored() -> list[Request]:
    """Return requests with choices of one and of several tokens."""
    queries = tuple(LoglikelihoodQuery(i, choice) for i, choice in enumerate(CHOICES))
    return [Request(f"score{i}", 0, "", (prompt,), queries) for i, prompt in enumerate(PROMPTS)]


def behind(kind: str, url: str, name: str, **more: Any) -> Any:
    """Return the model behind a server."""
    return create_model(kind, {"model": name, "base_url": url, "max_length": 1024, **more})


def local(*, add_bos: bool) -> Any:
    """Return the same model on our engine."""
    return create_model("hf", {"pretrained": str(MODEL), "dtype": "float32", "device": "cpu", "add_bos_token": add_bos})


def answers(model: Any, requests: list[Request]) -> dict[Key, Output]:
    """Return the outputs by request and query; none has failed."""
    results = {(output.request_id, output.ask_index): output for output in model.answer(requests)}
    assert [output.error for output in results.values() if output.error] == []
    return results


def own_chats(model: Any) -> dict[Key, Output]:
    """Return our engine's answers to the chats, rendered by the model's template."""
    rendered = [Request(each.task, 0, "", (model.render(each.messages),), each.queries) for each in chats()]
    return answers(model, rendered)


def assert_same_texts(theirs: dict[Key, Output], ours: dict[Key, Output]) -> None:
    """Assert that greedy texts are equal, and that some are not empty."""
    assert {key: output.text for key, output in theirs.items()} == {key: output.text for key, output in ours.items()}
    assert any(output.text for output in ours.values())


@pytest.fixture(scope="module")
def serving_transformers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run `transformers serve`."""
    pytest.importorskip("openai", reason="transformers serve needs it: pip install '.[dev]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        with transformers_server(MODEL, tmp_path_factory.mktemp("transformers") / "log.txt") as url:
            yield url


@pytest.fixture(scope="module")
def serving_llama_cpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run llama.cpp's server with the demo's model as a GGUF file."""
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is compiled at its installation: pip install '.[gguf]'")
    pytest.importorskip("sse_starlette", reason="llama.cpp's server needs it: pip install 'llama-cpp-python[server]'")
    pytest.importorskip("gguf", reason="the package that writes GGUF files: pip install gguf")
    from tests.models.gguf.gguf_files import write_gguf

    folder = tmp_path_factory.mktemp("llama_cpp")
    with llama_cpp_server(write_gguf(MODEL, folder / "demo.gguf"), folder / "log.txt") as url:
        yield url


def test_transformers_generates_our_texts(serving_transformers: str) -> None:
    """Greedy completions of `transformers serve` equal our engine's, sent as texts since it refuses token ids."""
    model = behind("local-completions", serving_transformers, str(MODEL), tokenizer=str(MODEL))
    theirs = answers(model, texts())
    assert_same_texts(theirs, answers(local(add_bos=True), texts()))
    assert any("accepts texts only" in note for note in model.describe()["notes"])
    assert all(output.n_context_tokens and output.n_tokens for output in theirs.values())


def test_transformers_answers_our_chats(serving_transformers: str) -> None:
    """Its chats, with the model's own template, equal our engine's, which adds no second BOS to the template's."""
    model = behind("local-chat-completions", serving_transformers, str(MODEL))
    assert_same_texts(answers(model, chats()), own_chats(local(add_bos=False)))


@pytest.mark.parametrize(
    ("kind", "more", "says"),
    [
        ("local-completions", {"tokenizer": str(MODEL)}, "no log-probabilities of the prompt"),
        ("local-completions", {"tokenizer_backend": "none", "top_logprobs": 5}, "no log-probabilities of the first"),
    ],
)
def test_transformers_gives_no_log_probabilities(
    serving_transformers: str, kind: str, more: dict[str, Any], says: str
) -> None:
    """It ignores `echo` and `logprobs` with status 200: one error ends the run, and no choice gets a score."""
    model = behind(kind, serving_transformers, str(MODEL), **more)
    queries = (LoglikelihoodQuery(0, " A"), LoglikelihoodQuery(1, " B"))
    with pytest.raises(ModelUnavailable, match=says):
        list(model.answer([Request("t", 0, "", ("Answer:",), queries)]))


@pytest.mark.parametrize(
    "more",
    [{"tokenizer": str(MODEL), "tokenized_requests": False}, {"tokenizer": str(MODEL)}, {"tokenizer_backend": None}],
    ids=["texts", "tokens", "none"],
)
def test_llama_cpp_scores_and_generates_as_our_engine(serving_llama_cpp: str, more: dict[str, Any]) -> None:
    """Log-likelihoods of prompts and greedy texts of llama.cpp's server equal our engine's, with the BOS that it adds.

    It answers 500 to token ids, so that they are replaced by texts; it counts the BOS token without listing it; and it
    has a repetition penalty of 1.1 unless the request has another, so that its default is not greedy.
    """
    model, ours = behind("local-completions", serving_llama_cpp, "demo", **more), local(add_bos=True)
    theirs, expected = answers(model, scored()), answers(ours, scored())
    for key, output in expected.items():
        assert theirs[key].total_nats == pytest.approx(output.total_nats, abs=1e-3, rel=1e-6)
        assert theirs[key].is_greedy == output.is_greedy
        assert theirs[key].n_tokens == output.n_tokens
    assert_same_texts(answers(model, texts(repeat_penalty=1.0)), answers(ours, texts()))


def test_llama_cpp_chooses_letters_as_our_engine(serving_llama_cpp: str, tmp_path: Path) -> None:
    """Letters scored by the first token of a completion have our engine's log-likelihoods; the accuracies are equal."""
    arguments = {"model": "demo", "base_url": serving_llama_cpp, "tokenizer_backend": "none", "top_logprobs": 20}
    result = evaluate("local-completions", TASK, model_args=arguments, limit=12, store=tmp_path / "a.sqlite")
    own = {"pretrained": str(MODEL), "dtype": "float32", "device": "cpu", "add_bos_token": True}
    ours = evaluate("hf", TASK, model_args=own, limit=12, store=tmp_path / "b.sqlite")
    expected = {(s.request.id, o.ask_index): o.total_nats for s in ours.samples(TASK) for o in s.outputs}
    for sample in result.samples(TASK):
        for output in sample.outputs:
            true = expected[sample.request.id, output.ask_index]
            assert true is not None
            assert output.total_nats is not None
            if output.finish_reason == BOUND:
                assert true <= output.total_nats + 1e-3
            else:
                assert output.total_nats == pytest.approx(true, abs=1e-3)
    assert result.estimate(TASK, "acc").value == ours.estimate(TASK, "acc").value
    assert result.estimate(TASK, "acc").n_failed == 0
