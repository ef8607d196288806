"""What training changed, told from shots, precision and template by runs of the base in the tuned run's set-up."""

import json
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.runs.run import Run
from assaymark.runs.tuning import TOGETHER, TRAINING, TuningEffect, tune_report


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Return the address of a store."""
    return str(tmp_path / "s.sqlite")


def evaluated(place: str, accuracy: float, shots: int, **options: Any) -> Run:
    """Evaluate a fake model, which stands for the base (accuracy 0.3) or a tuned one."""
    arguments = {"accuracy": accuracy, "seed": int(10 * accuracy)}
    return assaymark.evaluate(
        "fake", "demo_letters_people", model_args=arguments, num_fewshot=shots, store=place, **options
    )


def gain(effect: TuningEffect) -> float:
    """Return the gain on the only task."""
    return effect.pair.tasks[0].gain


def test_equal_set_ups_leave_training_alone(place: str) -> None:
    """Two runs of one set-up: the only effect is training, and is the difference of the runs' values."""
    base, tuned = evaluated(place, 0.3, 0), evaluated(place, 0.9, 0)
    (model,) = tune_report(place, base.id, [tuned.id])
    assert (dict(model.changed), [each.cause for each in model.effects], model.missing) == ({}, [TRAINING], "")
    values = [run.estimate("demo_letters_people").value or 0.0 for run in (base, tuned)]
    assert gain(model.effects[0]) == pytest.approx(values[1] - values[0])


def test_each_cause_is_apart_where_the_store_has_the_runs(place: str) -> None:
    """Without a run of the base at 3 shots it says so; with it, both effects add up to the whole difference."""
    base, tuned = evaluated(place, 0.3, 0), evaluated(place, 0.9, 3)
    (model,) = tune_report(place, base.id, [tuned.id])
    assert [each.cause for each in model.effects] == [TOGETHER]
    assert dict(model.changed) == {"shots": ("0", "3")}
    assert "has no run of" in model.missing
    assert "shots 3" in model.missing
    between = evaluated(place, 0.3, 3)
    (model,) = tune_report(place, base.id, [tuned.id])
    assert [each.cause for each in model.effects] == [TOGETHER, "shots", TRAINING]
    assert [each.pair.run_ids for each in model.effects[1:]] == [
        (base.short_id, between.short_id), (between.short_id, tuned.short_id)
    ]  # fmt: skip
    whole, *parts = map(gain, model.effects)
    assert whole == pytest.approx(sum(parts))
    values = [run.estimate("demo_letters_people").value or 0.0 for run in (base, between, tuned)]
    assert parts == pytest.approx([values[1] - values[0], values[2] - values[1]])


@pytest.mark.slow
def test_several_causes_are_separated_as_far_as_runs_go(place: str) -> None:
    """Shots and system prompt together where only the last run is there, each alone with the one between."""
    base = evaluated(place, 0.3, 0)
    tuned = evaluated(place, 0.9, 2, prompt_style="text")
    evaluated(place, 0.3, 2, prompt_style="text")
    (model,) = tune_report(place, base.id, [tuned.id])
    assert [each.cause for each in model.effects] == [TOGETHER, "shots and template", TRAINING]
    evaluated(place, 0.3, 2)
    (model,) = tune_report(place, base.id, [tuned.id])
    assert [each.cause for each in model.effects] == [TOGETHER, "shots", "template", TRAINING]
    whole, *parts = map(gain, model.effects)
    assert whole == pytest.approx(sum(parts))


def test_the_command_prints_and_refuses(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Table and JSON; one run alone, or one named twice, is one line and exit code 2."""
    base, tuned = evaluated(place, 0.3, 0), evaluated(place, 0.9, 3)
    assert main(["tune-report", base.id, tuned.id, "--store", place]) == 0
    printed = capsys.readouterr().out
    assert "shots: 0 for the base, 3 here" in printed
    assert "training cannot be told from shots" in " ".join(printed.split())
    assert main(["tune-report", base.id, tuned.id, "--store", place, "--json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)
    assert model["changed"] == {"shots": {"base": "0", "tuned": "3"}}
    assert model["effects"][0]["differences"][0]["n"] == 76
    for words in ([base.id], [base.id, base.id]):
        assert main(["tune-report", *words, "--store", place]) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_two_runs_of_one_model_show_what_the_set_up_changed(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the run that was named as tuned is the base's own in that set-up, the set-up is the only cause."""
    zero, some = evaluated(place, 0.3, 0), evaluated(place, 0.3, 3)
    (model,) = tune_report(place, zero.id, [some.id])
    assert [each.cause for each in model.effects] == ["shots"]
    values = [run.estimate("demo_letters_people").value or 0.0 for run in (zero, some)]
    assert gain(model.effects[0]) == pytest.approx(values[1] - values[0])
    assert main(["tune-report", zero.short_id, some.short_id, "--store", place]) == 0
    assert "the same weights" in capsys.readouterr().out
