"""Evaluation in transformers' Trainer, on the demo model."""

import re
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import UsageError
from assaymark.runs.demo import demo_model
from tests.conftest import ROOT

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

EXAMPLE = re.search(r"```python\n(from transformers.*?)```", (ROOT / "docs" / "training.md").read_text(), re.DOTALL)


def _rows() -> list[dict[str, list[int]]]:
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randint(3, 200, (16,), generator=generator).tolist() for _ in range(8)]
    return [{"input_ids": row, "labels": row} for row in rows]


def _run_example(folder: Path, text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"MODEL": str(demo_model("small")), "FOLDER": str(folder), "DATASET": _rows()}
    exec(compile(text, "docs/training.md", "exec"), names)
    return names


@pytest.mark.slow
def test_the_example_of_the_documentation_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The documented example trains, and the Trainer's log has our metric at the given steps, and the loss."""
    assert EXAMPLE is not None
    names = _run_example(tmp_path / "with", EXAMPLE[1])
    history = names["trainer"].state.log_history
    measured = [(entry["step"], entry["eval_demo_who_acc"]) for entry in history if "eval_demo_who_acc" in entry]
    assert [step for step, _ in measured] == [2, 4]
    assert [run.estimate("demo_who", "acc").value for run in names["callback"].runs] == [value for _, value in measured]
    assert [entry["step"] for entry in history if "loss" in entry] == [2, 4]
    assert "eval_demo_who_acc" in capsys.readouterr().out
    assert [run.row.model for run in names["callback"].runs] == ["with/checkpoint-2", "with/checkpoint-4"]


@pytest.mark.slow
def test_the_trainer_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Training with the callback ends with the same weights, bit for bit, as without it."""
    assert EXAMPLE is not None
    bare = EXAMPLE[1].replace("callback.attach(trainer)\n", "")
    ours = _run_example(tmp_path / "with", EXAMPLE[1])["model"].state_dict()
    plain = _run_example(tmp_path / "without", bare)["model"].state_dict()
    assert [name for name in plain if not torch.equal(ours[name], plain[name])] == []


@pytest.mark.slow
def test_as_a_callback_it_evaluates_each_epoch(tmp_path: Path) -> None:
    """Passed in Trainer(callbacks=...), it evaluates after each epoch, and the Trainer's state has the metrics."""
    assert EXAMPLE is not None
    text = EXAMPLE[1].replace("callback.attach(trainer)\n", "trainer.add_callback(callback)\n").replace(", every=2", "")
    names = _run_example(tmp_path, text)
    assert [e["step"] for e in names["trainer"].state.log_history if "eval_demo_who_acc" in e] == [4]


def test_invalid_steps_are_refused() -> None:
    """A number of steps below 1 is one clear error when the callback is created."""
    from assaymark import EvaluationCallback

    with pytest.raises(UsageError, match="whole number of steps"):
        EvaluationCallback("demo_who", every=0)


@pytest.mark.slow
def test_a_training_in_mixed_precision_is_evaluated_in_the_weights_dtype(tmp_path: Path) -> None:
    """Under the Trainer's bfloat16 autocast, scores are those of the same float32 weights outside it."""
    import assaymark

    assert EXAMPLE is not None
    text = EXAMPLE[1].replace("report_to=[]", "report_to=[], bf16=True, use_cpu=True")
    names = _run_example(
        tmp_path, text.replace("LM.from_pretrained(MODEL)", "LM.from_pretrained(MODEL, dtype='float32')")
    )
    assert "_original_forward" in names["model"].__dict__, "the Trainer no longer wraps forward: this tests nothing"
    fresh = transformers.AutoModelForCausalLM.from_pretrained(demo_model("small"), dtype="float32")
    fresh.load_state_dict(names["model"].state_dict())
    inside = names["callback"].runs[-1]
    outside = assaymark.evaluate((fresh, names["tokenizer"]), "demo_who", limit=20, store=tmp_path / "other.sqlite")
    assert [_scores(run) for run in (inside, outside)] == [_scores(inside)] * 2
    assert [line for line in inside.remarks(details=True) if "attention" in line] == [
        line for line in outside.remarks(details=True) if "attention" in line
    ]


def _scores(run: Any) -> list[float]:
    return [output.total_nats for sample in run.samples("demo_who") for output in sample.outputs]
