"""A sample is shown by every writer: its note, what changed in its prompt, what was picked and what is right."""

from assaymark.documents.blocks import Example, ExampleChoice, Piece
from assaymark.documents.document import document
from assaymark.documents.html import html_blocks
from assaymark.documents.markdown import markdown_text
from assaymark.documents.terminal import as_text

EXAMPLE = Example(
    "capitals 3",
    (Piece("The capital "), Piece("of", "removed"), Piece("<in>", "added"), Piece(" France", "changed")),
    (ExampleChoice("Paris", "-1.50", is_picked=False, is_gold=True), ExampleChoice("Rome", "≤ -9.00", True, False)),
    (("first answered", "Paris"),),
    note="wrong  acc 0",
    mark="worse",
)


def test_a_terminal_shows_changes_by_signs() -> None:
    """Where there are no colours, removed and added text has brackets, and each choice says what it is."""
    assert as_text(document(EXAMPLE), 60).splitlines() == [
        " capitals 3  wrong  acc 0",
        "   The capital [-of-]{+<in>+} France",
        "   right     -1.50  Paris",
        "   picked  ≤ -9.00  Rome",
        "   first answered: Paris",
    ]


def test_a_page_shows_changes_by_elements() -> None:
    """HTML has del, ins and mark with escaped text, and the note's colour."""
    page = html_blocks([EXAMPLE])
    assert "<pre>The capital <del>of</del><ins>&lt;in&gt;</ins><mark> France</mark></pre>" in page
    assert '<h4>capitals 3 <span class="worse">wrong  acc 0</span></h4>' in page
    assert '<span class="worse">picked</span></td><td>≤ -9.00</td>' in page


def test_markdown_shows_changes_by_signs() -> None:
    """Markdown quotes the prompt with brackets, and marks the choices."""
    assert markdown_text([EXAMPLE]).split("\n\n") == [
        "**capitals 3** wrong acc 0",
        "    The capital [-of-]{+<in>+} France",
        "- -1.50 Paris (**right**)\n- ≤ -9.00 Rome (**picked**)",
        "**first answered:** Paris\n",
    ]


def test_an_example_without_prompt_has_no_empty_box() -> None:
    """A conversation has its messages as lines."""
    talk = Example("talk 0", lines=(("user", "Hi"), ("model", "Hello")), note="2 turns")
    assert "<pre>" not in html_blocks([talk])
    assert as_text(document(talk), 60).splitlines() == [" talk 0  2 turns", "   user: Hi", "   model: Hello"]
