"""Responses that would exhaust memory, recursion or time fail alone, and the run continues."""

import itertools
import json
import time
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.errors import ModelError, UsageError
from assaymark.models.server.arguments import openai_arguments
from assaymark.models.server.failures import HttpFailure
from assaymark.models.server.openai_compatible import OpenAIModel
from assaymark.models.server.pace import RetryRules
from assaymark.models.server.response_limits import ResponseBody, ResponseLimits, parse_json
from assaymark.records import GenerateQuery, GenerationSettings, Output, Request
from tests.conftest import ROOT
from tests.models.server.hostile_server import HostileServer, Reply, completion, hostile, zeros

RULES = RetryRules(attempts=2, budget_s=60.0, first_wait_s=0.01, longest_wait_s=0.02)
SMALL = ROOT / "src" / "assaymark" / "library" / "demo_models" / "small"
MEMORY = Path("/proc/self/status")
NESTED = b'{"choices": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """Run a server without a key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with hostile() as running:
        yield running


def answers(server: HostileServer, **given: Any) -> dict[str, Output]:
    """Return the outputs for three prompts, the second of which triggers the fault."""
    values = {"model": "m", "base_url": server.url, "tokenizer_backend": "none", "max_response_mib": 4, **given}
    model = OpenAIModel(openai_arguments("local-completions", values), RULES)
    settings = GenerationSettings(max_tokens=8)
    prompts = ("before", "trouble", "after")
    requests = [Request("t", i, "", (text,), (GenerateQuery(0, settings),)) for i, text in enumerate(prompts)]
    return {output.request_id: output for output in model.answer(requests)}


def test_an_answer_that_ended_before_the_limit_was_not_cut_off(server: HostileServer) -> None:
    """A server is not sent a stop that counts after text only: it goes on to the limit, and the remedy is named."""
    texts = {"before": "\n\n4\n\nQuestion: and", "trouble": "4 and so on", "after": "4"}
    ends = {"before": "length", "trouble": "length", "after": "stop"}

    def answer(body: dict[str, Any], _: object) -> Reply:
        assert "stop" not in body
        made = json.loads(completion(texts[body["prompt"]]).body)  # type: ignore[arg-type]
        made["choices"][0]["finish_reason"] = ends[body["prompt"]]
        return Reply(json.dumps(made).encode())

    server.answer = answer
    values = {"model": "m", "base_url": server.url, "tokenizer_backend": "none"}
    model = OpenAIModel(openai_arguments("local-completions", values), RULES)
    query = GenerateQuery(0, GenerationSettings(max_tokens=8, stop=("\n\n",), stop_after_text=True))
    outputs = list(model.answer([Request("t", i, "", (text,), (query,)) for i, text in enumerate(texts)]))
    assert sorted((output.text, output.finish_reason) for output in outputs) == [
        ("\n\n4", "stop"), ("4", "stop"), ("4 and so on", "length"),
    ]  # fmt: skip
    note = str(model.describe()["note"])
    assert "went on to the limit of tokens after the answer's end (1 times)" in note
    assert """--gen_kwargs 'until=["\\n\\n"]'""" in note


def test_a_prompt_of_which_a_server_reads_less_is_noted(server: HostileServer) -> None:
    """Some leave out the beginning of what is longer than their context, and only their count of tokens tells."""
    values = {"model": "m", "base_url": server.url, "tokenizer": str(SMALL)}
    model = OpenAIModel(openai_arguments("local-completions", values), RULES)
    query = GenerateQuery(0, GenerationSettings(max_tokens=8))
    for text, note in (
        ("a", None),
        ("one two three four", "fewer tokens than were sent (1 times)"),
    ):
        list(model.answer([Request("t", 0, "", (text,), (query,))]))
        assert (note or "") in str(model.describe().get("note"))
        assert ("note" in model.describe()) is (note is not None)


def make_trouble(server: HostileServer, make: Callable[[], Reply]) -> None:
    """Answer the prompt "trouble" with the result of `make`, and the others normally."""
    server.answer = lambda body, _: make() if body["prompt"] == "trouble" else completion()


def peak_mib(work: Callable[[], Any]) -> float:
    """Return the maximum growth of this process in MiB during `work`."""
    if not MEMORY.exists():
        pytest.skip("no /proc here to measure memory with")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the high-water mark
    before = _from_status("VmRSS")
    work()
    return _from_status("VmHWM") - before


