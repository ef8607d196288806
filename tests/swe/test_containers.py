"""Instances graded in containers. Slow: an image is made by debootstrap once (its cache: ASSAYMARK_TEST_ROOTFS)."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.errors import DataError, PlanError
from assaymark.store import Store
from assaymark.swe.agent import AgentLimits
from assaymark.swe.base_copies import Repositories
from assaymark.swe.containers import ContainerEngine, find_engine, image_name
from assaymark.swe.environments import Environment, Environments, generated_in
from assaymark.swe.grading import GradeOptions, grade
from assaymark.swe.instances import Instance, Prediction
from assaymark.swe.predicting import PredictOptions, predict
from assaymark.swe.sandbox import SweLimits, Workplace, run_sandboxed
from tests.swe.projects import CODE, FIXED, patch_of
from tests.swe.test_predicting import SUBMIT, Scripted, bash

IMAGE = "localhost/assaymark-swe-tests"
PACKAGES = "python3,python3-pytest,git,patch"
LIMITS = SweLimits(seconds=60, memory_bytes=256 << 20, n_processes=64)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """Return the name of an image with Python, pytest and a repository, in a storage of its own."""
    if shutil.which("podman") is None or os.getuid() != 0:
        pytest.skip("needs podman and root")
    place = Path(tempfile.mkdtemp(prefix="p", dir="/var/tmp"))
    (place / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{place}/s"\nrunroot = "{place}/u"\n'
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CONTAINERS_STORAGE_CONF", str(place / "storage.conf"))
        patched.setenv("TMPDIR", str(place))
        patched.setattr(tempfile, "tempdir", str(place))
        root = Path(os.environ.get("ASSAYMARK_TEST_ROOTFS", place / "root"))
        try:
            if not root.is_dir():
                if shutil.which("debootstrap") is None:
                    pytest.skip("needs debootstrap, or ASSAYMARK_TEST_ROOTFS with its result")
                words = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)]
                if subprocess.run(words, capture_output=True, check=False, timeout=900).returncode:
                    pytest.skip("debootstrap does not work here")
            _import(root, place)
            yield IMAGE
        finally:
            subprocess.run(["podman", "rmi", "--all", "--force"], capture_output=True, check=False, timeout=120)
            shutil.rmtree(place, ignore_errors=True)


def _import(root: Path, place: Path) -> None:
    """Make an image of a root file system and a repository in it, as SWE-bench's images have one."""
    extra = place / "extra" / "testbed"
    extra.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(extra)], check=True)
    (extra / "pkg.egg-info").mkdir()
    (extra / "pkg.egg-info" / "PKG-INFO").write_text("Name: pkg\n")
    (extra / "generated.py").write_text("VALUE = 5\n")
    (extra / "outside").symlink_to("/etc/passwd")
    with subprocess.Popen(["tar", "-C", str(root), "-c", ".", "-C", str(place / "extra"), "testbed"],
                          stdout=subprocess.PIPE) as packing:  # fmt: skip
        subprocess.run(
            ["podman", "import", "-", IMAGE], stdin=packing.stdout, check=True, capture_output=True, timeout=300
        )


@pytest.mark.slow
def test_no_output_of_a_container_is_lost(image: str, tmp_path: Path) -> None:
    """All that a command prints arrives, and its status, however soon it ends."""
    place = Workplace(tmp_path, "/testbed", image=image, engine="podman")
    for _ in range(4):
        ended = run_sandboxed(["/bin/sh", "-c", "seq 1 60000; echo end >&2; exit 3"], place, LIMITS)
        assert (ended.status, ended.limit) == (3, "")
        assert ended.output == "".join(f"{number}\n" for number in range(1, 60001)) + "end\n"


