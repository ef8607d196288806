"""Reported values on boards and on a model's page: never beside measured ones without a mark."""

import json
from pathlib import Path

import pytest
import yaml

import assaymark
from assaymark.cli.main import main
from assaymark.documents.html import html_blocks
from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.interop.hub_benchmarks import HubTask
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.exports import found_rows, rows_document
from assaymark.leaderboard.model_card import model_card
from assaymark.leaderboard.pages.board import board_page
from assaymark.leaderboard.pages.charts import charts_page
from assaymark.leaderboard.pages.model import model_page
from assaymark.leaderboard.pages.task import task_page
from assaymark.leaderboard.reported_values import reported_beside, reported_blocks
from assaymark.leaderboard.rows import BoardRow
from assaymark.leaderboard.shown import show_table
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.leaderboard.view import View
from assaymark.leaderboard.win_rates import board_win_rates
from assaymark.runs.exporting import import_run
from assaymark.runs.published import compare_published
from assaymark.runs.reproduce import reproduce
from assaymark.runs.run import Run
from assaymark.store import Store

N = 40
QUIZ = HubTask("acme/quiz", "quiz", "default", "test", N, "share", "acc")
TASK = """\
task: quiz_zeroshot
dataset_path: acme/quiz
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}} ="
doc_to_choice: ["1", "2", "3"]
doc_to_target: "{{answer}}"
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
"""
MODEL = "fake-gold-0"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a store with a run of a registered benchmark, and what the model's folder reports of three."""
    monkeypatch.setattr("assaymark.interop.hub_benchmarks.HUB_TASKS", (QUIZ,))
    data = tmp_path / "data" / "acme" / "quiz" / "default"
    data.mkdir(parents=True)
    rows = [{"question": f"question {i}", "answer": i % 3} for i in range(N)]
    (data / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "quiz.yaml").write_text(TASK)
    url = str(tmp_path / "store.sqlite")
    assaymark.evaluate(
        "fake", [str(tmp_path / "quiz.yaml")], store=url, data_dir=str(tmp_path / "data"),
        model_args={"mode": "gold", "accuracy": 0.6},
    )  # fmt: skip
    folder = tmp_path / MODEL / ".eval_results"
    folder.mkdir(parents=True)
    (folder / "quiz.yaml").write_text(
        "- dataset: {id: acme/quiz, task_id: quiz}\n  value: 0.99\n  date: '2026-01-15'\n  notes: with tools\n"
        "  source: {url: 'https://example.org/a', name: Report}\n"
        "- dataset: {id: acme/other, task_id: x}\n  value: 41.5\n"
    )
    monkeypatch.chdir(tmp_path)
    import_run(url, Path(MODEL))
    return url


def site_of(store: str) -> Site:
    """Return the site of a store."""
    return Site([], StoredRuns(Store.open(store)))


def rows_of(site: Site) -> dict[str, BoardRow]:
    """Return the rows of all boards by where they come from."""
    return {row.origin: row for board in site.boards.values() for row in site.table(board).rows}


def test_the_model_has_one_page_with_both(store: str) -> None:
    """Under the same name: the reported value, the measured one with its interval, the difference, and coverage."""
    page = model_page(site_of(store), MODEL)
    quiz, other = sorted(page.reported, key=lambda pair: pair.measured is None)
    assert quiz.measured is not None
    assert quiz.measured.value is not None
    assert (quiz.reported.value, quiz.measured.task) == (0.99, "quiz_zeroshot")
    assert quiz.difference == pytest.approx(quiz.measured.value - 0.99)
    assert quiz.is_covered is False
    assert (other.reported.task, other.measured, other.difference, other.is_covered) == (
        "acme/other:x",
        None,
        None,
        None,
    )
    shown = html_blocks(page.reported_blocks)
    assert "quiz_zeroshot, 0 shots" in shown
    assert "not measured here" in shown
    (of_json,) = [each for each in json.loads(json.dumps(page.to_json()))["reported"] if each["task"] == "quiz"]
    assert (of_json["is_covered"], of_json["reported"]["by"], of_json["measured"]["n"]) == (False, "Report", N)


