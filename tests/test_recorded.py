"""What is recorded of other programs can be asked again."""

import json
from pathlib import Path

import pytest

from tests.applications.oracles.locked import LIVE
from tests.conftest import ROOT
from tests.recorded import RECORDS, recorded, sha256


@pytest.mark.parametrize("file", sorted(RECORDS.glob("*.json")), ids=lambda file: file.stem)
def test_a_record_can_be_made_again(file: Path) -> None:
    """The files that say how the program is asked exist and have not changed since; what was asked is kept."""
    record = json.loads(file.read_text(encoding="utf-8"))
    assert set(record) == {"oracle", "sources", "asked", "answer"}
    assert record["sources"] == {name: sha256(ROOT / name) for name in record["sources"]}
    assert record["asked"]
    assert record["answer"]


def test_every_locked_oracle_is_recorded_or_asked_in_every_run() -> None:
    """A lock file without a record proves nothing."""
    locked = {file.stem for file in (ROOT / "tests" / "applications" / "oracles").glob("*.txt")}
    names = {json.loads(file.read_text(encoding="utf-8"))["oracle"] for file in RECORDS.glob("*.json")}
    assert locked <= names | LIVE


def test_a_changed_question_or_script_is_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record answers the same question; another question or script is put to the program, and its record is new."""
    monkeypatch.delenv("RENEW_ORACLES", raising=False)
    monkeypatch.setattr("tests.recorded.RECORDS", tmp_path / "records")
    monkeypatch.setattr("tests.recorded.ROOT", tmp_path)
    script, answers = tmp_path / "run.py", iter(range(9))
    script.write_text("1")

    def answer(asked: object) -> object:
        return recorded("other", asked, [script], lambda: next(answers))

    def asked_anew(asked: object) -> None:
        with pytest.raises(pytest.fail.Exception, match=r"commit records.other-\w+\.json"):
            answer(asked)

    asked_anew("a")
    asked_anew("b")
    assert [answer("a"), answer("b")] == [0, 1]
    script.write_text("2")
    asked_anew("a")
    assert answer("a") == 2
    monkeypatch.setenv("RENEW_ORACLES", "1")
    assert [answer("a"), answer("b")] == [3, 4]
