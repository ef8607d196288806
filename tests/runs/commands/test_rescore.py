"""The commands `rescore`, `run --prompt_style` and `run --prompt-preset`."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main

FAKE = ["run", "--model", "fake", "--quiet", "--limit", "4", "--tasks"]
LOWER = "{name: lower, filter: [{function: lowercase}, {function: take_first}]}"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must succeed and return its output."""
    assert main(list(words)) == 0
    return capsys.readouterr().out


def failed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that must be refused and return its standard error."""
    assert main(list(words)) == 2
    return capsys.readouterr().err


def test_rescore_shows_the_new_score(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the new row, a line states the rescoring, and `show` prints it too."""
    printed(capsys, *FAKE, "demo_facts")
    output = printed(capsys, "rescore", "last", "--metric", "acc_bytes", "--task", "demo_facts")
    assert "acc_bytes" in output
    assert "demo_facts: 4 stored responses scored again, no request was sent" in output
    result = printed(capsys, "show", "last")
    assert "scored again after the run" in " ".join(result.split())
    assert "demo_facts scored again: acc_bytes under none" in result
    actual = json.loads(printed(capsys, "rescore", "last", "--metric", "acc_bytes", "--json"))
    assert [each["task"] for each in actual["scored_again"]] == ["demo_facts"]
    assert actual["rescored"][0]["metrics"][0]["name"] == "acc_bytes"


def test_rescore_refuses_in_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An unknown run, a filter for texts on choices, and an invalid item are errors with a remedy."""
    printed(capsys, *FAKE, "demo_facts")
    assert "unknown run 'nope'" in failed(capsys, "rescore", "nope")
    assert "reads generated answers" in failed(capsys, "rescore", "last", "--filter", LOWER)
    assert "cannot be read" in failed(capsys, "rescore", "last", "--metric", "{metric")
    assert "cannot be read" in failed(capsys, "rescore", "last", "--filter", 3000 * "{a: ")
    (tmp_path / "latin.yaml").write_bytes("name: größer".encode("latin-1"))
    for option in ("--filter", "--metric"):
        assert "cannot be read" in failed(capsys, "rescore", "last", option, str(tmp_path / "latin.yaml"))


@pytest.mark.slow
def test_prompt_styles_are_printed_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """Two prompt styles at two numbers of shots are four lines, in JSON too."""
    words = [*FAKE, "demo_facts", "--prompt_style", "letter,cot", "--num-fewshot", "0,2"]
    output = printed(capsys, *words)
    assert [line.split()[:2] for line in output.splitlines() if line.lstrip().startswith(("letter  ", "cot  "))] == [
        ["letter", "0"], ["letter", "2"], ["cot", "0"], ["cot", "2"],
    ]  # fmt: skip
    lines = json.loads(printed(capsys, *words, "--json"))["lines"]
    assert [(line["prompt_style"], line["num_fewshot"]) for line in lines][::3] == [("letter", 0), ("cot", 2)]


def test_invalid_prompt_styles_and_presets_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Options of one run with several shots or --prompt_style, and unknown names, are refused."""
    output = failed(capsys, *FAKE, "demo_facts", "--num_fewshot", "0,5", "--predict_only")
    assert "--predict_only cannot be combined with several numbers of shots" in output
    assert "not a valid integer" in failed(capsys, *FAKE, "demo_facts", "--num_fewshot", "five")
    output = failed(capsys, *FAKE, "demo_facts", "--prompt_style", "text", "--predict_only")
    assert "--predict_only cannot be combined with --prompt_style" in output
    output = failed(capsys, *FAKE, "demo_facts", "--prompt_style", "text", "--output_path", "results")
    assert "export RUN -o DIR" in output
    assert "nearest: llama-2" in failed(capsys, *FAKE, "demo_facts", "--prompt-preset", "lama-2")
    assert "nearest: helpful" in failed(capsys, *FAKE, "demo_facts", "--system-prompt", "helful")


def test_presets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`ls presets` and `ls system-prompts` list the entries that match all words."""
    assert "tatsu-lab" in printed(capsys, "ls", "presets", "alp")
    assert "You are a helpful assistant." in printed(capsys, "ls", "system-prompts")
