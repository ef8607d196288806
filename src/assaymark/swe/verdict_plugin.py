"""Run pytest, or a script that runs unittest or sympy's tests, in a sandbox and report what each test did over a pipe.

This file is run there, never imported here. It is started by the environment's own Python, which may be as old as 3.6,
and reads one line of JSON from standard input: the key of the reports, the pipe, folders for `sys.path`, the arguments,
the script (empty: pytest), and what it runs (unittest or sympy).
Each report is authenticated with the key and continues the one before it, and what a test raised is reported beside
what became of it: so a report that a hook changed, one that was written by something else, and an end before the last
report are seen. The tests run in the process of the patched code, which can search its memory for the key: no check
here is complete.
"""

import functools
import hashlib
import hmac
import importlib
import inspect
import json
import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import unittest
    from collections.abc import Callable, Generator
    from types import CodeType, FunctionType
    from typing import TypedDict

    import pluggy
    import pytest

    Call = Callable[..., object]

    class Job(TypedDict):
        """What is read from standard input."""

        key: str
        pipe: int
        paths: list[str]
        arguments: list[str]
        script: str
        reports: str


def main() -> int:
    """Run tests as standard input says; return the status of pytest, or 0 where a script ended without one."""
    job = _read_job()
    here = Path(__file__).resolve().parent
    sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != here]
    send = _sender(bytes.fromhex(job["key"]), job["pipe"])
    if job["script"]:
        {"unittest": _report_unittest, "sympy": _report_sympy}[job["reports"]](send)
        sys.argv = [job["script"], *job["arguments"]]
        sys.path[:0] = [str(Path(job["script"]).resolve().parent)]  # as for `python script`
        runpy.run_path(job["script"], run_name="__main__")
        return 0
    import pytest  # before the repository's folders can be imported from

    sys.path[:0] = job["paths"]
    reports = _reports(send)
    send("start", pytest.__version__)
    status = pytest.main(_without_absent_plugins() + job["arguments"], plugins=[reports])
    sys.stdout.flush()
    return int(status)


def _read_job() -> "Job":
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            raise SystemExit("no job on standard input")
        line += piece
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    job: Job = json.loads(line.decode("utf-8"))
    return job


def _sender(key: bytes, pipe: int) -> "Call":
    """Return a function that writes one report; its modules' functions may be replaced later."""
    os.set_inheritable(pipe, False)
    write, encode, new, sha256 = os.write, json.dumps, hmac.new, hashlib.sha256
    last = [b""]

    def send(*values: object) -> None:
        body = encode(values).encode("utf-8")
        last[0] = new(key, last[0] + body, sha256).hexdigest().encode("ascii")
        line = last[0] + b" " + body + b"\n"
        while line:
            line = line[write(pipe, line) :]

    return send


def _reports(send: "Call") -> object:
    """Return a plugin that sends what pytest makes of each test, what becomes of that, and the end."""
    import pytest

    class Reports:
        @pytest.hookimpl(hookwrapper=True, trylast=True)
        def pytest_runtest_makereport(
            self, item: "pytest.Item", call: "pytest.CallInfo[None]"
        ) -> "Generator[None, pluggy.Result[pytest.TestReport], None]":
            made = yield
            raised = type(call.excinfo.value).__name__ if call.excinfo is not None else None
            send("call", item.nodeid, call.when, raised, made.get_result().outcome)

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
            send("test", report.nodeid, report.when, report.outcome, hasattr(report, "wasxfail"))

        @pytest.hookimpl(tryfirst=True)
        def pytest_collectreport(self, report: "pytest.CollectReport") -> None:
            if report.failed:
                send("uncollected", report.nodeid)

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(self, exitstatus: int) -> None:
            send("finish", int(exitstatus))

    return Reports()


def _report_unittest(send: "Call") -> None:
    """Send what unittest's results that print are told of each test, and the end of the first run.

    The first result that begins a run is that of the script; results of runs that tests make are not reported. A test
    is named as its line of output names it: by the first line of its description if it has one.
    """
    import unittest

    result_class = unittest.TextTestResult
    reported: list[object] = []  # the one result
    own: dict[str, Call] = {
        name: getattr(result_class, name) for name in ("startTestRun", "startTest", "addSubTest", "stopTestRun")
    }

    def name_of(result: "unittest.TextTestResult", test: "unittest.TestCase") -> str:
        return str(result.getDescription(test)).split("\n")[-1].strip()

    def start_run(result: "unittest.TextTestResult") -> None:
        if not reported:
            reported.append(result)
            send("start", sys.version)
        own["startTestRun"](result)

    def start_test(result: "unittest.TextTestResult", test: "unittest.TestCase") -> None:
        own["startTest"](result, test)
        called = getattr(test, "_testMethodName", "")
        method = getattr(test, called, None)
        # a coroutine is run by whoever looks at the method: it must stay one
        if result in reported and method is not None and not inspect.iscoroutinefunction(method):
            setattr(test, called, _reporting(method, name_of(result, test), send))

    def add_subtest(
        result: "unittest.TextTestResult", test: "unittest.TestCase", subtest: object, error: object
    ) -> None:
        if result in reported and error is not None:
            send("test", name_of(result, test), "call", "failed", False)
        own["addSubTest"](result, test, subtest, error)

    def stop_run(result: "unittest.TextTestResult") -> None:
        if result in reported:
            send("finish", 0 if result.wasSuccessful() else 1)
        own["stopTestRun"](result)

    def adding(own_add: "Call", when: str, outcome: str, is_expected: bool) -> "Call":
        def add(result: "unittest.TextTestResult", test: "unittest.TestCase", *values: object) -> None:
            if result in reported:
                method = getattr(test, getattr(test, "_testMethodName", ""), None)
                if outcome == "passed" and inspect.iscoroutinefunction(method):
                    send("call", name_of(result, test), "call", None, "passed")
                send("test", name_of(result, test), when, outcome, is_expected)
            own_add(result, test, *values)

        return add

    for name, (when, outcome, is_expected) in {
        "addSuccess": ("call", "passed", False),
        "addFailure": ("call", "failed", False),
        "addError": ("setup", "failed", False),
        "addSkip": ("setup", "skipped", False),
        "addExpectedFailure": ("call", "skipped", True),
        "addUnexpectedSuccess": ("call", "passed", True),
    }.items():
        setattr(result_class, name, adding(getattr(result_class, name), when, outcome, is_expected))
    replaced = {"startTestRun": start_run, "startTest": start_test, "addSubTest": add_subtest, "stopTestRun": stop_run}
    for name, function in replaced.items():
        setattr(result_class, name, function)


