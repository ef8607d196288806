"""Compare texts without regard to how they are typed, and numbers as numbers.

Only what cannot carry meaning is ignored: case, Unicode's several spellings of one character, typographic quotes,
dashes and spaces, emphasis around the whole text, and sentence marks at its end. A sign, a decimal point or comma, `+`,
`#`, `%` and a unit stay: 15 is not 1.5, C is not C++, 50 is not 50%.

Source: Unicode Standard Annex 15 (normalisation forms), section 3.13 of the Unicode Standard (caseless matching).
"""

import re
import unicodedata
from decimal import Decimal
from fractions import Fraction
from html import unescape
from typing import Literal

EqualBy = Literal["text", "case", "typography", "number"]
NearMiss = Literal["among words", "part", "notation"]

_TYPED = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛ʼʹ′`´＇", "'"),
        **dict.fromkeys("“”„‟″«»「」『』《》〝〞", '"'),
        **dict.fromkeys("‐‑‒–—―−﹘﹣－", "-"),
        **dict.fromkeys("\u00ad\u061c\u200b\u200e\u200f\u2060\ufeff\ufe0e\ufe0f"
                        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"),  # marks without width
        **dict.fromkeys("⁄∕", "/"),
        **dict.fromkeys("。．｡٫", "."), **dict.fromkeys("，、､﹐٬", ","), "¿": None, "¡": None,
    }
)  # fmt: skip
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ"
_JOINED = re.compile("[\u3371-\u33df¼½¾⅐-⅞↉]")  # units and fractions in one character
_POWER = re.compile(f"[{_RAISED}]+")
_UNRAISED = str.maketrans(_RAISED, "0123456789+-n")
_EAST = r"\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"  # scripts written without spaces
_SPACE = re.compile(
    rf"\s+(?=[{_EAST}])|(?<=[{_EAST}])\s+"
    r"|(?<=[^\W\d])\s+(?=\d)|(?<=\d)\s+(?=[^\W\d])"  # 5 km
    r"|\s+(?=[^\w\s.])|(?<=[^\w\s.,])\s+|(?<=[^\d],)\s+|(?<=,)\s+(?!\d)"  # - 5, 50 %, a, b
)
_WRAPPED = re.compile(r"""(\*\*|\*|["']|\$)(?![\s*"'$])((?:(?!\1).)+)\1""", re.DOTALL)
_LATEX = re.compile(  # around the whole text
    r"\\\(((?:(?!\\\)).)+)\\\)|\\\[((?:(?!\\\]).)+)\\\]|\$\$([^$]+)\$\$|\\(?:boxed|text)\{((?:[^{}]|\{[^{}]*\})+)\}",
    re.DOTALL,
)
_FRACTION = re.compile(r"([+-]?\d{1,9})/(\d{1,9})|([+-]?)\\[dt]?frac\{(\d{1,9})\}\{(\d{1,9})\}")
_SYMBOLS = {
    "times": "×", "cdot": "×", "div": "/", "pm": "±", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠",
    "approx": "≈", "infty": "∞", "sqrt": "√", "circ": "°", "degree": "°", "left": "", "right": "", "quad": " ",
    "pi": "π", "theta": "θ", "alpha": "α", "beta": "β", "gamma": "γ", "lambda": "λ", "mu": "μ", "sigma": "σ",
}  # fmt: skip
_NOTATIONS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\[dt]?frac\{([^{}]+)\}\{([^{}]+)\}", r"\1/\2"),
        (r"\\(?:text|mathrm|sqrt)\s*\{([^{}]+)\}", lambda match: match[1] if match[0][1] != "s" else f"√{match[1]}"),
        (r"\\([%$#&_])", r"\1"),
        (r"\\[,;:! ]", ""),
        (r"\^\s*\\(?:circ|degree)", "°"),
        (r"([_^])\{([^{}]+)\}", r"\1\2"),
        (r"(?<=[^\W\d_])_(?=\d)", ""),
        (r"(?<=\d)\s*(?:percent|per cent|pct)\b", "%"),
        (r"\A([+-]?[\d.,' ]*\d)\s*([€$£¥₹])\Z", r"\2\1"),
    )
)
_LETTER = re.compile(r"\(?([^\W\d_])\)")
_BULLET = re.compile(r"\A(?:[-*]\s+(?=[^\W\d_]{2})|•\s*)")
_END = re.compile(  # `5!` and `n!` are factorials, `cd ..` is a folder
    r"(?:(?<=[^\s./\\])\.+|\s+\.{3,}|(?<=\S),|\s*[;:?]|(?<![\d)!])(?<!\b[^\W\d_])\s*!+)+\Z"
)
_GROUPED = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?|\d{1,3}(?:[ ']\d{3})+(?:[.,]\d+)?"
_EUROPEAN = r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?|\d{1,3}(?:\.\d{3})+,\d+"
_SIMPLE = r"\d*[.,]\d+|\d+"
_NUMBER = re.compile(
    rf"(?P<before>[^\w.,+-]*)(?P<sign>[+-]?)(?P<digits>{_GROUPED}|{_EUROPEAN}|{_SIMPLE})"
    r"(?:[eE](?P<exponent>[+-]?\d{1,4})(?!\w)|[x×*·⋅]10\^\{?(?P<power>[+-]?\d{1,4})\}?)?(?P<after>(?![\d.,]).*)",
    re.DOTALL,
)
_CASE_OF_UNIT = re.compile(
    r"\d\s*(?:([mM])(?:Wh?|V|Ah?|Hz|J|N|Pa|eV|Ω|bar)|(?:[MGTP]|[KMGT]i)([bB])(?:ps|/s)?)(?![^\W\d])"
)
LONGEST_END = 100  # characters of sentence marks
LONGEST = 1000  # characters of a text that may be a number


def canonical(text: str) -> str:
    """Return a text with each character in one spelling: Unicode's form C."""
    return unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """Return a text without regard to case, in form C."""
    return canonical(canonical(text).casefold().replace("i\u0307", "i"))  # Turkish capital I with a dot


def plain_text(text: str, *, ignore_case: bool = True) -> str:
    """Return a text as `equal_by` compares it."""
    text = _JOINED.sub(_in_parts, canonical(text)).translate(_TYPED)
    text = _POWER.sub(lambda match: f"^{match[0].translate(_UNRAISED)}", text)  # x² is not x2
    text = unicodedata.normalize("NFKC", text).translate(_TYPED)
    text = folded(text) if ignore_case else text
    text = _SPACE.sub("", _BULLET.sub("", " ".join(text.split())))
    text = re.sub(r",\s+", ",", text) if re.search(r"[(\[{]", text) else text  # [1, 2], but not 1, 2 and 1,2
    while (shorter := _shorter(text)) not in ("", text):
        text = shorter
    return text


def _in_parts(match: re.Match[str]) -> str:
    """Return the characters of a unit or fraction: m² of \u33a1 (which is not m2), and 1/2 after a space."""
    kind, *codes = unicodedata.decomposition(match[0]).split()
    return (" " if kind == "<fraction>" else "") + "".join(chr(int(code, 16)) for code in codes)


def _shorter(text: str) -> str:
    """Return a text without the marks at its end and one pair of marks around it."""
    if (letter := _LETTER.fullmatch(text)) is not None:  # (C)
        return letter[1]
    wrapped = _WRAPPED.fullmatch(text) or _LATEX.fullmatch(text)
    inner = wrapped[wrapped.lastindex or 0] if wrapped else text
    return (inner[:-LONGEST_END] + _END.sub("", inner[-LONGEST_END:])).strip()


def equal_by(answer: str, reference: str, *, ignore_case: bool = True) -> EqualBy | None:
    """Return the differences to ignore so that two texts are the same answer; None where they are not."""
    if answer == reference:
        return "text"
    if ignore_case and _differ_in_unit(answer, reference):
        return None
    if ignore_case and folded(answer) == folded(reference):
        return "case"
    first, second = (plain_text(text, ignore_case=ignore_case) for text in (answer, reference))
    if first == second:
        return "typography"
    quantity = _quantity(first)
    return "number" if quantity is not None and quantity == _quantity(second) else None


def _differ_in_unit(answer: str, reference: str) -> bool:
    """Return whether two texts have units that case alone tells apart: mW and MW, Mb and MB; "5 mb" may be either."""
    first, second = (_CASE_OF_UNIT.search(unicodedata.normalize("NFKC", text)) for text in (answer, reference))
    return first is not None and second is not None and any(
        one and other and one != other for one, other in zip(first.groups(), second.groups(), strict=True)
    )  # fmt: skip


def near_miss(answer: str, reference: str, *, ignore_case: bool = True) -> NearMiss | None:
    """Return why a wrong answer may not be meant as one, which is said beside the score; None for others.

    "among words": it has the reference among other words; "part": the reference has it among other words, as
    `Paris;Lutetia` and `2+3=5 #### 5` do; "notation": both are one value, such as 1/2 and 0.5, 50% and 0.5, 2π in LaTeX
    and without, €5 and 5 €.
    """
    if is_among_words(reference, answer, ignore_case=ignore_case):
        return "among words"
    if is_among_words(answer, reference, ignore_case=ignore_case):
        return "part"
    first, second = (_quantity(plain_text(text)) for text in (answer, reference))
    units = [each[0] + each[2] for each in (first, second) if each]
    if first and second and first[1] == second[1] and "" in units and re.fullmatch(r"\S{1,5}", "".join(units)):
        return "among words" if units[0] else "part"  # 50% for 50, 50 for 50%
    value = _value_of(answer)
    if value is not None and value == _value_of(reference):
        return "notation"
    return "notation" if equal_by(_in_one_notation(answer), _in_one_notation(reference)) is not None else None


def _in_one_notation(text: str) -> str:
    """Return a text with LaTeX's commands, a web page's codes, words for % and places of currencies in one notation."""
    plain = plain_text(unescape(text)) if len(text) <= LONGEST else ""
    for pattern, replacement in _NOTATIONS:
        plain = pattern.sub(replacement, plain)
    return re.sub(r"\\([a-z]+)\s*", lambda match: _SYMBOLS.get(match[1], match[0]), plain)


def _value_of(text: str) -> Fraction | None:
    """Return the value of a number, a fraction or a percentage; None for other texts."""
    plain = plain_text(text)
    if (match := _FRACTION.fullmatch(plain)) is not None:
        above, below = (match[1], match[2]) if match[1] else (match[3] + match[4], match[5])
        return Fraction(int(above), int(below)) if int(below) else None
    quantity = _quantity(plain)
    if quantity is None or quantity[0] or quantity[2] not in ("", "%") or abs(quantity[1].adjusted()) > LONGEST:
        return None
    return Fraction(quantity[1]) / (100 if quantity[2] else 1)


def is_among_words(reference: str, answer: str, *, ignore_case: bool = True) -> bool:
    """Return whether an answer has the reference among other words, such as Paris in "It is Paris, of course."."""
    answer, reference = (" ".join(canonical(text).translate(_TYPED).split()) for text in (answer, reference))
    if ignore_case:
        answer, reference = folded(answer), folded(reference)
    if len(reference) < 2 and not reference.isdecimal():  # a letter may be an article
        return False
    return re.search(rf"(?<![\w.,+-]){re.escape(reference)}(?![\w%]|[.,]\d)", answer) is not None


def number_of(text: str) -> Decimal | None:
    """Return the number that a text is, with thousands in groups or without; None where it is none.

    1,5 is one and a half; 1,500 is a thousand and a half: one comma before three digits separates thousands, unless the
    number begins with 0.
    """
    quantity = _quantity(plain_text(text))
    return None if quantity is None or quantity[0] or quantity[2] else quantity[1]


def _quantity(text: str) -> tuple[str, Decimal, str] | None:
    """Split a text into what stands before a number (`$`), the number, and its unit (`km`); None for other texts."""
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        return None
    digits = match["digits"]
    if re.fullmatch(r"0\d+", digits):  # 007 is no number
        return None
    if re.fullmatch(_EUROPEAN, digits):
        digits = digits.replace(".", "").replace(",", ".")
    elif re.fullmatch(_GROUPED, digits) and not digits.startswith("0"):
        in_spaces = re.search("[ ']", digits) is not None  # so that a comma is the decimal one
        digits = re.sub("[ ']", "", digits).replace(",", "." if in_spaces else "")
    power = int(match["exponent"] or match["power"] or 0)
    number = Decimal(f"{match['sign']}{digits.replace(',', '.')}E{power}")  # exact, of any length
    return match["before"], number, match["after"]
