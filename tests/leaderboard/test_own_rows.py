"""Stored runs become rows: columns, averages, baselines and setups, checked against the runs' own estimates."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.about import command_of_board
from assaymark.leaderboard.board import ANY_METRIC
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.columns import billed_price
from assaymark.leaderboard.own_rows import estimates_of_member, rows_of_runs, setup_of
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.rows import BoardRow
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRun, StoredRuns
from assaymark.leaderboard.table import BoardTable
from assaymark.models.cost.prices import Price
from assaymark.store import Store
from assaymark.tasks.suites import Member
from assaymark.web.app import create_app
from tests.served import running

SUITE = """
name: pair
title: A pair
members:
  - {task: law, shots: 0, metric: acc, chance: 1/choices, column: Law}
  - {task: books, shots: 0, metric: acc, chance: 1/2, column: Books}
normalise: chance
reproduced: true
"""


def write_task(folder: Path, name: str, n: int, choices: str = "AB") -> Path:
    """Write n questions; the first choice is right in two of three."""
    path = folder / f"{name}.csv"
    head = ["question", *choices, "answer"]
    rows = [
        [f"{name} question {i}?", *(f"{c.lower()}{i}" for c in choices), choices[0 if i % 3 else 1]] for i in range(n)
    ]
    path.write_text("\n".join(",".join(row) for row in [head, *rows]) + "\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two tasks and a board of them."""
    write_task(tmp_path, "law", 30)
    write_task(tmp_path, "books", 20, "ABC")
    (tmp_path / "board.yaml").write_text("tasks: [law.csv, books.csv]\n")
    return tmp_path


def run(folder: Path, *words: str, tasks: str = "law.csv,books.csv", seed: int = 1) -> None:
    """Evaluate a fake model."""
    paths = ",".join(str(folder / name) for name in tasks.split(","))
    place = str(folder / "store.sqlite")
    assert (
        main(["run", "--model", "fake", "--model_args", f"seed={seed}", "--tasks", paths, "--store", place, *words])
        == 0
    )


def table_of(folder: Path, board: str = "board.yaml") -> tuple[BoardTable, StoredRuns]:
    """Return a board's table over the store."""
    runs = StoredRuns(Store.open_to_read(str(folder / "store.sqlite")))
    site = Site([read_board(folder / board)], runs)
    return site.table(next(iter(site.boards.values()))), runs


def test_a_group_that_lacks_a_tasks_value_has_no_score(folder: Path) -> None:
    """A model whose requests of one task failed is not ranked by the mean of the other tasks."""
    run(folder)
    (stored,) = table_of(folder)[1].runs()
    inside = [replace(each, details={**each.details, "path": ("pair",)}) for each in stored.estimates]
    lacking = [replace(inside[0], value=None), *inside[1:]]
    for metrics in ((ANY_METRIC,), ("acc",)):
        member = Member("pair", "pair", metrics)
        assert len(estimates_of_member(member, replace(stored, estimates=tuple(inside)))) == 2
        assert estimates_of_member(member, replace(stored, estimates=tuple(lacking))) == []


def models(table: BoardTable) -> list[BoardRow]:
    """Return the rows that are no baselines."""
    return [row for row in table.rows if not row.is_baseline]


def test_columns_and_average_are_the_runs_own_estimates(folder: Path) -> None:
    """A column is its task's primary estimate; the average their mean, with the error of independent columns."""
    run(folder)
    table, runs = table_of(folder)
    (row,) = models(table)
    primary = {estimate.task: estimate for estimate in runs.runs()[0].estimates if estimate.details.get("primary")}
    assert row.cells["law"].number.value == primary["law"].value
    assert row.cells["law"].n == 30
    assert row.average is not None
    law, books = (primary[name].value or 0.0 for name in ("law", "books"))
    assert row.average.number.value == pytest.approx((law + books) / 2, abs=1e-12)
    errors = [primary[name].stderr or 0.0 for name in ("law", "books")]
    assert row.average.number.stderr == pytest.approx((errors[0] ** 2 + errors[1] ** 2) ** 0.5 / 2, rel=1e-9)


