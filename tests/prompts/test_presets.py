"""Published prompt formats: golden renderings (golden_presets.yaml) and properties of presets."""

import re
from pathlib import Path

import pytest
import yaml

from assaymark.errors import UsageError
from assaymark.prompts.presets import PromptPreset
from assaymark.records import Message, TextPart
from assaymark.tasks.prompt_presets import find_preset, preset_names

GOLDEN = yaml.safe_load(Path(__file__).with_name("golden_presets.yaml").read_text(encoding="utf-8"))


def message(role: str, text: str) -> Message:
    """Return one message."""
    return Message(role, (TextPart(text),))  # type: ignore[arg-type]


ALONE = [message("user", "Hi?")]
TALK = [message("system", "Be brief."), *ALONE, message("assistant", "Yes."), message("user", "Why?")]


def preset(name: str) -> PromptPreset:
    """Return a preset of the library."""
    result = find_preset(name)
    assert result is not None
    return result


def test_every_preset_has_a_golden_rendering() -> None:
    """The library's presets are those of the golden file, and `none` is not a preset."""
    assert preset_names() == ["none", *sorted(GOLDEN)]
    assert find_preset("none") is None


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_renderings(name: str) -> None:
    """A question alone, and a conversation with a system text, are rendered as by the source named in `from`."""
    rendered = {"alone": preset(name).render(ALONE), "talk": preset(name).render(TALK)}
    assert rendered == {key: GOLDEN[name][key] for key in rendered}


@pytest.mark.parametrize("name", sorted(GOLDEN.keys() - {"plain"}))
def test_golden_texts_come_from_the_presets_source(name: str) -> None:
    """A preset and its golden text have the same source: a repository at a commit, or a page of the makers."""
    source = re.compile(r"[\w.-]+/[\w.-]+ [0-9a-f]{8}|ai\.google\.dev/\S+/formatting")
    own, golden = source.search(preset(name).source), source.search(GOLDEN[name]["from"])
    assert own is not None
    assert golden is not None
    assert own.group() == golden.group()


@pytest.mark.parametrize("name", GOLDEN)
def test_a_begun_answer_is_left_open(name: str) -> None:
    """With continue_final the text ends inside the last answer, as that answer is rendered in a conversation."""
    begun = preset(name).render([*TALK, message("assistant", "Because")], True)
    closed = preset(name).render([*TALK, message("assistant", "Because"), message("user", "So?")])
    assert begun.endswith("Because")
    assert closed.startswith(begun)


@pytest.mark.parametrize("name", GOLDEN)
def test_an_answer_follows_as_in_a_conversation(name: str) -> None:
    """Opening, delimiter and answer together are the beginning of the answered turn."""
    item = preset(name)
    assert (
        item.render([*ALONE, message("assistant", "Yes.")], True) == item.render(ALONE) + item.answer_delimiter + "Yes."
    )


def test_texts_are_trimmed_if_the_format_requires_it() -> None:
    """Llama 2 strips white space around texts; ChatML does not."""
    assert preset("llama-2").render([message("user", " Hi? ")]) == "[INST] Hi? [/INST]"
    assert " Hi? <|im_end|>" in preset("chatml").render([message("user", " Hi? ")])


def test_hashes_depend_on_the_rendered_text() -> None:
    """Formats that differ have different hashes; ChatML and Qwen differ by the default system text alone."""
    hashes = {preset(name).template_hash for name in GOLDEN}
    assert len(hashes) == len(GOLDEN)
    assert preset("qwen").render(TALK) == preset("chatml").render(TALK)


def test_roles_that_a_format_lacks_are_refused() -> None:
    """A tool's message, or a system text alone in a format without a turn for it, is refused by name."""
    with pytest.raises(UsageError, match="no turn for the role 'tool'; it has"):
        preset("chatml").render([message("tool", "42")])
    with pytest.raises(UsageError, match="prompt preset gemma has no turn for a system text"):
        preset("gemma").render([message("system", "Be brief.")])
