"""What differs between systems: names that Windows accepts, locks, processes, command lines and what is refused."""

import ntpath
import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import psutil
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assaymark.platforms import (
    alone,
    end_group,
    is_running,
    locked,
    not_here,
    portable_name,
    relative_path,
    split_command,
    total_memory_bytes,
)
from assaymark.tasks.own_rows import dataset_name

HOLD = "import sys, time; from pathlib import Path; from assaymark.platforms import locked\n"
HOLD += "with locked(Path(sys.argv[1]), wait=True): print('held', flush=True); time.sleep(60)"
START_ANOTHER = "import subprocess, sys, time; other = subprocess.Popen([sys.executable, '-c', sys.argv[1]])\n"
START_ANOTHER += "print(other.pid, flush=True); time.sleep(60)"


@given(st.text(max_size=300))
@example("con")
@example("LPT1.jsonl")
@example("COM¹")
@example("nul .txt")
@example("ends. ")
@example("a:b?c")
@example("é" * 150)
@example("..")
def test_every_text_becomes_a_name_that_windows_and_linux_accept(text: str) -> None:
    """Python's own rules of Windows, and Linux's length in bytes, accept each name; what it returns stays as it is."""
    name = portable_name(text)
    assert not PureWindowsPath(name).is_reserved()
    assert PureWindowsPath(name).name == name
    assert not set('<>:"/\\|?*') & set(name)
    assert not any(ord(character) < 32 for character in name)
    assert name[-1] not in ". "
    assert 0 < len(name.encode("utf-8", "surrogatepass")) <= 200
    assert portable_name(name) == name


@pytest.mark.parametrize("name", ["mmlu_abstract_algebra", "arc-easy~mild_mix", "gsm8k v2", "größe", "console", "a.b"])
def test_a_name_that_all_systems_accept_is_kept(name: str) -> None:
    """Names of lm-eval's files are unchanged."""
    assert portable_name(name) == name


def test_a_lock_is_held_by_one_process_until_it_ends(tmp_path: Path) -> None:
    """While another process has it, it is not held here; once that is killed, it is."""
    path = tmp_path / "one.lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with locked(path, wait=False) as is_held:
            assert not is_held
        process.kill()
    with locked(path, wait=True) as is_held:
        assert is_held


def test_what_is_named_is_held_once(own_home: Path) -> None:
    """The same name excludes, in one process too; another name does not."""
    with alone("answers", wait=False) as first, alone("answers", wait=False) as again, alone("other") as other:
        assert (first, again, other) == (True, False, True)


@pytest.mark.parametrize("system", ["linux", "win32"])
def test_a_process_is_ended_with_what_it_started(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its group, and as on Windows, where there are no groups, by its descendants."""
    monkeypatch.setattr(sys, "platform", system)
    command = [sys.executable, "-c", START_ANOTHER, "import time; time.sleep(60)"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    started = int(process.stdout.readline())
    assert is_running(started)
    end_group(process)
    process.communicate()
    psutil.wait_procs([psutil.Process(started)] if psutil.pid_exists(started) else [], timeout=10)
    assert not is_running(started) or psutil.Process(started).status() == psutil.STATUS_ZOMBIE
    assert not is_running(process.pid)


def test_the_memory_is_the_kernel_s() -> None:
    """The machine's memory is what /proc/meminfo has: the engine's window, which follows from it, stays as it was."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    assert total_memory_bytes() == int(lines[0].split()[1]) * 1024


def test_a_command_line_of_windows_keeps_its_backslashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of Windows is one word, quoted where it has a space; elsewhere a backslash escapes."""
    assert split_command(r"python a\ b.py 'c d'") == ["python", "a b.py", "c d"]
    monkeypatch.setattr(sys, "platform", "win32")
    assert split_command(r'C:\Python\python.exe "C:\my files\app.py" x') == [
        r"C:\Python\python.exe",
        r"C:\my files\app.py",
        "x",
    ]


def test_paths_are_written_with_slashes_and_whole_from_another_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that name others, such as a board's, can be read on another system."""
    assert relative_path(Path("/a/b/c.csv"), Path("/a/d")) == "../b/c.csv"
    monkeypatch.setattr(os.path, "relpath", lambda path, start: ntpath.relpath("D:\\c.csv", "C:\\a"))
    assert relative_path(Path("/b/c.csv"), Path("/a")) == "/b/c.csv"


def test_a_folder_on_a_drive_is_no_id_with_a_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The colon of a drive does not end the name of a data set; what follows the path does."""
    (tmp_path / "test.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n', encoding="utf-8")
    folder = str(tmp_path)
    monkeypatch.setattr("os.path.splitdrive", lambda text: (text[:2], text[2:]) if text[1:2] == ":" else ("", text))
    monkeypatch.setattr("assaymark.tasks.own_rows.Path", lambda text: Path(str(text).removeprefix("C:")))
    name = dataset_name(f"C:{folder}:default:test")
    assert name is not None
    assert (name.config, name.split) == ("default", "test")
    assert name.path == folder


@pytest.mark.parametrize(("system", "remedy"), [("win32", "wsl --install"), ("darwin", "docker run")])
def test_a_refusal_names_the_system_and_what_to_do(system: str, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line: what is refused, what it needs, and the way."""
    monkeypatch.setattr(sys, "platform", system)
    line = str(not_here("the warm process"))
    assert line.startswith("the warm process needs Linux")
    assert remedy in line
    assert "\n" not in line
