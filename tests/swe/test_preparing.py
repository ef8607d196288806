"""Environments prepared of pins: read, made once, and shown with what the repository's installation generates."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.swe.attempts import shown_generated
from assaymark.swe.base_copies import Repositories
from assaymark.swe.environments import Environment, Environments
from assaymark.swe.from_commits import CommitChoice, make_instances
from assaymark.swe.instances import Instance, write_rows
from assaymark.swe.preparing import Pins, interpreter_for, pins_of, prepare_all, write_environments
from assaymark.swe.sandbox import SweLimits
from tests.swe.projects import commit, git

CONDA = """name: testbed
dependencies:
  - _libgcc_mutex=0.1=main
  - certifi=2021.5.30=py36h06a4308_0
  - iniconfig=1.1.1=pyhd3eb1b0_0
  - openssl=3.0.15=h5eee18b_0
  - pip=24.2=py311h06a4308_0
  - python=3.11.10=he870216_0
  - pip:
      - click==8.1.3
      - idna-ssl==1.1.0 ; python_version < "3.7"
"""


def test_condas_pins_are_read(instance: Instance, tmp_path: Path) -> None:
    """Python's packages of conda and pip, with pip itself apart; the system's libraries are left out."""
    path = tmp_path / "local__project" / instance.instance_id.rpartition("-")[2] / "environment.yml"
    path.parent.mkdir(parents=True)
    path.write_text(CONDA)
    expected = Pins(
        "3.11.10",
        ("pip==24.2",),
        ("certifi==2021.5.30", "iniconfig==1.1.1", "click==8.1.3", 'idna-ssl==1.1.0 ; python_version < "3.7"'),
    )
    assert pins_of(tmp_path, instance) == expected
    assert pins_of(path, instance) == expected
    path.write_text("dependencies: [\n")
    with pytest.raises(DataError, match=f"{path}: not valid YAML"):
        pins_of(path, instance)
    with pytest.raises(DataError, match=r"no pins of other-1: expected local__project/1/environment\.yml"):
        pins_of(tmp_path, replace(instance, instance_id="other-1"))


@pytest.mark.parametrize(
    "line", ["-r other.txt", "--index-url http://x", "x @ file:///etc", "git+https://x", "/etc", "./x", "a==1 --hash x"]
)
def test_requirements_that_name_anything_else_are_refused(instance: Instance, tmp_path: Path, line: str) -> None:
    """Options, addresses and paths: pip would read or contact them."""
    path = tmp_path / "requirements.txt"
    path.write_text(f"# ours\npytest>=8 # any\n\n{line}\n")
    with pytest.raises(DataError, match="expected a package with its version"):
        pins_of(path, instance)


def test_what_a_patch_put_in_the_way_of_generated_files_is_left(tmp_path: Path) -> None:
    """A link or a file in place of a folder is not followed; all else is shown."""
    generated, work, outside = tmp_path / "generated", tmp_path / "work", tmp_path / "outside"
    for name in ("src/a/_version.py", "linked/x/y.py", "file/z.py", "a.egg-info/PKG-INFO", "there.py"):
        (generated / name).parent.mkdir(parents=True, exist_ok=True)
        (generated / name).write_text("1")
    for folder in (work / "src/a", outside):
        folder.mkdir(parents=True)
    (work / "linked").symlink_to(outside)
    for name in ("file", "there.py"):
        (work / name).write_text("2")
    result = shown_generated(Environment(generated=str(generated)), work)
    assert result == {
        "/testbed/a.egg-info": generated / "a.egg-info",
        "/testbed/src/a/_version.py": generated / "src/a/_version.py",
    }


SETUP = """import pathlib
from setuptools import setup

