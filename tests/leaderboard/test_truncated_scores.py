"""A score of prompts of which a model saw less than half says nothing of it, wherever it is published."""

import sys

import pytest
import yaml

import assaymark
from assaymark.cli.main import main
from assaymark.interop.export_tables import estimate_rows, model_index, to_csv, to_latex, to_markdown
from assaymark.leaderboard.model_card import model_card
from assaymark.leaderboard.pages.compare import compare_page
from assaymark.leaderboard.pages.run import run_page
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store

NOTE = "more than half of the prompt was truncated in 6 of 6: not a meaningful score"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a store with runs of two models, the second one of which saw the ends of its prompts only."""
    folder = tmp_path_factory.mktemp("truncated")
    rows = [f"{'Some words of a long question. ' * 12}Is it {n}?,yes,no,{'AB'[n % 2]}\n" for n in range(6)]
    (folder / "long.csv").write_text("question,A,B,answer\n" + "".join(rows))
    store = str(folder / "runs.sqlite")
    for name, most in (("large", 512), ("small", 24)):
        arguments = f"pretrained={assaymark.demo_model(name)},max_length={most}"
        assaymark.evaluate("hf", str(folder / "long.csv"), model_args=arguments, store=store).store.close()
    return store


def test_comparisons_and_gates_say_that_a_score_is_not_meaningful(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The comparison's text, JSON and page have the note, and a gate's result has a warning."""
    words = ["compare", "last~1", "last", "--store", place]
    main([*words, "--gate", "long >= -90%"])
    output = capsys.readouterr()
    assert NOTE in " ".join(output.out.split())
    assert f"warning: {NOTE}" in output.err
    main([*words, "--json"])
    assert NOTE in capsys.readouterr().out
    store = Store.open_to_read(place)
    ids = [("run", run.run_id) for run in store.runs()]
    page = compare_page(Site([], StoredRuns(store)), ids)
    assert any(NOTE in note for note in page.pairs[0].pair.notes)


def test_exports_cards_and_pages_say_that_a_score_is_not_meaningful(place: str) -> None:
    """CSV, Markdown, TeX and model index have the note; the card judges no such score; page and board have it."""
    store = Store.open_to_read(place)
    run = next(iter(store.runs()))
    rows = estimate_rows(store, run.run_id)
    for text in (to_csv(rows), to_markdown(rows), to_latex(rows)):
        assert f"long: {NOTE}" in text or f",{NOTE}" in text
    (result,) = yaml.safe_load(model_index(store, run.run_id))["model-index"][0]["results"]
    assert result["metrics"][0]["args"]["note"] == NOTE
    card = model_card(store, run.model)
    assert f"long: {NOTE}" in card
    assert "- Weakness" not in card
    assert "Rank among" not in card
    site = Site([], StoredRuns(store))
    assert run_page(site, run.run_id).notes == (f"long: {NOTE}",)
    (board,) = site.boards.values()
    noted = {row.model: row.notes for row in site.table(board).rows if row.notes}
    assert list(noted.values()) == [(f"long: {NOTE}",)]


def test_a_cards_command_has_no_folders(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """How to reproduce the results says which files are needed, not where they lie on this machine."""
    folder = str(place).rpartition("/")[0]
    words = ["run", "--model", "fake", "--tasks", f"{folder}/long.csv", "--store", place, "--quiet"]
    monkeypatch.setattr(sys, "argv", ["assaymark", *words])
    main(words)
    card = model_card(Store.open_to_read(place), "fake-random-0")
    assert "--tasks long.csv" in card
    assert folder not in card
