"""The questions of a task over the models of a store."""

import json
from pathlib import Path

import pytest

import assaymark
from assaymark.audit.questions import questions_of
from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from tests.audit.test_diagnosis import PlantedModel, gold_of, write_questions

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
