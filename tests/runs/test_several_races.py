"""Races of three models: every pair is decided as the whole benchmark has it, and a decided model rests."""

import json
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.errors import UsageError
from assaymark.runs.race import RaceOptions, race_models, race_several
from assaymark.store import Store

MODELS = [
    ("fake", {"accuracy": 0.85}),
    ("fake", {"accuracy": 0.6, "seed": 2}),
    ("fake", {"accuracy": 0.5, "seed": 3}),
]


@pytest.mark.slow
def test_each_pair_is_that_of_a_race_of_two_with_its_share_of_alpha(tmp_path: Path) -> None:
    """Verdicts are those of races of two at alpha / 3, whose next look may come elsewhere; nothing is asked twice."""
    store = str(tmp_path / "s.sqlite")
    whole = race_several(MODELS, "demo_facts", RaceOptions(alpha=0.06), store=store)
    assert [pair.state.verdict for pair in whole.pairs][:2] == ["first", "first"]
    for (first, second), pair in zip(((0, 1), (0, 2), (1, 2)), whole.pairs, strict=True):
        alone = race_models(
            "fake", "fake", "demo_facts", RaceOptions(alpha=0.02), first_args=MODELS[first][1],
            second_args=MODELS[second][1], store=str(tmp_path / "other.sqlite"),
        )  # fmt: skip
        assert pair.state.verdict == alone.state.verdict
        assert abs(pair.state.n_seen - alone.state.n_seen) <= 0.5 * alone.state.n_seen
        if pair.state.n_seen == alone.state.n_seen:
            assert pair.state == alone.state
    again = race_several(MODELS, "demo_facts", RaceOptions(alpha=0.06), store=store)
    assert [pair.state for pair in again.pairs] == [pair.state for pair in whole.pairs]
    with Store.open(store) as opened:
        asked = {row.run_id: row.n_samples for row in opened.runs()}
        assert all(row.n_outputs == 4 * row.n_samples for row in opened.runs())
    best = max(pair.state.n_seen for pair in whole.pairs[:2])
    assert asked[whole.pairs[0].run_ids[0]] == best < whole.pairs[2].state.n_seen


@pytest.mark.slow
def test_a_stored_run_and_refusals(tmp_path: Path) -> None:
    """From the second on a run may be named; the same model twice and one alone are refused."""
    store = str(tmp_path / "s.sqlite")
    base = assaymark.evaluate("fake", "demo_facts", model_args=MODELS[2][1], store=store)
    outcome = race_several([*MODELS[:2], (base.id, "")], "demo_facts", store=store)
    assert outcome.pairs[1].run_ids[1] == base.id
    assert outcome.pairs[1].state.verdict == "first"
    with pytest.raises(UsageError, match="two of the models are the same"):
        race_several([MODELS[0], MODELS[1], MODELS[0]], "demo_facts", store=store)
    with pytest.raises(UsageError, match="two models or more"):
        race_several(MODELS[:1], "demo_facts", store=store)


@pytest.mark.slow
def test_the_command_prints_each_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each, one about all; undecided within a budget is exit code 1, failed questions 5."""
    words = ["race", "fake:accuracy=0.85", "fake:accuracy=0.6,seed=2", "fake:accuracy=0.5,seed=3", "-t", "demo_facts"]
    store = ["--store", str(tmp_path / "s.sqlite")]
    assert main([*words, *store, "--budget", "60"]) == 1
    printed = capsys.readouterr()
    assert "any of the 3 verdicts is wrong about this benchmark is at most 5%" in printed.out
    assert "of 3 pairs undecided" in printed.err
    assert main([*words, *store, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["pairs"]) == 3
    words[1] += ",fail=0.05"
    assert main([*words, *store, "--quiet"]) == 5
    assert "could not be answered" in capsys.readouterr().err
