"""A real host on loopback: every user gets the text of a user alone, however many there are."""

import gc
import json
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from assaymark.engine.open_batch import NewToken
from assaymark.errors import ModelError
from assaymark.hosting.answer_bodies import TextStream
from assaymark.hosting.app import HostSettings
from assaymark.hosting.exchange import Exchange
from assaymark.models.model import Model
from assaymark.models.server.arguments import openai_arguments
from assaymark.models.server.openai_compatible import OpenAIModel
from assaymark.models.server.pace import RetryRules
from assaymark.records import GenerateQuery, GenerationSettings, LoglikelihoodQuery, Message, Request, TextPart
from tests.hosting.running import (
    MODEL,
    NAME,
    host_command,
    hosting,
    load_of,
    local_model,
    post,
    unread_stream,
    wait_until_idle,
)

NAMES, VERBS = ("Harin", "Vidan", "Nanesh", "Karha"), ("took", "saw", "lost")
THINGS = ("rope", "door", "ladder", "boat", "key")
TEXTS = [f"{NAMES[i % 4]} {VERBS[i % 3]} the {THINGS[i % 5]}. In the end" for i in range(32)]


def request(text: str, **settings: Any) -> Request:
    """Return a request that generates a text."""
    return Request("host", 0, "", (text,), (GenerateQuery(0, GenerationSettings(**settings)),))


def alone(model: Model, text: str, **settings: Any) -> str:
    """Return the text that our engine generates for one prompt alone."""
    (output,) = model.answer([request(text, **settings)])
    assert output.text is not None
    return output.text


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the chunks of a stream, which must end with [DONE]."""
    data = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(each) for each in data[:-1]]


def streamed(url: str, path: str, **body: Any) -> list[dict[str, Any]]:
    """Return the chunks of one request's stream."""
    with httpx.stream("POST", url + path, json={**body, "stream": True}, timeout=60) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        return events(response)


def test_32_users_get_the_texts_each_gets_alone(url: str) -> None:
    """32 users at once, half of them streaming, on 6 slots: each greedy text is the one our engine gives it alone."""
    model = local_model()
    expected = [alone(model, text, max_tokens=10 + 3 * (i % 9)) for i, text in enumerate(TEXTS[:32])]

    def ask(i: int) -> str:
        body = {"prompt": TEXTS[i], "max_tokens": 10 + 3 * (i % 9), "temperature": 0, "user": f"user {i}"}
        if i % 2:
            return "".join(each["choices"][0]["text"] for each in streamed(url, "/completions", **body))
        return str(post(url, "/completions", **body).json()["choices"][0]["text"])

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(ask, range(32))) == expected
    wait_until_idle(url)


def test_chat_applies_the_template(url: str) -> None:
    """A chat's answer is the continuation of the rendered template, whole and streamed; usage counts tokens."""
    model = local_model()
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi!"}]},
    ]
    rendered = model.render([Message("system", (TextPart("Be brief."),)), Message("user", (TextPart("Hi!"),))])
    expected = alone(local_model(add_bos_token=False), rendered, max_tokens=12)
    result = post(url, "/chat/completions", model=NAME, messages=messages, max_tokens=12, temperature=0).json()
    assert result["choices"][0]["message"] == {"role": "assistant", "content": expected}
    assert result["usage"]["prompt_tokens"] == len(model.tokenizer.encode(rendered, add_special_tokens=False))
    chunks = streamed(
        url,
        "/chat/completions",
        messages=messages,
        max_tokens=12,
        temperature=0,
        stream_options={"include_usage": True},
    )
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == expected
    assert chunks[-1]["usage"] == result["usage"]