def test_a_column_without_a_known_chance_has_no_normalised_score(folder: Path) -> None:
    """A raw score is on another scale: it is left out with a note, until the file states a chance."""
    (folder / "free.csv").write_text("question,answer\n" + "".join(f"What is {n}?,{n}\n" for n in range(20)))
    (folder / "mixed.yaml").write_text("tasks: [law.csv, free.csv]\nnormalise: chance\n")
    run(folder, tasks="law.csv,free.csv")
    table, runs = table_of(folder, "mixed.yaml")
    (row,) = models(table)
    raw = {estimate.task: estimate.value or 0.0 for estimate in runs.runs()[0].estimates}
    assert set(row.cells) == {"law"}
    assert row.cells["law"].number.value == pytest.approx(2 * raw["law"] - 1)
    assert row.average is not None
    assert row.average.n_columns == 1
    assert "free: what guessing scores is not known" in " ".join(row.notes)
    assert {str(each.cells["law"].number.value) for each in table.rows if each.model == "Random"} == {"0.0"}
    (folder / "mixed.yaml").write_text("tasks: [law.csv, {file: free.csv, chance: 0}]\nnormalise: chance\n")
    (row,) = models(table_of(folder, "mixed.yaml")[0])
    assert row.average is not None
    assert row.average.number.value == pytest.approx((2 * raw["law"] - 1 + raw["free"]) / 2)
    assert not row.notes


def test_runs_of_one_set_up_fill_a_row_together_and_a_missing_column_stays_empty(folder: Path) -> None:
    """One task alone makes a labelled partial average without a rank; the other run completes the row."""
    run(folder, tasks="law.csv")
    table, _ = table_of(folder)
    (row,) = models(table)
    assert "books" not in row.cells
    assert row.average is not None
    assert row.average.n_columns == 1
    assert table.index.ranks.rank.tolist()[0] == 0
    run(folder, tasks="books.csv")
    table, _ = table_of(folder)
    (row,) = models(table)
    assert set(row.cells) == {"law", "books"}
    assert len(row.run_ids) == 2
    assert table.index.ranks.rank.tolist()[0] == 1


def test_baselines_are_counted_on_the_data(folder: Path) -> None:
    """Random is the mean of 1/choices; the majority class is how often the commonest choice is right."""
    run(folder)
    table, _ = table_of(folder)
    rows = {row.model: row for row in table.rows if row.is_baseline}
    assert rows["Random"].cells["law"].number.value == pytest.approx(1 / 2)
    assert rows["Random"].cells["books"].number.value == pytest.approx(1 / 3)
    assert rows["Majority class"].cells["law"].number.value == pytest.approx(20 / 30)
    assert rows["Majority class"].cells["books"].number.value == pytest.approx(13 / 20)
    average = rows["Random"].average
    assert average is not None
    assert average.number.value == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_a_majority_is_not_counted_on_a_part(folder: Path) -> None:
    """Among five samples some choice is right more often than among all; what guessing scores is known of any part."""
    run(folder, "--limit", "5")
    table, _ = table_of(folder)
    rows = {row.model: row for row in table.rows if row.is_baseline}
    assert "law" in rows["Random"].cells
    assert "Majority class" not in rows or "law" not in rows["Majority class"].cells


def test_a_suites_rule_makes_the_number_that_the_run_has(folder: Path) -> None:
    """A board of a suite shows the run's stored composite; a row made of two runs comes to the same value."""
    (folder / "pair.yaml").write_text(SUITE)
    (folder / "of_suite.yaml").write_text("suite: pair.yaml\n")
    run(folder, tasks="law.csv,books.csv")
    made, _ = table_of(folder, "of_suite.yaml")
    (row,) = models(made)
    assert row.average is not None
    law, books = row.cells["law"].raw, row.cells["books"].raw
    assert law is not None
    assert books is not None
    due = ((law.value - 1 / 2) / (1 / 2) + (books.value - 1 / 2) / (1 / 2)) / 2
    assert row.average.number.value == pytest.approx(due, abs=1e-12)
    random = next(each for each in made.rows if each.model == "Random")
    assert random.cells["law"].number.value == pytest.approx(0.0)


def test_other_shots_are_not_taken_and_the_row_says_so(folder: Path) -> None:
    """A board of 0 shots does not show a run of 2 shots under the same name."""
    (folder / "pair.yaml").write_text(SUITE)
    (folder / "of_suite.yaml").write_text("suite: pair.yaml\n")
    run(folder, "--num_fewshot", "2", tasks="law.csv")
    run(folder, tasks="books.csv")
    table, _ = table_of(folder, "of_suite.yaml")
    (row,) = models(table)
    assert "law" not in row.cells
    assert any("law" in note and "2 shots" in note for note in row.notes)


