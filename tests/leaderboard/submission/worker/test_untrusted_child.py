"""A process that the submission controls: what it can send, write, use up and leave behind."""

import os
import resource
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from assaymark import settings
from assaymark.errors import DataError, LeaseLost
from assaymark.leaderboard.submission.worker import process
from assaymark.leaderboard.submission.worker.messages import (
    BadMessage,
    Checked,
    Evaluated,
    Failed,
    Fetched,
    Stage,
    Started,
    read_message,
)
from assaymark.leaderboard.submission.worker.process import StepEnd, StepPlace, run_step
from assaymark.leaderboard.submission.worker.results import STORE, keep_store, take_results
from assaymark.leaderboard.submission.worker.work import _remove
from assaymark.limits.bubblewrap import WorkingBubblewrap, find_bubblewrap
from assaymark.limits.resources import Cgroup, Resources, descendants

BEGIN = """
import json, os, sys, time
sys.path.insert(0, sys.argv[1])
from assaymark.limits.resources import Resources, limit_this_process
spec = json.loads(os.read(0, 1 << 16))
limit_this_process(Resources(**spec["limits"]))
os.write(1, b'{"kind": "started"}\\n')
"""
Attack = Callable[..., StepEnd]


@pytest.fixture
def sandbox() -> WorkingBubblewrap:
    """Return the sandbox, or skip where it cannot work."""
    result = find_bubblewrap()
    if result is None:
        pytest.skip("bubblewrap is not installed, or cannot start a process here")
    return result


@pytest.fixture
def attack(tmp_path: Path, sandbox: WorkingBubblewrap, monkeypatch: pytest.MonkeyPatch) -> Attack:
    """Return a function that runs a program as the evaluation's process, after it has limited itself."""
    folder = tmp_path / "job" / "evaluate-1"
    for part in ("cwd", "home/tmp"):
        (folder / part).mkdir(parents=True)

    def attacked(program: str, *, heard: Callable[[Stage | None], None] = lambda _: None, **limits: int) -> StepEnd:
        monkeypatch.setattr(process, "START", BEGIN + program)
        environment = settings.environment_of_job(folder / "home", network=False)
        allowed = Resources(**{"memory_bytes": 1 << 30, **limits})
        return run_step({"step": "evaluate"}, StepPlace(folder, environment, allowed, 60.0, sandbox), heard)

    return attacked


def test_messages_become_typed_records() -> None:
    """Each step has its own last record; progress is bounded."""
    assert read_message(b'{"kind": "started"}', "evaluate") == Started()
    assert read_message(b'{"kind": "stage", "text": "loading"}', "evaluate") == Stage("loading")
    assert read_message(b'{"kind": "stage", "text": "x", "done": 5, "total": 2}', "check") == Stage("x", 5, 5)
    failed = b'{"kind": "failed", "fault": "submission", "reason": "no"}'
    assert read_message(failed, "fetch") == Failed("submission", "no")
    assert read_message(b'{"kind": "fetched", "model": "/m", "base": null}', "fetch") == Fetched(Path("/m"), None)
    assert read_message(b'{"kind": "evaluated"}', "evaluate") == Evaluated()
    assert read_message(b'{"kind": "checked", "runs": ["ab12"]}', "check") == Checked(("ab12",))


