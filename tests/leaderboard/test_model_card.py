"""Model cards of stored runs: front matter that the Hub reads, judgements that follow from the stored estimates."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from assaymark.cli.main import main
from assaymark.interop.export_tables import model_index
from assaymark.leaderboard.model_card import model_card
from assaymark.limits.shown_paths import without_folders
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
    assert "- demo_yesno: evaluated on the first 20 samples per task only" in text


def test_the_command_prints_writes_and_replaces(
    store: Store, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file holds what is printed; one that exists is replaced; an unknown model is answered with the nearest."""
    capsys.readouterr()
    assert main(["card", "fake-random-2", "--store", place]) == 0
    printed = capsys.readouterr().out
    assert printed == model_card(store, "fake-random-2")
    readme = tmp_path / "README.md"
    assert main(["card", "fake-random-2", "--store", place, "-o", str(readme)]) == 0
    assert readme.read_text() == printed
    readme.write_text("mine")
    assert main(["card", "fake-random-2", "--store", place, "-o", str(readme)]) == 0
    assert readme.read_text() == printed
    capsys.readouterr()
    assert main(["card", "fake-randm-2", "--store", place]) == 2
    assert "nearest: fake-random-2" in capsys.readouterr().err
