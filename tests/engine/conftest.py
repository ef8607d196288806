"""Use one thread for small models: more threads would only wait for each other."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
