"""Output files that cannot be written are reported in one line, before a long evaluation."""

import os
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.runs.stored import check_writable

FAKE = ["run", "--model", "fake", "--quiet", "--tasks", "demo_yesno", "--limit", "8"]


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """Return a path below a file, where no user can create anything."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "below"


def test_a_run_checks_its_output_path_first(blocked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong --output_path is refused before any request is sent or a store is created."""
    assert main([*FAKE, "--output_path", str(blocked)]) == 2
    assert "is a file" in capsys.readouterr().err
    assert main(["ls", "runs", "--json"]) == 0
    assert capsys.readouterr().out.strip() == "[]"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    """A folder of another user is refused."""
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="is not writable"):
        check_writable(tmp_path / "new" / "results", "--output_path")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ["export", "last", "-o", "run.csv"],
        ["export", "last", "-o", "run.assaymark"],
        ["export", "last", "-o", "folder"],
        ["report", "last", "-o", "run.html"],
        ["report", "last", "-o", "run.md"],
        ["compare", "last", "last~1", "--gate", "overall >= -0.5", "--junit", "gates.xml"],
    ],
)
def test_a_file_that_cannot_be_written_is_one_line(
    blocked: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """The error has the path."""
    for accuracy in ("0.4", "0.9"):
        assert main([*FAKE, "--model_args", f"mode=gold,accuracy={accuracy}"]) == 0
    capsys.readouterr()
    assert main([*words[:-1], str(blocked / words[-1])]) == 4
    said = capsys.readouterr().err
    assert "cannot be written" in said
    assert str(blocked) in said
