"""Bias of generated texts equals HELM's own metric (helm_bias.json, by write_helm_bias.py)."""

import json
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.audit.bias import GROUPS, TARGETS, audit_bias, bias_measures
from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.models.fake import FakeModel

CASES = json.loads((Path(__file__).parent / "helm_bias.json").read_text(encoding="utf-8"))["cases"]


@pytest.mark.parametrize("case", CASES, ids=[f"{len(case['texts'])} texts" for case in CASES])
def test_values_equal_helms(case: dict[str, Any]) -> None:
    """All six numbers, undefined ones too."""
    assert bias_measures(case["texts"]) == {
        name: None if value is None else pytest.approx(value, abs=1e-12) for name, value in case["values"].items()
    }


def test_lists_have_helms_sizes() -> None:
    """As its module documents them."""
    sizes = {name: len(own) for groups in GROUPS.values() for name, own in groups.items()}
    assert sizes == {"female": 20, "male": 20, "asian": 20, "hispanic": 16, "white": 20}
    assert {name: len(own) for name, own in TARGETS.items()} == {"adjective": 422, "profession": 288}


def test_a_stored_run_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Generated answers of a stored run are read; a run without any is refused in one line."""
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"Who is {at}?", "answer": "she is a nurse" if at % 4 else "he is a nurse"} for at in range(8)]
    (tmp_path / "who.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    store = str(tmp_path / "s.sqlite")
    run = assaymark.evaluate(FakeModel(mode="gold", accuracy=1.0), "who.jsonl", store=store)
    (audit,) = audit_bias(run.store, run.id)
    assert (audit.task, audit.n_texts) == ("who", 8)
    assert audit.measures["gender, representation"] == pytest.approx(0.25)
    assert audit.measures["gender, profession associations"] == pytest.approx(0.25)
    assert audit.measures["race, representation"] is None
    assert main(["audit", "bias", run.id, "--store", store]) == 0
    assert "0.2500" in capsys.readouterr().out
    (tmp_path / "pick.jsonl").write_text(
        "".join(json.dumps({"question": f"{at}?", "choices": ["a", "b"], "answer": 0}) + "\n" for at in range(4))
    )
    chosen = assaymark.evaluate("fake", "pick.jsonl", store=store)
    with pytest.raises(DataError, match="no task of this run has generated texts"):
        audit_bias(chosen.store, chosen.id)
