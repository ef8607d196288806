"""The steps of `deploy/Dockerfile`, carried out in a container, and what comes of them asked whether it is well.

The base image is a stand-in made by debootstrap, so that no registry of images is needed: a minimal Debian with Python.
The packages that pip installs are fetched outside, and the steps run without a network.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

SUITE, PYTHON = "bookworm", (3, 11)  # the suite's Python
PACKAGES = "ca-certificates,python3,python3-pip,python-is-python3"
PROGRAMS = ("debootstrap", "podman", "runc")
LIMITS = ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=8192:8192"]  # podman's own exceed those of a container
EXTRAS = ("web", "hub", "postgres")
STARTED_SECONDS = 120.0
ASKED = "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:7500/health', timeout=4).read().decode())"


def call(words: list[str], seconds: float = 900.0) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)


def last_words(ended: subprocess.CompletedProcess[str]) -> str:
    """Return what a program said last, for the reason of a skip."""
    return " ".join((ended.stderr or ended.stdout).split())[-200:]


@pytest.fixture(scope="module")
def podman() -> Iterator[list[str]]:
    """Return the words that podman begins with; its images and containers are in a folder of the test's."""
    if missing := [name for name in PROGRAMS if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} not installed; with debootstrap, podman and runc this test builds the image")
    if os.getuid() != 0:
        pytest.skip("debootstrap needs root; run this test as root, in a container of its own")
    folder = Path(tempfile.mkdtemp(prefix="podman"))  # pytest's are longer than the 50 characters that podman takes
    words = ["podman", "--runtime", "runc", "--root", str(folder / "storage"), "--runroot", str(folder / "run")]
    yield words
    call([*words, "rm", "--all", "--force", "--time", "2"])
    call([*words, "rmi", "--all", "--force"])
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def base(podman: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of the Dockerfile's base image, under which a minimal Debian with Python stands here."""
    folder = tmp_path_factory.mktemp("debian")
    root = folder / "root"
    ended = call(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root)])
    if ended.returncode:
        pytest.skip(f"debootstrap made no root (is the package mirror reachable?): {last_words(ended)}")
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):  # Debian's own; the base image has none
        marker.unlink()
    packed = folder / "root.tar"
    assert call(["tar", "-C", str(root), "-cf", str(packed), "."]).returncode == 0
    shutil.rmtree(root)
    name = re.findall(r"^FROM (\S+)$", (ROOT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)
    assert len(name) == 1
    ended = call([*podman, "import", str(packed), f"docker.io/library/{name[0]}"])
    packed.unlink()
    if ended.returncode:
        pytest.skip(f"podman imports no image here: {last_words(ended)}")
    ended = call([*podman, "run", "--rm", "--network", "none", *LIMITS, name[0], "true"])
    if ended.returncode:
        pytest.skip(f"podman runs no container here: {last_words(ended)}")
    return str(name[0])


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all that pip installs, and a `pip.conf` that names nothing else."""
    folder = tmp_path_factory.mktemp("wheels")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    optional = project["project"]["optional-dependencies"]
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    wanted += [requirement for extra in EXTRAS for requirement in optional[extra]]
    if sys.version_info[:2] != PYTHON:
        pytest.skip(f"wheels are made for the Python of {SUITE}, {'.'.join(map(str, PYTHON))}; run this test with that")
    ended = call([sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(folder), *wanted])
    if ended.returncode:
        pytest.skip(f"pip makes no wheels (is the package index reachable?): {last_words(ended)}")
    (folder / "pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
    return folder


def test_the_image_is_built_and_answers(podman: list[str], base: str, wheels: Path) -> None:
    """Each step of the Dockerfile succeeds; the container, as its own user, serves the example board and is healthy."""
    file = ROOT / "deploy" / "Dockerfile"
    mounts = ["--volume", f"{wheels}:/wheels:ro", "--volume", f"{wheels / 'pip.conf'}:/etc/pip.conf:ro"]
    ended = call([*podman, "build", "--pull=never", "--network", "none", *LIMITS, *mounts, "--format", "docker",
                  "--tag", "assaymark-here", "--file", str(file), str(ROOT)])  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    assert base in ended.stdout
    boards = ["--volume", f"{ROOT / 'deploy' / 'boards'}:/boards:ro"]
    started = call([*podman, "run", "--detach", "--name", "web", "--network", "none", *LIMITS, *boards,
                    "assaymark-here", "serve", "/boards/board.yaml"])  # fmt: skip
    assert started.returncode == 0, started.stderr
    until = time.monotonic() + STARTED_SECONDS
    while (asked := call([*podman, "exec", "web", "python", "-c", ASKED])).returncode:
        is_over = call([*podman, "inspect", "--format", "{{.State.Running}}", "web"]).stdout.strip() != "true"
        if is_over or time.monotonic() > until:
            pytest.fail(call([*podman, "logs", "web"]).stderr + asked.stderr)
        time.sleep(1.0)
    assert asked.stdout.strip()
    check = json.loads(re.findall(r"^HEALTHCHECK[^\n]*\\\n\s*CMD (\[.*\])$", file.read_text(), re.MULTILINE)[0])
    assert call([*podman, "exec", "web", *check]).returncode == 0
    who = call([*podman, "exec", "web", "python", "-c", "import os; print(os.getuid(), os.getcwd())"]).stdout
    assert who.split() == ["10001", "/home/assaymark"]