def test_set_ups_are_rows_of_their_own(folder: Path) -> None:
    """A limit, chosen samples and a system prompt each make another row with a rank of its own."""
    run(folder)
    run(folder, "--samples", '{"law": [1, 3], "books": [0]}')
    run(folder, "--limit", "5")
    run(folder, "--system_instruction", "Answer well.", "--apply_chat_template")
    table, _ = table_of(folder)
    rows = models(table)
    assert len({str(row.facts["prompts"]) for row in rows}) == len(rows) == 4
    assert [int(rank) for rank in table.index.ranks.rank if rank] == [1, 1, 1, 1]
    assert sorted(row.mark for row in rows) == [
        " (chat template, system prompt Answer well.)", " (chosen samples)", " (first 5 samples per task)",
        " (plain text)",
    ]  # fmt: skip
    assert all(isinstance(row.facts["memory"], float) and row.facts["memory"] > 0.01 for row in rows)
    # the second and third run take what the first one stored
    assert [row.facts.get("speed") for row in rows].count(None) < 4


def test_rows_of_one_model_say_in_what_they_differ(folder: Path) -> None:
    """Two precisions of a model are told apart on the board and in the list of runs to compare; alone it needs none."""
    run(folder)
    _, runs = table_of(folder)
    board = read_board(folder / "board.yaml")
    (one,) = runs.runs()

    def in_precision(dtype: str) -> StoredRun:
        plan = replace(one.plan, model=replace(one.plan.model, dtype=dtype))
        return replace(one, row=replace(one.row, plan=plan))

    both = [in_precision("float32"), in_precision("bfloat16")]
    assert sorted(row.mark for row in rows_of_runs(board, both)) == [" (bfloat16)", " (float32)"]
    assert [row.mark for row in rows_of_runs(board, both[:1])] == [""]
    assert [setup_of(each.plan) for each in both] == ["float32", "bfloat16"]
    told = setup_of(replace(both[0].plan, limit=5, system_instruction="Go."))
    assert told == "float32, first 5 samples per task, system prompt Go."


def test_the_price_is_the_bills_unless_the_board_states_one(folder: Path) -> None:
    """Three quarters of the price of tokens read and one of those generated; without a bill it is not known."""
    run(folder, "--price", "2,10")
    run(folder, "--price", "0.5,1.5", seed=2)
    run(folder, seed=3)
    table, _ = table_of(folder)
    by_seed = {row.model[-1]: row for row in models(table)}
    prices = {seed: row.facts.get("price") for seed, row in by_seed.items()}
    assert prices == {"1": 0.75 * 2 + 0.25 * 10, "2": 0.75, "3": None}
    assert by_seed["1"].facts["price_source"] == "2 read, 10 generated, billed"
    assert "price_source" not in by_seed["3"].facts
    stated = "{read: 1, generated: 3, source: https://example.com/prices, date: 2026-10-01}"
    (folder / "priced.yaml").write_text(
        "tasks: [law.csv, books.csv]\nprices:\n"
        + "".join(f"  {json.dumps(by_seed[seed].model)}: {stated}\n" for seed in "23")
    )
    table, _ = table_of(folder, "priced.yaml")
    facts = {row.model: (row.facts.get("price"), row.facts.get("price_source")) for row in models(table)}
    text = "1 read, 3 generated, stated, 2026-10-01, https://example.com/prices"
    assert facts == {
        by_seed["1"].model: (4.0, "2 read, 10 generated, billed"),
        by_seed["2"].model: (1.5, text),
        by_seed["3"].model: (1.5, text),
    }


@pytest.mark.parametrize(
    "cost",
    [
        None, [], {"price": 3}, {"price": {"read": 1}}, {"price": {"read": "1", "generated": 2}},
        {"price": {"read": True, "generated": 2}}, {"price": {"read": float("nan"), "generated": 2}},
        {"price": {"read": -1, "generated": 2}}, {"price": {"read": 1, "generated": 1e300}},
    ],
)  # fmt: skip
def test_a_bill_that_is_none_states_no_price(cost: Any) -> None:
    """What a run of another machine says its bill is."""
    assert billed_price(cost) is None
    assert billed_price({"price": {"read": 1, "generated": 2, "date": 3, "source": "x" * 999}}) == Price(
        1.0, 2.0, None, "x" * 200
    )