def test_a_value_in_the_interval_is_covered(store: str) -> None:
    """The reported value that equals the measured one lies in its interval, with a difference of 0."""
    runs = StoredRuns(Store.open(store)).runs()
    measured = next(run for run in runs if run.origin == "measured").estimates[0].value
    (Path(MODEL) / ".eval_results" / "quiz.yaml").write_text(
        f"- dataset: {{id: acme/quiz, task_id: quiz}}\n  value: {measured}\n"
    )
    import_run(store, Path(MODEL))
    pairs = reported_beside(StoredRuns(Store.open(store)).runs())
    assert [(pair.difference, pair.is_covered) for pair in pairs] == [(0.0, True)]  # what was read before is not listed
    site = site_of(store)
    rows = [row for board in site.boards.values() for row in site.table(board).rows if row.origin == "reported"]
    assert [[cell.number.value for cell in row.cells.values()] for row in rows] == [[measured]]
    assert reported_blocks([]) == []


def test_boards_mark_where_a_row_comes_from_and_filter_by_it(store: str) -> None:
    """Measured and reported rows are apart in origin and rank, and ?origins= leaves one kind."""
    site = site_of(store)
    rows = rows_of(site)
    assert set(rows) >= {"measured", "reported"}
    cell = rows["reported"].cells["quiz"]
    assert cell.reported == "reported 2026-01-15 by Report, with tools, https://example.org/a"
    assert cell.number.low is None
    (name,) = site.boards
    page = board_page(site, name, [])
    assert {(each.key, each.n) for each in page.shown.origins} == {("measured", 1), ("reported", 1)}
    filtered = board_page(site, name, [("origins", "reported")])
    assert [row.row.origin for row in filtered.shown.rows if not row.row.is_baseline] == ["reported"]
    wrong = board_page(site, name, [("origins", "invented")])
    assert "expected one of measured, imported, reported" in wrong.shown.problems[0]


