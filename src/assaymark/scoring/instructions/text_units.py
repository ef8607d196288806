"""Count words and tokens, and detect the language of a text, for instruction checks.

IFEval's reference code finds words by a regular expression, tokens with NLTK, the language with langdetect. Tokens here
follow the same published Penn Treebank conventions where they affect whether a token is in capitals.
"""

import re

from assaymark.errors import MissingExtra
from assaymark.scoring.instructions.punkt import split_sentences

_WORD = re.compile(r"\w+")


def count_words(text: str) -> int:
    """Return the number of runs of letters, digits and underscores."""
    return len(_WORD.findall(text))


_CLITICS = (
    re.compile(r"(?<=[^' ])('[sSmMdD]|')(?= )"),
    re.compile(r"(?<=[^' ])('ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(?= )"),
)
_SEPARATE = re.compile(r"[;@#$%&?!*\[\](){}<>«»“”‘’„`\"]|\.{2,}|--|[\u2012-\u2015]|''")
_COLON_OR_COMMA = re.compile(r"[:,](?!\d)")
_OPENING_QUOTES = re.compile(r"^\"|(?<=[ (\[{<])(?:\"|'')")
_OPENING_QUOTE = re.compile(r"(?i)(?<!\w)'(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)")
_LAST_STOP = re.compile(r"(?<=[^.])\.(?=[\])}>\"'»”’ ]*+\s*$)")
_JOINED = re.compile(r"(?i)\b(?:(can)(not)|(gim|lem)(me)|(gon|wan)(na)|(got)(ta)|(d)('ye)|(more)('n))\b")


def count_capital_tokens(text: str) -> int:
    """Return how many tokens have letters, all of them capital.

    Tokens are those of the Penn Treebank as far as it matters: punctuation and clitics are separate (DON'T is two
    tokens in capitals, DO and N'T, and I'm one, I), hyphens and slashes join.
    """
    return sum(token.isupper() for sentence in split_sentences(text) for token in _tokens(sentence))


def _tokens(sentence: str) -> list[str]:
    spaced = _OPENING_QUOTE.sub("' ", _OPENING_QUOTES.sub(" `` ", sentence))
    spaced = _LAST_STOP.sub(" . ", spaced)
    spaced = _SEPARATE.sub(lambda match: f" {match.group(0)} ", spaced)
    spaced = _COLON_OR_COMMA.sub(lambda match: f" {match.group(0)} ", spaced)
    spaced = " " + re.sub(r"\s+", " ", spaced) + " "
    for clitics in _CLITICS:
        spaced = clitics.sub(r" \1", spaced)
    spaced = _JOINED.sub(lambda match: " ".join(group for group in match.groups() if group), spaced)
    return spaced.split()


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
