"""A stored audit of prompts gives its model's rows a column: how much the score changes with the wording."""

import json
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store


@pytest.mark.slow
def test_the_column_holds_the_audits_spread(tmp_path: Path, made_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean over the audited tasks of the row, of its own model only, and present as soon as the audit is stored."""
    monkeypatch.setenv("ASSAYMARK_CACHE", str(made_once))
    place = str(tmp_path / "s.sqlite")
    for name in ("one", "two"):
        rows = "\n".join(
            f"{name}: which letter follows {n}?,one {n},two {n},three {n},{'ABC'[n % 3]}" for n in range(40)
        )
        (tmp_path / f"{name}.csv").write_text(f"question,A,B,C,answer\n{rows}\n")
    (tmp_path / "board.yaml").write_text("title: Demo\nname: demo\ntasks: [{file: one.csv}, {file: two.csv}]\n")
    first, two = str(tmp_path / "one.csv"), str(tmp_path / "two.csv")
    for seed in (1, 2):
        words = ["--model", "fake", "--model_args", f"seed={seed}", "--tasks", f"{first},{two}"]
        assert main(["run", *words, "--store", place]) == 0
    runs = StoredRuns(Store.open_to_read(place))
    site = Site([read_board(tmp_path / "board.yaml")], runs)

    def spreads() -> dict[str, object]:
        return {
            row.model: row.facts.get("prompt_spread")
            for row in site.table(site.boards["demo"]).rows
            if row.model.startswith("fake")
        }

    assert spreads() == {"fake-random-1": None, "fake-random-2": None}
    audit = ["audit", "prompts", "fake", first, two, "--model_args", "seed=2", "--limit", "30"]
    assert main([*audit, "--store", place, "--output", str(tmp_path / "audit.json")]) == 0
    written = json.loads((tmp_path / "audit.json").read_text())
    expected = [100 * each["spread"]["spread"] for each in written["audits"]]
    assert len(expected) == 2
    assert min(expected) > 0
    assert spreads() == {"fake-random-1": None, "fake-random-2": round(sum(expected) / 2, 1)}
