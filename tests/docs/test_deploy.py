"""The files in `deploy/`, checked by the programs that read them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from assaymark.cli.main import main
from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"


def test_the_example_board_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    """`board check` accepts the board that the compose file mounts."""
    assert main(["board", "check", str(DEPLOY / "boards" / "board.yaml")]) == 0
    assert "error" not in capsys.readouterr().err


def test_compose_names_what_is_there() -> None:
    """The build file exists, every variable is in `env.example`, and every option of `serve` is one."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert (DEPLOY / services["web"]["build"]["context"] / services["web"]["build"]["dockerfile"]).is_file()
    variables = set(re.findall(r"\$\{(\w+):\?\}", (DEPLOY / "compose.yaml").read_text()))
    assert variables == set(re.findall(r"^(\w+)=", (DEPLOY / "env.example").read_text(), re.MULTILINE))
    from assaymark.leaderboard.commands.serve import serve

    known = {flag for parameter in serve.params for flag in parameter.opts}
    options = [word.split("=")[0] for word in services["web"]["command"] if word.startswith("--")]
    assert options
    assert set(options) <= known


def test_docker_compose_reads_the_file(tmp_path: Path) -> None:
    """`docker compose config`, or `docker-compose config`, resolves the file with the variables of the example."""
    programs = [words for words in (["docker", "compose"], ["docker-compose"]) if shutil.which(words[0]) is not None]
    asked = [subprocess.run([*words, "version"], capture_output=True, check=False).returncode for words in programs]
    if 0 not in asked:
        pytest.skip("docker compose is not installed; with it this test runs `docker compose config`")
    program = programs[asked.index(0)]
    values = (DEPLOY / "env.example").read_text().replace("ASSAYMARK_SECRET=", "ASSAYMARK_SECRET=" + "0" * 64)
    (tmp_path / ".env").write_text(values)
    files = ["--file", str(DEPLOY / "compose.yaml"), "--env-file", str(tmp_path / ".env")]
    command = [*program, *files, "config"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("unit", ["assaymark-web.service", "assaymark-worker@.service"])
def test_systemd_reads_the_units(unit: str, tmp_path: Path) -> None:
    """`systemd-analyze verify` has no word on a unit whose program is there."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed; with it this test verifies the units")
    program = tmp_path / "assaymark"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = (DEPLOY / unit).read_text().replace("/opt/assaymark/bin/assaymark", str(program))
    file = tmp_path / unit.replace("@", "@0")
    file.write_text(text)
    ended = subprocess.run(["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr.strip()) == (0, "")
