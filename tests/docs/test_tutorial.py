"""The notebook of the tutorial: its cells run, its sections are there, its rows are MMLU's."""

import os
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT

jupytext = pytest.importorskip("jupytext")
pytest.importorskip("nbclient", reason="the extra [dev] is not installed")

FOLDER = ROOT / "docs" / "tutorial"
PAGE = FOLDER / "mmlu_from_scratch.md"
SECTIONS = (
    "Four depths of understanding", "Intuition", "History", "Mathematics", "A toy classifier", "Worked numbers",
    "From scratch in six steps", "What the scores say", "In practice", "Medical questions in five stages",
    "Questions and answers, and trust", "Exercises", "Glossary",
)  # fmt: skip
CELL_S = 600  # of one cell, which hangs then


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The notebook's code cells after a run in an empty home, without the Hub."""
    from nbclient import NotebookClient

    home = tmp_path_factory.mktemp("home")
    notebook = jupytext.read(PAGE)
    client = NotebookClient(notebook, timeout=CELL_S, resources={"metadata": {"path": str(FOLDER)}})
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAYMARK_", "XDG_"))}
    env |= {"HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    client.execute(env=env)
    assert not [path.name for path in home.rglob("*.sqlite")]  # the notebook's runs are in its own folder
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_it_has_thirteen_sections() -> None:
    """The sections are those of the tutorial it follows, in its order, and the table at the top links them all."""
    text = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == [f"{number}. {name}" for number, name in enumerate(SECTIONS, start=1)]
    assert [int(number) for number in re.findall(r"^\| \[(\d+) ", text, re.MULTILINE)] == list(range(1, 14))


def test_nothing_of_the_machine_is_printed() -> None:
    """The sign-off names no host, address or user."""
    text = PAGE.read_text(encoding="utf-8")
    assert not re.search(r"getnode|gethostby|platform\.node|getpass|getuser", text)


def test_its_rows_are_mmlus(shared_dir: Path) -> None:
    """The slice is the first rows of each split, unchanged."""
    files = sorted((FOLDER / "data").rglob("*.parquet"))
    assert len(files) == 10
    for path in files:
        rows = pq.read_table(path).to_pylist()
        whole = pq.read_table(shared_dir / "data" / path.relative_to(FOLDER / "data")).to_pylist()
        assert rows == whole[: len(rows)]
        assert len(rows) == {"dev": 5, "test": 12}[path.stem]


@pytest.mark.slow
def test_its_cells_run(executed: list[Any]) -> None:
    """No cell fails or warns, and the published numbers are computed."""
    streams = [output for cell in executed for output in cell.outputs if output.output_type == "stream"]
    assert [output.text for output in streams if output.name == "stderr"] == []
    printed = "".join(output.text for output in streams)
    for line in ("epoch  5: loss 0.6232", "epoch 10: loss 0.5231", "epoch 15: loss 0.3873", "epoch 20: loss 0.2444",
                 "training accuracy 100%", "Scores: tensor([ 2.5861, -0.3854, -1.7413])"):  # fmt: skip
        assert line in printed


@pytest.mark.slow
def test_results_show_themselves(executed: list[Any]) -> None:
    """Runs, comparisons, a diagnosis and three audits are HTML; charts are drawings, not scripts from elsewhere."""
    data = [output.data for cell in executed for output in cell.outputs if "data" in output]
    tables = [each["text/html"] for each in data if "text/html" in each]
    assert len(tables) == 12
    assert all('class="assaymark-view"' in table and "<script" not in table for table in tables)
    assert sum("image/svg+xml" in each for each in data) == 2


@pytest.mark.slow
def test_the_exercises_begin_unsolved(executed: list[Any]) -> None:
    """Each check says what is to do, and the hidden solution passes the same check."""
    unsolved = [cell for cell in executed if re.search(r'^print\("\\n"\.join\(check_', cell.source, re.MULTILINE)]
    assert len(unsolved) == 2
    for cell in unsolved:
        assert "solved" not in cell.outputs[0].text
    solutions = [cell for cell in executed if "hide-cell" in cell.metadata.get("tags", ())]
    assert len(solutions) == 2
    assert all("assert check_" in cell.source for cell in solutions)
