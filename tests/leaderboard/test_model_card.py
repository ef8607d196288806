"""Model cards of stored runs: front matter that the Hub reads, judgements that follow from the stored estimates."""

import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from assaymark.cli.main import main
from assaymark.interop.export_tables import model_index
from assaymark.leaderboard.model_card import model_card
from assaymark.limits.shown_paths import without_folders
from assaymark.runs.demo import demo_model
from assaymark.store import Store


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> str:
    """Make a store with runs of a model that guesses, on two tasks, and of another on one."""
    folder = tmp_path_factory.mktemp("cards")
    place = str(folder / "store.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        for seed, tasks in (("seed=1", "demo_who,demo_facts"), ("seed=2", "demo_who")):
            assert main(["run", "--model", "fake", "--model_args", seed, "--tasks", tasks, "--store", place]) == 0
    return place


@pytest.fixture
def store(place: str) -> Store:
    """Return the store, opened to be read."""
    return Store.open_to_read(place)


def front_matter(text: str) -> dict[str, Any]:
    """Return the YAML between the first two lines of dashes."""
    result: dict[str, Any] = yaml.safe_load(text.split("---\n")[1])
    return result


def test_the_front_matter_holds_the_runs_results(store: Store) -> None:
    """`model-index` lists what the export of the run lists, and the licence only where it was given."""
    text = model_card(store, "fake-random-1", "apache-2.0")
    result = front_matter(text)
    run = next(row for row in store.runs() if row.model == "fake-random-1")
    exported = yaml.safe_load(model_index(store, run.run_id))
    assert result["model-index"][0]["results"] == exported["model-index"][0]["results"]
    assert result["license"] == "apache-2.0"
    assert "license" not in front_matter(model_card(store, "fake-random-1"))


@pytest.mark.slow
def test_truthfulqa_below_chance_is_no_strength(shared_dir: Path, tmp_path: Path) -> None:
    """A share of probability below that of equal likelihoods, 0.448, is a weakness although another task is worse."""
    place = str(tmp_path / "store.sqlite")
    for tasks in ("truthfulqa_mc2", "demo_facts"):
        assert main(["run", "--model", "fake", "--tasks", tasks, "--store", place, "--data_dir",
                     str(shared_dir / "data"), "--quiet"]) == 0  # fmt: skip
    store = Store.open_to_read(place)
    results = {estimate.task: estimate for row in store.runs() for estimate in store.estimates(row.run_id)}
    assert results["truthfulqa_mc2"].chance == pytest.approx(0.4484, abs=0.0001)
    text = model_card(store, store.runs()[0].model)
    lines = [line for line in text.splitlines() if line.startswith("- ") and "truthfulqa" in line]
    assert not any(line.startswith("- Strength") for line in lines)
    assert any(line.startswith("- Weakness, not significantly above the baseline") for line in lines)


def test_a_model_that_guesses_has_weaknesses_and_no_strengths(store: Store) -> None:
    """Skill is (value - baseline) / (1 - baseline), with the interval's ends; at the baseline it is a weakness."""
    text = model_card(store, "fake-random-1")
    run = next(row for row in store.runs() if row.model == "fake-random-1")
    estimates = [estimate for estimate in store.estimates(run.run_id) if estimate.details.get("primary")]
    assert len(estimates) == 2
    for each in estimates:
        assert each.value is not None
        assert each.low is not None
        assert each.high is not None
        base = each.chance or 0.0
        results = [f"{100 * (end - base) / (1 - base):.1f}" for end in (each.value, each.low, each.high)]
        assert f"{each.task}, 0-shot: {results[0]}% ({results[1]} to {results[2]})" in text
        assert f"not significantly above the baseline: {each.task}" in text
    assert "- Strength" not in text
    assert "- demo_who: 1 to 2 of 2" in text


def test_what_was_not_measured_is_named(store: Store) -> None:
    """Capabilities without a benchmark are listed with a task that would measure them; measured ones are not."""
    text = model_card(store, "fake-random-1")
    missing = text.partition("## What was not measured")[2].partition("## How")[0]
    assert "Mathematics: no benchmark measures it (`assaymark run --tasks gsm8k` would)" in missing
    assert "Knowledge:" not in missing
    assert "Reasoning:" not in missing
    run = next(row for row in store.runs() if row.model == "fake-random-1")
    assert run.command is not None
    assert str(without_folders(run.command)) in text.partition("## How to reproduce")[2]


def test_a_run_on_some_samples_counts_only_where_there_is_no_other(place: str, tmp_path: Path) -> None:
    """The whole task replaces its first samples, whichever is later; without the whole the card says so."""
    source, place = place, str(tmp_path / "store.sqlite")
    with closing(sqlite3.connect(source)) as item, closing(sqlite3.connect(place)) as other:
        item.backup(other)  # a copy of the file alone would lack what is still in its write-ahead log
    words = ["--limit", "20", "--tasks", "demo_who,demo_yesno", "--store", str(place)]
    assert main(["run", "--model", "fake", "--model_args", "seed=1", *words]) == 0
    text = model_card(Store.open_to_read(str(place)), "fake-random-1")
    results = [line for line in text.splitlines() if line.startswith("| demo_who")]
    assert len(results) == 1
    assert results[0].endswith("| 150 |")
    listed = front_matter(text)["model-index"][0]["results"]
    numbers = {entry["dataset"]["name"]: entry["metrics"][0]["args"]["n"] for entry in listed}
    assert (len(listed), numbers) == (3, {"demo_who": 150, "demo_facts": 200, "demo_yesno": 20})
    assert "- demo_yesno: evaluated in part, first 20 samples per task" in text


def test_chosen_samples_and_a_stop_by_rule_are_said(tmp_path: Path) -> None:
    """Neither passes for the whole benchmark; front matter and table have one interval, valid for such a stop."""
    place = str(tmp_path / "store.sqlite")
    words = ["run", "--model", "fake", "--model_args", "accuracy=0.7", "--store", place, "--quiet"]
    assert main([*words, "--tasks", "demo_who", "--until", "demo_who ± 20"]) == 0
    assert main([*words, "--tasks", "demo_facts", "--samples", '{"demo_facts": [3, 5]}']) == 0
    text = model_card(Store.open_to_read(place), "fake-gold-0")
    assert "- demo_facts: evaluated in part, chosen samples" in text
    assert "- demo_who: evaluated in part, stopped by rule after 50 of 150 questions" in text
    entries = front_matter(text)["model-index"][0]["results"]
    known = {entry["dataset"]["name"]: entry["metrics"][0]["args"] for entry in entries}
    assert known["demo_facts"]["samples"] == "chosen samples"
    ends = "–".join(f"{100 * known['demo_who'][end]:.1f}" for end in ("low", "high"))
    assert f"| {ends} |" in text


def test_a_name_of_two_models_is_the_latest_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder whose weights were replaced is another model; a plus sign in its name is no adapter."""
    place = str(tmp_path / "store.sqlite")
    monkeypatch.chdir(tmp_path)
    for source, task in (("large", "demo_who"), ("small", "demo_facts")):
        shutil.rmtree("my+model", ignore_errors=True)
        shutil.copytree(demo_model(source), "my+model", copy_function=shutil.copyfile)
        words = ["run", "--model_args", "pretrained=my+model", "--tasks", task, "--limit", "4", "--store", place]
        assert main(words) == 0
    text = model_card(Store.open_to_read(place), "last")
    assert "demo_who" not in text
    assert "Left out: 1 run of other weights, configuration or tokenizer under this name." in text
    assert "Adapter" not in text
    assert "base_model" not in front_matter(text)


def test_a_command_of_several_lines_is_not_changed_into_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line break in a prompt decides the answers, so the card names the stored run instead."""
    place = str(tmp_path / "store.sqlite")
    words = ["run", "--model", "fake", "--tasks", "demo_who", "--limit", "2", "--store", place, "--apply_chat_template"]
    words += ["--system_instruction", "Be brief.\nBe exact."]
    monkeypatch.setattr(sys, "argv", ["assaymark", *words])  # which is stored
    assert main(words) == 0
    store = Store.open_to_read(place)
    text = model_card(store, "last").partition("## How to reproduce")[2]
    assert f"assaymark reproduce {store.run('last').short_id}" in text
    assert "Be" not in text


def test_a_model_without_a_result_has_no_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where every request failed, the error says so."""
    place = str(tmp_path / "store.sqlite")
    main(["run", "--model", "fake", "--model_args", "fail=1", "--tasks", "demo_who", "--limit", "2", "--store", place])
    assert main(["card", "last", "--store", place]) == 2
    assert "no run of fake-random-0 has a result" in capsys.readouterr().err


def test_the_command_prints_writes_and_replaces(
    store: Store, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file holds what is printed and replaces a card only; an unknown model is answered with the nearest."""
    capsys.readouterr()
    assert main(["card", "fake-random-2", "--store", place]) == 0
    printed = capsys.readouterr().out
    assert printed == model_card(store, "fake-random-2")
    readme = tmp_path / "README.md"
    assert main(["card", "fake-random-2", "--store", place, "-o", str(readme)]) == 0
    assert readme.read_text() == printed
    assert main(["card", "fake-random-1", "--store", place, "-o", str(readme)]) == 0
    assert readme.read_text() == model_card(store, "fake-random-1")
    readme.write_text("mine")
    assert main(["card", "fake-random-2", "--store", place, "-o", str(readme)]) == 2
    assert readme.read_text() == "mine"
    assert "no `assaymark card` wrote it" in capsys.readouterr().err
    capsys.readouterr()
    assert main(["card", "fake-randm-2", "--store", place]) == 2
    assert "nearest: fake-random-2" in capsys.readouterr().err
