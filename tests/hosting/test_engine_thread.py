"""One thread loads a model and runs it."""

import threading

import pytest

from assaymark.engine.engine import Engine
from assaymark.engine.open_batch import OpenBatch, StepResult
from assaymark.hosting.app import HostSettings
from assaymark.hosting.hosted_model import EngineThread
from tests.hosting.running import NAME, hosting, local_model, post


def test_the_thread_that_decodes_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No second pool of OpenMP's workers is made, which would slow every small product down."""
    seen: dict[str, int] = {}
    make, step = Engine.__init__, OpenBatch.step

    def loading(engine: Engine, *given: object, **named: object) -> None:
        seen["loads"] = threading.get_ident()
        make(engine, *given, **named)  # type: ignore[arg-type]

    def stepping(batch: OpenBatch) -> StepResult:
        seen["decodes"] = threading.get_ident()
        return step(batch)

    monkeypatch.setattr(Engine, "__init__", loading)
    monkeypatch.setattr(OpenBatch, "step", stepping)
    with hosting(local_model(), HostSettings()) as url:
        assert post(url, "/completions", model=NAME, prompt="The", max_tokens=2).status_code == 200
    assert seen["loads"] == seen["decodes"] != threading.get_ident()


def test_what_fails_on_the_thread_fails_where_it_was_asked() -> None:
    """The thread goes on with the next function."""
    thread = EngineThread()

    def fail() -> None:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        thread.call(fail)
    assert thread.call(threading.get_ident) != threading.get_ident()
    thread.close(1.0)
