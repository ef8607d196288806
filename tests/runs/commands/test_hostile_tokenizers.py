"""Tokenizers whose native code panics or takes for ever: one line, and Ctrl-C is heard."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import assaymark

SMALL = Path(assaymark.__file__).parent / "library" / "demo_models" / "small"
SOURCE = str(Path(assaymark.__file__).parent.parent)
# the real command; it only says when the tokenizer begins to be loaded
COMMAND = """
import sys
import transformers
load = transformers.AutoTokenizer.from_pretrained
def said(*arguments, **named):
    print("loading", flush=True)
    return load(*arguments, **named)
transformers.AutoTokenizer.from_pretrained = said
from assaymark.cli.main import main
sys.exit(main())
"""
Change = Callable[[dict[str, Any]], None]
Started = Callable[[Change], "subprocess.Popen[str]"]


@pytest.fixture
def words(tmp_path: Path) -> Callable[[Change], list[str]]:
    """Return a function that changes a tokenizer and returns the command of a run with it."""

    def changed(change: Change) -> list[str]:
        model = tmp_path / change.__name__
        shutil.copytree(SMALL, model)
        tokenizer = json.loads((model / "tokenizer.json").read_text())
        change(tokenizer)
        (model / "tokenizer.json").write_text(json.dumps(tokenizer))
        run = ["run", "--model", "hf", "--model_args", f"pretrained={model}", "--tasks", "demo_facts", "--limit", "2"]
        return [*run, "--store", str(tmp_path / "store.sqlite")]

    return changed


@pytest.fixture
def start(words: Callable[[Change], list[str]]) -> Started:
    """Return a function that changes a tokenizer and starts a run with it."""

    def started(change: Change) -> "subprocess.Popen[str]":
        environment = {**os.environ, "PYTHONPATH": SOURCE, "RUST_BACKTRACE": "1"}
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, *words(change)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )

    return started


def prefix_beyond_its_texts(tokenizer: dict[str, Any]) -> None:
    """Make the library cut more from a token than it has, which panics while the file is read."""
    tokenizer["model"]["continuing_subword_prefix"] = "#########"


def expression_that_gives_up(tokenizer: dict[str, Any]) -> None:
    """Make a text's normalisation panic: its expression takes more steps than the library allows."""
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "([a-z ]+[a-z ]+)+[0-9]"}, "content": "z"}


@pytest.mark.slow
@pytest.mark.parametrize("change", [prefix_beyond_its_texts, expression_that_gives_up])
def test_a_panic_is_one_line(start: Started, change: Change) -> None:
    """While it is loaded or while it encodes: an error that names the tokenizer and the remedy, without a traceback."""
    process = start(change)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 5
    assert "Traceback" not in errors
    assert "stack backtrace" not in errors
    (line,) = [each for each in errors.splitlines() if each.startswith("error")]  # the library itself prints others
    assert re.search(r"tokenizer.*(panic|range|native code|cannot be loaded).*tokenizer=FOLDER", line), errors


def replaced(*contents: str) -> dict[str, Any]:
    """Return normalisers that replace one character after another."""
    steps = [{"type": "Replace", "pattern": {"String": " "}, "content": content} for content in contents]
    return {"type": "Sequence", "normalizers": steps}


def long_replacement(tokenizer: dict[str, Any]) -> None:
    """Make two million spaces of each."""
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": " " * 2_000_000}


def many_replacements(tokenizer: dict[str, Any]) -> None:
    """Make 30 spaces of each, five times."""
    tokenizer["normalizer"] = replaced(*[" " * 30] * 5)


def empty_matches(tokenizer: dict[str, Any]) -> None:
    """Put a text between any two characters."""
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "x?"}, "content": "y" * 100_000}


def long_prefix(tokenizer: dict[str, Any]) -> None:
    """Put a long text in front of each."""
    tokenizer["normalizer"] = {"type": "Prepend", "prepend": "y" * 1_000_000}


IN_TURN = """
import json, sys
from assaymark.cli.main import main
print([main(json.loads(line)) for line in sys.stdin])
"""


@pytest.mark.slow
def test_tokenizers_that_lengthen_texts_are_refused(words: Callable[[Change], list[str]]) -> None:
    """Before anything is encoded, in one line that says by how much."""
    changes = [long_replacement, many_replacements, empty_matches, long_prefix]
    lines = "".join(f"{json.dumps(words(change))}\n" for change in changes)
    command = [sys.executable, "-c", IN_TURN]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == f"{[5] * 4}\n"
    for line, change in zip(done.stderr.splitlines(), changes, strict=True):
        refused = r"error: the tokenizer in (.*): its normalizer may make a text [\d,]+ times as long; .* 64 times"
        match = re.match(refused, line)
        assert match is not None, line
        assert change.__name__ in match[1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_heard_while_a_tokenizer_is_loaded(start: Started, number: signal.Signals) -> None:
    """The process ends within seconds, though the native code would hold the interpreter for minutes."""

    def slow(tokenizer: dict[str, Any]) -> None:
        tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": "z"}
        first = max(token["id"] for token in tokenizer["added_tokens"]) + 1
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
        tokenizer["added_tokens"] += [
            {"id": first + n, "content": "x" * 20 + str(n), "normalized": True, **flags} for n in range(5000)
        ]

    process = start(slow)
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    time.sleep(1.0)
    assert process.poll() is None
    begun = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=60)
    assert time.monotonic() - begun < 5
    assert process.returncode == -number  # 130 and 143 in a shell
