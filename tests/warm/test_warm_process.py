"""The warm process: a command that it runs is the command that runs without it, as seen by user, store and signals."""

import json
import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from assaymark.cli.warm_client import connect, own_descriptors, socket_name
from assaymark.warm.server import WarmFacts, WarmServer, ask, changed_file, difference, loaded_files
from tests.cli.test_signals import AT_ONCE, TASK

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the warm process needs Linux")
FAKE = ["run", "--model", "fake", "--model_args", "accuracy=0.7", "--tasks", "demo_facts", "--limit", "20", "--quiet"]
SMALL = ROOT / "src" / "assaymark" / "library" / "demo_models" / "small"


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Return the variables of commands with their own data folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ASSAYMARK_HOME": str(home), **variables}


def command(*words: str) -> list[str]:
    """Return a command line of assaymark."""
    return [sys.executable, "-m", "assaymark", *words]


def done(
    home: Path, *words: str, cwd: Path | None = None, variables: Mapping[str, str] | None = None, typed: str = ""
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        command(*words), cwd=cwd or home, env=environment(home, **(variables or {})), input=typed, text=True,
        capture_output=True, check=False,
    )  # fmt: skip


def asked(home: Path) -> WarmFacts:
    """Return what the warm process says of itself."""
    connection = connect(home / "warm")
    assert connection is not None
    return ask(connection, "status")


@pytest.fixture
def warm_home(tmp_path: Path) -> Iterator[Path]:
    """A data folder with a warm process that has imported no more than the command line needs."""
    yield from _started(tmp_path, [])


@pytest.fixture(scope="module")
def full_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder with a warm process that has imported what a local model needs."""
    yield from _started(tmp_path_factory.mktemp("home"), [f"pretrained={SMALL}"])


def _started(home: Path, models: Sequence[str]) -> Iterator[Path]:
    (home / "warm").mkdir(mode=0o700)
    options = json.dumps({"models": models, "idle_seconds": 600})
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "assaymark.warm", options], env=environment(home), stdout=subprocess.PIPE,
            stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
    assert process.stdout is not None
    reply = json.loads(process.stdout.read())
    assert reply.get("process_id") == process.pid, reply
    yield home
    process.kill()
    process.communicate()


def rows(store: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows of every table, without times, what was typed, process numbers and peak memory."""
    result: dict[str, list[tuple[object, ...]]] = {}
    with closing(sqlite3.connect(store)) as connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            names = [row[1] for row in connection.execute(f"PRAGMA table_info('{table}')")]
            kept = [name for name in names if not name.endswith("_at") and name not in VARYING]
            if table not in {"run_leases", "sqlite_sequence"} and kept:
                listed = ", ".join(f'"{name}"' for name in kept)
                lines = connection.execute(f"SELECT {listed} FROM '{table}'").fetchall()
                result[table] = sorted((tuple(without_times(value) for value in line) for line in lines), key=repr)
    return result


def without_times(value: object) -> object:
    """Return a stored value; in a summary without seconds and peak memory."""
    if not (isinstance(value, bytes) and value.startswith(b"\x01x")):
        return value
    return re.sub(rb'"(seconds|peak_bytes)":[^,}]+', b"", zlib.decompress(value[1:]))


VARYING = {"process_id", "command", "checksum"}  # the last is of the row with its times


