"""Which benchmark for what: every card is placed, names are found, page and command say the same."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import UnknownName
from assaymark.leaderboard.guide import guide, guide_section, words
from assaymark.leaderboard.pages.recommend import guide_page
from assaymark.limits.yaml_documents import load_yaml
from assaymark.records import LoglikelihoodQuery
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import LIBRARY, Catalog
from assaymark.tasks.python_tasks import bind
from tests.leaderboard.made_up_rows import ROWS

NO_CAPABILITY = {"gauntlet", "helm", "wikitext"}  # suites of everything, and perplexity of text


def test_every_card_is_in_the_guide() -> None:
    """But those that measure no single capability."""
    cards = {file.name.removesuffix(".card.yaml") for file in LIBRARY.rglob("*.card.yaml") if "demo" not in file.parts}
    placed = {entry.task for each in guide() for entry in each.entries}
    assert cards - placed == NO_CAPABILITY


def test_each_suggestion_leads_and_can_be_run() -> None:
    """The suggested benchmark is the first of its list, and a task or group of the catalogue."""
    known = {entry.name for entry in Catalog.open().entries()}
    for each in guide():
        suggested = each.capability.suggested
        if suggested:
            assert each.entries[0].task == suggested
            assert suggested in known


def test_advice_names_benchmarks_that_exist() -> None:
    """A name with an underscore or of the library in an advice is one of the catalogue."""
    known = {entry.name for entry in Catalog.open().entries()}
    for each in guide():
        named = {word.strip(".,:;()") for word in each.capability.advice.split() if "_" in word}
        assert named <= known, each.capability.key


def test_precision_is_the_intervals() -> None:
    """Half of Wilson's interval at 50%: 1.96 / (2 sqrt(n + 1.96^2))."""
    entry = next(entry for each in guide() for entry in each.entries if entry.task == "gsm8k")
    assert entry.half_width == pytest.approx(1.959964 / 2 / (1319 + 1.959964**2) ** 0.5, abs=1e-9)


def test_page_and_command_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    """All capabilities as JSON, one by another of its names, and a mistyped one with the nearest."""
    assert main(["guide", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    page = guide_page().to_json()
    assert {each["capability"]: each["benchmarks"] for each in listed} == {
        key: entry["benchmarks"] for key, entry in json.loads(json.dumps(page)).items()
    }
    assert main(["guide", "Math"]) == 0
    assert "gsm8k" in capsys.readouterr().out
    assert guide_section("coding").capability.key == "code"
    with pytest.raises(UnknownName, match="nearest: maths"):
        guide_section("mathss")
    assert main(["guide", "mathss"]) == 2


def test_the_cards_are_read_as_they_are() -> None:
    """A number of samples and the faults are those of the card's file."""
    card = load_yaml(next(LIBRARY.rglob("mmlu.card.yaml")).read_bytes())
    entry = next(entry for entry in guide_section("knowledge").entries if entry.task == "mmlu")
    assert (entry.n_samples, list(entry.known_faults)) == (card["n_samples"], card["known_faults"])


@pytest.mark.parametrize("name", ROWS)
def test_sample_prompts_are_the_tasks_own(name: str, tmp_path: Path) -> None:
    """The text on a card, and what is scored after it, are what the task makes of the row that was made up for it."""
    prompt = next(entry.sample_prompt for each in guide() for entry in each.entries if entry.task == name)
    assert prompt is not None
    task = Catalog.open([], lm_eval=False).select([prompt.task]).tasks[0]
    file = tmp_path / "row.jsonl"
    file.write_text(json.dumps(ROWS[name]), encoding="utf-8")
    used = {task.splits.evaluated, task.splits.training, task.splits.validation, task.splits.test, task.fewshot.split}
    files = ("data_files", {split: str(file) for split in used if split})
    own = replace(task, dataset=replace(task.dataset, path="json", name=None, kwargs=(files,)))
    bound = bind(own, BindOptions(num_fewshot=0, confirm_unsafe_code=True))
    request = bound.request(bound.samples()[0], None)
    assert prompt.text == request.prompt
    assert prompt.scored == tuple(q.continuation for q in request.queries if isinstance(q, LoglikelihoodQuery))


def test_every_benchmark_with_a_sample_prompt_is_checked() -> None:
    """No card has a prompt that the test above does not render."""
    assert {entry.task for each in guide() for entry in each.entries if entry.sample_prompt} == set(ROWS)


def test_published_values_are_shares_with_a_source() -> None:
    """Every value is per cent and names where it is stated."""
    values = [value for each in guide() for entry in each.entries for value in entry.published]
    assert len(values) > 40
    for value in values:
        assert 0 < value.value <= 100
        assert value.source


def test_a_word_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """What a beginner meets, whatever its case, as text and as JSON; a mistyped one names the nearest."""
    assert main(["guide", "Softmax"]) == 0
    assert capsys.readouterr().out == f"softmax: {words()['softmax']}\n"
    assert main(["guide", "chain of thought", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"chain of thought": words()["chain of thought"]}
    with pytest.raises(UnknownName, match="nearest: softmax"):
        guide_section("softmx")
    assert {"logits", "softmax", "transformer", "embedding", "attention", "fine-tuning", "chain of thought"} <= set(
        words()
    )


def test_a_benchmark_is_explained_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a benchmark points to the command that describes it."""
    assert main(["guide", "gsm8k"]) == 2
    assert "assaymark explain gsm8k" in capsys.readouterr().err
