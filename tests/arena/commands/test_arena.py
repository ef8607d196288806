"""The command `assaymark arena rate`."""

import csv
import io
import json
from pathlib import Path

import pytest

from assaymark.cli.main import main
from tests.cli.test_bad_input import run_command


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    """Return a small file of votes: two rated models, one that won all, and one invalid row."""
    path = tmp_path / "votes.csv"
    lines = [f"{'small,large' if n % 2 else 'large,small'},{'small' if n % 3 == 0 else 'large'},{n}" for n in range(24)]
    lines += ["best,small,best,30", "best,best,tie,31"]
    path.write_text("\n".join(["model_a,model_b,winner,prompt", *lines]) + "\n")
    return path


def test_the_table_states_clusters_and_exclusions(votes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ratings, separately listed models, excluded rows, and the clusters of the intervals are in the output."""
    assert main(["arena", "rate", str(votes)]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for text in ("large 1,060", "clustered by prompt", "24 prompts", "won its one vote against rated models",
                 "excluded: 1 row of a model against itself"):  # fmt: skip
        assert text in output


def test_json_csv_and_markdown_hold_the_same_ratings(votes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The three formats have the same numbers; the anchor has its rating and no interval."""
    words = ["arena", "rate", str(votes), "--anchor", "small=1200"]
    assert main([*words, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert {each["model"]: round(each["rating"]) for each in output["ratings"]} == {"large": 1320, "small": 1200}
    assert output["file"]["left_out"] == {"of a model against itself": 1}
    assert main([*words, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["rating"]) for row in rows] == [item["rating"] for item in output["ratings"]]
    assert rows[1]["low"] == ""
    assert main([*words, "--markdown"]) == 0
    assert "| small | 1,200 | anchor |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        (["nowhere.csv"], 3, "no data file"),
        (["VOTES", "--anchor", "smal=1000"], 2, "nearest: small"),
        (["VOTES", "--anchor", "small=x"], 2, "such as MODEL=1000"),
        (["VOTES", "--by", "judge"], 2, "clustered by prompt, vote"),
        (["VOTES", "--by", "promt"], 2, "'prompt', 'judge', 'vote'"),
        (["VOTES", "--style"], 2, "tokens_a"),
        (["VOTES", "--confidence", "95"], 2, "such as 0.95"),
        (["VOTES", "--language", "German"], 3, "no column 'language'"),
        (["VOTES", "--json", "--csv"], 2, "choose one"),
        (["VOTES", "--over", "time"], 2, "none of category, language and time"),
        (["VOTES", "--ties", "davidson"], 3, "rate with ties as half wins"),
        (["VOTES", "--ties", "davidson", "--interval", "bootstrap"], 2, "use the sandwich"),
        (["VOTES", "--ties", "davidson", "--reweight"], 2, "half wins"),
        (["VOTES", "--matrix", "--over", "time", "--csv"], 2, "choose one"),
    ],
)
def test_invalid_calls_are_refused(
    votes: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, expected: str
) -> None:
    """The error is one line with what was expected."""
    result, said = run_command(capsys, "arena", "rate", *(str(votes) if word == "VOTES" else word for word in words))
    assert (result, expected in said) == (code, True), said


@pytest.mark.parametrize(
    ("words", "said"),
    [(["arena", "serve", "--answers", "nosuch.json"], "--answers 'nosuch.json': no such file or directory"),
     (["arena", "serve", "--answers", "no/such"], "no such file or directory"),
     (["study", "init", "my.yaml"], "'my.yaml' is the name of a file; name a folder")],
)  # fmt: skip
def test_names_of_files_and_folders_are_told_apart(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file of answers is not looked for among the runs, and a study goes into a folder."""
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--endpoint", "a=http://127.0.0.1:1/v1"], "needs two models"),
        (["--endpoint", "a=http://127.0.0.1:1", "--endpoint", "a=http://127.0.0.1:2"], "two endpoints are called"),
        (["--endpoint", "a"], "expected NAME=URL"),
        (["--endpoint", "a=http://127.0.0.1:1", "--answers", "x.jsonl"], "give one"),
        (["--endpoint", "a=http://127.0.0.1:1", "--cadence", "0"], "--cadence 0"),
        (["--endpoint", "a=http://127.0.0.1:1", "--moderation", "none"], "unknown moderation 'none'"),
        (["--endpoint_key", "a=@key"], "--endpoint NAME=URL"),
    ],
)
def test_live_battles_that_cannot_be_served(
    words: list[str],
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line that names what is wrong, exit code 2, and no store is created."""
    pytest.importorskip("fastapi")
    place = tmp_path / "s.sqlite"
    code, said = run_command(capsys, "arena", "serve", *words, "--store", str(place))
    assert (code, expected in said) == (2, True), said
    assert not place.exists()


@pytest.fixture
def dated(tmp_path: Path) -> Path:
    """Return votes on three models in two months, with ties."""
    path = tmp_path / "dated.csv"
    lines = [
        f"{'xyz'[n % 3]},{'yzx'[n % 3]},{('model_a', 'model_b', 'tie', 'model_a')[n // 3 % 4]},{n},"
        f"2024-0{5 + n % 2}-01,{'code' if n % 5 else 'prose'}"
        for n in range(240)
    ]
    path.write_text("\n".join(["model_a,model_b,winner,prompt_id,tstamp,category", *lines]) + "\n")
    return path


def test_ties_matrix_influence_and_parts_are_in_table_and_json(dated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The circle of three models contradicts one scale; each option has its part in the table, Markdown and JSON."""
    words = ["arena", "rate", str(dated)]
    assert main([*words, "--matrix", "--influence", "--over", "time"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    for text in ("2024-05 2024-06", "won by 1 2 3", "chi-square", "Influence: without 1 vote", "Best: probability"):
        assert text in output
    assert main([*words, "--matrix", "--influence", "--over", "category", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["matrices"]["n_battles"] == [[0, 80, 80], [80, 0, 80], [80, 80, 0]]
    assert printed["matrices"]["win_fraction"][0][0] is None
    assert printed["matrices"]["p_of_fit"] < 0.001
    assert [(part["name"], part["n_votes"]) for part in printed["parts"]] == [("code", 192), ("prose", 48)]
    assert printed["top_votes"]["n_votes"] == len(printed["top_votes"]["rows"]) >= 1
    assert main([*words, "--ties", "davidson", "--over", "time", "--matrix", "--markdown"]) == 0
    output = capsys.readouterr().out
    assert "model on 240 votes (60 ties), log ν" in output
    assert "## By time" in output
    assert main([*words, "--over", "time", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["time"] for row in rows] == ["2024-05"] * 3 + ["2024-06"] * 3
    assert main([*words, "--matrix", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["n_battles"] for row in rows] == ["80"] * 3


def test_a_folder_is_no_file_of_votes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error says that it is a folder, and which files are read."""
    (tmp_path / "votes").mkdir()
    code, said = run_command(capsys, "arena", "rate", str(tmp_path / "votes"))
    assert (code, "votes is a folder; expected a file (.parquet, .jsonl" in said) == (3, True), said
