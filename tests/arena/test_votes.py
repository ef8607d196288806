"""Files of votes: what is read, what is refused, what is left out and counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalstone.arena.vote_files import read_votes, votes_in
from evalstone.arena.votes import Votes
from evalstone.datasets.rows import Rows
from evalstone.errors import DataError, UnknownName, UsageError
from tests.conftest import ROOT

VOTE: dict[str, Any] = {"model_a": "x", "model_b": "y", "winner": "model_a"}


def read(rows: list[dict[str, Any]], **asked: Any) -> Votes:
    """Return the votes that rows hold."""
    return votes_in(Rows.of(rows), **asked)


def outcomes(rows: list[dict[str, Any]]) -> list[float]:
    """Return the outcomes that rows hold."""
    return [float(one) for one in read(rows).battles.outcome]


def test_verdicts_in_every_spelling() -> None:
    """Sides, their short names, the winner's name and all kinds of ties are understood, whatever their case."""
    said = ["model_a", "A", "left", "x", "model_b", "b", "Right", "y", "tie", "tie (bothbad)", "both_bad",
            "tie (inconsistent)"]  # fmt: skip
    assert outcomes([{**VOTE, "winner": word} for word in said]) == [1.0] * 4 + [0.0] * 4 + [0.5] * 4


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
    """A spelling that is not known names its row and what was expected: leaving it out would turn the board."""
    with pytest.raises(DataError, match=r"row 2 has the winner 'modelB'; expected model_a.*\(x, y\)"):
        outcomes([VOTE, {**VOTE, "winner": "modelB"}])


def test_what_is_no_vote_is_left_out_and_counted() -> None:
    """A model against itself, a row without a verdict and one without a model are counted by reason."""
    changed: list[dict[str, Any]] = [{}, {"model_b": "x"}, {"winner": None}, {"model_a": None, "winner": "y"}]
    votes = read([{**VOTE, **change} for change in changed])
    assert votes.left_out == {"of a model against itself": 1, "without a verdict": 1, "without a model": 1}
    assert (len(votes.battles), votes.n_rows) == (1, 4)
    with pytest.raises(DataError, match="none of 1 rows is a vote: 1 without a verdict"):
        outcomes([{**VOTE, "winner": ""}])


def test_missing_columns_and_empty_files_are_told(tmp_path: Path) -> None:
    """The message names the columns there are and those expected; a header alone is no vote."""
    with pytest.raises(DataError, match="has columns a, b; expected model_a, model_b"):
        votes_in(Rows.of([], {"a": None, "b": None}))
    empty = tmp_path / "votes.csv"
    empty.write_text("model_a,model_b,winner\n")
    with pytest.raises(DataError, match="has no rows"):
        read_votes(empty)
    with pytest.raises(DataError, match="no data file"):
        read_votes(tmp_path / "nowhere.csv")


def test_csv_json_lines_and_parquet_are_one(tmp_path: Path) -> None:
    """The same votes in three formats, under other names of columns, are the same battles."""
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
        assert "prompt from 'question_id'" in votes.columns.told()


def test_a_vote_without_a_prompt_stands_alone() -> None:
    """Rows whose prompt is unknown are no group of their own."""
    rows: list[dict[str, Any]] = [{**VOTE, "prompt": prompt} for prompt in (1, None, 1, None)]
    votes = read(rows)
    labels = votes.labels["prompt"].tolist()
    assert labels[0] == labels[2]
    assert len(set(labels)) == 3


def test_repeated_rows_are_counted_where_prompt_and_judge_are_known() -> None:
    """Equal rows are repetitions only if they could have differed: without a judge nothing is claimed."""
    known = {**VOTE, "prompt": 1, "judge": "j"}
    assert read([known, known, {**known, "judge": "k"}]).n_repeated == 1
    assert read([VOTE, VOTE]).n_repeated is None


def test_votes_in_one_language() -> None:
    """Only they are used; an unknown language is answered with the nearest, a file without the column says so."""
    rows = [{**VOTE, "language": language} for language in ("English", "German", "German")]
    assert len(read(rows, language="German").battles) == 2
    with pytest.raises(UnknownName, match="nearest: German"):
        read(rows, language="Germn")
    with pytest.raises(DataError, match="no column 'language'"):
        read([VOTE], language="German")