@pytest.mark.slow
def test_an_instance_is_graded_in_a_container(
    image: str, project: Path, instance: Instance, store: Store, tmp_path: Path
) -> None:
    """Gold resolves and is graded once; a cheat is refused; code that uses a file of the image's repository passes."""
    path = tmp_path / "e.yaml"
    path.write_text(f"local/project: {{image: {image}, python: /usr/bin/python3, pythonpath: [.]}}\n")
    environments = Environments.read(path, where="podman")
    options = GradeOptions(Repositories([str(project)]), environments, SweLimits(seconds=120))
    generated = FIXED.replace("a + b", "a + b + generated.VALUE - 5").replace(
        '"""Return the sum."""', "import generated"
    )
    patches = {
        "gold": instance.patch,
        "wrong": patch_of(project, instance.base_commit, {"calc.py": CODE.replace("a - b", "a * b")}),
        "generated": patch_of(project, instance.base_commit, {"calc.py": generated}),
        "conftest": patch_of(project, instance.base_commit, {"conftest.py": "import os\nos._exit(0)\n"}),
        "exit": patch_of(project, instance.base_commit, {"calc.py": f"import os\n{FIXED}\nos._exit(0)\n"}),
    }
    outcomes = {}
    for name, patch in patches.items():
        (graded,) = grade(store, [instance], [Prediction(instance.instance_id, name, patch)], options)
        outcomes[name] = graded.outcome, graded.reason
    assert {name: outcome for name, (outcome, _) in outcomes.items()} == {
        "gold": "resolved", "wrong": "unresolved", "generated": "resolved", "conftest": "unresolved",
        "exit": "ambiguous_failure",
    }, outcomes  # fmt: skip
    (again,) = grade(store, [instance], [Prediction(instance.instance_id, "gold", instance.patch)], options)
    assert not again.is_new
    environment = environments.of(instance)
    kept = Path(generated_in(environment))
    assert sorted(each.name for each in kept.rglob("*") if not each.is_dir()) == ["PKG-INFO", "generated.py", "outside"]
    assert environment.sha == replace(environment, where="auto").sha  # by image, not by engine


@pytest.mark.slow
def test_what_a_container_may_do(image: str, tmp_path: Path) -> None:
    """No network, nothing but the copy is writable, limits hold, and a container that is late is gone."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (tmp_path / "shown").write_text("1")
    place = Workplace(
        copy, "/testbed", {"/testbed/shown": tmp_path / "shown"}, {"WORD": "x y"}, image=image, engine="podman"
    )

    def ran(script: str, limits: SweLimits = LIMITS) -> tuple[int, str, str]:
        ended = run_sandboxed(["/bin/sh", "-c", script], place, limits)
        return ended.status, ended.output.strip(), ended.limit

    assert ran("ls /sys/class/net; echo $WORD; pwd; echo $SECRET") == (0, "lo\nx y\n/testbed", "")
    assert ran("touch made; ls") == (0, "made\nshown", "")
    for target in ("/etc/x", "/usr/x", "/testbed/shown"):
        assert "Read-only" in ran(f"echo 1 > {target}")[1]
    assert ran("cp /bin/true /tmp/t && /tmp/t; echo $?")[1] == "0"
    status, output, _ = ran("python3 -c 'x = bytearray(600 << 20)'")
    assert status
    assert "MemoryError" in output or status == 137
    status, output, limit = ran("yes", replace(LIMITS, output_bytes=1 << 20))
    assert "printed more" in limit
    forks = "for number in $(seq 30); do sleep 2 & done; echo all"
    assert ran(forks)[1] == "all"
    status, output, _ = ran(forks, replace(LIMITS, n_processes=20))
    assert status
    assert "fork" in output
    assert "all" not in output
    started = time.monotonic()
    assert "longer than" in ran("sleep 100", replace(LIMITS, seconds=3))[2]
    assert time.monotonic() - started < 30
    left = subprocess.run(["podman", "ps", "-a", "-q"], capture_output=True, text=True, check=True)
    assert left.stdout.strip() == ""


@pytest.mark.slow
def test_an_agent_works_in_the_instances_container(
    image: str, project: Path, instance: Instance, store: Store, tmp_path: Path
) -> None:
    """It has the image's programs, no network and no files of this machine; its patch resolves in the same image."""
    repositories, environments = agent_places(image, project)
    limits = SweLimits(seconds=120, memory_bytes=256 << 20)
    model = Scripted(
        [
            bash(f"cat /etc/debian_version; ls /sys/class/net; ls {project}; touch /usr/x; pwd; ls"),
            bash("sed -i 's/a - b/a + b/' calc.py && python3 -m pytest -q -p no:cacheprovider tests; touch /tmp/kept"),
            bash("python3 -c 'x = bytearray(600 << 20)'"),
            bash("sleep 60"),
            bash("ls /tmp; git diff -- calc.py > /tmp/patch.txt"),
            bash(SUBMIT),
        ]
    )
    options = PredictOptions(repositories, environments, agent=AgentLimits(command_seconds=5), limits=limits)
    predictions, failures = predict(store, [instance], model, options)
    assert failures == {}
    history = model.prompts[-1]
    assert "\n12." in history  # the image's Debian, whatever this machine's
    assert "\nlo\n" in history
    assert f"cannot access '{project}'" in history
    assert "Read-only file system" in history
    assert "/testbed\n" in history
    assert "generated.py" in history  # of the image's repository
    assert "2 passed" in history
    assert "MemoryError" in history
    assert "The command was ended: it took longer than the 5 s" in history
    assert "kept" in history
    assert predict(store, [instance], Scripted([]), options)[0] == predictions
    (graded,) = grade(store, [instance], predictions, GradeOptions(repositories, environments, limits))
    assert (graded.outcome, graded.reason) == ("resolved", "")
    assert containers() == ""


