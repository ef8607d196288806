"""The list of runs keeps ids whole in a narrow terminal."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import assaymark
from assaymark.results.views.run_list import run_list


@pytest.mark.parametrize("width", [60, 80, 120])
def test_ids_are_never_shortened(width: int, tmp_path: Path) -> None:
    """A long status folds instead, since an id that is cut cannot be used."""
    run = assaymark.evaluate("fake", "demo_facts", limit=2, store=str(tmp_path / "s.sqlite"))
    row = replace(run.row, status="incomplete", n_failed=12_345)
    printed = StringIO()
    Console(file=printed, width=width).print(run_list([row]))
    assert row.short_id in printed.getvalue()
    assert max(map(len, printed.getvalue().splitlines())) <= width


def models_in(models: list[str], tmp_path: Path, width: int) -> list[str]:
    """Return the column of models of a list of runs of these models."""
    run = assaymark.evaluate("fake", "demo_facts", limit=2, store=str(tmp_path / "s.sqlite"))
    rows = [
        replace(run.row, plan=replace(run.row.plan, model=replace(run.row.plan.model, name=name))) for name in models
    ]
    printed = StringIO()
    Console(file=printed, width=width).print(run_list(rows))
    assert max(map(len, printed.getvalue().splitlines())) <= width
    return [line.split()[1] for line in printed.getvalue().splitlines()[2:]]


def test_models_stay_apart_at_80_columns(tmp_path: Path) -> None:
    """Checkpoints of one training, models of two authors, and long names that differ in their ends look different."""
    models = [
        "train/checkpoint-500", "other/checkpoint-500", "a/llama-3.1-8b-instruct-finetuned-on-medical-notes-v1",
        "a/llama-3.1-8b-instruct-finetuned-on-medical-notes-v2", "b/small",
    ]  # fmt: skip
    result = models_in(models, tmp_path, 80)
    assert len(set(result)) == len(models)
    assert [name[:5] for name in result[:2]] == ["train", "other"]
    assert result[4] == "small"
    assert [name[-2:] for name in result[2:4]] == ["v1", "v2"]


def test_a_piped_list_is_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that does not fit into 80 columns is not cut where nobody reads it on a terminal."""
    from assaymark.cli.main import main

    monkeypatch.delenv("COLUMNS", raising=False)  # set in some of the tests' environments
    place = str(tmp_path / "s.sqlite")
    assaymark.evaluate("fake", "demo_facts,demo_who,demo_truth,demo_yesno,demo_sums,demo_orders", limit=1, store=place)
    assert main(["ls", "runs", "--store", place]) == 0
    printed = capsys.readouterr().out
    assert "demo_orders" in printed
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) < 200
