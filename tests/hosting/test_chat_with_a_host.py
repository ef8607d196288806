"""`assaymark chat` with hosts: streaming over HTTP, two models, history on both sides."""

import os
import subprocess
import sys

import pytest

from assaymark.errors import ModelError
from assaymark.hosting.chat import ChatSettings, Conversation, open_chat_model
from assaymark.models.model import Model
from assaymark.prompts.presets import PromptPreset
from assaymark.records import GenerationSettings
from assaymark.tasks.prompt_presets import find_preset
from tests.hosting.running import MODEL, local_model

SETTINGS = ChatSettings("Be brief.", None, GenerationSettings(max_tokens=12))


def test_a_host_and_the_model_itself_answer_alike(url: str) -> None:
    """Through a host and in this process, a greedy conversation of two turns is the same."""
    models: list[Model] = [open_chat_model(url), local_model(add_bos_token=False)]
    sides = [Conversation(model, SETTINGS) for model in models]
    for question in ("Where is the road?", "Who took the rope?"):
        texts = ["".join(side.answer(question)) for side in sides]
        assert texts[0] == texts[1]
    assert sides[0].messages == sides[1].messages
    assert len(sides[0].messages) == 4
    assert sides[0].prompt(sides[0].messages) is None
    assert sides[0].undo()
    assert len(sides[0].messages) == 2


def test_a_failed_answer_leaves_the_history_alone(url: str) -> None:
    """After an error neither question nor half an answer is in the history; a stopped answer is."""
    side = Conversation(open_chat_model("other", url), SETTINGS)
    with pytest.raises(ModelError, match="no model 'other'"):
        list(side.answer("Hi"))
    assert side.messages == []
    stopped = Conversation(local_model(), ChatSettings(generation=GenerationSettings(max_tokens=200)))
    pieces = stopped.answer("Tell me about the road and the door")
    first = next(pieces, None)
    pieces.close()  # type: ignore[attr-defined]
    assert first is None or stopped.messages[1].text == first.strip()
    assert len(stopped.messages) == 2


def test_presets_replace_the_template() -> None:
    """With a preset the prompt is the published format, and its end texts end an answer."""
    preset = find_preset("chatml")
    assert isinstance(preset, PromptPreset)
    side = Conversation(local_model(), ChatSettings("Short.", preset, GenerationSettings(max_tokens=3)))
    list(side.answer("Hi"))
    prompt = side.prompt(side.with_system(side.messages[:1]))
    assert prompt is not None
    assert prompt.startswith("<|im_start|>system\nShort.<|im_end|>")


@pytest.mark.slow
def test_two_models_answer_side_by_side_through_a_pipe(url: str) -> None:
    """Both models answer each question, each under its name."""
    command = [sys.executable, "-m", "assaymark", "chat", str(MODEL), "--with", url, "--max_tokens", "8"]
    environment = {**os.environ, "ASSAYMARK_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        check=False,
        input="Where is the road?\n/template\n",
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[small]") == 4
    assert "the server applies its own template" in done.stdout
