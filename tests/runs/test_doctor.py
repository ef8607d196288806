"""Optional extras are documented where users look for them."""

import tomllib

from assaymark.runs.commands.doctor import EXTRAS
from tests.conftest import ROOT


def test_every_extra_is_documented() -> None:
    """The extras of pyproject.toml, of `doctor` and on the page are the same; `dev` is for contributors."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"dev", "all"}
    assert set(EXTRAS) == extras
    page = (ROOT / "docs/installation.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1].strip("[]") for line in page.splitlines() if line.startswith("| `[")}
    assert rows == extras
