"""`board win-rates`: HELM's mean win rate of stored runs, with intervals where the samples are stored."""

import json
from pathlib import Path

import numpy as np
import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.models.fake import FakeModel

N = 60


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A board of three models on two tasks, one of which the last model lacks."""
    monkeypatch.chdir(tmp_path)
    for name in ("plants", "stars"):
        rows = [{"question": f"{name} {at}?", "choices": ["a", "b", "c"], "answer": at % 3} for at in range(N)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for accuracy, tasks in (
        (0.9, "plants.jsonl,stars.jsonl"),
        (0.6, "plants.jsonl,stars.jsonl"),
        (0.2, "plants.jsonl"),
    ):
        model = FakeModel(mode="gold", accuracy=accuracy, seed=int(10 * accuracy))
        assaymark.evaluate(model, tasks, store=str(tmp_path / "s.sqlite"), perturb="lowercase,space")
    (tmp_path / "board.yaml").write_text("title: Fields\ntasks: [{task: plants}, {task: stars}]\n")
    return tmp_path / "board.yaml"


def test_rates_follow_the_columns_values(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two columns, one of which a model lacks, the rates are those computed by hand; intervals contain them."""
    assert main(["board", "win-rates", str(board), "--store", str(board.parent / "s.sqlite"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rates = [row["mean_win_rate"] for row in found["models"]]
    assert [row["n_columns"] for row in found["models"]] == [2, 2, 1]
    assert rates == pytest.approx([1.0, np.mean([0.5, 0.0]), 0.0])
    assert found["why_no_intervals"] is None
    assert all(row["low"] <= row["mean_win_rate"] <= row["high"] for row in found["models"])
    assert found["order"] == {"n_models": 3, "n_pairs": 3, "n_dependent": 0}


def test_the_terminal_says_how_the_order_depends_on_others(board: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Below the table is the number of pairs that change places; copies of perturbed samples are no columns."""
    assert main(["board", "win-rates", str(board), "--store", str(board.parent / "s.sqlite")]) == 0
    printed = capsys.readouterr().out
    assert "0 of 3 pairs of the best 3 models change places" in printed
    assert "~" not in printed
