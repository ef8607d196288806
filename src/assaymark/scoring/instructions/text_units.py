"""Count words, tokens and sentences, and detect the language of a text, for instruction checks.

IFEval's reference code finds words by a regular expression, tokens and sentences with NLTK, the language with
langdetect. Tokens here follow the same published Penn Treebank conventions where they affect whether a token is in
capitals. Sentences are split by a rule of our own, since Punkt's model is not distributed on the package index:
after . ? or ! (with closing quotes or brackets) before white space, but not after an abbreviation, an initial or a
number of a list, and not where a quotation is followed by its "she said".
"""

import re

from assaymark.errors import MissingExtra

_WORD = re.compile(r"\w+")

_ABBREVIATIONS = frozenset(
    [
        *("mr", "mrs", "ms", "dr", "prof", "st", "mt", "jr", "sr", "rev", "hon", "gen", "col", "capt", "lt", "sgt"),
        *("inc", "ltd", "co", "corp", "vs", "etc", "eg", "ie", "e.g", "i.e", "cf", "al", "no", "vol", "fig", "pp"),
        *("a.m", "p.m", "u.s", "u.k", "u.n", "d.c", "ph.d", "b.c", "a.d", "jan", "feb", "mar", "apr", "jun", "jul"),
        *("aug", "sep", "sept", "oct", "nov", "dec", "ave", "blvd", "rd", "dept", "est", "approx", "min", "max"),
    ]
)
_ENDS_ANYWAY = frozenset(
    ["etc", "inc", "ltd", "co", "corp", "a.m", "p.m", "u.s", "u.k", "u.n", "jr", "sr", "ph.d", "d.c"]
)
_END = re.compile(r"(?<=[.?!…])[\"'”’)\]*_]*\s+")
_LAST_WORD = re.compile(r"([\w.]+)\.[\"'”’)\]*_]*$")


def count_words(text: str) -> int:
    """Return the number of runs of letters, digits and underscores."""
    return len(_WORD.findall(text))


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, stripped.

    As in Punkt, line breaks inside a sentence are ordinary white space.
    """
    sentences = []
    start = 0
    for match in _END.finditer(text):
        before, after = text[start : match.start()].rstrip(), text[match.end() :]
        quoted = match.group(0)[:1] in "\"'”’)]" and after[:1].islower()
        if before and after and not quoted and _is_end(before, after):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    rest = text[start:].strip()
    return [*sentences, rest] if rest else sentences


def _is_end(before: str, after: str) -> bool:
    """Return whether a full stop between these two ends a sentence."""
    match = _LAST_WORD.search(before)
    if not match:
        return True  # ? or !, or a full stop after something that is no word
    word = match.group(1).lower().strip(".")
    starts_new = not after[0].islower()
    if word in _ABBREVIATIONS:
        return starts_new and word in _ENDS_ANYWAY
    is_initial = len(word) == 1 and word.isalpha() and word != "i" and match.group(1)[0].isupper()
    is_list_number = word.isdigit() and len(before.split()) == 1  # "1. First": the number belongs to what follows
    return starts_new and not is_initial and not is_list_number


def count_sentences(text: str) -> int:
    """Return the number of sentences by `split_sentences`."""
    return len(split_sentences(text))


_CLITICS = re.compile(r"(?<=[^' ])('S|'M|'D|'LL|'RE|'VE|N'T|')(?= )")
_SEPARATE = re.compile(r"[;@#$%&?!*\[\](){}<>«»“”‘’„`\"]|\.{2,}|--|[\u2012-\u2015]|''")
_COLON_OR_COMMA = re.compile(r"[:,](?!\d)")
_OPENING_QUOTE = re.compile(r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)")
_JOINED = re.compile(r"\b(CAN)(NOT)\b|\b(GIM|LEM)(ME)\b|\b(GON|WAN)(NA)\b|\b(GOT)(TA)\b")


def count_capital_tokens(text: str) -> int:
    """Return how many tokens have letters, all of them capital.

    Tokens are those of the Penn Treebank as far as it matters: punctuation and clitics are separate (DON'T is two
    tokens in capitals: DO, N'T), hyphens and slashes join.
    """
    spaced = _SEPARATE.sub(lambda match: f" {match.group(0)} ", _OPENING_QUOTE.sub("' ", text))
    spaced = _COLON_OR_COMMA.sub(lambda match: f" {match.group(0)} ", spaced)
    spaced = _CLITICS.sub(r" \1", " " + re.sub(r"\s+", " ", spaced) + " ")
    spaced = _JOINED.sub(lambda match: " ".join(group for group in match.groups() if group), spaced)
    return sum(token.isupper() for token in spaced.split())


def language_probabilities(text: str) -> dict[str, float]:
    """Return the probability of each likely language by langdetect's code; empty where the text has no features.

    Raises: MissingExtra without the package langdetect.
    """
    try:
        from langdetect import DetectorFactory, LangDetectException, detect_langs
    except ImportError as error:
        raise MissingExtra("telling the language of a text", "metrics") from error
    DetectorFactory.seed = 0  # by default every call is random
    try:
        return {str(language.lang): float(language.prob) for language in detect_langs(text)}
    except LangDetectException:
        return {}


def detect_language(text: str) -> str | None:
    """Return the ISO 639-1 code by langdetect, deterministically; None where the text has no features.

    Raises: MissingExtra without the package langdetect.
    """
    try:
        from langdetect import DetectorFactory, LangDetectException, detect
    except ImportError as error:
        raise MissingExtra("checking an answer's language", "metrics") from error
    DetectorFactory.seed = 0  # by default every call is random
    try:
        return str(detect(text))
    except LangDetectException:
        return None