def test_charts_lists_and_the_command_line_mark_reported_rows(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No chart, list of boards or table of `board query` has a reported number under the bare name of its model."""
    site = site_of(store)
    (name,) = site.boards
    charts = charts_page(site, name, [("column", "quiz")])
    assert {(bar.model, bar.mark) for bar in charts.bars if not bar.is_baseline} == {(MODEL, " (reported)")}
    assert " (reported)" in str(charts.bars_svg)
    columns, rows, _ = found_rows(site, "", "-average")
    assert f"{MODEL} (reported)" in str(rows_document(columns, rows))


def test_a_run_of_another_tool_with_answers_is_imported(store: str, tmp_path: Path) -> None:
    """A run that was exported with its samples and imported again has answers, and so another mark than a report."""
    from assaymark.runs.exporting import export_run

    run = next(run for run in StoredRuns(Store.open(store)).runs() if run.origin == "measured")
    export_run(store, run.run_id, tmp_path / "lm-eval")
    import_run(store, tmp_path / "lm-eval")
    assert sorted(run.origin for run in StoredRuns(Store.open(store)).runs()) == ["imported", "measured", "reported"]


def test_another_tool_s_file_without_answers_is_listed_too(store: str, tmp_path: Path) -> None:
    """lm-eval's results without samples are a report: its tasks outside of groups stand beside what was measured."""
    task = "quiz_zeroshot"
    results = {"results": {task: {"acc,none": 0.5}}, "configs": {task: {"task": task}}, "versions": {task: 1},
               "n-shot": {task: 3}, "config": {"model": "hf", "model_args": f"pretrained={MODEL}"}}  # fmt: skip
    (tmp_path / "results_2026-02-01T10-00-00.json").write_text(json.dumps(results))
    import_run(store, tmp_path / "results_2026-02-01T10-00-00.json")
    (pair,) = [each for each in model_page(site_of(store), MODEL).reported if each.reported.task == task]
    assert pair.measured is not None
    assert (pair.reported.value, pair.reported.details["n_shots"], pair.who.partition(",")[0]) == (0.5, 3, "lm-eval")
    assert "3 shots" in html_blocks(reported_blocks([pair]))


def test_models_folders_on_a_board_are_reported_rows(store: str, tmp_path: Path) -> None:
    """`results` names a folder of models; their READMEs are no results files of their own."""
    assert store
    (tmp_path / "models").mkdir()
    (tmp_path / MODEL).rename(tmp_path / "models" / MODEL)
    (tmp_path / "models" / MODEL / "README.md").write_text("# Any text\n")
    (tmp_path / "models" / MODEL / "config.json").write_text("{}")
    (tmp_path / "board.yaml").write_text("tasks: [{file: quiz.yaml, column: Quiz}]\nresults: models\n")
    (tmp_path / "quiz.yaml").write_text(TASK.replace("quiz_zeroshot", "quiz"))
    site = Site([read_board(tmp_path / "board.yaml")])
    (row,) = [row for row in site.table(site.board("board")).rows if not row.is_baseline]
    assert (row.origin, row.model, [cell.number.value for cell in row.cells.values()]) == (
        "reported", f"models/{MODEL}", [0.99],
    )  # fmt: skip


def test_a_folder_s_values_are_claims_of_compare(store: str) -> None:
    """`--published FOLDER` compares what the run evaluated, by benchmark and not by name, as reported."""
    run = next(run for run in StoredRuns(Store.open(store)).runs() if run.origin == "measured")
    (result,) = compare_published(store, run.run_id, [MODEL])
    assert (result.claim.task, result.claim.metric, result.claim.value) == ("quiz_zeroshot", "acc", 0.99)
    assert result.claim.source == "reported 2026-01-15 by Report, with tools, https://example.org/a"
    assert result.comparison.n_a == N
    assert "differs significantly from" in result.verdict
    assert "shots: not stated in the claim" in result.set_up
    (Path(MODEL) / ".eval_results" / "quiz.yaml").write_text("- dataset: {id: a/b, task_id: c}\n  value: 41.5\n")
    with pytest.raises(
        UsageError, match=r"reports nothing that run .* evaluated: it has a/b:c, and the run quiz_zeroshot"
    ):
        compare_published(store, run.run_id, [MODEL])
    (Path(MODEL) / ".eval_results" / "quiz.yaml").write_text("- 3\n")
    with pytest.raises(DataError, match="no reported value was read"):
        compare_published(store, run.run_id, [MODEL])
    with pytest.raises(UsageError, match="is not a published result"):
        compare_published(store, run.run_id, ["x" * 5000])


def test_a_model_card_has_no_reported_value(store: str) -> None:
    """A card is of what was measured: 0.99 is in none of its tables, and a model that was only reported has none."""
    card = model_card(Store.open(store), MODEL)
    assert "quiz_zeroshot" in card
    assert "99.0" not in card
    assert "0.99" not in card
    (Path("acme") / ".eval_results").mkdir(parents=True)
    (Path("acme") / ".eval_results" / "a.yaml").write_text("- dataset: {id: acme/quiz, task_id: quiz}\n  value: 0.5\n")
    import_run(store, Path("acme"))
    with pytest.raises(UnknownName, match="unknown model 'acme'"):
        model_card(Store.open(store), "acme")


def test_show_says_who_reported_a_value(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Date, name, notes and address stand below the table, once for all values of one hand."""
    assert main(["show", "last", "--store", store]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "reported 2026-01-15 by Report, with tools, https://example.org/a: quiz" in lines
    assert "reported, .eval_results/quiz.yaml: acme/other:x" in lines


def test_a_report_claims_no_shots_for_a_reported_value(store: str, tmp_path: Path) -> None:
    """The method of a report names shots where they are stated, and is not 0-shot where they are not."""
    Run(Store.open(store), Store.open(store).run("last").run_id).write_report(tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert "(acc, n = not reported)" in text
    assert "0-shot" not in text


def test_what_a_board_could_not_read_of_a_folder_is_a_note(store: str, tmp_path: Path) -> None:
    """A fault in a folder that the board's file names is with the row, since nothing else says it."""
    assert store
    (tmp_path / MODEL / ".eval_results" / "bad.yaml").write_text("- 3\n")
    (tmp_path / "board.yaml").write_text(f"tasks: [{{file: quiz.yaml, column: Quiz}}]\nresults: {MODEL}\n")
    (tmp_path / "quiz.yaml").write_text(TASK.replace("quiz_zeroshot", "quiz"))
    site = Site([read_board(tmp_path / "board.yaml")])
    (row,) = [row for row in site.table(site.board("board")).rows if not row.is_baseline]
    assert any(note.startswith(".eval_results/bad.yaml: an entry is a number") for note in row.notes)
    page = model_page(site, row.model)
    assert {pair.reported.task for pair in page.reported} == {"quiz", "acme/other:x"}


def test_a_board_sees_changes_inside_of_a_model_s_folder(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is edited or added below the folder that a board names changes its table."""
    monkeypatch.setattr("assaymark.leaderboard.users_files.LOOKED_AT_EVERY_S", 0.0)
    assert store
    (tmp_path / "models").mkdir()
    folder = (tmp_path / MODEL).rename(tmp_path / "models" / MODEL)
    site = site_of_board(tmp_path, "models")
    assert reported_on(site) == [0.99]
    (folder / ".eval_results" / "quiz.yaml").write_text(ENTRY.format(value=0.5, date="2026-01-15"))
    assert reported_on(site) == [0.5]
    (folder / ".eval_results" / "quiz.yaml").unlink()
    (folder / ".eval_results" / "other.yaml").write_text(ENTRY.format(value=0.25, date="2026-01-15"))
    assert reported_on(site) == [0.25]


@pytest.mark.parametrize(("date", "value"), [("2026-03-16", 0.5), ("20260115T10", 0.5), ("2025-12-31", 0.99)])
def test_the_later_of_a_stored_report_and_a_folder_counts(store: str, tmp_path: Path, date: str, value: float) -> None:
    """The store's report is of 2026-01-15: a later one in the folder that the board names replaces it on all pages."""
    assert store
    later = str(tmp_path / "later.sqlite")
    import_run(later, tmp_path / MODEL)  # under the path by which the board names it
    (tmp_path / MODEL / ".eval_results" / "quiz.yaml").write_text(ENTRY.format(value=0.5, date=date))
    site = site_of_board(tmp_path, MODEL, later)
    assert reported_on(site) == [value]
    page = model_page(site, f"{tmp_path.name}/{MODEL}")
    assert [pair.reported.value for pair in page.reported if pair.reported.task == "quiz"] == [value]


ENTRY = "- dataset: {{id: acme/quiz, task_id: quiz}}\n  value: {value}\n  date: '{date}'\n"


def site_of_board(folder: Path, results: str, store: str | None = None) -> Site:
    """Return the site of a board of one column whose file names results; with a store's runs if there is one."""
    (folder / "board.yaml").write_text(f"tasks: [{{file: quiz.yaml, column: Quiz}}]\nresults: {results}\n")
    (folder / "quiz.yaml").write_text(TASK.replace("quiz_zeroshot", "quiz"))
    return Site([read_board(folder / "board.yaml")], None if store is None else StoredRuns(Store.open(store)))


def reported_on(site: Site) -> list[float | None]:
    """Return the values in the board's reported rows."""
    rows = [row for row in site.table(site.board("board")).rows if row.origin == "reported"]
    return [cell.number.value for row in rows for cell in row.cells.values()]


def test_a_report_has_no_stored_plan(store: str) -> None:
    """It has no model; the line names the command that measures what it reports."""
    run = next(run for run in StoredRuns(Store.open(store)).runs() if run.origin == "reported")
    with pytest.raises(UsageError, match="or: assaymark reproduce"):
        reproduce(Run(Store.open(store), run.run_id))


def test_nothing_is_ranked_by_a_metric_without_a_known_direction(tmp_path: Path) -> None:
    """Of an unknown metric no average, no rank and no win rate is made, even where its unit was said; pages say so."""
    url = str(tmp_path / "store.sqlite")
    for name, jolt, accuracy in (("a", 8.3, 70), ("b", 9.1, 60)):
        folder = tmp_path / name
        folder.mkdir()
        values = [{"type": "jolt", "value": jolt}, {"type": "accuracy", "value": accuracy}]
        results = [
            {"dataset": {"type": "x/y", "name": task}, "metrics": [value]}
            for task, value in zip(("Jolts", "Facts"), values, strict=True)
        ]
        (folder / "README.md").write_text(
            f"---\n{yaml.safe_dump({'model-index': [{'name': name, 'results': results}]})}---\n"
        )
        import_run(url, folder, unit="per cent")
    site = site_of(url)
    (board,) = site.boards.values()
    table = site.table(board)
    jolts, facts = sorted(table.columns, key=lambda column: column.title, reverse=True)
    assert [(jolts.is_neutral, jolts.is_share), (facts.is_neutral, facts.is_share)] == [(True, True), (False, True)]
    averages = [row.average.number.value for row in table.rows if row.average is not None]
    assert sorted(averages) == pytest.approx([0.6, 0.7])
    ranked = show_table(table, View(), board.shown_columns).rows
    assert [(row.row.model[-1], row.rank) for row in ranked] == [("a", 1), ("b", 2)]
    assert [each.n_columns for each in board_win_rates(table, None).models] == [1, 1]
    assert board_page(site, board.name, []).without_direction == [jolts.title]
    charts = charts_page(site, board.name, [("column", jolts.key)])
    assert charts.column.is_neutral
    assert task_page(site, "Jolts").is_neutral
    assert not task_page(site, "Facts").is_neutral
