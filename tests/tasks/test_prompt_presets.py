"""Presets and system prompts found by name or file, and runs that use them."""

import json
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.models.fake import FakeModel
from assaymark.records import PresetPlan
from assaymark.runs.comparison import compare_runs
from assaymark.runs.reproduce import reproduce
from assaymark.tasks.prompt_presets import (
    find_preset,
    find_system_prompt,
    preset_from,
    preset_names,
    system_prompts,
)

OWN = 'name: own\nsystem: ["S:", ";"]\nuser: ["Q:", ";"]\nassistant: ["A: ", ";"]\nopening: "A:"\nstop: [";"]\n'


def test_unknown_names_get_the_nearest() -> None:
    """The error about a misspelt name lists the nearest ones."""
    with pytest.raises(UnknownName, match="nearest: llama-2"):
        find_preset("lama-2")
    with pytest.raises(UnknownName, match="nearest: helpful"):
        find_system_prompt("helpfull")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OWN.replace("opening", "openning"), "unknown key 'openning'; nearest: opening"),
        (OWN.replace("name: own\n", ""), "'name' is missing"),
        (OWN.replace('["Q:", ";"]', '"Q:"'), "user is 'Q:'; expected two texts"),
        (OWN.replace('system: ["S:", ";"]\n', ""), "neither system nor system_in_user"),
        ("just a text", "contains str; expected keys and values"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    """The error about a faulty preset names file and key."""
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        find_preset(str(path))


def test_a_preset_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """For bytes that are no UTF-8 and YAML nested too deeply, the error is one line that names the file."""
    for name, content in (("latin.yaml", "name: größer".encode("latin-1")), ("deep.yaml", 3000 * b"{a: ")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=f"{name} cannot be read"):
            find_preset(str(tmp_path / name))


def test_a_preset_formats_the_prompt_and_stops_the_answer(tmp_path: Path) -> None:
    """Shots become turns, the delimiter is the preset's, and its end-of-turn text stops generation."""
    path = tmp_path / "own.yaml"
    path.write_text(OWN)
    run = assaymark.evaluate(FakeModel(), "demo_yesno", limit=1, num_fewshot=1, prompt_preset=str(path))
    request = run.samples("demo_yesno")[0].request
    assert request.prompt.startswith("Q:")
    assert request.prompt.endswith(";A:")
    assert request.prompt.count("Q:") == 2
    assert {query.continuation[0] for query in request.queries} == {" "}  # type: ignore[union-attr]


def test_preset_and_template_hash_are_part_of_the_run() -> None:
    """Another preset is another run, and the plan, the heading and a comparison name it; `none` is the default."""
    runs = [assaymark.evaluate(FakeModel(), "demo_yesno", limit=8, prompt_preset=name) for name in ("none", "chatml")]
    plain = assaymark.evaluate(FakeModel(), "demo_yesno", limit=8)
    assert plain.id == runs[0].id != runs[1].id
    preset = find_preset("chatml")
    assert preset is not None
    assert runs[1].row.plan.prompt_preset == PresetPlan("chatml", preset.template_hash, preset.spec)
    assert "prompt preset chatml (" in " ".join(str(runs[1]).split())
    set_up = compare_runs(runs).pairs[0].set_up
    assert any(line.startswith("prompt preset: none in") and "chatml (" in line for line in set_up)


def test_a_run_with_a_preset_is_reproduced() -> None:
    """The stored plan recreates the same prompts."""
    run = assaymark.evaluate(FakeModel(), "demo_yesno", limit=4, prompt_preset="zephyr", system_prompt="helpful")
    assert run.row.plan.system_instruction == system_prompts()["helpful"]
    assert "system prompt helpful" in " ".join(str(run).split())
    assert reproduce(run).is_reproduced


def test_a_run_with_a_preset_and_a_system_text_of_files_is_reproduced_without_them(tmp_path: Path) -> None:
    """The run stores the files' content, so that they are not needed again; other content is another run."""
    preset, system = tmp_path / "own.yaml", tmp_path / "brief.txt"
    preset.write_text(OWN)
    system.write_text("Be brief.\n")
    options: dict[str, Any] = {"limit": 4, "prompt_preset": str(preset), "system_prompt": str(system)}
    run = assaymark.evaluate(FakeModel(), "demo_yesno", **options)
    assert run.row.plan.system_instruction == "Be brief."
    preset.write_text(OWN.replace("Q:", "Question:"))
    assert assaymark.evaluate(FakeModel(), "demo_yesno", **options).id != run.id
    preset.unlink()
    system.unlink()
    result = reproduce(run)
    assert result.is_reproduced
    assert result.plan == ()


@pytest.mark.parametrize("name", preset_names()[1:])
def test_a_stored_preset_is_the_preset(name: str) -> None:
    """The stored content of a preset recreates the same preset, through JSON."""
    preset = find_preset(name)
    assert preset is not None
    assert preset_from(json.loads(json.dumps(preset.spec)), "a run") == preset


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read: .*No such"), (b"\n", "is empty"), (b"gr\xf6\xdfer", "cannot be")],
)
def test_a_faulty_system_prompt_file_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    """For a file that is absent, empty or no UTF-8, the error is one line that names it."""
    path = tmp_path / "system.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=rf"system.txt .*{message}"):
        find_system_prompt(str(path))


def test_two_prompt_formats_exclude_each_other() -> None:
    """A preset with the model's template, or a named system prompt with a text, is refused."""
    with pytest.raises(UsageError, match="both set the prompt's format"):
        assaymark.evaluate(FakeModel(), "demo_yesno", prompt_preset="chatml", apply_chat_template=True)
    with pytest.raises(UsageError, match="both give the system text"):
        assaymark.evaluate(FakeModel(), "demo_yesno", system_prompt="helpful", system_instruction="Be brief.")
