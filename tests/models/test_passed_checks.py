"""A model that has passed the engine's check is not checked again, and anything that changes repeats the check."""

import json
import platform
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark import settings  # noqa: E402
from assaymark.engine import attention, self_check  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from assaymark.engine.seq2seq import load_engine  # noqa: E402
from assaymark.models.passed_checks import PassedChecks  # noqa: E402
from tests.engine.test_architectures import (  # noqa: E402
    SHAPE,
    assert_equal_to_reference,
    branching,
    tiny_model,
)

CONTENT = "sha256:of-the-weights"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a folder with a small model, which no test changes."""
    folder = str(tmp_path_factory.mktemp("model"))
    tiny_model("llama", SHAPE).save_pretrained(folder)
    return folder


@pytest.fixture
def folder(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the model's folder; the cache folder is this test's own."""
    monkeypatch.setenv("ASSAYMARK_CACHE", str(tmp_path / "cache"))
    return model


@pytest.fixture
def n_checks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each check that is computed."""
    computed: list[int] = []
    real = self_check.check

    def counted(*arguments: Any) -> self_check.CheckResult:
        computed.append(1)
        return real(*arguments)

    monkeypatch.setattr(self_check, "check", counted)
    return computed


def loaded(folder: str, **changes: Any) -> Engine:
    """Return the engine of the folder's model, with passed checks remembered."""
    options = {"dtype": "float32", "content": CONTENT, **changes}
    engine = load_engine(folder, EngineSettings(**options), PassedChecks())
    assert isinstance(engine, Engine)
    return engine


def stored_files() -> list[Path]:
    """Return the files of passed checks."""
    return sorted((settings.cache_folder() / "engine_checks").glob("*"))


def test_a_passed_check_is_not_repeated(folder: str, n_checks: list[int]) -> None:
    """The second load computes no probe, says so, and its scores are those of the plain path."""
    first = loaded(folder).info
    assert (first.attention, len(n_checks)) == ("trie", 1)
    engine = loaded(folder)
    assert len(n_checks) == 1
    assert engine.info.attention == "trie"
    assert engine.info.why == f"{first.why} (an earlier check of this model by this engine)"
    assert_equal_to_reference(engine, engine._open().inner, branching())


def test_what_may_be_padded_is_remembered(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether plain batches may be padded is part of the outcome."""
    monkeypatch.setattr(self_check, "_spread_of_batches", lambda *_: (False, 1.0))
    assert not loaded(folder)._may_batch
    monkeypatch.undo()
    monkeypatch.setenv("ASSAYMARK_CACHE", str(tmp_path / "cache"))
    assert not loaded(folder)._may_batch


@pytest.mark.parametrize(
    "changes",
    [
        {"content": "sha256:of-other-weights"},
        {"dtype": "bfloat16"},
        {"numerics": "model-dtype"},
        {"window_tokens": 32},
        {"max_length": 4096},
        {"model_kwargs": {"attn_implementation": "eager"}},
        {"model_kwargs": {"rms_norm_eps": 1e-3}},
    ],
    ids=str,
)
def test_another_model_or_setting_is_checked(folder: str, n_checks: list[int], changes: dict[str, Any]) -> None:
    """A setting on which the outcome may depend repeats the check."""
    loaded(folder)
    loaded(folder, **changes)
    assert len(n_checks) == 2


@pytest.mark.parametrize("what", ["torch", "engine", "python", "threads"])
def test_another_version_is_checked(
    folder: str, n_checks: list[int], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other libraries, another version of the engine, and another number of threads repeat the check."""
    loaded(folder)
    if what == "torch":
        monkeypatch.setattr(self_check, "library_versions", lambda: {"torch": "99"})
    elif what == "engine":
        monkeypatch.setattr(self_check, "source_digest", lambda: "0" * 64)
    elif what == "python":
        monkeypatch.setattr(platform, "python_version", lambda: "3.99.0")
    else:
        monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    loaded(folder)
    assert len(n_checks) == 2


@pytest.mark.parametrize("content", ["not known", "own code", "loaded object"])
def test_what_is_not_known_by_its_content_is_always_checked(folder: str, n_checks: list[int], content: str) -> None:
    """Models without a content hash, with a repository's own code, or of the caller leave no file."""
    for _ in range(2):
        if content == "not known":
            loaded(folder, content=None)
        elif content == "own code":
            loaded(folder, trust_remote_code=True)
        else:
            Engine.load(tiny_model("llama", SHAPE), settings=EngineSettings(content=CONTENT), checks=PassedChecks())
    assert len(n_checks) == 2
    assert not stored_files()


def test_a_failed_check_is_repeated(folder: str, n_checks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only passed checks are stored: a faulty trie path stays on the plain path, and is checked each time."""
    monkeypatch.setattr(attention.WindowAttention, "commit", lambda _self: None)
    for _ in range(2):
        assert loaded(folder).info.attention == "plain"
    assert len(n_checks) == 2
    assert not stored_files()


def damaged(content: str, how: str) -> str:
    """Return a file's content with a fault."""
    stored = json.loads(content)
    if how == "truncated":
        return content[: len(content) // 2]
    if how == "flipped":
        return content.replace('"may_batch": true', '"may_batch": false')
    if how == "of another version":
        return json.dumps({**stored, "format": 2})
    if how == "of other facts":
        return json.dumps({**stored, "facts": {**stored["facts"], "content": "another"}})
    if how == "not a mapping":
        return "[1]"
    if how == "nested":
        return "[" * 30_000 + "]" * 30_000
    return content + " " * 100_000


@pytest.mark.parametrize(
    "how", ["truncated", "flipped", "of another version", "of other facts", "not a mapping", "nested", "too long"]
)
def test_a_damaged_file_is_not_believed(folder: str, n_checks: list[int], how: str) -> None:
    """The check is repeated, and a whole file replaces the damaged one."""
    loaded(folder)
    (file,) = stored_files()
    content = file.read_text()
    file.write_text(damaged(content, how))
    loaded(folder)
    assert len(n_checks) == 2
    assert file.read_text() == content
    loaded(folder)
    assert len(n_checks) == 2


def test_a_file_of_wrong_types_with_a_right_digest_is_not_believed(folder: str) -> None:
    """A file that another version wrote with other types under the same format is refused."""
    from assaymark.records import content_hash

    loaded(folder)
    (file,) = stored_files()
    stored = json.loads(file.read_text())
    facts = stored["facts"]
    assert PassedChecks().find(facts) is not None
    for wrong in ({"may_batch": 1}, {"why": None}, {"why": "x" * 2_000}):
        content = {**{key: value for key, value in stored.items() if key != "digest"}, **wrong}
        file.write_text(json.dumps({**content, "digest": content_hash(content)}))
        assert PassedChecks().find(facts) is None


def test_a_folder_that_cannot_be_written_is_no_error(
    folder: str, n_checks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a cache folder, each load checks."""
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("ASSAYMARK_CACHE", str(blocked))
    for _ in range(2):
        assert loaded(folder).info.attention == "trie"
    assert len(n_checks) == 2
