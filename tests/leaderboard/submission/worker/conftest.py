"""A host: a folder with models, a board, a store."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import assaymark
from assaymark.leaderboard.submission.checks import Policy, check_submission
from assaymark.leaderboard.submission.choices import read_choices
from assaymark.leaderboard.submission.host import boards_of
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.sources import FolderModels
from assaymark.leaderboard.submission.worker.work import Host
from assaymark.store import Store

MODELS = Path(assaymark.__file__).parent / "library" / "demo_models"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Return the shared store."""
    with Store.open(str(tmp_path / "store.sqlite")) as opened:
        yield opened


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Return a host with one board and a folder of models, one of them damaged."""
    monkeypatch.setenv("ASSAYMARK_THREADS", "1")
    models = tmp_path / "models"
    for name in ("small", "large"):
        shutil.copytree(MODELS / name, models / "demo" / name)
    shutil.copytree(MODELS / "small", models / "demo" / "damaged")
    weights = models / "demo" / "damaged" / "model.safetensors"
    content = weights.read_bytes()
    assert b'"shape":[96,256]' in content
    weights.write_bytes(content.replace(b'"shape":[96,256]', b'"shape":[96,255]', 1))  # which only loading finds
    (tmp_path / "board.yaml").write_text("title: Demo\nname: demo\ntasks: [demo_facts]\n")
    boards = boards_of([str(tmp_path / "board.yaml")])
    return Host(boards=boards, folders=[models], work=tmp_path / "work", limit=20, lease_seconds=20)


@pytest.fixture
def submit(store: Store, host: Host) -> Callable[..., str]:
    """Return a function that checks and submits a model of the folder."""

    def submitted(model: str, **values: str) -> str:
        inputs = {"model": model, **values}
        chosen, problems = read_choices(lambda name: inputs.get(name, ""), host.boards)
        checked = check_submission(chosen, problems, [FolderModels(host.folders)], Policy(), "ada")
        assert checked.new is not None, checked.problems
        return SubmissionQueue(store).submit(checked.new)

    return submitted
