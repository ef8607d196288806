"""The documentation's site: every internal link leads somewhere, and its Python pages leave nothing out."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.check_site import broken_links

import assaymark
from assaymark.leaderboard.guide import guide
from assaymark.runs.evaluate_options import EvaluateOptions
from assaymark.scoring.metrics import own_metrics
from tests.conftest import ROOT

PYTHON_PAGE = (ROOT / "docs" / "python_api.md").read_text(encoding="utf-8")


def test_broken_links_are_found(tmp_path: Path) -> None:
    """A missing file and a missing anchor are reported with page and link; other sites are left alone."""
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#here">b</a><a href="https://x.org/y">x</a>')
    (tmp_path / "b.html").write_text('<a href="a.html#top">a</a><a href="a.html#gone">a</a><img src="no.png">')
    assert broken_links(tmp_path) == [
        "a.html: b.html#here: no anchor 'here' on that page",
        "b.html: a.html#gone: no anchor 'gone' on that page",
        "b.html: no.png: no such file",
    ]


def test_every_option_of_evaluate_is_on_the_page() -> None:
    """The table of options has one row per option of `EvaluateOptions`."""
    section = PYTHON_PAGE.partition("### Options")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == sorted(EvaluateOptions.__annotations__)


def test_every_public_name_is_documented() -> None:
    """What the Python page documents by autodoc is public; docs/conf.py puts every other name on the reference."""
    documented = set(re.findall(r"^\.\. auto(?:function|class):: assaymark\.(\w+)$", PYTHON_PAGE, re.MULTILINE))
    assert {"evaluate", "Run"} <= documented <= set(assaymark.__all__)


def test_the_changelog_names_pages_without_links() -> None:
    """CHANGELOG.md is a page of the site too, where a link into docs/ leads nowhere."""
    assert not re.findall(r"\]\(docs/[^)]*\)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def words_of(page: Path) -> str:
    """Return a page's words, without tags."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8"))).split())


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    """Sphinx builds every page, warnings being errors, and no internal link of the result is broken."""
    pytest.importorskip("sphinx", reason="the extra [docs] is not installed")
    site = tmp_path / "site"
    words = ["-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--builder", "html"]
    words += ["--define", "nb_execution_mode=off"]  # test_tutorial.py runs the notebook
    done = subprocess.run(
        [sys.executable, *words, "--doctree-dir", str(tmp_path / "trees"), str(ROOT / "docs"), str(site)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert broken_links(site) == []
    choosing, scores = (words_of(site / f"{name}.html") for name in ("choosing_benchmarks", "how_scores_are_computed"))
    for section in guide():  # what `assaymark guide` says
        assert f"{section.capability.title}¶" in choosing
        rows = [f"{each.task} {re.split('[^a-zA-Z ]', each.measures)[0].strip()}" for each in section.entries]
        assert [row for row in rows if row not in choosing] == []
    rows = [f" {metric.name} {metric.formula}".replace("`", "").replace("'", "’") for metric in own_metrics()]
    assert [row for row in rows if row not in scores] == []
    tutorial = (site / "tutorial" / "mmlu_from_scratch.html").read_text(encoding="utf-8")
    assert "<math" in tutorial
    assert 'src="http' not in tutorial  # a page loads nothing from elsewhere
    assert "_static/site.css" in (site / "cli.html").read_text(encoding="utf-8")  # it wraps lines that were clipped
