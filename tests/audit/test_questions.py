"""The questions of a task over the models of a store."""

import json
from pathlib import Path

import httpx
import pytest

import assaymark
from assaymark.audit.questions import questions_of
from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.records.json_values import json_fields
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.audit.test_diagnosis import PlantedModel, gold_of, write_questions
from tests.served import running

N = 60
WRONG_KEYS = {4, 19}


def model(skill: int) -> PlantedModel:
    """Return a model that knows the answers of the first questions; the key of two of them is wrong."""

    def rule(n: int | None, options: object, of: int, asks_text: bool) -> int:
        knows = (7 * of) % N < 5 * skill + 5
        picked = gold_of(of) if knows else (gold_of(of) + 1) % 4
        return (gold_of(of) + 1 if knows else gold_of(of)) % 4 if of in WRONG_KEYS else picked

    return PlantedModel(f"skill-{skill}", rule)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with ten models on sixty questions."""
    folder = tmp_path_factory.mktemp("questions")
    questions, store = str(write_questions(folder / "exam.csv", N)), str(folder / "s.sqlite")
    for skill in range(10):
        assaymark.evaluate(model(skill), questions, store=store)
    return store


@pytest.mark.slow
def test_wrong_keys_are_suspicious(store: str) -> None:
    """Questions with wrong keys are found among the others, with the models that miss them, and shares are exact."""
    answered = questions_of(store, "exam")
    assert answered.models[0] == "skill-9"
    assert len(answered.models) == 10
    assert {question.index for question in answered.suspicious} == WRONG_KEYS
    for question in answered.questions:
        n = question.index
        right = [(7 * n) % N < 5 * skill + 5 for skill in range(10)]
        expected = 1 - sum(right) / 10 if n in WRONG_KEYS else sum(right) / 10
        assert question.statistics.right == pytest.approx(expected)
        assert len(question.missed_by) == round(10 * (1 - expected))
        assert question.text == f"Question number {n}?"


def test_the_command(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints both tables, writes JSON, and says what is missing."""
    assert main(["task", "questions", "exam", "--store", store]) == 0
    printed = capsys.readouterr().out
    assert "60 questions that 10 models answered, the best of them skill-9" in printed
    assert "2 questions that better models miss and weaker ones get right" in printed
    assert main(["task", "questions", "exam", "--store", store, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [each["index"] for each in content["questions"] if each["is_suspicious"]] == sorted(WRONG_KEYS)
    with pytest.raises(UnknownName, match="exam"):
        questions_of(store, "exams")
    alone = str(tmp_path / "alone.sqlite")
    assaymark.evaluate(model(1), str(write_questions(tmp_path / "exam.csv", N)), store=alone)
    with pytest.raises(UsageError, match="whole runs of 1 model on exam"):
        questions_of(alone, "exam")


def test_task_check_names_suspicious_questions_of_the_same_data(store: str, tmp_path: Path) -> None:
    """Stored runs of this very file count; those of an edited one, and a store that does not exist, say nothing."""
    same = str(write_questions(tmp_path / "exam.csv", N))
    levels = {finding.text: finding.level for finding in assaymark.check_task(same, store=store).findings}
    (text,) = [text for text in levels if "the key may be wrong" in text]
    assert levels[text] == "warning"
    assert "better models miss 2 questions that weaker ones get right (samples 4, 19)" in text
    (tmp_path / "other").mkdir()
    other = str(write_questions(tmp_path / "other" / "exam.csv", N + 1))
    for task, where in ((other, store), (same, str(tmp_path / "none.sqlite"))):
        findings = assaymark.check_task(task, store=where).findings
        assert not [finding for finding in findings if "the key may be wrong" in finding.text]
    assert not (tmp_path / "none.sqlite").exists()


def test_the_page_lists_suspicious_and_hard_questions(store: str) -> None:
    """Page and JSON twin have what the command has; a task with too few models has the reason, an unknown one 404."""
    answered = questions_of(store, "exam")
    with Store.open_to_read(store) as opened:
        app = create_app([board_feature(Site([], StoredRuns(opened)))])
        with running(app) as address, httpx.Client(base_url=address) as client:
            page = client.get("/questions/exam")
            assert page.status_code == 200
            assert "Question number 19?" in page.text
            assert f"/run/{answered.best_run}/samples/exam/19" in page.text
            assert client.get(f"/run/{answered.best_run}/samples/exam/19").status_code == 200
            content = client.get("/questions/exam.json").json()
            assert [each["index"] for each in content["questions"] if each["is_suspicious"]] == sorted(WRONG_KEYS)
            assert content["questions"] == json_fields(answered)["questions"]
            assert "/questions/exam" in client.get("/task/exam").text
            assert client.get("/questions/nothing").status_code == 404
            never_run = client.get("/questions/demo_facts")
            assert never_run.status_code == 200
            assert "unknown task of a stored run" in never_run.text
