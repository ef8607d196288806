"""Answers of models as HTML: Markdown, code, tables and mathematics; nothing of a stranger's runs or loads."""

import re
import time

import nh3
import pytest

from assaymark.web.answers import ATTRIBUTES, ELEMENTS, LONGEST_ANSWER, answer_html


def test_markdown_tables_code_and_mathematics() -> None:
    """Headings, lists, tables, coloured code and formulas in each of the four delimiters become elements."""
    made = answer_html(
        "# Title\n\n- one\n- **two**\n\n|a|b|\n|-|-:|\n|1|2|\n\n```python\ndef f(): return 1 < 2\n```\n\n"
        "$x^2$, \\(y_1\\) and\n\n$$\\frac{a}{b}$$\n\n\\[\n\\sum_i i\n\\]\n"
    )
    assert "<h3>Title</h3>" in made
    assert "<li><strong>two</strong></li>" in made
    assert ">2</td>" in made
    assert '<span class="k">def</span>' in made
    assert "1</span> <span" in made
    assert "&lt;" in made
    assert made.count("<math ") == 4
    assert made.count('display="block"') == 2
    assert "<mfrac><mrow><mi>a</mi></mrow><mrow><mi>b</mi></mrow></mfrac>" in made
    assert "<munder><mo>∑</mo><mi>i</mi></munder>" in made or "<msub><mo>∑</mo><mi>i</mi></msub>" in made


def test_prices_are_no_formulas_and_lines_stay() -> None:
    """Two dollars in a sentence are prices, and a line break that a model wrote is one on the page."""
    made = answer_html("It costs $5 or $6.\nNot more.")
    assert made == "<p>It costs $5 or $6.<br>\nNot more.</p>\n"


def test_ends_of_lines_may_be_those_of_windows() -> None:
    """The same text with either kind of line end is the same HTML."""
    text = "# Title\n\n|a|\n|-|\n|1|\n\n```python\nx = 1\n```\n"
    assert answer_html(text.replace("\n", "\r\n")) == answer_html(text)


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1)) [y](data:text/html,<script>)",
        "![x](https://example.com/i.png)",
        "$\\text{<img src=x onerror=alert(1)>}$",
        "$\\href{javascript:alert(1)}{x}$ $\\style{background:url(//e)}{x}$",
        '```"><script>alert(1)</script>\nx\n```',
        "```html\n<img src=x onerror=alert(1)>\n```",
        "$</math><script>alert(1)</script>$",
        "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>",
        "[a]: javascript:alert(1)\n\n[a]",
        '<https://example.com/"onclick=alert(1)>',
    ],
)
def test_nothing_of_an_answer_runs_or_loads(hostile: str) -> None:
    """No script, image, style, event or foreign scheme is in the HTML, and an allow-list changes nothing in it."""
    made = str(answer_html(hostile))
    tags = {name.lower() for name in re.findall(r"<\s*([A-Za-z]+)", made)}
    assert tags <= ELEMENTS | {"p", "pre", "code", "span", "a", "br"}
    assert not re.search(r"<[^>]*(?:\son\w+=|src=|style=|javascript:|data:)", made)
    known = {name: set(ATTRIBUTES) for name in ELEMENTS}
    known |= {"a": {"href", "title", "rel"}, "pre": {"class", "tabindex"}, "span": {"class"}}
    again = nh3.clean(made, tags=set(nh3.ALLOWED_TAGS) | set(ELEMENTS), link_rel=None, attributes=known)
    assert sorted(re.findall(r"<\w+", again)) == sorted(re.findall(r"<\w+", made))


def test_a_formula_that_cannot_be_read_is_shown_as_written() -> None:
    """Also one that is too long; the text around it stays."""
    assert "<code>" + "x" * 1001 + "</code>" in answer_html(f"a ${'x' * 1001}$ b")
    assert "<math" in answer_html("$\\alpha$")


def test_control_characters_are_escapes() -> None:
    """A character that reorders or hides text is shown, as everywhere on our pages."""
    assert "\\u202e" in answer_html("a \u202e b")


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    ["[", "*a ", "$", "$a", "`", "**_", "[a](<", "\\(", "\\[\n", "|a", ">", "- ", "\\(a\\) ", "$\\frac{1}{2}$ "],
)
def test_no_answer_takes_long(piece: str) -> None:
    """An answer of the greatest length that is read takes seconds at most, whatever it repeats."""
    started = time.process_time()
    answer_html((piece * LONGEST_ANSWER)[:LONGEST_ANSWER])
    assert time.process_time() - started < 10


def test_a_longer_answer_is_text() -> None:
    """What is too long to be read as Markdown is shown as it was written."""
    assert answer_html("*a* " * LONGEST_ANSWER) == f"<pre>{'*a* ' * LONGEST_ANSWER}</pre>"