def test_stop_texts_never_appear_in_a_stream(url: str) -> None:
    """A stop that spans tokens ends the text before it; a stream never sends part of it."""
    whole = post(url, "/completions", prompt="Once upon a time", max_tokens=40, temperature=0).json()["choices"][0][
        "text"
    ]
    stop = whole[20:27]
    expected = whole.split(stop)[0]
    body = {"prompt": "Once upon a time", "max_tokens": 40, "temperature": 0, "stop": [stop]}
    result = post(url, "/completions", **body).json()["choices"][0]
    assert (result["text"], result["finish_reason"]) == (expected, "stop")
    assert "".join(each["choices"][0]["text"] for each in streamed(url, "/completions", **body)) == expected


def test_seed_and_n_decide_samples(url: str) -> None:
    """The same seed gives the same texts; texts of one request differ, and so do requests without a seed."""
    body = {"prompt": "Once upon", "max_tokens": 12, "temperature": 1.0, "n": 3}
    texts = [[c["text"] for c in post(url, "/completions", **body, seed=5).json()["choices"]] for _ in range(2)]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 1
    unseeded = {post(url, "/completions", **{**body, "n": 1}).json()["choices"][0]["text"] for _ in range(4)}
    assert len(unseeded) > 1


def test_logprobs_of_chats_and_completions_agree(url: str) -> None:
    """Log-probabilities are the same in both formats, whole and streamed, and the greedy token is the best one."""
    body = {"max_tokens": 6, "temperature": 0}
    completion = post(url, "/completions", prompt="The road", logprobs=3, **body).json()["choices"][0]["logprobs"]
    chunks = streamed(url, "/completions", prompt="The road", logprobs=3, **body)
    parts = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"][0]["logprobs"]]
    for name in ("tokens", "token_logprobs", "text_offset"):
        joined = [value for part in parts for value in part[name]]
        assert joined == (completion[name] if name == "tokens" else pytest.approx(completion[name], abs=1e-4))
    for nats, top in zip(completion["token_logprobs"], completion["top_logprobs"], strict=True):
        assert nats == max(top.values()) <= 0
    chat = {"messages": [{"role": "user", "content": "Hi"}], "logprobs": True, "top_logprobs": 2, **body}
    content = post(url, "/chat/completions", **chat).json()["choices"][0]["logprobs"]["content"]
    for each in content:
        assert each["logprob"] == each["top_logprobs"][0]["logprob"]
        assert bytes(each["bytes"]).decode() == each["token"]


def client(url: str, **arguments: Any) -> OpenAIModel:
    """Return our own client of the host."""
    inputs = {
        "model": NAME,
        "base_url": url,
        "tokenizer": str(MODEL),
        "max_length": 1024,
        "num_concurrent": 8,
        **arguments,
    }
    kind = inputs.pop("kind", "local-completions")
    return OpenAIModel(openai_arguments(kind, inputs), RetryRules(attempts=3, budget_s=5.0, first_wait_s=0.01))


@pytest.mark.parametrize("arguments", [{}, {"tokenizer_backend": "none"}])
def test_our_client_gets_the_engines_numbers(url: str, arguments: dict[str, Any]) -> None:
    """Log-likelihoods and texts over the host equal those of the engine in this process; tokens or texts are sent."""
    bos = bool(arguments)  # texts get the tokenizer's own BOS from the host; lm-eval sends tokens without
    local = local_model(add_bos_token=bos)
    queries = tuple(LoglikelihoodQuery(i, text) for i, text in enumerate((" road", " long day", " a", " of the sea")))
    requests = [Request("t", i, "", (text,), queries) for i, text in enumerate(TEXTS[:12])]
    requests += [
        Request("t", 50 + i, "", (text,), (GenerateQuery(0, GenerationSettings(max_tokens=9, stop=(".",))),))
        for i, text in enumerate(TEXTS[:6])
    ]
    inputs = {(o.request_id, o.ask_index): o for o in client(url, **arguments).answer(requests)}
    expected = {(o.request_id, o.ask_index): o for o in local.answer(requests)}
    assert inputs.keys() == expected.keys()
    for key, entry in expected.items():
        assert inputs[key].error is None, inputs[key].error
        assert inputs[key].text == entry.text
        assert inputs[key].is_greedy == entry.is_greedy
        if entry.total_nats is not None:
            assert inputs[key].total_nats == pytest.approx(entry.total_nats, abs=1e-4)


