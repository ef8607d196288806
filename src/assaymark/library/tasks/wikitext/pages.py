"""WikiText pages as they were written: its space-separated tokens joined again, and the three ways to count them.

The order of the replacements matters and is the field's (the detokenizer that Megatron-LM's WikiText-103 numbers rest
on); words and bytes are counted on the page as stored, before any of this.
"""

import re

PLAIN, PATTERN = "plain", "pattern"
STEPS: tuple[tuple[str, str, str], ...] = (
    (PLAIN, "s '", "s'"),  # plural possessive
    (PATTERN, r"/' [0-9]/", r"/'[0-9]/"),  # never matches in practice; kept, because published numbers hold it
    (PLAIN, " @-@ ", "-"),
    (PLAIN, " @,@ ", ","),
    (PLAIN, " @.@ ", "."),
    *((PLAIN, f" {mark} ", f"{mark} ") for mark in ":;.!?,"),
    (PATTERN, r"\(\s*([^\)]*?)\s*\)", r"(\1)"),
    (PATTERN, r"\[\s*([^\]]*?)\s*\]", r"[\1]"),
    (PATTERN, r"{\s*([^}]*?)\s*}", r"{\1}"),
    (PATTERN, r"\"\s*([^\"]*?)\s*\"", r'"\1"'),
    (PATTERN, r"'\s*([^']*?)\s*'", r"'\1'"),
    (PLAIN, "= = = =", "===="),
    (PLAIN, "= = =", "==="),
    (PLAIN, "= =", "=="),
    (PLAIN, " ° ", "°"),
    (PLAIN, " \n", "\n"),
    (PLAIN, "\n ", "\n"),
    (PLAIN, " N ", " 1 "),
    (PLAIN, " 's", "'s"),
)


def detokenized(row: dict) -> str:
    """Return the page as running text."""
    text = row["page"]
    for kind, old, new in STEPS:
        text = text.replace(old, new) if kind is PLAIN else re.sub(old, new, text)
    return text


def process_results(doc: dict, results: list) -> dict[str, tuple[float, int]]:
    """Return each metric as (log-likelihood in nats, how many words or bytes it is shared among)."""
    (log_likelihood,) = results
    n_words = len(re.split(r"\s+", doc["page"]))
    n_bytes = len(doc["page"].encode())
    return {
        "word_perplexity": (log_likelihood, n_words),
        "byte_perplexity": (log_likelihood, n_bytes),
        "bits_per_byte": (log_likelihood, n_bytes),
    }
