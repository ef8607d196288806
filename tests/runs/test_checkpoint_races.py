"""Races of a training's checkpoints: on a real small model whose weights are changed between evaluations."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import UsageError
from assaymark.models.local.local_model import LocalModel
from assaymark.results.evidence.from_store import stopped_by_rule
from assaymark.runs.checkpoint_races import RaceCallback
from assaymark.runs.demo import demo_model
from assaymark.runs.race import RaceOptions
from assaymark.runs.run import Run
from assaymark.store import Store

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

N = 200  # questions of demo_facts


@pytest.fixture
def tokenizer() -> Any:
    """Return the demo model's tokenizer."""
    return transformers.AutoTokenizer.from_pretrained(demo_model("small"))


def checkpoint(noise: float) -> Any:
    """Return the demo model with noise on its weights: without, it knows the facts; with much, it knows none."""
    model = transformers.AutoModelForCausalLM.from_pretrained(demo_model("small"), dtype="float32")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * parameter.std() * torch.randn(parameter.shape, generator=generator))
    return model


def exact_scores(store: str, run_id: str) -> dict[int, float]:
    """Return the stored scores by the index of their sample."""
    with Store.open_to_read(store) as opened:
        return {
            score.sample_index: float(score.value or 0)
            for score in opened.scores(run_id, "demo_facts", details=False)
            if score.metric == "acc"
        }


def test_a_worse_checkpoint_and_a_better_one_are_decided(tmp_path: Path, tokenizer: Any) -> None:
    """The first answers `at_least` questions; noise makes the next worse, less of it better, with few questions."""
    store = str(tmp_path / "s.sqlite")
    said: list[str] = []
    callback = RaceCallback("demo_facts", at_least=120, store=store, notify=said.append)
    model = checkpoint(0.0)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert callback.measure(model, tokenizer, "train/checkpoint-1") == {}
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    worse = callback.measure(checkpoint(2.0), tokenizer, "train/checkpoint-2")
    better = callback.measure(checkpoint(1e-3), tokenizer, "train/checkpoint-3")
    assert (worse["eval_race_verdict"], better["eval_race_verdict"]) == (-1.0, 1.0)
    assert worse["eval_race_points_high"] < 0 < better["eval_race_points_low"]
    for numbers in (worse, better):
        assert numbers["eval_race_points_low"] <= numbers["eval_race_points"] <= numbers["eval_race_points_high"]
        assert numbers["eval_race_questions"] <= 120 < N
    assert "train/checkpoint-3 is better than train/checkpoint-2" in said[-1]
    last = callback.races[-1].race
    assert last is not None
    first, second = (exact_scores(store, run_id) for run_id in last.run_ids)
    shared = set(first) & set(second)
    assert len(second) == 120
    assert last.state.n_seen <= len(shared)


def test_equal_checkpoints_are_equivalent_within_a_margin(tmp_path: Path, tokenizer: Any) -> None:
    """Nearly equal weights answer alike: with a margin the race says so before the end; without one it stays open."""
    store = str(tmp_path / "s.sqlite")
    callback = RaceCallback("demo_facts", rule=RaceOptions(margin=0.2), at_least=N, store=store)
    callback.measure(checkpoint(0.0), tokenizer, "train/checkpoint-1")
    close = callback.measure(checkpoint(1e-4), tokenizer, "train/checkpoint-2")
    assert close["eval_race_verdict"] == 0.0
    assert close["eval_race_questions"] < N
    assert -20 < close["eval_race_points_low"] <= close["eval_race_points_high"] < 20


def test_a_race_ends_with_the_answers_of_the_last_checkpoint(tmp_path: Path, tokenizer: Any) -> None:
    """Undecided when they end, it says so and how the next race can go on."""
    callback = RaceCallback("demo_facts", at_least=30, store=str(tmp_path / "s.sqlite"))
    callback.measure(checkpoint(0.0), tokenizer, "train/checkpoint-1")
    numbers = callback.measure(checkpoint(1e-4), tokenizer, "train/checkpoint-2")
    assert "eval_race_verdict" not in numbers
    assert numbers["eval_race_questions"] == 30
    assert "answered 30 questions; a larger at_least" in callback.races[-1].sentence


def test_another_process_finds_the_checkpoint_before_and_asks_nothing_again(tmp_path: Path, tokenizer: Any) -> None:
    """A new callback is raced against the latest earlier step of the same training, and ends as the first one did."""
    store = str(tmp_path / "s.sqlite")
    first = RaceCallback("demo_facts", at_least=60, store=store)
    first.measure(checkpoint(0.0), tokenizer, "train/checkpoint-1")
    first.measure(checkpoint(0.05), tokenizer, "train/checkpoint-9")
    first.measure(checkpoint(0.0), tokenizer, "other/checkpoint-10")
    resumed = RaceCallback("demo_facts", at_least=60, store=store)
    numbers = resumed.measure(checkpoint(2.0), tokenizer, "train/checkpoint-11")
    race = resumed.races[0].race
    assert race is not None
    assert race.names == ("train/checkpoint-11", "train/checkpoint-9")
    with Store.open_to_read(store) as opened:
        n_outputs = {row.model: row.n_outputs for row in opened.runs()}
    again = RaceCallback("demo_facts", at_least=60, store=store)
    assert again.measure(checkpoint(2.0), tokenizer, "train/checkpoint-11") == numbers
    with Store.open_to_read(store) as opened:
        assert {row.model: row.n_outputs for row in opened.runs()} == n_outputs


