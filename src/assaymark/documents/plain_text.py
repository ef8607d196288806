"""Text from models, data sets and servers, made safe for where it is shown: a terminal, CSV, LaTeX, Markdown.

Such text is data. It must not steer a terminal, run as a formula in a spreadsheet, or become markup of a document.
What is not printable is shown as an escape, never dropped, so that a reader sees that it was there.
"""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from html import escape

# C0 and C1 control characters but tab and newline, the bidirectional controls that reorder what is read
# (Unicode TR36, "Trojan Source"), and lone surrogates, which no terminal's encoding has
_NOT_PRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # OWASP, "CSV injection"
_TEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "–": "--", "<": r"\textless{}", ">": r"\textgreater{}",
        "\n": " "}  # fmt: skip
_MARKDOWN = re.compile(r"([\\|*`~#\[\]]|(?<!\w)_|_(?!\w))")


def printable(text: str) -> str:
    r"""Return text with control characters as escapes such as `\x1b`; tabs and newlines stay."""
    return escape_unprintable(text, lambda code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def escape_unprintable(text: str, escaped: Callable[[int], str]) -> str:
    """Return text in which `escaped(code point)` stands for each character that is not printable."""
    return _NOT_PRINTABLE.sub(lambda match: escaped(ord(match[0])), text)


def csv_lines(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield the lines of a CSV file, the names first; an apostrophe stands before a text that were a formula."""
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _csv_cell(value) if isinstance(value, str) else value for name, value in row.items()})
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


def _csv_cell(text: str) -> str:
    cell = printable(text)
    return f"'{cell}" if cell.startswith(_FORMULA_STARTS) else cell


def html_text(text: str) -> str:
    """Return text that HTML, and XML such as SVG, shows as it is."""
    return escape(printable(text))


def latex_inline(text: str) -> str:
    """Return text that LaTeX typesets as it is, in one line."""
    return "".join(_TEX.get(character, character) for character in printable(text))


def markdown_inline(text: str) -> str:
    """Return text that Markdown shows as it is, in one line; an underscore within a word is not markup."""
    return _MARKDOWN.sub(r"\\\1", escape(" ".join(printable(text).split()), quote=False))


def shortened_apart(names: Collection[str], longest: int) -> dict[str, str]:
    """Return names of at most `longest` characters, cut where that leaves different names different, if it can.

    Of the places where the cut (an ellipsis) may be, the end is tried first, then from two thirds of the name on.
    """
    cut: dict[str, str] = {}
    for tail in (0, longest // 3, longest // 2, (2 * longest) // 3, longest - 2):
        head = longest - 1 - tail
        cut = {name: name if len(name) <= longest else f"{name[:head]}…{name[len(name) - tail :]}" for name in names}
        if len(set(cut.values())) == len(cut):
            break
    return cut
