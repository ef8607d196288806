"""What `explain` says about scores: whole answers, the tasks' own functions, and metrics by name."""

from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.runs.explain import explain_metric, explain_task
from assaymark.scoring.metrics import own_metrics


def test_the_end_of_a_long_answer_is_shown(shared_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """GSM8K's made-up answer keeps `#### 18`, from which it is scored."""
    assert main(["explain", "gsm8k", "--data_dir", str(shared_dir / "data")]) == 0
    example = capsys.readouterr().out.partition("with made-up outputs")[2].partition("reference")[0]
    assert "#### 18" in example


@pytest.mark.parametrize(
    ("task", "metric", "formula"),
    [
        ("ifeval", "inst_level_strict_acc", "the share of instructions that are followed (strict)"),
        ("truthfulqa_mc2", "acc", "share of the probability of all answers that true answers hold"),
    ],
)
def test_a_tasks_own_scores_are_explained(task: str, metric: str, formula: str) -> None:
    """The formula says what is computed, not only which function computes it."""
    result = explain_task(task)
    (own,) = [each for each in result["metrics"] if each["name"] == metric]
    assert formula in own["formula"]
    assert "!function" not in own["aggregation"]
    assert not own["formula"].startswith(("Return", "{"))


def test_the_name_of_a_metric_explains_the_metric(capsys: pytest.CaptureFixture[str]) -> None:
    """Every metric of the table can be named; a name that is neither task nor metric is refused with the nearest."""
    assert main(["explain", "acc_norm"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("acc_norm a metric of one sample")
    assert "divided by" in out
    for metric in own_metrics():
        result = explain_metric(metric.name)
        assert result is not None
        assert result["formula"]
    assert main(["explain", "acc_normm"]) == 2
    assert "unknown task 'acc_normm'" in capsys.readouterr().err
