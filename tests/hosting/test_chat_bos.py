"""BOS at the beginning of a chat: by the template alone, or as a run with --apply_chat_template adds it."""

import json
import shutil
from pathlib import Path

import httpx
import pytest

from assaymark.hosting.app import HostSettings
from assaymark.models.create import create_model
from assaymark.models.local.local_model import LocalModel
from assaymark.records import GenerateQuery, GenerationSettings, Message, Request, TextPart
from tests.hosting.running import MODEL, hosting

QUESTION = "Where is the red lamp?"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the demo model with a tokenizer that adds BOS, under a template that does not write it."""
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    content = json.loads((folder / "tokenizer.json").read_text())
    bos = json.loads((folder / "tokenizer_config.json").read_text()).get("bos_token") or "<|endoftext|>"
    bos = bos["content"] if isinstance(bos, dict) else bos
    number = next(each["id"] for each in content["added_tokens"] if each["content"] == bos)
    piece = {"SpecialToken": {"id": bos, "type_id": 0}}
    content["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [piece, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [piece, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {bos: {"id": bos, "ids": [number], "tokens": [bos]}},
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    (folder / "chat_template.jinja").write_text(template)
    return folder


def opened(folder: Path) -> LocalModel:
    """Return the model of a folder, in float32."""
    model = create_model("hf", {"pretrained": str(folder), "dtype": "float32", "device": "cpu"})
    assert isinstance(model, LocalModel)
    return model


def test_chat_bos_makes_a_hosts_chat_that_of_a_run(folder: Path) -> None:
    """With the option a chat has the tokens and answer that `run --apply_chat_template` has, without it no BOS."""
    model = opened(folder)
    message = Message("user", (TextPart(QUESTION),))
    text = model.render((message,))
    request = Request(
        "t", 0, "sha0", (text,), (GenerateQuery(0, GenerationSettings(max_tokens=8)),), messages=(message,)
    )
    (own,) = model.answer([request])
    model.close()
    body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 8, "temperature": 0}
    results = {}
    for chat_bos in (False, True):
        with hosting(opened(folder), HostSettings(), chat_bos=chat_bos) as url:
            answer = httpx.post(f"{url}/chat/completions", json=body, timeout=60).json()
        results[chat_bos] = (answer["usage"]["prompt_tokens"], answer["choices"][0]["message"]["content"])
    assert results[True] == (own.n_context_tokens, own.text)
    assert results[False][0] == own.n_context_tokens - 1
