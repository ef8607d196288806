"""Files that are complete or absent, and the leftovers of killed processes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.drafts import PREFIX, draft_folder, remove_leftovers, write_whole

ROOT = Path(__file__).parents[1]
EXPORT_AND_WAIT = """
import os, sys, time
from assaymark.drafts import draft_folder, whole_file
from pathlib import Path
target = Path(sys.argv[1])
with draft_folder() as folder, whole_file(target) as draft:
    (folder / "run.sqlite").write_text("half")
    draft.write_text("half of it")
    print(folder, flush=True)
    time.sleep(60)
"""


def drafts_in(folder: Path) -> list[str]:
    """Return the names of drafts in a folder."""
    return [entry.name for entry in folder.iterdir() if entry.name.startswith(PREFIX)]


def test_a_killed_process_s_drafts_are_removed_by_the_next_command(tmp_path: Path, own_home: Path) -> None:
    """What kill -9 left beside its target and among temporary files is removed by the next command of any kind."""
    target = tmp_path / "out" / "run.assaymark"
    target.parent.mkdir()
    process = subprocess.Popen([sys.executable, "-c", EXPORT_AND_WAIT, str(target)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    temporary = Path(process.stdout.readline().strip())
    try:
        assert main(["ls", "runs"]) == 0
        assert temporary.is_dir(), "a living process keeps its drafts"
        assert len(drafts_in(target.parent)) == 1
    finally:
        process.kill()
        process.communicate()
    assert main(["ls", "runs"]) == 0
    assert not temporary.exists()
    assert list(target.parent.iterdir()) == []
    assert list((own_home / "drafts").iterdir()) == []


def test_a_record_that_points_elsewhere_removes_nothing(tmp_path: Path, own_home: Path) -> None:
    """Only folders with a draft's name are removed, whatever a damaged or forged record contains."""
    (own_home / "drafts").mkdir(parents=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    host = os.uname().nodename
    for name, content in (("a", f'{{"place": "{mine}", "host": "{host}"}}'), ("b", "[1]"), ("c", "no JSON"), ("d", "")):
        (own_home / "drafts" / f"{name}.json").write_text(content)
        (own_home / "drafts" / f"{name}.lock").touch()
    remove_leftovers()
    assert mine.is_dir()
    assert list((own_home / "drafts").iterdir()) == []


def test_the_old_file_remains_until_the_new_one_is_complete(tmp_path: Path) -> None:
    """An error in the middle leaves the old file and no draft; its mode and a link to it are unchanged."""
    target, link = tmp_path / "table.csv", tmp_path / "link.csv"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with pytest.raises(UnicodeEncodeError):
        write_whole(target, "half \ud800")
    assert target.read_text() == "old"
    write_whole(link, "new")
    assert (target.read_text(), link.is_symlink(), target.stat().st_mode & 0o777) == ("new", True, 0o640)
    assert drafts_in(tmp_path) == []


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """A pipe or device is not a file that could be replaced."""
    write_whole(Path("/dev/null"), "gone")
    assert Path("/dev/null").is_char_device()


def test_without_a_writable_home_drafts_still_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record is optional: if it cannot be created the file is still written."""
    (tmp_path / "file").write_text("x")
    monkeypatch.setenv("ASSAYMARK_HOME", str(tmp_path / "file" / "home"))
    write_whole(tmp_path / "out.txt", "text")
    with draft_folder(tmp_path) as folder:
        assert folder.is_dir()
    remove_leftovers()
    assert (tmp_path / "out.txt").read_text() == "text"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 48 KiB, or skip."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root may mount a small file system")
    options = ["-t", "tmpfs", "-o", "size=48k", "tmpfs", str(folder)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.assaymark", "run.json", "run.csv", "run.parquet", "run.md", "run.html"])
def test_on_a_full_disk_a_file_is_whole_or_absent(
    name: str, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every kind of export fails on a full disk with exit code 4 and one line, and leaves the old file."""
    store = str(tmp_path / "store.sqlite")
    run = ["run", "--model", "fake", "--tasks", "demo_letters", "--limit", "4", "--quiet", "--store", store]
    assert main(run) == 0
    command = "report" if name.endswith("html") else "export"
    whole = tmp_path / name
    assert main([command, "last", "-o", str(whole), "--store", store]) == 0
    target = small_disk / name
    target.write_text("what was there")
    (small_disk / "filler").write_bytes(b"\0" * (44 * 1024))
    capsys.readouterr()
    assert main([command, "last", "-o", str(target), "--store", store]) == 4
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert target.read_text() == "what was there"
    assert drafts_in(small_disk) == []
    (small_disk / "filler").unlink()
