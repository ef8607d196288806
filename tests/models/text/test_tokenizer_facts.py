"""The description of a tokenizer equals lm-eval's in its results files."""

from typing import Any

import pytest

from assaymark.models.text.tokenizer import tokenizer_facts
from assaymark.runs.demo import demo_model

transformers = pytest.importorskip("transformers")


@pytest.fixture
def tokenizer() -> Any:
    """Return a real tokenizer."""
    return transformers.AutoTokenizer.from_pretrained(demo_model("small"))


@pytest.mark.parametrize("lacking", [(), ("pad",), ("pad", "unk"), ("pad", "unk", "eos", "bos")])
def test_special_tokens_equal_lm_evals(tokenizer: Any, lacking: tuple[str, ...]) -> None:
    """Token and number as text, padding chosen in lm-eval's order; equal to lm-eval's own function."""
    pytest.importorskip("lm_eval")
    from types import SimpleNamespace

    from lm_eval.loggers.utils import add_tokenizer_info
    from lm_eval.models.utils import configure_pad_token

    for name in lacking:
        setattr(tokenizer, f"{name}_token", None)
    ours = tokenizer_facts(tokenizer)
    theirs: dict[str, Any] = {}
    padded = configure_pad_token(tokenizer)
    add_tokenizer_info(theirs, SimpleNamespace(tokenizer=padded, eot_token_id=padded.eos_token_id, max_length=1))
    del theirs["max_length"]
    assert {key: value for key, value in ours.items() if key != "chat_template"} == theirs


def test_the_chat_template_is_the_one_in_use(tokenizer: Any) -> None:
    """A single template is itself, of several it is the named one or the default; without any it is omitted."""
    tokenizer.chat_template = "{{ messages }}"
    assert tokenizer_facts(tokenizer)["chat_template"] == "{{ messages }}"
    tokenizer.chat_template = {"default": "a", "rag": "b"}
    assert tokenizer_facts(tokenizer)["chat_template"] == "a"
    assert tokenizer_facts(tokenizer, "rag")["chat_template"] == "b"
    tokenizer.chat_template = None
    assert "chat_template" not in tokenizer_facts(tokenizer)