def test_our_client_streams(url: str) -> None:
    """Pieces of the client's stream arrive one after another and make the text that `answer` gives, stops applied."""
    for kind, entry in (("local-completions", {}), ("local-chat-completions", {"tokenizer": None})):
        model = client(url, kind=kind, **entry)
        chat = (Message("user", (TextPart("Who are you, and where is the road?"),)),)
        for stop in ((), (" the",)):
            settings = GenerationSettings(max_tokens=30, stop=stop)
            request = Request("t", 0, "", ("Once upon a time",), (GenerateQuery(0, settings),), chat)
            pieces = list(model.stream(request))
            (whole,) = model.answer([request])
            assert "".join(pieces) == whole.text
            assert kind != "local-completions" or stop or len(pieces) > 3


def test_our_client_says_why_a_stream_failed(url: str) -> None:
    """A refused request raises one error with the host's message; no host at all too."""
    with pytest.raises(ModelError, match="this host offers 'small'"):
        list(client(url, model="other").stream(request("One", max_tokens=4)))
    with pytest.raises(ModelError, match="no connection"):
        list(client("http://127.0.0.1:9/v1").stream(request("One", max_tokens=4)))


def test_a_user_with_many_requests_does_not_delay_another(url: str) -> None:
    """While one user's 40 requests wait, another user's single request overtakes most of them."""
    done: list[str] = []

    def ask(user: str) -> None:
        assert post(url, "/completions", prompt="One day", max_tokens=60, temperature=0, user=user,
                    ignore_eos=True).status_code == 200  # fmt: skip
        done.append(user)

    with ThreadPoolExecutor(41) as pool:
        busy = [pool.submit(ask, "busy") for _ in range(40)]
        while load_of(url)["waiting"] < 20 and len(done) < 15:
            time.sleep(0.005)
        single = pool.submit(ask, "single")
        for each in (*busy, single):
            each.result()
    assert done.index("single") < 30


@pytest.mark.parametrize(("n_streams", "n", "names"), [(12, 1, False), (1, 12, False), (12, 1, True)])
@pytest.mark.parametrize("keys", [0, 1, 2])
def test_unread_streams_of_one_client_do_not_hold_up_another(n_streams: int, n: int, names: bool, keys: int) -> None:
    """A small request of another is answered at once, while unread streams, or one with many repeats, go on.

    The streams may name a user each: a client chooses the names of its users, but neither its address nor its key.
    """
    settings = HostSettings(keys=tuple(f"secret{number}" for number in range(keys)))
    with hosting(local_model(n_slots=4), settings) as url, ExitStack() as stack:
        body = {"prompt": "One day", "max_tokens": 1000, "n": n}
        for number in range(n_streams):
            user = f"user {number}" if names else "busy"
            stack.enter_context(unread_stream(url, key="secret0", user=user, **body))
        while not load_of(url)["running"]:
            time.sleep(0.01)
        small = {"prompt": "The road", "max_tokens": 3, "temperature": 0, "user": "small"}
        headers = {"Authorization": f"Bearer secret{keys - 1}"}
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=60) as other:
            assert other.post(url + "/completions", json=small, headers=headers).status_code == 200
        load = load_of(url)
        assert load["running"] + load["waiting"] - (n > 1) == n_streams  # none of them has ended meanwhile


def test_what_arrived_for_an_unread_stream_is_freed_when_it_ends() -> None:
    """Without waiting for the collector of cycles, which comes seldom in a process of many objects."""
    with hosting(local_model(n_slots=4), HostSettings()) as url:
        gc.collect()
        gc.disable()
        try:
            for number in range(8):
                with unread_stream(url, prompt=f"One day {number}", max_tokens=1000, n=4, logprobs=5):
                    while not load_of(url)["running"]:
                        time.sleep(0.01)
                wait_until_idle(url)
            post(url, "/completions", prompt="One day", max_tokens=3, n=2, logprobs=5)
            wait_until_idle(url)
            n_alive = sum(type(each) in {Exchange, TextStream, NewToken} for each in gc.get_objects())
        finally:
            gc.enable()
        assert n_alive == 0