LM_EVAL: dict[str, Any] = {
    "results": {"arc_challenge": {"alias": "arc_challenge", "acc_norm,none": 0.55, "acc_norm_stderr,none": 0.0145}},
    "configs": {"arc_challenge": {"task": "arc_challenge", "output_type": "multiple_choice", "num_fewshot": 25,
                                  "metric_list": [{"metric": "acc_norm", "aggregation": "mean"}]}},
    "versions": {"arc_challenge": 1.0}, "n-shot": {"arc_challenge": 25}, "date": 1718000000.0,
    "n-samples": {"arc_challenge": {"original": 1172, "effective": 1172}},
    "config": {"model": "hf", "model_args": "pretrained=org/brought", "limit": None}, "model_name": "org/brought",
}  # fmt: skip
OF_THE_BOARD: dict[str, Any] = {
    "results": {"harness|arc:challenge|25": {"acc_norm": 0.42, "acc_norm_stderr": 0.0144},
                "harness|hellaswag|10": {"acc_norm": 0.8, "acc_norm_stderr": 0.004}},
    "versions": {"harness|arc:challenge|25": 0, "harness|hellaswag|10": 0},
    "config": {"model_name": "someone/some-model", "model_dtype": "torch.float16"},
}  # fmt: skip


def test_results_files_from_others_become_rows_of_their_own(tmp_path: Path) -> None:
    """lm-eval's file and one of the first Open LLM Leaderboard fill the columns of their suite, with their errors."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "results_2024-06-10.json").write_text(json.dumps(LM_EVAL))
    (tmp_path / "in" / "results_2023-07-01.json").write_text(json.dumps(OF_THE_BOARD))
    (tmp_path / "board.yaml").write_text("suite: open-llm-v1\nresults: in\n")
    site = Site([read_board(tmp_path / "board.yaml")])
    table = site.table(site.board("board"))
    rows = {row.model: row for row in models(table)}
    assert {row.origin for row in rows.values()} == {"reported"}
    arc = rows["org/brought"].cells["arc"]
    assert (arc.number.value, arc.n, arc.run_id) == (0.55, 1172, None)
    assert rows["org/brought"].facts["date"] == "2024-06-10"
    old = rows["someone/some-model"]
    assert (old.cells["arc"].number.value, old.cells["hellaswag"].number.value, old.cells["arc"].n) == (0.42, 0.8, None)
    assert old.cells["arc"].number.stderr == pytest.approx(0.0144)
    assert old.average is not None
    assert old.average.n_columns == 2


def test_columns_whose_titles_share_a_slug_keep_their_own_scores(tmp_path: Path) -> None:
    """Two titles in another script are two columns of stored runs, each with its task's number."""
    write_task(tmp_path, "law", 30)
    write_task(tmp_path, "books", 20, "ABC")
    (tmp_path / "board.yaml").write_text(
        "tasks:\n  - {file: law.csv, column: 法律}\n  - {file: books.csv, column: 文学}\n"
        "baselines:\n  - {name: 人, source: s, scores: {法律: 90}}\n  - {name: 我, source: s, scores: {文学: 80}}\n",
        encoding="utf-8",
    )
    run(tmp_path)
    table, runs = table_of(tmp_path)
    row = next(row for row in table.rows if not row.is_baseline)
    values = {e.task: e.value for e in runs.runs()[0].estimates if e.details.get("primary")}
    assert [row.cells[column.key].number.value for column in table.columns] == [values["law"], values["books"]]
    assert len(table.places) == len(table.rows) == 5


def test_the_average_of_one_column_is_the_columns_number(tmp_path: Path) -> None:
    """Value, interval and method: there is one number, so there is one interval."""
    write_task(tmp_path, "law", 30)
    (tmp_path / "board.yaml").write_text("tasks: [law.csv]\n")
    run(tmp_path, tasks="law.csv")
    table, _ = table_of(tmp_path)
    row = next(row for row in table.rows if not row.is_baseline)
    assert row.average is not None
    assert row.average.number == row.cells["law"].number


