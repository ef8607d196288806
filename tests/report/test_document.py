"""A run as a document that stands alone."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

from evalstone.errors import UsageError
from evalstone.report.document import METHOD, as_html, as_markdown, document_of, write_document
from tests.report.made import estimate_of
from tests.report.test_tables import full_view, view_of


class Reader(HTMLParser):
    """Reads a page, noting tags left open and anything fetched from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.n_rows = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an opened tag."""
        self.n_rows += tag == "tr"
        self.fetched += [str(value) for name, value in attrs if name in {"src", "href"}]
        if tag not in {"meta", "line", "circle"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag that closes itself needs no note."""

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost tag is the one that closes."""
        assert self.open.pop() == tag


def test_the_html_is_whole_and_fetches_nothing() -> None:
    """Every tag closes, nothing is loaded from elsewhere, and there is one row per line of the table."""
    document = document_of(full_view())
    reader = Reader()
    reader.feed(as_html(document))
    assert reader.open == []
    assert reader.fetched == []
    assert reader.n_rows == len(document.rows) + 1


def test_names_are_escaped() -> None:
    """A model's name cannot bring markup into the page."""
    page = as_html(document_of(view_of("<script>alert(1)</script>", estimate_of("t<b>", 0.5))))
    assert "<script>" not in page
    assert "t<b>" not in page


def test_markdown_says_the_same_numbers() -> None:
    """Headline, table, notes and the method text stand in the Markdown too."""
    text = as_markdown(document_of(full_view()))
    assert text.startswith("# model\n")
    assert "mmlu 30.0% (25.0–35.0)" in text
    assert "| arc_challenge | acc | 25.0% | 20.0–30.0 | 1,172 | 25.0% |" in text
    assert "12 ties for the best choice" in text
    assert METHOD in text


def test_tasks_not_above_chance_are_named() -> None:
    """Tasks whose interval reaches down to chance are listed, the lowest first, and no others."""
    view = view_of("m", estimate_of("good", 0.6), estimate_of("bad", 0.2), estimate_of("even", 0.26))
    text = as_markdown(document_of(view))
    listed = text.partition("## Closest to chance or below")[2].partition("## Method")[0]
    assert [line.split(":")[0] for line in listed.split("\n") if line.startswith("- ")] == ["- bad", "- even"]


def test_the_ending_decides_the_format(tmp_path: Path) -> None:
    """A file ending in .html or .md is written in a folder made for it; anything else is refused."""
    assert write_document(tmp_path / "new" / "report.html", full_view()).read_text().startswith("<!doctype html>")
    assert write_document(tmp_path / "report.md", full_view()).read_text().startswith("# model")
    with pytest.raises(UsageError, match=r"expected \.html or \.md"):
        write_document(tmp_path / "report.docx", full_view())
