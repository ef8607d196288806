"""A host of the small demo model, really running on loopback in a thread of this process."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from assaymark.hosting.app import HostSettings, create_app
from assaymark.hosting.hosted_model import HostedModel
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.runs.demo import demo_model

MODEL = demo_model("small")
NAME = "small"


def local_model(**arguments: Any) -> LocalModel:
    """Return the demo model, run by our engine in this process."""
    model = create_model("hf", {"pretrained": str(MODEL), "dtype": "float32", "device": "cpu", **arguments})
    assert isinstance(model, LocalModel)
    return model


@contextmanager
def hosting(
    model: LocalModel, settings: HostSettings, max_tokens: int | None = None, *, chat_bos: bool = False
) -> Iterator[str]:
    """Run a host; yield its URL with /v1."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app(HostedModel(model, NAME, max_tokens, chat_bos=chat_bos), settings)
    server = uvicorn.Server(
        uvicorn.Config(app, http="h11", log_level="error", lifespan="on", timeout_graceful_shutdown=2)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
        assert thread.is_alive(), "the host did not start"
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def host_command(stderr: Path, n_slots: int, *options: str) -> Iterator[str]:
    """Run `assaymark host` on the small model; yield its URL with /v1. `stderr`: the file that gets its messages."""
    command = [sys.executable, "-m", "assaymark", "host", str(MODEL), "--name", NAME, "--port", "0", *options,
               "--model_args", f"dtype=float32,device=cpu,n_slots={n_slots}"]  # fmt: skip
    with (
        stderr.open("w") as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True, env=os.environ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            address = re.search(r"http://\S+/v1", line)
            assert address, line + stderr.read_text()
            yield address[0]
        finally:
            process.kill()


def unread_stream(url: str, key: str = "", **body: Any) -> socket.socket:
    """Ask for a stream over a socket of the smallest buffer, and read nothing of it but the status line."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
    connection.connect((host, int(port)))
    content = json.dumps({"temperature": 0, "ignore_eos": True, "stream": True, **body}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {key}\r\n" if key else ""
    connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
    assert connection.recv(15) == b"HTTP/1.1 200 OK"
    return connection


def post(url: str, path: str, **body: Any) -> httpx.Response:
    """Send one request."""
    return httpx.post(url + path, json=body, timeout=60)


def load_of(url: str) -> dict[str, Any]:
    """Return the host's load."""
    return dict(httpx.get(url.removesuffix("/v1") + "/health", timeout=10).json())


def wait_until_idle(url: str) -> None:
    """Wait until nothing runs or waits."""
    for _ in range(500):
        load = load_of(url)
        if load["running"] == load["waiting"] == 0:
            return
        time.sleep(0.02)
    raise AssertionError(f"the host is still busy: {load_of(url)}")
