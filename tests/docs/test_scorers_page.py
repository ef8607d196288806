"""The page of the scorers has every registered one, with its direction and its needs."""

import re

from assaymark.applications.scorer import ScorerFacts
from assaymark.applications.scorers import SCORERS
from tests.conftest import ROOT

BETTER = {True: "", False: "; lower is better", None: "; neither is better"}


def rows() -> dict[str, list[str]]:
    """Return the cells of each line of the page's tables, by the scorers that the first cell names."""
    page = (ROOT / "docs" / "scorers.md").read_text(encoding="utf-8")
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line] for line in lines]
    return {name: line for line in cells for name in re.findall(r"`(\w+)`", line[0])}


def test_every_scorer_is_on_the_page() -> None:
    """Name, direction and needs of each are those that it declares."""
    result = rows()
    for name in SCORERS:
        assert name in result, name
        facts: ScorerFacts = vars(SCORERS.load(name))["FACTS"]
        assert "".join(re.findall(r"; \w+ is better$", result[name][1])) == BETTER[facts.higher_is_better], name
        for need in facts.needs & {"expected", "contexts"}:
            assert need in result[name][2], name
