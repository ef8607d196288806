"""A project and its instance; made in the sandbox once, since that takes seconds."""

from pathlib import Path

import pytest

from assaymark.limits.bubblewrap import find_bubblewrap
from assaymark.store import Store
from assaymark.swe.base_copies import Repositories, make_base_copy
from assaymark.swe.environments import Environments
from assaymark.swe.from_commits import CommitChoice, make_instances
from assaymark.swe.grading import GradeOptions
from assaymark.swe.instances import Instance
from assaymark.swe.sandbox import SweLimits
from tests.swe.projects import make_project


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project's repository."""
    if find_bubblewrap() is None:
        pytest.skip("bubblewrap does not work here")
    return make_project(tmp_path_factory.mktemp("swe") / "project")


@pytest.fixture(scope="session")
def lines_of_init() -> list[str]:
    """Return the list of lines that `make_instances` writes of the project's commits."""
    return []


@pytest.fixture(scope="session")
def instance(project: Path, lines_of_init: list[str], tmp_path_factory: pytest.TempPathFactory) -> Instance:
    """Return the project's one instance."""
    with pytest.MonkeyPatch.context() as patched:  # before a test has a home of its own
        patched.setenv("ASSAYMARK_HOME", str(tmp_path_factory.mktemp("home")))
        (made,) = make_instances(
            project, CommitChoice(), Environments.read(None), SweLimits(seconds=120), lines_of_init.append
        )
    return made


@pytest.fixture(scope="session")
def base(project: Path, instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a base copy of the instance's commit; only read it."""
    copy = tmp_path_factory.mktemp("base") / "copy"
    make_base_copy(project, instance.base_commit, copy)
    return copy


@pytest.fixture
def options(project: Path) -> GradeOptions:
    """Return how the project's instance is graded."""
    return GradeOptions(Repositories([str(project)]), Environments.read(None), SweLimits(seconds=120))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty store."""
    return Store.open(str(tmp_path / "swe.sqlite"))
