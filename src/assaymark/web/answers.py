"""Answers of models as safe HTML: Markdown with tables, coloured code and mathematics as MathML.

A model's text is untrusted. Raw HTML stays text, images are dropped, links lead to http, https and mailto only, and the
HTML made from Markdown passes an allow-list. MathML is added afterwards: it is rebuilt from a list of known elements
and attributes, and replaces an unguessable placeholder. Texts that are too long for this stay plain text.
"""

import html
import re
from collections.abc import Sequence
from secrets import token_hex
from xml.etree.ElementTree import Element

import nh3
from latex2mathml.converter import convert_to_element
from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup, escape
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from assaymark.documents.plain_text import printable
from assaymark.web.security import TAGS

LONGEST_ANSWER = 100_000  # characters; a longer one is shown as it is
LONGEST_CODE = 20_000  # characters of one block that is coloured
LONGEST_FORMULA = 1_000  # characters
MOST_FORMULAS = 200
LANGUAGES = frozenset({
    "bash", "c", "console", "cpp", "c++", "csharp", "c#", "css", "diff", "go", "haskell", "html", "java", "javascript",
    "js", "json", "jsx", "kotlin", "latex", "lua", "makefile", "matlab", "perl", "php", "py", "python", "python3", "r",
    "ruby", "rust", "scala", "sh", "shell", "sql", "swift", "tex", "toml", "ts", "tsx", "typescript", "xml", "yaml",
})  # fmt: skip
CLASSES = frozenset(name for name in STANDARD_TYPES.values() if name)
ELEMENTS = frozenset({
    "math", "menclose", "mfenced", "mfrac", "mi", "mmultiscripts", "mn", "mo", "mover", "mpadded", "mphantom", "mroot",
    "mrow", "mspace", "msqrt", "mstyle", "msub", "msubsup", "msup", "mtable", "mtd", "mtext", "mtr", "munder",
    "munderover",
})  # fmt: skip
ATTRIBUTES = frozenset({
    "accent", "columnalign", "columnlines", "columnspacing", "depth", "display", "displaystyle", "fence", "form",
    "height", "linethickness", "lspace", "mathsize", "mathvariant", "maxsize", "minsize", "movablelimits", "notation",
    "rowlines", "rowspacing", "rspace", "scriptlevel", "separator", "stretchy", "symmetric", "voffset", "width",
})  # fmt: skip
DISPLAYED = frozenset({"math_block", "math_block_label", "math_block_eqno", "math_inline_double"})


def answer_html(text: str) -> Markup:
    """Return an answer as HTML that is safe on our pages; empty for an empty answer."""
    readable = printable(text.replace("\r\n", "\n"))  # some models end lines as Windows does
    if len(readable) > LONGEST_ANSWER:
        return Markup("<pre>{}</pre>").format(readable)
    reader = _reader()
    try:
        tokens = reader.parse(readable)
        mark, formulas = token_hex(12), list[Markup]()
        _replace_formulas(tokens, mark, formulas)
        html = reader.renderer.render(tokens, reader.options, {})
    except RecursionError:
        return Markup("<pre>{}</pre>").format(readable)
    clean = nh3.clean(
        re.sub(r"<(/?)h[1-6]>", r"<\1h3>", html),  # below the heading that names the answer
        tags=TAGS | {"span", "s"},
        attributes={"a": {"href", "title"}, "th": {"align"}, "td": {"align"}, "ol": {"start"}, "pre": {"tabindex"}},
        allowed_classes={"span": set(CLASSES), "pre": {"code"}},
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer nofollow",
    )
    whole = re.sub(rf"{mark}-(\d+)-", lambda match: str(formulas[int(match[1])]), clean)
    return Markup(whole)  # noqa: S704 - it has passed the allow-list, and formulas were built from another one


def _reader() -> MarkdownIt:
    """Return a reader of Markdown; two threads must not share one."""
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True})
    reader.enable(["table", "strikethrough"]).disable("image")
    reader.inline.ruler.before("escape", "bracket_math", _bracket_math)
    interrupts = ["paragraph", "blockquote", "list"]
    reader.block.ruler.before("fence", "bracket_math_block", _bracket_math_block, {"alt": interrupts})
    reader.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    reader.add_render_rule("fence", _fence)
    reader.add_render_rule("code_block", _fence)
    return reader


