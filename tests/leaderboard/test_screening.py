"""Rows that a rule stopped: their intervals, their marks, and when a rank set is settled."""

import csv
import io
import json
from pathlib import Path

import httpx
import numpy as np
import pytest

import assaymark
from assaymark.errors import DataError
from assaymark.leaderboard.board import Board, Screening
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.rows import BoardRow, StoppedEarly
from assaymark.leaderboard.screening import Rivals, rivals_of
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.leaderboard.table import BoardTable
from assaymark.results.comparison.stopped_runs import ALPHA, AT_ANY_TIME
from assaymark.runs.race import RaceOptions, race_models
from assaymark.runs.until import evaluate_until
from assaymark.statistics.intervals import wilson
from assaymark.statistics.sequential import SequentialMean
from assaymark.store import Store
from assaymark.tasks.question_order import question_order
from assaymark.web.app import create_app
from tests.served import running

N = 200  # questions of demo_facts, as of each demo task used here


def board_of(folder: Path, text: str = "title: Demo\nname: demo\ntasks: [demo_facts]\n") -> Board:
    """Return the board of a file with this text."""
    (folder / "board.yaml").write_text(text)
    return read_board(folder / "board.yaml")


def table_of(store: str, board: Board) -> BoardTable:
    """Return the board's table."""
    with Store.open_to_read(store) as opened:
        return Site([board], StoredRuns(opened)).table(board)


def row_of(table: BoardTable, model: str) -> BoardRow:
    """Return the row of a model."""
    (row,) = table.rows_of(model)
    return row


def test_a_run_stopped_by_rule_has_a_mark_and_the_interval_at_any_time(tmp_path: Path) -> None:
    """The interval equals one computed from the stored scores alone; that of a full run is as before."""
    store = str(tmp_path / "s.sqlite")
    full = assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": 0.5, "seed": 2}, store=store)
    stopped = evaluate_until("fake", "demo_facts", ["acc ± 15"], model_args={"accuracy": 0.8}, store=store)
    assert stopped.n_seen < N
    table = table_of(store, board_of(tmp_path))
    row = row_of(table, stopped.run.row.model)
    assert row.stopped == StoppedEarly(stopped.n_seen, N)
    number = row.cells["demo-facts"].number
    scores = {
        score.sample_index: float(score.value or 0)
        for score in stopped.run.store.scores(stopped.run.id, "demo_facts")
        if score.metric == "acc_norm"
    }
    plan = stopped.run.row.plan.tasks[0]
    order = [at for _, at in question_order({"demo_facts": range(N)}, {"demo_facts": plan.dataset_hash}, 0)]
    state = SequentialMean(N, ALPHA / 2).add(np.array([scores[at] for at in order[: stopped.n_seen]]))
    assert len(scores) == stopped.n_seen
    assert number.low == pytest.approx(wilson(state.low * N, N, 1 - ALPHA / 2).low)
    assert number.high == pytest.approx(wilson(state.high * N, N, 1 - ALPHA / 2).high)
    assert number.method == AT_ANY_TIME
    assert row.average is not None
    assert row.average.number == number
    plain = stopped.run.estimate("demo_facts", "acc_norm")
    assert (number.low or 0) < (plain.low or 0)
    assert (number.high or 0) > (plain.high or 0)
    whole = row_of(table, full.row.model)
    assert whole.stopped is None
    assert whole.cells["demo-facts"].number.low == full.estimate("demo_facts", "acc_norm").low


def test_a_run_that_was_completed_has_no_mark(tmp_path: Path) -> None:
    """Once the rest is asked, the row is as any other."""
    store = str(tmp_path / "s.sqlite")
    evaluate_until("fake", "demo_facts", ["acc ± 15"], model_args={"accuracy": 0.8}, store=store)
    run = assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": 0.8}, store=store)
    row = row_of(table_of(store, board_of(tmp_path)), run.row.model)
    assert row.stopped is None
    assert row.cells["demo-facts"].number.low == run.estimate("demo_facts", "acc_norm").low


