"""Workers on a Ray cluster: who sits where, what is told when something lacks, and the same answers as without."""

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

import evalstone
from evalstone.engine.options import EngineSettings
from evalstone.errors import MissingExtra, ModelUnavailable, UsageError
from evalstone.models import cluster
from evalstone.models.arguments import LocalArguments
from evalstone.models.cluster import Node, join, seats
from evalstone.models.cluster_worker import PlacedModel
from evalstone.models.create import create_model
from evalstone.models.local import LocalModel
from evalstone.models.tokenizer import TokenizerSource
from tests.models.cluster_driver import answers, requests
from tests.models.cluster_of_two import TOO_BUSY, TRIES, free_ports

MODEL = Path(evalstone.__file__).parent / "library" / "demo_models" / "small"

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="ray is not installed: pip install 'evalstone[cluster]'"
)


def test_workers_take_the_gpus_where_there_are_some() -> None:
    """Each worker gets a GPU of its own and a share of that machine's processors, spread over the machines."""
    nodes = [Node("a", "10.0.0.1", 32, 4), Node("b", "10.0.0.2", 16, 2), Node("c", "10.0.0.3", 8)]
    placed = seats(nodes, 3, "auto")
    assert sorted((seat.node.key, seat.n_cpus, seat.has_gpu) for seat in placed) == [
        ("a", 16, True),
        ("a", 16, True),
        ("b", 16, True),
    ]
    assert len(seats(nodes, 6, "cuda")) == 6


def test_workers_share_the_processors_where_there_is_no_gpu() -> None:
    """Machines with more processors get more workers, and all processors of a used machine are given."""
    nodes = [Node("a", "10.0.0.1", 8), Node("b", "10.0.0.2", 4)]
    placed = seats(nodes, 3, "auto")
    assert sorted((seat.node.key, seat.n_cpus) for seat in placed) == [("a", 4), ("a", 4), ("b", 4)]
    assert [seat.has_gpu for seat in seats([Node("a", "10.0.0.1", 2, 2)], 2, "cpu")] == [False, False]


def test_a_cluster_that_is_too_small_is_refused() -> None:
    """More workers than GPUs or processors would wait for ever, so the counts of each machine are shown instead."""
    with pytest.raises(UsageError, match=r"the cluster has 2 \(10\.0\.0\.1: 2, 10\.0\.0\.2: 0\)"):
        seats([Node("a", "10.0.0.1", 8, 2), Node("b", "10.0.0.2", 8)], 3, "auto")
    with pytest.raises(UsageError, match="cuda:1"):
        seats([Node("a", "10.0.0.1", 8, 2)], 1, "cuda:1")


@pytest.mark.parametrize("address", ["local", "here:", "http://host:6379", "host", "host:many"])
def test_what_is_no_address_is_refused(address: str) -> None:
    """An address Ray would take for something else is refused with what was expected."""
    with pytest.raises(UsageError, match=r"HOST:6379, or ray://HOST:10001"):
        join(address)


def test_a_cluster_that_is_not_there_is_one_clear_line() -> None:
    """Where nobody listens, the line that starts a cluster is told at once."""
    (port,) = free_ports(1)
    with pytest.raises(ModelUnavailable, match=r"no Ray cluster .* refused.*ray start --head"):
        join(f"127.0.0.1:{port}")


def test_a_missing_ray_is_told_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the message holds the line that installs it."""
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install 'evalstone\[cluster\]'"):
        join("auto")


def placed(pretrained: str, content_hash: str | None = None, **changed: Any) -> PlacedModel:
    """Return a model as a node is told of it."""
    arguments = LocalArguments(pretrained)
    return PlacedModel(arguments, content_hash, EngineSettings(), TokenizerSource(Path(pretrained)), **changed)


def test_a_machine_without_the_same_model_refuses(tmp_path: Path) -> None:
    """A missing folder, another content and another version of Evalstone are each told before anything is loaded."""
    with pytest.raises(ModelUnavailable, match="must lie at the same path on every machine"):
        placed(str(tmp_path / "nothing")).order()
    with pytest.raises(ModelUnavailable, match=r"another model.*expected sha256:other"):
        placed(str(MODEL), "sha256:other").order()
    with pytest.raises(ModelUnavailable, match=r"the driver is 0\.0\.1"):
        placed(str(MODEL), version="0.0.1").order()


def test_a_relative_folder_is_named_in_full_on_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine has another working directory, so it is told the whole path; a Hub id stays one."""
    monkeypatch.chdir(MODEL.parent)
    source = TokenizerSource(MODEL)
    assert PlacedModel.of(LocalArguments("small"), None, EngineSettings(), source).arguments.pretrained == str(MODEL)
    hub = LocalArguments("organisation/model")
    assert PlacedModel.of(hub, None, EngineSettings(), source).arguments == hub


