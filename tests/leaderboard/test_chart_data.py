"""What charts show: best over time, Pareto front, heat map, residuals; against plain computations."""

from dataclasses import replace

import numpy as np
import pytest

from assaymark.leaderboard.chart_data import MEASURES, best_over_time, column_bars, heat_map, profile, score_against
from assaymark.leaderboard.rows import Average, BoardRow, Fact, IntervalValue, RowScore, ScoreColumn
from assaymark.leaderboard.shown import ShownRow, all_rows, selected_rows
from assaymark.leaderboard.table import BoardTable
from assaymark.leaderboard.view import View

KEYS = ("a", "b", "c", "d")
NO_DATES = {7: "some time in 2024", 8: "0001-01-01", 9: "9999-12-31"}
COLUMNS = tuple(ScoreColumn(key, key.upper()) for key in KEYS)


def table(n: int = 40, *, stderr: float | None = 0.01) -> BoardTable:
    """Return a table of random models; the fifth has no score in the last column."""
    random = np.random.default_rng(7)
    rows = []
    for place in range(n):
        values = random.uniform(0.1, 0.9, len(KEYS))
        cells = {
            key: RowScore(IntervalValue(float(value), value - 0.02, value + 0.02, stderr))
            for key, value in zip(KEYS, values, strict=True)
            if not (place == 4 and key == "d")
        }
        mean = float(np.mean([cell.number.value for cell in cells.values()]))
        facts: dict[str, Fact] = {
            "date": NO_DATES.get(place, f"2024-{place % 12 + 1:02}-15"),
            "params": round(float(random.uniform(0.5, 70)), 1),
            "speed": float(10 * (1 + place % 9)),  # several models are as fast
            "price": 0.25 * (1 + place % 7),
        }
        average = Average(IntervalValue(mean, mean - 0.01, mean + 0.01, 0.005), len(cells))
        rows.append(BoardRow(f"r{place}", f"m/{place}", "measured", cells, average, facts))
    return BoardTable(COLUMNS, tuple(rows), rank_apart=False)


def value_of(one: ShownRow) -> float:
    """Return a row's average; it has one."""
    assert one.average is not None
    return one.average.number.value


def test_each_step_is_the_first_to_score_as_much() -> None:
    """A model is a step exactly if all of an earlier or the same day score less."""
    made = table()
    rows = all_rows(made, View(), ())
    ranked = [row for row in rows if row.rank is not None and row.row.model not in {f"m/{at}" for at in NO_DATES}]
    wanted = {
        each.row.model
        for each in ranked
        if all(
            value_of(other) < value_of(each)
            for other in ranked
            if other is not each and str(other.row.facts["date"]) <= str(each.row.facts["date"])
        )
    }
    actual = best_over_time(made, selected_rows(made, View(), ()))
    assert {item.model for item in actual} == wanted
    assert [result.date for result in actual] == sorted(result.date for result in actual)
    assert "m/4" not in {result.model for result in actual}


@pytest.mark.parametrize("key", ["params", "speed", "price"])
@pytest.mark.parametrize("n", [1, 7, 40, 90])
def test_the_front_holds_what_no_other_model_dominates(key: str, n: int) -> None:
    """By comparing each pair: another model is as small, as fast or as cheap, and its average is as high."""
    made = table(n)
    measured = score_against(made, selected_rows(made, View(), ()), MEASURES[key])
    models = list(measured.models())
    sign = -1 if key == "speed" else 1
    assert [sign * model.measure for model in models] == sorted(sign * model.measure for model in models)
    assert len(measured) == len(models) == (n - 1 if n > 4 else n)  # the incomplete one is left out
    for model in models:
        is_dominated = any(
            sign * other.measure <= sign * model.measure and other.number.value >= model.number.value
            for other in models
            if other is not model
        )
        assert model.is_on_front == (not is_dominated)
    assert any(model.is_on_front for model in models)


