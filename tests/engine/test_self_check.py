"""The check an engine makes of itself at load."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from evalstone.engine import attention, self_check  # noqa: E402
from evalstone.engine.engine import Engine, EngineSettings  # noqa: E402
from tests.engine.test_architectures import SHAPE, assert_equal_to_reference, branching, tiny_model  # noqa: E402


def test_the_probe_branches_and_asks_every_position() -> None:
    """The probe has four branches, within the model's length and vocabulary, each position a span of its own."""
    probe = self_check.make_probe(50, 64, text_tokens=range(1000))
    ends = self_check.whole_sequences(probe)
    assert len(ends) == 4
    assert max(probe.sequence(i).size for i in ends) <= 64
    assert int(probe.tokens.max()) < 50
    assert probe.n_scored.tolist() == [1] * len(probe)


def test_a_fault_in_the_trie_path_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention that forgets its scale is found out, said, and the plain path scores rightly."""
    real = attention.attend_block

    def faulty(query: Any, key: Any, value: Any, bias: Any, options: dict[str, Any]) -> Any:
        return real(query, key, value, bias, {**options, "scaling": 1.3 * options["scaling"]})

    monkeypatch.setattr(attention, "attend_block", faulty)
    model = tiny_model("llama", SHAPE)
    engine = Engine.load(model)
    assert engine.info.attention == "plain"
    assert "differs from the plain path" in engine.info.why
    assert_equal_to_reference(engine, model, branching())


def test_a_fault_in_one_branch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kept path that is never written, so that later windows see garbage, is found out."""
    monkeypatch.setattr(attention.WindowAttention, "commit", lambda _self: None)
    engine = Engine.load(tiny_model("llama", SHAPE))
    assert engine.info.attention == "plain"


def test_the_caller_may_insist() -> None:
    """`attention` says which path runs, and the record says that it was asked for."""
    model = tiny_model("llama", SHAPE)
    for path in ("plain", "trie"):
        engine = Engine.load(model, settings=EngineSettings(attention=path))
        assert engine.info.attention == path
        assert engine.info.why.startswith("asked for")
        assert_equal_to_reference(engine, model, branching())
        engine.close()
