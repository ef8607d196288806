"""Other projects' servers, as processes on free ports of this machine, with the demo's model; always stopped."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

__all__ = ["llama_cpp_server", "transformers_server"]

START_SECONDS = 120


@contextmanager
def transformers_server(folder: Path, log: Path) -> Iterator[str]:
    """Run `transformers serve` with a model's folder; yield its base URL."""
    words = ["transformers.cli.transformers", "serve", str(folder), "--device", "cpu", "--dtype", "float32"]
    with _running(words, "/health", log) as address:
        yield f"{address}/v1"


@contextmanager
def llama_cpp_server(file: Path, log: Path) -> Iterator[str]:
    """Run llama.cpp's server with a GGUF file; keys and values are cached in float32, as our engine does."""
    words = ["llama_cpp.server", "--model", str(file), "--logits_all", "true", "--n_ctx", "1024"]
    with _running([*words, "--type_k", "0", "--type_v", "0"], "/v1/models", log) as address:
        yield f"{address}/v1"


@contextmanager
def _running(words: Sequence[str], ready: str, log: Path) -> Iterator[str]:
    """Run a module with a free port; yield its address once a page of it answers.

    Raises: RuntimeError with the end of its log if it does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", *words, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait(process, address + ready, log)
            yield address
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=2).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
