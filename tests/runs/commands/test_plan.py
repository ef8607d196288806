"""`assaymark plan`: the estimate of a run, by the names that the user gave."""

from pathlib import Path

import pytest

from assaymark.cli.main import main


def test_groups_keep_their_names_and_truncated_prompts_are_counted(
    shared_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan of MMLU has rows of `mmlu`, and the number of truncated prompts with their effect."""
    model = shared_dir / "models" / "stories260K"
    words = ["--tasks", "mmlu", "--num_fewshot", "5", "--limit", "40", "--data_dir", str(shared_dir / "data")]
    assert main(["plan", *words, "--model_args", f"pretrained={model}"]) == 0
    printed = capsys.readouterr().out
    assert " of 57)" in printed
    assert "mmlu_anatomy" not in printed
    assert "2,280 of 2,280 prompts exceed the model's context and are truncated from the left" in printed
    assert "questions share few tokens" in printed


def test_tasks_outside_groups_keep_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks that belong to no group are listed by their own names."""
    assert main(["plan", "--model", "fake", "--tasks", "demo_letters,demo_who", "--limit", "3"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "demo_letters, demo_who" in printed
    assert "truncated" not in printed