def is_host(process_id: int) -> bool:
    """Return whether a process is `assaymark host`."""
    return b"\0host\0" in Path(f"/proc/{process_id}/cmdline").read_bytes()


def mib_of(process_id: int) -> float:
    """Return the resident memory of a process, without files, in MiB."""
    (line,) = (each for each in Path(f"/proc/{process_id}/status").read_text().splitlines() if "RssAnon" in each)
    return int(line.split()[1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_of_a_host_stays_where_it_is(tmp_path: Path) -> None:
    """Ten rounds of 48 unread streams of 16 sequences each add nothing after the first rounds.

    The host decodes for a second in each round.
    """
    with host_command(tmp_path / "stderr", 64) as url:
        (host,) = (int(each) for each in Path("/proc/thread-self/children").read_text().split() if is_host(int(each)))
        resident = []
        for number in range(10):
            with ExitStack() as stack:
                for each in range(48):
                    body: dict[str, Any] = {
                        "prompt": f"One day {number} {each}",
                        "max_tokens": 400,
                        "n": 16,
                        "logprobs": 5,
                    }
                    stack.enter_context(unread_stream(url, **body, temperature=1.0, seed=48 * number + each))
                time.sleep(1)
            wait_until_idle(url)
            resident.append(mib_of(host))
        assert max(resident[3:]) - min(resident[3:]) < 24, resident


@pytest.mark.slow
def test_a_stream_that_is_not_read_is_given_up(tmp_path: Path) -> None:
    """After the deadline its slots are free, its connection is closed and one line says so; who reads is not cut."""
    with host_command(tmp_path / "stderr", 2, "--read_timeout", "1") as url:
        long: dict[str, Any] = {"prompt": "One day", "max_tokens": 1000, "n": 64, "logprobs": 5}  # minutes on two slots
        with unread_stream(url, **long, user="silent") as silent:
            number = silent.getsockname()[1]
            reads = {"prompt": "The road", "max_tokens": 900, "temperature": 0, "ignore_eos": True, "logprobs": 5}
            assert len(streamed(url, "/completions", **reads, user="reader")) > 100
            deadline = time.monotonic() + 30
            while load_of(url)["running"] + load_of(url)["waiting"]:
                assert time.monotonic() < deadline, f"the stream still has its slots: {load_of(url)}"
                time.sleep(0.05)
            silent.settimeout(10)
            rest = b""
            with suppress(ConnectionResetError):
                while piece := silent.recv(1 << 16):
                    rest += piece
            assert b"[DONE]" not in rest
        said = (tmp_path / "stderr").read_text()
        assert said == f"closed the connection of 127.0.0.1:{number}: it has not read its answer for 1 s\n"


def test_a_full_queue_answers_503_with_retry_after() -> None:
    """Requests beyond slots and a client's part of the queue are refused; those that wait learn their position."""
    with hosting(local_model(n_slots=1), HostSettings(most_waiting=4)) as url:
        body = {"prompt": "One day", "max_tokens": 1000, "temperature": 0, "ignore_eos": True, "stream": True}
        body["logprobs"] = 5  # a second's wait for the first comment must not outlast the first answer
        with httpx.Client(timeout=60) as http, http.stream("POST", url + "/completions", json=body) as first:
            lines = first.iter_lines()  # kept: closing it would close the connection
            next(lines)
            with http.stream("POST", url + "/completions", json=body) as second:
                assert second.headers["x-queue-position"] == "1"
                with http.stream("POST", url + "/completions", json=body) as third:
                    assert third.headers["x-queue-position"] == "2"
                    refused = http.post(url + "/completions", json={**body, "stream": False})
                    assert refused.status_code == 503
                    assert refused.headers["retry-after"] == "2"
                    assert refused.json()["error"]["code"] == "queue_full"
                    comments = third.iter_lines()
                    assert next(comments) in (": position 1 in the queue", ": position 2 in the queue")
        wait_until_idle(url)  # all three clients left: their work is dropped
        assert post(url, "/completions", prompt="One", max_tokens=2, temperature=0).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
def test_a_disconnect_cancels(url: str, stream: bool) -> None:
    """A client that leaves frees its slot long before its text would have ended."""
    body = {"prompt": "One day", "max_tokens": 1000, "temperature": 1.0, "ignore_eos": True, "stream": stream, "n": 6}
    cancelled = threading.Event()

    def ask() -> None:
        try:
            with httpx.stream("POST", url + "/completions", json=body, timeout=0.5 if not stream else 60) as response:
                next(response.iter_lines())
        except httpx.ReadTimeout:
            pass
        cancelled.set()

    threading.Thread(target=ask).start()
    assert cancelled.wait(30)
    wait_until_idle(url)


def test_a_failure_of_the_engine_is_never_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that fails or runs out of memory gives an error, in a stream too; the next request is answered."""
    with hosting(local_model(), HostSettings()) as url:
        body = {"prompt": "One day", "max_tokens": 20, "temperature": 0}
        expected = post(url, "/completions", **body).json()["choices"][0]["text"]
        for error in (RuntimeError("CUDA out of memory"), ValueError("broken")):

            def fail(*_: Any, error: Exception = error) -> None:
                raise error

            with monkeypatch.context() as patch:
                patch.setattr("assaymark.engine.open_batch.next_logits", fail)
                failed = post(url, "/completions", **body)
                assert failed.status_code == 500
                assert "choices" not in failed.json()
                with httpx.stream("POST", url + "/completions", json={**body, "stream": True}, timeout=60) as response:
                    last = [line for line in response.iter_lines() if line.startswith("data: ")][-1]
                assert "error" in json.loads(last.removeprefix("data: "))
                with pytest.raises(ModelError):
                    "".join(client(url).stream(request("One day", max_tokens=20)))
            assert post(url, "/completions", **body).json()["choices"][0]["text"] == expected


def test_keys_and_host_names() -> None:
    """With a key nothing but /health answers without it; another host name is refused."""
    with hosting(local_model(), HostSettings(keys=("secret1", "secret2"), names=("127.0.0.1",))) as url:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret1"}):
            refused = httpx.get(url + "/models", headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        for key in ("secret1", "secret2"):
            assert httpx.get(url + "/models", headers={"Authorization": f"Bearer {key}"}).status_code == 200
        assert load_of(url)["status"] == "ok"
        assert httpx.get(url + "/models", headers={"Host": "evil.example"}).status_code == 421


def test_refusals_name_no_folder_and_no_option_of_the_command_line(tmp_path: Path) -> None:
    """What a client reads is for the client: a model without a chat template, and one whose template refuses."""
    bodies = [
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"messages": [{"role": "user", "content": "Hi"}] * 900},
    ]
    said = []
    for name, template in (("plain", None), ("refusing", "{{ raise_exception('no such role') }}")):
        folder = tmp_path / "models" / name
        shutil.copytree(MODEL, folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        config.pop("chat_template", None)
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        (folder / "tokenizer_config.json").write_text(
            json.dumps(config | ({"chat_template": template} if template else {}))
        )
        with hosting(local_model(pretrained=str(folder)), HostSettings(names=("127.0.0.1",))) as url:
            said += [post(url, "/chat/completions", **body) for body in bodies]
            said.append(post(url, "/completions", prompt="x " * 5000, max_tokens=2))
            said.append(httpx.get(url + "/models", headers={"host": "elsewhere"}))
    assert [answer.status_code for answer in said] == [400, 400, 400, 421] * 2
    for answer in said:
        message = answer.json()["error"]["message"]
        assert "--" not in message, message
        assert str(tmp_path) not in message, message
    assert "no chat template" in said[0].text
