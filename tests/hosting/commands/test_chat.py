"""`assaymark chat` as a process: what a user types, through a pipe and in a terminal."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.hosting.conversation_task import save_as_task
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import GenerationSettings, Message
from assaymark.runs.demo import demo_model

MODEL = demo_model("small")
COMMAND = [sys.executable, "-m", "assaymark"]
ENVIRONMENT = {"ASSAYMARK_THREADS": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
SECONDS = 120


def run(command: list[str], *words: str, text: str = "", cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command with piped input."""
    return subprocess.run(
        [*command, *words],
        check=False,
        input=text,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=cwd,
        env={**os.environ, **ENVIRONMENT},
    )


@pytest.mark.slow
def test_a_conversation_is_saved_as_a_task_that_runs(tmp_path: Path, warm: list[str]) -> None:
    """History, template, undo, an unknown command and /save through a pipe; the saved task repeats the answers."""
    lines = [
        "Where is the road?", "And the rope?", "/template", "/nope", "/save talk", "/undo", "/template",
        "/save talk.yaml", "/system Short.", "Hi", "/template", "/save talk.yaml",
        "/save short", "/exit", "never asked",
    ]  # fmt: skip
    assaymark = [*warm, "assaymark"]
    words = ["chat", str(MODEL), "--max_tokens", "12"]
    done = run(assaymark, *words, text="\n".join(lines) + "\n", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.split("<s>")[1:]
    assert first.count("<|user|>") == 2
    assert second.count("<|user|>") == 1
    assert "<|system|>\nShort.<|end|>" in third
    assert "never asked" not in done.stdout
    assert "unknown command /nope; expected /help" in done.stderr
    rows = [json.loads(line) for line in (tmp_path / "talk.jsonl").read_text().splitlines()]
    assert [row["turns"] for row in rows] == [["Where is the road?", "And the rope?"], ["Where is the road?"]]
    assert "exists with another system prompt" in done.stderr
    assert 'description: "Short."' in (tmp_path / "short.yaml").read_text()
    words = ["run", "--model", "hf", "--model_args", f"pretrained={MODEL}", "--tasks", "talk.yaml,short.yaml"]
    ran = run(assaymark, *words, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("exact_match") >= 2


@pytest.mark.slow
def test_a_model_without_template_is_asked_in_plain_text(tmp_path: Path, warm: list[str]) -> None:
    """One line says that there is no template; the prompt is a transcript, and a saved sample holds it."""
    folder = tmp_path / "bare"
    shutil.copytree(MODEL, folder)
    (folder / "chat_template.jinja").unlink()
    words = ["chat", str(folder), "--max_tokens", "5"]
    done = run([*warm, "assaymark"], *words, text="Hello\n/template\n/save bare_talk\n", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("no chat template") == 1
    assert "User: Hello\nAssistant:" in done.stdout
    assert json.loads((tmp_path / "bare_talk.jsonl").read_text())["prompt"] == "User: Hello\nAssistant:"


def test_a_saved_task_ends_where_the_conversation_did(tmp_path: Path) -> None:
    """What ends an answer is read again as it was, in any script: YAML has no escapes of surrogate pairs."""
    settings = GenerationSettings(max_tokens=5, stop=("😀", "Ende"))
    task, _ = save_as_task(
        tmp_path / "größe", [Message.of_text("user", "Hi"), Message.of_text("assistant", "Ho")], None, settings
    )
    assert load_yaml(task.read_bytes())["generation_kwargs"]["until"] == ["😀", "Ende"]


def endless_model(folder: Path) -> Path:
    """Write a model whose answers end only at --max_tokens: no token of its ends a text, and positions suffice."""
    shutil.copytree(MODEL, folder)
    for name, changed in {
        "config.json": {"eos_token_id": None, "max_position_embeddings": 65536},
        "generation_config.json": {"eos_token_id": None},
    }.items():
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    settings = folder / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "eos_token": None}))
    return folder


@pytest.mark.slow
def test_ctrl_c_stops_the_answer_and_not_the_program(tmp_path: Path) -> None:
    """In a terminal Ctrl-C ends a long answer; the next question is answered, and Ctrl-D ends the program."""
    parent, child = pty.openpty()
    model = str(endless_model(tmp_path / "endless"))
    command = [*COMMAND, "chat", model, "--max_tokens", "60000", "--temperature", "3"]
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env={**os.environ, **ENVIRONMENT},
                               start_new_session=True)  # fmt: skip
    os.close(child)

    def read_until(text: str) -> str:
        seen, until = "", time.monotonic() + SECONDS
        while text not in seen:
            assert time.monotonic() < until, seen[-2000:]
            if select.select([parent], [], [], 0.2)[0]:
                seen += os.read(parent, 65536).decode("utf-8", "replace")
        return seen

    try:
        read_until("Ctrl-D ends\r\n> ")
        for _ in range(2):
            os.write(parent, b"Tell me a long story\n")
            read_until("story\r\n")
            assert select.select([parent], [], [], SECONDS)[0]  # the answer has begun
            process.send_signal(signal.SIGINT)
            read_until("(stopped)\r\n> ")
        os.write(parent, b"\x04")
        assert process.wait(30) == 0
    finally:
        process.kill()
        os.close(parent)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fake", "--top_p", "0.5"], "--top_p needs --temperature"),
        (["fake", "--system", "a", "--system_prompt", "b"], "omit one"),
        (["http://127.0.0.1:9/v1"], "no server answers"),
        (["/nowhere/at/all"], "/nowhere/at/all"),
        (["fake", "--prompt_preset", "chatmll"], "nearest: chatml"),
    ],
)
def test_wrong_input_gets_one_line(words: list[str], expected: str) -> None:
    """Contradictory options, no server and no model end with one line."""
    done = run(COMMAND, "chat", *words, text="Hi\n")
    assert done.returncode in (2, 5)
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
