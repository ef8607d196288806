"""Creating models: every name that lm-evaluation-harness knows is handled."""

import pytest

from assaymark.errors import UnknownName, UsageError
from assaymark.models.create import ELSEWHERE, MODELS, create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.models.server.openai_compatible import OpenAIModel


@pytest.mark.parametrize("name", ["hf", "huggingface", "hf-auto", "hf-causal", "hf-causal-experimental"])
def test_every_name_of_a_local_model_creates_one(name: str) -> None:
    """Old and new names give the same kind; nothing is looked up before the model is used."""
    model = create_model(name, "pretrained=some/model,use_accelerate=True,revision=main")
    assert isinstance(model, LocalModel)
    assert model.arguments.pretrained == "some/model"


@pytest.mark.parametrize("end", ["completions", "chat-completions"])
@pytest.mark.parametrize("prefix", ["local", "openai"])
def test_every_name_of_a_server_creates_a_model(prefix: str, end: str) -> None:
    """lm-eval's four kinds of OpenAI-compatible models are supported; nothing is sent before they are used."""
    model = create_model(f"{prefix}-{end}", "model=m,base_url=http://127.0.0.1:9,num_concurrent=8,tokenizer=t")
    assert isinstance(model, OpenAIModel)
    assert (model.arguments.kind, model.arguments.num_concurrent) == (f"{prefix}-{end}", 8)
    assert model.takes_messages == (end == "chat-completions")


def test_the_callers_arguments_take_precedence_over_a_profiles() -> None:
    """Overrides fill only what the arguments leave unset."""
    model = create_model("hf", "pretrained=x,add_bos_token=True", add_bos_token=False, dtype="float32", device=None)
    assert isinstance(model, LocalModel)
    assert (model.arguments.add_bos_token, model.arguments.dtype, model.arguments.device) == (True, "float32", "auto")


@pytest.mark.oracle
def test_every_model_name_of_lm_eval_is_handled() -> None:
    """A name that only lm-eval has is refused with what to use instead."""
    registry = pytest.importorskip("lm_eval.api.registry")
    pytest.importorskip("lm_eval.models")
    ours = {"assaymark"}  # registered if another test has added our engine to lm-eval
    for name in set(registry.model_registry) - ours:
        assert name in MODELS.places() or name in ELSEWHERE, name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sglang", "--model hf"),
        ("anthropic-chat", "OpenAI-compatible interface: --model local-chat-completions"),
        ("hugingface", "huggingface"),
        ("gpt2/x", "pretrained="),
    ],
)
def test_unknown_names_are_refused_with_a_remedy(name: str, message: str) -> None:
    """An unknown kind of model states the remedy."""
    with pytest.raises(UnknownName, match=message):
        create_model(name, None)


def test_every_kind_says_what_it_is_for() -> None:
    """`ls models` has a line on the purpose of each kind of the package."""
    own = [place for place in MODELS.places().values() if place.target.startswith("assaymark.")]
    assert len(own) >= 13
    assert all(len(place.summary) > 15 for place in own)


@pytest.mark.parametrize("name", ["batch_size", "max_batch_size"])
@pytest.mark.parametrize("value", ["zero", "-4", "0", "2.5", "auto:x", "foo"])
def test_batch_sizes_that_are_none_are_refused(name: str, value: str) -> None:
    """A batch size has no effect, but nonsense is a mistake; lm-eval's forms are accepted."""
    with pytest.raises(UsageError, match=rf"{name} is '?{value}'?; expected a number from 1"):
        create_model("fake", f"{name}={value}")
    for valid in ("8", "auto", "auto:4"):
        create_model("fake", {"batch_size": valid})
