"""Workers on a Ray cluster: their placement, errors for missing parts, and the same outputs as without a cluster."""

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

import assaymark
from assaymark.engine.options import EngineSettings
from assaymark.errors import MissingExtra, ModelUnavailable, UsageError
from assaymark.models.checkpoint.arguments import LocalArguments
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.text.tokenizer import TokenizerSource
from assaymark.models.workers import cluster
from assaymark.models.workers.cluster import Node, PlacedModel, join, seats
from tests.models.workers.cluster_driver import answers, requests
from tests.models.workers.cluster_of_two import TOO_BUSY, TRIES, free_ports

MODEL = Path(assaymark.__file__).parent / "library" / "demo_models" / "small"
FOREVER = 3600.0  # seconds without a reply, of drivers whose workers reply or end

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed: pip install '.[cluster]'")


def test_workers_use_the_gpus_if_there_are_any() -> None:
    """Each worker gets its own GPU and a share of that machine's processors, spread over the machines."""
    nodes = [Node("a", "10.0.0.1", 32, 4), Node("b", "10.0.0.2", 16, 2), Node("c", "10.0.0.3", 8)]
    placed = seats(nodes, 3, "auto")
    assert sorted((seat.node.key, seat.n_cpus, seat.has_gpu) for seat in placed) == [
        ("a", 16, True),
        ("a", 16, True),
        ("b", 16, True),
    ]
    assert len(seats(nodes, 6, "cuda")) == 6


def test_workers_share_the_processors_if_there_is_no_gpu() -> None:
    """Machines with more processors get more workers, and all processors of a used machine are assigned."""
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
def test_an_invalid_address_is_refused(address: str) -> None:
    """An address that Ray would misread is refused with what was expected."""
    with pytest.raises(UsageError, match=r"HOST:6379, or ray://HOST:10001"):
        join(address)


def test_a_missing_cluster_is_one_clear_line() -> None:
    """If nothing listens, the command that starts a cluster is shown at once."""
    (port,) = free_ports(1)
    with pytest.raises(ModelUnavailable, match=r"no Ray cluster .* refused.*ray start --head"):
        join(f"127.0.0.1:{port}")


def test_a_missing_ray_is_reported_with_its_installation_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the message contains the command that installs it."""
    monkeypatch.setattr(cluster, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[cluster\]'"):
        join("auto")


def placed(pretrained: str, content_hash: str | None = None, **changed: Any) -> PlacedModel:
    """Return a model as it is sent to a node."""
    arguments = LocalArguments(pretrained)
    return PlacedModel(arguments, content_hash, EngineSettings(), TokenizerSource(Path(pretrained)), **changed)


def test_a_machine_without_the_same_model_refuses(tmp_path: Path) -> None:
    """A missing folder, another content and another version of Assaymark are reported before anything is loaded."""
    with pytest.raises(ModelUnavailable, match="must be at the same path on every machine"):
        placed(str(tmp_path / "nothing")).order()
    with pytest.raises(ModelUnavailable, match=r"another model.*expected sha256:other"):
        placed(str(MODEL), "sha256:other").order()
    with pytest.raises(ModelUnavailable, match=r"the driver is 0\.0\.1"):
        placed(str(MODEL), version="0.0.1").order()


def test_a_relative_folder_is_made_absolute_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine has another working directory, so it gets the absolute path; a Hub id is unchanged."""
    monkeypatch.chdir(MODEL.parent)
    source = TokenizerSource(MODEL)
    assert PlacedModel.of(LocalArguments("small"), None, EngineSettings(), source).arguments.pretrained == str(MODEL)
    hub = LocalArguments("organisation/model")
    assert PlacedModel.of(hub, None, EngineSettings(), source).arguments == hub


def test_a_loaded_model_has_no_cluster() -> None:
    """An object cannot be sent to other machines."""
    with pytest.raises(UsageError, match="workers"):
        LocalModel.from_loaded(object(), object(), cluster="auto")


@dataclass(frozen=True)
class TwoNodes:
    """A cluster of two nodes with one processor each."""

    process: subprocess.Popen[str]
    address: str

    def lose_one(self) -> None:
        """Kill the second node's processes."""
        assert self.process.stdin is not None
        self.process.stdin.write("lose one\n")
        self.process.stdin.flush()

    def processes(self, name: str) -> list[psutil.Process]:
        """Return the processes on the nodes with this program name."""
        results = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if child.cmdline() and name in Path(child.cmdline()[0]).name:
                    results.append(child)
        return results

    def workers(self) -> list[psutil.Process]:
        """Return the processes on the nodes that are our workers."""
        return self.processes("ClusterWorker")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[TwoNodes]:
    """Yield a cluster of two nodes; nothing of it remains afterwards."""
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "tests.models.workers.cluster_of_two", folder]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            if not address and process.wait() == TOO_BUSY:
                pytest.skip(f"Ray did not start in {TRIES} times 30 s: this machine is too busy")
            nodes = TwoNodes(process, address)
            assert address, "the cluster did not start"
            assert len(nodes.processes("raylet")) == 2  # with more, the node that is killed may host no worker
            yield nodes
        finally:
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.communicate(timeout=60)
            _, left = psutil.wait_procs(family, timeout=30)
        assert not left, left


