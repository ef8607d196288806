"""A difference that is real is found: two models trained on the same stories, one larger, on the next sentence."""

from pathlib import Path

import pytest

import assaymark
from assaymark.runs.comparison import compare_runs

pytest.importorskip("torch")

TASK = """\
task: next_sentence
dataset_path: tinystories_next
output_type: multiple_choice
test_split: test
doc_to_text: "{{context}}"
doc_to_choice: "{{endings}}"
doc_to_target: label
metric_list:
  - metric: acc
  - metric: acc_norm
"""
SAMPLES = 300


@pytest.mark.slow
def test_the_larger_model_is_better_and_it_shows(shared_dir: Path, tmp_path: Path) -> None:
    """On real stories, through a task file of ten lines, 3.3 M parameters beat 0.26 M significantly."""
    (tmp_path / "next_sentence.yaml").write_text(TASK)
    runs = [
        assaymark.evaluate(
            shared_dir / "models" / name,
            str(tmp_path / "next_sentence.yaml"),
            model_args={"dtype": "float32"},
            limit=SAMPLES,
            data_dir=shared_dir / "data",
            store=str(tmp_path / "store.sqlite"),
        )
        for name in ("stories260K", "bitllama-3.3m")
    ]
    comparison = compare_runs(runs)
    small, large = (run.estimate("next_sentence", "acc") for run in runs)
    assert small.low is not None
    assert small.low > 0.25
    assert large.value is not None
    assert small.value is not None
    assert large.value > small.value
    (task,) = [each for each in comparison.pairs[0].tasks if each.name == "next_sentence"]
    assert task.difference > 0
    assert task.p < 0.05
