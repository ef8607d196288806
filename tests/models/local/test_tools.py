"""Tools reach a local model through its chat template; one that ignores them is refused with one line."""

import json
import shutil
from pathlib import Path

import pytest

from assaymark.errors import UsageError
from assaymark.models.create import create_model
from assaymark.records import Message, TextPart
from assaymark.records.json_values import object_of
from assaymark.runs.demo import demo_model
from assaymark.runs.evaluate import evaluate

pytest.importorskip("torch")
HERMES = """{{ bos_token }}{% if tools %}<|system|>
<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools><|end|>
{% endif %}{% for message in messages %}<|{{ message.role }}|>
{{ message.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
REFUSING = HERMES.replace("{% if tools %}", "{% if tools %}{{ raise_exception('one tool only') }}")
QUESTION = (Message("user", (TextPart("Weather in Oslo?"),)),)
DECLARED = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
TOOLS = json.dumps([{"type": "function", "function": DECLARED}])


def with_template(folder: Path, template: str | dict[str, str]) -> Path:
    """Return a copy of the small demo model with another chat template; several have names."""
    shutil.copytree(demo_model("small"), folder)
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    named = (
        [{"name": name, "template": text} for name, text in template.items()] if isinstance(template, dict) else None
    )
    path.write_text(json.dumps({**config, "chat_template": named or template}))
    return folder


def rendered(folder: Path, tools: str | None = TOOLS) -> str:
    """Return the question as the model of a folder reads it."""
    return create_model("hf", {"pretrained": str(folder), "device": "cpu"}).render(QUESTION, tools=tools)


def test_the_template_gets_the_tools(tmp_path: Path) -> None:
    """What it makes of them is in the prompt; without tools the text is as before."""
    folder = with_template(tmp_path / "model", HERMES)
    assert f"<tools>{json.dumps(json.loads(TOOLS)[0])}</tools>" in rendered(folder)
    assert "<tools>" not in rendered(folder, None)


def test_a_template_named_tool_use_is_taken(tmp_path: Path) -> None:
    """As transformers does where a tokenizer has several (Command R, Hermes 2 Pro)."""
    plain = HERMES.replace("{% if tools %}", "{% if false %}")
    folder = with_template(tmp_path / "model", {"default": plain, "tool_use": HERMES})
    assert "<tools>" in rendered(folder)
    assert "<tools>" not in rendered(folder, None)


def test_a_template_that_ignores_tools_is_refused() -> None:
    """Otherwise the model would be asked to call what it was never told of."""
    with pytest.raises(UsageError, match=r"the chat template of .*small ignores tools; use a model whose template"):
        rendered(demo_model("small"))


def test_a_template_that_refuses_the_tools_says_so(tmp_path: Path) -> None:
    """Its own words are in the message."""
    with pytest.raises(UsageError, match="refuses this chat: one tool only"):
        rendered(with_template(tmp_path / "model", REFUSING))


def test_a_run_stores_prompts_with_tools(tmp_path: Path) -> None:
    """From a file of questions to scores with reasons: the whole way of a local model."""
    folder = with_template(tmp_path / "model", HERMES)
    rows = tmp_path / "asked.jsonl"
    calls = [{"name": "weather", "arguments": {"city": "Oslo"}}]
    lines = [{"question": "Weather in Oslo?", "tools": [DECLARED], "calls": calls},
             {"question": "Hello!", "tools": [DECLARED], "calls": []}]  # fmt: skip
    rows.write_text("\n".join(map(json.dumps, lines)))
    arguments = {"pretrained": str(folder), "device": "cpu"}
    run = evaluate("hf", [str(rows)], model_args=arguments, gen_kwargs={"max_gen_toks": 4})
    first, second = run.samples("asked")
    assert f"<tools>{json.dumps(json.loads(TOOLS)[0])}</tools>" in first.request.prompt
    assert first.request.prompt.endswith("Weather in Oslo?<|end|>\n<|assistant|>\n")
    assert [first.scores[0].value, second.scores[0].value] == [0.0, 1.0]
    assert object_of(first.scores[0].detail, "detail")["reason"] in ("no_call", "not_parsed")
