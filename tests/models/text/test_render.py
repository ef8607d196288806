"""Chats: rendered as by lm-evaluation-harness; its silent change of a chat is reported."""

from typing import Any

import pytest

from assaymark.errors import UsageError
from assaymark.models.text.render import ChatRenderer
from assaymark.records import ImagePart, Message, TextPart
from tests.models.text.tokenizers_for_tests import load

pytest.importorskip("transformers")
PLAIN = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if thinking %}<think>{% endif %}{% endif %}"
)
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + PLAIN


def chat(*pairs: tuple[Any, str]) -> list[Message]:
    """Return messages from (role, text)."""
    return [Message(role, (TextPart(text),)) for role, text in pairs]


def with_template(template: Any) -> Any:
    """Return a tokenizer with a chat template."""
    tokenizer = load("gpt2")
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.oracle
@pytest.mark.parametrize("template", [PLAIN, NO_SYSTEM])
@pytest.mark.parametrize("continue_final", [False, True])
@pytest.mark.parametrize("variables", [{}, {"thinking": True}])
def test_texts_equal_lm_evals(template: str, continue_final: bool, variables: dict[str, Any]) -> None:
    """The text equals what lm-eval's own model class renders, also for a refused system message."""
    huggingface = pytest.importorskip("lm_eval.models.huggingface")
    model = huggingface.HFLM.__new__(huggingface.HFLM)
    model.tokenizer, model.chat_template_args = with_template(template), variables
    messages = chat(("system", "be brief"), ("user", "hi"), ("assistant", "oh"), ("user", "why?"))
    messages += chat(("assistant", "because")) if continue_final else []
    history = [{"role": m.role, "content": m.text} for m in messages]
    renderer = ChatRenderer(model.tokenizer, variables)
    expected = model.apply_chat_template(history, add_generation_prompt=not continue_final)
    assert renderer.render(messages, continue_final=continue_final) == expected
    assert bool(renderer.notes) == (template is NO_SYSTEM)


def test_a_named_template_is_used() -> None:
    """Of several templates the named one is used; an unknown name lists the known ones."""
    tokenizer = with_template({"default": PLAIN, "short": "{{ messages[-1]['content'] }}"})
    assert ChatRenderer(tokenizer, {}, "short").render(chat(("user", "hi")), continue_final=False) == "hi"
    with pytest.raises(UsageError, match="default, short"):
        ChatRenderer(tokenizer, {}, "long").render(chat(("user", "hi")), continue_final=False)


def test_a_template_that_refuses_every_chat_is_one_clear_line() -> None:
    """If omitting the system message does not help, the template's own message is shown."""
    refusing = with_template("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(UsageError, match="roles must alternate"):
        ChatRenderer(refusing, {}).render(chat(("user", "hi")), continue_final=False)


def test_an_image_is_refused() -> None:
    """Local models accept only text."""
    message = Message("user", (ImagePart("sha", "image/png"),))
    with pytest.raises(UsageError, match="image"):
        ChatRenderer(with_template(PLAIN), {}).render([message], continue_final=False)
