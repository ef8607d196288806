"""A host that the tests of a module share."""

from collections.abc import Iterator

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("uvicorn")


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def url() -> Iterator[str]:
    """Return the address of a host with few slots, so that requests wait."""
    from assaymark.host.app import HostSettings
    from tests.host.running import hosting, local_model

    with hosting(local_model(n_slots=6), HostSettings(names=("127.0.0.1", "localhost"), most_waiting=64)) as address:
        yield address
