"""Published agreement of judges with people, recomputed from the published votes to the printed digit."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.judges.agreement import by_pair, majority
from assaymark.judges.judge_votes import votes_in_file
from assaymark.judges.report import JudgeReport, VoteFileOptions, judge_agreement, length_slope

MT_BENCH = {  # table 5: GPT-4 and people, people and people, on three verdicts and on decisive ones
    "1": [(886, 1343), (454, 721), (727, 859), (388, 479)],
    "2": [(871, 1325), (471, 707), (731, 864), (388, 474)],
}
PANDALM = {  # wins of the first, of the second, ties, by the majority of three people
    ("llama-7b", "bloom-7b"): (72, 28, 11), ("llama-7b", "cerebras-gpt-6.7B"): (80, 24, 6),
    ("llama-7b", "opt-7b"): (71, 24, 11), ("llama-7b", "pythia-6.9b"): (58, 27, 9),
    ("bloom-7b", "cerebras-gpt-6.7B"): (59, 30, 11), ("bloom-7b", "opt-7b"): (43, 35, 11),
    ("bloom-7b", "pythia-6.9b"): (47, 49, 11), ("cerebras-gpt-6.7B", "opt-7b"): (33, 49, 9),
    ("cerebras-gpt-6.7B", "pythia-6.9b"): (27, 53, 11), ("opt-7b", "pythia-6.9b"): (32, 53, 15),
}  # fmt: skip


@pytest.fixture(scope="module")
def votes(shared_dir: Path) -> Path:
    """Return the folder of published votes."""
    return shared_dir / "data" / "arena"


@pytest.fixture(scope="module")
def gpt4(votes: Path) -> JudgeReport:
    """Return the report on MT-bench's GPT-4, beside the experts (without the paper's authors)."""
    options = VoteFileOptions(without=("author_*",))
    return judge_agreement(str(votes / "mtbench/gpt4_pair.jsonl"), votes / "mtbench/human.jsonl", options,
                           judge_model="gpt-4")  # fmt: skip


@pytest.mark.parametrize("turn", ["1", "2"])
def test_mt_benchs_table_5(gpt4: JudgeReport, turn: str) -> None:
    """All eight counts of agreement, each with the number of comparisons it is of."""
    result = gpt4.parts[turn]
    shares = [result.judge, result.people, result.judge_decisive, result.people_decisive]
    assert [(share.n_agreeing, share.n) for share in shares] == MT_BENCH[turn]


def test_what_is_said_about_gpt4(gpt4: JudgeReport) -> None:
    """It agrees with people as often as they do; it prefers its own answers more than people do."""
    assert gpt4.trust.startswith(
        "This judge can be trusted here as one more person could: it agrees with people in 65.9%"
    )
    assert gpt4.own is not None
    assert gpt4.own.model == "gpt-4"
    assert gpt4.own.difference.low is not None
    assert gpt4.own.difference.low > 0.05
    assert gpt4.judge_first is None  # the file has every two models in one order only


def test_corrected_win_rates_are_nearer_to_peoples(gpt4: JudgeReport) -> None:
    """GPT-4's own win rates are wider apart than people's; the prediction-powered ones hold people's."""
    for rate in gpt4.rates:
        assert rate.people is not None
        assert rate.ppi is not None
        assert rate.ppi.low is not None
        assert rate.ppi.high is not None
        assert rate.ppi.low <= rate.people.value <= rate.ppi.high
    gaps = [abs(rate.judge.value - rate.people.value) for rate in gpt4.rates if rate.people is not None]
    assert max(gaps) > 0.1


def test_krippendorffs_alpha_of_mt_benchs_people(votes: Path) -> None:
    """0.485 over all people, as published analyses of these votes have it."""
    result = judge_agreement(str(votes / "mtbench/gpt4_pair.jsonl"), votes / "mtbench/human.jsonl")
    assert result.agreement.alpha is not None
    assert result.agreement.alpha.value == pytest.approx(0.485, abs=0.0005)


@pytest.mark.parametrize(("column", "accuracy"), [("gpt35", 0.698), ("pandalm7b", 0.668)])
def test_pandalms_accuracies(votes: Path, column: str, accuracy: float) -> None:
    """Agreement with the majority over all 999 items (no verdict is not agreement), and of two annotators: 0.920."""
    path = votes / "human_pairwise/pandalm_testset_v1_votes.csv"
    options = VoteFileOptions({"winner": column}, missing=("garbage",))
    result = judge_agreement(str(path), path, options)
    most = result.agreement.with_majority
    assert most.n + result.n_without_verdict == 999
    assert round(most.n_agreeing / 999, 3) == accuracy
    assert result.agreement.people.estimate is not None
    assert round(result.agreement.people.estimate.value, 3) == 0.920


def test_pandalms_majorities(votes: Path) -> None:
    """The published table of all ten pairs of models."""
    people = votes_in_file(votes / "human_pairwise/pandalm_testset_v1_votes.csv").votes
    table: dict[tuple[str, str], Counter[float]] = {}
    for key, of_pair in by_pair(people).items():
        most = majority(of_pair)
        assert most is not None
        table.setdefault(key[1:], Counter())[most.value] += 1
    for (first, second), counts in PANDALM.items():
        result = table[min(first, second), max(first, second)]
        wins = (result[1.0], result[0.0]) if first < second else (result[0.0], result[1.0])
        assert (*wins, result[0.5]) == counts


def test_people_prefer_longer_answers(votes: Path) -> None:
    """On PandaLM's items the slope on length is positive, and clearly so; its judges' too."""
    path = votes / "human_pairwise/pandalm_testset_v1_votes.csv"
    for each in (votes_in_file(path), votes_in_file(path, {"winner": "gpt35"}, ("garbage",))):
        slope = length_slope(each.votes)
        assert slope is not None
        assert slope.low is not None
        assert slope.low > 0


def test_faireval_has_people_only(votes: Path) -> None:
    """Its file has human labels but no judge's verdicts; in other words than the models' names, which is said."""
    path = votes / "human_pairwise/faireval_vicuna80_human.csv"
    with path.open(newline="") as stream:
        labels = Counter(row["human"] for row in csv.DictReader(stream))
    assert (sum(labels.values()), set(labels)) == (80, {"CHATGPT", "VICUNA13B", "TIE"})
    with pytest.raises(DataError, match="row 1: the verdict is 'CHATGPT'; expected model_a, model_b, tie, gpt35"):
        votes_in_file(path, {"winner": "human"})


def test_llmbars_published_accuracies(votes: Path) -> None:
    """Its file holds evaluators' statistics only: those the papers quote are there to the printed digit."""
    with (votes / "human_pairwise/llmbar_published_evaluator_stats.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    shares = {f"{float(row['accuracy_avg_pct']):.1f}" for row in rows if row["subset"] == "Adversarial/Neighbor"
              and row["evaluator"] == "GPT-4"}  # fmt: skip
    assert {"78.7", "85.4"} <= shares


def test_the_command_prints_the_report(votes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As a table and as JSON; a file that does not exist is one line."""
    files = [str(votes / "mtbench/gpt4_pair.jsonl"), "--human", str(votes / "mtbench/human.jsonl")]
    assert main(["judge", "agreement", *files, "--without", "author_*", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["parts"]["1"]["judge"]["n_agreeing"] == 886
    assert main(["judge", "agreement", *files]) == 0
    assert "Krippendorff's alpha of all people" in capsys.readouterr().out
    assert main(["judge", "agreement", files[0], "--human", "absent.csv"]) == 2
    assert "file not found: absent.csv" in capsys.readouterr().err
