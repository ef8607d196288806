"""Files that cannot be written are told in one line, before the work where there is much of it."""

import os
from pathlib import Path

import pytest

from evalstone.api.locations import check_writable
from evalstone.cli.main import main
from evalstone.errors import UsageError

FAKE = ["run", "--model", "fake", "--quiet", "--tasks", "demo_yesno", "--limit", "8"]


@pytest.fixture
def blocked(tmp_path: Path) -> Path:
    """Return a path below a file, where nobody may make anything, whoever runs the tests."""
    (tmp_path / "file").write_text("")
    return tmp_path / "file" / "below"


def test_a_run_says_so_before_it_asks(blocked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong --output_path is no surprise after hours: nothing was asked, and no store was made."""
    assert main([*FAKE, "--output_path", str(blocked)]) == 2
    assert "is a file" in capsys.readouterr().err
    assert main(["ls", "runs", "--json"]) == 0
    assert capsys.readouterr().out.strip() == "[]"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    """So is a folder that belongs to somebody else."""
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="is not writable"):
        check_writable(tmp_path / "new" / "results", "--output_path")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ["export", "last", "-o", "run.csv"],
        ["export", "last", "-o", "run.evalstone"],
        ["export", "last", "-o", "folder"],
        ["report", "last", "-o", "run.html"],
        ["report", "last", "-o", "run.md"],
        ["compare", "last", "last~1", "--gate", "overall >= -1", "--junit", "gates.xml"],
    ],
)
def test_what_cannot_be_written_is_one_line(
    blocked: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """The line names the place and the option that names another."""
    for accuracy in ("0.4", "0.9"):
        assert main([*FAKE, "--model_args", f"mode=gold,accuracy={accuracy}"]) == 0
    capsys.readouterr()
    assert main([*words[:-1], str(blocked / words[-1])]) == 4
    said = capsys.readouterr().err
    assert "cannot be written" in said
    assert str(blocked) in said