def test_a_loaded_model_has_no_cluster() -> None:
    """An object cannot be handed to other machines."""
    with pytest.raises(UsageError, match="workers"):
        LocalModel.from_loaded(object(), object(), cluster="auto")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[subprocess.Popen[str]]:
    """Yield the process of a cluster of two nodes; nothing of it is left afterwards."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "tests.models.cluster_of_two", folder]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        yield process
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.communicate(timeout=60)
        _, left = psutil.wait_procs(family, timeout=30)
        assert not left, left


def cluster_workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return the processes of a cluster that are workers of ours."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if child.cmdline() and "ClusterWorker" in child.cmdline()[0]:
                found.append(child)
    return found


@contextmanager
def driven(address: str, folder: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """Yield a driver on the cluster, and end it.

    What it says on standard error goes to a file: a pipe that nobody reads would fill, and the driver stand still.
    """
    command = [sys.executable, "-m", "tests.models.cluster_driver", str(folder), address, mode]
    with (folder.parent / f"{mode}.log").open("w") as log:
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        yield driver
    except AssertionError as error:
        error.add_note((folder.parent / f"{mode}.log").read_text()[-8000:])
        raise
    finally:
        driver.kill()
        driver.communicate()


def said(driver: subprocess.Popen[str]) -> Any:
    """Return what a driver says next."""
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line, "the driver ended"
    return json.loads(line)


def assert_same(found: dict[str, Any], alone: dict[str, Any]) -> None:
    """Compare log-likelihoods within float32's noise, and texts exactly."""
    assert found.keys() == alone.keys()
    for key, (nats, text) in alone.items():
        assert found[key][1] == text
        assert found[key][0] == (None if nats is None else pytest.approx(nats, abs=1e-4, rel=1e-6))


def assert_ended_with(driver: subprocess.Popen[str], process: subprocess.Popen[str], kind: int, n_workers: int) -> None:
    """End a driver that is answering, and look for its workers."""
    assert said(driver) == "busy"
    workers = cluster_workers(process)
    assert len(workers) == n_workers
    driver.send_signal(kind)
    driver.wait(timeout=30)
    _, left = psutil.wait_procs(workers, timeout=30)
    assert not left


@needs_ray
@pytest.mark.slow
def test_a_cluster_gives_what_one_process_gives(two_nodes: subprocess.Popen[str], tmp_path: Path) -> None:
    """On two nodes, and when one is lost, answers are those of one process, and no worker outlives its driver."""
    assert two_nodes.stdin is not None
    assert two_nodes.stdout is not None
    model_folder = Path(shutil.copytree(MODEL, tmp_path / "model"))
    alone = answers(create_model("hf", {"pretrained": str(model_folder), "dtype": "float32"}).answer(requests()))
    address = two_nodes.stdout.readline().strip()
    if not address and two_nodes.wait() == TOO_BUSY:
        pytest.skip(f"Ray did not start in {TRIES} times 30 s: this machine is too busy")
    with driven(address, model_folder, "keep") as driver:
        assert re.match(r"on node [\d.]+: .* holds another model than the driver's", said(driver))
        first = said(driver)
        assert_same(first["answers"], alone)
        assert (first["n_workers"], first["n_threads"]) == (2, 1)
        assert_ended_with(driver, two_nodes, signal.SIGINT, 2)
    with driven(address, model_folder, "lose") as driver:
        assert_same(said(driver)["answers"], alone)
        two_nodes.stdin.write("lose one\n")
        two_nodes.stdin.flush()
        assert_same(said(driver)["answers"], alone)
        assert_ended_with(driver, two_nodes, signal.SIGKILL, 1)
