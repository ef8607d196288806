"""People's scores of the task cards as a board's row."""

from dataclasses import replace
from pathlib import Path

import pytest

from assaymark.errors import DataError
from assaymark.leaderboard.about import cited_human
from assaymark.leaderboard.board_files import board_of_suite, library_suites, read_board
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.table import BoardTable
from assaymark.limits.yaml_documents import load_yaml
from assaymark.tasks.catalog import LIBRARY

TABLE = "model,MMLU,PIQA,Tact\na/one,60,70,50\nb/two,95,96,97\n"


def table_of(folder: Path, baselines: str) -> BoardTable:
    """Return the table of a board over a published table."""
    (folder / "scores.csv").write_text(TABLE)
    (folder / "board.yaml").write_text(
        "title: Known\ntable: {file: scores.csv, format: csv, columns: {MMLU: MMLU, PIQA: PIQA, Tact: Tact}}\n"
        f"baselines: {baselines}\n"
    )
    site = Site([read_board(folder / "board.yaml")])
    return site.table(next(iter(site.boards.values())))


@pytest.mark.parametrize("listed", ["cards", "[cards, {name: Chess club, source: its minutes, scores: {Tact: 12}}]"])
def test_people_of_the_cards_are_a_marked_row_without_a_rank(tmp_path: Path, listed: str) -> None:
    """The row has the cards' numbers where a card has one, names each source, and takes no rank from a model."""
    table = table_of(tmp_path, listed)
    people = next(row for row in table.rows if row.model == "People (cited)")
    cards = {name: load_yaml((LIBRARY / f"tasks/{name}/{name}.card.yaml").read_bytes()) for name in ("mmlu", "piqa")}
    assert {key: cell.number.value for key, cell in people.cells.items()} == pytest.approx(
        {name: card["human"]["value"] for name, card in cards.items()}
    )
    assert all(card["human"]["source"] in people.citation for card in cards.values())
    assert people.is_baseline
    ranks = {row.model: int(rank) for row, rank in zip(table.rows, table.index.ranks.rank.tolist(), strict=True)}
    assert ranks["b/two"] == 1
    assert ranks["People (cited)"] == 0
    assert ("Chess club" in ranks) == ("Chess" in listed)


def test_a_suites_rule_counts_people_too() -> None:
    """On a normalised board people's score is normalised as a model's is: (value - chance) / (1 - chance)."""
    suite = library_suites()["open-llm-v2"]
    board = replace(board_of_suite(suite), has_card_baselines=True)
    site = Site([board])
    people = next(row for row in site.table(board).rows if row.model == "People (cited)")
    (gpqa,) = [member for member in suite.members if member.task == "leaderboard_gpqa"]
    column = next(column for column in board.score_columns if column.title == gpqa.column)
    human = cited_human("leaderboard_gpqa")
    assert human is not None
    assert people.cells[column.key].number.value == pytest.approx((human.value - 0.25) / 0.75)


def test_people_of_a_benchmark_are_not_those_of_its_subjects() -> None:
    """MMLU's card serves its subjects, but experts' 89.8% is an estimate for the whole."""
    assert cited_human("mmlu") is not None
    assert cited_human("mmlu_anatomy") is None
    assert cited_human("hellaswag_de") is None


def test_other_words_are_refused(tmp_path: Path) -> None:
    """A word that is not cards is one line with what was expected."""
    with pytest.raises(DataError, match="expected a list, or the word cards"):
        table_of(tmp_path, "card")
    with pytest.raises(DataError, match="lacks its name or source"):
        table_of(tmp_path, "[card]")
