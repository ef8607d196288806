"""Files of votes: what is read, refused, or excluded and counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.arena.vote_files import read_votes, votes_in
from assaymark.arena.votes import Votes
from assaymark.datasets.rows import Rows
from assaymark.errors import DataError, UnknownName, UsageError
from tests.conftest import ROOT

VOTE: dict[str, Any] = {"model_a": "x", "model_b": "y", "winner": "model_a"}


def read(rows: list[dict[str, Any]], **options: Any) -> Votes:
    """Return the votes in rows."""
    return votes_in(Rows.of(rows), **options)


def outcomes(rows: list[dict[str, Any]]) -> list[float]:
    """Return the outcomes in rows."""
    return [float(each) for each in read(rows).battles.outcome]


def test_verdicts_in_every_spelling() -> None:
    """Sides, their short names, the winner's name and all kinds of ties are recognised in any case."""
    words = ["model_a", "A", "left", "x", "model_b", "b", "Right", "y", "tie", "tie (bothbad)", "both_bad",
            "tie (inconsistent)"]  # fmt: skip
    assert outcomes([{**VOTE, "winner": word} for word in words]) == [1.0] * 4 + [0.0] * 4 + [0.5] * 4


def test_one_column_for_each_verdict() -> None:
    """winner_model_a, winner_model_b and winner_tie, as 0 and 1, are a verdict too."""
    names = ("winner_model_a", "winner_model_b", "winner_tie")
    rows: list[dict[str, Any]] = [
        {"model_a": "x", "model_b": "y", **dict(zip(names, marks, strict=True))}
        for marks in ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    assert outcomes(rows) == [1.0, 0.0, 0.5]
    with pytest.raises(DataError, match="winner 'model_a and model_b'"):
        outcomes([{"model_a": "x", "model_b": "y", **dict(zip(names, (1, 1, 0), strict=True))}])


def test_an_unknown_verdict_refuses_the_file() -> None:
    """The error for an unknown verdict names its row and what was expected; excluding it would bias the ratings."""
    with pytest.raises(DataError, match=r"row 2 has the winner 'modelB'; expected model_a.*\(x, y\)"):
        outcomes([VOTE, {**VOTE, "winner": "modelB"}])


def test_rows_that_are_not_votes_are_excluded_and_counted() -> None:
    """A model against itself, a row without a verdict and one without a model are counted by reason."""
    changed: list[dict[str, Any]] = [{}, {"model_b": "x"}, {"winner": None}, {"model_a": None, "winner": "y"}]
    votes = read([{**VOTE, **change} for change in changed])
    assert votes.left_out == {"of a model against itself": 1, "without a verdict": 1, "without a model": 1}
    assert (len(votes.battles), votes.n_rows) == (1, 4)
    with pytest.raises(DataError, match="none of 1 rows is a vote: 1 without a verdict"):
        outcomes([{**VOTE, "winner": ""}])


@pytest.mark.parametrize("no", [False, 0, 0.0, "False", "0", "no"])
def test_votes_that_count_in_no_rating_are_left_out_in_any_spelling(no: object) -> None:
    """A file that another tool wrote has 0 where ours has false; what is neither is an error, and no word counts."""
    votes = read([VOTE, {**VOTE, "is_counted": True}, {**VOTE, "is_counted": no}])
    assert (len(votes.battles), votes.left_out) == (2, {"with a false 'is_counted'": 1})
    with pytest.raises(DataError, match="row 2 has the is_counted 'maybe'; expected true or false"):
        read([VOTE, {**VOTE, "is_counted": "maybe"}])


def test_missing_columns_and_empty_files_are_errors(tmp_path: Path) -> None:
    """The message names the existing and the expected columns; a header alone is not a vote."""
    with pytest.raises(DataError, match="has columns a, b; expected model_a, model_b"):
        votes_in(Rows.of([], {"a": None, "b": None}))
    empty = tmp_path / "votes.csv"
    empty.write_text("model_a,model_b,winner\n")
    with pytest.raises(DataError, match="has no rows"):
        read_votes(empty)
    (tmp_path / "votes.jsonl").write_text("")
    with pytest.raises(DataError, match="has no rows"):
        read_votes(tmp_path / "votes.jsonl")
    with pytest.raises(DataError, match="no data file"):
        read_votes(tmp_path / "nowhere.csv")


def test_csv_json_lines_and_parquet_are_equivalent(tmp_path: Path) -> None:
    """The same votes in three formats, with other column names, are the same battles."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [{"left": "x", "right": "y", "winner": "right", "question_id": 81, "worker": 5},
            {"left": "y", "right": "x", "winner": "tie", "question_id": 82, "worker": 5}]  # fmt: skip
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "v.csv").write_text("left,right,winner,question_id,worker\nx,y,right,81,5\ny,x,tie,82,5\n")
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "v.parquet")
    for name in ("v.jsonl", "v.csv", "v.parquet"):
        votes = read_votes(tmp_path / name)
        assert votes.models == ("x", "y")
        assert votes.battles.outcome.tolist() == [0.0, 0.5]
        assert votes.labels["prompt"].tolist() == [0, 1]
        assert votes.labels["judge"].tolist() == [0, 0]
        assert "prompt from 'question_id'" in votes.columns.describe()


def test_a_vote_without_a_prompt_is_a_cluster_of_its_own() -> None:
    """Rows with an unknown prompt are not one cluster."""
    rows: list[dict[str, Any]] = [{**VOTE, "prompt": prompt} for prompt in (1, None, 1, None)]
    votes = read(rows)
    labels = votes.labels["prompt"].tolist()
    assert labels[0] == labels[2]
    assert len(set(labels)) == 3


def test_repeated_rows_are_counted_if_prompt_and_judge_are_known() -> None:
    """Without a judge, equal rows may be votes of different people, so no count is reported."""
    known = {**VOTE, "prompt": 1, "judge": "j"}
    assert read([known, known, {**known, "judge": "k"}]).n_repeated == 1
    assert read([VOTE, VOTE]).n_repeated is None


def test_votes_in_one_language() -> None:
    """Only these are used; the error for an unknown language suggests the nearest, a missing column is an error."""
    rows = [{**VOTE, "language": language} for language in ("English", "German", "German")]
    assert len(read(rows, language="German").battles) == 2
    with pytest.raises(UnknownName, match="nearest: German"):
        read(rows, language="Germn")
    with pytest.raises(DataError, match="no column 'language'"):
        read([VOTE], language="German")


def test_style_control_without_style_is_an_error() -> None:
    """The error names the columns that would provide it."""
    with pytest.raises(UsageError, match="tokens_a and tokens_b"):
        read([VOTE], style=True).with_style()


def test_votes_without_style_are_excluded_from_a_controlled_rating() -> None:
    """A vote whose answers' length is unknown is not treated as one of equal lengths."""
    rows = [{**VOTE, "tokens_a": 5, "tokens_b": tokens} for tokens in (7, None)]
    assert len(read(rows, style=True).with_style().battles) == 1


ANNOTATED = {"idx": 7, "cmp_key": "x-7b_y-7b", "response1": "a", "response2": "bb", "annotator1": "1"}


def test_each_annotators_column_is_a_vote() -> None:
    """PandaLM's rows have one vote per annotator, in which 0 is a tie, with prompt, judge and answers."""
    votes = read([{**ANNOTATED, "annotator2": "2", "annotator3": 0}], style=True)
    assert votes.models == ("x-7b", "y-7b")
    assert [float(each) for each in votes.battles.outcome] == [1.0, 0.0, 0.5]
    assert votes.labels["prompt"].tolist() == [0, 0, 0]
    assert len(set(votes.labels["judge"].tolist())) == 3
    assert votes.styles["length"].tolist() == [[1.0, 2.0]] * 3
    with pytest.raises(DataError, match="row 1 has the cmp_key 'x_y_z'"):
        read([{**ANNOTATED, "cmp_key": "x_y_z"}])


def test_preferences_between_two_generators() -> None:
    """AlpacaEval's preference is 1 for the first, 2 for the second; in between the nearer one wins, 0 and 1.5 tie."""
    inputs = [1.0, 2.0, 1.2, 1.9, 1.5, 0.0, None]
    votes = read([{"generator_1": "x", "generator_2": "y", "preference": each} for each in inputs])
    assert [float(item) for item in votes.battles.outcome] == [1.0, 0.0, 1.0, 0.0, 0.5, 0.5]
    assert votes.left_out == {"without a verdict": 1}
    assert "nearer" in votes.columns.describe()


def test_verdicts_in_both_orders() -> None:
    """MT-bench's g1_winner and g2_winner are a win if they agree, a tie if not, and no verdict after an error."""
    pairs = [("model_1", "model_1"), ("model_2", "model_2"), ("model_1", "model_2"), ("tie", "tie"), ("error", "tie")]
    rows = [{"model_1": "x", "model_2": "y", "g1_winner": entry, "g2_winner": two} for entry, two in pairs]
    votes = read(rows)
    assert [float(each) for each in votes.battles.outcome] == [1.0, 0.0, 0.5, 0.5]
    assert votes.left_out == {"without a verdict": 1}


def test_columns_of_other_names_are_named_by_the_user(tmp_path: Path) -> None:
    """`--columns` assigns the columns of a file that is not recognised; a wrong name is an error."""
    path = tmp_path / "votes.csv"
    path.write_text("erste;zweite;urteil;frage\nx;y;a;1\nx;y;B;1\n", encoding="utf-8")
    columns = {"model_a": "erste", "model_b": "zweite", "winner": "urteil", "prompt": "frage"}
    votes = read_votes(path, columns=columns)
    assert [float(each) for each in votes.battles.outcome] == [1.0, 0.0]
    assert votes.labels["prompt"].tolist() == [0, 0]
    with pytest.raises(DataError, match="--columns model_a="):
        read_votes(path)
    with pytest.raises(UnknownName, match="nearest: urteil"):
        read_votes(path, columns={**columns, "winner": "urtiel"})


def test_real_votes_of_pandalm_are_recognised() -> None:
    """PandaLM's published test set has 999 x 3 votes between five models."""
    path = ROOT.parent / "shared" / "data" / "WeOpenML" / "PandaLM_testset_v1" / "default" / "test.parquet"
    if not path.is_file():
        pytest.skip("PandaLM's test set is not here")
    votes = read_votes(path)
    assert (len(votes.models), votes.n_rows, len(votes.battles)) == (5, 2997, 2997)