BAD = [
    b"", b"null", b"[]", b"7", b"{", b"\xff", b"{}", b'{"kind": 5}', b'{"kind": "stage"}',
    b'{"kind": "stage", "text": 5}', b'{"kind": "stage", "text": ""}', b'{"kind": "stage", "text": "' + b"x" * 40 + b'"}',  # noqa: E501
    b'{"kind": "stage", "text": "x", "done": "5"}', b'{"kind": "stage", "text": "x", "done": [1]}',
    b'{"kind": "stage", "text": "x", "done": -1}', b'{"kind": "stage", "text": "x", "done": true}',
    b'{"kind": "stage", "text": "x", "done": 1e400}', b'{"kind": "stage", "text": "x", "total": NaN}',
    b'{"kind": "stage", "text": "x", "done": ' + b"9" * 5000 + b"}", b'{"kind": "stage", "text": "x", "done": null}',
    b'{"kind": "failed", "fault": "nobody", "reason": "x"}',
    b'{"kind": "failed", "fault": "infrastructure", "reason": {}}',
    b'{"kind": "failed", "fault": ["infrastructure"], "reason": "x"}',
    b'{"kind": "fetched", "model": "/etc", "base": null}',
    rb'{"kind": "stage", "text": "\ud800"}', rb'{"kind": "stage", "text": "a\u0000"}',
    rb'{"kind": "failed", "fault": "submission", "reason": "\udfff\ud800"}',
    b'{"kind": "checked", "runs": ["ab12"]}', b"[" * 3000, b'{"a":' * 60, b'{"kind": "evaluated"}' + b" " * (1 << 16),
]  # fmt: skip


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_what_is_no_message_is_refused(line: bytes) -> None:
    """Wrong types, numbers, lengths, nesting, and records of other steps are refused by one kind of error."""
    with pytest.raises(BadMessage):
        read_message(line, "evaluate")


@pytest.mark.parametrize("runs", ["[]", "5", '["../x"]', '[""]', "[5]", "null", '["' + "a" * 65 + '"]'])
def test_ids_of_runs_are_ids(runs: str) -> None:
    """What the check names cannot be a path, nor anything else but ids."""
    with pytest.raises(BadMessage):
        read_message(b'{"kind": "checked", "runs": %s}' % runs.encode(), "check")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("""os.write(1, b'{"kind": "stage", "text": "x", "done": "5"}\\n'); time.sleep(60)""", "'done' is not a whole"),
        ("""os.write(1, b'{"kind": "evaluated"}\\n' * 2); time.sleep(60)""", "a message after its last one"),
        ("""os.write(1, b'{"kind": "checked", "runs": ["ab12"]}\\n'); time.sleep(60)""", "does not have"),
    ],
)
def test_a_bad_message_ends_the_job_and_not_the_worker(attack: Attack, program: str, reason: str) -> None:
    """It is the submission's fault, and the process is ended at once."""
    started = time.monotonic()
    ended = attack(program)
    assert (ended.made, ended.fault) == (None, "submission")
    assert reason in ended.reason
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("sys.exit(1)", "ended with status 1 and without a result"),
        ("sys.exit(0)", "ended with status 0 and without a result"),
        (
            """os.write(1, b'{"kind": "failed", "fault": "infrastructure", "reason": "the disk is full"}\\n')""",
            "the disk is full",
        ),
    ],
)
def test_what_it_says_of_the_host_proves_nothing(attack: Attack, program: str, reason: str) -> None:
    """A process that ends without a result, or blames the host, is a crash, which is tried once more only."""
    ended = attack(program)
    assert (ended.made, ended.fault, ended.reason.removeprefix("the process ")) == (None, "killed", reason)


def test_a_sandbox_that_does_not_start_is_our_fault(tmp_path: Path) -> None:
    """Where bubblewrap or Python fails before our code runs, the submission has done nothing."""
    (tmp_path / "cwd").mkdir()
    place = StepPlace(tmp_path, {}, Resources(1 << 30), 60.0, WorkingBubblewrap("/usr/bin/false", ()))
    assert run_step({"step": "evaluate"}, place, lambda _: None).fault == "infrastructure"


