"""Names as tables show them are accepted where a name is typed."""

import json

import pytest

from assaymark.cli.main import main
from assaymark.registry import meant

RUN = ["run", "--model", "fake", "--tasks", "demo_letters", "--limit", "4", "--quiet"]


def test_the_end_of_a_name_stands_for_the_only_one_that_ends_so() -> None:
    """Whole names come first; what several names end with, or none, stands for itself."""
    names = ["mmlu_anatomy", "mmlu_world_history", "mmlu_us_history", "org/small", "anatomy_of_x"]
    assert meant("anatomy", names) == "mmlu_anatomy"
    assert meant("small", names) == "org/small"
    assert meant("history", names) == "history"
    assert meant("natomy", names) == "natomy"
    assert meant("", names) == ""
    assert meant("mmlu_us_history", [*names, "x_mmlu_us_history"]) == "mmlu_us_history"


def test_samples_and_gates_take_shown_names(capsys: pytest.CaptureFixture[str]) -> None:
    """`people` is demo_letters_people, in --samples and in --gate."""
    assert main([*RUN, "--model_args", "seed=1"]) == 0
    assert main([*RUN, "--model_args", "seed=2"]) == 0
    capsys.readouterr()
    assert main(["show", "last", "--samples", "people", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert main(["compare", "last~1", "last", "--gate", "people >= -0.99"]) in {0, 1}
    assert "people" in capsys.readouterr().err
    assert main(["compare", "last~1", "last", "--gate", "nobody >= -0.5"]) == 2


def test_a_card_is_written_for_the_last_run(capsys: pytest.CaptureFixture[str]) -> None:
    """`card last` is the card of the last run's model."""
    assert main(RUN) == 0
    capsys.readouterr()
    assert main(["card", "last"]) == 0
    by_last = capsys.readouterr().out
    assert main(["ls", "runs", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert main(["card", run["model"]]) == 0
    assert capsys.readouterr().out == by_last
    assert "demo_letters" in by_last
