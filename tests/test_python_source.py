"""Python source read by several threads at once."""

import ast
import gc
import threading
import time
from pathlib import Path

from assaymark.python_source import parse_python, python_value, source_of_object


class Sample:
    """A class, since `inspect.getsource` parses the whole file for one."""


def switch_threads(*_: object) -> None:
    """Let another thread run: what a finalizer does that a collection calls while a tree is under construction."""
    time.sleep(0)


def test_sources_are_read_while_other_threads_parse() -> None:
    """Four threads read sources while collections of garbage, which run in the middle of it, switch threads."""
    failures: list[Exception] = []
    source = Path(ast.__file__).read_text(encoding="utf-8")

    def read() -> None:
        try:
            for _ in range(20):
                assert parse_python(source).body
                assert "class Sample" in source_of_object(Sample)
                assert python_value("  [1, 'b']") == [1, "b"]
        except (SystemError, AssertionError) as error:
            failures.append(error)

    thresholds = gc.get_threshold()
    gc.callbacks.append(switch_threads)
    gc.set_threshold(200)
    try:
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(switch_threads)
    assert failures == []