def _report_sympy(send: "Call") -> None:
    """Send what the reporter of sympy's runner is told of each function of tests, and the end of the first run.

    A test is named by its function, as its line of output names it. Functions that a generator yields have no name.
    """
    sys.path[:0] = [str(Path.cwd())]  # the repository
    try:
        runner = importlib.import_module("sympy.testing.runtests")
    except ImportError:  # before sympy 1.6
        runner = importlib.import_module("sympy.utilities.runtests")
    reporter_class = runner.PyTestReporter
    names: dict[object, str] = {}  # function as it is called -> name
    reported: list[object] = []  # the one reporter
    active: list[str] = []  # the name of the test that runs
    own: dict[str, Call] = {
        name: getattr(reporter_class, name) for name in ("start", "entering_test", "import_error", "finish")
    }

    def execute(code: "CodeType", values: "dict[str, object]") -> None:
        exec(code, values)  # noqa: S102 - as the runner would
        for name, function in list(values.items()):
            if name.startswith("test_") and inspect.isfunction(function) and not inspect.isgeneratorfunction(function):
                values[name] = run = _with_file_of(function, _reporting(function, function.__name__, send))
                names[run] = function.__name__

    def start(reporter: object, *values: object, **named: object) -> None:
        if not reported:
            reported.append(reporter)
            send("start", sys.version)
        own["start"](reporter, *values, **named)

    def entering_test(reporter: object, function: object) -> None:
        active[:] = [names[function]] if reporter in reported and function in names else []
        own["entering_test"](reporter, function)

    def adding(own_add: "Call", when: str, outcome: str, is_expected: bool) -> "Call":
        def add(reporter: object, *values: object, **named: object) -> None:
            if reporter in reported and active:
                name = active.pop()
                if outcome == "passed" and is_expected:  # the decorator raises that it passed
                    send("call", name, when, None, "passed")
                send("test", name, when, outcome, is_expected)
            own_add(reporter, *values, **named)

        return add

    def import_error(reporter: object, filename: object, *values: object) -> None:
        if reporter in reported:
            send("uncollected", str(filename))
        own["import_error"](reporter, filename, *values)

    def finish(reporter: object) -> object:
        is_successful = own["finish"](reporter)
        if reporter in reported:
            send("finish", 0 if is_successful else 1)
        return is_successful

    for name, (when, outcome, is_expected) in {
        "test_pass": ("call", "passed", False),
        "test_fail": ("call", "failed", False),
        "test_exception": ("setup", "failed", False),
        "test_skip": ("setup", "skipped", False),
        "test_xfail": ("call", "skipped", True),
        "test_xpass": ("call", "passed", True),
    }.items():
        setattr(reporter_class, name, adding(getattr(reporter_class, name), when, outcome, is_expected))
    reporter_class.start, reporter_class.entering_test = start, entering_test
    reporter_class.import_error, reporter_class.finish = import_error, finish
    for name in ("exec", "exec_"):  # the second before sympy 1.7
        setattr(runner, name, execute)


def _with_file_of(function: "FunctionType", call: "Call") -> "Call":
    """Return a function that calls another, with the file of the first, by which sympy before 1.1 finds its tests."""
    values = {"call": call}
    code = compile("def run(*values):\n    return call(*values)", function.__code__.co_filename, "exec")
    exec(code, values)  # noqa: S102 - the line above
    return functools.wraps(function)(values["run"])


def _reporting(method: "Call", name: str, send: "Call") -> "Call":
    """Return a test's function that reports what it raised."""

    @functools.wraps(method)
    def run(*values: object, **named: object) -> object:
        try:
            made = method(*values, **named)
        except BaseException as error:
            send("call", name, "call", type(error).__name__, "failed")
            raise
        send("call", name, "call", None, "passed")
        return made

    return run


def _without_absent_plugins() -> "list[str]":
    """Return options that leave out plugins whose packages are not here, such as those of editable installations."""
    try:
        from importlib.metadata import entry_points
        from importlib.util import find_spec
    except ImportError:  # Python 3.7
        return []
    installed: object = entry_points()
    if isinstance(installed, dict) and not hasattr(installed, "select"):
        points = installed.get("pytest11", ())
    else:
        points = entry_points(group="pytest11")
    options = []
    for point in points:
        if find_spec(point.value.partition(":")[0].partition(".")[0]) is None:
            options += ["-p", "no:" + point.name]
    return options


if __name__ == "__main__":
    sys.exit(main())