@pytest.mark.slow
def test_a_run_stores_what_it_stores_without_the_warm_process(full_home: Path) -> None:
    """Ids, prompts, outputs, scores and estimates of a local model are equal to the bit; so is what is printed."""
    words = ["run", "--model_args", f"pretrained={SMALL}", "--tasks", "demo_facts,demo_stories", "--limit", "12"]
    n_before = asked(full_home)["n_run"]
    caches = [{"ASSAYMARK_CACHE": str(full_home / name)} for name in ("cache_warm", "cache_cold")]
    warm = done(full_home, *words, "--store", "warm.sqlite", variables=caches[0])
    assert (warm.returncode, asked(full_home)["n_run"]) == (0, int(str(n_before)) + 1), warm.stderr
    cold = done(full_home, *words, "--store", "cold.sqlite", "--no-warm", variables=caches[1])
    assert cold.returncode == 0
    assert warm.stdout.replace("warm.sqlite", "S") == cold.stdout.replace("cold.sqlite", "S")
    first, second = rows(full_home / "warm.sqlite"), rows(full_home / "cold.sqlite")
    assert len(first["outputs"]) > 24
    assert first == second


@pytest.mark.slow
def test_a_race_gives_the_same_verdict(full_home: Path) -> None:
    """Verdict, number of questions and interval are those of a race without the warm process."""
    words = ["race", str(SMALL), str(SMALL.parent / "large"), "--tasks", "demo_facts", "--json"]
    warm = done(full_home, *words, "--store", "race_warm.sqlite")
    cold = done(full_home, *words, "--store", "race_cold.sqlite", "--no-warm")
    assert warm.returncode == cold.returncode
    assert json.loads(warm.stdout) == json.loads(cold.stdout)


