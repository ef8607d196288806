"""Tasks of which every request fails: said by `plan`, and an exit code of its own after `run`."""

from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.runs.demo import demo_model

MODEL = ["--model_args", f"pretrained={demo_model('small')}"]
TOO_MANY = ["--gen_kwargs", "max_gen_toks=5000", "--limit", "4"]
REASON = "5000 new tokens are allowed and the model has 1024 positions, which leaves none for the prompt"


@pytest.mark.slow
def test_a_task_that_fails_beside_others_has_an_exit_code(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Code 6 and one line for all tasks with the same reason; 5 where nothing at all was answered, 0 otherwise."""
    store = ["--store", str(tmp_path / "s.db"), "--quiet"]
    assert main(["run", *MODEL, "--tasks", "demo_sums,demo_who", *TOO_MANY, *store]) == 6
    printed = capfd.readouterr()
    lines = [line for line in printed.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert lines[0].startswith(f"error: every request of demo_sums failed, so there is no result: {REASON}")
    assert " ".join(printed.out.split()).count("all requests failed, so there is no result") == 1
    assert main(["run", *MODEL, "--tasks", "demo_sums", *TOO_MANY, *store]) == 5
    assert main(["run", *MODEL, "--tasks", "demo_who", "--limit", "4", *store]) == 0


def test_a_plan_says_which_tasks_will_fail(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is sent, and the reason is the one that the run would give; such prompts are not called truncated."""
    assert main(["plan", *MODEL, "--tasks", "demo_sums,demo_who", *TOO_MANY]) == 0
    out = capfd.readouterr().out
    assert f"will fail: all samples of demo_sums: {REASON}" in " ".join(out.split())
    assert "truncated from the left" not in out
