"""Borrowing and returning a model: nested, interleaved, interrupted, and with buffers that a pass rewrites."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine import loans  # noqa: E402
from assaymark.engine.engine import Engine  # noqa: E402
from assaymark.engine.loans import on_loan  # noqa: E402
from assaymark.engine.options import EngineSettings  # noqa: E402
from tests.engine.test_architectures import SHAPE, branching, tiny_model  # noqa: E402

DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}


def changed() -> Any:
    """Return a small model in training mode."""
    return tiny_model("llama", SHAPE).train()


def test_the_last_use_restores_the_model() -> None:
    """Of uses that overlap in any order, the last one to end restores the state before the first."""
    model = changed()
    first, second = on_loan(model), on_loan(model)
    with first:
        model.eval()
        second.__enter__()
    assert not model.training
    second.__exit__(None, None, None)
    assert model.training


def test_a_use_of_the_whole_ends_unfinished_generators() -> None:
    """A generator that an exception's traceback keeps alive does not hold the model, then or later."""
    model = changed()
    engine = Engine.load(model)
    with on_loan(model, is_whole=True):
        unfinished: Any = engine.score(branching())
        next(unfinished)
        assert not model.training
    assert model.training
    assert all("forward" not in module.__dict__ for module in model.modules())
    model.eval()
    unfinished.close()
    assert not model.training


def test_an_unfinished_generator_leaves_gradients_alone() -> None:
    """While scoring pauses between two results, a training step on the same model has all its gradients."""
    model, other = changed(), changed()
    ids = torch.arange(3, 40)[None]
    unfinished = Engine.load(model).score(branching())
    next(unfinished)
    for each in (model, other):
        each(input_ids=ids, labels=ids).loss.backward()
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours.grad, theirs.grad)


@pytest.mark.parametrize("rope", [{"rope_type": "default", "rope_theta": 10000.0}, DYNAMIC])
def test_buffers_that_a_pass_rewrites_are_restored(rope: dict[str, Any]) -> None:
    """After an evaluation of inputs beyond the positions, training continues with identical buffers."""
    shape = SHAPE | {"max_position_embeddings": 50, "rope_parameters": rope}
    ids = torch.arange(3, 80)[None]
    ends = []
    for evaluates in (False, True):
        model = tiny_model("llama", copy.deepcopy(shape)).train()
        model(input_ids=ids, labels=ids).loss.backward()
        before = {name: (id(buffer), buffer.tolist()) for name, buffer in model.named_buffers()}
        if evaluates:
            list(Engine.load(model, settings=EngineSettings(max_length=200)).score(branching(8, 120)))
        assert {name: (id(buffer), buffer.tolist()) for name, buffer in model.named_buffers()} == before
        model(input_ids=ids, labels=ids).loss.backward()
        ends.append([parameter.grad.clone() for parameter in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_a_buffer_changed_in_place_is_restored() -> None:
    """Small buffers are restored by content, too."""
    model = changed()
    buffer = model.model.rotary_emb.inv_freq
    before = buffer.tolist()
    with on_loan(model), torch.inference_mode():
        buffer.mul_(2.0)
    assert buffer.tolist() == before


def test_a_second_ctrl_c_does_not_leave_a_half_restored_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt during the restoring itself is raised after everything was restored."""
    model = changed()
    real, calls = loans._ModuleState.restore, iter(range(1000))

    def interrupted(state: Any) -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        real(state)

    monkeypatch.setattr(loans._ModuleState, "restore", interrupted)
    with pytest.raises(KeyboardInterrupt), on_loan(model):
        model.eval()
    assert all(module.training for module in model.modules())
