"""Versions of an application side by side: differences of each scorer, rows that got worse first, by tag and split."""

import html.parser
import json
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import assaymark
from assaymark.cli.main import main
from assaymark.documents.terminal import as_text
from assaymark.errors import UsageError

N = 24
ROWS = [
    {
        "id": f"r{at}", "input": f"<i>{at}</i>", "expected": str(at), "split": ("base", "hard")[at % 2],
        "tags": ["small"] if at < 8 else ["large", "late"], "metadata": {"topic": f"topic {at % 3}"},
    }
    for at in range(N)
]  # fmt: skip


def number(input: str) -> int:  # noqa: A002 - the name by which it is bound
    """Return the number in a row."""
    return int(input.removeprefix("<i>").removesuffix("</i>"))


def first(input: str) -> dict[str, Any]:  # noqa: A002
    """Answer rightly up to 20, at a cost."""
    return {"output": str(number(input)) if number(input) < 20 else "?", "cost": 0.5}


def second(input: str) -> dict[str, Any]:  # noqa: A002
    """Answer wrongly below 8 where odd, fail at 9, answer rightly from 20 on, for less."""
    at = number(input)
    if at == 9:
        raise ValueError("<b>nine</b>")
    return {"output": "wrong" if at < 8 and at % 2 else str(at), "cost": 0.25}


def length(output: Any) -> float:
    """Return the length as a share."""
    return len(str(output)) / 10


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[assaymark.Run, assaymark.Run]:
    """Return a run of each version."""
    store = str(tmp_path_factory.mktemp("experiments") / "s.sqlite")
    made = [assaymark.evaluate(each, ROWS, scorers=["exact", length], store=store) for each in (first, second)]
    return made[0], made[1]


def test_the_difference_of_each_scorer_and_cost(runs: tuple[assaymark.Run, assaymark.Run]) -> None:
    """Second minus first on the same rows, for scorers, latency and cost, each with its interval."""
    result = assaymark.experiment(*runs)
    (pair,) = result.comparison.pairs
    lines = {line.metric: line for line in (*pair.tasks, *pair.scorers)}
    assert {"exact", "length", "cost", "latency_s"} <= set(lines)
    assert lines["exact"].n == 23  # row 9 failed
    assert lines["exact"].difference == pytest.approx((4 - 4) / 23)
    assert (lines["cost"].difference, lines["cost"].better) == (-0.25, 1)
    assert lines["length"].low is not None


def test_rows_that_got_worse_come_first(runs: tuple[assaymark.Run, assaymark.Run]) -> None:
    """New failures, then rows by their loss, with both answers; those that got better are last."""
    (rows,) = assaymark.experiment(*runs).rows
    assert len(rows) == N
    assert (rows[0].row, rows[0].is_new_failure, rows[0].second_answer) == ("r9", True, None)
    assert "<b>nine</b>" in (rows[0].second_error or "")
    assert {row.row for row in rows[1:5]} == {"r1", "r3", "r5", "r7"}
    assert (rows[1].first_answer, rows[1].second_answer, rows[1].expected) == (
        rows[1].row[1:],
        "wrong",
        rows[1].row[1:],
    )
    assert {row.row for row in rows[-4:]} == {f"r{at}" for at in range(20, 24)}
    assert [row.gain for row in rows[1:]] == sorted(row.gain for row in rows[1:])


def test_by_tag_split_and_metadata(runs: tuple[assaymark.Run, assaymark.Run]) -> None:
    """Each part has its own difference; a row with two tags counts in both; a part's p is that of a known test."""
    result = assaymark.experiment(*runs)
    (by_tag,) = result.by("tag")
    exact = {part.part: part.line for part in by_tag if part.line.metric == "exact"}
    assert set(exact) == {"small", "large", "late"}
    assert (exact["small"].first, exact["small"].second, exact["small"].n) == (1.0, 0.5, 8)
    assert exact["large"].difference == exact["late"].difference == pytest.approx(4 / 15)
    assert exact["small"].p == pytest.approx(stats.binomtest(0, 4, 0.5).pvalue, rel=0.6)  # exact and mid-p alike
    assert all(part.line.p_adjusted is not None and part.line.p_adjusted >= part.line.p for part in by_tag)
    (by_split,) = result.by("split")
    assert {part.part for part in by_split} == {"base", "hard"}
    (by_topic,) = result.by("topic")
    assert {part.part for part in by_topic} == {"topic 0", "topic 1", "topic 2"}
    with pytest.raises(UsageError, match=r"no row has a topics; did you mean 'topic'\?"):
        result.by("topics")


class Texts(html.parser.HTMLParser):
    """Collects tags and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Keep a tag."""
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        """Keep a text."""
        self.texts.append(data)


def test_a_notebook_shows_it_as_html(runs: tuple[assaymark.Run, assaymark.Run]) -> None:
    """Differences are tables and a drawing, rows are tables; what rows and answers hold is text, never markup."""
    result = assaymark.experiment(*runs)
    texts = Texts()
    texts.feed(result._repr_html_())
    assert {"table", "svg"} <= texts.tags
    assert not {"b", "i", "script"} & texts.tags
    assert "24 rows, those that got worse first" in texts.texts
    assert any("<b>nine</b>" in text for text in texts.texts)
    assert "r9: <i>9</i>" in "".join(texts.texts)  # a name may be broken after a slash
    assert "those that got worse first" in str(result)
    assert as_text(str(result))


def test_the_command(runs: tuple[assaymark.Run, assaymark.Run], capsys: pytest.CaptureFixture[str]) -> None:
    """`compare --rows --by tag` prints both, and `--json` has them; an unknown name is refused."""
    store = runs[0].store.url.removeprefix("sqlite:///")
    command = ["compare", runs[0].id, runs[1].id, "--store", store, "--rows", "--by", "tag"]
    assert main(command) == 0
    output = capsys.readouterr().out
    for text in ("Differences by tag", "small", "24 rows, those that got worse first", "failed:", "exact 1 → 0"):
        assert text in output, text
    assert main([*command, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["rows"][0][0]["row"] == "r9"
    assert {part["part"] for part in content["by"][0]} == {"small", "large", "late"}
    assert main([*command[:-1], "tags"]) == 2
    assert "no row has a tags; did you mean 'tag'?" in capsys.readouterr().err


def test_a_single_run_is_refused(runs: tuple[assaymark.Run, assaymark.Run], tmp_path: Path) -> None:
    """As is another data set."""
    with pytest.raises(UsageError, match="two or more"):
        assaymark.experiment(runs[0])
    other = assaymark.evaluate(first, [{"input": "<i>1</i>"}], scorers=[length], store=str(tmp_path / "o.sqlite"))
    with pytest.raises(UsageError):
        assaymark.experiment(runs[0], other)
