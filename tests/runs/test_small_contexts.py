"""Files of questions on models with few positions."""

from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main


@pytest.fixture
def chats(tmp_path: Path) -> str:
    """Return a file of instructions, whose answers may have 512 tokens."""
    rows = "".join(f"Add one to {n}.,,{n + 1}\n" for n in range(2))
    (tmp_path / "adds.csv").write_text(f"instruction,input,output\n{rows}")
    return str(tmp_path / "adds.csv")


def test_our_own_limit_of_answers_leaves_room_for_the_prompt(chats: str, tmp_path: Path) -> None:
    """On 64 positions answers have 16 tokens instead of 512, and nothing fails; a limit that was named is kept."""
    model = f"pretrained={assaymark.demo_model('small')},max_length=64"
    run = assaymark.evaluate("hf", chats, model_args=model, store=str(tmp_path / "runs.sqlite"))
    assert [estimate.n_failed for estimate in run.estimates] == [0]
    (plan,) = run.row.plan.tasks
    assert isinstance(plan.generation, dict)
    assert plan.generation["max_tokens"] == 16


def test_a_limit_that_leaves_no_room_fails_with_one_that_does(
    chats: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A limit of the user's own is not changed; the failure names a usable one and the command with the task's name."""
    model = f"pretrained={assaymark.demo_model('small')},max_length=64"
    words = ["run", "--model_args", model, "--tasks", chats, "--gen_kwargs", "max_gen_toks=64"]
    assert main([*words, "--store", str(tmp_path / "runs.sqlite")]) != 0
    output = " ".join("".join(capsys.readouterr()).split())
    assert "--gen_kwargs max_gen_toks=16" in output
    assert "--samples adds --wrong" in output
