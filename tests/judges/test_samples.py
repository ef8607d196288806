"""Judgements shown sample by sample: both orders, each with its own text and verdict."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.judges.judge import judge_runs
from assaymark.judges.judging import JudgeOptions
from tests.judges.answered import answered_run, questions_task
from tests.judges.judge_server import answers_shown, judging_server


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what `assaymark show` prints."""
    assert main(["show", *words]) == 0
    return capsys.readouterr().out


def test_both_orders_of_a_pair_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The text and the verdict of each order, which model was A in it, and what follows from both."""
    task, path = questions_task(tmp_path), tmp_path / "s.sqlite"
    runs = [answered_run("ant", task, path), answered_run("bee", task, path)]

    def of_order(text: str) -> str:
        is_first = answers_shown(text)[0].startswith("ant")
        return "Ant came first. [[A]]" if is_first else "Bee came first. [[A]]" if "number 2" in text else "Hm."

    with judging_server(of_order) as server:
        options = JudgeOptions(prompt="pair", model_args=server.arguments)
        result = judge_runs("local-chat-completions", runs, options, store=str(path))
    words = (result.row.short_id, "--samples", "open_questions", "--store", str(path))
    text = " ".join(shown(capsys, *words).split())
    assert text.count("A is ant, B is bee") == text.count("A is bee, B is ant") == 8
    assert "open_questions 2 win of ant 0.5, both orders name the answer shown first" in text
    assert "Bee came first. [[A]] verdict: A" in text
    assert "open_questions 3 win of ant –, no verdict in an order" in text
    assert "Hm. verdict: none" in text
    samples = json.loads(shown(capsys, *words, "--json"))
    assert [sample["sample_index"] for sample in samples] == list(range(8))
    assert samples[2]["verdict"] == samples[2]["swapped"]["verdict"] == "A"
    assert samples[2]["swapped"]["outputs"][0]["text"] == "Bee came first. [[A]]"
    assert samples[2]["swapped"]["prompt"].index("bee says") < samples[2]["swapped"]["prompt"].index("ant says")
    assert samples[3]["swapped"]["verdict"] is None
    item = json.loads(shown(capsys, *words, "-L", "1", "--json"))
    assert [(each["sample_index"], each["swapped"]["sample_index"]) for each in item] == [(0, 0)]


def test_grades_of_conversations_are_shown_by_turn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each turn has its grade and the judge's text; there is no other order."""
    task, path = questions_task(tmp_path, turns=2), tmp_path / "s.sqlite"
    run = answered_run("ant", task, path, limit=2)
    with judging_server(lambda text: "Weak. [[4]]" if "its double?" in text else "Good. [[8]]") as server:
        options = JudgeOptions(model_args=server.arguments)
        result = judge_runs("local-chat-completions", [run], options, store=str(path))
    words = (result.row.short_id, "--samples", "open_questions", "--store", str(path))
    text = " ".join(shown(capsys, *words).split())
    assert "open_questions 1 grade 8" in text
    assert "open_questions 1, turn 2 grade 4" in text
    assert "Weak. [[4]] verdict: 4" in text
    assert all("swapped" not in each for each in json.loads(shown(capsys, *words, "--json")))