@pytest.mark.slow
def test_the_list_of_boards_orders_only_models_that_the_board_ranks(folder: Path) -> None:
    """Two models on different columns and samples have no places; two ranked ones have, with the limit they share."""
    run(folder, "--limit", "2", tasks="law.csv", seed=1)
    run(folder, tasks="law.csv", seed=1)
    run(folder, "--limit", "3", tasks="law.csv", seed=2)

    def card() -> tuple[Any, str]:
        runs = StoredRuns(Store.open_to_read(str(folder / "store.sqlite")))
        site = Site([read_board(folder / "board.yaml"), read_board(folder / "board.yaml")], runs)
        app = create_app([board_feature(site)])
        with running(app) as url:
            result = httpx.get(f"{url}/boards").text + httpx.get(f"{url}/board/board/charts").text
            return httpx.get(f"{url}/boards.json").json()["boards"][0], result

    unranked, page = card()
    assert (unranked["models"], unranked["rows"], unranked["top"]) == (2, 5, [])  # two rows are baselines
    assert "podium" not in page
    assert "2 models" in page
    assert "No ranks: fewer than two models have every benchmark in one setup." in page
    assert "Fewer than two rows with an average and a known number of parameters." in page
    run(folder, "--limit", "3", seed=1)
    run(folder, "--limit", "3", seed=2)
    ranked, page = card()
    assert ranked["setup"].startswith("first 3 samples per task")
    assert {each["model"] for each in ranked["top"]} == {"fake-random-1", "fake-random-2"}
    assert all(item["ranks"] == [1, 2] for item in ranked["top"])  # six answers tell no two models apart
    assert '<ol class="podium">' in page


GPT4ALL = ("hellaswag", "openbookqa", "winogrande", "arc_easy")  # more than half of its seven tasks


def test_a_suite_has_a_board_once_a_model_has_most_of_its_tasks(folder: Path) -> None:
    """One of seven tasks makes no table of dashes: it is on the board of all tasks, beside the tasks of no suite."""
    for name in GPT4ALL:
        write_task(folder, name, 6)
    run(folder, tasks="hellaswag.csv,law.csv")
    site = Site([], StoredRuns(Store.open_to_read(str(folder / "store.sqlite"))))
    assert {name: [column.title for column in site.table(board).columns] for name, board in site.boards.items()} == {
        "all-tasks": ["hellaswag", "law"]
    }
    assert "suite" not in site.board("all-tasks").introduction  # no other board is named where there is none
    run(folder, "--prompt_style", "text", tasks=",".join(f"{name}.csv" for name in GPT4ALL))
    assert set(site.boards) == {"gpt4all", "all-tasks"}
    assert site.board("gpt4all").introduction == ""  # where its rules come from is on the page about it
    assert "Nous" in site.board("gpt4all").about


def test_a_suites_task_at_other_shots_is_on_the_board_of_all_tasks(folder: Path) -> None:
    """Every task of the store is on a board: at the suite's shots on the suite's, at others on that of all tasks."""
    for name in GPT4ALL:
        write_task(folder, name, 6)
    run(folder, "--prompt_style", "text", tasks=",".join(f"{name}.csv" for name in GPT4ALL))
    run(folder, "--num_fewshot", "2", "--prompt_style", "text", tasks="hellaswag.csv", seed=2)
    site = Site([], StoredRuns(Store.open_to_read(str(folder / "store.sqlite"))))
    assert set(site.boards) == {"gpt4all", "all-tasks"}
    suite, rest = (site.table(site.boards[name]) for name in ("gpt4all", "all-tasks"))
    assert [row.model for row in models(suite)] == ["fake-random-1"]
    assert [column.title for column in rest.columns] == ["hellaswag, 2 shots"]
    assert [row.model for row in models(rest)] == ["fake-random-2"]


def test_a_group_of_other_units_has_no_mean(tmp_path: Path) -> None:
    """Shares and bits per byte have no mean on a board, as `show` has none; shares alone are averaged once each."""
    place = str(tmp_path / "store.sqlite")
    command = ["run", "--model", "fake", "--limit", "8", "--store", place, "--quiet"]
    assert main([*command, "--tasks", "demo"]) == 0
    (tmp_path / "board.yaml").write_text("tasks: [demo, demo_letters]\n")
    with Store.open(place) as store:
        site = Site([read_board(tmp_path / "board.yaml")], StoredRuns(store))
        (row,) = models(site.table(next(iter(site.boards.values()))))
        (run_id,) = [each.run_id for each in store.runs()]
        estimate = next(e for e in store.estimates(run_id) if e.task == "demo_letters")
    numbers = {key: cell.number.value for key, cell in row.cells.items() if cell.number is not None}
    assert numbers == {"demo-letters": estimate.value}


