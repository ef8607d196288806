"""A host: a folder with models, a board, a store; and what honest evaluations of a model store."""

import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import assaymark
from assaymark.leaderboard.submission.checks import Policy, check_submission
from assaymark.leaderboard.submission.choices import read_choices
from assaymark.leaderboard.submission.host import boards_of
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.sources import FolderModels
from assaymark.leaderboard.submission.worker.results import STORE
from assaymark.leaderboard.submission.worker.work import Host
from assaymark.store import Store

MODELS = Path(assaymark.__file__).parent / "library" / "demo_models"
JOB = "0123456789ab"


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


@pytest.fixture(scope="session")
def answered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of stores that honest evaluations wrote: of the job JOB, of another task, of fewer samples.

    A run has its model's path, so they were of the model in the job's place, `work` in this folder.
    """
    folder = tmp_path_factory.mktemp("answered")
    model = shutil.copytree(MODELS / "small", folder / "work" / JOB / "fetch" / "models" / "demo" / "small")
    arguments = {"pretrained": str(model), "dtype": "float32"}
    for name, task, limit in (("job", "demo_facts", 20), ("task", "demo_sums", 20), ("samples", "demo_facts", 5)):
        run = assaymark.evaluate("hf", task, model_args=arguments, limit=limit, store=str(folder / f"{name}.sqlite"))
        run.store.close()
    return folder


@pytest.fixture
def placed(host: Host, answered: Path) -> Host:
    """Return the host with that empty folder for its jobs."""
    shutil.rmtree(answered / "work", ignore_errors=True)
    return replace(host, work=answered / "work")


@pytest.fixture
def submit_small(submit: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return a function that submits `demo/small` and so makes the job JOB."""

    def submitted() -> str:
        with monkeypatch.context() as patch:
            patch.setattr(secrets, "token_hex", lambda _: JOB)
            return submit("demo/small")

    return submitted


def resume(host: Host, name: str) -> None:
    """Leave one of those stores as an earlier attempt at the job does: an honest evaluation then needs no model."""
    folder = host.work / JOB / "evaluate-0"
    folder.mkdir(parents=True)
    shutil.copy(host.work.parent / f"{name}.sqlite", folder / STORE)