def test_a_row_without_a_usable_measure_is_on_no_chart() -> None:
    """Unknown, zero, negative and infinite measures are left out, and counted; an incomplete row counts nowhere."""
    made = table(10)
    facts: tuple[Fact, ...] = (None, 0.0, -1.0, float("inf"))
    rows = [replace(row, facts={**row.facts, "speed": fact}) for row, fact in zip(made.rows[5:9], facts, strict=True)]
    other = BoardTable(COLUMNS, (*made.rows[:5], *rows, *made.rows[9:]), rank_apart=False)
    measured = score_against(other, selected_rows(other, View(), ()), MEASURES["speed"])
    assert {model.model for model in measured.models()} == {"m/0", "m/1", "m/2", "m/3", "m/9"}
    assert measured.n_left_out == 4
    assert score_against(made, selected_rows(made, View(), ()), MEASURES["speed"]).n_left_out == 0


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_bars_are_the_best_rows_of_a_column(higher_is_better: bool) -> None:
    """The thirty best by the column itself, whatever the view is sorted by; a row without a score has no bar."""
    column = ScoreColumn("d", "D", higher_is_better=higher_is_better)
    made = table()
    view = View(sort="-d" if higher_is_better else "d")
    bars = column_bars(selected_rows(made, view, ()), column)
    scores = {row.model: row.cells["d"].number.value for row in made.rows if "d" in row.cells}
    assert [bar.model for bar in bars] == sorted(scores, key=scores.__getitem__, reverse=higher_is_better)[:30]
    averages = column_bars(selected_rows(made, View(), ()), ScoreColumn("average", "Average"))
    assert len(averages) == 30
    few = table(6)
    assert {bar.model for bar in column_bars(selected_rows(few, View(), ()), ScoreColumn("average", "Average"))} == {
        f"m/{place}" for place in (0, 1, 2, 3, 5)
    }  # an average of some columns is none


def test_residuals_equal_a_regression_by_lstsq() -> None:
    """Each column on the mean of the others, over the complete rows but the model's own."""
    made = table()
    row = made.rows[0]
    actual = profile(made, row)
    assert [each.column.key for each in actual] == list(KEYS)
    complete = [item for item in made.rows if len(item.cells) == 4 and item.id != row.id]
    values = np.array([[result.cells[key].number.value for key in KEYS] for result in complete])
    own = np.array([row.cells[key].number.value for key in KEYS])
    for place, result in enumerate(actual):
        rest = np.delete(values, place, axis=1).mean(axis=1)
        line, squares, *_ = np.linalg.lstsq(np.column_stack([np.ones(len(rest)), rest]), values[:, place], rcond=None)
        own_rest = np.delete(own, place).mean()
        assert result.value == pytest.approx(own[place] - line[0] - line[1] * own_rest, abs=1e-12)
        assert result.spread == pytest.approx(np.sqrt(squares[0] / (len(rest) - 2)), abs=1e-12)
        assert result.n_models == 38
        error = 0.01 * np.sqrt(1 + line[1] ** 2 / 3)
        assert result.low == pytest.approx(result.value - 1.959964 * error, abs=1e-6)
        assert result.high == pytest.approx(result.value + 1.959964 * error, abs=1e-6)


def test_the_interval_of_a_residual_covers_its_expectation() -> None:
    """Scores drawn around one truth: about 95 of 100 intervals hold the truth's own residual."""
    random = np.random.default_rng(11)
    made = table(400)
    truth = profile(made, made.rows[0])
    n_held = 0
    for _ in range(300):
        cells = {
            key: RowScore(IntervalValue(float(cell.number.value + random.normal(0, 0.01)), stderr=0.01))
            for key, cell in made.rows[0].cells.items()
        }
        row = BoardRow("r0", "m/0", "measured", cells, made.rows[0].average)
        pairs = zip(profile(made, row), truth, strict=True)
        n_held += sum((a.low or 0.0) <= b.value <= (a.high or 0.0) for a, b in pairs)
    assert 0.92 < n_held / 1200 < 0.98


def test_too_little_gives_no_profile() -> None:
    """Few models, a missing score; without errors the residuals have no intervals."""
    small = table(8)
    assert profile(small, small.rows[0]) == []
    made = table()
    assert profile(made, made.rows[4]) == []
    bare = table(stderr=None)
    assert {(each.low, each.high) for each in profile(bare, bare.rows[0])} == {(None, None)}


def test_equal_scores_have_no_standing() -> None:
    """A column whose scores are all equal is not coloured: none of them stands above another."""
    made = table(6)
    equal = RowScore(IntervalValue(0.5))
    rows = [replace(row, cells={**row.cells, "a": equal}) for row in made.rows]
    result = heat_map(selected_rows(BoardTable(COLUMNS, tuple(rows), rank_apart=False), View(), ()), COLUMNS)
    first = [cells[0] for _, cells in result.rows]
    assert {cell.standing for cell in first if cell is not None} == {None}


def test_heat_map_standings() -> None:
    """The best of a column stands highest, the same score the same, a missing one nowhere."""
    result = heat_map(selected_rows(table(), View(), ()), COLUMNS)
    assert len(result.rows) == 30
    for place in range(4):
        cells = [cell for _, cells in result.rows if (cell := cells[place]) is not None]
        by_value = sorted(cells, key=lambda cell: cell.number.value)
        assert [cell.standing for cell in by_value] == sorted(cell.standing or 0.0 for cell in cells)
        assert by_value[0].standing == pytest.approx(0.5 / len(cells))
