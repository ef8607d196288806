"""Chat templates end soon, with a text or one error; ordinary ones give what transformers gives."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import UsageError
from assaymark.limits import templates
from assaymark.models.text.render import ChatRenderer
from assaymark.records import Message, TextPart
from tests.models.text.tokenizers_for_tests import load

pytest.importorskip("transformers")
CHAT = [Message("system", (TextPart("be brief"),)), Message("user", (TextPart("hi\n there "),)),
        Message("assistant", (TextPart("oh"),)), Message("user", (TextPart("why?"),))]  # fmt: skip
LLAMA = """{{- bos_token }}{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}
{%- set messages = messages[1:] %}{%- else %}{%- set system_message = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}{{- "<|eot_id|>" }}{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"""
MISTRAL = """{%- if messages[0]["role"] == "system" %}{%- set system_message = messages[0]["content"] %}
{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- set ns = namespace(index=0) %}{%- for message in loop_messages %}
{%- if (message["role"] == "user") != (ns.index % 2 == 0) %}{{- raise_exception("roles must alternate") }}{%- endif %}
{%- set ns.index = ns.index + 1 %}{%- if message["role"] == "user" %}
{%- if loop.last and system_message is defined %}{{- "[INST] " + system_message + "\\n\\n" }}
{{- message["content"] + "[/INST]" }}
{%- else %}{{- "[INST] " + message["content"] + "[/INST]" }}{%- endif %}{%- continue %}{%- endif %}
{%- generation %}{{ " " ~ message["content"] | trim ~ eos_token }}{%- endgeneration %}{%- endfor %}"""
THINKING = """{%- for message in messages[::-1] %}
{%- set index = (messages|length - 1) - loop.index0 %}
{{- index ~ ':' ~ message.content.split('</think>')[-1].lstrip('\\n') }}
{%- if message.tool_calls %}{{ message | tojson }}
{%- endif %}{%- endfor %}{{ messages[0] | tojson(indent=2) }}{{ strftime_now("%Y") | length }}"""


def renderer(template: str) -> ChatRenderer:
    """Return the renderer of a tokenizer with this template."""
    tokenizer = load("gpt2")
    tokenizer.chat_template = template
    return ChatRenderer(tokenizer, {})


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (
            "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
            "exceeds a limit: its loops",
        ),
        ("{% set s = 'x' %}" + "{% set s = s ~ s %}" * 40 + "{{ s }}", "exceeds a limit: a value would have"),
        ("{{ 'x' * 10 ** 10 }}", "exceeds a limit: a value would have"),
        ("{{ 'x' | center(4000000000) }}", "exceeds a limit: a value would have"),
        ("{{ 'x'.center(4000000000) }}", "exceeds a limit: a value would have"),
        ("{{ strftime_now('%255d' * 400000) }}", "exceeds a limit: a value would have 512,000,000"),
        ("{{ lipsum(3000000) }}", "exceeds a limit: generate_lorem_ipsum"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "exceeds a limit: .*recursion"),
        ("a\n{{ 1/0 }}", "line 2, cannot be rendered: division by zero"),
        ("{{ messages + 1 }}", "line 1, cannot be rendered: can only concatenate list"),
        ("{% include 'other' %}", "cannot be rendered: no loader"),
        ("{{ messages[9].content }}", "line 1, refuses this chat: .*no element 9"),
        ("a\n\n{% for %}", "line 3, does not compile"),
        ("{{ " + "(" * 5000 + ")" * 5000, "exceeds a limit: it is nested too deep"),
        ("{{ raise_exception('never') }}", "refuses this chat: never"),
    ],
)
def test_a_hostile_template_is_one_error(template: str, message: str) -> None:
    """A chat template that would not end, or cannot be computed, gives one line with the tokenizer and the position."""
    started = time.process_time()
    with pytest.raises(UsageError, match=f"the chat template of .*{message}") as caught:
        renderer(template).render(CHAT, continue_final=False)
    assert len(str(caught.value).splitlines()) == 1
    assert time.process_time() - started < 3 * templates.MAX_SECONDS


def test_a_hostile_template_ends_on_another_thread() -> None:
    """The limits need no signal, so they also work where prompts are rendered ahead."""
    errors: list[str] = []

    def render() -> None:
        try:
            renderer("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}").render(
                CHAT, continue_final=False
            )
        except UsageError as error:
            errors.append(str(error))

    thread = threading.Thread(target=render)
    thread.start()
    thread.join(60)
    assert "exceeds a limit" in errors[0]


def expected(tokenizer: Any, *, continue_final: bool) -> str:
    """Return what transformers renders by itself."""
    chat = [{"role": message.role, "content": message.text} for message in CHAT]
    text = tokenizer.apply_chat_template(
        chat, tokenize=False, add_generation_prompt=not continue_final, continue_final_message=continue_final
    )
    return str(text)


@pytest.mark.parametrize("template", [LLAMA, MISTRAL, THINKING])
@pytest.mark.parametrize("continue_final", [False, True])
def test_ordinary_templates_give_what_transformers_gives(template: str, continue_final: bool) -> None:
    """Templates like those of Llama, Mistral and Qwen give the same bytes, and transformers is unchanged."""
    from transformers.utils import chat_template_utils

    before = chat_template_utils._compile_jinja_template
    ours = renderer(template)
    assert ours.render(CHAT, continue_final=continue_final) == expected(ours._tokenizer, continue_final=continue_final)
    assert chat_template_utils._compile_jinja_template is before


def test_templates_of_real_models_give_what_transformers_gives(shared_dir: Path) -> None:
    """Every chat template in a folder of models beside the repository gives the same bytes."""
    from transformers import AutoTokenizer

    n_compared = 0
    for folder in sorted((shared_dir / "models").iterdir()):
        if not (folder / "tokenizer_config.json").is_file():
            continue
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
        if isinstance(tokenizer.chat_template, str):
            ours = ChatRenderer(tokenizer, {}).render(CHAT, continue_final=False)
            assert ours == expected(tokenizer, continue_final=False)
            n_compared += 1
    if not n_compared:
        pytest.skip("no model beside the repository has a chat template")
