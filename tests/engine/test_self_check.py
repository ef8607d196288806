"""The check of an engine at load."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine import attention, self_check  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from tests.engine.test_architectures import SHAPE, assert_equal_to_reference, branching, tiny_model  # noqa: E402


def test_the_probe_branches_and_scores_every_position() -> None:
    """The probe has four branches, within the model's length and vocabulary, each position a span of its own."""
    probe = self_check.make_probe(50, 64, text_tokens=range(1000))
    ends = self_check.whole_sequences(probe)
    assert len(ends) == 4
    assert max(probe.sequence(i).size for i in ends) <= 64
    assert int(probe.tokens.max()) < 50
    assert probe.n_scored.tolist() == [1] * len(probe)


def test_an_error_in_the_trie_path_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention without its scale is detected and reported, and the plain path scores correctly."""
    real = attention.attend_block

    def faulty(query: Any, key: Any, value: Any, bias: Any, options: attention.AttentionOptions) -> Any:
        return real(query, key, value, bias, {**options, "scaling": 1.3 * (options["scaling"] or 1.0)})

    monkeypatch.setattr(attention, "attend_block", faulty)
    model = tiny_model("llama", SHAPE)
    engine = Engine.load(model)
    assert engine.info.attention == "plain"
    assert "differs from the plain path" in engine.info.why
    assert_equal_to_reference(engine, model, branching())


def test_an_error_in_one_branch_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path cache that is never written, so that later windows read garbage, is detected."""
    monkeypatch.setattr(attention.WindowAttention, "commit", lambda _self: None)
    engine = Engine.load(tiny_model("llama", SHAPE))
    assert engine.info.attention == "plain"


def test_the_caller_may_choose_the_path() -> None:
    """`attention` decides which path runs, and the record states that it was requested."""
    model = tiny_model("llama", SHAPE)
    for path in ("plain", "trie"):
        engine = Engine.load(model, settings=EngineSettings(attention=path))
        assert engine.info.attention == path
        assert engine.info.why.startswith("requested")
        assert_equal_to_reference(engine, model, branching())
        engine.close()