def test_an_average_of_several_columns_is_made_of_the_ends(tmp_path: Path) -> None:
    """The columns' intervals hold together, so that the mean of their ends is one for the average."""
    store = str(tmp_path / "s.sqlite")
    options = RaceOptions(most=150)
    race = race_models(
        "fake", "fake", "demo_facts,demo_who", options, first_args={"accuracy": 0.6},
        second_args={"accuracy": 0.55, "seed": 2}, store=store,
    )  # fmt: skip
    table = table_of(store, board_of(tmp_path, "title: Demo\ntasks: [demo_facts, demo_who]\n"))
    row = row_of(table, race.names[0])
    cells = [row.cells[key].number for key in ("demo-facts", "demo-who")]
    assert row.average is not None
    assert row.average.number.low == pytest.approx(sum(cell.low or 0 for cell in cells) / 2)
    assert row.average.number.high == pytest.approx(sum(cell.high or 0 for cell in cells) / 2)
    assert {cell.method for cell in cells} == {AT_ANY_TIME}


def test_the_mark_is_on_the_page_in_json_and_in_downloads(tmp_path: Path) -> None:
    """A visitor sees it at the row, on the model's page and on the run's; downloads have it in columns."""
    store = str(tmp_path / "s.sqlite")
    stopped = evaluate_until("fake", "demo_facts", ["acc ± 15"], model_args={"accuracy": 0.8}, store=store)
    board = board_of(tmp_path)
    text = StoppedEarly(stopped.n_seen, N).text
    with Store.open_to_read(store) as opened:
        app = create_app([board_feature(Site([board], StoredRuns(opened)))])
        with running(app) as address, httpx.Client(base_url=address) as client:
            page = client.get("/board/demo").text
            assert text in page
            rows = client.get("/board/demo.json").json()["rows"]
            marks = {row["model"]: row["stopped_early"] for row in rows}
            assert marks[stopped.run.row.model] == {"n_asked": stopped.n_seen, "n": N}
            assert text in client.get(f"/run/{stopped.run.id}").text
            table = list(csv.DictReader(io.StringIO(client.get("/board/demo.csv").text)))
            own = next(row for row in table if row["model"] == stopped.run.row.model)
            assert (own["stopped_early"], own["stopped_n_asked"]) == ("True", str(stopped.n_seen))
            lines = [json.loads(line) for line in client.get("/board/demo.jsonl").text.splitlines()]
            assert {line["model"]: line["stopped_early"] for line in lines}[stopped.run.row.model] is True


# -------------------------------------------------------------------------------------- when it is settled


def full_rank_set(rivals: Rivals, score: float, n: int) -> tuple[int, int]:
    """Return the rank set of a complete evaluation with this score."""
    interval = wilson(score * n, n)
    return rivals.rank_set(score, interval.low, interval.high)


@pytest.mark.slow
def test_a_settled_rank_set_is_that_of_the_complete_evaluation() -> None:
    """In 150 random orders, the set at the stop differs from the full one at most as often as alpha says."""
    rng = np.random.default_rng(7)
    n, n_orders, n_stopped, n_missed = 1000, 150, 0, 0
    for _ in range(n_orders):
        truths = rng.uniform(0.2, 0.9, 6)
        ends = [wilson(truth * n, n) for truth in truths]
        rivals = Rivals(tuple(truths), tuple(end.low for end in ends), tuple(end.high for end in ends))
        values = (rng.permutation(n) < rng.uniform(0.2, 0.9) * n).astype(float)
        mean = SequentialMean(n, ALPHA / 2)
        for start in range(0, n, 100):
            state = mean.add(values[start : start + 100])
            if rivals.is_settled([state], [1.0]):
                n_stopped += state.n_seen < n
                wide = wilson(state.low * n, n, 1 - ALPHA / 2).low, wilson(state.high * n, n, 1 - ALPHA / 2).high
                n_missed += rivals.rank_set(state.mean, *wide) != full_rank_set(rivals, values.mean(), n)
                break
    assert n_stopped > 15
    assert n_missed <= n_orders * ALPHA / 2 + 3 * (n_orders * 0.025 * 0.975) ** 0.5