@pytest.mark.slow
def test_an_agent_killed_in_its_container_is_begun_again(
    image: str, project: Path, instance: Instance, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After kill -9 nothing is stored of the attempt, the next one ends, and the container left behind ends itself."""
    repositories, environments = agent_places(image, project)
    options = PredictOptions(repositories, environments, agent=AgentLimits(command_seconds=20))
    process = os.fork()
    if process == 0:  # the forked process has the model, which no command could name
        try:
            monkeypatch.setattr("assaymark.swe.sandbox.GRACE_SECONDS", 0.0)
            own = Store.open(str(tmp_path / "swe.sqlite"))
            predict(own, [instance], Scripted([bash("true"), bash("sleep 300")]), options)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 60
    while "sleep 300" not in containers() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert "sleep 300" in containers()
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    made, failures = predict(store, [instance], Scripted([bash(f"echo x > /tmp/patch.txt; {SUBMIT}")]), options)
    assert failures == {}
    assert [each.model_patch for each in made] == ["x\n"]
    deadline = time.monotonic() + 60
    while containers() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert containers() == ""


def agent_places(image: str, project: Path) -> tuple[Repositories, Environments]:
    """Return the project's repository, and its environment in the image."""
    environment = Environment("/usr/bin/python3", pythonpath=(".",), image=image)
    return Repositories([str(project)]), Environments({"default": environment}, "podman")


def containers() -> str:
    """Return the commands of all of podman's containers, one a line; empty: there is none."""
    words = ["podman", "ps", "-a", "--no-trunc", "--format", "{{.Command}}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Return a folder for a socket, whose path may have about 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.slow
def test_docker_by_its_socket(
    image: str,
    project: Path,
    instance: Instance,
    store: Store,
    tmp_path: Path,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Docker's own client talks to podman's socket, which speaks docker's protocol; the image is the same one."""
    if shutil.which("docker") is None:
        pytest.skip("needs docker's client")
    limits = 'default_ulimits = ["nofile=20000:20000", "nproc=8192:8192"]'
    (short_folder / "c.conf").write_text(f'[engine]\nruntime = "runc"\n[containers]\n{limits}\n')
    service = subprocess.Popen(
        ["podman", "system", "service", "--time", "0", f"unix://{short_folder}/d.sock"],
        env=os.environ | {"CONTAINERS_CONF": str(short_folder / "c.conf")},
    )
    try:
        deadline = time.monotonic() + 30
        while not (short_folder / "d.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{short_folder}/d.sock")
        find_engine.cache_clear()  # docker had no socket in the tests before
        environment = Environment("/usr/bin/python3", pythonpath=(".",), image=image)
        options = GradeOptions(
            Repositories([str(project)]), Environments({"default": environment}, "docker"), SweLimits(seconds=120)
        )
        (graded,) = grade(store, [instance], [Prediction(instance.instance_id, "gold", instance.patch)], options)
        assert (graded.outcome, graded.reason) == ("resolved", "")  # so gold resolved it twice, and empty did not
        wrong = instance.patch.replace("a + b", "a + a")
        (graded,) = grade(store, [instance], [Prediction(instance.instance_id, "wrong", wrong)], options)
        assert (graded.outcome, graded.reason) == ("unresolved", "")
        assert find_engine("auto", image).name == "docker"
        assert replace(environment, where="docker").sha == replace(environment, where="podman").sha
        ended = run_sandboxed(
            ["sleep", "100"], Workplace(tmp_path, "/testbed", image=image, engine="docker"), replace(LIMITS, seconds=2)
        )
        assert ended.is_late
        left = subprocess.run(["docker", "ps", "-a", "-q"], capture_output=True, text=True, check=True)
        assert left.stdout.strip() == ""
    finally:
        service.terminate()
        service.wait()
    find_engine.cache_clear()
    assert find_engine("auto", image).name == "podman"  # its socket no longer answers


@pytest.mark.slow
def test_an_image_that_is_not_here_is_named(image: str) -> None:
    """With the command that gets it; nothing is pulled."""
    with pytest.raises(PlanError, match=r"podman pull localhost/none"):
        find_engine("podman", "localhost/none")
    with pytest.raises(PlanError, match=r"/bin/none of the image .* does not run"):
        _ = Environment("/bin/none", image=image, where="podman").sha
    assert find_engine("podman", image).name == "podman"


def test_where_and_environment_must_fit(instance: Instance, tmp_path: Path) -> None:
    """SWE-bench's image without an environment; an interpreter in a container, an image in bubblewrap are refused."""
    chosen = Environments.read(None, where="docker").of(replace(instance, instance_id="Pallets__flask-5014"))
    assert (chosen.image, chosen.where) == (
        "docker.io/swebench/sweb.eval.x86_64.pallets_1776_flask-5014:latest",
        "docker",
    )
    assert chosen.image == image_name("pallets__flask-5014")
    with pytest.raises(PlanError, match="has no image, and --where is podman"):
        Environments.read(None, "/usr/bin/python3", where="podman").of(instance)
    path = tmp_path / "e.yaml"
    path.write_text("default: {image: x}\n")
    with pytest.raises(PlanError, match="is an image, and --where is bwrap"):
        Environments.read(path, where="bwrap").of(instance)
    path.write_text("default: {image: --privileged}\n")
    with pytest.raises(DataError, match="expected an image's name"):
        Environments.read(path)


def test_paths_that_a_mount_cannot_have_are_refused() -> None:
    """A comma would begin another option of the mount: a row may name a test so."""
    engine = ContainerEngine("podman")
    mounts = [(Path("/a"), "/testbed/a,src=/etc", False)]
    with pytest.raises(PlanError, match="cannot be mounted"):
        engine.run_command("n", "x", mounts, {}, "/", 1, 1, 1)


PROGRAM = 'case "$*" in *"image inspect"*) echo \'[{"Id": "1"}]\';; --runtime*) exit 0;; run*) %s;; esac'
NO_SOCKET = "echo 'Cannot connect to the Docker daemon at unix:///var/run/docker.sock.' >&2; exit 1"


@pytest.mark.parametrize(
    ("docker", "podman", "engine"),
    [
        ("exit 0", "exit 0", "docker"),
        (NO_SOCKET, "exit 0", "podman"),
        (None, "exit 0", "podman"),
        (None, "echo 'crun: setrlimit' >&2; exit 126", "podman --runtime runc"),
        ("exit 0", None, "docker"),
        (NO_SOCKET, None, "docker: Cannot connect to the Docker daemon"),
        (None, None, "needs docker or podman, which is not here"),
    ],
)
def test_auto_takes_the_first_engine_that_works(
    docker: str | None, podman: str | None, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker where its socket answers, else podman, else podman with runc; else what they said. Programs stand in."""
    for name, runs in (("docker", docker), ("podman", podman)):
        if runs is not None:
            (tmp_path / name).write_text(f"#!/bin/sh\n{PROGRAM % runs}\n")
            (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    find_engine.cache_clear()
    try:
        if docker in {None, NO_SOCKET} and podman is None:
            with pytest.raises(PlanError, match=engine):
                find_engine("auto", "x")
            return
        known = find_engine("auto", "x")
        assert " ".join((known.name, *known.options)) == engine
    finally:
        find_engine.cache_clear()


def test_without_an_image_auto_is_bubblewrap(
    instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Engines that are here are not asked where no environment names an image; one that does has them asked."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Environments.read(None).of(instance).image == ""
    path = tmp_path / "e.yaml"
    path.write_text("default: {image: x}\n")
    with pytest.raises(PlanError, match="the image x needs docker or podman"):
        _ = Environments.read(path).of(instance).sha
