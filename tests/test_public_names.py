"""The names people import are these, and they can be imported."""

import tomllib

import assaymark
from tests.conftest import ROOT


def test_public_names_are_pinned() -> None:
    """Adding or removing a public name is a decision, not an accident."""
    names = ["EvaluationCallback", "LanguageModel", "Ranking", "Run", "__version__", "evaluate", "load_model"]
    assert sorted(assaymark.__all__) == names


def test_every_public_name_is_there() -> None:
    """Each name in __all__ can be had, although it is imported only at its first use."""
    assert all(getattr(assaymark, name) is not None for name in assaymark.__all__)


def test_the_version_is_said_once() -> None:
    """pyproject.toml and the package name the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == assaymark.__version__