def _from_status(name: str) -> float:
    line = next(line for line in MEMORY.read_text(encoding="ascii").splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def endless() -> Iterator[bytes]:
    """Yield bytes endlessly."""
    return itertools.repeat(b" " * 65536)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (lambda: Reply(endless()), "more than 4 MiB as received; allow more with max_response_mib="),
        (lambda: Reply(zeros(1000, 31), headers={"Content-Encoding": "gzip"}), "more than 4 MiB decompressed"),
        (lambda: Reply(zeros(1000, 15), headers={"Content-Encoding": "deflate"}), "more than 4 MiB decompressed"),
        (lambda: Reply(zeros(1000, -15), headers={"Content-Encoding": "deflate"}), "more than 4 MiB decompressed"),
        (lambda: Reply(NESTED), "nested deeper than 100 levels; allow more with max_response_depth="),
        (lambda: Reply(NESTED[:150_000]), "nested deeper than 100 levels"),
        (lambda: Reply(b"x", headers={"Content-Encoding": "br"}), "has Content-Encoding 'br'; accepted are gzip"),
        (lambda: Reply(b"not gzip", headers={"Content-Encoding": "gzip"}), "is not valid gzip"),
        (lambda: Reply(b'{"choices": [' + b"9" * 5001 + b"]}"), "the answer is not JSON"),
    ],
)
def test_a_response_past_a_limit_fails_alone(server: HostileServer, reply: Callable[[], Reply], message: str) -> None:
    """Endless bodies, gzip and deflate bombs, deep nesting, unknown encodings fail one answer in little memory."""
    make_trouble(server, reply)
    results: dict[str, Output] = {}
    assert peak_mib(lambda: results.update(answers(server))) < 100
    assert [results[f"t/{i}/0"].text for i in range(3)] == ["fine", None, "fine"]
    failed = results["t/1/0"]
    assert failed.error_kind == "MalformedAnswer"
    assert message in (failed.error or "")


@pytest.mark.parametrize(
    "make",
    [lambda: Reply(endless(), 500), lambda: Reply(zeros(1000, 31), 500, {"Content-Encoding": "gzip"})],
)
def test_the_body_of_an_error_is_read_no_further_than_it_is_quoted(
    server: HostileServer, make: Callable[[], Reply]
) -> None:
    """A 500 with an endless body, plain or compressed, is an ordinary failure that quotes the beginning."""
    make_trouble(server, make)
    results: dict[str, Output] = {}
    assert peak_mib(lambda: results.update(answers(server, max_retries=1))) < 100
    assert results["t/1/0"].error_kind == "ServerFailed"
    assert results["t/2/0"].text == "fine"


def test_a_slow_response_ends_at_the_time_limit(server: HostileServer) -> None:
    """One byte at a time passes every limit for a single read; the limit of the whole response ends it."""

    def drip() -> Iterator[bytes]:
        while True:
            time.sleep(0.05)
            yield b" "

    make_trouble(server, lambda: Reply(drip()))
    started = time.monotonic()
    result = answers(server, timeout=0.5)
    assert result["t/1/0"].error_kind == "TimedOut"
    assert result["t/2/0"].text == "fine"
    assert time.monotonic() - started < 20


def test_values_of_other_types_fail_alone(server: HostileServer) -> None:
    """Whatever JSON a server sends, one answer fails or is read, and nothing else is affected."""
    odd: list[Any] = [
        None,
        True,
        1,
        "x",
        [],
        {},
        [None],
        {"choices": {}},
        {"choices": [7]},
        {"choices": [{"text": {}}]},
    ]
    odd += [{"choices": [{"text": "x"}], "usage": {"prompt_tokens": value}} for value in (10**30, -1, "x", True, 1e300)]
    for value in odd:
        make_trouble(server, partial(Reply, json.dumps(value).encode()))
        result = answers(server)
        assert result["t/2/0"].text == "fine"
        assert 0 <= result["t/1/0"].n_context_tokens < 2**31


