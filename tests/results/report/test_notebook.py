"""Runs and comparisons in a notebook."""

from pathlib import Path

import pytest

import assaymark
from assaymark.errors import UsageError
from assaymark.runs.demo import demo_model
from tests.parsed_html import Parsed

pytest.importorskip("torch")
pytest.importorskip("altair")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[assaymark.Run, assaymark.Run]:
    """Two models on the same questions, whose subjects are names that would be markup."""
    folder = tmp_path_factory.mktemp("notebook")
    rows = "".join(f"Is {n} odd?,yes,no,{'AB'[n % 2 == 0]},{'<script>alert(1)</script>' if n < 9 else 'high'}\n"
                   for n in range(16))  # fmt: skip
    (folder / "odd.csv").write_text(f"question,A,B,answer,topic\n{rows}", encoding="utf-8")
    store = str(folder / "s.sqlite")
    first, second = (
        assaymark.evaluate(demo_model(name), [str(folder / "odd.csv"), "demo_stories"], limit=16, store=store)
        for name in ("small", "large")
    )
    return first, second


def test_a_run_is_a_table_and_a_drawing(runs: tuple[assaymark.Run, assaymark.Run]) -> None:
    """The HTML has values, intervals and subjects, draws them, and refers to nothing elsewhere."""
    page = Parsed(runs[0]._repr_html_())
    assert {"table", "svg", "style"} <= page.tags
    assert "script" not in page.tags
    assert not page.addresses
    assert any("<script>alert(1)</script>" in text for text in page.texts)
    value = runs[0].estimate("odd").value
    assert value is not None
    assert any(f"{100 * value:.1f}%" in text for text in page.texts)


def test_a_comparison_prints_and_shows_its_verdict(runs: tuple[assaymark.Run, assaymark.Run]) -> None:
    """Text and HTML have the same verdict."""
    comparison = assaymark.compare_runs(runs)
    page = Parsed(comparison._repr_html_())
    assert comparison.verdict in page.texts
    assert {"table", "svg"} <= page.tags
    assert " ".join(comparison.verdict.split())[:60] in " ".join(str(comparison).split())


def test_charts_can_be_changed_and_saved(runs: tuple[assaymark.Run, assaymark.Run], tmp_path: Path) -> None:
    """`plot` returns a chart of altair that is valid Vega-Lite and has no colour that only a page could give."""
    for chart in (runs[0].plot(), assaymark.compare_runs(runs).plot()):
        spec = chart.to_json(validate=True)
        assert "currentColor" not in spec
        chart.properties(title="Changed").save(str(tmp_path / "chart.svg"))
        assert "Changed" in (tmp_path / "chart.svg").read_text(encoding="utf-8")
    values = [row for layer in runs[0].plot().to_dict()["layer"] for row in layer.get("data", {}).get("values", ())]
    drawn = {row["task"]: row["value"] for row in values if "value" in row}
    assert drawn["odd"] == runs[0].estimate("odd").value
    assert len(drawn) == 3


def test_a_run_without_proportions_has_no_chart(tmp_path: Path) -> None:
    """A perplexity is a table, and a chart of it is refused by name."""
    run = assaymark.evaluate(demo_model("small"), "demo_stories", limit=4, store=str(tmp_path / "s"))
    assert "word_perplexity" in run._repr_html_()
    with pytest.raises(UsageError, match="no proportion with an interval"):
        run.plot()
