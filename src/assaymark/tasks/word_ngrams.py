"""Words of a text and the n-grams of words by which copies of a benchmark's rows are found.

Words are runs of letters and digits in lower case, so that punctuation and line breaks do not hide a copy.
"""

import re
from collections.abc import Iterator, Sequence

NGRAM_WORDS = 13  # GPT-3's length
_WORD = re.compile(r"[^\W_]+")


def plain_words(text: str) -> list[str]:
    """Return the words of a text, in order."""
    return _WORD.findall(text.lower())


def ngrams(words: Sequence[str], n: int = NGRAM_WORDS) -> Iterator[int]:
    """Yield a number for each n words in a row. It holds within this process only: never store it.

    Source: Brown et al. 2020 (GPT-3), appendix C.
    """
    for start in range(len(words) - n + 1):
        yield hash(tuple(words[start : start + n]))