def test_style_where_there_is_none_is_a_wrong_call() -> None:
    """Controlling for style says which columns would tell of it."""
    with pytest.raises(UsageError, match="tokens_a and tokens_b"):
        read([VOTE], style=True).with_style()


def test_votes_without_style_are_left_out_of_a_controlled_rating() -> None:
    """A vote whose answers' length is unknown is not taken for one of equal lengths."""
    rows = [{**VOTE, "tokens_a": 5, "tokens_b": tokens} for tokens in (7, None)]
    assert len(read(rows, style=True).with_style().battles) == 1


ANNOTATED = {"idx": 7, "cmp_key": "x-7b_y-7b", "response1": "a", "response2": "bb", "annotator1": "1"}


def test_a_column_for_each_annotator_is_a_vote_each() -> None:
    """PandaLM's rows give one vote for each annotator, in which 0 is a tie, with prompt, judge and answers."""
    votes = read([{**ANNOTATED, "annotator2": "2", "annotator3": 0}], style=True)
    assert votes.models == ("x-7b", "y-7b")
    assert [float(one) for one in votes.battles.outcome] == [1.0, 0.0, 0.5]
    assert votes.labels["prompt"].tolist() == [0, 0, 0]
    assert len(set(votes.labels["judge"].tolist())) == 3
    assert votes.styles["length"].tolist() == [[1.0, 2.0]] * 3
    with pytest.raises(DataError, match="row 1 has the cmp_key 'x_y_z'"):
        read([{**ANNOTATED, "cmp_key": "x_y_z"}])


def test_preferences_between_two_generators() -> None:
    """AlpacaEval's preference is 1 for the first, 2 for the second; in between the nearer one wins, 0 and 1.5 tie."""
    given = [1.0, 2.0, 1.2, 1.9, 1.5, 0.0, None]
    votes = read([{"generator_1": "x", "generator_2": "y", "preference": one} for one in given])
    assert [float(one) for one in votes.battles.outcome] == [1.0, 0.0, 1.0, 0.0, 0.5, 0.5]
    assert votes.left_out == {"without a verdict": 1}
    assert "nearer" in votes.columns.told()


def test_verdicts_in_both_orders() -> None:
    """MT-bench's g1_winner and g2_winner are a win where they agree, a tie where not, and no verdict on an error."""
    pairs = [("model_1", "model_1"), ("model_2", "model_2"), ("model_1", "model_2"), ("tie", "tie"), ("error", "tie")]
    rows = [{"model_1": "x", "model_2": "y", "g1_winner": one, "g2_winner": two} for one, two in pairs]
    votes = read(rows)
    assert [float(one) for one in votes.battles.outcome] == [1.0, 0.0, 0.5, 0.5]
    assert votes.left_out == {"without a verdict": 1}


def test_columns_of_other_names_are_named_by_the_user(tmp_path: Path) -> None:
    """`--columns` says what is what in a file that is not recognised, separated by semicolons; a wrong name is told."""
    path = tmp_path / "votes.csv"
    path.write_text("erste;zweite;urteil;frage\nx;y;a;1\nx;y;B;1\n", encoding="utf-8")
    columns = {"model_a": "erste", "model_b": "zweite", "winner": "urteil", "prompt": "frage"}
    votes = read_votes(path, columns=columns)
    assert [float(one) for one in votes.battles.outcome] == [1.0, 0.0]
    assert votes.labels["prompt"].tolist() == [0, 0]
    with pytest.raises(DataError, match="--columns model_a="):
        read_votes(path)
    with pytest.raises(UnknownName, match="nearest: urteil"):
        read_votes(path, columns={**columns, "winner": "urtiel"})


def test_real_votes_of_pandalm_are_recognised() -> None:
    """PandaLM's published test set gives 999 x 3 votes between five models."""
    path = ROOT.parent / "shared" / "data" / "WeOpenML" / "PandaLM_testset_v1" / "default" / "test.parquet"
    if not path.is_file():
        pytest.skip("PandaLM's test set is not here")
    votes = read_votes(path)
    assert (len(votes.models), votes.n_rows, len(votes.battles)) == (5, 2997, 2997)