def test_a_misspelt_task_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`board check` names it and the nearest one; files and known tasks are not mentioned."""
    write_task(tmp_path, "law", 3)
    (tmp_path / "board.yaml").write_text("tasks: [law.csv, demo_fact, demo_who]\n")
    assert main(["board", "check", str(tmp_path / "board.yaml")]) == 0
    said = capsys.readouterr().err
    assert "no known task is named demo_fact (nearest: demo_facts" in said
    assert said.count("note:") == 1


def test_a_damaged_run_is_shown_as_damaged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A number that was changed in the store is on no page and in no table; the run's row says why, others stay."""
    run(folder)
    run(folder, seed=2)
    place = folder / "store.sqlite"
    with Store.open(str(place)) as store:
        damaged = next(row for row in store.runs() if "1" in row.model)
    changed = "UPDATE estimates SET value = 0.99 WHERE run = (SELECT id FROM runs WHERE run_id = ?)"
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute(changed, (damaged.run_id,))
    board = read_board(folder / "board.yaml")
    with Store.open(str(place)) as store:
        stored = StoredRuns(store)
        first, second = sorted(rows_of_runs(board, stored.runs()), key=lambda row: row.model)
        assert (dict(first.cells), first.average, len(second.cells)) == ({}, None, 2)
        assert first.notes == (f"run {damaged.short_id} is damaged: its stored numbers are not as they were saved",)
        with running(create_app([board_feature(Site([board], stored))])) as url:
            for page in ("/", f"/run/{damaged.run_id}"):
                answer = httpx.get(url + page, follow_redirects=True)
                assert answer.status_code == 200
                assert "damaged" in answer.text
                assert "99.0" not in answer.text
    capsys.readouterr()
    assert main(["show", damaged.run_id, "--store", str(place)]) == 4
    said = capsys.readouterr()
    assert "is not as it was saved" in said.err
    assert "99" not in said.out
    files = ",".join(str(folder / name) for name in ("law.csv", "books.csv"))
    assert main(["rescore", damaged.run_id, "--store", str(place), "--tasks", files]) == 0
    assert main(["verify", "--store", str(place)]) == 0
    assert main(["show", damaged.run_id, "--store", str(place)]) == 0


def test_verify_counts_estimates_against_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A metric whose estimates were removed is named by `verify`, also where no other estimate is left."""
    run(folder)
    place = folder / "store.sqlite"
    assert main(["verify", "--store", str(place)]) == 0
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute("DELETE FROM estimates")
    capsys.readouterr()
    assert main(["verify", "--store", str(place)]) == 4
    said = capsys.readouterr().out
    assert "law: acc (none) was scored and has no estimate" in said
    assert "books: acc (none) was scored and has no estimate" in said


def test_a_task_at_several_shots_has_a_column_and_a_command_for_each(tmp_path: Path) -> None:
    """No run is noted for shots that another column shows."""
    place = str(tmp_path / "store.sqlite")
    command = ["run", "--model", "fake", "--limit", "4", "--store", place, "--quiet", "--tasks", "demo_facts"]
    assert [main([*command, "--num_fewshot", n]) for n in ("0", "2")] == [0, 0]
    site = Site([], StoredRuns(Store.open_to_read(place)))
    (board,) = site.boards.values()
    table = site.table(board)
    assert [column.title for column in table.columns] == ["demo_facts, 0 shots", "demo_facts, 2 shots"]
    assert [row.notes for row in models(table)] == [()]
    lines = command_of_board(board).splitlines()
    assert [line.rpartition("--tasks ")[2] for line in lines] == [
        "demo_facts --num_fewshot 0",
        "demo_facts --num_fewshot 2",
    ]


def store_table(folder: Path) -> BoardTable:
    """Return the only board that a store has without a board's file."""
    site = Site([], StoredRuns(Store.open_to_read(str(folder / "store.sqlite"))))
    (board,) = site.boards.values()
    return site.table(board)


