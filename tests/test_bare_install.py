"""Installing without extras brings no torch, and whatever needs none works then.

The environment is a real one, made without a network: a folder with links to the distributions that the package's
core dependencies need, and nothing else, is the only place Python may import from.
"""

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from assaymark.cli.main import COMMANDS
from tests.conftest import ROOT

START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from assaymark.cli.main import main; sys.exit(main())"


def core_distributions() -> set[str]:
    """Return the names of all distributions that the core needs, directly or through others."""
    results: set[str] = set()
    waiting = ["assaymark"]
    while waiting:
        name = waiting.pop()
        for requirement in distribution(name).requires or []:
            marker = requirement.partition(";")[2]
            needed = re.split(r"[\s<>=!~;\[(]", requirement)[0].lower()
            if "extra" in marker or needed in results:
                continue
            try:
                distribution(needed)
            except PackageNotFoundError:
                continue  # for another system or Python
            results.add(needed)
            waiting.append(needed)
    return results


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds the core and what it needs."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "assaymark").symlink_to(ROOT / "src" / "assaymark")
    for name in core_distributions():
        for file in distribution(name).files or []:
            top = file.parts[0]
            source, link = Path(str(distribution(name).locate_file(top))), folder / top
            if top not in {"..", "__pycache__"} and source.exists() and not link.exists():
                link.symlink_to(source)
    return folder


def run_bare(bare: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run our command line where only the core can be imported."""
    command = [sys.executable, "-I", "-S", "-c", START, str(bare), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=bare)


def test_the_core_brings_no_torch(bare: Path) -> None:
    """Neither torch nor transformers nor datasets is among the core's needs."""
    names = {path.name for path in bare.iterdir()}
    assert not names & {"torch", "transformers", "datasets", "scipy", "lm_eval"}


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_works_without_extras(bare: Path, command: str) -> None:
    """Every command tells how it is used."""
    result = run_bare(bare, *command.split(), "--help")
    assert result.returncode == 0, result.stderr
    assert "Usage: assaymark" in result.stdout


def test_ls_and_doctor_work_without_extras(bare: Path) -> None:
    """The library can be listed, and the doctor names the line that installs what is missing."""
    listed = run_bare(bare, "ls", "tasks", "arc")
    assert listed.returncode == 0, listed.stderr
    assert "arc_challenge" in listed.stdout
    doctor = run_bare(bare, "doctor")
    assert doctor.returncode == 0, doctor.stderr
    assert "pip install '.[hf]'" in doctor.stdout


def test_a_local_model_names_the_install_line(bare: Path, tmp_path: Path) -> None:
    """What needs an extra says which, in one line, with exit code 2."""
    model = ROOT / "src" / "assaymark" / "library" / "demo_models" / "small"
    result = run_bare(
        bare, "run", "--model", str(model), "--tasks", "demo_letters", "--store", str(tmp_path / "s.sqlite")
    )
    assert result.returncode == 2
    assert "pip install '.[hf]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_fake_model_runs_without_extras(bare: Path, tmp_path: Path) -> None:
    """A whole run, stored and shown, needs no torch: the fake model answers the demo tasks."""
    store = str(tmp_path / "s.sqlite")
    done = run_bare(bare, "run", "--model", "fake", "--tasks", "demo_letters", "--limit", "8", "--store", store)
    assert done.returncode == 0, done.stderr
    result = run_bare(bare, "show", "last", "--store", store)
    assert result.returncode == 0, result.stderr
    assert "demo_letters" in result.stdout
