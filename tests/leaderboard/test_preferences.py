"""Recommendations for what no benchmark measures: votes of an arena's categories, what to evaluate, who was not."""

import json
from pathlib import Path

import httpx
import pytest

from assaymark.arena.answer_files import ArenaPrompt, StoredAnswers
from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.ballots import Publishing
from assaymark.arena.battles import Arena
from assaymark.arena.published import publish_ratings
from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.evidence import sources_of, votes_of
from assaymark.leaderboard.guide import capabilities
from assaymark.leaderboard.recommend import Requested, recommend
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.tasks.catalog import Catalog
from assaymark.web.app import create_app
from tests.arena.stored_votes import NO_LIMITS, STRENGTHS, cast
from tests.served import running

TABLE = "model,params,license,GSM8K\nowl,7,apache-2.0,60\nhen,3,mit,50\nyak,70,,90\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a store with 400 votes on prompts of two categories, 300 of them published."""
    kinds = ("Creative_Writing", "coding")
    prompts = {f"p{n}": ArenaPrompt(f"p{n}", f"Prompt {n}?", kinds[n % 2]) for n in range(40)}
    texts = {name: {key: f"text {at} of {key}" for key in prompts} for at, name in enumerate(STRENGTHS)}
    store = Store.open(str(tmp_path / "s.sqlite"))
    arena = Arena(
        store, StoredAnswers("made up", prompts, texts), NO_LIMITS, seed=0, publishing=Publishing(300, 1e9, 10)
    )
    cast(arena, 400)
    store.close()
    (tmp_path / "scores.csv").write_text(TABLE)
    (tmp_path / "board.yaml").write_text(
        "title: Known\ntable: {file: scores.csv, format: csv, columns: {GSM8K: GSM8K}}\n"
    )
    return tmp_path


@pytest.mark.slow
def test_published_votes_of_a_category_answer_what_no_benchmark_measures(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Writing is answered by the votes on creative writing alone, as the arena rates them, with size and licence."""
    words = ["recommend", "--for", "writing", "--board", str(place / "board.yaml"), "--store", str(place / "s.sqlite")]
    assert main([*words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    with Store.open(str(place / "s.sqlite")) as store:
        published = list(ArenaLog(store).votes(until=300))
        expected = publish_ratings(published, ArenaLog(store).models(), category="Creative_Writing")
    (votes,) = answer["preferences"]
    assert votes["category"] == "Creative_Writing"
    assert votes["n_votes"] == sum(vote.category == "Creative_Writing" for vote in published) == expected.n_votes
    ratings = {row.model: row.rating.rating for row in expected.models if row.rating is not None}
    assert [each["model"] for each in votes["models"]] == sorted(ratings, key=lambda name: -ratings[name])
    assert {each["model"]: each["rating"] for each in votes["models"]} == pytest.approx(ratings)
    by_model = {each["model"]: each for each in votes["models"]}
    assert (by_model["owl"]["params"], by_model["owl"]["licence"]) == (7.0, "apache-2.0")
    assert (by_model["eel"]["params"], by_model["eel"]["licence"]) == (None, None)
    assert answer["no_evidence"] == answer["rankings"] == []
    (lacking,) = answer["never_measured"]
    assert lacking["models"] == [{"model": "yak", "params": 70.0, "licence": None}]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "Votes on Creative_Writing" in printed
    assert "never measured for writing: yak (70 B, licence not stated)" in printed


def test_what_nothing_rates_says_what_to_evaluate(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Law: the command of the legal subjects, the advice, and every model by name with size and licence."""
    words = ["recommend", "--for", "law,music", "--board", str(place / "board.yaml"), "--max-params", "8"]
    assert main([*words, "--store", str(place / "s.sqlite")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "--tasks mmlu_professional_law,mmlu_jurisprudence" in printed
    assert "what to evaluate: This package brings no benchmark for it. MusicTheoryBench" in printed
    assert "never measured for music: hen (3 B, mit), owl (7 B, apache-2.0)" in printed
    assert "yak" not in printed  # it has more parameters than were allowed


def test_an_empty_store_still_says_what_to_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without any evidence the answer is what to evaluate, and that there was nothing to look in."""
    Store.open(str(tmp_path / "s.sqlite")).close()
    assert main(["recommend", "--for", "law", "--store", str(tmp_path / "s.sqlite")]) == 0
    captured = capsys.readouterr()
    assert "mmlu_professional_law" in captured.out
    assert "the store has no results" in captured.err


def test_measured_models_are_not_called_unmeasured(place: Path) -> None:
    """A model with a value for one of two demands is lacking for the other one only; votes count as a measure."""
    site = Site([read_board(place / "board.yaml")], StoredRuns(Store.open_to_read(str(place / "s.sqlite"))))
    answer = recommend(sources_of(site), Requested(("maths", "code")), votes_of(site))
    lacking = {each.demand.key: [model.model for model in each.models] for each in answer.unmeasured}
    assert lacking == {"code": ["yak"]}


@pytest.mark.slow
def test_the_page_shows_votes_names_and_advice(place: Path) -> None:
    """The page and its twin have the ratings, the unmeasured models, and the advice where there is no evidence."""
    site = Site([read_board(place / "board.yaml")], StoredRuns(Store.open_to_read(str(place / "s.sqlite"))))
    with running(create_app([board_feature(site)])) as url, httpx.Client(base_url=url, timeout=20) as client:
        page = client.get("/recommend?for=writing&for=roleplay").text
        assert "Votes on Creative_Writing" in page
        assert page.index(">owl<") < page.index(">eel<")
        assert "never measured for writing: yak (70 B, licence not stated)" in page
        assert "what to evaluate: No benchmark without a judge measures it." in page
        twin = client.get("/recommend.json?for=writing").json()["recommendation"]
        assert twin["preferences"][0]["category"] == "Creative_Writing"


def test_every_task_to_evaluate_exists() -> None:
    """What the map names to evaluate is a task or group of the catalogue, and measures that capability."""
    known = {entry.name for entry in Catalog.open().entries()}
    for capability in capabilities().values():
        assert set(capability.evaluate) <= known, capability.key
        assert capability.suggested or capability.evaluate or "no benchmark" in capability.advice.lower(), (
            capability.key
        )