pathlib.Path("src/calc/_version.py").write_text("version = '1'")
setup(name="calc", version="1", package_dir={"": "src"}, packages=["calc"])
"""
CODE = "from calc._version import version\n\n\ndef add(a, b):\n    return a - b\n"
TESTS = "from calc import add\n\n\ndef test_zero():\n    assert add(1, 0) == 1\n"
TEST_OF_FIX = "\n\ndef test_add():\n    assert add(2, 3) == 5\n"


@pytest.mark.slow
def test_a_repository_is_installed_and_graded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its installation writes a file that the copy lacks; without it no test can be imported. Made once."""
    project = tmp_path / "calc"
    project.mkdir()
    git(project, "init", "-q")
    files = {"setup.py": SETUP, ".gitignore": "_version.py\n*.egg-info\n", "src/calc/__init__.py": CODE}
    commit(project, "A calculator", files | {"tests/test_calc.py": TESTS})
    commit(project, "add() subtracts", {"src/calc/__init__.py": CODE.replace("a - b", "a + b"),
                                        "tests/test_calc.py": TESTS + TEST_OF_FIX})  # fmt: skip
    assert list(make_instances(project, CommitChoice(), Environments.read(None), SweLimits(seconds=60))) == []
    base, fixed = git(project, "rev-parse", "HEAD~1"), git(project, "rev-parse", "HEAD")
    instance = Instance(
        instance_id="local__calc-1", repo="local/calc", base_commit=base,
        patch=git(project, "diff", base, fixed, "--", "src") + "\n",
        test_patch=git(project, "diff", base, fixed, "--", "tests") + "\n", problem_statement="It subtracts.",
        FAIL_TO_PASS=("tests/test_calc.py::test_add",), PASS_TO_PASS=("tests/test_calc.py::test_zero",),
    )  # fmt: skip
    requirements, rows, environments = (tmp_path / name for name in ("requirements.txt", "i.jsonl", "e.yaml"))
    requirements.write_text("pytest\npluggy\niniconfig\npackaging\npygments\nsetuptools\nwheel\n")
    write_rows(rows, [instance.row()])
    common = ["--instances", str(rows), "--repo", str(project)]
    words = ["swe", "prepare", *common, "--pins", str(requirements), "--python", sys.executable]
    for said in ("local__calc-1: prepared", "local__calc-1: is there"):
        assert main([*words, "-o", str(environments)]) == 0
        assert said in capsys.readouterr().err
    environment = Environments.read(environments).of(instance)
    assert (Path(environment.generated) / "src/calc/_version.py").is_file()
    assert environment.sha != replace(environment, generated="").sha
    gold = {"instance_id": instance.instance_id, "model_name_or_path": "gold", "model_patch": instance.patch}
    write_rows(tmp_path / "gold.jsonl", [gold])
    store = ["--store", str(tmp_path / "s.sqlite"), "--json"]
    assert (
        main(["swe", "grade", str(tmp_path / "gold.jsonl"), *common, "--environments", str(environments), *store]) == 0
    )
    assert json.loads(capsys.readouterr().out)["resolved_ids"] == ["local__calc-1"]
    for mistake, said in (
        ([*words, "-o", str(environments), "--only", "x"], "--only is 'x'"),
        ([*words[:-4], "--pins", str(tmp_path / "no.txt"), "-o", str(environments)], "no.txt cannot be read"),
    ):
        assert main(mistake) != 0
        assert said in capsys.readouterr().err


def test_what_cannot_be_prepared_is_named(project: Path, instance: Instance, tmp_path: Path) -> None:
    """No interpreter of the version, no repository; the file has those that are prepared alone."""
    path = tmp_path / "environment.yml"
    path.write_text(CONDA.replace("3.11.10", "2.99.1"))
    (made,) = prepare_all([instance], path, Repositories([str(project)]))
    assert "no Python 2.99 here; install it (pyenv install 2.99)" in made.problem
    (made,) = prepare_all([instance], path, Repositories())
    assert "is not here; clone it" in made.problem
    write_environments(tmp_path / "e.yaml", [made])
    assert (tmp_path / "e.yaml").read_text() == ""


def test_an_interpreter_is_found_on_the_path_or_with_pyenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PATH comes first; pyenv's stand-in for a version that is not chosen, and a version that is broken, are passed."""
    path, root = tmp_path / "bin", tmp_path / "pyenv"

    def program(place: Path, text: str) -> Path:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"#!/bin/sh\n{text}\n")
        place.chmod(0o755)
        return place

    runs = f'exec {sys.executable} "$@"'
    stand_in = program(path / "python3.99", "echo 'pyenv: python3.99: command not found' >&2; exit 127")
    program(root / "versions/3.99.1/bin/python", "exit 1")
    right = program(root / "versions/3.99.2/bin/python", runs)
    program(root / "versions/3.9.9/bin/python", runs)
    monkeypatch.setenv("PATH", f"{path}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(root))
    pins = Pins("3.99.7", (), ())
    assert interpreter_for(pins) == str(right)
    program(stand_in, runs)
    assert interpreter_for(pins) == str(stand_in)
    stand_in.unlink()
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    with pytest.raises(DataError, match=r"no Python 3\.99 here; install it \(pyenv install 3\.99\)"):
        interpreter_for(pins)
    monkeypatch.delenv("PYENV_ROOT")
    (tmp_path / ".pyenv").symlink_to(root)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert interpreter_for(pins) == str(tmp_path / ".pyenv/versions/3.99.2/bin/python")
    assert interpreter_for(Pins("", (), ())) == sys.executable
