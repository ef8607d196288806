"""Fixtures of the tests of tasks."""

from pathlib import Path

import pytest

from assaymark.tasks.catalog import Catalog


@pytest.fixture(scope="session")
def catalog(made_once: Path) -> Catalog:
    """Return the whole catalogue, opened once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        return Catalog.open()


@pytest.fixture(scope="session")
def lm_files(catalog: Catalog) -> Catalog:
    """Return the catalogue, including lm_eval's own files."""
    pytest.importorskip("lm_eval")
    return catalog
