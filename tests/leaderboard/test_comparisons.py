"""The numbers of a comparison without texts are those of the whole one; a page compares up to a number of samples."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.leaderboard import stored
from assaymark.leaderboard.stored import Relatives, StoredRuns
from assaymark.results.comparison.compare import compare_runs
from assaymark.results.evidence.from_store import run_evidence
from assaymark.store import Store


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> StoredRuns:
    """Return runs of two models on a task with repeated rows, and one of them on another task."""
    folder = tmp_path_factory.mktemp("comparisons")
    for name, n in (("one", 60), ("other", 5)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["question", "A", "B", "C", "answer"])
            rows.writerows([f"Which {n % 40}?", "red", "green", "blue", "ABC"[n % 40 % 3]] for n in range(n))
    place = str(folder / "s.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder / "home"))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        for seed, task in ((1, "one"), (2, "one"), (3, "other")):
            words = ["--model_args", f"seed={seed}", "--tasks", f"{folder}/{task}.csv", "--store", place]
            assert main(["run", "--model", "fake", *words]) == 0
    return StoredRuns(Store.open_to_read(place))


def test_the_numbers_alone_are_those_of_the_whole_comparison(runs: StoredRuns) -> None:
    """Overall and per task, to the digit; only the answers that changed are missing."""
    third, second, first = runs.runs()
    whole = runs.comparison([first.run_id, second.run_id]).pairs[0]
    numbers = runs.difference(first, second)
    assert numbers.overall == whole.overall
    assert numbers.tasks == whole.tasks
    assert numbers.set_up == whole.set_up
    assert whole.flips
    assert numbers.flips == ()
    assert runs.difference(first, second) is numbers
    result = Relatives(runs).compare([first], [third])
    assert result is not None
    assert result.difference is None  # no task in common


def test_a_page_compares_up_to_a_number_of_samples(runs: StoredRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exceeds the number is linked and not computed; the pair is named either way."""
    _, second, first = runs.runs()
    monkeypatch.setattr(stored, "SAMPLES_COMPARED", 200)
    relatives = Relatives(runs)
    item, other = relatives.compare([first], [second]), relatives.compare([first], [second])
    assert item is not None
    assert other is not None
    assert item.difference is not None
    assert other.difference is None
    assert (other.base_run, other.derived_run) == (first.run_id, second.run_id)


def test_held_runs_stay_as_they_were(runs: StoredRuns, made_once: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is stored while an export is made is on none of its pages."""
    place = Path(runs.url.removeprefix("sqlite:"))
    monkeypatch.setenv("ASSAYMARK_HOME", str(place.parent / "home"))
    monkeypatch.setenv("ASSAYMARK_CACHE", str(made_once))
    held = StoredRuns(Store.open_to_read(str(place)))
    held.hold()
    words = ["--model_args", "seed=4", "--tasks", f"{place.parent}/other.csv", "--store", str(place)]
    assert main(["run", "--model", "fake", *words]) == 0
    assert (len(held.runs()), len(runs.runs())) == (3, 4)


@pytest.mark.parametrize("shots", ["0", "1"])
def test_texts_that_are_not_read_change_nothing(
    runs: StoredRuns, made_once: Path, monkeypatch: pytest.MonkeyPatch, shots: str
) -> None:
    """Of equal requests only the changed answers' texts are read: the comparison is that of all texts, as of others."""
    place = Path(runs.url.removeprefix("sqlite:"))
    monkeypatch.setenv("ASSAYMARK_HOME", str(place.parent / "home"))
    monkeypatch.setenv("ASSAYMARK_CACHE", str(made_once))
    words = ["--model_args", "seed=5", "--tasks", f"{place.parent}/one.csv", "--store", str(place)]
    assert main(["run", "--model", "fake", "--num_fewshot", shots, *words]) == 0
    store = Store.open_to_read(str(place))
    *_, first = rows = list(store.runs())
    (other,) = (
        row for row in rows if row.plan.model.name == "fake-random-5" and row.plan.tasks[0].num_fewshot == int(shots)
    )
    compared = runs.comparison([first.run_id, other.run_id])
    (pair,) = compared.pairs
    pair = replace(pair, flips=runs.answered(first.run_id, other.run_id, pair, pair.flips))
    compared = replace(compared, pairs=(pair,))
    assert compared == compare_runs([run_evidence(store, row.run_id) for row in (first, other)])
    assert compared.pairs[0].flips
    assert {flip.first_answer for flip in compared.pairs[0].flips} <= {"A", "B", "C"}
    assert any("prompts: different" in line for line in compared.pairs[0].set_up) == (shots == "1")