@pytest.mark.parametrize(
    "broken",
    [
        Reply(b'{"choices": [{"text": "", "finish_reason": "error", "error": {"code": 502, "message": "lost"}}]}'),
        Reply(b'{"choices": [{"text": "4", "finish_reason": "stop"}], "error": {"message": "lost"}}'),
        Reply(completion().body[:-9]),  # type: ignore[index]
        Reply(b"", headers={"Content-Type": "text/event-stream"}),
        Reply(iter([zlib.compress(completion("well" * 9).body, wbits=31)[:-30]]), headers={"Content-Encoding": "gzip"}),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_broke_off_is_sent_for_again(server: HostileServer, broken: Reply) -> None:
    """An error inside a 200, a truncated body and an empty one are repeated, and the next answer counts."""
    replies = iter([broken, completion("again")])
    make_trouble(server, lambda: next(replies))
    assert answers(server)["t/1/0"].text == "again"


def test_a_body_is_read_in_the_encoding_that_its_headers_name() -> None:
    """Where it is no UTF-8: an answer in Latin-1 keeps its letters, and a byte order mark is no letter."""
    for body, charset, text in (
        ("é".encode("latin-1"), "ISO-8859-1", "é"),
        ("é".encode(), "ISO-8859-1", "é"),  # the header is wrong
        (b"it\x92s", "iso-8859-1", "it’s"),
        ("é".encode("latin-1"), "unheard-of", "\ufffd"),
        ("\ufeffé".encode(), "utf-8", "é"),
    ):
        whole = ResponseBody({"content-type": f"text/plain; charset={charset}"}, ResponseLimits())
        whole.add(body)
        assert whole.text == text


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (completion("café").body.replace(b"\\u00e9", b"\xe9"), {}),  # type: ignore[union-attr]
        (completion("café").body.replace(b"\\u00e9", b"\xe9"), {"Content-Type": "x; charset=ascii-8bit"}),  # type: ignore[union-attr]
    ],
)
def test_a_body_in_an_encoding_that_nothing_names_fails(
    server: HostileServer, body: bytes, headers: dict[str, str]
) -> None:
    """A replaced letter would be graded as the model's; the others are read."""
    assert b"\xe9" in body
    make_trouble(server, lambda: Reply(body, headers=headers))
    result = answers(server)
    assert result["t/1/0"].text is None
    assert "is not UTF-8 (byte 0xe9 at" in str(result["t/1/0"].error)
    assert result["t/2/0"].text == "fine"


HE, LLO, END = (
    json.dumps({"choices": [{"index": 0, "text": text, "finish_reason": finish}]}).encode()
    for text, finish in (("He", None), ("llo", None), ("", "stop"))
)


@pytest.mark.parametrize(
    "events",
    [
        [
            b"\xef\xbb\xbfdata: " + HE + b"\n\n",
            b"data: " + LLO + b"\n\n",
            b"data: " + END + b"\n\n",
        ],  # a byte order mark
        [b"data: " + HE + b"\r\rdata: " + LLO + b"\r", b"\rdata: " + END + b"\r\r"],
        [b"data: " + HE + b"\r", b"\n\r", b"\n: alive\r\n\r\ndata: " + LLO + b"\r\n\r\ndata: " + END + b"\r\n\r\n"],
        [b"data: " + HE + b"\n\ndata: " + LLO + b"\n\n", b"data: " + END],  # no empty line after the last event
    ],
)
def test_a_stream_may_have_any_line_ends(server: HostileServer, events: list[bytes]) -> None:
    """Nothing of the text is lost: CR alone, CRLF in two pieces, a byte order mark, an end without an empty line."""
    make_trouble(server, lambda: Reply(events, headers={"Content-Type": "text/event-stream"}))
    values = {"model": "m", "base_url": server.url, "tokenizer_backend": "none"}
    model = OpenAIModel(openai_arguments("local-completions", values), RULES)
    request = Request("t", 0, "", ("trouble",), (GenerateQuery(0, GenerationSettings(max_tokens=8)),))
    assert "".join(model.stream(request)) == "Hello"


@pytest.mark.parametrize(
    "events",
    [
        [b"data: [DONE]\n\n"],
        [b'data: {"choices": [{"text": "4", "finish_reason": null}]}\n\n'],
        [b'data: {"choices": [{"text": "4", "finish_reason": "error"}]}\n\n', b"data: [DONE]\n\n"],
        [b'data: {"choices": [{"text": "", "finish_reason": "content_filter"}]}\n\n', b"data: [DONE]\n\n"],
        [b'data: {"choices": [{"text": "4"}], "error": {"code": 502, "message": "lost"}}\n\n'],
    ],
)
def test_a_stream_without_a_whole_answer_fails(server: HostileServer, events: list[bytes]) -> None:
    """An empty stream, one that broke off, and one that reports a failure give no answer."""
    make_trouble(server, lambda: Reply(events, headers={"Content-Type": "text/event-stream"}))
    values = {"model": "m", "base_url": server.url, "tokenizer_backend": "none"}
    model = OpenAIModel(openai_arguments("local-completions", values), RULES)
    request = Request("t", 0, "", ("trouble",), (GenerateQuery(0, GenerationSettings(max_tokens=8)),))
    with pytest.raises(ModelError):
        list(model.stream(request))