def n_and_value(table: BoardTable, key: str) -> dict[str, tuple[int | None, float]]:
    """Return each model's number of samples and its value in a column."""
    return {row.model: (row.cells[key].n, row.cells[key].number.value) for row in models(table) if key in row.cells}


def test_models_that_answered_files_of_one_name_are_not_ranked_together(tmp_path: Path) -> None:
    """The file that most models ran counts; what a model scored in it stays after it ran the other file too."""
    for name, n in (("x", 10), ("y", 12)):
        (tmp_path / name).mkdir()
        write_task(tmp_path / name, "law", n, "AB" if name == "x" else "ABC")
    run(tmp_path, tasks="x/law.csv")
    run(tmp_path, tasks="y/law.csv", seed=2)
    table = store_table(tmp_path)
    assert {model: n for model, (n, _) in n_and_value(table, "law").items()} == {"fake-random-2": 12}
    assert [row.model for row in models(table)] == ["fake-random-2"]
    assert table.left_out == ("law: 1 run on other data",)
    random = next(row for row in table.rows if row.model == "Random")
    assert random.cells["law"].number.value == pytest.approx(1 / 3)  # of the counted file
    run(tmp_path, tasks="x/law.csv", seed=2)
    run(tmp_path, tasks="x/law.csv", seed=3)
    run(tmp_path, tasks="y/law.csv", seed=3)
    table = store_table(tmp_path)
    assert {model: n for model, (n, _) in n_and_value(table, "law").items()} == {
        "fake-random-1": 10, "fake-random-2": 10, "fake-random-3": 10
    }  # fmt: skip
    assert table.left_out == ("law: 2 runs on other data",)


def test_scores_by_a_corrected_answer_key_are_not_mixed_with_those_before(folder: Path) -> None:
    """A limited run is on the same data; the board's page and its JSON state what is left out."""
    run(folder)
    run(folder, "--limit", "5", seed=4)
    table, _ = table_of(folder)
    assert (len(models(table)), table.left_out) == (2, ())
    path = folder / "law.csv"
    path.write_text(path.read_text().replace("a3,b3,A", "a3,b3,B").replace("a0,b0,B", "a0,b0,A"))
    before = n_and_value(table, "law")
    for seed in (1, 2, 3):
        run(folder, tasks="law.csv", seed=seed)
    table, stored = table_of(folder)
    now = n_and_value(table, "law")
    assert set(now) == {"fake-random-1", "fake-random-2", "fake-random-3"}
    of_run = {each.model: each.estimates for each in reversed(stored.runs()) if each.row.tasks == ("law",)}
    for model, (_, value) in now.items():
        assert value == next(e.value for e in of_run[model] if e.details.get("primary"))
    assert set(n_and_value(table, "books")) == set(before)  # its file is as it was
    assert table.left_out == ("law: 2 runs on other data",)
    board = read_board(folder / "board.yaml")
    with running(create_app([board_feature(Site([board], stored))])) as url:
        assert "law: 2 runs on other data" in httpx.get(f"{url}/board/{board.name}").text
        assert httpx.get(f"{url}/board/{board.name}.json").json()["left_out"] == ["law: 2 runs on other data"]


def test_a_column_has_one_metric_and_no_seconds(tmp_path: Path) -> None:
    """An application's scorer is another metric than a model's; a run without scorers has no score at all."""
    write_task(tmp_path, "law", 10)
    (tmp_path / "app.py").write_text("def answer(question):\n    return 'A'\n")
    place, tasks = str(tmp_path / "store.sqlite"), str(tmp_path / "law.csv")
    target = ["run", "--target", f"{tmp_path / 'app.py'}:answer", "--tasks", tasks, "--store", place, "--quiet"]
    assert main(target) == 0
    assert not Site([], StoredRuns(Store.open_to_read(place))).boards
    run(tmp_path, tasks="law.csv")
    run(tmp_path, tasks="law.csv", seed=2)
    assert main([*target, "--scorers", "exact"]) == 0
    table = store_table(tmp_path)
    assert set(n_and_value(table, "law")) == {"fake-random-1", "fake-random-2"}
    assert table.columns[0].is_share
    assert table.left_out == ("law: 1 run by exact",)
