"""The page of definitions has every metric."""

from pathlib import Path

from assaymark.scoring.metrics import own_metrics

PAGE = Path(__file__).resolve().parents[2] / "docs/how_scores_are_computed.md"


def test_every_metric_is_defined_on_the_page() -> None:
    """Each metric of this package stands on the page with its formula, word for word."""
    lines = PAGE.read_text(encoding="utf-8").partition("## All metrics")[2].splitlines()
    defined = {line.split("|")[1].strip(): line for line in lines if line.startswith("| `")}
    formulas = {f"`{metric.name}`": metric.formula.replace("|", "&#124;") for metric in own_metrics()}
    assert [name for name, formula in formulas.items() if formula not in defined.get(name, "")] == []
