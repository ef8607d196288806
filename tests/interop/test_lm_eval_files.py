"""Our export equals lm-eval's files: same keys, same values, same hashes."""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.interop.lm_eval_files import sanitised_model

LIMIT = 8
OF_THE_MACHINE = {"date", "pretty_env_info", "git_hash", "total_evaluation_time_seconds", "config", "configs"}


def results_in(folder: Path) -> dict[str, Any]:
    """Return the one results file of a folder."""
    (file,) = folder.glob("results_*.json")
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def lines_in(folder: Path, task: str) -> list[dict[str, Any]]:
    """Return the lines of a task's samples file."""
    (file,) = folder.glob(f"samples_{task}_*.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.oracle
@pytest.mark.slow
def test_the_results_file_has_lm_evals_keys(both: tuple[Path, Path]) -> None:
    """Every key of lm-eval's results file is in ours, which has two more."""
    theirs, ours = map(results_in, both)
    assert set(theirs) <= set(ours)
    assert set(ours) - set(theirs) == {"assaymark", "assaymark_version"}
    assert set(theirs["config"]) == set(ours["config"])
    for name, config in theirs["configs"].items():
        assert set(config) - {"doc_to_decontamination_query"} == set(ours["configs"][name])


@pytest.mark.oracle
@pytest.mark.slow
def test_values_and_errors_are_lm_evals(both: tuple[Path, Path]) -> None:
    """Results, groups, versions, shots, directions, counts and task hashes are the same; bootstrap errors too."""
    theirs, ours = map(results_in, both)
    same = set(theirs) - OF_THE_MACHINE - {"results", "groups"}
    for key in same:
        assert ours[key] == theirs[key], key
    for part in ("results", "groups"):
        assert list(ours[part]) == list(theirs[part])
        for name, entry in theirs[part].items():
            assert list(ours[part][name]) == list(entry)
            for key, value in entry.items():
                # perplexities are exponentials of sums that may differ by 1e-4 + 1e-6 of their size
                expected = pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
                assert ours[part][name][key] == expected, (name, key)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("task", ["arc_easy", "arc_challenge", "lambada_openai"])
def test_sample_lines_are_lm_evals(both: tuple[Path, Path], task: str) -> None:
    """Each line has the same keys in the same order, hashes and scores; numbers agree within 1e-4 + 1e-6 |ll|."""
    theirs, ours = (lines_in(folder, task) for folder in both)
    assert len(ours) == len(theirs) == LIMIT
    for expected, line in zip(theirs, ours, strict=True):
        assert list(line) == list(expected)
        for key in set(expected) - {"resps", "filtered_resps", "perplexity"}:
            assert line[key] == expected[key], key
        for (nats, greedy), (their_nats, their_greedy) in zip(
            line["filtered_resps"], expected["filtered_resps"], strict=True
        ):
            assert float(nats) == pytest.approx(float(their_nats), abs=1e-4, rel=1e-6)
            assert greedy == their_greedy
        assert [len(repeats) for repeats in line["resps"]] == [len(repeats) for repeats in expected["resps"]]


def test_model_names_become_folders_as_in_lm_eval() -> None:
    """A sequence of slashes, colons and the like becomes two underscores."""
    assert sanitised_model("/work/models/x") == "__work__models__x"
    assert sanitised_model("org/name:rev[1]") == "org__name__rev__1__"
