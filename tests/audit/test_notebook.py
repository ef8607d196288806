"""Audits in a notebook, and printed."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.audit.calibration import calibration_of
from assaymark.audit.contamination import ContaminationSettings
from assaymark.audit.notebook import Audits, CalibrationAudits, ContaminationTests, Diagnoses, PromptAudits
from assaymark.audit.option_orders import OrderSettings
from assaymark.errors import UsageError
from tests.parsed_html import Parsed

pytest.importorskip("torch")
pytest.importorskip("altair")

MARKUP = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Audits[Any]]:
    """All four audits of the small model on the first questions of the demo."""
    store = str(tmp_path_factory.mktemp("audits") / "s.sqlite")
    model = assaymark.demo_model("small")
    run = assaymark.evaluate(model, "demo_facts", limit=60, store=store)
    settings = ContaminationSettings(("order", "options"), OrderSettings(n_shards=4, n_shuffles=3))
    return {
        "calibration": assaymark.audit_calibration(run),
        "prompts": assaymark.audit_prompts([model], "demo_facts", (), limit=20, store=store),
        "contamination": assaymark.audit_contamination(model, "demo_facts", settings, limit=20, store=store),
        "diagnosis": assaymark.diagnose(run, at_most=10, more_shots=0),
    }


@pytest.mark.slow
def test_audits_are_lists_that_show_themselves(audits: dict[str, Audits[Any]]) -> None:
    """The HTML has tables and, but for p-values, drawings; the text is the command's; both open alike."""
    assert [type(each) for each in audits.values()] == [CalibrationAudits, PromptAudits, ContaminationTests, Diagnoses]
    for name, each in audits.items():
        page = Parsed(each._repr_html_())
        assert {"table", "style"} <= page.tags, name
        assert ("svg" in page.tags) == (name != "contamination"), name
        assert "script" not in page.tags
        assert not page.addresses
        assert "demo_facts" in str(each)
        opening = " ".join(str(each).split())[:25]
        assert opening in " ".join(" ".join(page.texts).split()), name


def test_the_numbers_in_the_html_are_the_results(audits: dict[str, Audits[Any]]) -> None:
    """Each variant's accuracy, each cause's count and the calibration error stand in a cell."""
    cells = {name: [text.strip() for text in Parsed(each._repr_html_()).texts] for name, each in audits.items()}
    (calibration,), (prompts,), (diagnosis,) = (audits[name] for name in ("calibration", "prompts", "diagnosis"))
    assert f"{100 * calibration.error.value:.1f}%" in cells["calibration"]
    assert all(f"{100 * form.value:.1f}%" in cells["prompts"] for form in prompts.forms)
    counts = {count.cause: str(count.n) for count in diagnosis.causes if count.n}
    assert sum(map(int, counts.values())) == diagnosis.n_diagnosed
    for cause, count in counts.items():
        assert cells["diagnosis"][cells["diagnosis"].index(cause) + 1] == count


def test_texts_of_others_are_escaped(audits: dict[str, Audits[Any]]) -> None:
    """A task may be named as markup is."""
    for each in audits.values():
        renamed = copy.copy(each)
        renamed[:] = [replace(audit, task=MARKUP) for audit in each]
        page = Parsed(renamed._repr_html_())
        assert "script" not in page.tags
        assert MARKUP in "".join(page.texts)


def test_charts_have_the_values(audits: dict[str, Audits[Any]], tmp_path: Path) -> None:
    """The calibration chart has a mark for each bin, that of prompts one for each variant; both can be saved."""
    (calibration,), (prompts,) = audits["calibration"], audits["prompts"]
    assert _drawn(audits["calibration"].plot(), "right") == [each.accuracy for each in calibration.error.bins]
    assert sorted(_drawn(audits["prompts"].plot(), "value")) == sorted(form.value for form in prompts.forms)
    audits["calibration"].plot().properties(title="Changed").save(str(tmp_path / "chart.svg"))
    assert "Changed" in (tmp_path / "chart.svg").read_text(encoding="utf-8")
    with pytest.raises(UsageError, match="p-values"):
        audits["contamination"].plot()


def test_a_chart_of_many_tasks_has_the_curve_of_all() -> None:
    """Seven curves would need more colours than there are: the pooled one is drawn."""
    pairs = [(0.3 + number / 200, float(number % 3 == 0)) for number in range(100)]
    many = CalibrationAudits(calibration_of(name, pairs) for name in (*"abcdefg", "all tasks"))
    assert {row["run"] for row in _rows(many.plot()) if "run" in row} == {"all tasks"}


def test_parts_of_a_chart_are_named(audits: dict[str, Audits[Any]]) -> None:
    """With two tasks each part of the chart has its task's name."""
    (diagnosis,) = audits["diagnosis"]
    spec = Diagnoses([diagnosis, replace(diagnosis, task="other")]).plot().to_dict()
    assert [part["title"]["text"] for part in spec["vconcat"]] == ["demo_facts", "other"]


def _rows(chart: Any) -> list[dict[str, Any]]:
    """Return the rows that the layers of a chart draw."""
    return [row for layer in chart.to_dict()["layer"] for row in layer.get("data", {}).get("values", ())]


def _drawn(chart: Any, name: str) -> list[float]:
    """Return the distinct rows' values of a name, in order."""
    rows = {str(row): row[name] for row in _rows(chart) if name in row and "run" in row}
    return list(rows.values())