@pytest.mark.slow
def test_folder_environment_input_and_exit_code_are_the_commands_own(warm_home: Path, tmp_path: Path) -> None:
    """Relative paths, variables, file modes, pipes and exit codes are those of the terminal, not of the process."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    mask = os.umask(0o027)
    try:
        ended = done(warm_home, *FAKE, cwd=folder, variables={"ASSAYMARK_STORE": "mine.sqlite", "COLUMNS": "60"})
    finally:
        os.umask(mask)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert stat.S_IMODE((folder / "mine.sqlite").stat().st_mode) & 0o077 == 0o040
    assert done(warm_home, "run", "--model", "fake", "--tasks", "no_such_task").returncode == 2
    assert asked(warm_home)["n_run"] == 2
    assert done(warm_home, *FAKE, "--no_warm").returncode == 0
    assert asked(warm_home)["n_run"] == 2, "--no_warm leaves it alone"


@pytest.mark.slow
def test_what_would_run_differently_is_refused_and_runs_without_it(warm_home: Path) -> None:
    """Another number of threads, read when a library is loaded, is named, and the command runs in its own process."""
    ended = done(warm_home, *FAKE, variables={"OMP_NUM_THREADS": "7"})
    assert ended.returncode == 0
    assert "note: the warm process is not used: the variable OMP_NUM_THREADS was" in ended.stderr
    assert "'7' here" in ended.stderr
    assert asked(warm_home)["n_run"] == 0
    status = done(warm_home, "warm", "status", variables={"OMP_NUM_THREADS": "7"})
    assert status.returncode == 1
    assert "do not use it: the variable OMP_NUM_THREADS" in status.stdout


@pytest.fixture
def slow_server() -> Iterator[str]:
    """The URL of a server that takes half a second for each response."""
    words = [sys.executable, "-m", "tests.models.server.slow_server", "0.5"]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1/chat/completions"
    process.kill()
    process.communicate()


@pytest.fixture
def long_run(warm_home: Path, slow_server: str) -> Iterator[Callable[[], "tuple[subprocess.Popen[str], int]"]]:
    """A function that starts a run of forty samples in the warm process; returns client and process id of the run."""
    (warm_home / "sums.yaml").write_text(TASK)
    (warm_home / "sums.jsonl").write_text("".join(f'{{"question": "What is {i}?"}}\n' for i in range(40)))
    clients: list[subprocess.Popen[str]] = []

    def start() -> "tuple[subprocess.Popen[str], int]":
        n_before = n_stored(warm_home)
        arguments = f"model=slow,base_url={slow_server},num_concurrent={AT_ONCE}"
        words = ["run", "--model", "local-chat-completions", "--model_args", arguments, "--tasks", "sums.yaml"]
        client = subprocess.Popen(
            command(*words, "--apply_chat_template", "--quiet", "--store", "store.sqlite"), cwd=warm_home, text=True,
            env=environment(warm_home, OPENAI_API_KEY=""), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        clients.append(client)
        until(lambda: asked(warm_home)["in_progress"] != [] and n_stored(warm_home) >= n_before + AT_ONCE)
        in_progress = asked(warm_home)["in_progress"]
        assert isinstance(in_progress, list)
        return client, int(in_progress[0])

    yield start
    for client in clients:
        client.kill()
        client.communicate()


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until a condition holds; fails after a while."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


def n_stored(home: Path) -> int:
    """Return the number of stored outputs."""
    try:
        with sqlite3.connect(f"file:{home / 'store.sqlite'}?mode=ro", uri=True) as connection:
            return int(connection.execute("SELECT count(*) FROM outputs").fetchone()[0])
    except sqlite3.Error:
        return 0


def is_alive(process_id: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_signals_reach_the_command(
    warm_home: Path, long_run: "Callable[[], tuple[subprocess.Popen[str], int]]"
) -> None:
    """Ctrl-C ends the command with 130 and SIGTERM with 143, what it received is stored, and the process serves on."""
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        client, process_id = long_run()
        client.send_signal(number)
        _, errors = client.communicate(timeout=60)
        assert client.returncode == code
        assert "stopped; responses received so far are stored" in errors
        assert not is_alive(process_id)
    assert 2 * AT_ONCE <= n_stored(warm_home) < 40
    assert asked(warm_home)["in_progress"] == []


@pytest.mark.slow
def test_a_killed_client_ends_its_command(
    warm_home: Path, long_run: "Callable[[], tuple[subprocess.Popen[str], int]]"
) -> None:
    """Killing the client ends the work at once, and the same command continues it."""
    client, process_id = long_run()
    client.kill()
    until(lambda: not is_alive(process_id), 10.0)
    n_before = n_stored(warm_home)
    client, _ = long_run()
    assert client.wait(timeout=60) == 0
    assert n_before < n_stored(warm_home) == 40


@pytest.mark.slow
def test_a_killed_warm_process_ends_its_commands(
    warm_home: Path, long_run: "Callable[[], tuple[subprocess.Popen[str], int]]"
) -> None:
    """Killing the warm process ends its commands; clients say so, and its socket is in nobody's way."""
    client, process_id = long_run()
    os.kill(int(str(asked(warm_home)["process_id"])), signal.SIGKILL)
    _, errors = client.communicate(timeout=30)
    assert client.returncode == 1
    assert "the warm process ended before the command did" in errors
    until(lambda: not is_alive(process_id), 10.0)
    ended = done(warm_home, *FAKE)
    assert ended.returncode == 0
    assert "note: the warm process is not used: Connection refused" in ended.stderr
    assert done(warm_home, "warm", "status").returncode == 1, "which removes the socket"
    assert done(warm_home, *FAKE).stderr == ""


@pytest.mark.slow
def test_a_suspended_client_suspends_its_command(
    long_run: "Callable[[], tuple[subprocess.Popen[str], int]]",
) -> None:
    """Ctrl-Z stops the command and then its client, which a shell waits for; `fg` continues both."""
    client, process_id = long_run()
    client.send_signal(signal.SIGTSTP)
    states = [Path(f"/proc/{number}/stat") for number in (process_id, client.pid)]
    until(lambda: all(state.read_text().rpartition(")")[2].split()[0] == "T" for state in states))
    client.send_signal(signal.SIGCONT)
    assert client.wait(timeout=60) == 0


