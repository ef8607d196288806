"""The page of definitions has every metric."""

from pathlib import Path

from assaymark.scoring.metric_table import METRICS

PAGE = Path(__file__).resolve().parents[2] / "docs/how_scores_are_computed.md"


def test_every_metric_is_defined_on_the_page() -> None:
    """Each row of the table of metrics stands on the page with its formula, word for word."""
    lines = PAGE.read_text(encoding="utf-8").partition("## All metrics")[2].splitlines()
    defined = {line.split("|")[1].strip(): line for line in lines if line.startswith("| `")}
    formulas = {f"`{one.name}`": one.formula.replace("|", "&#124;") for one in METRICS}
    assert [name for name, formula in formulas.items() if formula not in defined.get(name, "")] == []