KILLED = """
import os, sys
from assaymark.runs import checkpoint_races, race
from tests.runs.test_checkpoint_races import checkpoint, RaceCallback, demo_model, transformers
n = 0
real = race.Answering.values
def values(self, places):
    global n
    n += 1
    if n == 3:  # after two blocks of 50
        os.kill(os.getpid(), 9)
    return real(self, places)
race.Answering.values = values
tokenizer = transformers.AutoTokenizer.from_pretrained(demo_model("small"))
RaceCallback("demo_facts", at_least=150, store=sys.argv[1]).measure(checkpoint(0.0), tokenizer, "train/checkpoint-1")
"""


@pytest.mark.slow
def test_a_killed_evaluation_goes_on(tmp_path: Path, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """After kill -9 between blocks the next process asks the rest only, and the scores are those of a whole one."""
    store, plain = str(tmp_path / "s.sqlite"), str(tmp_path / "plain.sqlite")
    ended = subprocess.run([sys.executable, "-c", KILLED, store], capture_output=True, check=False, timeout=300)
    assert ended.returncode == -9, ended.stderr.decode()[-500:]
    with Store.open_to_read(store) as opened:
        (row,) = opened.runs()
    assert row.n_samples == 100
    asked: list[int] = []
    real = LocalModel.answer

    def counted(self: LocalModel, requests: Any, **options: Any) -> Any:
        asked.append(len(requests))
        return real(self, requests, **options)

    monkeypatch.setattr(LocalModel, "answer", counted)
    runs = []
    for place in (store, plain):
        callback = RaceCallback("demo_facts", at_least=150, store=place)
        callback.measure(checkpoint(0.0), tokenizer, "train/checkpoint-1")
        runs.append(callback.races[0].run)
    assert exact_scores(store, runs[0].id) == exact_scores(plain, runs[1].id)
    assert len(exact_scores(store, runs[0].id)) == 150
    assert sum(asked) == 50 + 150


def test_a_run_of_a_race_is_marked(tmp_path: Path, tokenizer: Any) -> None:
    """The stored run is incomplete, says how many questions it has, and a full evaluation asks the rest."""
    import assaymark

    store = str(tmp_path / "s.sqlite")
    model = checkpoint(0.0)
    callback = RaceCallback("demo_facts", at_least=50, store=store)
    callback.measure(model, tokenizer, "train/checkpoint-1")
    run = callback.races[0].run
    stopped = stopped_by_rule(run.row)
    assert stopped is not None
    assert (stopped.n_seen, stopped.n) == (50, N)
    assert "stopped by rule after 50 of 200 questions" in " ".join(str(run).split())
    whole = assaymark.evaluate(
        (model, tokenizer), "demo_facts", store=store, model_args={"pretrained": "train/checkpoint-1"}
    )
    assert isinstance(whole, Run)
    assert (whole.id, whole.row.status, whole.row.n_samples) == (run.id, "finished", N)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at_least": 0}, "whole number of questions"),
        ({"at_least": True}, "whole number of questions"),
        ({"rule": RaceOptions(most=100)}, "more than the rule's most=100"),
        ({"rule": RaceOptions(margin=5)}, "a share above 0"),
        ({"every": 0}, "whole number of steps"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused_before_training(options: dict[str, Any], message: str) -> None:
    """Each is one line when the callback is created."""
    with pytest.raises(UsageError, match=message):
        RaceCallback("demo_facts", **options)


def test_what_cannot_be_raced_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    """A limit, a metric that is no share, and a missing tokenizer."""
    store = str(tmp_path / "s.sqlite")
    with pytest.raises(UsageError, match="omit limit"):
        RaceCallback("demo_facts", store=store, limit=5).measure(checkpoint(0.0), tokenizer, "train/checkpoint-1")
    with pytest.raises(UsageError, match="scores from 0 to 1"):
        RaceCallback("demo_stories", store=store).measure(checkpoint(0.0), tokenizer, "train/checkpoint-1")
    with pytest.raises(UsageError, match="the Trainer has no tokenizer"):
        RaceCallback("demo_facts", store=store).measure(checkpoint(0.0), None, "train/checkpoint-1")


@pytest.mark.slow
def test_inside_a_trainer(tmp_path: Path, tokenizer: Any) -> None:
    """A training with a huge learning rate destroys the model, and the Trainer's log says that it became worse."""
    pytest.importorskip("accelerate")
    rows = [{"input_ids": [3 + at, 7, 9, 11], "labels": [3 + at, 7, 9, 11]} for at in range(8)]
    arguments = transformers.TrainingArguments(
        str(tmp_path / "train"), max_steps=4, learning_rate=0.5, report_to=[], per_device_train_batch_size=2
    )
    trainer = transformers.Trainer(checkpoint(0.0), arguments, train_dataset=rows, processing_class=tokenizer)
    callback = RaceCallback("demo_facts", every=1, at_least=100, store=str(tmp_path / "s.sqlite"))
    callback.attach(trainer)
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "eval_race_questions" in entry]
    assert [entry["step"] for entry in history] == [2, 3, 4]
    assert [each.run.row.model for each in callback.races] == [f"train/checkpoint-{step}" for step in (1, 2, 3, 4)]