@contextmanager
def driven(address: str, folder: Path, mode: str, silent_seconds: float = FOREVER) -> Iterator[subprocess.Popen[str]]:
    """Yield a driver on the cluster, and end it.

    What it says on standard error goes to a file: a pipe that nobody reads would fill, and the driver stand still.
    """
    words = [str(folder), address, mode, str(silent_seconds)]
    command = [sys.executable, "-m", "tests.models.workers.cluster_driver", *words]
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


def next_message(driver: subprocess.Popen[str]) -> Any:
    """Return the next message of a driver."""
    assert driver.stdout is not None
    line = driver.stdout.readline()
    assert line, "the driver ended"
    return json.loads(line)


def assert_same(found: dict[str, Any], alone: dict[str, Any]) -> None:
    """Compare log-likelihoods up to float32 rounding, and texts exactly."""
    assert found.keys() == alone.keys()
    for key, (nats, text) in alone.items():
        assert found[key][1] == text
        assert found[key][0] == (None if nats is None else pytest.approx(nats, abs=1e-4, rel=1e-6))


def assert_ended_with(driver: subprocess.Popen[str], nodes: TwoNodes, kind: int, n_workers: int) -> None:
    """End a driver in the middle of its work, and check that its workers, each on its own node, end too."""
    assert next_message(driver) == "busy"
    workers = nodes.workers()
    assert len({worker.ppid() for worker in workers}) == len(workers) == n_workers
    driver.send_signal(kind)
    driver.wait(timeout=120)
    _, left = psutil.wait_procs(workers, timeout=120)
    assert not left


def assert_noticed(driver: subprocess.Popen[str], alone: dict[str, Any]) -> None:
    """Wait until a driver has lost one of its two workers; check its outputs and its worker count."""
    after = next_message(driver)
    assert_same(after["answers"], alone)
    assert after["n_workers"] == 1


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of a small model."""
    return Path(shutil.copytree(MODEL, tmp_path_factory.mktemp("cluster") / "model"))


@pytest.fixture(scope="module")
def alone(model_folder: Path) -> dict[str, Any]:
    """Return the outputs of one process."""
    return answers(create_model("hf", {"pretrained": str(model_folder), "dtype": "float32"}).answer(requests()))


@needs_ray
@pytest.mark.slow
def test_a_clusters_outputs_equal_one_processs(two_nodes: TwoNodes, model_folder: Path, alone: dict[str, Any]) -> None:
    """On two nodes the outputs equal those of one process, and no worker outlives its driver."""
    with driven(two_nodes.address, model_folder, "keep") as driver:
        assert re.match(r"on node [\d.]+: .* contains another model than on the driver", next_message(driver))
        first = next_message(driver)
        assert_same(first["answers"], alone)
        assert (first["n_workers"], first["n_threads"]) == (2, 1)
        assert_ended_with(driver, two_nodes, signal.SIGINT, 2)


@needs_ray
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "silent_seconds"), [(signal.SIGKILL, FOREVER), (signal.SIGSTOP, 10.0)])
def test_a_lost_worker_is_detected(
    two_nodes: TwoNodes, model_folder: Path, alone: dict[str, Any], kind: int, silent_seconds: float
) -> None:
    """If a worker's process ends or stops, the other computes its part, it is not counted, and it does not continue.

    One that ends is noticed without waiting for a reply.
    """
    with driven(two_nodes.address, model_folder, "lose", silent_seconds) as driver:
        assert_same(next_message(driver)["answers"], alone)
        lost, _ = two_nodes.workers()
        lost.send_signal(kind)
        assert_noticed(driver, alone)
        _, left = psutil.wait_procs([lost], timeout=120)
        assert not left
        assert_ended_with(driver, two_nodes, signal.SIGINT, 1)


@needs_ray
@pytest.mark.slow
def test_a_lost_node_is_detected(two_nodes: TwoNodes, model_folder: Path, alone: dict[str, Any]) -> None:
    """If a node dies, the other one computes its part, its worker is not counted, and no worker outlives a kill."""
    with driven(two_nodes.address, model_folder, "lose") as driver:
        assert_same(next_message(driver)["answers"], alone)
        two_nodes.lose_one()
        assert_noticed(driver, alone)
        assert_ended_with(driver, two_nodes, signal.SIGKILL, 1)