def _bracket_math(state: StateInline, silent: bool) -> bool:
    r"""Read `\(formula\)` and, in the middle of a text, `\[formula\]` and `$$formula$$`."""
    ends = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
    begin = state.src[state.pos : state.pos + 2]
    end = state.src.find(ends[begin], state.pos + 2, state.pos + 2 + LONGEST_FORMULA) if begin in ends else -1
    if end <= state.pos + 2 or end + 2 > state.posMax:
        return False
    if not silent:
        token = state.push("math_inline" if begin == "\\(" else "math_inline_double", "math", 0)
        token.content = state.src[state.pos + 2 : end]
    state.pos = end + 2
    return True


def _bracket_math_block(state: StateBlock, start: int, end_line: int, silent: bool) -> bool:
    r"""Read `\[formula\]` over one or more whole lines."""
    begin = state.bMarks[start] + state.tShift[start]
    end = state.src.find("\\]", begin + 2, begin + 2 + LONGEST_FORMULA) if state.src.startswith("\\[", begin) else -1
    if end < 0:
        return False
    line = next((number for number in range(start, end_line) if state.eMarks[number] > end), None)
    if line is None or state.src[end + 2 : state.eMarks[line]].strip():
        return False
    if not silent:
        token = state.push("math_block", "math", 0)
        token.block, token.content, token.map = True, state.src[begin + 2 : end], [start, line + 1]
        state.line = line + 1
    return True


def _fence(_renderer: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
    token = tokens[index]
    code = _coloured(token.content, token.info.strip().partition(" ")[0])
    return f'<pre class="code" tabindex="0"><code>{code}</code></pre>\n'


def _coloured(code: str, language: str) -> str:
    """Return code as HTML, coloured where its language is one of ours and it is not too long."""
    if language.lower() not in LANGUAGES or len(code) > LONGEST_CODE:
        return str(escape(code))
    lexer = get_lexer_by_name(language.lower(), stripnl=False)
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def _replace_formulas(tokens: Sequence[Token], mark: str, formulas: list[Markup]) -> None:
    """Replace each formula by a placeholder and collect the formulas."""
    for token in tokens:
        if token.type.startswith("math_"):
            formulas.append(_formula(token.content, is_block=token.type in DISPLAYED, n_before=len(formulas)))
            # as text, which the renderer escapes; a block is a paragraph of its own
            is_inline = token.type.startswith("math_inline")
            token.type, token.tag = ("text", "") if is_inline else ("html_block", "")
            token.content = f"{mark}-{len(formulas) - 1}-" if is_inline else f"<p>{mark}-{len(formulas) - 1}-</p>\n"
            token.children = None
        elif token.children:
            _replace_formulas(token.children, mark, formulas)
        elif (aligned := str(token.attrs.pop("style", ""))).startswith("text-align:"):  # of a table's cell
            token.attrs["align"] = aligned.removeprefix("text-align:")


def _formula(latex: str, *, is_block: bool, n_before: int) -> Markup:
    """Return a formula as MathML, or its source where that cannot be made."""
    source = Markup("<code>{}</code>").format(latex)
    if len(latex) > LONGEST_FORMULA or n_before >= MOST_FORMULAS:
        return source
    try:
        return _built(convert_to_element(latex.strip(), display="block" if is_block else "inline"))
    except Exception:  # noqa: BLE001 - whatever the converter raises, the source is shown
        return source


def _built(element: Element) -> Markup:
    """Rebuild a MathML element from known elements and attributes. Raises: ValueError for an unknown element."""
    name = element.tag
    if name not in ELEMENTS:
        raise ValueError(name)
    known = {key: value for key, value in element.attrib.items() if key in ATTRIBUTES}
    attributes = Markup("").join(Markup(' {}="{}"').format(key, value) for key, value in known.items())
    inner = Markup("").join(_built(child) for child in element)
    return Markup("<{0}{1}>{2}{3}</{0}>").format(Markup(name), attributes, html.unescape(element.text or ""), inner)  # noqa: S704 - one of ours