@pytest.mark.slow
def test_it_is_started_shown_and_stopped_by_commands(tmp_path: Path) -> None:
    """Nothing exists before `warm start`; a second start is refused; after `warm stop` nothing is left."""
    assert done(tmp_path, "warm", "status").returncode == 1
    assert done(tmp_path, "warm", "stop").returncode == 1
    started = done(tmp_path, "warm", "start", "--idle", "5")
    try:
        assert started.returncode == 0, started.stderr
        assert "is ready after" in started.stdout
        assert stat.S_IMODE((tmp_path / "warm").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "warm" / socket_name()).stat().st_mode) == 0o600
        again = done(tmp_path, "warm", "start")
        assert (again.returncode, "there is one already" in again.stderr) == (2, True)
        status = done(tmp_path, "warm", "status")
        assert (status.returncode, "use it" in status.stdout) == (0, True)
    finally:
        stopped = done(tmp_path, "warm", "stop")
    assert stopped.returncode == 0
    until(lambda: not (tmp_path / "warm" / socket_name()).exists(), 10.0)


@pytest.mark.slow
def test_a_model_that_cannot_run_is_reported_at_the_start(tmp_path: Path) -> None:
    """`warm start` with a folder that is no model fails with the reason's place, and leaves no process."""
    ended = done(tmp_path, "warm", "start", "--model_args", "pretrained=/nowhere")
    assert ended.returncode == 4
    assert "a run of the model pretrained=/nowhere ended with exit code" in ended.stderr
    assert connect(tmp_path / "warm") is None


def test_a_process_of_another_version_is_refused() -> None:
    """The first fact that differs is named, with both values."""
    assert difference({"version": "0.1.0", "a": 1}, {"version": "0.1.0", "a": 1}) is None
    assert difference({"version": "0.1.0"}, {"version": "0.2.0"}) == "its version is 0.1.0, and here it is 0.2.0"
    own, other = {"NOFILE": [20, 20], "CPU": [1, 1]}, {"NOFILE": [64, 64], "CPU": [1, 1]}
    assert difference({"limits": own}, {"limits": other}) == "its NOFILE is [20, 20], and here it is [64, 64]"
    expected = "the variable HF_HOME was unset when it was started, and is '/data' here"
    assert difference({}, {"variable HF_HOME": "/data"}) == expected


