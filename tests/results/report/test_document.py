"""Reports as documents: HTML, Markdown and PDF, of one run and of several."""

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from assaymark.documents import charts
from assaymark.documents.blocks import Bullets, Example, Figure, Heading, Paragraph
from assaymark.documents.charts import can_draw
from assaymark.documents.numbers import shown_value
from assaymark.documents.pdf import find_browser
from assaymark.errors import UsageError
from assaymark.models.fake import FakeModel
from assaymark.results.evidence.from_store import save_summary
from assaymark.results.report.contents import ReportContents, report_contents
from assaymark.results.report.document import CHARTS_MISSING, document_blocks, write_document
from assaymark.results.views.cells import table_rows
from assaymark.runs.execute import execute
from assaymark.runs.plan import RunOptions, prepare
from assaymark.store import Store
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog

TASKS = ("demo_letters", "demo_yesno", "demo_stories")
LIMIT = 40


class Reader(HTMLParser):
    """Parses a page, recording unclosed tags and anything fetched from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record an opened tag."""
        self.tags.append(tag)
        self.fetched += [str(value) for name, value in attrs if name in {"src", "href", "xlink:href"}]
        if tag not in {"meta", "wbr"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Ignore a self-closing tag."""

    def handle_endtag(self, tag: str) -> None:
        """Check that the innermost tag is the one that closes."""
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return a store for the runs of this file."""
    with Store.open(str(tmp_path_factory.mktemp("report") / "store.sqlite")) as opened:
        yield opened


def run(store: Store, names: tuple[str, ...], accuracy: float) -> str:
    """Answer demo tasks with the fake model, summarise, and return the run's id."""
    model = FakeModel(mode="gold", accuracy=accuracy)
    selection = Catalog.open(lm_eval=False).select(names)
    prepared = prepare(selection, model, RunOptions(bind=BindOptions(limit=LIMIT)))
    run_id = execute(prepared, model, store).run_id
    save_summary(store, run_id, selection, prepared.bound, bootstrap_iters=0)
    return run_id


@pytest.fixture(scope="module")
def one(store: Store) -> ReportContents:
    """Return the contents of a report of one run."""
    return report_contents(store, [run(store, TASKS, 0.9)])


@pytest.fixture(scope="module")
def two(store: Store) -> ReportContents:
    """Return the contents of a report of two runs, the second one much worse."""
    return report_contents(store, [run(store, TASKS, 0.9), run(store, TASKS, 0.3)])


def page_of(contents: ReportContents, tmp_path: Path) -> str:
    """Return a report's HTML."""
    return write_document(tmp_path / "report.html", contents).read_text()


@pytest.mark.parametrize("which", ["one", "two"])
def test_the_html_is_well_formed_and_fetches_nothing(
    which: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Every tag closes, there is no script, and nothing is loaded from elsewhere."""
    reader = Reader()
    reader.feed(page_of(request.getfixturevalue(which), tmp_path))
    assert reader.open == []
    assert reader.fetched == []
    assert "script" not in reader.tags
    assert "table" in reader.tags
    assert ("svg" in reader.tags) == can_draw()


def test_names_are_escaped(one: ReportContents, tmp_path: Path) -> None:
    """A model's name cannot bring markup into the page, nor into the Markdown."""
    named = replace(one, views=(replace(one.views[0], label="<script>alert(1)</script>|*"),))
    assert "<script>" not in page_of(named, tmp_path)
    text = write_document(tmp_path / "report.md", named).read_text()
    assert "<script>" not in text
    assert text.startswith("# &lt;script&gt;alert(1)&lt;/script&gt;\\|\\*\n")


def test_html_and_markdown_have_every_number_of_the_table(one: ReportContents, tmp_path: Path) -> None:
    """Each value of the run is in both formats."""
    page, text = page_of(one, tmp_path), write_document(tmp_path / "report.md", one).read_text()
    rows = [row for row in table_rows(one.views) if row.metric and row.any_cell is not None]
    assert len(rows) > 5
    for row in rows:
        cell = row.any_cell
        assert cell is not None
        result = shown_value(cell.value, proportion=cell.details["unit"] == "proportion")
        assert f">{result}<" in page
        assert f"| {result} |" in text


def test_markdown_links_the_charts_in_its_folder(two: ReportContents, tmp_path: Path) -> None:
    """Every image of the text is a file in the folder, and every file there is shown."""
    if not can_draw():
        pytest.skip("the extra 'charts' is not installed")
    text = write_document(tmp_path / "report.md", two).read_text()
    results = set(re.findall(r"\]\((report_charts/[^)]+)\)", text))
    assert results == {f"report_charts/{file.name}" for file in (tmp_path / "report_charts").iterdir()}
    assert {"values", "differences-1", "calibration"} <= {Path(name).stem for name in results}


def test_two_runs_begin_with_the_verdict_and_show_what_changed(two: ReportContents) -> None:
    """The verdict is at the top, and the examples are samples that only the first run answered correctly."""
    blocks = document_blocks(two)
    assert two.comparison is not None
    verdicts = [block.text for block in blocks if isinstance(block, Paragraph) and block.role == "verdict"]
    assert verdicts == [two.comparison.pairs[0].verdict]
    assert Heading("What changed") in blocks
    lost = {f"{flip.task}, sample {flip.second_index}" for flip in two.comparison.pairs[0].flips if not flip.is_better}
    examples = [block for block in blocks if isinstance(block, Example)]
    assert examples
    assert {example.title.partition(", confidence")[0] for example in examples} <= lost
    for example in examples:
        (picked,) = [choice for choice in example.choices if choice.is_picked]
        assert not picked.is_gold


def test_a_single_run_shows_its_errors(one: ReportContents) -> None:
    """The examples of a single run are wrong answers only."""
    examples = [block for block in document_blocks(one) if isinstance(block, Example)]
    assert examples
    for example in examples:
        assert not any(choice.is_picked and choice.is_gold for choice in example.choices)


@pytest.mark.parametrize("which", ["one", "two"])
def test_the_method_cites_what_was_used_and_nothing_else(which: str, request: pytest.FixtureRequest) -> None:
    """Every mark has its reference, in order of citation, and tests are described only if there were any."""
    blocks = document_blocks(request.getfixturevalue(which))
    (references,) = [block.items for block in blocks if isinstance(block, Bullets) and block.role == "references"]
    start = blocks.index(Heading("Method"))
    text = " ".join(block.text for block in blocks[start:] if isinstance(block, Paragraph) and block.role == "text")
    cited = [int(number) for mark in re.findall(r"\[([\d, ]+)\]", text) for number in mark.split(",")]
    assert list(dict.fromkeys(cited)) == list(range(1, len(references) + 1))
    assert ("McNemar" in text) == (which == "two")
    assert "Wilson" in text


def test_runs_without_a_task_in_common_are_shown_side_by_side(store: Store) -> None:
    """If runs cannot be compared, the report gives the reason, and both runs' numbers."""
    contents = report_contents(store, [run(store, ("demo_yesno",), 0.9), run(store, ("demo_stories",), 0.9)])
    blocks = document_blocks(contents)
    assert contents.comparison is None
    texts = [block.text for block in blocks if isinstance(block, Paragraph) and block.text.startswith("Not compared")]
    assert len(texts) == 1
    assert "no task in common" in texts[0]


def test_a_run_is_named_once(store: Store) -> None:
    """Naming the same run twice raises an error."""
    run_id = run(store, ("demo_yesno",), 0.9)
    with pytest.raises(UsageError, match="named twice"):
        report_contents(store, [run_id, run_id])


def test_without_the_extra_a_report_has_no_charts_and_says_so(
    one: ReportContents, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without altair the report is written without charts, with the line that installs it."""
    monkeypatch.setattr(charts, "find_spec", lambda name: None)
    blocks = document_blocks(one)
    assert not [block for block in blocks if isinstance(block, Figure)]
    assert blocks[-1] == Paragraph(CHARTS_MISSING, "facts")
    assert "pip install &#x27;.[charts]&#x27;" in page_of(one, tmp_path)


def test_limitations_mention_a_limit_on_samples(one: ReportContents) -> None:
    """The report of a run on the first samples only states what that means."""
    blocks = document_blocks(one)
    limits = blocks[blocks.index(Heading("Limitations")) + 1]
    assert isinstance(limits, Bullets)
    assert any("Only the first samples" in line for line in limits.items)


def test_the_ending_decides_the_format(one: ReportContents, tmp_path: Path) -> None:
    """A file ending in .html or .md is written, its folder created; another ending is refused."""
    assert write_document(tmp_path / "new" / "report.html", one).read_text().startswith("<!doctype html>")
    assert write_document(tmp_path / "report.md", one).read_text().startswith("# ")
    with pytest.raises(UsageError, match=r"expected \.html, \.md or \.pdf"):
        write_document(tmp_path / "report.docx", one)


@pytest.mark.slow
def test_a_pdf_is_printed_if_there_is_a_browser(one: ReportContents, tmp_path: Path) -> None:
    """The file is a PDF with more than an empty page."""
    if find_browser() is None:
        pytest.skip("no browser that prints is installed")
    printed = write_document(tmp_path / "report.pdf", one).read_bytes()
    assert printed.startswith(b"%PDF-")
    assert len(printed) > 10_000
    n_sections = sum(isinstance(block, Heading) and block.level == 2 for block in document_blocks(one))
    n_pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert n_pages >= n_sections > 3  # each begins a page


def test_without_a_browser_the_message_has_a_remedy(
    one: ReportContents, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the missing browser and an alternative."""
    monkeypatch.setenv("ASSAYMARK_BROWSER", "/nowhere/browser")
    with pytest.raises(UsageError, match=r"'/nowhere/browser', which is not a program; .*write report\.html"):
        write_document(tmp_path / "report.pdf", one)


def test_failed_requests_are_words(one: ReportContents, tmp_path: Path) -> None:
    """A reader of a report has no legend: failures beside a value are counted in words, in every format."""
    view = one.views[0]
    broken = replace(view, estimates=tuple(replace(each, n_failed=3) for each in view.estimates))
    for ending in ("html", "md"):
        text = write_document(tmp_path / f"r.{ending}", replace(one, views=(broken,))).read_text()
        assert "(3 failed)" in text
        assert " !3" not in text
