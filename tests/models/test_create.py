"""The door to all models: every name lm-evaluation-harness knows is answered."""

import pytest

from evalstone.errors import UnknownName
from evalstone.models.create import ELSEWHERE, MODELS, create_model
from evalstone.models.local.local_model import LocalModel
from evalstone.models.server.openai_compatible import OpenAIModel


@pytest.mark.parametrize("name", ["hf", "huggingface", "hf-auto", "hf-causal", "hf-causal-experimental"])
def test_every_name_of_a_local_model_makes_one(name: str) -> None:
    """Old and new names are the same kind; nothing is looked up before it is used."""
    model = create_model(name, "pretrained=some/model,use_accelerate=True,revision=main")
    assert isinstance(model, LocalModel)
    assert model.arguments.pretrained == "some/model"


@pytest.mark.parametrize("end", ["completions", "chat-completions"])
@pytest.mark.parametrize("place", ["local", "openai"])
def test_every_name_of_a_server_makes_a_model(place: str, end: str) -> None:
    """lm-eval's four kinds of OpenAI-compatible models are ours; nothing is sent before they are used."""
    model = create_model(f"{place}-{end}", "model=m,base_url=http://127.0.0.1:9,num_concurrent=8,tokenizer=t")
    assert isinstance(model, OpenAIModel)
    assert (model.arguments.kind, model.arguments.num_concurrent) == (f"{place}-{end}", 8)
    assert model.takes_messages == (end == "chat-completions")


def test_what_the_caller_wrote_wins_over_what_a_profile_wants() -> None:
    """Overrides fill only what the arguments leave open."""
    model = create_model("hf", "pretrained=x,add_bos_token=True", add_bos_token=False, dtype="float32", device=None)
    assert isinstance(model, LocalModel)
    assert (model.arguments.add_bos_token, model.arguments.dtype, model.arguments.device) == (True, "float32", "auto")


@pytest.mark.oracle
def test_every_model_name_of_lm_eval_is_answered() -> None:
    """A name that only lm-eval has is refused with what serves the same end here."""
    registry = pytest.importorskip("lm_eval.api.registry")
    pytest.importorskip("lm_eval.models")
    ours = {"evalstone"}  # there once another test has put our engine into lm-eval
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
def test_other_names_are_refused_with_a_way_on(name: str, message: str) -> None:
    """An unknown kind of model says what to do."""
    with pytest.raises(UnknownName, match=message):
        create_model(name, None)