def test_a_list_of_models_is_read_within_the_limits(server: HostileServer) -> None:
    """An endless, nested or bomb-like list of models is ignored, and the run continues without it."""
    for body, headers in ((endless(), {}), (NESTED, {}), (zeros(1000, 31), {"Content-Encoding": "gzip"})):
        server.models = Reply(body, headers=headers)
        assert peak_mib(lambda: answers(server)) < 100


def test_ordinary_compressed_responses_are_read(server: HostileServer) -> None:
    """Gzip and deflate, with and without zlib's header, give the same answer as an uncompressed body."""
    plain = completion("well read").body
    assert isinstance(plain, bytes)
    for encoding, wbits in (("gzip", 31), ("x-gzip", 31), ("deflate", 15), ("deflate", -15), ("identity", 0)):
        compressor = zlib.compressobj(9, zlib.DEFLATED, wbits) if wbits else None
        body = compressor.compress(plain) + compressor.flush() if compressor else plain
        make_trouble(server, partial(Reply, body, headers={"Content-Encoding": encoding}))
        assert answers(server)["t/1/0"].text == "well read"


def test_nesting_is_measured_outside_strings() -> None:
    """Brackets in strings do not count, also after escaped quotes; the limit itself is allowed."""
    limits = ResponseLimits(max_depth=10)
    deep = json.dumps({"a": "[" * 1000 + '"' + "{" * 1000, "b": [{"c": "]\\"}] * 50})
    assert parse_json(deep.encode(), limits)[0] == json.loads(deep)
    assert parse_json(b"[" * 10 + b"]" * 10, limits)[0] == json.loads("[" * 10 + "]" * 10)
    with pytest.raises(HttpFailure, match="deeper than 10"):
        parse_json(b"[" * 11 + b"]" * 11, limits)
    for hostile_text in (
        b'"\\"' * 1_000_000,
        b"[]" * 1_000_000,
        (b"[" * 10 + b"]" * 10) * 100_000,
        b'"' + b"[" * 10**6,
    ):
        started = time.monotonic()
        with pytest.raises(HttpFailure, match="not JSON"):
            parse_json(hostile_text, limits)
        assert time.monotonic() - started < 5


def test_limits_are_model_arguments() -> None:
    """A larger limit accepts a larger response, and an invalid limit is refused by name."""
    body = ResponseBody({}, ResponseLimits(max_mib=2))
    assert body.add(bytes(2 << 20))
    with pytest.raises(HttpFailure, match="more than 2 MiB"):
        body.add(b"x")
    for bad in ({"max_response_mib": 0}, {"max_response_depth": 501}, {"max_response_depth": "x"}):
        with pytest.raises(UsageError, match=next(iter(bad))):
            openai_arguments("local-completions", {"model": "m", "base_url": "http://x/v1", **bad})


def run_sums(server: HostileServer, store: Path, *more: str) -> int:
    """Run the demo's generation task against the server and return the exit code."""
    arguments = f"model=m,base_url={server.url}/chat/completions,num_concurrent=2"
    return main(
        ["run", "--model", "local-chat-completions", "--model_args", ",".join((arguments, *more)), "--tasks",
         "demo_sums", "--apply_chat_template", "--limit", "6", "--store", str(store)]
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503, 500])
def test_a_pause_beyond_the_budget_stops_the_run_as_incomplete(
    server: HostileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    """The run ends at once with the remedy and exit code 5, and the same command later sends only the rest."""
    limited = Reply(b"{}", status, {"Retry-After": "600"})
    server.answer = lambda _, __: completion() if len(server.bodies) <= 2 else limited
    started = time.monotonic()
    assert run_sums(server, tmp_path / "store.sqlite") == 5
    assert time.monotonic() - started < 60
    said = capsys.readouterr().err
    assert "error: incomplete: not sent: the server requires a pause of 600 s" in said
    assert "run the same command again later, or wait longer with retry_budget=600" in said
    server.answer, server.bodies = lambda _, __: completion(), []
    assert run_sums(server, tmp_path / "store.sqlite") == 0
    assert len(server.bodies) == 4


def test_a_pause_within_the_budget_is_waited_for(server: HostileServer, tmp_path: Path) -> None:
    """A pause as long as the whole budget is waited for, and nothing fails."""
    limited = Reply(b"{}", 429, {"Retry-After": "2"})

    def answer(body: dict[str, Any], _: object) -> Reply:  # the third and fourth question are refused once
        is_new, n_known = server.bodies.count(body) == 1, len({str(each) for each in server.bodies})
        return limited if is_new and n_known in (3, 4) else completion()

    server.answer = answer
    started = time.monotonic()
    assert run_sums(server, tmp_path / "store.sqlite", "retry_budget=2") == 0
    assert time.monotonic() - started > 2
    assert len(server.bodies) == 8