def test_changed_source_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a loaded module that was edited, replaced or removed is named."""
    source = tmp_path / "module_that_changes.py"
    source.write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("module_that_changes")
    monkeypatch.setitem(sys.modules, "module_that_changes", sys.modules["module_that_changes"])
    files = loaded_files()
    assert changed_file(files) is None
    source.write_text("VALUE = 22\n")
    assert changed_file(files) == str(source)
    source.unlink()
    assert changed_file(files) == str(source)


def test_a_socket_that_nobody_answers_is_an_error_and_none_is_not(tmp_path: Path) -> None:
    """Without a socket there is no warm process; with one that a killed process left, a reason."""
    assert connect(tmp_path) is None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(tmp_path / socket_name()))
    with pytest.raises(ConnectionError, match="Connection refused"):
        connect(tmp_path)


def test_it_ends_when_nothing_is_asked_of_it(tmp_path: Path) -> None:
    """After the idle time the socket is gone, and the log says why."""
    lines: list[str] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    server = WarmServer(tmp_path / socket_name(), 0.1, {}, lines.append)
    try:
        server.open()
        assert server.serve() is None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        server.close()
    assert not (tmp_path / socket_name()).exists()
    assert lines == ["no command for 0.00166667 minutes"]


@pytest.mark.parametrize("line", [b"no JSON\n", b"[]\n", b"{}\n", b'{"facts": 1}\n', b""])
def test_what_is_no_command_leaves_it_running(warm_home: Path, line: bytes) -> None:
    """A client that sends something else is refused or left, and the next command runs."""
    connection = connect(warm_home / "warm")
    assert connection is not None
    with connection, (warm_home / "log").open() as file:
        socket.send_fds(connection, [line or b"{"], [file.fileno()] * 4)
        connection.shutdown(socket.SHUT_WR)
        reply = connection.recv(1 << 16)
    assert reply == b"" or json.loads(reply)["refused"].startswith("its command has no ")
    assert asked(warm_home)["process_id"]


def test_half_a_command_holds_nobody_up(warm_home: Path) -> None:
    """Clients that send a part of a line, or nothing, wait alone; the descriptors that they sent are closed."""
    server, log = asked(warm_home)["process_id"], warm_home / "log"

    def n_open() -> int:
        return sum(each.resolve() == log for each in Path(f"/proc/{server}/fd").iterdir())

    n_before = n_open()
    half = [connect(warm_home / "warm") for _ in range(5)]
    with log.open() as file:
        for each in half[1:]:
            assert each is not None
            socket.send_fds(each, [b'{"argv": ['], [file.fileno()] * 4)
    assert [asked(warm_home)["process_id"] for _ in range(20)] == [server] * 20
    assert n_open() == n_before + 4 * 4, "they are still waited for"
    until(lambda: n_open() == n_before)
    assert all(each is not None and each.recv(1) == b"" for each in half)


@pytest.mark.parametrize(
    ("words", "is_own"),
    [
        (["run", "-C", "/dev/fd/63"], True), (["run", "--store=/proc/self/fd/11"], True),
        (["run", "--tasks", "/proc/thread-self/fd/3"], True), (["run", "/proc/self/environ"], True),
        (["run", "-C", "/dev/stdin"], False), (["run", "-C", "/dev/fd/0"], False), (["run", "/proc/self/fd/1"], False),
        (["run", "--tasks", "dev/fd"], False),
    ],
)  # fmt: skip
def test_paths_of_descriptors_are_of_the_command_alone(words: list[str], is_own: bool) -> None:
    """A path to a descriptor other than the standard streams' names another file in another process."""
    assert ("is of this process" in (own_descriptors(words) or "")) == is_own


def test_a_command_that_inherits_a_descriptor_runs_by_itself(warm_home: Path) -> None:
    """Process substitution works as without the warm process, and the note says why that is not used."""
    (warm_home / "c.yaml").write_text("tasks: demo_facts\nlimit: 5\n")
    line = f"exec {sys.executable} -m assaymark run --model fake --quiet -C <(cat c.yaml)"
    bash = ["bash", "-c", line]
    ended = subprocess.run(bash, cwd=warm_home, env=environment(warm_home), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "demo_facts" in ended.stdout
    assert "the warm process is not used: /dev/fd/" in ended.stderr
    with (warm_home / "c.yaml").open() as file:
        inherited = subprocess.run(
            command(*FAKE), cwd=warm_home, env=environment(warm_home), pass_fds=[file.fileno()], capture_output=True,
            text=True, check=False,
        )  # fmt: skip
    assert "the warm process is not used: the command inherited the descriptor" in inherited.stderr
    assert asked(warm_home)["n_run"] == 0


def test_a_confined_command_runs_by_itself(warm_home: Path) -> None:
    """What its caller took from it, the warm process may still have."""
    words = ["setpriv", "--no-new-privs", *command(*FAKE)]
    ended = subprocess.run(
        words, cwd=warm_home, env=environment(warm_home), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "the warm process is not used: its privileges is" in ended.stderr
    assert asked(warm_home)["n_run"] == 0


def test_a_forked_process_ends_as_any_other_does() -> None:
    """It waits for its threads, calls what was registered, and writes what is left; 120 where that is impossible."""
    program = """
import atexit, sys, threading, time
from assaymark.warm.__main__ import end_forked
atexit.register(print, "registered")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
print("written")
end_forked(3)
"""
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": ""}
    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.split()) == (3, ["written", "thread", "registered"])
    with Path("/dev/full").open("w") as full:
        closed = subprocess.run([*words[:2], program.replace("(3)", "(0)")], env=variables, stdout=full, check=False)
    assert closed.returncode == 120
