"""A host that the tests of a module share."""

import shutil
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
    from assaymark.hosting.app import HostSettings
    from tests.hosting.running import hosting, local_model

    with hosting(local_model(n_slots=6), HostSettings(names=("127.0.0.1", "localhost"), most_waiting=64)) as address:
        yield address


TEMPLATE = (
    "{{ bos_token }}{% if tools %}{{ tools | tojson }}\n{% endif %}"
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


@pytest.fixture(scope="package")
def tool_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a host of the demo model, with a template that shows tools."""
    from assaymark.hosting.app import HostSettings
    from tests.hosting.running import MODEL, hosting, local_model

    folder = tmp_path_factory.mktemp("forms") / "small"
    shutil.copytree(MODEL, folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    with hosting(local_model(pretrained=str(folder), n_slots=4), HostSettings()) as result:
        yield result
