"""LLM AutoEval's Markdown summaries, as YALL's leaderboard reads them from gists.

The file in logs/yall holds the published results of occiglot/occiglot-7b-de-en-instruct, with the averages that the
script printed.
"""

from pathlib import Path

import pytest

from assaymark.errors import DataError
from assaymark.interop.read_imported import read_imported
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.site import Site

GIST = Path(__file__).parent / "logs" / "yall" / "occiglot-7b-de-en-instruct.md"
PRINTED = {"AGIEval": 34.1, "GPT4All": 69.15, "TruthfulQA": 49.38, "Bigbench": 39.06}


def test_a_gist_becomes_a_row_with_the_averages_that_it_prints(tmp_path: Path) -> None:
    """Columns and average of the Nous suite, to the digit printed; marked reported, with errors."""
    (tmp_path / "gists").mkdir()
    (tmp_path / "gists" / "a.md").write_text(GIST.read_text())
    (tmp_path / "board.yaml").write_text("title: YALL\nsuite: nous\nresults: gists\n")
    site = Site([read_board(tmp_path / "board.yaml")])
    table = site.table(site.board("board"))
    (row,) = [each for each in table.rows if not each.is_baseline]
    assert (row.model, row.origin) == ("occiglot/occiglot-7b-de-en-instruct", "reported")
    results = {column.title: row.cells[column.key].number for column in table.columns}
    assert {title: round(100 * number.value, 2) for title, number in results.items()} == PRINTED
    assert row.average is not None
    assert 100 * row.average.number.value == pytest.approx(47.92, abs=0.005)
    assert results["TruthfulQA"].stderr == pytest.approx(0.0151)


def test_tasks_and_metrics_have_our_names() -> None:
    """TruthfulQA's two metrics are two tasks, BIG-bench's are those of the suite."""
    run = read_imported(GIST)
    values = {(estimate.task, estimate.metric): estimate.value for estimate in run.estimates}
    assert values["truthfulqa_mc2_2023", "acc"] == pytest.approx(0.4938)
    assert values["truthfulqa_mc1", "acc"] == pytest.approx(0.328)
    assert values["nous_bigbench_navigate", "multiple_choice_grade"] == pytest.approx(0.5)
    assert values["agieval_lsat_ar", "acc_norm"] == pytest.approx(0.2)
    assert len(values) == 16 + 12 + 2 + 19


def test_shares_and_other_headings_are_read_alike(tmp_path: Path) -> None:
    """Older files have shares, an underscore for the plus-minus sign, and a column before the model's."""
    (tmp_path / "old.md").write_text(
        "|Benchmark|Model|agieval|Average|\n|-|-|-|-|\n|nous|My-Model|37.2|37.2|\n\n```\n"
        "|Task|Version|Metric|Value | |Stderr|\n|-|-|-|-|-|-|\n|piqa|0|acc|0.8232|_ |0.0089|\n"
        "| | |acc_norm|0.8373|_ |0.0086|\n"
        "```\nAverage: 74.18\n"
    )
    run = read_imported(tmp_path / "old.md")
    assert run.plan.model.name == "My-Model"
    assert [(estimate.metric, estimate.value, estimate.stderr) for estimate in run.estimates] == [
        ("acc", 0.8232, 0.0089),
        ("acc_norm", 0.8373, 0.0086),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [("|Task|Version|Metric|Value|\n|-|-|-|-|\n|piqa|0|acc|1|\n", "names no model"),
     ("|Model|AGIEval|\n|-|-|\n|m|1|\n\n|Task|Version|Metric|Value|\n|-|-|-|-|\n|piqa|0|acc|high|\n", "piqa is 'high'"),
     ("# Notes\n", "in no supported format")],
)  # fmt: skip
def test_other_markdown_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    """A table without a model, a value that is not a number, and a file without tables."""
    (tmp_path / "notes.md").write_text(text)
    with pytest.raises(DataError, match=said) as raised:
        read_imported(tmp_path / "notes.md")
    assert "\n" not in str(raised.value)
