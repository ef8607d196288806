"""lm-eval's spellings are converted to ours."""

import pytest

from assaymark.cli.main import main, normalise, with_command


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["--tasks", "a,b"], ["--tasks", "a,b"]),
        (["--tasks", "a", "b", "--limit", "5"], ["--tasks", "a,b", "--limit", "5"]),
        (["-t", "a,", "b"], ["-t", "a,b"]),
        (["--tasks=a,b"], ["--tasks", "a,b"]),
        (["--num-fewshot=5"], ["--num_fewshot=5"]),
        (["--model-args", "pretrained=a-b", "dtype=float32"], ["--model_args", "pretrained=a-b,dtype=float32"]),
        (["--apply_chat_template", "--limit", "2"], ["--apply_chat_template", "true", "--limit", "2"]),
        (["--apply-chat-template", "chatml"], ["--apply_chat_template", "chatml"]),
        (["--fewshot_as_multiturn"], ["--fewshot_as_multiturn", "true"]),
        (["--fewshot_as_multiturn", "False"], ["--fewshot_as_multiturn", "False"]),
        (["--cache_requests", "refresh"], ["--cache_requests", "refresh"]),
        (["--seed", "-1"], ["--seed", "-1"]),
        (["last", "--samples", "arc_easy", "--wrong"], ["last", "--samples", "arc_easy", "--wrong"]),
    ],
)
def test_words_are_normalised(typed: list[str], meant: list[str]) -> None:
    """Several words, flags without a value, dashes and equals signs are converted to one spelling."""
    assert normalise(typed) == meant


def test_no_command_means_run() -> None:
    """`assaymark --model hf ...` is `assaymark run --model hf ...`, as in lm-eval; `--help` is unchanged."""
    assert with_command(["--model", "hf"], ["run"]) == ["run", "--model", "hf"]
    assert with_command(["--help"], ["run"]) == ["--help"]
    assert with_command(["run", "--model", "hf"], ["run"]) == ["run", "--model", "hf"]
    assert with_command([], ["run"]) == []


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["show", "last", "--samples", "--help"], "show"),
        (["show", "last", "--store", "x", "--samples", "-h"], "show"),
        (["judge", "agreement", "--human", "--help"], "judge agreement"),
    ],
)
def test_help_at_the_end_is_no_value(words: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` after an option that expects a value shows the help of the command."""
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"Usage: assaymark {usage} [OPTIONS]")


def test_a_mode_of_caching_that_lm_eval_refuses_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """`--cache_requests` has no effect here, but a value that lm-eval does not have is no mode."""
    assert main(["run", "--model", "fake", "--tasks", "demo_who", "--cache_requests", "banana"]) == 2
    assert "'banana' is not one of 'true', 'refresh', 'delete'" in capsys.readouterr().err
