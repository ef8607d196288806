"""lm-eval's arguments of models behind a server, in our record: their values and what is refused."""

from typing import Any

import pytest

from assaymark.errors import UnknownName, UsageError
from assaymark.models.checkpoint.arguments import parse_arguments
from assaymark.models.server.arguments import openai_arguments

URL = "http://localhost:8000/v1/completions"
CHAT_URL = "http://localhost:8000/v1/chat/completions"


def made(kind: str = "local-completions", **given: Any) -> Any:
    """Return the record of these arguments."""
    return openai_arguments(kind, {"model": "m", "base_url": URL, **given})


def test_lm_evals_arguments_are_accepted() -> None:
    """A command line of lm-eval becomes a record with lm-eval's defaults."""
    result = made(num_concurrent=8, max_retries=5, tokenizer="org/t", batch_size=4, max_length=4096, timeout=60)
    assert (result.num_concurrent, result.max_retries, result.timeout, result.max_length) == (8, 5, 60.0, 4096)
    assert (result.tokenizer, result.tokenized_requests, result.seed, result.add_bos_token) == (
        "org/t",
        True,
        1234,
        False,
    )
    plain = made(pretrained="p", model=None, custom_prefix_token_id=7)
    assert (plain.model, plain.tokenizer, plain.prefix_token_id, plain.num_concurrent) == ("p", "p", 7, 1)
    assert (plain.max_retries, plain.timeout, plain.max_length) == (3, 300.0, 2048)


@pytest.mark.parametrize("backend", ["none", "None", "tiktoken", parse_arguments("a=none")["a"]])
def test_without_a_tokenizer_texts_are_sent(backend: str | None) -> None:
    """If the server tokenises, there is no tokenizer here; on the command line too, which reads `none` as None."""
    result = made(tokenizer_backend=backend)
    assert (result.tokenizer, result.tokenized_requests) == (None, False)


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        ("local-completions", "http://localhost:8000", URL),
        ("local-completions", "http://localhost:8000/v1/", URL),
        ("local-completions", URL, URL),
        ("local-chat-completions", "http://localhost:8000/v1", CHAT_URL),
        ("openai-completions", None, "https://api.openai.com/v1/completions"),
        ("openai-chat-completions", None, "https://api.openai.com/v1/chat/completions"),
        ("openai-chat-completions", CHAT_URL, CHAT_URL),
    ],
)
def test_a_url_is_completed(kind: str, given: str | None, expected: str) -> None:
    """The server's address suffices, lm-eval's whole URL works too, and OpenAI's own is known."""
    result = openai_arguments(kind, {"model": "m", "base_url": given})
    assert result.base_url == expected
    assert expected.startswith(result.server)
    assert result.server.endswith("/v1")


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("local-completions", {"base_url": None}, "no server was given"),
        ("local-completions", {"base_url": "localhost:8000"}, "is not a URL; expected base_url=http"),
        ("local-completions", {"base_url": CHAT_URL}, "--model local-chat-completions"),
        ("local-chat-completions", {"base_url": URL}, "--model local-completions"),
        ("local-completions", {"base_url": "http://me:s3cr3t@host/v1"}, "OPENAI_API_KEY"),
        ("local-completions", {"base_url": "http://host/v1?api_key=s3cr3t"}, "OPENAI_API_KEY"),
        ("local-completions", {"api_key": "s3cr3t"}, "OPENAI_API_KEY"),
        ("local-completions", {"auth_token": "s3cr3t"}, "OPENAI_API_KEY"),
        ("local-completions", {"header": {"X-Api-Key": "s3cr3t"}}, "OPENAI_API_KEY"),
        ("local-completions", {"header": "X"}, "expected header="),
        ("local-completions", {"model": None}, "no model was given"),
        ("local-completions", {"tokenizer_backend": "remote"}, "tokenizer_backend=none"),
        ("local-completions", {"tokenizer_backend": "spacy"}, "huggingface or none"),
        ("local-completions", {"tokenizer_backend": "none", "tokenized_requests": True}, "needs a tokenizer"),
        ("local-completions", {"workers": 2}, "num_concurrent"),
        ("local-completions", {"numerics": "model-dtype"}, "--model hf"),
        ("local-completions", {"num_concurrent": 0}, "num_concurrent=0; expected a whole number from 1"),
        ("local-completions", {"max_retries": 0}, "max_retries"),
        ("local-completions", {"timeout": 0}, "expected seconds"),
        ("local-completions", {"retry_budget": "long"}, "expected seconds"),
        ("local-completions", {"tokenized_requests": "yes"}, "neither True nor False"),
        ("local-completions", {"too_long": "wrap"}, "expected cut or error"),
    ],
)
def test_invalid_values_are_refused(kind: str, given: dict[str, Any], message: str) -> None:
    """An invalid value is refused before anything is sent, with the remedy; a secret is not repeated."""
    url = CHAT_URL if kind == "local-chat-completions" else URL
    with pytest.raises(UsageError, match=message) as caught:
        openai_arguments(kind, {"model": "m", "base_url": url, **given})
    assert "s3cr3t" not in str(caught.value)


def test_a_misspelt_argument_is_named() -> None:
    """An unknown argument is refused with the nearest known one."""
    with pytest.raises(UnknownName, match="num_concurrent"):
        made(num_concurent=3)


def test_the_server_is_part_of_the_identity_unless_the_weights_are_named() -> None:
    """Another address may be another model, unless the user names the weights."""
    here, there = made(), made(base_url="http://elsewhere/v1/completions")
    assert here.options != there.options
    vouched = [made(base_url=url, weights="llama-2@a1b2").options for url in (URL, "http://elsewhere/v1")]
    assert vouched[0] == vouched[1] != here.options
