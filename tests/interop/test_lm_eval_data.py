"""`assaymark lm-eval` finds its data sets in ASSAYMARK_DATA, as every other command does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from assaymark.errors import UsageError
from assaymark.interop.commands.lm_eval import data_from_folder
from tests.conftest import ROOT


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("model", ["assaymark", "hf"])
def test_lm_eval_runs_on_the_data_of_the_variable(shared_dir: Path, tmp_path: Path, model: str) -> None:
    """Without the Hub and with an empty cache lm-eval's own tasks find their rows, with any model."""
    pytest.importorskip("lm_eval")
    place = f"pretrained={shared_dir / 'models' / 'stories260K'},dtype=float32"
    command = [sys.executable, "-m", "assaymark", "lm-eval", "run", "--model", model, "--model_args", place,
               "--tasks", "arc_easy,sciq", "--limit", "4", "--device", "cpu"]  # fmt: skip
    variables = {**os.environ, "ASSAYMARK_DATA": str(shared_dir / "data"), "HF_HUB_OFFLINE": "1",
                 "HF_HOME": str(tmp_path / "hub"), "ASSAYMARK_THREADS": "1", "OMP_NUM_THREADS": "1"}  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "|arc_easy|" in done.stdout.replace(" ", "")
    assert "|sciq" in done.stdout.replace(" ", "")


def test_rows_are_read_from_the_folder_first_and_then_from_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data set in the folder is read there, one split or all; others are loaded from the Hub."""
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "data" / "someone" / "rows" / "default"
    folder.mkdir(parents=True)
    for split in ("train", "test"):
        datasets.Dataset.from_dict({"q": [split, "b"]}).to_parquet(folder / f"{split}.parquet")
    monkeypatch.setenv("ASSAYMARK_DATA", str(tmp_path / "data"))
    before = datasets.load_dataset
    with data_from_folder():
        result = datasets.load_dataset(path="someone/rows", name=None)
        assert {split: result[split]["q"][0] for split in result} == {"train": "train", "test": "test"}
        assert datasets.load_dataset("someone/rows", split="test")["q"][0] == "test"
        with pytest.raises(Exception, match="someone/else"):
            datasets.load_dataset("someone/else")
        with pytest.raises(Exception, match="rows"):
            datasets.load_dataset("../data/someone/rows")
    assert datasets.load_dataset is before


def test_a_variable_that_names_no_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the variable; without it nothing is replaced."""
    monkeypatch.setenv("ASSAYMARK_DATA", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="ASSAYMARK_DATA"), data_from_folder():
        pass