def test_a_row_far_from_all_others_is_settled_and_one_on_a_boundary_is_not() -> None:
    """Far above everyone it is settled soon; where a full evaluation could decide either way it is open."""
    rivals = Rivals((0.2, 0.3), (0.17, 0.27), (0.23, 0.33))
    mean = SequentialMean(1000, ALPHA / 2)
    assert not rivals.is_settled([mean.add(np.ones(5))], [1.0])
    assert rivals.is_settled([mean.add(np.ones(95))], [1.0])
    between = SequentialMean(1000, ALPHA / 2)
    assert not rivals.is_settled([between.add((np.arange(100) % 100 < 37).astype(float))], [1.0])


def test_models_that_nothing_could_separate_are_settled_too() -> None:
    """Rows whose full intervals overlap for every score that is still possible need no more questions."""
    wide = Rivals((0.4, 0.6), (0.0, 0.0), (1.0, 1.0))
    mean = SequentialMean(1000, ALPHA / 2)
    assert wide.is_settled([mean.add((np.arange(300) % 2).astype(float))], [1.0])


@pytest.mark.slow
def test_rivals_are_the_ranked_rows_of_the_same_setup(tmp_path: Path) -> None:
    """Baselines, the model's own row and other setups are none; fewer than two are no field."""
    store = str(tmp_path / "s.sqlite")
    runs = [
        assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": share, "seed": at}, store=store)
        for at, share in enumerate((0.3, 0.5, 0.7))
    ]
    assaymark.evaluate("fake", "demo_facts", model_args={"accuracy": 0.9, "seed": 9}, limit=50, store=store)
    table = table_of(store, board_of(tmp_path))
    rivals = rivals_of(table, "plain text", "a new model")
    assert rivals is not None
    assert sorted(rivals.values) == sorted(run.estimate("demo_facts", "acc_norm").value or 0 for run in runs)
    assert Rivals.from_spec(json.loads(json.dumps(rivals.to_spec()))) == rivals
    own = rivals_of(table, "plain text", runs[0].row.model)
    assert own is not None
    assert len(own.values) == 2
    assert rivals_of(table, "chat template", "a new model") is None


# ------------------------------------------------------------------------------------------ the board's file


def test_the_boards_file_says_that_it_screens(tmp_path: Path) -> None:
    """`true` takes the defaults; settings are numbers."""
    head = "title: Demo\ntasks: [demo_facts]\n"
    assert board_of(tmp_path, head).screening is None
    assert board_of(tmp_path, head + "screening: false\n").screening is None
    assert board_of(tmp_path, head + "screening: true\n").screening == Screening()
    assert board_of(tmp_path, head + "screening: {at_least: 50, seed: 3}\n").screening == Screening(50, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks: [demo_facts]\nscreening: often\n", "screening is 'often'; expected true, false, or"),
        ("tasks: [demo_facts]\nscreening: {at_leest: 5}\n", "unknown key 'at_leest'; nearest: at_least"),
        ("tasks: [demo_facts]\nscreening: {at_least: 0}\n", "screening.at_least is 0; expected a whole number from 1"),
        ("tasks: [demo_facts]\nscreening: {at_least: true}\n", "at_least is True; expected a whole number"),
        ("tasks: [demo_facts]\nscreening: {seed: -1}\n", "screening.seed is -1; expected a whole number from 0"),
        (
            "tasks: [{task: demo_facts, shots: 0}, {task: demo_who, shots: 5}]\nscreening: true\n",
            "different numbers of shots",
        ),
        ("tasks: [demo_facts, demo_who]\naggregate: winrate\nscreening: true\n", "its average is no weighted mean"),
        (
            "tasks: [{task: demo_facts, column: A}, {task: demo_who, column: A}]\nscreening: true\n",
            "a column is made of several tasks",
        ),
        ("suite: open-llm-v2\nscreening: true\n", "is not possible on this board"),
    ],
    ids=str,
)
def test_a_board_that_cannot_screen_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """One line names the file, the key and what was expected."""
    with pytest.raises(DataError) as error:
        board_of(tmp_path, "title: Demo\n" + text)
    assert message in str(error.value)
    assert "board.yaml" in str(error.value)
