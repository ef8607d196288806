"""The files in `deploy`: they parse, and the commands in them are commands of this package with options it has."""

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from assaymark.cli.main import cli
from tests.conftest import ROOT

DEPLOY = ROOT / "deploy"


def commands() -> list[tuple[str, list[str]]]:
    """Return the commands of units and of the compose file, with their options, by file."""
    found = []
    for unit in sorted(DEPLOY.glob("*.service")):
        (line,) = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
        program, *words = shlex.split(line)
        assert program.endswith("/assaymark")
        found.append((unit.name, words))
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    found.append(("compose.yaml", [str(word) for word in services["web"]["command"]]))
    return found


@pytest.mark.parametrize(("file", "words"), commands(), ids=lambda value: value if isinstance(value, str) else "")
def test_commands_of_deployments_are_accepted(file: str, words: list[str]) -> None:
    """Each command parses, with every option known."""
    command = cli.get_command(click.Context(cli), words[0])
    assert command is not None
    command.make_context(words[0], words[1:], resilient_parsing=False)


def test_the_image_installs_extras_that_exist() -> None:
    """The Dockerfile's extras are those of pyproject.toml."""
    extras = re.findall(r"/source\[([\w,]+)\]", (DEPLOY / "Dockerfile").read_text())[0].split(",")
    text = Path(ROOT / "pyproject.toml").read_text()
    assert all(re.search(rf"^{extra} = \[", text, re.MULTILINE) for extra in extras)