def test_gigabytes_without_a_newline_are_not_read(attack: Attack) -> None:
    """1.5 GB in one line ends the job after 64 KiB of it; the worker's memory does not grow by 100 MB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = attack("piece = b'x' * (1 << 20)\nfor _ in range(1500):\n    os.write(1, piece)")
    assert (ended.fault, ended.made) == ("submission", None)
    assert "a message of more than 65,536 bytes" in ended.reason
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_of_an_endless_log_the_end_is_kept(attack: Attack) -> None:
    """300 MB on standard error neither block the process nor stay in memory."""
    program = "piece = b'y' * (1 << 20)\nfor _ in range(300):\n    os.write(2, piece)\nos.write(2, b'the end')\n"
    ended = attack(program + """os.write(1, b'{"kind": "evaluated"}\\n')""")
    assert ended.made == Evaluated()
    assert ended.log.endswith("the end")
    assert len(ended.log) <= 200_000


FORKS = "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
HOGS = "for _ in range(5):\n    if os.fork() == 0:\n        break\nx = b'x' * (150 << 20)\ntime.sleep(60)\n"
FILES = "for n in range(10000):\n    open(f'{n}', 'wb').write(bytes(8 << 20))\n"
HALVES = """
piece = bytes(1 << 20)
try:
    with open("{place}/f", "wb") as file:
        while file.tell() < 4 << 30:
            file.write(piece)
except OSError:
    pass
x = b"x" * (820 << 20)
time.sleep(60)
"""
DEEP = "for n in range(100):\n    os.mkdir('d')\n    os.chdir('d')\ntime.sleep(60)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "limits", "reason"),
    [
        (FORKS, {"n_processes": 60}, "processes and threads"),
        (HOGS, {"memory_bytes": 512 << 20}, "0.5 GiB of memory"),
        ("x = bytearray(3 << 30)", {}, ""),  # it ends with a MemoryError, as a program does
        ("open('f', 'wb').write(bytes(64 << 20))", {"file_bytes": 1 << 20}, "SIGXFSZ"),
        (FILES, {"disk_bytes": 64 << 20}, "0.1 GiB that a job may write"),
        (DEEP, {}, "more than the 64 levels"),
        ("import signal\nsignal.signal(25, signal.SIG_IGN)\n" + FILES.replace("'", '"/dev/shm/" f\'', 1),
         {"scratch_bytes": 16 << 20}, ""),
        (HALVES.format(place="/dev/shm"), {"memory_bytes": 1 << 30}, "1.0 GiB of memory"),
        (HALVES.format(place="/tmp"), {"memory_bytes": 1 << 30}, "1.0 GiB of memory"),
        ("os.kill(os.getpid(), 11)", {}, "SIGSEGV"),
    ],
    ids=["forks", "hogs", "memory", "one file", "many files", "deep folders", "memory files", "shared memory",
         "temporary files", "crash"],
)  # fmt: skip
def test_what_it_may_use_is_limited(attack: Attack, program: str, limits: dict[str, int], reason: str) -> None:
    """Processes, memory, files and depth end the job and leave nothing running; the machine stays as it was."""
    begin, end = (
        "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n",
        """\nos.write(1, b'{"kind": "evaluated"}\\n')""",
    )
    ended = attack(begin + program + end, **limits)
    assert ended.made is None
    if reason:
        assert ended.fault == "killed", ended
        assert reason in ended.reason
    deadline = time.monotonic() + 10
    while descendants(os.getpid()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert descendants(os.getpid()) == []


def test_a_lost_lease_ends_the_process_without_a_traceback(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `heard` raises is raised, and no thread of the worker fails beside it."""
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)
    before = set(threading.enumerate())

    def heard(_: Stage | None) -> None:
        raise LeaseLost("taken over")

    with pytest.raises(LeaseLost):
        attack("while True:\n    os.write(2, b'x' * 1000)", heard=heard)
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert failures == []


