"""Standard streams that are closed, full or of a narrow encoding, and unexpected exceptions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from assaymark import registry
from assaymark.cli.main import main, without_flag
from assaymark.registry import Place

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def shell(line: str, **environment: str) -> tuple[int, str, str]:
    """Run a shell command in which `$E` is assaymark; return exit code, standard output and standard error."""
    variables = {**os.environ, "E": f"{sys.executable} -m assaymark", **environment}
    done = subprocess.run(["/bin/sh", "-c", line], env=variables, capture_output=True, check=False, timeout=120)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


@needs_full
def test_a_full_device_is_one_line() -> None:
    """Output that cannot be written is exit code 1 and one line; with standard error full as well, exit code 1."""
    code, _, said = shell("$E ls suites >/dev/full")
    assert (code, said) == (1, "error: cannot write to standard output: No space left on device\n")
    assert shell("$E ls suites >/dev/full 2>/dev/full")[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_stop_nothing(closed: str, tmp_path: Path) -> None:
    """With closed streams a run is stored, and no file gets the descriptor of standard output."""
    store = tmp_path / "store.db"
    line = f"$E run --model fake --tasks demo_who --limit 2 --store {store} {closed}"
    code, _, said = shell(line)
    assert code == 0, said
    assert "Traceback" not in said
    code, listed, said = shell(f"$E verify --store {store}")
    assert (code, said) == (0, "")
    assert "no problems in" in listed


def test_an_encoding_that_lacks_characters(tmp_path: Path) -> None:
    """In ASCII, tables have escapes for other characters, and JSON is valid."""
    code, result, said = shell(
        f"$E run --model fake --tasks demo_who --limit 3 --store {tmp_path}/s.db", PYTHONIOENCODING="ascii"
    )
    assert code == 0, said
    assert result.isascii()
    code, result, said = shell(f"$E show last --store {tmp_path}/s.db --json", PYTHONIOENCODING="ascii")
    assert code == 0, said
    assert result.isascii()
    json.loads(result)


@pytest.mark.parametrize("words", [["boom"], ["--debug", "boom"], ["boom", "--debug"]])
def test_an_unexpected_exception_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """The exit code is 1 and the line has how to show the traceback; --debug, anywhere on the line, shows it."""

    @click.command()
    def boom() -> None:
        raise ZeroDivisionError("a fault\nof ours")

    monkeypatch.setitem(registry._own_places("commands"), "boom", Place("tests.cli.test_streams:boom", "Fail."))
    monkeypatch.setattr(sys.modules[__name__], "boom", boom, raising=False)
    assert main(words) == 1
    said = capsys.readouterr().err
    if "--debug" in words:
        assert "Traceback" in said
        assert said.endswith("internal error: ZeroDivisionError: a fault of ours\n")
    else:
        assert said == (
            "internal error: ZeroDivisionError: a fault of ours; run again with --debug for the traceback, and "
            "report it\n"
        )


def test_debug_shows_where_an_expected_error_comes_from(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With --debug an AssaymarkError has its traceback too, and keeps its exit code."""
    assert main(["--debug", "show", "last", "--store", str(tmp_path / "none.db")]) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.splitlines()[-1].startswith("error: ")


def test_debug_after_another_programs_command_is_passed_on() -> None:
    """`assaymark lm-eval --debug` passes the option on; before the command it is ours."""
    assert without_flag("--debug", ["lm-eval", "--debug"], {"lm-eval"}) == (["lm-eval", "--debug"], False)
    assert without_flag("--debug", ["--debug", "lm-eval", "x"], {"lm-eval"}) == (["lm-eval", "x"], True)
    assert without_flag("--debug", ["run", "--", "--debug"], {"lm-eval"}) == (["run", "--", "--debug"], False)


def test_a_reader_that_stops_is_no_error(tmp_path: Path) -> None:
    """Output into a pipe that its reader closes ends with 141, as for other programs, without a message."""
    listing = [sys.executable, "-m", "assaymark", "guide"]
    with subprocess.Popen(listing, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, problems = process.communicate(timeout=60)
    assert (process.returncode, problems) == (141, "")


def test_the_end_searches_no_cycles() -> None:
    """The interpreter's last search for cycles has nothing to look at, and other functions at exit run before."""
    program = (
        "import atexit, gc, sys; atexit.register(lambda: print('last', gc.get_freeze_count() > 1000)); "
        "sys.argv = ['assaymark', 'ls', 'suites']; from assaymark.cli.main import main; code = main(); "
        "atexit.register(lambda: print('first', gc.get_freeze_count())); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.splitlines()[-2:]) == (0, ["first 0", "last True"]), ended.stderr[-500:]
