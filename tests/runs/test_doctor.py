"""Optional extras are documented where users look for them."""

import tomllib

from assaymark.runs.doctor import EXTRAS
from tests.conftest import ROOT


def test_every_extra_is_documented() -> None:
    """The extras of pyproject.toml, `doctor` and the README's table are the same; `dev` is for contributors."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"dev"}
    assert set(EXTRAS) == extras
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1].strip("[]") for line in readme.splitlines() if line.startswith("| `[")}
    assert rows == extras