def test_its_modules_are_ours_whatever_lies_in_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `assaymark` or `json` in the working directory, the home or PYTHONPATH is not imported."""
    folder = tmp_path / "job" / "evaluate-1"
    places = [folder / "cwd", folder, folder / "home/.local/lib/python3.11/site-packages"]
    for place in places:
        for name in ("assaymark", "json"):
            (place / name).mkdir(parents=True)
            (place / name / "__init__.py").write_text("import os; os.write(2, b'ATTACKED'); os._exit(0)\n")
        (place / "usercustomize.py").write_text("import os; os.write(2, b'ATTACKED'); os._exit(0)\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    environment = {**settings.environment_of_job(folder / "home", network=True), "PYTHONPATH": str(folder)}
    spec: dict[str, object] = {"step": "fetch", "source": "folder", "folders": [], "into": "/nowhere", "model": "x"}
    spec |= {"revision": "", "base": None, "parts": [], "options": {}}
    ended = run_step(spec, StepPlace(folder, environment, Resources(4 << 30), 60.0), lambda _: None)
    assert ended.fault == "submission"
    assert "there is no model 'x'" in ended.reason
    assert "ATTACKED" not in ended.log


def test_results_are_copied_without_following_anything(tmp_path: Path) -> None:
    """A link to the server's secret, a pipe, a folder and a file over the limit are refused and not read."""
    secret = tmp_path / "server.secret"
    secret.write_text("the-secret")
    kinds: Sequence[Callable[[Path], object]] = (
        lambda at: at.symlink_to(secret),
        os.mkfifo,
        lambda at: at.mkdir(),
        lambda at: at.write_bytes(b"x" * 101),
        lambda _: None,
    )
    for number, make in enumerate(kinds):
        folder = tmp_path / str(number)
        folder.mkdir()
        make(folder / STORE)
        with pytest.raises(DataError):
            take_results(folder, tmp_path / f"copy-{number}", 100)
        copied = tmp_path / f"copy-{number}"
        assert not copied.exists() or b"the-secret" not in copied.read_bytes()
    good = tmp_path / "good"
    good.mkdir()
    (good / STORE).write_bytes(b"x" * 100)
    take_results(good, tmp_path / "copy", 100)
    assert (tmp_path / "copy").read_bytes() == b"x" * 100


def test_only_files_are_kept_for_the_next_attempt(tmp_path: Path) -> None:
    """A link in place of the store stays behind; so does everything else that the attempt wrote."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    (tmp_path / "secret").write_text("secret")
    (before / STORE).symlink_to(tmp_path / "secret")
    (before / f"{STORE}-wal").write_text("kept")
    (before / "assaymark").mkdir()
    keep_store(before, after)
    assert [path.name for path in after.iterdir()] == [f"{STORE}-wal"]
    assert stat.S_ISREG((after / f"{STORE}-wal").lstat().st_mode)


def test_a_control_group_is_made_only_where_it_may_be(tmp_path: Path) -> None:
    """Without the kernel's controllers there is none; with them the limits are written before a process is moved in."""
    limits = Resources(1 << 30, n_processes=77)
    assert Cgroup.create(limits, tmp_path / "absent") is None
    own = next(line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    above = tmp_path / own.removeprefix("0::").strip("/")
    above.mkdir(parents=True, exist_ok=True)
    (above / "cgroup.controllers").write_text("cpu")
    assert Cgroup.create(limits, tmp_path) is None
    (above / "cgroup.controllers").write_text("cpu memory pids")
    group = Cgroup.create(limits, tmp_path)
    assert group is not None
    (folder,) = above.glob("assaymark-job-*")
    assert (folder / "memory.max").read_text() == str(1 << 30)
    assert (folder / "pids.max").read_text() == "77"
    assert (above / "cgroup.subtree_control").read_text() == "+memory +pids"
    # not this process, which may have children from other tests: each is written over the one before, the kernel adds
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as moved:
        group.add(moved.pid)
        assert (folder / "cgroup.procs").read_text() == str(moved.pid)
        moved.kill()


def test_deep_folders_are_removed(attack: Attack, tmp_path: Path) -> None:
    """Three thousand folders in each other, one of them closed, are removed; what a link beside them names is not."""
    kept = tmp_path / "kept"
    kept.write_text("kept")
    kept.chmod(0o400)
    deep = f"os.symlink({str(kept)!r}, 'link')\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    attack(deep + "os.mkdir('closed', 0)")
    job = tmp_path / "job"
    assert (job / "evaluate-1/cwd/d/d/d/d").is_dir()
    _remove(job)
    assert not job.exists()
    assert (kept.read_text(), stat.S_IMODE(kept.stat().st_mode)) == ("kept", 0o400)
