"""What the tests of tasks share."""

from pathlib import Path

import pytest

from evalstone.tasks.catalog import Catalog


@pytest.fixture(scope="session")
def catalog(made_once: Path) -> Catalog:
    """Return the whole catalogue, opened once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALSTONE_CACHE", str(made_once))
        return Catalog.open()


@pytest.fixture(scope="session")
def lm_files(catalog: Catalog) -> Catalog:
    """Return the catalogue, with lm_eval's own files in it."""
    pytest.importorskip("lm_eval")
    return catalog
