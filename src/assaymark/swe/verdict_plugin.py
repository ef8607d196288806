"""Run pytest in a sandbox and report what each test did over a pipe. This file is run there, never imported here.

It is started by the environment's own Python, which may be as old as 3.6, and reads one line of JSON from standard
input: the key of the reports, the pipe, folders for `sys.path`, and pytest's arguments. Each report is authenticated
with the key and continues the one before it, and what pytest itself made of a test is reported beside what became of
it: so a report that a hook changed, one that was written by something else, and an end before the last report are seen.
The tests run in the process of the patched code, which can search its memory for the key: no check here is complete.
"""

import hashlib
import hmac
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> int:
    """Run pytest as standard input says; return its status."""
    job = _read_job()
    here = Path(__file__).resolve().parent
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != here]
    import pytest  # before the repository's folders can be imported from

    sys.path[:0] = job["paths"]
    send = _sender(bytes.fromhex(job.pop("key")), job["pipe"])
    reports = _reports(pytest, send)
    send("start", pytest.__version__)
    status = pytest.main(_without_absent_plugins() + job["arguments"], plugins=[reports])
    sys.stdout.flush()
    return int(status)


def _read_job() -> Any:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            raise SystemExit("no job on standard input")
        line += piece
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    return json.loads(line.decode("utf-8"))


def _sender(key: bytes, pipe: int) -> Any:
    """Return a function that writes one report; its modules' functions may be replaced later."""
    os.set_inheritable(pipe, False)
    write, encode, new, sha256 = os.write, json.dumps, hmac.new, hashlib.sha256
    last = [b""]

    def send(*values: Any) -> None:
        body = encode(values).encode("utf-8")
        last[0] = new(key, last[0] + body, sha256).hexdigest().encode("ascii")
        line = last[0] + b" " + body + b"\n"
        while line:
            line = line[write(pipe, line) :]

    return send


def _reports(pytest: Any, send: Any) -> Any:
    """Return a plugin that sends what pytest makes of each test, what becomes of that, and the end."""
    hook: Callable[..., Callable[[Any], Any]] = pytest.hookimpl

    class Reports:
        @hook(hookwrapper=True, trylast=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            made = yield
            raised = type(call.excinfo.value).__name__ if call.excinfo is not None else None
            send("call", item.nodeid, call.when, raised, made.get_result().outcome)

        @hook(tryfirst=True)
        def pytest_runtest_logreport(self, report: Any) -> None:
            send("test", report.nodeid, report.when, report.outcome, hasattr(report, "wasxfail"))

        @hook(tryfirst=True)
        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                send("uncollected", report.nodeid)

        @hook(tryfirst=True)
        def pytest_sessionfinish(self, exitstatus: Any) -> None:
            send("finish", int(exitstatus))

    return Reports()


def _without_absent_plugins() -> Any:
    """Return options that leave out plugins whose packages are not here, such as those of editable installations."""
    try:
        from importlib.metadata import entry_points
        from importlib.util import find_spec
    except ImportError:  # Python 3.7
        return []
    installed: Any = entry_points()
    points = installed.select(group="pytest11") if hasattr(installed, "select") else installed.get("pytest11", ())
    options = []
    for point in points:
        if find_spec(point.value.partition(":")[0].partition(".")[0]) is None:
            options += ["-p", "no:" + point.name]
    return options


if __name__ == "__main__":
    sys.exit(main())
